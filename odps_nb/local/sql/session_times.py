"""Writes out which values of a query are read or shown by the clock of the session.

DuckDB sees instants as UTC clock times. Three rules, by the types of the operands:

- Text, dates and clock times that meet a DATETIME or TIMESTAMP are instants: in comparisons, in
  lists, in set operations.
- A choice (CASE, IF, COALESCE) among text and times is text.
- A function, ``||`` or LIKE sees the clock of the session, unless it only passes values on.

Sources: the vendor's manual, *Data type conversions*, *CASE WHEN* and *GREATEST*.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sqlglot import exp

from odps_nb.local.sql.times import SessionClock, is_read
from odps_nb.local.sql.trees import branches, cast, choices, looked_up, operands, type_name, wrap
from odps_nb.local.sql.types_of_query import Types

_INSTANTS = ("DATETIME", "TIMESTAMP")
_TEXTS = ("TEXT", "VARCHAR", "CHAR")
_CLOCKS = ("DATE", "TIMESTAMPNTZ")
_READ = (*_TEXTS, *_CLOCKS)
_FINE = ("TIMESTAMP", "TIMESTAMPNTZ")
_TIMES = (*_INSTANTS, *_CLOCKS)
# Functions by name whose first argument may be an instant and whose result is one, too.
_MOVED = ("DATEADD", "DATETRUNC", "LASTDAY", "TO_DATE")
_OF_INSTANTS = ("UNIX_TIMESTAMP", "TO_MILLIS")
_PASSED = ("ISNULL", "ELEMENT_AT", "HASH", "MC_MICROS", *_OF_INSTANTS)
_EXACT_UNITS = ("hour", "hh", "minute", "mi", "second", "ss", "ff3")
# Functions that choose, count, collect or hold values as they are.
_PASSING = (
    *(exp.AggFunc, exp.Connector, exp.Cast, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Nvl2),
    *(exp.Greatest, exp.Least, exp.DecodeCase, exp.Array, exp.VarMap, exp.Map, exp.Struct),
    *(exp.Explode, exp.Posexplode, exp.Inline, exp.Exists, exp.Typeof, exp.GenerateSeries),
    *(exp.ArrayContains, exp.Transform, exp.ArraySize, exp.ArraySort),
)
_SEEING = (exp.DPipe, exp.Like, exp.ILike, exp.RegexpLike, exp.GroupConcat)
# Functions that take no text in DuckDB, and of milliseconds only some years.
_CLOCK_PARTS = (
    *(exp.Hour, exp.Minute, exp.Second, exp.LastDay, exp.Quarter, exp.DayOfYear, exp.Extract),
)
# What makes text of the elements of an array.
_JOINING = (exp.Cast, exp.ConcatWs, exp.ArrayToString)


def unite(query: Any, types: Types) -> bool:
    """Cast the columns of set operations to instants where one of the queries gives an instant.

    Return whether any was cast: then the types have to be found again. Text that is no time is an
    error when the query runs.
    """
    found = False
    for node in list(query.find_all(exp.SetOperation)):
        rows = [] if isinstance(node.parent, exp.SetOperation) else list(branches(node))
        if len({len(row) for row in rows}) != 1:
            continue
        for column in zip(*rows, strict=True):
            names = [types.name(one) for one in column]
            wider = max(set(names) & set(_INSTANTS), default=None)
            for value, name in zip(column, names, strict=True):
                if wider is not None and name in _READ:
                    found = True
                    wrap(value, partial(cast, name=wider))
    return found


def place_times(query: Any, types: Types, clock: SessionClock) -> None:
    """Write out the conversions between text, clock times and instants, in place."""
    nodes = list(query.walk(bfs=False))
    placing = _Placing(types, clock)
    for node in nodes:
        placing.meet(node)
    for node in reversed(nodes):  # inner ones first
        placing.move(node)


class _Placing:
    def __init__(self, types: Types, clock: SessionClock) -> None:
        self._types, self._clock = types, clock

    def meet(self, node: Any) -> None:
        """Bring operands to one type where an instant or a text is among them."""
        gives = isinstance(node, (exp.Greatest, exp.Least, exp.Array, exp.Lag, exp.Lead))
        for values in (*operands(node), *looked_up(node)):
            names = [self._types.name(one) for one in values]
            instant = next((name for name in names if name in _INSTANTS), None)
            for value, name in zip(values, names, strict=True):
                if instant is not None and name in _READ:
                    self._clock.read(value, instant, is_text=name in _TEXTS, strict=gives)
        values = choices(node)
        names = [self._types.name(one) for one in values]
        is_text = any(name in _TEXTS for name in names)
        instant = next((name for name in names if name in _INSTANTS), None)
        for value, name in zip(values, names, strict=True):
            if is_text and name in _TIMES:
                self._clock.show(value, as_text=True, is_instant=name in _INSTANTS)
            elif instant is not None and name in _CLOCKS:
                self._clock.read(value, instant)

    def move(self, node: Any) -> None:
        """Show instants by the session's clock to what looks at a clock."""
        if isinstance(node, exp.Cast):
            self._cast(node)
        elif isinstance(node, (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTimezone)):
            self._clock.now(node)
        elif isinstance(node, exp.UnixToStr):
            self._clock.show_seconds(node)
        elif isinstance(node, (exp.Add, exp.Sub)):
            self._add(node)
        else:
            self._read_arguments(node)
            if not self._clock.is_utc and _sees_clock(node):
                self._call(node)

    def _read_arguments(self, node: Any) -> None:
        """Read the text among arguments that are times."""
        if isinstance(node, exp.Anonymous) and node.name.upper() in _OF_INSTANTS:
            for one in node.expressions:
                if (name := self._types.name(one)) in _READ:
                    self._clock.read(one, "DATETIME", is_text=name in _TEXTS)
        elif isinstance(node, exp.ArrayContains):
            self._contain(node.expression, self._types.element(node.this))
        elif isinstance(node, _CLOCK_PARTS):
            value = node.expression if isinstance(node, exp.Extract) else node.this
            name = self._types.name(value)
            if name in _TEXTS or (name == "DATETIME" and self._clock.is_utc):
                self._clock.read_clock(value)

    def _cast(self, node: Any) -> None:
        wanted, given = type_name(node.to), self._types.name(node.this)
        if wanted in _FINE and given in _FINE:
            self._clock.cast_fine(node, given, wanted)
        elif wanted in _INSTANTS and given in _READ:
            if not (isinstance(node.this, exp.Literal) and is_read(node.this)):
                self._clock.cast(node, wanted, is_text=given in _TEXTS)
        elif wanted == "TIMESTAMPNTZ" and given in _TEXTS:
            self._clock.read_fine(node)
        elif not self._clock.is_utc and (wanted in _READ or self._types.element(node) in _TEXTS):
            self._show(node.this)

    def _contain(self, value: Any, element: str) -> None:
        """Bring a value to the type of the elements of the array in which it is looked for."""
        name = self._types.name(value)
        if element in _INSTANTS and name in _READ:
            self._clock.read(value, element, is_text=name in _TEXTS)
        elif element in _TEXTS:
            self._show(value)

    def _add(self, node: Any) -> None:
        """Add months and years by the clock; other units are a length of time."""
        if self._clock.is_utc or self._types.name(node.this) not in _INSTANTS:
            return
        interval = node.expression.unnest()
        unit = str(interval.args.get("unit")).lower() if isinstance(interval, exp.Interval) else ""
        if any(word in unit for word in ("month", "year", "quarter")):
            self._clock.compute(node, node.this, "TIMESTAMP")

    def _call(self, node: Any) -> None:
        """Show the instants among the arguments; a result that is one is read back."""
        is_named = isinstance(node, exp.Anonymous) and node.name.upper() in _MOVED
        if is_named and node.expressions:
            value = node.expressions[0]
            unit = node.expressions[-1].name.lower() if node.name.upper() == "DATEADD" else ""
            if self._types.name(value) not in _INSTANTS:
                self._clock.read(node, "DATETIME")
            elif unit not in _EXACT_UNITS:  # whatever the clocks do meanwhile
                self._clock.compute(node, value, "DATETIME")
            return
        if isinstance(node, (exp.DateTrunc, exp.TimestampTrunc)):
            if self._types.name(node.this) in _INSTANTS:
                self._clock.compute(node, node.this, "TIMESTAMP")
            return
        for one in list(node.iter_expressions()):
            inner = one
            while isinstance(inner, (exp.TsOrDsToDate, exp.TimeStrToTime)):
                inner = inner.this  # the parser puts these around an argument
            self._show(inner)

    def _show(self, node: Any) -> None:
        if self._types.name(node) in _INSTANTS:
            self._clock.show(node)
        elif self._types.element(node) in _INSTANTS and isinstance(node.parent, _JOINING):
            self._clock.show_each(node)


def _sees_clock(node: Any) -> bool:
    """Whether a node looks at the clock time of its operands, instead of passing them on."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper() not in _PASSED
    if isinstance(node, _SEEING):
        return True
    return isinstance(node, exp.Func) and not isinstance(node, _PASSING)
