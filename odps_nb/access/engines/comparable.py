"""Decides which comparisons have the same meaning in the service and in Spark or Arrow."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

from odps_nb.schema import Column, DecimalType, PrimitiveType, TypeCode
from odps_nb.type_facts import TYPE_FACTS

MAX_PARTITIONS = 1000  # limited because a request names every partition

Value = bool | int | float | str | datetime.date | Decimal

# Systems use different calendars (Julian or Gregorian) for early dates, so these are not compared.
_FIRST_DATE = datetime.date(1600, 1, 1)
_NULL_TESTED = (
    "INTEGER",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "BOOLEAN",
    "TEXT",
    "CHAR",
    "DATE",
    "INSTANT",
)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")


def takes_value(column: Column, value: Value, sign: str = "=") -> bool:
    """Whether Spark and the service always evaluate ``column sign value`` to the same result.

    False for floats (because of NaN), CHAR and VARCHAR (padding), times (time zone and precision),
    and literals that Spark or the service would have to cast.
    """
    code = column.type.code
    if TYPE_FACTS[code].kind == "INTEGER":
        # Exclude the smallest integer of each width: MaxCompute reserves the smallest BIGINT.
        return type(value) is int and abs(value) < 1 << (8 * TYPE_FACTS[code].width - 1)
    if code is TypeCode.STRING:
        return isinstance(value, str) and _same_text(value, sign)
    if code is TypeCode.BOOLEAN:
        return isinstance(value, bool) and sign in ("=", "<>")
    if code is TypeCode.DATE:
        return type(value) is datetime.date and value >= _FIRST_DATE
    if isinstance(column.type, DecimalType) and isinstance(value, (int, Decimal)):
        return not isinstance(value, bool) and _fits(Decimal(value), column.type)
    return False


def _same_text(value: str, sign: str) -> bool:
    if any(not character.isprintable() for character in value):
        return False
    # Any string compares with an ASCII literal in the same way in UTF-8 and in UTF-16.
    return sign in ("=", "<>") or value.isascii()


def _fits(value: Decimal, kind: DecimalType) -> bool:
    """Whether the literal, with its digits as written, fits the column's precision and scale."""
    if kind.precision is None or kind.precision > 38:
        return False
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or exponent > 0:
        return False
    scale = kind.scale or 0
    whole = max(0, len(digits) + exponent)
    return -exponent <= min(scale, 18) and whole <= kind.precision - scale


def takes_pattern(column: Column, pattern: str) -> bool:
    """Whether Spark and the service always evaluate ``column like pattern`` to the same result.

    They do so if ``%`` is the only wildcard; they interpret ``_`` and backslashes differently.
    """
    return (
        column.type.code is TypeCode.STRING
        and _same_text(pattern, "=")
        and not set(pattern) & set("_\\'\"")
    )


def may_be_null_tested(column: Column) -> bool:
    """Whether an ``is null`` test of the column may be pushed down."""
    return TYPE_FACTS[column.type.code].kind in _NULL_TESTED


def partition_value(column: Column, text: str) -> Value | None:
    """Parse a partition value as its column's type; ``None`` if its meaning is ambiguous."""
    if text.startswith("__"):  # may denote null
        return None
    if column.type == PrimitiveType(TypeCode.STRING):
        return text
    if TYPE_FACTS[column.type.code].kind == "INTEGER" and _INTEGER.fullmatch(text):
        return int(text)
    if column.type.code is TypeCode.DATE:
        try:
            value = datetime.date.fromisoformat(text)
        except ValueError:
            return None
        return value if value.isoformat() == text else None
    return None
