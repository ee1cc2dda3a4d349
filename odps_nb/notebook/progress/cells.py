"""Calls a function at the end of each notebook cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def after_cell(call: Callable[[BaseException | None], None]) -> Callable[[], None]:
    """Call a function after every cell, with the error of the cell, if any.

    It is called in the cell's own thread while the cell still counts as running, so that what it
    displays or replaces is saved with the cell. Returns a function that unregisters it. Outside
    of IPython it is never called.
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
