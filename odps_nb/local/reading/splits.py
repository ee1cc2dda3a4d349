"""Cutting a snapshot into row ranges (``docs/protocol.md`` section 4).

Every split mode ends as ranges of row numbers over the snapshot. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odps_nb.local.store.snapshots import Segment

__all__ = ["MAX_SPLITS", "by_count", "by_size"]

MAX_SPLITS = 50_000

Range = tuple[int, int]


def by_size(
    segments: Sequence[Segment], size: int, *, cross_partition: bool = True, max_files: int = 0
) -> list[Range]:
    """Cut so that a split has about ``size`` bytes; rows of one file weigh the same.

    Parameters
    ----------
    cross_partition
        Whether a split may go on into the next partition.
    max_files
        At most so many files touch one split; 0 is no limit.
    """
    total = sum(s.raw_bytes for s in segments)
    size = max(size, 1, -(-total // MAX_SPLITS))
    ranges: list[Range] = []
    start = end = files = 0
    filled = 0.0
    previous = None
    for segment in segments:
        apart = not cross_partition and previous is not None and previous.spec != segment.spec
        if end > start and (apart or (max_files > 0 and files >= max_files)):
            ranges.append((start, end))
            start, files, filled = end, 0, 0.0
        files, previous = files + 1, segment
        weight = max(segment.raw_bytes, 1) / segment.rows
        left = segment.rows
        while left:
            room = max(1, int((size - filled) / weight))
            taken = min(left, room)
            left, end, filled = left - taken, end + taken, filled + taken * weight
            if left or filled + weight > size:
                ranges.append((start, end))
                start, files, filled = end, 1 if left else 0, 0.0
    if end > start:
        ranges.append((start, end))
    return ranges


def by_count(
    segments: Sequence[Segment], count: int, *, cross_partition: bool = True
) -> list[Range]:
    """Cut into at most ``count`` splits of about equal rows.

    With ``cross_partition`` false there is at least one split per partition, even if these are
    more than ``count``.
    """
    groups = _groups(segments, cross_partition=cross_partition)
    rows = sum(stop - start for start, stop in groups)
    count = min(max(1, count), MAX_SPLITS)
    ranges: list[Range] = []
    for start, stop in groups:
        share = max(1, count * (stop - start) // rows)
        ranges += _even(start, stop, share)
    return ranges


def _groups(segments: Sequence[Segment], *, cross_partition: bool) -> list[Range]:
    rows = sum(s.rows for s in segments)
    if cross_partition:
        return [(0, rows)] if rows else []
    groups: list[Range] = []
    start = end = 0
    previous = None
    for segment in segments:
        if previous is not None and previous.spec != segment.spec:
            groups.append((start, end))
            start = end
        end, previous = end + segment.rows, segment
    return [*groups, (start, end)] if end > start else groups


def _even(start: int, stop: int, parts: int) -> Iterator[Range]:
    parts = min(parts, stop - start)
    for index in range(parts):
        low = start + (stop - start) * index // parts
        high = start + (stop - start) * (index + 1) // parts
        yield low, high
