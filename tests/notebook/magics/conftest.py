"""A shell with our magics, connected to the service of this run."""

from __future__ import annotations

import pytest

from odps_nb import load_ipython_extension


@pytest.fixture
def ip(shell, odps):
    """A shell with the magics, connected to the service of this run."""
    load_ipython_extension(shell)
    shell.user_ns["odps"] = odps
    magics = shell.magics_manager.registry["OdpsMagics"]
    magics.context.use(odps, owned=False)
    return shell
