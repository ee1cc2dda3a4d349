"""Cuts splits into smaller row ranges, so that an ordered read keeps all its lanes busy.

Eight splits of 64 MiB exceed the read-ahead budget: the lanes behind the first would fill it and
wait, and only one connection would deliver rows. Pure: no requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from odps_nb.terms import RowRangeSplit, Split

__all__ = ["PieceRanges"]


class PieceRanges:
    """Cuts each split into pieces of bounded bytes, one request each.

    Iterating cuts as it goes, by what rows have needed so far; an index split stays whole, since
    only the service can cut it.

    Parameters
    ----------
    size
        Bytes of Arrow data that a piece should have, or up to half as much again, because every
        request has its cost.
    row_bytes
        First estimate of the bytes of a row; ``None`` if unknown: nothing is cut before rows
        have arrived.

    Examples
    --------
    >>> pieces = PieceRanges([RowRangeSplit(0, 10)], size=40, row_bytes=10.0)
    >>> [str(piece) for _, piece in pieces]
    ['rows 0…5', 'rows 5…10']
    """

    def __init__(
        self,
        splits: Sequence[Split],
        *,
        size: int,
        row_bytes: float | None,
    ) -> None:
        self._splits, self._size, self._row_bytes = splits, max(1, size), row_bytes
        self._rows = self._bytes = 0

    def record(self, batch: pa.RecordBatch) -> int:
        """Use a batch to estimate bytes per row; return its size in bytes."""
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
