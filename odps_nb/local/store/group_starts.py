"""Where the row groups of row files begin, remembered so that a read of some rows seeks.

Row files never change, so what was found stays true; a file that is gone is only forgotten later.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

import pyarrow.parquet as pq

LIMIT = 32 << 20
GROUP_BYTES = 64


class GroupStarts:
    """The first row of each group of one file, as far as the file was read.

    Several threads may `note` the same file: all of them note the same numbers.
    """

    __slots__ = ("_starts", "metadata")

    def __init__(self, metadata: pq.FileMetaData | None = None) -> None:
        self._starts = [0]
        self.metadata = metadata
        """The footer of a Parquet file, which takes long to parse; ``None`` of other files."""
        if metadata is not None:
            for group in range(metadata.num_row_groups):
                self.note(group, metadata.row_group(group).num_rows)

    def note(self, group: int, rows: int) -> int:
        """Note how many rows a group has whose first row is known; return that first row."""
        start = self._starts[group]
        self._starts[group + 1 : group + 2] = [start + rows]
        return start

    def group_of(self, row: int) -> int:
        """Return the group that holds a row, or the last one whose first row is known."""
        return bisect_right(self._starts, row) - 1


class StartsCache:
    """The `GroupStarts` of the files read last, in no more than about ``limit`` bytes."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit, self._lock = limit, Lock()
        self._kept: OrderedDict[str, tuple[GroupStarts, int]] = OrderedDict()
        self._bytes = 0

    def of(self, file_name: str, groups: int) -> GroupStarts:
        """Return the starts of a file with so many groups; of a new one only the first."""
        return self._found(file_name, lambda: (GroupStarts(), groups * GROUP_BYTES))

    def of_parquet(self, file_name: str, read: Callable[[], pq.FileMetaData]) -> GroupStarts:
        """Return the starts of a Parquet file; ``read`` its footer if it is not here."""

        def made() -> tuple[GroupStarts, int]:
            metadata = read()
            size = metadata.serialized_size + metadata.num_row_groups * GROUP_BYTES
            return GroupStarts(metadata), size

        return self._found(file_name, made)

    def _found(self, key: str, make: Callable[[], tuple[GroupStarts, int]]) -> GroupStarts:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        found = make()
        with self._lock:
            if key not in self._kept:
                self._kept[key] = found
                self._bytes += found[1]
            while self._bytes > self._limit:
                _, (_, size) = self._kept.popitem(last=False)
                self._bytes -= size
        return found[0]
