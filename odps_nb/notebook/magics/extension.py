"""Implements ``%load_ext odps_nb`` and ``%unload_ext odps_nb``.

Loading prints nothing, is idempotent, and defines no variables. Unloading removes the magics,
completion, help and error hook, and stops their threads.
"""

from __future__ import annotations

from typing import Any

__all__ = ["load", "unload"]


def load(ipython: Any) -> None:
    """Install the magics, completion and error hook in this IPython."""
    if "OdpsMagics" in ipython.magics_manager.registry:
        return
    from odps_nb.notebook.magics import sidebar  # noqa: F401  JupyterLab asks for it by its name
    from odps_nb.notebook.magics.magics import OdpsMagics

    magics = OdpsMagics(ipython)
    magics.install()


def unload(ipython: Any) -> None:
    """Remove what `load` installed, and close the connection that the magics opened."""
    magics = ipython.magics_manager.registry.get("OdpsMagics")
    if magics is not None:
        magics.uninstall()
