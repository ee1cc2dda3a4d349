"""Displays MIME bundles in the current cell, or in place of earlier ones, and tells its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def show(bundle: Mapping[str, str], *, display_id: str | None = None) -> None:
    """Display a MIME bundle in the current cell; with an id, `replace` can update it."""
    from IPython.display import display

    known = {} if display_id is None else {"display_id": display_id}
    display(dict(bundle), raw=True, **known)  # type: ignore[no-untyped-call]  # IPython's own


def replace(bundle: Mapping[str, str], *, display_id: str) -> None:
    """Replace what `show` displayed under ``display_id``, in whichever cell it is."""
    from IPython.display import update_display

    update_display(  # type: ignore[no-untyped-call]  # IPython's own
        dict(bundle), raw=True, display_id=display_id
    )


def close_widget(widget: Any) -> None:
    """Take a widget out of the browser and of the kernel's list of widgets.

    Its layout and style are widgets, too, and stay on that list when it is closed alone.
    """
    parts = [getattr(widget, name, None) for name in ("layout", "style")]
    for one in (widget, *(part for part in parts if part is not None)):
        one.close()


def after_cell(call: Callable[[BaseException | None], None]) -> Callable[[], None]:
    """Call a function after every cell with its error; return what unregisters it.

    It is called in the cell's own thread while the cell still counts as running, so that what it
    displays or replaces is saved with the cell.
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
