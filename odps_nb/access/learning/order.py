"""Computes the row order of an epoch as a pure function of seed, epoch and row numbers.

*Chunks* (ranges of consecutive rows) in random order form an epoch's *sequence*. Each shard gets a
slice of the sequence, cuts it into *windows*, and permutes the rows of each window. The order from
any position can be computed without the rows before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from odps_nb.errors import ArgumentError
from odps_nb.terms import RowRangeSplit

MAX_CHUNKS = 1_000_000
"""Maximum number of chunks; every worker holds one integer per chunk."""
SEEDS = 2**32
"""Exclusive upper bound of seeds and epochs."""
_CHUNKS, _ROWS = 0, 1  # salts of the permutations of chunks and of rows


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochOrder:
    """The parameters that determine a session's row order.

    ``chunk_rows`` rows are read as one range; ``window_rows`` rows are permuted together. Without
    ``shuffle``, chunks and rows keep the order of the session.
    """

    rows: int
    chunk_rows: int
    window_rows: int
    seed: int
    shuffle: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.seed < SEEDS:
            raise ArgumentError(f"seed is {self.seed}; it must be less than 2**32", argument="seed")
        if -(-self.rows // self.chunk_rows) > MAX_CHUNKS:
            raise ArgumentError(
                f"chunk_rows is {self.chunk_rows:,}, which divides the {self.rows:,} rows into "
                f"more than {MAX_CHUNKS:,} chunks",
                argument="chunk_rows",
                hint=f"pass chunk_rows={-(-self.rows // MAX_CHUNKS)} or more",
            )

    def chunks(self, *, epoch: int, low: int, high: int) -> Iterator[RowRangeSplit]:
        """Iterate over rows ``[low, high)`` of an epoch's sequence, as ranges to read."""
        count = -(-self.rows // self.chunk_rows)
        order = self._drawn(count, _CHUNKS, epoch) if self.shuffle else np.arange(count)
        sizes = np.full(count, self.chunk_rows, np.int64)
        sizes[order == count - 1] = self.rows - (count - 1) * self.chunk_rows
        ends = np.cumsum(sizes)
        for index in range(int(np.searchsorted(ends, low, "right")), count):
            end = int(ends[index])
            begin = end - int(sizes[index])
            if begin >= high:
                return
            first, last = max(begin, low), min(end, high)
            offset = int(order[index]) * self.chunk_rows + first - begin
            yield RowRangeSplit(offset, last - first)

    def permutation(self, *, epoch: int, at: int, count: int) -> npt.NDArray[np.int64]:
        """Return the order of ``count`` rows in the window that begins at row ``at``."""
        if not self.shuffle:
            return np.arange(count, dtype=np.int64)
        return self._drawn(count, _ROWS, epoch, at >> 32, at % SEEDS)

    def _drawn(self, count: int, *salt: int) -> npt.NDArray[np.int64]:
        # RandomState is stable across NumPy versions. A Generator is not (NEP 19), so an epoch
        # resumed with another version could lose or repeat rows.
        drawn = np.random.RandomState([self.seed, *salt]).permutation(count)
        return drawn.astype(np.int64, copy=False)


def slice_of(rows: int, shard: int, shards: int, *, even: bool) -> tuple[int, int]:
    """Return the slice of the sequence that a shard reads: ``[low, high)``.

    Shard sizes differ by at most one row. With ``even`` they are equal, and the remaining rows at
    the end of the sequence are dropped.
    """
    if even:
        return rows // shards * shard, rows // shards * (shard + 1)
    return rows * shard // shards, rows * (shard + 1) // shards
