"""`SplitList`: all splits of a session as a value of constant size where possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odps_nb.terms import IndexSplit, RowRangeSplit, Split

__all__ = ["SplitList"]


@dataclass(frozen=True, slots=True)
class SplitList:
    """All splits of a session, by number; equal row ranges are computed, not stored.

    A hundred thousand splits would otherwise travel with every task.
    """

    count: int
    rows: int | None = None  # cut evenly into `count` ranges; None: the server's splits, by index
    others: tuple[Split, ...] = ()

    @classmethod
    def of(cls, splits: Sequence[Split]) -> SplitList:
        """Detect equal row ranges, or store the splits as they are."""
        last = splits[-1] if splits else None
        rows = last.offset + last.count if isinstance(last, RowRangeSplit) else None
        even = cls(len(splits), rows)
        if all(even[number] == split for number, split in enumerate(splits)):
            return even
        return cls(len(splits), others=tuple(splits))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Split:
        if not 0 <= number < self.count:
            raise IndexError(number)
        if self.others:
            return self.others[number]
        if self.rows is None:
            return IndexSplit(number)
        offset, end = (self.rows * n // self.count for n in (number, number + 1))
        return RowRangeSplit(offset, end - offset)
