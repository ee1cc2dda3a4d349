"""Selects the comparisons that Spark and `odps_nb.filters` evaluate alike.

A condition may keep more rows than the query does, never fewer. These rules extend `takes_value`:
Time literals are instants in the time zone of Spark's session. Spark orders NaN above all numbers.
VARCHAR is compared as STRING. CHAR is compared only by ``=`` and ``in``, because `odps_nb.filters`
ignores trailing blanks in CHAR values. ``_`` in a pattern matches one character in both systems.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from odps_nb.access.engines.comparable import Value, takes_pattern, takes_value
from odps_nb.filters import compare as filters
from odps_nb.filters.parse import column_value
from odps_nb.filters.tree import Constant, Like, Node, Not, ValueKind
from odps_nb.schema import Column, DecimalType, PrimitiveType, TypeCode

_STRING = PrimitiveType(TypeCode.STRING)
_UTC = ZoneInfo("UTC")
_EPOCH = datetime.datetime(1970, 1, 1)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(_DATE.pattern + r"(?:[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)?")
#: Years for which all calendars and time zone tables agree.
_FIRST, _LAST = 1600, 9998
_ZONED = range(1970, 2038)
_DIGITS = 15  # decimals with up to this many digits always convert to the same DOUBLE
_EXACT = {TypeCode.FLOAT: 1 << 24, TypeCode.DOUBLE: 1 << 53}
_INSTANTS = (TypeCode.DATETIME, TypeCode.TIMESTAMP)

_WHOLE = re.compile(r"[0-9]{1,40}")
_EXPONENT = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?[eE][+-]?[0-9]{1,2}")  # a DOUBLE
_POINT = re.compile(r"[0-9]{0,40}\.[0-9]{0,40}")
# sqlglot's names for Spark's timestamp types, and whether each type is an instant.
_TIMES = {"TIMESTAMPTZ": True, "TIMESTAMPLTZ": True, "TIMESTAMPNTZ": False}


@dataclass(frozen=True, slots=True)
class Moment:
    """A typed time literal as local time; an instant is in the session's time zone."""

    clock: datetime.datetime
    zoned: bool


def compare(
    column: Column, sign: str, value: Value | Moment, zone: str | None, *, negated: bool
) -> Node | None:
    """Return ``column sign value``; ``None`` if the service could evaluate it differently.

    ``zone`` is the session's time zone; without one, instants are not compared. With ``negated``,
    the condition is inside a NOT, so it must not match additional rows.
    """
    meant = _meant(column, sign, value, zone, negated=negated)
    if meant is None:
        return None
    # `not c <= 1` instead of `c > 1`: it also keeps NaN, which Spark orders above all numbers.
    opposite = {">": "<=", ">=": "<", "<>": "="}.get(sign) if column.type.code in _EXACT else None
    comparison = filters.compare(opposite or sign, column_value(column), _constant(meant), _UTC)
    return comparison if opposite is None else Not(comparison)


def is_in(
    column: Column, values: Sequence[Value | Moment], zone: str | None, *, negated: bool
) -> Node | None:
    """Return ``column in (values)``; ``None`` in the same cases as `compare`."""
    times = (*_INSTANTS, TypeCode.TIMESTAMP_NTZ)
    if column.type.code in times and any(isinstance(value, str) for value in values):
        return None  # without ANSI mode, Spark compares a mixed list as text
    is_decimal = isinstance(column.type, DecimalType)
    if is_decimal and len({isinstance(value, float) for value in values}) > 1:
        return None  # Spark converts the whole list to DOUBLE
    meant = [_meant(column, "=", value, zone, negated=negated) for value in values]
    known = tuple(_constant(value) for value in meant if value is not None)
    if not known or len(known) < len(meant):
        return None
    return filters.is_among(column_value(column), known, _UTC)


def like(column: Column, pattern: str) -> Node | None:
    """Return ``column like pattern``; ``None`` in the same cases as `compare`."""
    if column.type.code is TypeCode.VARCHAR:
        column = replace(column, type=_STRING)
    plain = pattern.replace("_", "")  # `_` matches any one character
    return Like(column_value(column), pattern) if takes_pattern(column, plain) else None


def _constant(value: Value) -> Constant:
    if isinstance(value, datetime.datetime):
        microseconds = (value - _EPOCH) // datetime.timedelta(microseconds=1)
        return Constant(ValueKind.CLOCK, microseconds * 1000)
    if isinstance(value, float):
        return Constant(ValueKind.DOUBLE, Decimal(repr(value)))
    return Constant(_KINDS[type(value)], value)


_KINDS = {
    bool: ValueKind.BOOLEAN,
    int: ValueKind.INTEGER,
    Decimal: ValueKind.DECIMAL,
    str: ValueKind.TEXT,
    datetime.date: ValueKind.DATE,
}


def _meant(
    column: Column, sign: str, value: Value | Moment, zone: str | None, *, negated: bool
) -> Value | None:
    """Convert a literal to the column's type; ``None`` if Spark may interpret it differently."""
    code = column.type.code
    if code in _EXACT:
        return _number(column, value)
    if code in _INSTANTS:
        clock = value.clock if isinstance(value, Moment) and value.zoned else _clock(value)
        return None if clock is None else _instant(clock, zone)
    if code is TypeCode.TIMESTAMP_NTZ:
        return value.clock if isinstance(value, Moment) and not value.zoned else _clock(value)
    if isinstance(value, Moment):
        return None
    if isinstance(column.type, DecimalType) and isinstance(value, float):
        # Spark converts the column to DOUBLE. Up to 15 digits, the order remains the same.
        value = Decimal(repr(value))
        if abs(value).scaleb(column.type.scale or 0) >= 10**_DIGITS:
            return None
    if code is TypeCode.DATE and isinstance(value, str):
        value = _date(value) or value
    if code is TypeCode.CHAR and (negated or sign != "="):
        return None
    if code in (TypeCode.CHAR, TypeCode.VARCHAR):
        column = replace(column, type=_STRING)
    return value if takes_value(column, value, sign) else None


