"""Computes the values of a chart: the service aggregates all rows, and only groups are read.

A scatter plot shows individual rows, so it reads a random sample. `ReadFigures` in
``read_figures.py`` groups the stored rows of a result instead.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.access.binding.text import bind
from odps_nb.access.paging.browsing import Rows
from odps_nb.access.paging.ordering import name_in_sql
from odps_nb.errors import ArgumentError
from odps_nb.notebook.explore.charts.all_groups import (
    ABOVE,
    BELOW,
    MAX_COLORS,
    NULL,
    OTHERS,
    AllGroups,
    without_one_other,
)
from odps_nb.notebook.explore.charts.choice import STEPS, ChartChoice, ChartStep
from odps_nb.notebook.explore.charts.outliers import FAR, near_points, near_times
from odps_nb.notebook.explore.values.cells import cell_texts, kind_of
from odps_nb.notebook.explore.values.scale import Scale, scale_of
from odps_nb.schema import Column
from odps_nb.terms import count_of

MAX_GROUPS = 1_000
"""Maximum number of groups along the x axis."""
MAX_POINTS = 1_000
"""Maximum number of points of a scatter plot."""
MAX_ROWS = MAX_GROUPS * (MAX_COLORS + 2)
"""Maximum number of groups of x and colour."""
USUAL_BINS = 20
MAX_SPARSE = 4
"""A time axis omits empty steps if they would multiply its number of steps by more than this."""

WHISKER = 1.5
"""Maximum length of a box's whiskers, in interquartile ranges."""

_LABEL = 200
_DATE = r"^(19|20)\d\d-?(0[1-9]|1[0-2])(-?[0-3]\d)?([ T].*)?$"
_FINITE = 1e300  # values up to this size can be summed and placed on an axis without overflow
_AGGREGATES = {
    "count": "count({})",
    "sum": "sum({})",
    "mean": "avg({})",
    "min": "min({})",
    "max": "max({})",
    "median": "median({})",
    "distinct": "count(distinct {})",
}


def _quartile(n: int) -> str:
    """Return the SQL expression for a quartile, interpolated as in pandas and numpy.

    ``k`` is the number of values up to ``y``, and ``r`` the number of values of the group.
    """
    below = f"min(case when 4 * k > {n} * (r - 1) then y end)"
    above = f"min(case when 4 * (k - 1) >= {n} * (r - 1) then y end)"
    return f"{below} + ({above} - {below}) * (max({n} * (r - 1)) % 4) / 4"


_BOXES = f"""\
select g, c, sum(n) n, min(y) m, max(y) h,
array({_quartile(1)},
{_quartile(2)},
{_quartile(3)}) q
from (select g, c, y, n, sum(if(y is null, 0, n)) over (partition by g, c) r,
sum(if(y is null, 0, n)) over (partition by g, c order by y) k
from ({{}}) t) t group by g, c"""
"""The minimum, the maximum and the quartiles of ``y``, from the rows per value. Not with
``percentile_approx``, which can return a number that lies between two values of the group."""


@dataclass(frozen=True, slots=True)
class ChartMark:
    """One bar, point or box: its group on the x axis, its colour, and its values.

    ``at`` is the position on a numeric or time axis. ``values`` has one number, or five for a box:
    minimum, quartiles, maximum.
    """

    group: int
    color: int
    values: tuple[float, ...]
    rows: int = 0
    at: float = math.nan


@dataclass(frozen=True, slots=True)
class Figures:
    """The marks of a chart, with the labels of its groups and colours."""

    marks: tuple[ChartMark, ...]
    groups: tuple[str, ...]
    colors: tuple[str, ...] = ()
    note: str = ""
    sql: str = ""
    scale: Scale | None = None
    """The x axis of a scatter plot."""


