"""Places the bars of all rows behind those of the rows that match a filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odps_nb.notebook.explore.profile import TOP_VALUES, Bar, ColumnProfile


def with_whole(
    found: Sequence[ColumnProfile], whole: Sequence[ColumnProfile]
) -> tuple[ColumnProfile, ...]:
    """Return the profiles of filtered rows with `Bar.whole` from those of the unfiltered rows.

    If the unfiltered rows have few values, each of them keeps its bar, though it may be empty.
    """
    return tuple(map(_beside, found, whole))


def _beside(found: ColumnProfile, whole: ColumnProfile) -> ColumnProfile:
    scale = found.rows / max(1, whole.rows)
    if found.is_range and whole.is_range and len(found.bars) == len(whole.bars):
        pairs = zip(found.bars, whole.bars, strict=True)
        bars = [replace(one, whole=other.count * scale) for one, other in pairs]
        return replace(found, bars=tuple(bars))
    if found.is_range or whole.is_range or not whole.bars:
        return found
    counts = {_key(bar): bar.count * scale for bar in whole.bars}
    is_complete = not whole.more_distinct and (whole.distinct or 0) <= TOP_VALUES
    if not is_complete:
        return replace(found, bars=tuple(_of(bar, counts.get(_key(bar))) for bar in found.bars))
    matched = {_key(bar): bar for bar in found.bars}
    kept = [_of(matched.pop(_key(bar), _empty(bar)), counts[_key(bar)]) for bar in whole.bars]
    return replace(found, bars=(*kept, *(_of(bar, 0.0) for bar in matched.values())))


def _key(bar: Bar) -> tuple[str, object]:
    return bar.label, bar.value


def _empty(bar: Bar) -> Bar:
    return replace(bar, count=0)


def _of(bar: Bar, whole: float | None) -> Bar:
    return replace(bar, whole=whole)
