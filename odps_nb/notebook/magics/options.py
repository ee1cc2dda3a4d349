"""What ``%config OdpsMagics`` sets, as a value.

Cards and lines are also made for plain Python calls, outside any magic; `current_options` finds
the loaded magics through IPython and so needs no state of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odps_nb.notebook.magics.magics import OdpsMagics

__all__ = ["PROGRESS_MODES", "RESULT_TYPES", "Options", "current_options", "loaded_magics"]

PROGRESS_MODES = ("auto", "html", "text", "none")
RESULT_TYPES = ("pandas", "arrow", "spark", "batches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings at one moment; ``max_output_bytes`` bounds one output, in bytes."""

    result_type: str = "pandas"
    limit: int | None = None
    progress: str = "auto"
    refresh_hz: float = 5.0
    max_output_bytes: int = 2 * 1024 * 1024
    preview_rows: int = 10
    traceback: bool = False


def loaded_magics() -> OdpsMagics | None:
    """Return the magics of the running IPython, or ``None`` outside of it or before load_ext."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        return None
    return shell.magics_manager.registry.get("OdpsMagics")  # type: ignore[no-any-return]


def current_options() -> Options:
    """Return what ``%config OdpsMagics`` says now; the defaults where nothing is loaded."""
    magics = loaded_magics()
    return Options() if magics is None else magics.options()