class FigureQuery:
    """The SQL jobs that compute the marks of a chart for a set of rows."""

    def __init__(
        self, rows: Rows, choice: ChartChoice, where: str | None, zone: str | None
    ) -> None:
        self._rows, self._choice, self._zone = rows, choice, zone
        self._relation = rows.relation(where)
        self._x = name_in_sql(choice.x.name)

    def figures(self) -> Figures:
        """Run the jobs and return the marks."""
        choice = self._choice
        if choice.kind == "scatter":
            return self._points()
        if choice.is_time:
            return self._over_time()
        if choice.kind == "histogram" or choice.bins:
            return self._in_bins()
        if not choice.is_number:
            return self._by_value(self._all_groups(self._x))
        if kind_of(choice.x) != "INTEGER":
            return self._in_bins()
        groups = self._all_groups(self._x)
        count = None if groups is None else groups.x_count()
        if count is None:
            count = self._distinct([self._x])[0]
        return self._in_bins() if count > choice.top else self._by_value(groups)

    # -- the x axis -----------------------------------------------------------------------------

    def _distinct(self, expressions: Sequence[str]) -> list[int]:
        """Return the number of distinct values of each expression."""
        counts = [f"count(distinct {expression}) n{n}" for n, expression in enumerate(expressions)]
        table = self._rows.query(f"select {', '.join(counts)} {self._relation}")
        return [column[0].as_py() for column in table.columns]

    def _bounds(self) -> pa.Table:
        """Return the minimum, the maximum, and the 1st and 99th percentiles."""
        x = f"case when {self._is_finite()} then {self._x} end"
        most = f"percentile_approx(cast({x} as double), array(0.01, 0.99)) most"
        return self._rows.query(f"select min({x}) low, max({x}) high, {most} {self._relation}")

    def _is_finite(self) -> str:
        """Return the SQL condition that ``x`` is not null, NaN or infinite."""
        is_float = kind_of(self._choice.x) in ("FLOAT", "DOUBLE")
        return f"abs({self._x}) <= 1.7e308" if is_float else f"{self._x} is not null"

    def _over_time(self) -> Figures:
        choice, step = self._choice, self._choice.step
        if step is None:
            step = self._usual_step()
        elif step == "hour" and kind_of(choice.x) == "DATE":
            raise ArgumentError(f"{choice.x.name!r} contains dates; step= must be 'day' or longer")
        return self._grouped(self._truncated(step), step=step)

    def _truncated(self, step: ChartStep) -> str:
        """Return the SQL expression that truncates ``x`` to the start of its time step."""
        return f"datetrunc({self._x}, '{step}')"

    def _usual_step(self) -> ChartStep:
        """Return the shortest time step that yields few enough non-empty groups."""
        most = 60 if self._choice.kind in ("bar", "box") else 400
        steps = STEPS[1:] if kind_of(self._choice.x) == "DATE" else STEPS
        counts = zip(steps, self._distinct(list(map(self._truncated, steps))), strict=True)
        return next((step for step, count in counts if count <= most), steps[-1])

    def _in_bins(self) -> Figures:
        choice, ends = self._choice, self._bounds()
        scale = scale_of(choice.x, ends.column("low").type)
        assert scale is not None  # every numeric type has a scale
        low, high, most = (column[0].as_py() for column in ends.columns)
        if low is None:  # only nulls
            return self._by_value(self._all_groups(self._x))
        low, high = scale.place(low), scale.place(high)
        if high - low > FAR * (most[1] - most[0]) > 0:
            low, high = most
        edges = scale.edges(low, high, choice.bins or USUAL_BINS)
        if len(edges) < 2:
            raise ArgumentError(f"the values of {choice.x.name!r} are too far apart for a chart")
        labels = tuple(scale.label(edge, after) for edge, after in pairwise(edges))
        return self._grouped(self._bin(edges), labels)

    def _bin(self, edges: Sequence[Any]) -> str:
        """Return the SQL expression for the index of the bin that contains ``x``."""
        values = [self._literal(edge) for edge in edges]
        tests = [f"< {values[0]} then {BELOW}"]
        tests += [f"< {value} then {n}" for n, value in enumerate(values[1:-1])]
        tests += [f"<= {values[-1]} then {len(edges) - 2}", f"> {values[-1]} then {ABOVE}"]
        bins = f"when {self._x} is null then {NULL} when not ({self._is_finite()}) then {OTHERS} "
        bins += " ".join(f"when {self._x} {test}" for test in tests)
        return f"case {bins} end"

    def _by_value(self, groups: AllGroups | None) -> Figures:
        """Group by value: the ``top`` values, one group for all others, and nulls."""
        x, most = self._choice.x, self._choice.top
        top = None if groups is None else groups.largest(most)
        if top is None:
            top = without_one_other(self._top(x, self._measure(), most + 2), most)
        values, labels = self._named(x, top)
        return self._grouped(self._index(x, values), labels, groups=groups, values=values)

    def _top(self, column: Column, measure: str, most: int) -> pa.Array:
        """Return at most ``most`` values of a column: those with the largest measures."""
        name = name_in_sql(column.name)
        text = f"select {name} v, {measure} m {self._relation} group by {name}"
        query = f"select v from (\n{text}\n) g where v is not null"
        table = self._rows.query(f"{query} order by {self._rank} desc, v limit {most}")
        return table.column("v").combine_chunks()

    def _named(self, column: Column, values: pa.Array) -> tuple[list[Any], tuple[str, ...]]:
        """Return values and labels; text is sorted only if it is dates, or the x axis of a line."""
        texts = kind_of(column) in ("TEXT", "CHAR") and column.name not in self._rows.partitions
        is_line = self._choice.kind in ("line", "area") and column is self._choice.x
        if not texts or is_line or _are_dates(values):
            values = values.take(pc.sort_indices(values))
        labels = tuple(str(text) or "(empty)" for text in cell_texts(values, column, _LABEL))
        try:
            return values.to_pylist(), labels
        except OverflowError:
            raise ArgumentError(
                f"{column.name!r} has local times after the year 9999, which cannot be groups",
                hint="filter them with where=, or connect with timezone='UTC'",
            ) from None

    def _index(self, column: Column, values: Sequence[Any]) -> str:
        """Return the SQL expression that maps values to their indexes, to `NULL` or to `OTHERS`."""
        name = name_in_sql(column.name)
        tests = [f"when {name} = {self._literal(value)} then {n}" for n, value in enumerate(values)]
        return f"case when {name} is null then {NULL} {' '.join(tests)} else {OTHERS} end"

    def _literal(self, value: object) -> str:
        return bind(":v", {"v": value}, timezone=self._zone or "UTC")

    def _points(self) -> Figures:
        """Return the rows as points; above `MAX_POINTS`, a random sample and a note of its size."""
        choice = self._choice
        assert choice.y is not None  # checked by `choose`
        y = name_in_sql(choice.y.name)
        color, colors, _ = self._colors()
        both = f"from (select {self._x} x, {y} y, {color} c {self._relation}) t where"
        total, text, points = self._drawn(f"{both} x is not null and y is not null", color)
        xs, ys = (
            points.column("x").combine_chunks(),
            points.column("y").cast(pa.float64(), safe=False),
        )
        scale = scale_of(choice.x, xs.type)
        assert scale is not None  # checked by `choose`
        marks = tuple(
            ChartMark(0, c, (y,), 1, float(x))
            for x, y, c in zip(
                scale.places(xs), ys.to_pylist(), points.column("c").to_pylist(), strict=True
            )
            if abs(x) <= _FINITE and abs(y) <= _FINITE
        )
        is_all = total <= MAX_POINTS
        note = "all rows" if is_all else f"random sample of {len(marks):,} of {total:,} rows"
        is_near = near_points([mark.at for mark in marks], [mark.values[0] for mark in marks])
        near = tuple(compress(marks, is_near))
        if left := len(marks) - len(near):
            note += f" except {count_of(left, 'point')} far from the others"
        return Figures(near, (), colors, note=note, sql=text, scale=scale)

    def _drawn(self, both: str, color: str) -> tuple[int, str, pa.Table]:
        """Return the number of points, the query that samples them, and the sampled rows."""
        total = self._rows.query(f"select count(*) n {both}").column("n")[0].as_py()
        text = self._sample(both, total)
        return total, text, self._rows.query(text)

    def _sample(self, both: str, total: int) -> str:
        share = f" and rand() < {1.1 * MAX_POINTS / total:.9f}" if total > MAX_POINTS else ""
        return f"select x, y, c {both}{share} limit {MAX_POINTS}"

    # -- the marks ------------------------------------------------------------------------------

    def _measure(self) -> str:
        choice = self._choice
        if choice.kind == "box":
            return "count(*)"
        y = "*" if choice.y is None else name_in_sql(choice.y.name)
        return _AGGREGATES[choice.agg].format(y)

    def _colors(
        self, groups: AllGroups | None = None
    ) -> tuple[str, tuple[str, ...], list[Any] | None]:
        """Return the expression for the index of a row's colour, the labels, and the values."""
        column = self._choice.color
        if column is None:
            return "0", (), None
        top = None if groups is None else groups.colors()
        if top is None:
            top = self._top(column, "count(*)", MAX_COLORS)
        values, labels = self._named(column, top)
        return self._index(column, values), labels, values

    def _grouped(
        self,
        group: str,
        labels: tuple[str, ...] = (),
        *,
        step: ChartStep | None = None,
        groups: AllGroups | None = None,
        values: Sequence[Any] | None = None,
    ) -> Figures:
        choice = self._choice
        if groups is None and choice.color is not None:
            groups = self._all_groups(group)
        color, colors, color_values = self._colors(groups)
        text = self._grouping(group, color)
        table = None if groups is None else groups.shown(values, color_values)
        if table is None:
            table = self._found(f"{text} limit {MAX_ROWS + 1}", group, color)
        left_out, gaps = [], ""
        if choice.kind == "box":
            gaps = f"; whiskers of at most {WHISKER} interquartile ranges"
        if step is not None:
            if table.num_rows <= MAX_GROUPS * (MAX_COLORS + 2):  # otherwise, `_times` raises
                table, far = near_times(table)
                left_out += [f"{count_of(far, step)} far from the others"] if far else []
            labels, table, has_all_steps = _times(table, choice.x, step)
            gaps += "" if has_all_steps else f"; each {step} without rows is omitted"
        marks, left = _marks(table)
        left_out += [f"{count_of(left, 'group')} without a finite value"] if left else []
        note = " except ".join(["all rows", " and ".join(left_out)]) if left_out else "all rows"
        return Figures(marks, labels, colors, note=note + gaps, sql=text)

    def _grouping(self, group: str, color: str) -> str:
        """Return the query for the row count and the measures of each group and colour."""
        choice = self._choice
        keys = group if choice.color is None else f"{group}, {color}"
        if choice.kind == "box":
            assert choice.y is not None  # checked by `choose`
            y = f"cast({name_in_sql(choice.y.name)} as double)"
            counts = f"select {group} g, {color} c, {y} y, count(*) n {self._relation}"
            return _BOXES.format(f"{counts} group by {keys}, {y}")
        text = f"select {group} g, {color} c, count(*) n, {self._measure()} m {self._relation}"
        return f"{text} group by {keys}"

    def _all_groups(self, group: str) -> AllGroups | None:
        """Return one group per value of the colour, and of x if ``group`` is the x column."""
        choice = self._choice
        if choice.color is not None:
            text = self._grouping(group, name_in_sql(choice.color.name))
        else:
            rank = "n" if choice.kind == "box" else self._rank
            text = f"select * from (\n{self._grouping(group, '0')}\n) t order by {rank} desc, g"
        table = self._rows.query(f"{text} limit {MAX_ROWS + 1}")
        return AllGroups(table, choice, is_complete=table.num_rows <= MAX_ROWS)

    @property
    def _rank(self) -> str:
        return "abs(m)" if self._choice.agg in ("sum", "mean") else "m"

    def _found(self, text: str, group: str, color: str) -> pa.Table:
        """Return the result of a query that groups by the expressions ``group`` and ``color``."""
        return self._rows.query(text)


