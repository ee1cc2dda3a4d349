"""Computes a chart of a SQL result from the stored rows, without running the query again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.access.paging.browsing import Rows
from odps_nb.access.row_forms import as_table
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import LimitExceededError
from odps_nb.notebook.explore.charts.all_groups import (
    ABOVE,
    BELOW,
    NULL,
    OTHERS,
    indexes,
    plain,
    ranked,
)
from odps_nb.notebook.explore.charts.choice import ChartChoice, ChartStep
from odps_nb.notebook.explore.charts.figures import MAX_POINTS, FigureQuery
from odps_nb.notebook.explore.profiles.sampling import SAMPLE_BYTES
from odps_nb.notebook.explore.values.scale import scale_of
from odps_nb.schema import Column
from odps_nb.terms import format_bytes

MAX_READ = 64_000_000
"""Maximum bytes of a result, as Arrow data, to read for a chart."""
_FIRST_ROWS = 1000


def why_not_read(rows: Rows, cancel: CancelToken) -> str:
    """Return why a chart must run the query again; ``""`` if it can read the result's rows.

    The size is estimated from the first rows.
    """
    if rows.is_cut:
        return "the access key may read only the first rows of its result"
    first = list(rows.page(0, _FIRST_ROWS, cancel))
    size = sum(batch.nbytes for batch in first)
    size = size * (rows.row_count or 0) // max(1, sum(batch.num_rows for batch in first))
    if size <= MAX_READ:
        return ""
    return f"its result (about {format_bytes(size)}) exceeds {format_bytes(MAX_READ)}"


class ReadFigures(FigureQuery):
    """The marks of a chart, computed from rows that are read into memory.

    The chart's code still contains the query of `FigureQuery`; this class evaluates the expressions
    of that query itself.
    """

    def __init__(
        self,
        rows: Rows,
        choice: ChartChoice,
        where: str | None,
        zone: str | None,
        cancel: CancelToken,
    ) -> None:
        super().__init__(rows, choice, where, zone)
        table = _columns_of(rows, choice, where, cancel)
        self._arrays = {name: plain(table, name) for name in table.column_names}
        self._of_x = self._arrays[choice.x.name]
        self._values = {"0": pa.array(np.zeros(table.num_rows, dtype=np.int64))}
        """The value of each evaluated expression, by the expression's text."""

    # -- expressions ----------------------------------------------------------------------------

    def _truncated(self, step: ChartStep) -> str:
        text = super()._truncated(step)
        self._values[text] = pc.floor_temporal(self._of_x, unit=step)
        return text

    def _index(self, column: Column, values: Sequence[Any]) -> str:
        text = super()._index(column, values)
        self._values[text] = indexes(self._arrays[column.name], values)
        return text

    def _bin(self, edges: Sequence[Any]) -> str:
        text, scale = super()._bin(edges), scale_of(self._choice.x, self._of_x.type)
        assert scale is not None  # every numeric type has a scale
        keys = scale.keys(self._of_x)
        ends = [pa.scalar(scale.key(edge), keys.type) for edge in edges]
        passed = [_true(pc.greater_equal(keys, end)) for end in ends]
        bins = np.sum(passed, axis=0) - 1
        bins[bins == len(edges) - 1] = ABOVE
        bins[_true(pc.equal(keys, ends[-1]))] = len(edges) - 2
        bins[~passed[0]] = BELOW
        bins[~_true(_is_finite(keys))] = OTHERS
        bins[_true(self._of_x.is_null())] = NULL
        self._values[text] = pa.array(bins)
        return text

    # -- queries --------------------------------------------------------------------------------

    def _distinct(self, expressions: Sequence[str]) -> list[int]:
        arrays = [self._values.get(expression, self._of_x) for expression in expressions]
        return [pc.count_distinct(array, mode="only_valid").as_py() for array in arrays]

    def _bounds(self) -> pa.Table:
        array = self._of_x.filter(_is_finite(self._of_x))
        ends = pc.min_max(array)
        places = _floats(array)
        shares = (0.01, 0.99)
        most = np.quantile(places, shares, method="nearest").tolist() if len(places) else None
        low, high = (pa.repeat(ends[name], 1) for name in ("min", "max"))
        return pa.table({"low": low, "high": high, "most": [most]})

    def _top(self, column: Column, measure: str, most: int) -> pa.Array:
        table = self._aggregated(v=self._arrays[column.name])
        rank = table.column("n" if measure == "count(*)" else "m")
        return ranked(table.column("v"), rank, self._choice, most)

    def _drawn(self, both: str, color: str) -> tuple[int, str, pa.Table]:
        assert self._choice.y is not None  # checked by `choose`
        y, colors = self._arrays[self._choice.y.name], self._values[color]
        points = pa.table({"x": self._of_x, "y": y, "c": colors})
        points = points.filter(pc.field("x").is_valid() & pc.field("y").is_valid())
        total = points.num_rows
        if total > MAX_POINTS:
            chosen = np.random.default_rng().choice(total, MAX_POINTS, replace=False)
            points = points.take(pa.array(chosen))
        return total, self._sample(both, total), points

    def _all_groups(self, group: str) -> None:
        """Return ``None``, because there are no SQL jobs to save."""

    def _found(self, text: str, group: str, color: str) -> pa.Table:
        return self._aggregated(g=self._values[group], c=self._values[color])

    def _aggregated(self, **keys: pa.Array) -> pa.Table:
        """Return the row count ``n`` and the measure ``m`` of each combination of keys.

        For a box, ``m`` is the minimum, ``q`` contains the quartiles, and ``h`` is the maximum.
        """
        choice = self._choice
        is_box = choice.kind == "box"
        function = "list" if is_box else _FUNCTIONS[choice.agg]
        y = self._measured() if choice.y is not None else next(iter(keys.values()))
        grouped = pa.table({**keys, "y": y}).group_by([*keys])
        table = grouped.aggregate([([], "count_all"), ("y", function)])
        columns = {name: table.column(name) for name in keys} | {"n": table.column("count_all")}
        values = table.column(f"y_{function}")
        if function != "list":
            return pa.table({**columns, "m": columns["n"] if choice.y is None else values})
        shares = (0, 0.25, 0.5, 0.75, 1) if is_box else (0.5,)
        lists = (value.values.drop_null() for value in values)
        parts = [np.quantile(array, shares).tolist() if len(array) else None for array in lists]
        if not is_box:
            return pa.table({**columns, "m": [part and part[0] for part in parts]})
        ends = {
            "m": [part and part[0] for part in parts],
            "h": [part and part[-1] for part in parts],
        }
        return pa.table({**columns, **ends, "q": [part and part[1:-1] for part in parts]})

    def _measured(self) -> pa.Array:
        """Return the column to aggregate, cast to a type in which the aggregate is exact."""
        choice = self._choice
        assert choice.y is not None  # checked by the caller
        array = self._arrays[choice.y.name]
        if choice.kind == "box" or choice.agg in ("mean", "median"):
            return array.cast(pa.float64(), safe=False)
        if choice.agg == "sum" and not pt.is_decimal(array.type):
            exact = pa.decimal128(38, 0) if pt.is_integer(array.type) else pa.float64()
            return array.cast(exact)
        return array


