"""Converts what a query inserts between instants and clock times, by the columns it goes into.

A constant is read as the type of its column. Another instant is shown by the session's clock
before it goes into a TIMESTAMP_NTZ, DATE or text, and a clock time is read by that clock before it
goes into a DATETIME or TIMESTAMP.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlglot import exp

from odps_nb.local.sql.duck_types import CLOCKS
from odps_nb.local.sql.times import Clock
from odps_nb.local.sql.trees import choices
from odps_nb.local.sql.types_of_query import Types
from odps_nb.schema import TypeCode

_INSTANTS = {TypeCode.DATETIME: "DATETIME", TypeCode.TIMESTAMP: "TIMESTAMP"}
_CLOCK_TIME = "TIMESTAMPNTZ"
_DIGITS = 38


def fit_constants(query: Any, into: Sequence[TypeCode], *, exact: bool = False) -> None:
    """Give the constant times of the inserted rows the kind of their columns, in place.

    With ``exact`` numbers that go into a DECIMAL become one with all their digits.
    """
    kinds = exp.DataType.Type
    for row in _rows(query):
        for value, code in zip(row, into, strict=False):
            for cast in _choices(value):
                if exact and code is TypeCode.DECIMAL:
                    _keep_digits(cast)
                if not (isinstance(cast, exp.Cast) and isinstance(cast.this, exp.Literal)):
                    continue
                if code is TypeCode.TIMESTAMP_NTZ and cast.to.is_type(*_INSTANTS.values()):
                    cast.set("to", exp.DataType(this=kinds[_CLOCK_TIME]))
                elif code in _INSTANTS and cast.to.is_type(_CLOCK_TIME):
                    cast.set("to", exp.DataType(this=kinds[_INSTANTS[code]]))


def _keep_digits(value: Any) -> None:
    """Make a number with a point DECIMAL, unless it has more digits than DuckDB's."""
    number = value.this if isinstance(value, exp.Neg) else value
    if isinstance(number, exp.Literal) and not number.is_string:
        whole, _, fraction = number.this.partition(".")
        digits = len(whole) + len(fraction)
        if whole.isdigit() and fraction.isdigit() and digits <= _DIGITS:
            kind = exp.DataType.build(f"DECIMAL({digits}, {len(fraction)})")
            value.replace(exp.Cast(this=value.copy(), to=kind))


def convert_rows(query: Any, into: Sequence[TypeCode], types: Types, clock: Clock) -> None:
    """Convert the inserted values that are not constants, in place; not those of a ``*``."""
    if clock.is_utc:
        return
    for row in _rows(query):
        for value, code in zip(row, into, strict=False):
            given = types.name(value)
            if code in CLOCKS and given in _INSTANTS.values():
                clock.show(value)
            elif code in _INSTANTS and given == _CLOCK_TIME:
                clock.read(value, _INSTANTS[code])


def has_star(query: Any) -> bool:
    """Whether the columns of a query are a ``*`` that `convert_rows` does not look through."""
    return isinstance(query, exp.Select) and query.is_star and _passed_through(query) is None


def _rows(query: Any) -> Iterator[list[Any]]:
    """Yield the expressions of the columns, for each SELECT or row of VALUES that gives rows."""
    if isinstance(query, exp.SetOperation):
        yield from _rows(query.left)
        yield from _rows(query.right)
    elif isinstance(query, (exp.Subquery, exp.Paren)):
        yield from _rows(query.this)
    elif isinstance(query, exp.Values):
        for row in query.expressions:
            yield list(row.expressions) if isinstance(row, exp.Tuple) else [row.unnest()]
    elif isinstance(query, exp.Select):
        if (inner := _passed_through(query)) is not None:
            yield from _rows(inner)
        elif not any(one.is_star for one in query.expressions):
            yield [one.unalias() for one in query.expressions]


def _passed_through(select: Any) -> Any | None:
    """Return the query whose columns a SELECT gives in their order, and looks at none of them."""
    given = {key for key, value in select.args.items() if value}
    if "from_" not in given or not given <= {"expressions", "from_", "where"}:
        return None
    source, where = select.args["from_"].this, select.args.get("where")
    if isinstance(source, exp.Values) and len(select.expressions) == 1:
        return source if select.expressions[0].is_star and where is None else None
    alias = source.args.get("alias")
    if not isinstance(source, exp.Subquery) or alias is None or not alias.columns:
        return None
    names = [one.name for one in alias.columns]
    shown = [one.name if isinstance(one, exp.Column) else "" for one in select.expressions]
    looked = {one.name for one in where.find_all(exp.Column)} if where is not None else set()
    return source if names[: len(shown)] == shown and not looked & set(shown) else None


def _choices(value: Any) -> Iterator[Any]:
    """Yield the expressions of which a value is one: the results of CASE, IF and COALESCE."""
    if isinstance(value, exp.Paren):
        yield from _choices(value.this)
    elif isinstance(value, (exp.Case, exp.If, exp.Coalesce)):
        for one in choices(value):
            yield from _choices(one)
    else:
        yield value