def _are_dates(values: pa.Array) -> bool:
    """Return whether all texts are months or days, for example 2024-01-31 or 20240131."""
    return pa.types.is_string(values.type) and bool(
        pc.all(pc.match_substring_regex(values, _DATE), min_count=1).as_py()
    )


def _times(
    table: pa.Table, column: Column, step: ChartStep
) -> tuple[tuple[str, ...], pa.Table, bool]:
    """Number the groups in the order of their times.

    Return the labels, the table, and whether the labels include time steps without rows.
    """
    times = table.column("g").combine_chunks()
    order = pc.unique(times.drop_null())
    order = order.take(pc.sort_indices(order))
    if len(order) > MAX_GROUPS:
        raise ArgumentError(
            f"step={step!r} divides {column.name!r} into more than {MAX_GROUPS:,} parts",
            hint=f"choose a longer step: {', '.join(STEPS[STEPS.index(step) + 1 :])}",
        )
    every = _every_step(order, step)
    order = order if every is None else every
    numbers = pc.fill_null(pc.index_in(times, order), NULL)
    texts = [str(text) for text in cell_texts(order, column, _LABEL)]
    width = {"hour": 16, "day": 10, "week": 10, "month": 7, "year": 4}[step]
    numbered = table.set_column(0, "g", numbers.cast(pa.int64()))
    return tuple(text[:width] for text in texts), numbered, every is not None


