"""MaxCompute types, values that are offered to them, and which of these fit, in plain Python.

This is the specification that the property tests check the library against, so it uses neither
odps_nb nor Arrow, NumPy or pandas. Offered values are ``None``, ``bool``, ``int``, ``float``,
`Single`, ``Decimal``, ``str``, ``bytes``, `Day`, `Moment`, `Span`, ``list``, `Pairs` and ``dict``
(of the members of a STRUCT). A stored value is one of these forms:

- numbers of months and integers: ``int``; FLOAT and DOUBLE: the ``repr`` of the float, which tells
  -0.0 from 0.0 and finds NaN equal to NaN; DECIMAL: ``Decimal`` with the scale of the type;
- DATE: days since 1970-01-01; DATETIME, TIMESTAMP, TIMESTAMP_NTZ: nanoseconds since then;
  INTERVAL_DAY_TIME: nanoseconds;
- ARRAY: a list; MAP: a list of pairs; STRUCT: a dict with all members.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
TEXTS = ("string", "char", "varchar", "json")
INSTANTS = ("datetime", "timestamp")
TIMES = (*INSTANTS, "timestamp_ntz")
NESTED = ("array", "map", "struct")
BARE_DECIMAL = (38, 18)
SECOND = 10**9
DAY = 86_400 * SECOND
FIRST_DAY, LAST_DAY = -719162, 2932896  # 0001-01-01 and 9999-12-31
FIRST, LAST = FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1
INT64 = range(-(2**63), 2**63)
#: The range of TIMESTAMPs in nanoseconds; Arrow and NumPy use the lowest number for NaT.
NEAR = range(-(2**63) + 1, 2**63)


class Misfit(Exception):
    """A value does not fit; ``kind``: no value of its kind does."""

    def __init__(self, reason: str, *, kind: bool = False) -> None:
        super().__init__(reason)
        self.kind = kind


@dataclass(frozen=True)
class Kind:
    """A type: its name in lower case, the numbers in its brackets, and the types inside it."""

    name: str
    numbers: tuple[int, ...] = ()
    parts: tuple[tuple[str, Kind], ...] = ()

    @property
    def text(self) -> str:
        if self.name == "struct":
            return f"struct<{','.join(f'{n}:{part.text}' for n, part in self.parts)}>"
        if self.parts:
            return f"{self.name}<{','.join(part.text for _, part in self.parts)}>"
        return self.name + (f"({','.join(map(str, self.numbers))})" if self.numbers else "")

    def __repr__(self) -> str:
        return self.text

    def part(self, name: str) -> Kind:
        return dict(self.parts)[name]

    def leaves(self) -> Iterator[Kind]:
        if not self.parts:
            yield self
        for _, part in self.parts:
            yield from part.leaves()


def array(element: Kind) -> Kind:
    return Kind("array", (), (("element", element),))


def mapping(key: Kind, value: Kind) -> Kind:
    return Kind("map", (), (("key", key), ("value", value)))


def members(*parts: tuple[str, Kind]) -> Kind:
    return Kind("struct", (), parts)


@dataclass(frozen=True)
class Single:
    """A 32-bit float; ``text`` is its shortest text."""

    value: float
    text: str


@dataclass(frozen=True)
class Day:
    days: int


@dataclass(frozen=True)
class Moment:
    """A local time, in nanoseconds since 1970; ``ahead``: seconds ahead of UTC, if known."""

    shown: int
    ahead: int | None = None


@dataclass(frozen=True)
class Span:
    nanos: int


class Pairs(list[tuple[Any, Any]]):
    """The entries of a MAP."""


def stored(kind: Kind, value: Any, ahead: int = 0) -> Any:
    """Return the stored value after the value was written.

    Parameters
    ----------
    ahead
        Seconds that the local time of naive values is ahead of UTC.

    Raises
    ------
    Misfit
        The value does not fit.
    """
    if value is None:
        return None
    if kind.name in NESTED:
        return _nested(kind, value, ahead)
    if kind.name in TIMES:
        return _time(kind, value, ahead)
    return _RULES.get(kind.name, _as_it_is)(kind, value)


def _as_it_is(kind: Kind, value: Any) -> Any:
    wanted = {"boolean": bool, "interval_day_time": Span, "interval_year_month": int}[kind.name]
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise Misfit("another kind", kind=True)
    if isinstance(value, Span):
        return _within(value.nanos, 2**63)
    return _within(value, 2**63) if wanted is int else value


def _binary(kind: Kind, value: Any) -> bytes:
    if not isinstance(value, (bytes, str)):
        raise Misfit("no bytes", kind=True)
    return _encoded(value) if isinstance(value, str) else value


def _integer(kind: Kind, value: Any) -> int:
    return _within(_whole(value), 2 ** (BITS[kind.name] - 1))


def _nested(kind: Kind, value: Any, ahead: int) -> Any:
    wanted = {"array": list, "map": Pairs, "struct": dict}[kind.name]
    if not isinstance(value, wanted) or (wanted is list and isinstance(value, Pairs)):
        raise Misfit("another kind", kind=True)
    if kind.name == "array":
        return [stored(kind.part("element"), one, ahead) for one in value]
    if kind.name == "map":
        key, item = kind.part("key"), kind.part("value")
        if any(one is None for one, _ in value):
            raise Misfit("a key is null")
        return [(stored(key, k, ahead), stored(item, v, ahead)) for k, v in value]
    given = {name.casefold(): one for name, one in value.items()}
    if given.keys() - {name.casefold() for name, _ in kind.parts}:
        raise Misfit("an unknown member", kind=True)
    return {name: stored(part, given.get(name.casefold()), ahead) for name, part in kind.parts}


def _within(number: int, bound: int) -> int:
    if not -bound <= number < bound:
        raise Misfit("out of range")
    return number


def _number(value: Any) -> int | Decimal:
    """Return the intended number: 0.1 is 0.1, not 0.1000000000000000055…"""
    if isinstance(value, bool) or not isinstance(value, (int, float, Single, Decimal)):
        raise Misfit("no number", kind=True)
    if isinstance(value, int):
        return value
    meant = Decimal(value.text if isinstance(value, Single) else repr(value)
                    if isinstance(value, float) else value)  # fmt: skip
    if not meant.is_finite():
        raise Misfit("not finite")
    return meant


def _whole(value: Any) -> int:
    number = _number(value)
    if isinstance(value, (float, Single)):  # 1e22 is exact as a float, but its text may not be
        number = Decimal(value.value if isinstance(value, Single) else value)
    if number != int(number):
        raise Misfit("a fraction")
    return int(number)


def _floating(kind: Kind, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float, Single)):
        raise Misfit("no float", kind=True)
    try:
        number = float(value.value if isinstance(value, Single) else value)
        if kind.name == "float":
            (number,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        raise Misfit("out of range") from None
    if isinstance(value, int) and int(number) != value:
        raise Misfit("digits are lost")
    return repr(number)


def _decimal(kind: Kind, value: Any) -> Decimal:
    precision, scale = kind.numbers or BARE_DECIMAL
    number = _number(value)
    sign, digits, exponent = Decimal(number).as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits)))
    if exponent + scale >= 0:
        unscaled *= 10 ** min(exponent + scale, 10_000) if unscaled else 1
    else:
        unscaled, lost = divmod(unscaled, 10 ** min(-exponent - scale, 10_000))
        if lost:
            raise Misfit("a fraction is lost")
    if unscaled >= 10**precision:
        raise Misfit("too many digits")
    return exact(-unscaled if sign else unscaled, scale)


def exact(unscaled: int, scale: int) -> Decimal:
    """Return ``unscaled / 10**scale``, regardless of the precision of the decimal context."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Misfit("no Unicode") from None


