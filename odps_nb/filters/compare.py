"""Determines a comparison's type from the kinds of both sides, before rows arrive.

The rules follow MaxCompute's documentation ("Type conversions", "Operators"): text and numbers
are compared as DOUBLE, text and DATETIME as DATETIME, and DECIMAL and number literals as DECIMAL.
Comparisons that are not documented raise an error.
"""

from __future__ import annotations

import datetime
import operator as operators
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

from odps_nb.filters.literals import (
    clock_in,
    clock_of,
    date_of,
    instant_of,
    number_of,
    refuse,
)
from odps_nb.filters.tree import (
    AnyOf,
    Cast,
    ColumnValue,
    Compare,
    Constant,
    IsIn,
    Node,
    PyValue,
    ValueKind,
)
from odps_nb.schema import TypeCode

_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DAY = 86_400 * 10**9
_EPOCH = datetime.date(1970, 1, 1)
_EXACT_FLOAT = 2**24  # FLOAT represents all integers up to this one exactly


def compare(operator: str, left: Node, right: Node, zone: ZoneInfo) -> Node:
    """Return the comparison with both sides converted to one kind and any constant on the right."""
    if ValueKind.NULL in (left.kind, right.kind):
        return Constant(ValueKind.BOOLEAN, None)
    if isinstance(left, Constant):
        if isinstance(right, Constant):
            return _both_constant(operator, left, right)
        left, right, operator = right, left, _MIRRORED[operator]
    if isinstance(right, Constant):
        return _against(operator, left, right, zone)
    return _of_columns(operator, left, right)


def is_among(value: Node, among: tuple[Node, ...], zone: ZoneInfo) -> Node:
    """Return ``value in (among)``; constants that need no conversion are looked up together."""
    with_null = any(node.kind is ValueKind.NULL for node in among)
    if value.kind in _ALIKE and not isinstance(value, Constant):
        items = [
            node.value for node in among if isinstance(node, Constant) and node.kind is value.kind
        ]
        if len(items) == len(among):
            return IsIn(value, tuple(dict.fromkeys(items)))
    comparisons = (
        compare("=", value, node, zone) for node in among if node.kind is not ValueKind.NULL
    )
    parts = tuple(dict.fromkeys(comparisons))
    alike: dict[Node, list[PyValue]] = {}
    separate: list[Node] = []
    for part in parts:
        same = isinstance(part, Compare) and part.right.kind is part.left.kind
        if same and isinstance(part.right, Constant):  # type: ignore[union-attr]
            alike.setdefault(part.left, []).append(part.right.value)  # type: ignore[union-attr]
        else:
            separate.append(part)
    if not separate and alike.keys() <= {value} and value.kind in _LOOKED_UP:
        return IsIn(value, tuple(alike.get(value, ())), with_null)
    if len(parts) > MOST_COMPARED:  # for example, if a FLOAT column is converted to DOUBLE
        parts = (*separate, *(IsIn(left, tuple(values)) for left, values in alike.items()))
    nulls: list[Node] = [Constant(ValueKind.BOOLEAN, None)] if with_null else []
    return AnyOf((*parts, *nulls))


MOST_COMPARED = 1_000
"""Maximum number of values to compare one by one; the service can use these comparisons."""
_K = ValueKind
_ALIKE = (_K.INTEGER, _K.TEXT)  # constants of these kinds are compared without conversion
_LOOKED_UP = {*_K} - {_K.BOOLEAN, _K.FLOAT, _K.DOUBLE, _K.CHAR, _K.NULL, _K.OTHER}


def as_double(node: Node) -> Node:
    """Convert a number to DOUBLE."""
    if node.kind is ValueKind.DOUBLE:
        return node
    if isinstance(node, Constant):
        return Constant(ValueKind.DOUBLE, node.value)
    return Cast(node, ValueKind.DOUBLE, TypeCode.DOUBLE)


# -- a constant on the right --------------------------------------------------------------------


def _against(operator: str, left: Node, right: Constant, zone: ZoneInfo) -> Node:
    if left.kind not in _HINTS:
        raise refuse(f"{_name(left)} can only be tested for null")
    if left.kind is ValueKind.BOOLEAN and operator not in ("=", "<>"):
        raise refuse(f"{_name(left)} has no ordering", "compare it with = or <>")
    if left.kind in _TIMES:
        return Compare(operator, left, _time(left, right, zone))
    return Compare(operator, *_meeting(left, right))


_TIMES = (ValueKind.DATE, ValueKind.INSTANT, ValueKind.CLOCK)
_DOUBLES = (ValueKind.INTEGER, ValueKind.FLOAT, ValueKind.DOUBLE)
_LIKE_A_TIME = "compare it with a time such as '2024-01-31 00:00:00'"
_HINTS = {
    ValueKind.BOOLEAN: "compare it with true or false",
    **dict.fromkeys((ValueKind.INTEGER, ValueKind.DECIMAL), "compare it with a number"),
    **dict.fromkeys((ValueKind.FLOAT, ValueKind.DOUBLE), "compare it with a number such as 1.5"),
    **dict.fromkeys((ValueKind.TEXT, ValueKind.CHAR), "compare it with text in quotes"),
    ValueKind.DATE: "compare it with a date such as '2024-01-31'",
    **dict.fromkeys((ValueKind.INSTANT, ValueKind.CLOCK), _LIKE_A_TIME),
    ValueKind.DURATION: "compare it with interval '1 02:03:04' day to second",
    ValueKind.BYTES: "bind bytes with params=, or write unhex('0aff')",
}
# Pairs (kind of the value, kind of the constant) that are compared without conversion
_AS_THEY_ARE = {
    (ValueKind.INTEGER, ValueKind.DECIMAL),
    (ValueKind.TEXT, ValueKind.BYTES),  # the text is compared as UTF-8 bytes
    *((kind, kind) for kind in (ValueKind.BOOLEAN, ValueKind.INTEGER)),
    *((kind, kind) for kind in (ValueKind.DURATION, ValueKind.BYTES)),
}


