"""Shows progress in a terminal as a tqdm line on stderr.

Without tqdm (the ``notebook`` extra), or when stderr is not a terminal, nothing is shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TextIO

from odps_nb.client.calls.progress import ProgressSnapshot
from odps_nb.errors import visible
from odps_nb.notebook.progress import words
from odps_nb.notebook.progress.operations import SHOW_AFTER, Flusher, Options


class LineListener(Flusher):
    """Shows one operation as a tqdm line, by default on stderr; the final line stays."""

    def __init__(
        self,
        *,
        file: TextIO | None = None,
        options: Options | None = None,
        delay: float = SHOW_AFTER,
        on_cancel: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(options=options, delay=delay, on_cancel=on_cancel)
        self._file = file if file is not None else sys.stderr
        self._bar: Any = None

    def _is_shown(self) -> bool:
        return super()._is_shown() and self._file.isatty() and find_spec("tqdm") is not None

    def _draw(self, snapshot: ProgressSnapshot) -> None:
        if self._bar is None:
            self._bar = _bar(self._file, _what(snapshot))
        bar, now = self._bar, time.time()
        bar.start_t = now - snapshot.elapsed  # the bar is created after the work began
        bar.total = snapshot.rows_total if snapshot.rows_total is not None else snapshot.items_total
        bar.n = snapshot.rows or snapshot.items
        bar.unit = " rows" if snapshot.rows or not snapshot.items else " blobs"
        bar.set_description_str(_what(snapshot), refresh=False)
        postfix = words.sizes(snapshot)[:1]
        postfix += [f"{visible(item.name)[:40]} {words.sent(item)}" for item in snapshot.moving[:1]]
        bar.set_postfix_str(", ".join(postfix), refresh=False)
        bar.refresh()
        bar.last_print_t = now  # if earlier than `start_t`, tqdm prints no line end

    def _draw_end(self, snapshot: ProgressSnapshot) -> None:
        self._draw(snapshot)
        self._bar.close()


def _what(snapshot: ProgressSnapshot) -> str:
    """Return the operation, title and state; tqdm adds the percentage."""
    state = words.ending(snapshot) if snapshot.phase.is_final else snapshot.phase.value
    return visible(f"{snapshot.operation} {snapshot.title}: {state}")


def _bar(file: TextIO, what: str) -> Any:
    from tqdm import tqdm

    class TqdmBar(tqdm):  # type: ignore[misc]  # tqdm ships no types
        monitor_interval = 0  # no monitor thread: the flusher already redraws at a steady pace

    return TqdmBar(file=file, desc=what, unit=" rows", unit_scale=True, dynamic_ncols=True)
