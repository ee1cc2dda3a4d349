"""Chooses the sizes of a read's requests: splits, pieces of splits, and batches.

Half of the byte budget is for finished batches, the other half for batches being read by workers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from odps_nb.client.parallel.fan_out import DEFAULT_WORKERS
from odps_nb.client.read.plan import ReadSession
from odps_nb.schema import Column
from odps_nb.terms import RowRangeSplit, Split
from odps_nb.type_facts import TYPE_FACTS
from odps_nb.wire.calls import MAX_BATCH_BYTES, MIN_BATCH_BYTES

DEFAULT_BATCH_BYTES = 16 * 2**20
SMALL_BATCH_BYTES = 64 * 2**10
READ_WORKERS = 16
"""Number of splits to read concurrently; networks with slow connections need this many."""
WHOLE_BATCH_BYTES = 2 * 2**20
"""Minimum bytes of a batch when many splits are read concurrently."""
PIECE_BYTES = 8 * 2**20
"""Minimum bytes of a piece of a split."""
FEW_BYTES = 16
"""Assumed bytes of each variable-length value."""


def workers_for(asked: int | None, ahead: int) -> int:
    """Return how many splits to read concurrently so that one batch of each fits the budget."""
    return asked or max(DEFAULT_WORKERS, min(READ_WORKERS, ahead // (2 * WHOLE_BATCH_BYTES)))


def joined(splits: Sequence[Split]) -> tuple[Split, ...]:
    """Join row ranges with those that follow directly.

    Examples
    --------
    >>> [str(split) for split in joined([RowRangeSplit(0, 10), RowRangeSplit(10, 5)])]
    ['rows 0…15']
    """
    merged: list[Split] = []
    for split in splits:
        last = merged[-1] if merged else None
        if not (isinstance(split, RowRangeSplit) and isinstance(last, RowRangeSplit)):
            merged.append(split)
        elif last.offset + last.count == split.offset:
            merged[-1] = RowRangeSplit(last.offset, last.count + split.count)
        else:
            merged.append(split)
    return tuple(merged)


def piece_bytes(ahead: int, workers: int = READ_WORKERS) -> int:
    """Return a piece size in bytes, such that one piece per worker fits into the budget.

    With a single worker, splits stay whole, because extra requests would only add overhead.
    """
    return max(PIECE_BYTES, ahead // (2 * workers)) if workers > 1 else sys.maxsize


def row_bytes(session: ReadSession) -> float | None:
    """Estimate the bytes per row before any rows have arrived; ``None`` if unknown."""
    if not session.row_count or session.estimated_size is None or session.limit is not None:
        return None  # the service estimates the size of all rows, ignoring the limit
    estimate = session.estimated_size / session.row_count
    # The estimate may include unselected columns, which would make the pieces too small.
    return min(estimate, width_of(session.schema)) if session.selects else estimate


def width_of(columns: Iterable[Column]) -> int:
    """Return the assumed bytes per row of these columns, at least 1."""
    return max(1, sum(TYPE_FACTS[column.type.code].width or FEW_BYTES for column in columns))


def batch_bytes(ahead: int, workers: int) -> int:
    """Return a batch size in bytes, such that one batch per worker fits into half of the budget."""
    return min(DEFAULT_BATCH_BYTES, max(MIN_BATCH_BYTES, ahead // (2 * max(1, workers))))


def batch_rows(session: ReadSession, ahead: int, workers: int) -> int:
    """Return the maximum rows of a batch.

    If a worker's share of the budget is below the service's smallest limit in bytes, the number of
    rows keeps the batch within this share.
    """
    size = max(SMALL_BATCH_BYTES, ahead // (2 * max(1, workers)))
    if size >= MIN_BATCH_BYTES:
        return session.max_batch_rows
    row = row_bytes(session) or width_of(session.schema)
    return max(1, min(session.max_batch_rows, int(size / max(1, row))))


def batch_bound(size: int) -> int:
    """Return the closest batch limit that the service supports, in bytes; 0 for no limit."""
    return min(MAX_BATCH_BYTES, max(MIN_BATCH_BYTES, size)) if size else 0


class PieceRanges:
    """Divides each split into pieces of about ``size`` bytes of Arrow data, one per request.

    Pieces are chosen during the iteration, based on the size of the rows that have arrived. Index
    splits stay whole, because only the service can divide them. ``row_bytes`` is a first estimate;
    if ``None``, splits stay whole until rows have arrived.

    Examples
    --------
    >>> pieces = PieceRanges([RowRangeSplit(0, 10)], size=40, row_bytes=10.0)
    >>> [str(piece) for _, piece in pieces]
    ['rows 0…5', 'rows 5…10']
    """

    def __init__(self, splits: Sequence[Split], *, size: int, row_bytes: float | None) -> None:
        self._splits, self._size, self._row_bytes = splits, max(1, size), row_bytes
        self._rows = self._bytes = 0

    def record(self, batch: pa.RecordBatch) -> int:
        """Include a batch in the estimate of bytes per row; return the batch's size in bytes."""
        size = int(batch.nbytes)
        self._rows, self._bytes = self._rows + batch.num_rows, self._bytes + size
        return size

    def __iter__(self) -> Iterator[tuple[Split, Split]]:
        for split in self._splits:
            if isinstance(split, RowRangeSplit):
                for piece in self._cut(split):
                    yield split, piece
            else:
                yield split, split

    def _cut(self, split: RowRangeSplit) -> Iterator[RowRangeSplit]:
        at, end = split.offset, split.offset + split.count
        while at < end:
            row_bytes = self._bytes / self._rows if self._rows else self._row_bytes
            left = (end - at) * row_bytes / self._size if row_bytes else 0.0
            parts = max(1, round(left))
            count = max(1, (end - at) // parts)
            yield RowRangeSplit(at, count)
            at += count
