"""Limits, checks and counts batches on their way to the consumer."""

from __future__ import annotations

from collections.abc import Generator

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
from odps_nb.terms import format_bytes
from odps_nb.wire.calls.errors import is_time_overflow

Batches = Generator[pa.RecordBatch, None, None]


def delivered(
    batches: Batches,
    tracker: ProgressTracker | None,
    *,
    what: str = "",
    rows: int | None = None,
    limit: int | None = None,
    max_bytes: int | None = None,
) -> Batches:
    """Hand over batches, and close their generator in the end.

    ``limit`` rows end it; without a limit exactly ``rows`` must come, where they are known. It
    raises before the batches hold more than ``max_bytes`` together. While reading, the tracker
    counts the rows that arrived, of all splits; at the end it gets those that were handed over.
    """
    before, found, size = tracker.rows if tracker is not None else 0, 0, 0
    try:
        while limit is None or found < limit:
            batch = next(batches, None)
            if batch is None:
                break
            if limit is not None and batch.num_rows > limit - found:
                batch = batch.slice(0, limit - found)
            if max_bytes is not None:
                size += batch.nbytes
                if size > max_bytes:
                    raise LimitExceededError(
                        f"the rows need more than {format_bytes(max_bytes)}",
                        limit=max_bytes,
                        actual=size,
                        hint="take fewer columns, partitions or rows, or pass a larger max_bytes",
                    )
            found += batch.num_rows
            yield batch
    finally:
        batches.close()
        if tracker is not None:
            tracker.correct_rows(before + found)
    if limit is None and rows is not None and found != rows:
        raise TruncatedError(
            f"{found} rows of {what} arrived, but its snapshot has {rows}",
            expected=rows,
            actual=found,
        )


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