def _meeting(left: Node, right: Constant) -> tuple[Node, Constant]:
    """Convert a value and a constant to a common kind."""
    kind, right_kind = left.kind, right.kind
    if (kind, right_kind) in _AS_THEY_ARE:
        return left, right
    if kind.is_text and right_kind.is_text:
        text = str(right.value)
        return left, Constant(kind, text.rstrip(" ") if kind is ValueKind.CHAR else text)
    numeric = kind in _DOUBLES or kind is ValueKind.DECIMAL
    number = number_of(str(right.value)) if right_kind.is_text and numeric else right.number
    if kind is ValueKind.DECIMAL and (right_kind.is_text or right_kind.is_number):
        return left, Constant(kind, number)
    large = right_kind is ValueKind.INTEGER and abs(number) > _EXACT_FLOAT
    if kind is ValueKind.FLOAT and large:
        raise _do_not_meet(left, right, f"cast it: cast({_name(left)} as double)")
    # text and numbers are compared as DOUBLE
    if right_kind in _DOUBLES and (kind in _DOUBLES or kind.is_text):
        return as_double(left), Constant(ValueKind.DOUBLE, right.value)
    if kind in _DOUBLES and right_kind.is_text:
        return as_double(left), Constant(ValueKind.DOUBLE, number)
    raise _do_not_meet(left, right, _HINTS[kind])


def _time(left: Node, right: Constant, zone: ZoneInfo) -> Constant:
    """Convert a constant to a time comparable with a DATE, an instant or a local time."""
    if right.kind is left.kind:
        return right
    if left.kind is ValueKind.DATE and right.kind.is_text:
        return Constant(ValueKind.DATE, date_of(str(right.value)))
    clock = _clock(left, right, zone)
    if left.kind is ValueKind.INSTANT:
        return Constant(ValueKind.INSTANT, instant_of(clock, zone))
    days, rest = divmod(clock, _DAY)
    if left.kind is ValueKind.DATE and not rest:  # compared as a DATE
        return Constant(ValueKind.DATE, _EPOCH + datetime.timedelta(days=days))
    return Constant(ValueKind.CLOCK, clock)


def _clock(left: Node, right: Constant, zone: ZoneInfo) -> int:
    if right.kind.is_text:
        return clock_of(str(right.value))
    if right.kind is ValueKind.CLOCK and isinstance(right.value, int):
        return right.value
    if right.kind is ValueKind.INSTANT and isinstance(right.value, int):
        return clock_in(zone, right.value)
    if right.kind is ValueKind.DATE and isinstance(right.value, datetime.date):
        return (right.value - _EPOCH).days * _DAY
    raise _do_not_meet(left, right, _HINTS[left.kind])


# -- two columns, two constants -----------------------------------------------------------------


def _of_columns(operator: str, left: Node, right: Node) -> Node:
    kinds = {left.kind, right.kind}
    if ValueKind.OTHER in kinds:
        other = left if left.kind is ValueKind.OTHER else right
        raise refuse(f"{_name(other)} can only be tested for null")
    if kinds <= {ValueKind.INTEGER, ValueKind.DECIMAL}:
        return Compare(operator, left, right)
    if kinds <= {ValueKind.INTEGER, ValueKind.FLOAT, ValueKind.DOUBLE}:
        return Compare(operator, as_double(left), as_double(right))
    if kinds == {ValueKind.TEXT, ValueKind.CHAR}:
        raise _do_not_meet(left, right, "cast the CHAR column to string")
    if len(kinds) == 1 and (left.kind is not ValueKind.BOOLEAN or operator in ("=", "<>")):
        return Compare(operator, left, right)
    raise _do_not_meet(left, right, "cast one side to the type of the other side")


def _both_constant(sign: str, left: Constant, right: Constant) -> Constant:
    same = left.kind is right.kind or (left.kind.is_number and right.kind.is_number)
    if not same or left.kind is ValueKind.BOOLEAN:
        raise _do_not_meet(left, right, "write a column on at least one side")
    left_value: Any = left.value
    return Constant(ValueKind.BOOLEAN, bool(_HOLDS[sign](left_value, right.value)))


_HOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operators.eq,
    "<>": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}


def _do_not_meet(left: Node, right: Node, hint: str) -> Exception:
    return refuse(f"{_name(left)} cannot be compared with {_name(right)}", hint)


def _name(node: Node) -> str:
    if isinstance(node, ColumnValue):
        return f"{node.name} ({node.type_text})"
    if isinstance(node, Constant):
        value = node.value
        if node.kind in (ValueKind.CLOCK, ValueKind.INSTANT):
            return "a time"
        if node.kind is ValueKind.DURATION:
            return "a duration"
        return repr(value) if isinstance(value, str) else str(value)
    return f"an expression of {node.kind.value}"
