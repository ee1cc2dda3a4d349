"""Makes conversions that use the session's time zone explicit in a query.

DuckDB stores instants as local times in UTC. Three rules apply, depending on the operands' types:

- Text, DATE and TIMESTAMP_NTZ values are converted to instants if a comparison, list or set
  operation combines them with a DATETIME or TIMESTAMP.
- The result of CASE, IF or COALESCE is text if some of the values are text and others are times.
- Functions, ``||`` and LIKE receive times in the session's time zone, unless they pass the times
  on unchanged.

Sources: the vendor's manual, *Data type conversions*, *CASE WHEN* and *GREATEST*.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from sqlglot import exp

from odps_nb.local import errors
from odps_nb.local.sql.duck_types import CLOCKS
from odps_nb.local.sql.times import SessionClock, is_read
from odps_nb.local.sql.trees import (
    TEXTS,
    cast,
    choices,
    looked_up,
    operands,
    type_name,
    united,
    wrap,
)
from odps_nb.local.sql.types_of_query import KEEPING, Types
from odps_nb.schema import TypeCode

_INSTANTS = ("DATETIME", "TIMESTAMP")
_CLOCKS = ("DATE", "TIMESTAMPNTZ")
_READ = (*TEXTS, *_CLOCKS)
_FINE = ("TIMESTAMP", "TIMESTAMPNTZ")
_TIMES = (*_INSTANTS, *_CLOCKS)
_DUCK = {"DATE": "DATE", "DATETIME": "TIMESTAMP_MS", "INT": "INT"}
# Functions that return an instant if their first argument is an instant.
_MOVED = ("DATEADD", "DATETRUNC", "LASTDAY", "TO_DATE")
_OF_INSTANTS = ("UNIX_TIMESTAMP", "TO_MILLIS")
_PASSED = ("ISNULL", "ELEMENT_AT", "HASH", "MC_MICROS", *_OF_INSTANTS)
_EXACT_UNITS = ("hour", "hh", "minute", "mi", "second", "ss", "ff3", "ff6")
# Functions that do not change values, but select, count, collect or find them.
_PASSING = (
    *(exp.AggFunc, exp.Connector, exp.Cast, exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Nvl2),
    *(exp.Greatest, exp.Least, exp.DecodeCase, exp.Array, exp.VarMap, exp.Map, exp.Struct),
    *(exp.Explode, exp.Posexplode, exp.Inline, exp.Exists, exp.Typeof, exp.GenerateSeries),
    *(exp.ArrayContains, exp.Transform, exp.ArraySize, exp.ArraySort),
)
_SEEING = (exp.DPipe, exp.Like, exp.ILike, exp.RegexpLike, exp.GroupConcat)
# Functions that DuckDB does not support for text, nor for all years of a TIMESTAMP_MS.
_CLOCK_PARTS = (exp.Extract,)
# Nodes that convert the elements of an array to text.
_JOINING = (exp.Cast, exp.ConcatWs, exp.ArrayToString, exp.JSONFormat)


def unite(query: Any, types: Types, into: Sequence[TypeCode] = ()) -> bool:
    """Cast columns of set operations and VALUES to instants if one of the values is an instant.

    Return whether any column was cast. If so, the caller must infer the types again. Text that is
    not a time raises an error when the query runs. In VALUES for a text column (``into``), each
    row keeps its type.
    """
    was_cast = False
    for node, columns in list(united(query)):
        codes = into if isinstance(node, exp.Values) and len(into) == len(columns) else ()
        for column, code in zip_longest(columns, codes):
            names = [types.name(value) for value in column]
            wider = max(set(names) & set(_INSTANTS), default=None)
            for value, name in zip(column, names, strict=True):
                if wider is not None and name in _READ and code not in CLOCKS:
                    was_cast = True
                    wrap(value, partial(cast, name=wider))
    return was_cast


def place_times(query: Any, types: Types, clock: SessionClock) -> None:
    """Add explicit conversions between text, local times and instants, in place."""
    nodes = list(query.walk(bfs=False))
    placing = _Placing(types, clock)
    for node in nodes:
        placing.meet(node)
    for node in reversed(nodes):  # inner nodes first
        placing.move(node)


class _Placing:
    def __init__(self, types: Types, clock: SessionClock) -> None:
        self._types, self._clock = types, clock

    def meet(self, node: Any) -> None:
        """Convert operands to one type if an instant or text is among them."""
        gives = isinstance(node, (exp.Greatest, exp.Least, exp.Array, exp.Lag, exp.Lead))
        for values in (*operands(node), *looked_up(node)):
            names = [self._types.name(value) for value in values]
            instant = next((name for name in names if name in _INSTANTS), None)
            for value, name in zip(values, names, strict=True):
                if instant is not None and name in _READ:
                    self._clock.read(value, instant, is_text=name in TEXTS, strict=gives)
        values = choices(node)
        names = [self._types.name(value) for value in values]
        is_text = any(name in TEXTS for name in names)
        instant = next((name for name in names if name in _INSTANTS), None)
        for value, name in zip(values, names, strict=True):
            if is_text and name in _TIMES:
                self._clock.show(value, as_text=True, is_instant=name in _INSTANTS)
            elif instant is not None and name in _CLOCKS:
                self._clock.read(value, instant)

    def move(self, node: Any) -> None:
        """Convert instants to the session's local time for nodes that compute with local times."""
        if isinstance(node, exp.Cast):
            self._cast(node)
        elif isinstance(node, (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTimezone)):
            self._clock.now(node)
        elif isinstance(node, (exp.Add, exp.Sub)):
            self._add(node)
        else:
            self._read_arguments(node)
            self._keep_type(node)
            if not self._clock.is_utc and _sees_clock(node):
                self._call(node)

    def _keep_type(self, node: Any) -> None:
        """Cast the result of DATEDIFF, and of functions that keep a type (see `KEEPING`)."""
        name = node.name.upper() if isinstance(node, exp.Anonymous) and node.expressions else ""
        is_null = name in KEEPING and isinstance(node.expressions[0], exp.Null)
        if is_null or (name in KEEPING and self._types.name(node.expressions[0]) in TEXTS):
            wrap(node.expressions[0], partial(cast, name="TIMESTAMP"), typed=False)
        kind = _DUCK.get(self._types.name(node)) if name in (*KEEPING, "DATEDIFF") else None
        if kind is not None:
            wrap(node, partial(cast, name=kind))

    def _read_arguments(self, node: Any) -> None:
        """Convert text arguments of time functions to times."""
        if isinstance(node, exp.Anonymous) and node.name.upper() in _OF_INSTANTS:
            for argument in node.expressions:
                if (name := self._types.name(argument)) in _READ:
                    self._clock.read(argument, "DATETIME", is_text=name in TEXTS)
        elif isinstance(node, exp.ArrayContains):
            self._contain(node.expression, self._types.element(node.this))
        elif isinstance(node, _CLOCK_PARTS):
            value = node.expression if isinstance(node, exp.Extract) else node.this
            name = self._types.name(value)
            if name in TEXTS or (name == "DATETIME" and self._clock.is_utc):
                self._clock.read_clock(value)

    def _cast(self, node: Any) -> None:
        target, source = type_name(node.to), self._types.name(node.this)
        if target in _FINE and source in _FINE:
            self._clock.cast_fine(node, source, target)
        elif target in _INSTANTS and source in _READ:
            if not (isinstance(node.this, exp.Literal) and is_read(node.this)):
                self._clock.cast(node, target, is_text=source in TEXTS)
        elif target == "TIMESTAMPNTZ" and source in TEXTS:
            self._clock.read_fine(node)
        elif not self._clock.is_utc and (target in _READ or self._types.element(node) in TEXTS):
            self._show(node.this)

    def _contain(self, value: Any, element: str) -> None:
        """Convert the value that ``array_contains`` searches for to the array's element type."""
        name = self._types.name(value)
        if element in _INSTANTS and name in _READ:
            self._clock.read(value, element, is_text=name in TEXTS)
        elif element in TEXTS:
            self._show(value)

    def _add(self, node: Any) -> None:
        """Add months and years in the session's time zone. Other units are exact durations."""
        if self._clock.is_utc or self._types.name(node.this) not in _INSTANTS:
            return
        interval = node.expression.unnest()
        unit = str(interval.args.get("unit")).lower() if isinstance(interval, exp.Interval) else ""
        if any(word in unit for word in ("month", "year", "quarter")):
            self._clock.compute(node, node.this, "TIMESTAMP")

    def _call(self, node: Any) -> None:
        """Convert instant arguments to the session's time zone, and convert a local result back."""
        is_named = isinstance(node, exp.Anonymous) and node.name.upper() in _MOVED
        if is_named and node.expressions:
            value = node.expressions[0]
            unit = node.expressions[-1].name.lower() if node.name.upper() == "DATEADD" else ""
            kind = self._types.name(value)
            if kind not in _INSTANTS and not (kind in _CLOCKS and node.name.upper() in KEEPING):
                self._clock.read(node, "DATETIME")
            elif kind in _INSTANTS and unit not in _EXACT_UNITS:  # days may be longer than 24 h
                is_fine = kind == "TIMESTAMP" and node.name.upper() in KEEPING
                self._clock.compute(node, value, kind if is_fine else "DATETIME")
            return
        if isinstance(node, (exp.DateTrunc, exp.TimestampTrunc)):
            if self._types.name(node.this) in _INSTANTS:
                self._clock.compute(node, node.this, "TIMESTAMP")
            return
        for argument in list(node.iter_expressions()):
            inner = argument
            while isinstance(inner, (exp.TsOrDsToDate, exp.TimeStrToTime)):
                inner = inner.this  # the parser added this node around the argument
            self._show(inner)

    def _show(self, node: Any) -> None:
        if self._types.name(node) in _INSTANTS:
            self._clock.show(node)
        elif self._types.element(node) in _INSTANTS and isinstance(node.parent, _JOINING):
            self._clock.show_each(node)
        elif isinstance(node.parent, exp.JSONFormat) and self._types.holds_instant(node):
            raise errors.lacks("TO_JSON of nested times outside UTC", is_sure=True)


def _sees_clock(node: Any) -> bool:
    """Return whether a node uses the local times of its operands instead of passing them on."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper() not in _PASSED
    if isinstance(node, _SEEING):
        return True
    return isinstance(node, exp.Func) and not isinstance(node, _PASSING)
