"""Adds the row counts without the filter to the bars of the rows that match a filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odps_nb.notebook.explore.profiles.bars import Bar
from odps_nb.notebook.explore.profiles.profile import (
    LISTED_VALUES,
    TOP_VALUES,
    ColumnProfile,
)


def with_whole(
    found: Sequence[ColumnProfile], whole: Sequence[ColumnProfile]
) -> tuple[ColumnProfile, ...]:
    """Return the profiles of filtered rows, with `Bar.whole` set from the unfiltered rows.

    If the unfiltered rows have few values, every value keeps its bar, even if no row matches. The
    frequent values of the unfiltered rows stay listed, so that they can be added to the filter.
    """
    return tuple(map(_with_unfiltered, found, whole))


def _with_unfiltered(filtered: ColumnProfile, whole: ColumnProfile) -> ColumnProfile:
    listed = {_key(bar) for bar in filtered.frequent}
    missing = [_empty(bar) for bar in whole.frequent if _key(bar) not in listed]
    filtered = replace(filtered, frequent=(*filtered.frequent, *missing)[:LISTED_VALUES])
    if filtered.is_range != whole.is_range or not whole.bars:
        return filtered
    scale = filtered.rows / max(1, whole.rows)
    counts = {_key(bar): bar.count * scale for bar in whole.bars}
    is_complete = not whole.is_estimated and (whole.distinct or 0) <= TOP_VALUES
    if filtered.is_range or not is_complete:
        return replace(
            filtered, bars=tuple(_of(bar, counts.get(_key(bar))) for bar in filtered.bars)
        )
    matched = {_key(bar): bar for bar in filtered.bars}
    bars = [_of(matched.pop(_key(bar), _empty(bar)), counts[_key(bar)]) for bar in whole.bars]
    return replace(filtered, bars=(*bars, *(_of(bar, 0.0) for bar in matched.values())))


def _key(bar: Bar) -> tuple[str, object]:
    return bar.label, None if bar.is_undrawn else bar.value


def _empty(bar: Bar) -> Bar:
    return replace(bar, count=0)


def _of(bar: Bar, whole: float | None) -> Bar:
    return replace(bar, whole=whole)