_FUNCTIONS = {
    "count": "count",
    "sum": "sum",
    "mean": "mean",
    "min": "min",
    "max": "max",
    "median": "list",
    "distinct": "count_distinct",
}


def _columns_of(
    rows: Rows, choice: ChartChoice, where: str | None, cancel: CancelToken
) -> pa.Table:
    """Read the columns of a chart."""
    names = {
        column.name: None for column in (choice.x, choice.y, choice.color) if column is not None
    }
    selected, size = [], 0
    with closing(rows.every(where, cancel, ahead=SAMPLE_BYTES)) as batches:
        for batch in batches:
            selected.append(batch.select(list(names)))
            size += batch.nbytes
            if size > 2 * MAX_READ:  # the estimate from the first rows was too low
                raise LimitExceededError(
                    f"a chart cannot read a result of more than {format_bytes(2 * MAX_READ)}",
                    hint="group the rows in the query",
                )

    def schema() -> pa.Schema:
        known = rows.selected(None, rows.text).arrow_schema
        return pa.schema([known.field(name) for name in names])

    return as_table(selected, schema)


def _floats(array: pa.Array) -> np.ndarray:
    floats: np.ndarray = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return floats


def _is_finite(array: pa.Array) -> pa.Array:
    return pc.is_finite(array) if pt.is_floating(array.type) else array.is_valid()


def _true(mask: pa.Array) -> np.ndarray:
    booleans: np.ndarray = pc.fill_null(mask, False).to_numpy(zero_copy_only=False)
    return booleans
