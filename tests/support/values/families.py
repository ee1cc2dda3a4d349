"""Values of other kinds that a table stores as the same value: 5.0 for 5, bytes for text."""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from tests.support.values.rules import (
    DAY,
    INSTANTS,
    INT64,
    NESTED,
    SECOND,
    Day,
    Kind,
    Misfit,
    Moment,
    Single,
    Span,
    stored,
)

#: Offsets from UTC: whole hours, and half an hour.
EAST = (0, 28_800, 19_800, -18_000)


class NoFormError(Exception):
    """A source has no type for these values."""


def family_of(value: Any) -> str:
    """Return the name of the Python, NumPy and Arrow types that hold values like this one."""
    if isinstance(value, Moment):
        return "clock" if value.ahead is None else f"instant{value.ahead}"
    return {
        bool: "bool", int: "int", float: "float", Single: "single", Decimal: "decimal",
        str: "text", bytes: "bytes", Day: "day", Span: "span",
    }[type(value)]  # fmt: skip


def single(number: float) -> Single | None:
    """Return the 32-bit float that equals the number, if there is one."""
    try:
        (found,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        return None
    same = found == number or number != number
    return Single(number, str(np.float32(number))) if same else None


def short(number: Decimal) -> Decimal:
    """Return the number with the fewest digits, e.g. 1E+3 for 1000."""
    sign, digits, exponent = number.as_tuple()
    while len(digits) > 1 and digits[-1] == 0:
        digits, exponent = digits[:-1], exponent + 1  # type: ignore[operator]
    return Decimal((sign, digits, exponent))


def _others(value: Any) -> list[Any]:
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int):
        return [Decimal(value), short(Decimal(value)), *_floats(value)]
    if isinstance(value, float):
        whole = [int(value)] if value.is_integer() and abs(value) < 1e76 else []
        return [single(value), *whole]
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        whole = [int(value)] if exponent >= 0 or not any(digits[exponent:]) else []
        return [short(value), *whole, *_floats(value)]
    if isinstance(value, str):
        return [value.encode()]
    if isinstance(value, bytes):
        try:
            return [value.decode()]
        except UnicodeDecodeError:
            return []
    if isinstance(value, Day):
        return [Moment(value.days * DAY, ahead) for ahead in (None, *EAST)]
    if isinstance(value, Moment):
        days = [] if value.shown % DAY else [Day(value.shown // DAY)]
        return [*days, *(Moment(value.shown + ahead * SECOND, ahead) for ahead in EAST)]
    return []


def _floats(number: int | Decimal) -> list[Any]:
    try:
        return [float(number), single(float(number))]
    except OverflowError:
        return []


def alternatives(kind: Kind, value: Any, ahead: int = 0) -> list[Any]:
    """Return all values of other kinds that are equal for a type, the value itself first."""
    found = [value]
    if kind.name in NESTED:
        return found
    try:
        wanted = stored(kind, value, ahead)
    except Misfit:
        return found
    for other in _others(value):
        try:
            if other is not None and repr(stored(kind, other, ahead)) == repr(wanted):
                found.append(other)
        except Misfit:
            continue
    if kind.name == "interval_year_month":
        return found[:1]  # it is not specified whether 7.0 months fit
    if kind.name not in INSTANTS and kind.name != "date":
        found = [one for one in found if not family_of(one).startswith("instant")]
    return found


def in_family(kind: Kind, value: Any, family: str, ahead: int = 0) -> Any:
    """Return the value as one of a family; ``None`` if that is impossible."""
    if value is None:
        return None
    same = [one for one in alternatives(kind, value, ahead) if family_of(one) == family]
    return same[0] if same else None


def one_family(
    choose: Callable[[list[Any]], Any], kind: Kind | None, values: list[Any]
) -> tuple[str, list[Any]]:
    """Choose a family for the values of a typed column; values that it cannot hold become null.

    If one value does not fit the type, it determines the family and is kept.
    """
    present = [one for one in values if one is not None]
    if kind is None:
        family = family_of(present[0])
        return family, [
            one if one in present and family_of(one) == family else None for one in values
        ]
    bad = [one for one in present if not fits(kind, one)]
    families = [family_of(one) for one in (bad or alternatives(kind, present[0]))]
    family = choose(list(dict.fromkeys(families)))
    kept = [one if one in bad else in_family(kind, one, family) for one in values]
    if family == "int":  # no NumPy or Arrow type supports both signs and 64 bits for each
        held = range(2**64) if max(bad, default=0) not in INT64 else INT64
        kept = [one if one in bad or (one is not None and one in held) else None for one in kept]
    return family, kept


def fits(kind: Kind, value: Any, ahead: int = 0) -> bool:
    """Whether the value fits the type."""
    try:
        stored(kind, value, ahead)
    except Misfit:
        return False
    return True
