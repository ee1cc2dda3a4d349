"""Where the row groups of row files begin, remembered so that a read of some rows seeks."""

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
    """The first row of each group of one file, and its footer if it is a Parquet file."""

    def __init__(self, rows: Sequence[int], metadata: pq.FileMetaData | None = None) -> None:
        self._starts = [0, *accumulate(rows)]
        self.metadata = metadata
        self.size = len(rows) * GROUP_BYTES + (0 if metadata is None else metadata.serialized_size)

    def ranges(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yield the groups that hold rows ``[start, stop)``, with the first of them and the end."""
        for group in range(bisect_right(self._starts, start) - 1, len(self._starts) - 1):
            begin, end = self._starts[group : group + 2]
            if begin >= stop:
                return
            low, high = max(start - begin, 0), min(stop, end) - begin
            if low < high:
                yield group, low, high


class StartsCache:
    """The `GroupStarts` of the files read last, in no more than about ``limit`` bytes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit, self._lock = limit, Lock()
        self._kept: OrderedDict[str, GroupStarts] = OrderedDict()

    def get(self, file_name: str, make: Callable[[], GroupStarts]) -> GroupStarts:
        """Return the starts of a file, which never change; ``make`` them if they are not here."""
        with self._lock:
            if file_name in self._kept:
                self._kept.move_to_end(file_name)
                return self._kept[file_name]
        found = make()
        with self._lock:
            self._kept[file_name] = found
            while sum(one.size for one in self._kept.values()) > self._limit:
                self._kept.popitem(last=False)
        return found
