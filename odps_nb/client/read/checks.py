"""Filters, limits, checks and counts batches on their way to the consumer.

Each step takes a generator and closes it when it is closed itself.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import pyarrow as pa

from odps_nb.arrow.plain import FarTimeError
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.errors import (
    ConversionError,
    InvalidRequestError,
    LimitExceededError,
    OdpsNbError,
    TruncatedError,
)
from odps_nb.filters.row_filter import RowFilter
from odps_nb.terms import format_bytes
from odps_nb.wire.calls.errors import is_time_overflow

Batches = Generator[pa.RecordBatch, None, None]


@dataclass(frozen=True, slots=True)
class BatchFilter:
    """Applies the filter to batches of a split, and drops the columns that only it needs.

    The service leaves out whole blocks at most, so each row is tested. Progress counts the rows
    that are kept.
    """

    filter: RowFilter
    columns: int
    label: str
    tracker: ProgressTracker | None

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that the filter keeps; may be empty."""
        found = self.filter.apply(batch, self.columns)
        if self.tracker is not None and found.num_rows != batch.num_rows:
            self.tracker.add(split=self.label, rows=found.num_rows - batch.num_rows)
        return found

    def row_of(self, batch: pa.RecordBatch, kept: int) -> int:
        """Return the row of a batch that is the given one of those that the filter keeps."""
        return self.filter.rows(batch)[kept]


def whole(batches: Batches, rows: int | None, *, what: str) -> Batches:
    """Check at the end that exactly so many rows came; ``None`` checks nothing."""
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
    """Raise before the batches hold more than so many bytes together."""
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
    """Set the tracker's rows at the end to those that the consumer got.

    While reading, it counts the rows that arrived, of all splits. A limit, or a consumer that
    leaves early, takes fewer of them. Bytes are not changed.
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


def asks_for_micro(error: OdpsNbError) -> bool:
    """Whether a read in nanoseconds failed by a time that microseconds may hold."""
    if isinstance(error, InvalidRequestError):
        return is_time_overflow(f"{error.code} {error.message}")
    return isinstance(error, FarTimeError)


def refused_in_micro(error: OdpsNbError, what: str) -> ConversionError:
    """Return the error of a read that had microseconds already."""
    return ConversionError(
        f"the service cannot give a TIMESTAMP of {what} in microseconds either ({error.message})",
        source_type="timestamp",
        target_type="timestamp[us]",
        hint="leave the column out with columns=[…], or cast it to STRING by SQL",
    )
