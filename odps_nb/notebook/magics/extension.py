"""``%load_ext odps_nb`` and ``%unload_ext odps_nb``.

Loading is silent, idempotent and puts nothing into the user's namespace. Unloading takes out
the magics, the completion, the help transformer and the error hook, and stops our threads.
"""

from __future__ import annotations

from typing import Any

__all__ = ["load", "unload"]


def load(ipython: Any) -> None:
    """Install the magics, completion and three-line errors into this IPython."""
    if "OdpsMagics" in ipython.magics_manager.registry:
        return
    from odps_nb.notebook.magics.magics import OdpsMagics

    magics = OdpsMagics(ipython)
    magics.install()


def unload(ipython: Any) -> None:
    """Take out what `load` put in, and close the connection that the magics opened."""
    magics = ipython.magics_manager.registry.get("OdpsMagics")
    if magics is not None:
        magics.uninstall()
