"""Reads splits one after another in the caller's thread, as long as that keeps it busy.

Where a connection brings rows as fast as this thread takes them (a service on this machine, a fast
line), more connections bring none, and cost requests, threads and a fight for the interpreter. How
fast one is shows with the first batches: by then the thread has worked, or waited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from odps_nb.client.read.resume import rows_of
from odps_nb.client.read.split_rows import SplitRows
from odps_nb.lifetime import Home
from odps_nb.terms import Split

__all__ = ["Rest", "read_alone"]

BUSY = 0.4
"""Share of the time that a busy thread works; the rest is the system's and other processes'."""
FIRST_WINDOW, WINDOW = 0.01, 0.25
"""Seconds over which that is judged: soon at the beginning, and without haste later on."""
LATE = 0.03
"""Seconds within which the first batch comes on a line that is near and fast."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Splits that are to be read by several connections; of the first, rows from ``row`` on."""

    splits: tuple[Split, ...] = ()
    row: int = 0


def read_alone(
    splits: Sequence[Split],
    open_split: Callable[[Split], SplitRows],
    divides: Callable[[Rest], bool],
    *,
    clock: Callable[[], float] = time.perf_counter,
    processor: Callable[[], float] = time.thread_time,
) -> Generator[pa.RecordBatch, None, Rest]:
    """Yield batches of the splits in order; return what is left once waiting takes over.

    Parameters
    ----------
    open_split
        Begins to read a split.
    divides
        Whether there is work for several connections in what is left.
    clock, processor
        Seconds that pass, and seconds that this thread works.
    """
    pace, home = _Pace(), Home()
    for place, split in enumerate(splits):
        rows = open_split(split)
        try:
            while True:
                began, before = clock(), processor()
                batch = next(rows, None)
                pace.record(clock() - began, processor() - before)
                if batch is None:
                    break
                yield batch  # the consumer's time is not counted
                home.require("this iteration")
                if not pace.waits or rows.next_row == rows_of(split):
                    continue
                rest = Rest(tuple(splits[place:]), rows.next_row)
                if divides(rest):
                    rows.leave()
                    return rest
        finally:
            rows.close()
        rest = Rest(tuple(splits[place + 1 :]))
        if pace.waits and rest.splits and divides(rest):
            return rest
    return Rest()


class _Pace:
    """Whether the time for batches goes into waiting, rather than into work."""

    def __init__(self) -> None:
        self.waits = False
        self._batches = 0
        self._seconds = self._worked = 0.0
        self._window = FIRST_WINDOW

    def record(self, seconds: float, worked: float) -> None:
        """Count one batch; the first has to wait for the service and only must not be late."""
        self._batches += 1
        if self._batches == 1:
            self.waits = seconds >= LATE
            return
        self._seconds, self._worked = self._seconds + seconds, self._worked + worked
        if self._seconds >= self._window:
            self.waits = self._worked < BUSY * self._seconds
            self._seconds = self._worked = 0.0
            self._window = WINDOW
