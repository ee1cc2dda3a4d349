"""Profiles columns: nulls, distinct values, statistics and histogram bars.

`Profiler` processes batches in bounded memory. For the first profile, pass all rows as one batch,
because their range defines the bars. Later profiles keep these bars.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.notebook.explore.profiles.bars import NOT_FINITE, Bar, Histogram
from odps_nb.notebook.explore.profiles.measures import QUARTILES, Measures
from odps_nb.notebook.explore.profiles.sketches import DistinctSketch
from odps_nb.notebook.explore.values.axis import number_text
from odps_nb.notebook.explore.values.cells import cell_texts, is_number
from odps_nb.notebook.explore.values.scale import Scale, scale_of
from odps_nb.notebook.progress.words import about_percent, format_percent
from odps_nb.schema import Column, TypeCode

MAX_VALUES = 64_000
"""Maximum distinct values to count exactly when all rows are profiled."""
MAX_VALUE_BYTES = 4 * 2**20
TOP_VALUES = 10
LISTED_VALUES = 20
"""Maximum number of values that the filter builder offers."""
LABEL = 60

_COUNTED_NOT = (
    *(TypeCode.BLOB, TypeCode.BINARY, TypeCode.JSON, TypeCode.VARIANT),
    *(TypeCode.GEOGRAPHY, TypeCode.UNKNOWN),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """The profile of one column; its strings contain user data.

    Attributes
    ----------
    distinct
        Number of distinct values, without NaN and infinities; ``None`` if they are not counted.
    is_estimated
        Whether ``distinct`` is an estimate.
    is_sample
        Whether other rows may exist. If so, ``distinct`` is a minimum, and shares are rounded.
    frequent
        Single-value bars of up to `LISTED_VALUES` values, the most frequent first.
    ends
        The values at the ends of the histogram, or the minimum and the maximum.
    statistics
        Statistics by name, such as ``mean``, ``median`` and ``max length``.
    facts
        All of the above as (name, text) pairs.
    """

    rows: int
    nulls: int
    distinct: int | None = None
    is_estimated: bool = False
    is_sample: bool = False
    min: str = ""
    max: str = ""
    ends: tuple[str, str] = ("", "")
    is_range: bool = False
    is_log: bool = False
    bars: tuple[Bar, ...] = ()
    frequent: tuple[Bar, ...] = ()
    statistics: Mapping[str, Any] = field(default_factory=dict)
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> str:
        """A summary in a few words: ``5 distinct · 3 % null``."""
        parts = [] if self.distinct is None else [f"{self.distinct_text} distinct"]
        if self.nulls:
            all_null = self.nulls == self.rows
            parts.append(f"{'all' if all_null else self.share(self.nulls)} null")
        return " · ".join(parts)

    @property
    def distinct_text(self) -> str:
        """The number of distinct values as text."""
        about = "at least " if self.is_sample else "about " if self.is_estimated else ""
        return "" if self.distinct is None else f"{about}{self.distinct:,}"

    def share(self, count: int) -> str:
        """Format the share of a number of rows, as precisely as the profiled rows permit."""
        share = count / max(1, self.rows)
        return about_percent(share) if self.is_sample else format_percent(share)

    def amount(self, count: int) -> str:
        """Format a number of rows; for a sample, their share."""
        return self.share(count) if self.is_sample else f"{count:,}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProfile:
    """The profiles of the columns, and the number of rows they cover."""

    columns: tuple[ColumnProfile, ...]
    rows: int
    total: int | None
    label: str
    is_random: bool = False


class Profiler:
    """Processes batches of rows; `result` returns a profile of each column."""

    def __init__(self, columns: Sequence[Column], *, before: TableProfile | None = None) -> None:
        known = [None] * len(columns) if before is None else before.columns
        self._columns = list(map(_Described, columns, known))

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add the rows of a batch to the profile."""
        for n, profiler in enumerate(self._columns):
            profiler.add(batch.column(n))

    def result(self, *, is_sample: bool = False) -> tuple[ColumnProfile, ...]:
        """Return the profiles of the rows added so far, which may be a sample of all rows."""
        return tuple(profiler.result(is_sample=is_sample) for profiler in self._columns)