def _every_step(order: pa.Array, step: ChartStep) -> pa.Array | None:
    """Return all time steps from the first to the last group, or ``None`` if there are too many."""
    if len(order) < 2:
        return order
    try:
        known = order.to_pylist()
    except OverflowError:  # local times after the year 9999
        return None
    steps = []
    with suppress(OverflowError, ValueError):  # after the year 9999
        for n in range(min(MAX_GROUPS, MAX_SPARSE * len(known))):
            if (at := _later(known[0], n, step)) > known[-1]:
                break
            steps.append(at)
    every = pa.array(steps, order.type)
    return every if pc.all(pc.is_in(order, every)).as_py() else None


def _later(begin: datetime.date, count: int, step: ChartStep) -> datetime.date:
    """Return the beginning of the step that is ``count`` steps later."""
    if step in ("month", "year"):
        months = begin.month - 1 + count * (12 if step == "year" else 1)
        return begin.replace(year=begin.year + months // 12, month=months % 12 + 1)
    length = datetime.timedelta(**{f"{step}s": count})
    if step == "hour" and isinstance(begin, datetime.datetime) and begin.tzinfo is not None:
        return (begin.astimezone(datetime.UTC) + length).astimezone(begin.tzinfo)
    return begin + length


def _marks(table: pa.Table) -> tuple[tuple[ChartMark, ...], int]:
    """Return the marks, and the number of groups whose values are NaN or infinite."""
    marks, left = [], 0
    for row in table.to_pylist():
        ends = (row["m"], *row["q"], row["h"]) if row.get("q") else (row["m"],)
        if row["n"] and all(end is not None for end in ends):
            values = tuple(float(end) for end in ends)
            if all(abs(value) <= _FINITE for value in values):
                marks.append(ChartMark(int(row["g"]), int(row["c"]), values, int(row["n"])))
            else:
                left += 1
    return tuple(sorted(marks, key=lambda mark: (last(mark.group), last(mark.color)))), left


def last(index: int) -> tuple[bool, int]:
    """Return a sort key: named groups come first, then the group of all others, then nulls."""
    return index < 0 and index != BELOW, index
