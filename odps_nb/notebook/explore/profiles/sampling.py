"""Draws a random sample of the rows that match a filter, with limits on time and memory."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from odps_nb.access.paging.browsing import ReadRange, Rows
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.parallel.fan_out import Job, fan_out
from odps_nb.errors import CancelledError

SAMPLE_RANGES, LEAST_RANGE = 256, 125
"""Maximum number of ranges (one request each), and minimum rows of a range. Adjacent rows are often
similar, so an estimated share may deviate by the rows of two ranges."""
FILTERED_RANGES = 128
"""Maximum number of ranges with a filter, which needs several rounds of requests."""
SAMPLE_BYTES = 16 * 2**20
SAMPLE_SECONDS = 5.0
"""Maximum seconds to search for matching rows to profile."""
SAMPLERS = 8
ENOUGH_ROWS = 1000


@dataclass(slots=True)
class SampledRows:
    """Rows drawn for a profile.

    ``is_all``: whether no other rows match. ``is_random``: whether the rows were drawn at random;
    otherwise, they are the first ones. ``most`` limits the number of rows, and `SAMPLE_BYTES` their
    size.
    """

    most: int
    is_random: bool = True
    is_all: bool = False
    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    _bytes: int = 0
    _even: int = 0  # number of batches in complete rounds

    @property
    def is_full(self) -> bool:
        """Whether the sample accepts no more rows."""
        return self.rows >= self.most or self._bytes > SAMPLE_BYTES

    def add(self, batch: pa.RecordBatch) -> bool:
        """Add the rows of a batch; return whether all of them fit."""
        if not batch.num_rows:
            return True
        if self.is_full:
            return False
        part = batch.slice(0, self.most - self.rows)
        self.batches.append(part)
        self.rows += part.num_rows
        self._bytes += int(part.nbytes)
        return bool(part.num_rows == batch.num_rows)

    def end_round(self) -> None:
        """Mark the end of a round: the rows so far come evenly from all parts of the table."""
        self._even = len(self.batches)

    def drop_round(self) -> None:
        """Drop the rows of an incomplete round if the complete rounds have enough rows."""
        even = self.batches[: self._even]
        if (rows := sum(batch.num_rows for batch in even)) >= ENOUGH_ROWS:
            self.batches, self.rows = even, rows


def draw_sample(
    rows: Rows,
    where: str | None,
    most: int,
    seed: int | None,
    cancel: CancelToken,
    *,
    matching: Callable[[], int | None] = lambda: None,
) -> SampledRows:
    """Draw at most ``most`` rows that match a condition, spread over the whole table.

    A search for matching rows ends after `SAMPLE_SECONDS`. If rows cannot be read by number (for
    example with both a filter and a limit), the first rows are taken. ``matching`` returns the
    number of matching rows, if known. At most ``most`` matching rows are read from the start in a
    single pass, because this lets the service skip the most rows.
    """

    def are_few() -> bool:
        return where is not None and (known := matching()) is not None and known <= most

    numbered, were_few = rows.ranges(where), are_few()
    if numbered is None or were_few:
        first = _first_rows(rows, where, most, cancel)
        if numbered is None or first.is_all:
            return first
    sample = SampledRows(most)
    is_filtered = where is not None or rows.row_count is None
    is_late = True
    with bounded(SAMPLE_SECONDS if is_filtered else None, cancel) as token:
        parts = FILTERED_RANGES if is_filtered else SAMPLE_RANGES
        sample.is_all = _take_ranges(sample, *numbered, parts, seed, token)
        is_late = False
    if is_late:
        sample.drop_round()
    if not sample.is_all and not were_few and are_few():  # the count has arrived in the meantime
        first = _first_rows(rows, where, most, cancel)
        return first if first.is_all else sample
    return sample


def _take_ranges(
    sample: SampledRows,
    total: int,
    read: ReadRange,
    most: int,
    seed: int | None,
    token: CancelToken,
) -> bool:
    parts = RandomParts(total, sample.most, seed, most=most)
    while ranges := parts.take(sample.rows):
        if sample.is_full:
            return False
        jobs: Iterator[Job[pa.RecordBatch]] = (
            partial(read, start, count) for start, count in ranges
        )
        batches = fan_out(
            jobs,
            size=lambda batch: int(batch.nbytes),
            workers=SAMPLERS,
            max_bytes=SAMPLE_BYTES,
            cancel=token,
        )
        with closing(batches):
            for batch in batches:
                token.check()
                if not sample.add(batch):
                    return False
        token.check()
        sample.end_round()
    return True


def _first_rows(rows: Rows, where: str | None, most: int, cancel: CancelToken) -> SampledRows:
    sample = SampledRows(most, is_random=False)
    with bounded(SAMPLE_SECONDS, cancel) as token:
        with closing(rows.found(where, cancel=token)) as placed:
            for _, batch in placed:
                token.check()
                if not sample.add(batch):
                    return sample
        token.check()
        sample.is_all = True
    return sample


@contextmanager
def bounded(seconds: float | None, cancel: CancelToken) -> Iterator[CancelToken]:
    """Yield a token that is cancelled after ``seconds``; the block then ends without an error."""
    token = CancelToken(parent=cancel)
    timer = None if seconds is None else threading.Timer(seconds, token.cancel)
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        yield token
    except CancelledError:
        cancel.check()  # raises if the caller cancelled; otherwise, the time has run out
    finally:
        if timer is not None:
            timer.cancel()


class RandomParts:
    """Takes disjoint row ranges in rounds; each round covers every part of the table.

    Therefore, even a few rounds spread the rows over the whole table. The first round reads about
    ``sample`` rows. If too few of them match a filter, the size of the next round depends on the
    share of matching rows, but is at most 4 times the number of rows read so far. Ranges are in
    random order.
    """

    def __init__(
        self, total: int, sample: int, seed: int | None, *, most: int = SAMPLE_RANGES
    ) -> None:
        self._random, self._sample = random.Random(seed), sample
        count = min(most, max(1, min(total, sample) // LEAST_RANGE))
        bounds = [total * n // count for n in range(count + 1)]
        self._step = max(1, -(-total // count) if total <= sample else sample // count)
        self._least = max(1, self._step // 8)
        self._parts = [
            (low, high, self._random.randrange(low, max(low, high - self._step) + 1))
            for low, high in itertools.pairwise(bounds)
        ]
        self._done = 0

    def take(self, found: int) -> list[tuple[int, int]]:
        """Return the next ranges ``(start, rows)``; ``found`` is the number of matches so far."""
        if self._done:
            needed = 1.1 * self._done * (self._sample - found) / max(1, found)
            self._step = max(self._least, min(4 * self._done, int(needed)))
        ranges = [
            span for part in self._parts for span in _next_ranges(*part, self._done, self._step)
        ]
        self._done += self._step
        self._random.shuffle(ranges)
        return ranges


def _next_ranges(
    low: int, high: int, first: int, done: int, step: int
) -> Iterator[tuple[int, int]]:
    """Yield the next ranges of a part: from ``first`` to the part's end, then from its start."""
    count = min(step, high - low - done)
    start = first + done if first + done < high else first + done - (high - low)
    wrapped = max(0, start + count - high)  # rows to read from the start of the part
    if count > wrapped:
        yield start, count - wrapped
    if wrapped > 0:
        yield low, wrapped