class _Described:
    """The counters of one column."""

    def __init__(self, column: Column, before: ColumnProfile | None) -> None:
        self._column, self._before = column, before
        self._rows = self._nulls = self._not_finite = 0
        self._scale: Scale | None = None
        self._values: _Values | None = None
        self._histogram: Histogram | None = None
        self._measures: Measures | None = None
        self._counters: list[_Values | Histogram | Measures] = []
        self._ends: tuple[pa.Scalar, pa.Scalar] | None = None

    def add(self, array: pa.ChunkedArray | pa.Array) -> None:
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        self._rows += len(array)
        self._nulls += array.null_count
        array = array.drop_null()
        if pt.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pt.is_nested(array.type) or self._column.type.code in _COUNTED_NOT:
            return
        if pt.is_floating(array.type):
            finite = array.filter(pc.is_finite(array))
            self._not_finite += len(array) - len(finite)
            array = finite
        if not len(array):
            return
        if not self._counters:
            self._begin(array)
        for counter in self._counters:
            counter.add(array)
        self._widen(array)

    def _begin(self, array: pa.Array) -> None:
        """Create counters for the type of the first values, with the bars of an earlier profile."""
        before = self._before
        self._scale = scale = scale_of(self._column, array.type)
        self._measures = Measures(scale)
        bars = () if before is None else before.bars
        self._values = _Values(array.type, None if before is None else before.frequent)
        if scale is not None and before is not None and before.is_range:
            self._histogram = Histogram.like(scale, bars, is_log=before.is_log)
        elif scale is not None and (before is None or not before.distinct):
            self._histogram = Histogram.of(scale, array)
        self._counters = [self._values, self._measures]
        if self._histogram is not None:
            self._counters.append(self._histogram)

    def _widen(self, array: pa.Array) -> None:
        kind = array.type
        extremes = pc.min_max(array.view(pa.int64()) if pt.is_duration(kind) else array)
        ends = (extremes["min"].cast(kind), extremes["max"].cast(kind))
        if self._ends is not None:
            low, high = self._ends
            ends = (
                low if pc.less(low, ends[0]).as_py() else ends[0],
                high if pc.greater(high, ends[1]).as_py() else ends[1],
            )
        self._ends = ends

    def result(self, *, is_sample: bool) -> ColumnProfile:
        values, before, histogram = self._values, self._before, self._histogram
        distinct = None if values is None else values.distinct()
        few = distinct is not None and distinct <= TOP_VALUES
        inherits = before is not None and before.is_range
        use_bins = inherits or (histogram is not None and not few)
        top = None if values is None else values.top()
        bars: tuple[Bar, ...] = ()
        if use_bins and histogram is not None:
            bars = histogram.bars()
        elif before is not None and inherits:  # no row has a value
            bars = tuple(replace(bar, count=0) for bar in before.bars if not bar.is_undrawn)
        elif values is not None and top is not None:
            bars = self._top(top, values.total)
        if self._not_finite:
            bars = (*bars, Bar(NOT_FINITE, self._not_finite, value=math.nan))
        low, high = map(self._text, self._ends or (None, None))
        profile = ColumnProfile(
            rows=self._rows,
            nulls=self._nulls,
            distinct=distinct,
            is_estimated=values is not None and values.is_estimated,
            is_sample=is_sample,
            min=low,
            max=high,
            ends=self._axis_ends(bars, low, high),
            is_range=use_bins,
            is_log=use_bins and histogram is not None and histogram.is_log,
            bars=bars,
            frequent=() if top is None else self._valued(top),
            statistics={} if self._measures is None else self._measures.values(),
        )
        return replace(
            profile, facts=tuple((name, text) for name, text in self._facts(profile) if text)
        )

    def _text(self, cell: pa.Scalar | None) -> str:
        if cell is None or pt.is_boolean(cell.type):
            return ""
        if is_number(self._column):
            return number_text(cell.as_py())
        return str(cell_texts(pa.repeat(cell, 1), self._column, LABEL)[0])

    def _axis_ends(self, bars: Sequence[Bar], low: str, high: str) -> tuple[str, str]:
        """For each end, return the axis bound if outliers lie beyond it, else the extreme value."""
        if (scale := self._scale) is None:
            return low, high
        drawn = [bar.label for bar in bars if not bar.is_undrawn]
        if not any(bar.count for bar in bars if not bar.is_undrawn):
            # no row is on the axis, so an axis bound may be below or above both extremes
            return low, high
        for bar in bars:
            if bar.others and drawn:
                low, high = drawn[0], drawn[-1]
            elif bar.low is None and bar.high is not None:
                low = scale.text(bar.high)
            elif bar.high is None and bar.low is not None:
                high = scale.text(bar.low)
        return low, high

    def _facts(self, profile: ColumnProfile) -> Iterator[tuple[str, str]]:
        statistics = profile.statistics
        in_sample = " in the sample" if profile.is_sample else ""
        yield "nulls", _part(profile, profile.nulls)
        yield "distinct", profile.distinct_text
        for name in ("zeros", "blank"):
            if name in statistics:
                yield name, _part(profile, statistics[name])
        for name in ("mean", "std", "min length", "mean length", "max length"):
            if (value := statistics.get(name)) is None:
                continue
            if not profile.is_sample:
                yield name, number_text(float(value))
            elif name.startswith(("min", "max")):
                yield name, number_text(float(value)) + in_sample
            else:
                yield name, f"about {number_text(float(f'{value:.3g}'))}"
        empty = "(empty)" if "max length" in statistics else ""
        low, high = (
            end and end + in_sample for end in (profile.min or empty, profile.max or empty)
        )
        yield "min", low
        is_estimated = self._measures is not None and self._measures.is_estimated
        about = "about " if is_estimated or profile.is_sample else ""
        for name in QUARTILES:
            if name in statistics and self._scale is not None:
                yield name, about + self._scale.text(statistics[name])
        yield "max", high

    def _top(self, top: pa.Table, total: int) -> tuple[Bar, ...]:
        """Return bars for the most frequent values, and one group for all others."""
        top = top[:TOP_VALUES]
        rest = total - (pc.sum(top.column("n")).as_py() or 0)
        if self._scale is not None:
            top = top.take(pc.sort_indices(top, sort_keys=[("value", "ascending")]))
        bars = self._valued(top)
        if not rest or not bars:
            return bars
        return (*bars, Bar("other values", rest, others=tuple(bar.value for bar in bars)))

    def _valued(self, top: pa.Table) -> tuple[Bar, ...]:
        """Return a bar for each value in ``top``, a table of values and row counts."""
        values = top.column("value")
        labels = cell_texts(values, self._column, LABEL)
        if is_number(self._column):
            labels = [number_text(number) for number in values.to_pylist()]
        bars = []
        for label, value, count in zip(labels, values, top.column("n").to_pylist(), strict=True):
            exact = self._scale.exact(value) if self._scale is not None else value.as_py()
            bars.append(Bar(str(label), int(count), value=exact))
        return tuple(bars)


