"""The progress display of an operation: a card in a notebook, a line in a terminal, or none."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from odps_nb.client.calls.progress import Progress, ProgressListener, silent
from odps_nb.convert.loaded import loaded
from odps_nb.errors import ArgumentError

MakesListener = Callable[..., ProgressListener]
"""Creates the progress display of one operation; its stop button calls ``on_cancel``."""


def listener_of(*values: Progress, on_cancel: Callable[[], None] | None = None) -> ProgressListener:
    """Return the listener for the first ``progress=`` value that is not ``None``."""
    for value in values:
        if value is False:
            return silent
        if value is True:
            break
        if value is None:
            continue
        if not all(callable(getattr(value, name, None)) for name in ("start", "stop")):
            raise ArgumentError(
                f"progress is of type {type(value).__name__}",
                argument="progress",
                hint="pass False for no display, or an odps_nb.ProgressListener",
            )
        return value
    return default_listener(on_cancel=on_cancel)


def default_listener(*, on_cancel: Callable[[], None] | None = None) -> ProgressListener:
    """Return a listener that draws a card in a notebook, a line in a terminal, or nothing."""
    if in_kernel():
        from odps_nb.notebook.progress.cards import CardListener

        return CardListener(on_cancel=on_cancel)
    marimo: Any = loaded("marimo")
    if marimo is not None and marimo.running_in_notebook():
        from odps_nb.notebook.progress.spinner import SpinnerListener

        return SpinnerListener(on_cancel=on_cancel)
    if sys.stderr is not None and sys.stderr.isatty():
        from odps_nb.notebook.progress.line import LineListener

        return LineListener(on_cancel=on_cancel)
    return silent


def after_cell(call: Callable[[BaseException | None], None]) -> Callable[[], None]:
    """Call a function after each notebook cell, passing the cell's error or ``None``.

    Returns a function that unregisters ``call``.
    """
    if "IPython" not in sys.modules:
        return lambda: None
    from odps_nb.notebook.display.output import after_cell as register

    return register(call)


def in_kernel() -> bool:
    """Return whether this is the kernel of a notebook."""
    ipython: Any = loaded("IPython")  # always imported in a kernel
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None
