"""The settings of ``%config OdpsMagics`` as a value.

Progress is also shown for plain Python calls: `current_options` finds the loaded magics through
IPython, so that no state is kept here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from odps_nb.terms import TextMode

if TYPE_CHECKING:
    from odps_nb.notebook.magics.magics import OdpsMagics

PROGRESS_MODES = ("auto", "html", "text", "none")
TEXT_MODES = tuple(mode.value for mode in TextMode)
RESULT_TYPES = ("pandas", "arrow", "spark", "batches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings, unchanging; ``max_output_bytes`` limits one output."""

    result_type: str = "pandas"
    limit: int | None = None
    ask_above: int | None = 256 * 1024 * 1024
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
    """Return the present settings; the defaults if the magics are not loaded."""
    magics = loaded_magics()
    return Options() if magics is None else magics.options()