class _Values:
    """Counts the rows of each value.

    With ``known`` bars, up to `MAX_VALUES` values are counted exactly. Beyond that, the number of
    distinct values is estimated, and rows are counted only for values with a bar.
    """

    def __init__(self, kind: pa.DataType, known: Sequence[Bar] | None) -> None:
        self._is_bounded = known is not None
        values = [bar.value for bar in known or () if not bar.is_undrawn and bar.value is not None]
        self._known = pa.array(values, kind)
        self._known_rows = np.zeros(len(values), dtype=np.int64)
        self.total = 0
        self._tables: list[pa.Table] = []
        self._sketch: DistinctSketch | None = None

    @property
    def is_estimated(self) -> bool:
        return self._sketch is not None

    def add(self, array: pa.Array) -> None:
        self.total += len(array)
        if self._sketch is not None:
            self._sketch.add(array)
            self._count_known(array, np.ones(1, dtype=np.int64))
            return
        counts = array.value_counts()
        self._tables.append(
            pa.table({"value": counts.field("values"), "n": counts.field("counts")})
        )
        if sum(table.num_rows for table in self._tables[1:]) > MAX_VALUES:
            self._merge()

    def _merge(self) -> None:
        if len(self._tables) > 1:
            grouped = pa.concat_tables(self._tables).group_by("value").aggregate([("n", "sum")])
            self._tables = [grouped.rename_columns(["value", "n"])]
        (table,) = self._tables
        too_many = table.num_rows > MAX_VALUES or table.nbytes > MAX_VALUE_BYTES
        if self._is_bounded and too_many:
            values = table.column("value").combine_chunks()
            self._sketch = DistinctSketch()
            self._sketch.add(values)
            self._count_known(values, table.column("n").to_numpy())
            self._tables = []

    def _count_known(self, values: pa.Array, rows: np.ndarray) -> None:
        """Add the number of rows of each value to that of the values with a bar."""
        if len(self._known):
            positions = pc.fill_null(pc.index_in(values, self._known), -1).to_numpy()
            is_known = positions >= 0
            weights = np.broadcast_to(rows, positions.shape)[is_known]
            np.add.at(self._known_rows, positions[is_known], weights)

    def distinct(self) -> int:
        """Return the number of distinct values, or an estimate of it."""
        if self._sketch is None:
            self._merge()
        if self._sketch is None:
            return int(self._tables[0].num_rows)
        return min(self._sketch.count(), self.total)

    def top(self) -> pa.Table:
        """Return the most frequent values with their row counts; empty if no value occurs twice."""
        if self._sketch is None:
            self._merge()
        if self._sketch is None:
            (table,) = self._tables
        else:
            table = pa.table({"value": self._known, "n": self._known_rows})
        if self.total > TOP_VALUES and pc.max(table.column("n")).as_py() == 1:
            return table[:0]
        order = [("n", "descending"), ("value", "ascending")]
        return table.take(pc.sort_indices(table, sort_keys=order)[:LISTED_VALUES])


def _part(profile: ColumnProfile, count: int) -> str:
    if profile.is_sample:
        return profile.share(count)
    return f"{count:,} ({profile.share(count)})" if count else "0"


def sample_label(rows: int, total: int | None, *, random: bool) -> str:
    """Describe which rows were profiled, e.g. ``sample of 64,000 of 2,048,000 rows``."""
    if total is not None and rows >= total:
        return f"all {total:,} rows" if total != 1 else "the only row"
    if random:
        return (
            f"sample of {rows:,} rows" if total is None else f"sample of {rows:,} of {total:,} rows"
        )
    return f"the first {rows:,} rows"
