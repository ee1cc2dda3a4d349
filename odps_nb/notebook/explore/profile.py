"""Profiles columns: nulls, distinct values, minimum, maximum and histogram bars.

`Profiler` processes batches in bounded memory. Without bounds from an earlier profile, the first
batch must contain all rows, because the range of its values defines the bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.notebook.explore.cells import cell_texts
from odps_nb.notebook.explore.scale import Scale, scale_of
from odps_nb.schema import Column, TypeCode

MAX_VALUES = 1000
"""Maximum distinct values to count exactly when all rows are profiled."""
MOST_BARS = 20
TOP_VALUES = 10
LABEL = 60

_COUNTED_NOT = (
    *(TypeCode.BLOB, TypeCode.BINARY, TypeCode.JSON, TypeCode.VARIANT),
    *(TypeCode.GEOGRAPHY, TypeCode.UNKNOWN),
)


@dataclass(frozen=True, slots=True)
class Bar:
    """A histogram bar: its label, number of rows, and value or range of values.

    ``value`` is set for a single value; ``low`` and ``high`` (``last``: inclusive) for a range.
    ``whole`` is the number of rows that the bar would have with the shares of the unfiltered rows.
    """

    label: str
    count: int
    value: object = None
    low: object = None
    high: object = None
    last: bool = False
    whole: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnProfile:
    """The profile of one column; its strings contain user data."""

    rows: int
    nulls: int
    distinct: int | None = None
    more_distinct: bool = False
    least: str = ""
    greatest: str = ""
    is_range: bool = False
    bars: tuple[Bar, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProfile:
    """The profiles of the columns, and the number of rows they cover."""

    columns: tuple[ColumnProfile, ...]
    rows: int
    total: int | None
    label: str
    is_random: bool = False


class Profiler:
    """Counts the rows of batches; `result` returns a profile of each column."""

    def __init__(self, columns: Sequence[Column], *, before: TableProfile | None = None) -> None:
        known = [None] * len(columns) if before is None else before.columns
        self._columns = list(map(_Described, columns, known))

    def add(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Count the rows of a batch."""
        for n, one in enumerate(self._columns):
            one.add(batch.column(n))

    def result(self) -> tuple[ColumnProfile, ...]:
        """Return the profiles of the rows added so far."""
        return tuple(one.result() for one in self._columns)


