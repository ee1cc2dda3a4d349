"""Shows progress in a terminal as a tqdm line on stderr.

Without tqdm (extra ``notebook``), or when stderr is not a terminal, nothing is shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from odps_nb.client.calls.progress import ProgressSnapshot, ProgressTracker
from odps_nb.errors import visible
from odps_nb.notebook.magics.options import Options, current_options
from odps_nb.notebook.magics.status import record
from odps_nb.notebook.progress import words
from odps_nb.notebook.progress.flusher import SHOW_AFTER, Flusher


class LineListener:
    """Shows one operation as a tqdm line; the final line stays and says how it ended.

    Parameters
    ----------
    file
        Where to write, by default ``sys.stderr``; only a terminal gets a line.
    delay
        Seconds before the line appears; an operation that ends sooner has none.
    """

    def __init__(
        self,
        *,
        file: TextIO | None = None,
        options: Options | None = None,
        delay: float = SHOW_AFTER,
        on_cancel: Callable[[], None] | None = None,
    ) -> None:
        self._file = file if file is not None else sys.stderr
        self._options = options or current_options()
        self._delay, self._on_cancel = delay, on_cancel
        self._tracker: ProgressTracker | None = None
        self._final: ProgressSnapshot | None = None
        self._flusher: Flusher | None = None
        self._bar: Any = None

    def start(self, tracker: ProgressTracker) -> None:
        """Start to show progress, after ``delay`` seconds."""
        self._tracker = tracker
        record(tracker, cancel=self._on_cancel)
        make_bar = _bar_factory() if self._options.progress != "none" else None
        if make_bar is None or not self._file.isatty():
            return
        self._make_bar = make_bar
        self._flusher = Flusher(
            self._draw, self._draw_end, hz=self._options.refresh_hz, delay=self._delay
        )
        self._flusher.start()

    def stop(self, snapshot: ProgressSnapshot) -> None:
        """Show the final line, if a line was shown, and join the thread."""
        self._final = snapshot
        if self._flusher is not None:
            self._flusher.stop()

    def _draw(self) -> None:
        if self._tracker is None:
            return
        snapshot = self._tracker.snapshot()
        if self._bar is None:
            self._bar = self._make_bar(self._file, _what(snapshot))
        self._show(snapshot)

    def _draw_end(self) -> None:
        if self._final is not None:
            self._show(self._final)
        self._bar.close()

    def _show(self, snapshot: ProgressSnapshot) -> None:
        bar, now = self._bar, time.time()
        bar.start_t = now - snapshot.elapsed  # it was made later than the work began
        bar.total = snapshot.rows_total if snapshot.rows_total is not None else snapshot.items_total
        bar.n = snapshot.rows or snapshot.items
        bar.unit = " rows" if snapshot.rows or not snapshot.items else " blobs"
        bar.set_description_str(_what(snapshot), refresh=False)
        told = [text for text in words.figures(snapshot) if text.endswith("on the wire")]
        told += [f"{visible(one.name)[:40]} {words.sent(one)}" for one in snapshot.moving[:1]]
        bar.set_postfix_str(", ".join(told), refresh=False)
        bar.refresh()
        bar.last_print_t = now  # before `start_t`, tqdm takes it for never shown and ends no line


def _what(snapshot: ProgressSnapshot) -> str:
    """Return operation, title and state; tqdm adds the percentage."""
    state = words.ending(snapshot) if snapshot.phase.is_final else snapshot.phase.value
    return visible(f"{snapshot.operation} {snapshot.title}: {state}")


def _bar_factory() -> Callable[[TextIO, str], Any] | None:
    try:
        from tqdm import tqdm
    except ImportError:
        return None

    class Bar(tqdm):  # type: ignore[misc]  # tqdm ships no types
        monitor_interval = 0  # no monitor thread: the flusher already redraws at a steady pace

    def make(file: TextIO, what: str) -> Bar:
        return Bar(file=file, desc=what, unit=" rows", unit_scale=True, dynamic_ncols=True)

    return make
