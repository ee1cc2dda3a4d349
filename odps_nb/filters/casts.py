"""Checks ``cast(… as …)`` in a condition: only casts with an unambiguous result."""

from __future__ import annotations

import re
from typing import Any

from odps_nb.filters.literals import EXACT, clock_of, date_of, number_of, refuse
from odps_nb.filters.tree import Cast, Constant, Kind, Node
from odps_nb.schema import TypeCode

MAX_DIGITS = 76
"""Digits of a DECIMAL, with the settings for it."""

_WHOLE = {
    "TINYINT": (TypeCode.TINYINT, 8),
    "SMALLINT": (TypeCode.SMALLINT, 16),
    "INT": (TypeCode.INT, 32),
    "BIGINT": (TypeCode.BIGINT, 64),
}
_TIMES = ("DATETIME", "TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPLTZ")
_FROM: dict[Kind, tuple[Kind, ...]] = {
    Kind.DOUBLE: (Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE, Kind.TEXT),
    Kind.INTEGER: (Kind.INTEGER, Kind.TEXT),
    Kind.TEXT: (Kind.INTEGER, Kind.TEXT, Kind.CHAR, Kind.DATE),
    Kind.DATE: (Kind.DATE, Kind.TEXT),
    Kind.DECIMAL: (Kind.INTEGER,),
}


def cast(value: Node, to: Any) -> Node:
    """Return the value cast to the type that a node of sqlglot names.

    Raises `ArgumentError`: the result would be rounded, depend on a time zone, or is not
    documented.
    """
    name = to.this.name if hasattr(to.this, "name") else str(to.this)
    if value.kind is Kind.NULL:
        return value
    if name == "DECIMAL":
        return _decimal(value, _size(to))
    if to.expressions or to.args.get("collate"):
        raise refuse("a cast to a type with a length or parts", "cast it to STRING, and substr")
    if name in _WHOLE:
        return _whole(value, name)
    if name in _TIMES:
        return _time(value, name)
    if isinstance(value, Constant):
        return _constant(value, name)
    kind, code = _OTHERS.get(name, (Kind.OTHER, TypeCode.VARIANT))
    if value.kind not in _FROM.get(kind, ()):
        raise refuse(f"a cast of {value.kind.value} to {name}")
    return value if value.kind is kind else Cast(value, kind, code)


_OTHERS = {
    "DOUBLE": (Kind.DOUBLE, TypeCode.DOUBLE),
    "TEXT": (Kind.TEXT, TypeCode.STRING),
    "DATE": (Kind.DATE, TypeCode.DATE),
}


def _constant(value: Constant, name: str) -> Constant:
    text = value.kind is Kind.TEXT
    if name == "DATE" and text:
        return Constant(Kind.DATE, date_of(str(value.value)))
    if name == "DOUBLE" and (text or value.kind.is_number):
        return Constant(Kind.DOUBLE, number_of(str(value.value)))
    if name == "TEXT" and text:
        return value
    raise refuse(f"a cast of {value.value!r} to {name}", "write the constant in its target type")


def _size(to: Any) -> tuple[int, int]:
    """Return precision and scale of a DECIMAL; the limits are those of a table's columns."""
    given = [str(part.this.name) for part in to.expressions]
    if not given:
        return 38, 18
    if len(given) > 2 or not all(re.fullmatch("[0-9]{1,2}", one) for one in given):
        raise refuse("a DECIMAL with that size", "write it as decimal(10,2)")
    precision, scale = (*map(int, given), 0)[:2]
    if not 1 <= precision <= MAX_DIGITS or scale > precision:
        raise refuse(f"a DECIMAL({precision},{scale})", f"precision goes from 1 to {MAX_DIGITS}")
    return precision, scale


def _decimal(value: Node, size: tuple[int, int]) -> Node:
    precision, scale = size
    if isinstance(value, Constant) and (value.kind.is_number or value.kind is Kind.TEXT):
        number = number_of(str(value.value))
        steps = EXACT.scaleb(number, scale)
        if steps != EXACT.to_integral_value(steps) or EXACT.abs(steps) >= 10**precision:
            raise refuse(f"{number} does not fit DECIMAL({precision},{scale})")
        return Constant(Kind.DECIMAL, number)
    if value.kind not in _FROM[Kind.DECIMAL]:
        raise refuse(f"a cast of {value.kind.value} to DECIMAL")
    return Cast(value, Kind.DECIMAL, TypeCode.DECIMAL, precision, scale)


def _whole(value: Node, name: str) -> Node:
    code, bits = _WHOLE[name]
    if isinstance(value, Constant) and value.kind is Kind.INTEGER:
        if not -(2 ** (bits - 1)) <= value.number < 2 ** (bits - 1):
            raise refuse(f"{value.number} does not fit {name}")
        return value
    if value.kind not in _FROM[Kind.INTEGER] or isinstance(value, Constant):
        raise refuse(f"a cast of {value.kind.value} to {name}, which may round")
    return Cast(value, Kind.INTEGER, code)


def _time(value: Node, name: str) -> Node:
    if isinstance(value, Constant) and value.kind is Kind.TEXT:
        text = str(value.value)
        if text.endswith("Z") and name != "TIMESTAMPNTZ":  # as bind() writes an instant
            return Constant(Kind.INSTANT, clock_of(text[:-1]))
        return Constant(Kind.CLOCK, clock_of(text))
    if isinstance(value, Constant) and value.kind is Kind.CLOCK:
        return value
    raise refuse(
        f"a cast of {value.kind.value} to {name} depends on a time zone",
        "compare the column with a time in quotes",
    )
