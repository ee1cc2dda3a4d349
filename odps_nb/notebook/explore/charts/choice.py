"""A chart's columns, kind and aggregate, checked against the columns of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, get_args

from odps_nb.access.checks import check_count
from odps_nb.errors import ArgumentError, shown
from odps_nb.notebook.explore.values.cells import is_number, kind_of
from odps_nb.schema import ArrayType, Column, MapType, StructType, TypeCode

ChartKind = Literal["bar", "line", "area", "scatter", "histogram", "box"]
ChartAggregate = Literal["count", "sum", "mean", "min", "max", "median", "distinct"]
ChartStep = Literal["hour", "day", "week", "month", "year"]

KINDS: tuple[ChartKind, ...] = get_args(ChartKind)
AGGREGATES: tuple[ChartAggregate, ...] = get_args(ChartAggregate)
STEPS: tuple[ChartStep, ...] = get_args(ChartStep)
MAX_TOP, MAX_BINS = 200, 200
USUAL_TOP = 20

TIMES = ("DATE", "INSTANT", "CLOCK")
_GROUPED = ("TEXT", "CHAR", "BOOLEAN")
_NO_AXIS = frozenset({TypeCode.BLOB, TypeCode.BINARY, TypeCode.JSON, TypeCode.VARIANT})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartChoice:
    """Valid chart settings: columns, kind, aggregate, and how values of ``x`` are grouped."""

    x: Column
    kind: ChartKind
    y: Column | None = None
    agg: ChartAggregate = "count"
    color: Column | None = None
    bins: int | None = None
    step: ChartStep | None = None
    top: int = USUAL_TOP

    @property
    def arguments(self) -> str:
        """The arguments of ``chart()`` for these settings, as Python code."""
        has_agg = self.kind not in ("scatter", "box")
        default = "count" if self.y is None else "sum"
        settings = {
            "kind": self.kind if self.kind != _usual_kind(self.x, self.y) else None,
            "agg": self.agg if has_agg and self.agg != default else None,
            "color": None if self.color is None else self.color.name,
            "bins": self.bins,
            "step": self.step,
            "top": self.top if self.top != USUAL_TOP else None,
        }
        names = [column.name for column in (self.x, self.y) if column is not None]
        options = [f"{name}={value!r}" for name, value in settings.items() if value is not None]
        return ", ".join([*map(repr, names), *options])

    @property
    def is_time(self) -> bool:
        """Whether ``x`` is a time axis."""
        return kind_of(self.x) in TIMES

    @property
    def is_number(self) -> bool:
        """Whether ``x`` is a numeric axis."""
        return is_number(self.x)

    @property
    def is_stacked(self) -> bool:
        """Whether to stack the colours; only counts and sums can be stacked."""
        is_sum = self.agg in ("count", "sum") and self.kind in ("bar", "histogram", "area")
        return is_sum and self.color is not None

    @property
    def measure(self) -> str:
        """The label of the y axis, such as ``sum of amount``."""
        if self.y is None:
            return "rows"
        if self.kind in ("scatter", "box"):
            return self.y.name
        words = "distinct values of" if self.agg == "distinct" else f"{self.agg} of"
        return f"{words} {self.y.name}"


def can_be_axis(column: Column) -> bool:
    """Whether a chart may group rows by the column."""
    nested = isinstance(column.type, (ArrayType, MapType, StructType))
    return (not nested and kind_of(column) in (*TIMES, *_GROUPED)) or is_number(column)


def choose(
    columns: Sequence[Column],
    x: str,
    y: str | None = None,
    *,
    kind: str | None = None,
    agg: str | None = None,
    color: str | None = None,
    bins: int | None = None,
    step: str | None = None,
    top: int | None = None,
) -> ChartChoice:
    """Return the chart settings for arguments of ``chart()``, with defaults for ``None``.

    Raises
    ------
    ArgumentError
        A column does not exist or cannot be drawn, or two arguments contradict each other.
    """
    of_x = _column(columns, x, "x")
    of_y = None if y is None else _column(columns, y, "y", grouped=False)
    of_color = None if color is None else _column(columns, color, "color")
    drawn: ChartKind = _one_of("kind", kind, KINDS) or _usual_kind(of_x, of_y)
    aggregate: ChartAggregate = _one_of("agg", agg, AGGREGATES) or (
        "count" if of_y is None else "sum"
    )
    _check(drawn, aggregate, of_x, of_y, agg)
    if step is not None and kind_of(of_x) not in TIMES:
        raise ArgumentError(
            f"step= needs a column of dates or times; {x!r} has type {of_x.type}",
            hint="omit step=",
        )
    if bins is not None and not is_number(of_x):
        raise ArgumentError(
            f"bins= needs a column of numbers; {x!r} has type {of_x.type}", hint="omit bins="
        )
    return ChartChoice(
        x=of_x,
        y=of_y,
        kind=drawn,
        agg=aggregate,
        color=of_color,
        bins=_at_most("bins", bins, MAX_BINS),
        step=_one_of("step", step, STEPS),
        top=_at_most("top", top, MAX_TOP) or USUAL_TOP,
    )


def _column(columns: Sequence[Column], name: str, role: str, *, grouped: bool = True) -> Column:
    column = next((column for column in columns if column.name == name), None)
    if column is None:
        near = get_close_matches(str(name), [column.name for column in columns], 1)
        hint = f"did you mean {near[0]!r}?" if near else "see .schema for the columns"
        raise ArgumentError(f"{role}={name!r} is not a column", hint=hint)
    if grouped and not can_be_axis(column):
        raise ArgumentError(
            f"a column of type {column.type} cannot be an axis: {role}={name!r}",
            hint="choose a column of numbers, times, dates, text or booleans",
        )
    return column


def _usual_kind(x: Column, y: Column | None) -> ChartKind:
    if kind_of(x) in TIMES:
        return "line"
    return "histogram" if is_number(x) and y is None else "bar"


def _check(
    kind: ChartKind, agg: ChartAggregate, x: Column, y: Column | None, explicit_agg: str | None
) -> None:
    if kind == "histogram" and (y is not None or not is_number(x)):
        raise ArgumentError(
            "a histogram counts the values of one column of numbers",
            hint="omit y=, or use kind='bar'",
        )
    if kind in ("scatter", "box"):
        if explicit_agg is not None:
            raise ArgumentError(f"kind={kind!r} does not support agg=", hint="omit agg=")
        if y is None or not is_number(y):
            raise ArgumentError(
                f"kind={kind!r} needs a column of numbers as y=", hint="pass its name as y="
            )
    if kind == "scatter" and not (is_number(x) or kind_of(x) in TIMES):
        raise ArgumentError(
            "kind='scatter' needs a column of numbers or times as x=", hint="pass its name as x="
        )
    if y is None and agg != "count":
        raise ArgumentError(f"agg={agg!r} needs a column as y=", hint="pass its name as y=")
    if y is not None and agg not in ("count", "distinct") and not is_number(y):
        raise ArgumentError(
            f"agg={agg!r} needs a column of numbers as y=; {y.name!r} has type {y.type}",
            hint="use agg='count' or agg='distinct'",
        )
    if y is not None and y.type.code in _NO_AXIS and agg == "distinct":
        raise ArgumentError(
            f"the distinct values of a {y.type} column cannot be counted", hint="use agg='count'"
        )


def _one_of(name: str, value: str | None, known: tuple[str, ...]) -> Any:
    if value is None or value in known:
        return value
    raise ArgumentError(
        f"{name}={shown(value)} is not one of {', '.join(known)}", hint=f"pass {name}={known[0]!r}"
    )


def _at_most(name: str, value: int | None, most: int) -> int | None:
    count = check_count(name, value)
    if count is not None and count > most:
        raise ArgumentError(
            f"{name}={value} is above the maximum of {most}", hint=f"pass at most {most}"
        )
    return count
