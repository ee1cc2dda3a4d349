"""Decides what a comparison of two values means, by their kinds, before rows arrive.

The rules are those that MaxCompute documents for relational operators ("Type conversions",
"Operators"): text and numbers are compared as DOUBLE, text and DATETIME as DATETIME, DECIMAL and
number literals as DECIMAL; a comparison with null is null. Where this is not documented, the
comparison is refused with a hint how to write it instead.
"""

from __future__ import annotations

import datetime
import operator as operators
from collections.abc import Callable
from decimal import Decimal
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
from odps_nb.filters.tree import AnyOf, Cast, ColumnValue, Compare, Constant, IsIn, Kind, Node
from odps_nb.schema import TypeCode

_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NO_CONSTANT = "a column on one side at least"
_DAY = 86_400 * 10**9
_EPOCH = datetime.date(1970, 1, 1)
_EXACT_FLOAT = 2**24  # whole numbers up to here are equal as FLOAT and as DOUBLE


def compare(operator: str, left: Node, right: Node, zone: ZoneInfo) -> Node:
    """Return the comparison with both sides converted to one kind, a constant on the right.

    Raises `ArgumentError`: the kinds do not meet, or not in a way that is written down.
    """
    if Kind.NULL in (left.kind, right.kind):
        return Constant(Kind.BOOLEAN, None)
    if isinstance(left, Constant):
        if isinstance(right, Constant):
            return _both_constant(operator, left, right)
        left, right, operator = right, left, _MIRRORED[operator]
    if isinstance(right, Constant):
        return _against(operator, left, right, zone)
    return _of_columns(operator, left, right)


def is_among(value: Node, among: tuple[Node, ...], zone: ZoneInfo) -> Node:
    """Return ``value in (among)``; as one lookup where all are constants of its kind."""
    with_null = any(one.kind is Kind.NULL for one in among)
    parts = [compare("=", value, one, zone) for one in among if one.kind is not Kind.NULL]
    same = [
        part.right.value
        for part in parts
        if isinstance(part, Compare)
        and part.left == value
        and isinstance(part.right, Constant)
        and part.right.kind is value.kind
    ]
    if len(same) == len(parts) and value.kind in _LOOKED_UP:
        return IsIn(value, tuple(dict.fromkeys(same)), with_null)
    nulls: list[Node] = [Constant(Kind.BOOLEAN, None)] if with_null else []
    return AnyOf((*parts, *nulls))


_LOOKED_UP = (
    *(Kind.INTEGER, Kind.TEXT, Kind.DATE, Kind.DECIMAL, Kind.INSTANT, Kind.CLOCK),
    *(Kind.DURATION, Kind.BYTES),
)


def as_double(node: Node) -> Node:
    """Return a number as DOUBLE."""
    if node.kind is Kind.DOUBLE:
        return node
    if isinstance(node, Constant):
        return Constant(Kind.DOUBLE, node.value)
    return Cast(node, Kind.DOUBLE, TypeCode.DOUBLE)


# -- a constant on the right --------------------------------------------------------------------


def _against(operator: str, left: Node, right: Constant, zone: ZoneInfo) -> Node:
    try:
        meet = _MEETINGS[left.kind]
    except KeyError:
        raise refuse(
            f"{_name(left)} is {left.kind.value}, which has no order or equality"
        ) from None
    if left.kind is Kind.BOOLEAN and operator not in ("=", "<>"):
        raise refuse(f"{_name(left)} has no order", "compare it with = or <>")
    left, right = meet(left, right, zone)
    return Compare(operator, left, right)


def _boolean(left: Node, right: Constant, zone: ZoneInfo) -> tuple[Node, Constant]:
    if right.kind is not Kind.BOOLEAN:
        raise _do_not_meet(left, right, "compare it with true or false")
    return left, right


def _integer(left: Node, right: Constant, zone: ZoneInfo) -> tuple[Node, Constant]:
    if right.kind in (Kind.INTEGER, Kind.DECIMAL):
        return left, right
    if right.kind is Kind.DOUBLE:
        return as_double(left), right
    if right.kind.is_text:  # documented: text and BIGINT are compared as DOUBLE
        return as_double(left), Constant(Kind.DOUBLE, number_of(str(right.value)))
    raise _do_not_meet(left, right, "compare it with a number")


def _float(left: Node, right: Constant, zone: ZoneInfo) -> tuple[Node, Constant]:
    if right.kind is Kind.INTEGER and abs(right.number) > _EXACT_FLOAT:
        raise _do_not_meet(left, right, f"cast it: cast({_name(left)} as double)")
    return _double(left, right, zone)


def _double(left: Node, right: Constant, zone: ZoneInfo) -> tuple[Node, Constant]:
    if right.kind in (Kind.INTEGER, Kind.DOUBLE):
        return as_double(left), Constant(Kind.DOUBLE, right.value)
    if right.kind.is_text:
        return as_double(left), Constant(Kind.DOUBLE, number_of(str(right.value)))
    raise _do_not_meet(left, right, "compare it with a number such as 1.5")


def _decimal(left: Node, right: Constant, zone: ZoneInfo) -> tuple[Node, Constant]:
    if right.kind.is_number:
        return left, Constant(Kind.DECIMAL, Decimal(right.value))  # type: ignore[arg-type]
    if right.kind.is_text:
        return left, Constant(Kind.DECIMAL, number_of(str(right.value)))
    raise _do_not_meet(left, right, "compare it with a number")