class _Described:
    """The counters of one column."""

    def __init__(self, column: Column, before: ColumnProfile | None) -> None:
        self._column, self._before = column, before
        self._rows = self._nulls = 0
        self._most = MAX_VALUES if before is not None else None
        self._values: pa.Table | None = None
        self._too_many = False
        self._bins: _Bins | None = None
        self._ends: tuple[pa.Scalar, pa.Scalar] | None = None

    def add(self, array: pa.ChunkedArray | pa.Array) -> None:
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        self._rows += len(array)
        self._nulls += array.null_count
        array = array.drop_null()
        if pt.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pt.is_nested(array.type) or self._column.type.code in _COUNTED_NOT or not len(array):
            return
        if pt.is_floating(array.type):
            array = array.filter(pc.is_finite(array))
        self._count_values(array)
        self._widen(array)
        scale = scale_of(self._column, array.type)
        if scale is not None and len(array):
            if self._bins is None:
                bins = _Bins(scale, array, self._before)
                self._bins = bins if len(bins.counts) else None
            if self._bins is not None:
                self._bins.add(array)

    def _count_values(self, array: pa.Array) -> None:
        if self._too_many or not len(array):
            return
        counts = array.value_counts()
        new = pa.table({"value": counts.field("values"), "n": counts.field("counts")})
        if self._values is not None:
            both = pa.concat_tables([self._values, new])
            grouped = both.group_by("value").aggregate([("n", "sum")])
            new = grouped.rename_columns(["value", "n"])
        if self._most is not None and new.num_rows > self._most:
            self._too_many, self._values = True, None
        else:
            self._values = new

    def _widen(self, array: pa.Array) -> None:
        if not len(array):
            return
        kind = array.type
        found = pc.min_max(array.view(pa.int64()) if pt.is_duration(kind) else array)
        ends = (found["min"].cast(kind), found["max"].cast(kind))
        if self._ends is not None:
            low, high = self._ends
            ends = (
                low if pc.less(low, ends[0]).as_py() else ends[0],
                high if pc.greater(high, ends[1]).as_py() else ends[1],
            )
        self._ends = ends

    def result(self) -> ColumnProfile:
        values = self._values
        distinct = MAX_VALUES if self._too_many else None if values is None else values.num_rows
        least, greatest = [
            str(cell_texts(pa.repeat(one, 1), self._column, LABEL)[0]) for one in self._ends or ()
        ] or ("", "")
        few = distinct is not None and not self._too_many and distinct <= TOP_VALUES
        few = few and not (self._before is not None and self._before.is_range)
        use_bins = self._bins is not None and not few
        bars: tuple[Bar, ...] = ()
        if use_bins and self._bins is not None:
            bars = self._bins.bars()
        elif values is not None:
            bars = self._top(values, ordered=few and self._bins is not None)
        return ColumnProfile(
            rows=self._rows,
            nulls=self._nulls,
            distinct=distinct,
            more_distinct=self._too_many,
            least=least,
            greatest=greatest,
            is_range=use_bins,
            bars=bars,
        )

    def _top(self, values: pa.Table, *, ordered: bool) -> tuple[Bar, ...]:
        order = (
            [("value", "ascending")] if ordered else [("n", "descending"), ("value", "ascending")]
        )
        top = values.take(pc.sort_indices(values, sort_keys=order)[:TOP_VALUES])
        if not ordered and top.num_rows and top.column("n")[0].as_py() == 1 and values.num_rows > 1:
            return ()  # no value occurs twice
        labels = cell_texts(top.column("value"), self._column, LABEL)
        scale = scale_of(self._column, top.column("value").type)
        found = []
        for label, value, count in zip(
            labels, top.column("value"), top.column("n").to_pylist(), strict=True
        ):
            said = scale.exact(value) if scale is not None else value.as_py()
            found.append(Bar(str(label), int(count), value=said))
        return tuple(found)


class _Bins:
    """Counters of value ranges; the first and the last range include all values beyond them."""

    def __init__(self, scale: Scale, array: pa.Array, before: ColumnProfile | None) -> None:
        places = scale.places(array)
        self.scale, self.low, self.high = scale, float(places.min()), float(places.max())
        self.edges: list[object] = scale.edges(self.low, self.high, MOST_BARS)
        if before is not None and before.is_range:
            self.edges = [*(bar.low for bar in before.bars), before.bars[-1].high]
        self.places = np.array([scale.place(edge) for edge in self.edges])
        self.counts = np.zeros(max(0, len(self.edges) - 1), dtype=np.int64)

    def add(self, array: pa.Array) -> None:
        places = self.scale.places(array)
        self.low = min(self.low, float(places.min()))
        self.high = max(self.high, float(places.max()))
        inner = self.places[1:-1]
        found = np.searchsorted(inner, places, side="right")
        self.counts += np.bincount(found, minlength=len(self.counts))[: len(self.counts)]

    def bars(self) -> tuple[Bar, ...]:
        edges = list(self.edges)
        if self.low < self.places[0]:
            edges[0] = self.scale.edge(self.low)
        if self.high > self.places[-1]:
            edges[-1] = self.scale.edge(self.high, up=True)
        last = len(self.counts) - 1
        return tuple(
            Bar(
                self.scale.label(edges[n], edges[n + 1]),
                int(count),
                low=edges[n],
                high=edges[n + 1],
                last=n == last,
            )
            for n, count in enumerate(self.counts)
        )


def sample_label(rows: int, total: int | None, *, random: bool) -> str:
    """Describe which rows were profiled, e.g. ``sample of 64,000 of 2,048,000 rows``."""
    if total is not None and rows >= total:
        return f"all {total:,} rows" if total != 1 else "the only row"
    if random:
        return (
            f"sample of {rows:,} rows" if total is None else f"sample of {rows:,} of {total:,} rows"
        )
    return f"the first {rows:,} rows"
