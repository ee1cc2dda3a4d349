"""What happens to batches on their last steps to the consumer.

Each step takes a generator and closes it when it is closed itself. Knows no session.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import pyarrow as pa

from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.errors import LimitExceededError, TruncatedError
from odps_nb.filters.row_filter import RowFilter
from odps_nb.terms import format_bytes

__all__ = ["BatchFilter", "Batches", "counted", "limited", "whole", "within"]

Batches = Generator[pa.RecordBatch, None, None]


@dataclass(frozen=True, slots=True)
class BatchFilter:
    """The rows of a split that a filter wants, and the columns that are given on.

    The service leaves out whole blocks at most, so each row is looked at. The counters count
    what is given on.
    """

    filter: RowFilter
    columns: int
    label: str
    tracker: ProgressTracker | None

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return what is wanted of a batch, perhaps nothing."""
        found = self.filter.apply(batch, self.columns)
        if self.tracker is not None and found.num_rows != batch.num_rows:
            self.tracker.add(split=self.label, rows=found.num_rows - batch.num_rows)
        return found


def whole(batches: Batches, rows: int | None, *, what: str) -> Batches:
    """Require so many rows at the end, where it is known how many there are.

    Raises
    ------
    TruncatedError
        It was another number.
    """
    found = 0
    try:
        for batch in batches:
            found += batch.num_rows
            yield batch
    finally:
        batches.close()
    if rows is not None and found != rows:
        raise TruncatedError(
            f"{found} rows of {what} arrived, but its snapshot has {rows}",
            expected=rows,
            actual=found,
        )


def limited(batches: Batches, limit: int) -> Batches:
    """Stop after so many rows."""
    left = limit
    try:
        while left > 0 and (batch := next(batches, None)) is not None:
            yield batch if batch.num_rows <= left else batch.slice(0, left)
            left -= batch.num_rows
    finally:
        batches.close()


def within(batches: Batches, max_bytes: int) -> Batches:
    """Stop before the batches hold more than so many bytes together.

    Raises
    ------
    LimitExceededError
        The next one would make it more.
    """
    total = 0
    try:
        for batch in batches:
            total += batch.nbytes
            if total > max_bytes:
                raise LimitExceededError(
                    f"the rows need more than {format_bytes(max_bytes)}",
                    limit=max_bytes,
                    actual=total,
                    hint="take fewer columns, partitions or rows, or allow more with max_bytes",
                )
            yield batch
    finally:
        batches.close()


def counted(batches: Batches, tracker: ProgressTracker | None) -> Batches:
    """Let the tracker end with the rows that were handed over.

    While rows come it counts those that came, of all splits: that is how far the work is. A
    limit, or a consumer that leaves, wants fewer of them. Bytes stay what they were.
    """
    before, handed = tracker.rows if tracker is not None else 0, 0
    try:
        for batch in batches:
            handed += batch.num_rows
            yield batch
    finally:
        batches.close()
        if tracker is not None:
            tracker.correct_rows(before + handed)