def _text(kind: Kind, value: Any) -> str:
    if not isinstance(value, (str, bytes)):
        raise Misfit("no text", kind=True)
    try:
        text = (value if isinstance(value, bytes) else _encoded(value)).decode()
    except UnicodeDecodeError:
        raise Misfit("no UTF-8") from None
    if kind.numbers and len(text) > kind.numbers[0]:
        raise Misfit("too long")
    return text.rstrip(" ") if kind.name == "char" else text  # CHAR is read without padding


def _date(kind: Kind, value: Any) -> int:
    if isinstance(value, Moment):
        if value.shown % DAY:
            raise Misfit("not midnight")
        value = Day(value.shown // DAY)
    if not isinstance(value, Day):
        raise Misfit("no date", kind=True)
    if not FIRST_DAY <= value.days <= LAST_DAY:
        raise Misfit("out of range")
    return value.days


def _time(kind: Kind, value: Any, ahead: int) -> int:
    if isinstance(value, Day):
        value = Moment(value.days * DAY)
    if not isinstance(value, Moment):
        raise Misfit("no time", kind=True)
    nanos = value.shown
    if kind.name in INSTANTS:
        nanos -= (ahead if value.ahead is None else value.ahead) * SECOND
    elif value.ahead is not None:
        raise Misfit("a zone", kind=True)
    if not FIRST <= nanos <= LAST:
        raise Misfit("out of range")
    if kind.name == "datetime" and nanos % 10**6:
        raise Misfit("finer than a millisecond")
    return nanos


_RULES: dict[str, Callable[[Kind, Any], Any]] = {
    **dict.fromkeys(BITS, _integer),
    **dict.fromkeys(TEXTS, _text),
    "float": _floating,
    "double": _floating,
    "decimal": _decimal,
    "binary": _binary,
    "date": _date,
}
