"""A real InteractiveShell whose outputs are values, for tests of magics and cards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    """A fresh shell, the one that get_ipython() finds; it keeps what it displays."""
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config)
    shell.display_pub = CapturingDisplayPublisher(shell=shell)
    try:
        yield shell
    finally:
        registry = shell.magics_manager.registry
        if "OdpsMagics" in registry:
            registry["OdpsMagics"].uninstall()
        shell.restore_sys_module_state()
        InteractiveShell.clear_instance()


@pytest.fixture
def shown(shell: InteractiveShell) -> list[dict[str, Any]]:
    """What the shell displayed so far, as messages of data, metadata, transient and update."""
    outputs: list[dict[str, Any]] = shell.display_pub.outputs
    return outputs
