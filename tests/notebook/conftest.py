"""A real InteractiveShell that captures its outputs, for tests of magics and cards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from odps_nb.notebook.progress.cards import CardListener
from tests.support.samples import SampleBlob, media
from tests.support.service.connecting import connected
from tests.support.spark.watched import misbehave

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.local.server.launch import LocalService


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    """A new shell, which get_ipython() returns; it keeps its outputs."""
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
        CardListener._loops.clear()  # a loop's card ends with its cell, and some tests run no cell
        InteractiveShell.clear_instance()


@pytest.fixture
def shown(shell: InteractiveShell) -> list[dict[str, Any]]:
    """The outputs of the shell so far, as messages with data, metadata, transient and update."""
    outputs: list[dict[str, Any]] = shell.display_pub.outputs
    return outputs


@pytest.fixture(scope="session")
def sample_blobs() -> tuple[SampleBlob | None, ...]:
    """The files of the sample table `media`, as a null and blobs."""
    return media()


# Stalls after some batches of a split of `orders`; the service sends 1 MiB at a time. The position
# is behind the first batch of a read of all columns, and before the end of the smallest bodies
# (those of a profile, which have less than 9 MB).
STALL = {"action": "TableRead", "fault": "stall", "at": 5_000_000, "seconds": 600, "times": 0}


@pytest.fixture(scope="session")
def faulty(services: str, _private_home: None) -> Iterator[LocalService]:
    """A service with samples that stalls on request."""
    from odps_nb.local.server.launch import start

    with start(options=("--misbehave",)) as service:
        yield service


@pytest.fixture(scope="session")
def faulty_odps(faulty: LocalService) -> Iterator[Connection]:
    """A connection to `faulty`."""
    with connected(faulty) as odps:
        yield odps


@pytest.fixture
def stalled(faulty_odps: Connection) -> Iterator[Callable[[], None]]:
    """Make `faulty` stall in the middle of every split until this is called or the test ends."""

    misbehave(faulty_odps, STALL)
    yield partial(misbehave, faulty_odps)
    misbehave(faulty_odps)
