"""`AllGroups`: the groups of a chart before rare values are merged into `OTHERS`.

Each SQL job scans the rows again. So if there are few groups, one job that groups by every value
replaces the jobs that would find the largest groups and the most frequent colours first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.notebook.explore.charts.choice import USUAL_TOP, ChartChoice

MAX_COLORS = 7
NULL, OTHERS, ABOVE, BELOW = -1, -2, -3, -4
"""Indexes of special groups: nulls, values without their own group, values beyond the axis."""

_MERGED = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}


class AllGroups:
    """One row per value of x (``g``) and colour (``c``), with its row count and measures.

    If ``is_complete`` is false, groups are missing: a chart without colours then has its largest
    groups, and a chart with colours has arbitrary groups.
    """

    def __init__(self, table: pa.Table, choice: ChartChoice, *, is_complete: bool) -> None:
        self._choice, self._is_complete = choice, is_complete
        self._table = pa.table({name: plain(table, name) for name in table.column_names})
        measure = self._table.column("m")
        # Arrow skips NaN where SQL does not, and sorts NaN differently.
        self._has_nan = pt.is_floating(measure.type) and pc.any(pc.is_nan(measure)).as_py()

    @property
    def _is_mergeable(self) -> bool:
        return self._choice.kind != "box" and self._choice.agg in _MERGED and not self._has_nan

    def x_count(self) -> int | None:
        """Return the number of x values (a minimum if groups are missing); ``None`` if unknown."""
        if self._choice.color is not None and not self._is_complete:
            return None
        count: int = pc.count_distinct(self._table.column("g"), mode="only_valid").as_py()
        return count

    def largest(self, most: int) -> pa.Array | None:
        """Return the ``most`` values of x with the largest measures, if known.

        If ``most`` is the default and only one more value exists, the result includes that value.
        """
        choice, table = self._choice, self._table
        if self._has_nan:
            return None
        if choice.color is not None:
            if not (self._is_complete and self._is_mergeable):
                return None
            table = self._merged(table, ["g"])
        rank = "n" if choice.kind == "box" else "m"
        values = ranked(table.column("g"), table.column(rank), choice, most + 2)
        return without_one_other(values, most) if self._is_complete else values[:most]

    def colors(self) -> pa.Array | None:
        """Return the most frequent values of colour, at most `MAX_COLORS`; ``None`` if unknown."""
        if not self._is_complete:
            return None
        counts = self._table.group_by(["c"]).aggregate([("n", "sum")])
        return ranked(counts.column("c"), counts.column("n_sum"), self._choice, MAX_COLORS)

    def shown(self, groups: Sequence[Any] | None, colors: Sequence[Any] | None) -> pa.Table | None:
        """Return the table with the indexes of the shown values; ``None`` if it needs another job.

        ``None`` for ``groups`` or ``colors`` leaves that column unchanged.
        """
        if not self._is_complete:
            return None
        table = self._table
        for index, (name, values) in enumerate((("g", groups), ("c", colors))):
            if values is not None:
                table = table.set_column(index, name, indexes(table.column(name), values))
        if table.select(["g", "c"]).group_by(["g", "c"]).aggregate([]).num_rows == table.num_rows:
            return table
        return self._merged(table, ["g", "c"]) if self._is_mergeable else None

    def _merged(self, table: pa.Table, keys: list[str]) -> pa.Table:
        """Merge the rows with equal keys into one row."""
        function, measure = _MERGED[self._choice.agg], table.column("m")
        if pt.is_integer(measure.type):
            table = table.set_column(3, "m", measure.cast(pa.decimal128(38, 0)))
        merged = table.group_by(keys).aggregate([("n", "sum"), ("m", function)])
        named = {key: merged.column(key) for key in keys}
        return pa.table({**named, "n": merged.column("n_sum"), "m": merged.column(f"m_{function}")})


def ranked(values: pa.Array, measures: pa.Array, choice: ChartChoice, most: int) -> pa.Array:
    """Return at most ``most`` values that are not null: those with the largest measures."""
    rank = pc.abs(measures) if choice.agg in ("sum", "mean") else measures
    table = pa.table({"v": values, "m": rank}).filter(pc.field("v").is_valid())
    order = pc.sort_indices(table, sort_keys=[("m", "descending"), ("v", "ascending")])
    return plain(table.take(order[:most]), "v")


def without_one_other(values: pa.Array, most: int) -> pa.Array:
    """Return the first ``most`` values; if ``most`` is the default, also a single remaining one."""
    return values if len(values) <= most + (most == USUAL_TOP) else values[:most]


def indexes(array: pa.Array, values: Sequence[Any]) -> pa.Array:
    """Return the index of each element in ``values``; `NULL` for nulls, `OTHERS` if not found."""
    positions = pc.fill_null(pc.index_in(array, pa.array(values, array.type)), OTHERS)
    return pc.if_else(array.is_null(), NULL, positions.cast(pa.int64()))


def plain(table: pa.Table, name: str) -> pa.Array:
    """Return a column as one array, without a dictionary."""
    array = table.column(name).combine_chunks()
    return array.dictionary_decode() if pt.is_dictionary(array.type) else array