def _instant(clock: datetime.datetime, zone: str | None) -> datetime.datetime | None:
    """Convert a session-local time to UTC; ``None`` if the UTC time is ambiguous or unknown."""
    if zone in ("UTC", "Etc/UTC", "Z", "GMT"):
        return clock
    if zone is None or "/" not in zone or clock.year not in _ZONED:
        return None
    try:
        known = ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return None
    offset, other = (clock.replace(tzinfo=known, fold=fold).utcoffset() for fold in (0, 1))
    return None if offset is None or offset != other else clock - offset


def _clock(value: Value | Moment) -> datetime.datetime | None:
    if isinstance(value, str):
        return _moment(value)
    if type(value) is datetime.date and _FIRST <= value.year <= _LAST:
        return datetime.datetime(value.year, value.month, value.day)
    return None


def _moment(text: str) -> datetime.datetime | None:
    """Parse a local time; ``None`` if Spark versions may interpret the text differently."""
    if not _TIME.fullmatch(text):
        return None
    try:
        clock = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return clock if _FIRST <= clock.year <= _LAST else None


def _date(text: str) -> datetime.date | None:
    clock = _moment(text) if _DATE.fullmatch(text) else None
    return None if clock is None else clock.date()


def _number(column: Column, value: Value | Moment) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    if isinstance(value, int) and abs(value) > _EXACT[column.type.code]:
        return None
    if isinstance(value, Decimal) and len(value.as_tuple().digits) > _DIGITS:
        return None
    return float(value) + 0.0  # turns -0.0 into 0.0


def value_of(tree: Any, texts: frozenset[str]) -> Value | Moment | None:
    """Return the value of a literal; ``None`` for any other expression.

    ``texts`` are the literals that all Spark versions interpret alike (`ParsedQuery.plain_texts`).
    """
    from sqlglot import exp

    if isinstance(tree, exp.Neg):
        value = value_of(tree.this.unnest(), texts)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if isinstance(value, Decimal):
            return value.copy_negate()  # `-` would round to 28 digits
        return -value if number else None  # type: ignore[operator]  # it is a number
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if isinstance(tree, exp.Literal):
        return _literal(tree, texts)
    if isinstance(tree, exp.Concat):
        return _concat(tree.expressions, texts)
    if isinstance(tree, exp.Cast):
        return _cast(tree, texts)
    return None


def _literal(tree: Any, texts: frozenset[str]) -> Value | None:
    if tree.is_string:
        return str(tree.this) if tree.this in texts else None
    text = str(tree.this)
    if _WHOLE.fullmatch(text):
        return int(text)
    if _EXPONENT.fullmatch(text):
        return float(text)
    return Decimal(text) if _POINT.fullmatch(text) and text != "." else None


def _concat(parts: Sequence[Any], texts: frozenset[str]) -> str | None:
    """Return the text that `odps_nb.access.binding` quotes as ``concat('it', chr(39), 's')``.

    Spark versions read adjacent literals such as ``'it''s'`` differently.
    """
    from sqlglot import exp

    pieces: list[str] = []
    for number, part in enumerate(parts):
        if isinstance(part, exp.Chr):
            code = value_of(part.expressions[0], texts) if len(part.expressions) == 1 else None
            if type(code) is not int or not 0 < code < 128:
                return None
            pieces.append(chr(code))
            continue
        repeated = number and isinstance(parts[number - 1], exp.Literal)
        text = value_of(part, texts) if isinstance(part, exp.Literal) and not repeated else None
        if not isinstance(text, str):
            return None
        pieces.append(text)
    return "".join(pieces)


def _cast(tree: Any, texts: frozenset[str]) -> Value | Moment | None:
    """Return the value of a cast of text to a date, time or DECIMAL, e.g. ``date '2024-01-31'``."""
    from sqlglot import exp

    text = tree.this
    if not (isinstance(text, exp.Literal) and text.is_string and text.this in texts):
        return None
    if tree.to.this is exp.DataType.Type.DATE:
        return _date(text.this)
    if tree.to.this is exp.DataType.Type.DECIMAL:
        return _decimal(text.this, tree.to.expressions)
    if tree.to.this.name in _TIMES:
        clock = _moment(text.this)
        return None if clock is None else Moment(clock, zoned=_TIMES[tree.to.this.name])
    return None


def _decimal(text: str, parameters: Sequence[Any]) -> Decimal | None:
    """Return the value of a cast to DECIMAL if the cast keeps every digit of the text."""
    numbers = [str(parameter.this.this) for parameter in parameters]
    digits = text.removeprefix("-")
    if len(numbers) != 2 or not all(map(str.isdecimal, numbers)):
        return None
    if not (_WHOLE.fullmatch(digits) or re.fullmatch(r"[0-9]{1,38}\.[0-9]{1,38}", digits)):
        return None
    precision, scale = map(int, numbers)
    value = Decimal(text)
    fraction = len(digits.partition(".")[2])
    whole = len(digits.partition(".")[0].lstrip("0"))
    return value if fraction <= scale and whole <= precision - scale else None
