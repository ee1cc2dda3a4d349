"""Displays and replaces MIME bundles in cells, and calls functions at the end of a cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def show(bundle: Mapping[str, str], *, display_id: str | None = None) -> None:
    """Display a MIME bundle in the current cell; with ``display_id``, `replace` can update it."""
    from IPython.display import display

    known = {} if display_id is None else {"display_id": display_id}
    display(dict(bundle), raw=True, **known)  # type: ignore[no-untyped-call]  # untyped in IPython


def replace(bundle: Mapping[str, str], *, display_id: str) -> None:
    """Replace the output that `show` displayed under ``display_id``, in any cell."""
    from IPython.display import update_display

    update_display(  # type: ignore[no-untyped-call]  # untyped in IPython
        dict(bundle), raw=True, display_id=display_id
    )


def close_widget(widget: Any) -> None:
    """Remove a widget from the browser and from the kernel's widget list.

    Also closes its layout and style, which are widgets themselves and would stay on the list.
    """
    parts = [getattr(widget, name, None) for name in ("layout", "style")]
    for item in (widget, *(part for part in parts if part is not None)):
        item.close()


def after_cell(call: Callable[[BaseException | None], None]) -> Callable[[], None]:
    """Call a function at the end of each cell, with the cell's error or ``None``.

    Return a function that unregisters it. The call runs in the cell's thread while the cell is
    still running, so any output that it displays or replaces is saved with the cell.
    """
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        return lambda: None
    events = shell.events

    def ended(result: Any) -> None:
        call(result.error_in_exec)

    def remove() -> None:
        if ended in events.callbacks["post_run_cell"]:
            events.unregister("post_run_cell", ended)

    events.register("post_run_cell", ended)
    return remove
