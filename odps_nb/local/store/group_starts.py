"""Caches the start row of each row group in row files, so that reads of row ranges can seek."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from threading import Lock

import pyarrow.parquet as pq

LIMIT = 32 << 20
GROUP_BYTES = 64


class GroupStarts:
    """The start row of each row group in a file, and the file's footer if it is a Parquet file."""

    def __init__(self, rows: Sequence[int], metadata: pq.FileMetaData | None = None) -> None:
        self._starts = [0, *accumulate(rows)]
        self.metadata = metadata
        self.size = len(rows) * GROUP_BYTES + (0 if metadata is None else metadata.serialized_size)

    def ranges(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yield (group, first, stop) for each row group that contains rows ``[start, stop)``."""
        for group in range(bisect_right(self._starts, start) - 1, len(self._starts) - 1):
            begin, end = self._starts[group : group + 2]
            if begin >= stop:
                return
            low, high = max(start - begin, 0), min(stop, end) - begin
            if low < high:
                yield group, low, high


class StartsCache:
    """An LRU cache of `GroupStarts`, limited to about ``limit`` bytes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit, self._lock = limit, Lock()
        self._kept: OrderedDict[str, GroupStarts] = OrderedDict()

    def get(self, file_name: str, make: Callable[[], GroupStarts]) -> GroupStarts:
        """Return a file's cached starts, calling ``make`` if they are not cached."""
        with self._lock:
            if file_name in self._kept:
                self._kept.move_to_end(file_name)
                return self._kept[file_name]
        starts = make()
        with self._lock:
            self._kept[file_name] = starts
            while sum(entry.size for entry in self._kept.values()) > self._limit:
                self._kept.popitem(last=False)
        return starts