def _text(left: Node, right: Constant, zone: ZoneInfo) -> tuple[Node, Constant]:
    if right.kind.is_text:
        value = str(right.value)
        return left, Constant(left.kind, value.rstrip(" ") if left.kind is Kind.CHAR else value)
    if right.kind in (Kind.INTEGER, Kind.DOUBLE):
        return as_double(left), Constant(Kind.DOUBLE, right.value)
    if right.kind is Kind.BYTES and left.kind is Kind.TEXT:  # by the bytes of UTF-8
        return left, right
    raise _do_not_meet(left, right, "compare it with text in quotes")


def _date(left: Node, right: Constant, zone: ZoneInfo) -> tuple[Node, Constant]:
    if right.kind is Kind.DATE:
        return left, right
    if right.kind.is_text:
        return left, Constant(Kind.DATE, date_of(str(right.value)))
    if right.kind in (Kind.CLOCK, Kind.INSTANT):  # a DATE is its midnight
        clock = _clock_constant(left, right, zone)
        days, rest = divmod(clock, _DAY)
        if rest:
            return left, Constant(Kind.CLOCK, clock)
        return left, Constant(Kind.DATE, _EPOCH + datetime.timedelta(days=days))
    raise _do_not_meet(left, right, "compare it with a date such as '2024-01-31'")


def _instant(left: Node, right: Constant, zone: ZoneInfo) -> tuple[Node, Constant]:
    if right.kind is Kind.INSTANT:
        return left, right
    clock = _clock_constant(left, right, zone)
    return left, Constant(Kind.INSTANT, instant_of(clock, zone))


def _clock(left: Node, right: Constant, zone: ZoneInfo) -> tuple[Node, Constant]:
    return left, Constant(Kind.CLOCK, _clock_constant(left, right, zone))


def _clock_constant(left: Node, right: Constant, zone: ZoneInfo) -> int:
    if right.kind.is_text:
        return clock_of(str(right.value))
    if right.kind is Kind.CLOCK and isinstance(right.value, int):
        return right.value
    if right.kind is Kind.INSTANT and isinstance(right.value, int):
        return clock_in(zone, right.value)
    if right.kind is Kind.DATE and isinstance(right.value, datetime.date):
        return (right.value - _EPOCH).days * _DAY
    raise _do_not_meet(left, right, "compare it with a time such as '2024-01-31 00:00:00'")


def _duration(left: Node, right: Constant, zone: ZoneInfo) -> tuple[Node, Constant]:
    if right.kind is not Kind.DURATION:
        raise _do_not_meet(left, right, "compare it with interval '1 02:03:04' day to second")
    return left, right


def _bytes(left: Node, right: Constant, zone: ZoneInfo) -> tuple[Node, Constant]:
    if right.kind is not Kind.BYTES:
        raise _do_not_meet(left, right, "bind bytes, or write unhex('0aff')")
    return left, right


_MEETINGS: dict[Kind, Callable[[Node, Constant, ZoneInfo], tuple[Node, Constant]]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INTEGER: _integer,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _double,
    Kind.DECIMAL: _decimal,
    Kind.TEXT: _text,
    Kind.CHAR: _text,
    Kind.DATE: _date,
    Kind.INSTANT: _instant,
    Kind.CLOCK: _clock,
    Kind.DURATION: _duration,
    Kind.BYTES: _bytes,
}


# -- two columns, two constants -----------------------------------------------------------------


def _of_columns(operator: str, left: Node, right: Node) -> Node:
    kinds = {left.kind, right.kind}
    if Kind.OTHER in kinds:
        other = left if left.kind is Kind.OTHER else right
        raise refuse(f"{_name(other)} is {other.kind.value}")
    if kinds <= {Kind.INTEGER} or kinds <= {Kind.INTEGER, Kind.DECIMAL}:
        return Compare(operator, left, right)
    if kinds <= {Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE}:
        return Compare(operator, as_double(left), as_double(right))
    if kinds <= {Kind.TEXT, Kind.CHAR}:
        if len(kinds) == 2:
            raise _do_not_meet(left, right, "cast the CHAR column to string")
        return Compare(operator, left, right)
    if len(kinds) == 1 and left.kind is not Kind.BOOLEAN:
        return Compare(operator, left, right)
    if len(kinds) == 1 and operator in ("=", "<>"):
        return Compare(operator, left, right)
    raise _do_not_meet(left, right, "cast one of them to the type of the other")


def _both_constant(sign: str, left: Constant, right: Constant) -> Constant:
    same = left.kind is right.kind or (left.kind.is_number and right.kind.is_number)
    if not same or left.kind is Kind.BOOLEAN:
        raise _do_not_meet(left, right, f"write {_NO_CONSTANT}")
    one: Any = left.value
    return Constant(Kind.BOOLEAN, bool(_HOLDS[sign](one, right.value)))


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
        if node.kind in (Kind.CLOCK, Kind.INSTANT):
            return "a time"
        if node.kind is Kind.DURATION:
            return "a duration"
        return repr(value) if isinstance(value, str) else str(value)
    return f"an expression of {node.kind.value}"
