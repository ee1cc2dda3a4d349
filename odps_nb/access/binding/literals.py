"""Formats Python values as SQL literals that every target parses to the same value."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from odps_nb.access.binding.values import Duration, PlainValue, Time, plain
from odps_nb.errors import ArgumentError
from odps_nb.filters.literals import zone_of

Target = Literal["sql", "where", "spark"]
"""The language of a literal: the service's SQL, a ``where=`` condition, or Spark SQL."""

MAX_VALUES = 10_000
"""Maximum length of an IN list in SQL, whose text the service limits to 2 MB."""
_JOIN = {
    "sql": "odps.create_table('wanted', {'id': values}, lifecycle=1), and write "
    "… where id in (select id from wanted)",
    "spark": "spark.createDataFrame([(v,) for v in values], 'id bigint')"
    ".createOrReplaceTempView('wanted'), and write … where id in (select id from wanted)",
}
_LONG = 2**63
# Maximum DECIMAL digits for each target; more than 38 require a SQL setting.
_DIGITS: dict[Target, int] = {"sql": 38, "spark": 38, "where": 76}
_PLAIN_SCALE = 18  # decimal places allowed without a SQL setting
_SECOND = 10**9
_EPOCH = datetime.datetime(1970, 1, 1)
_UNSAFE = re.compile(r"(['\\\x00-\x1f\x7f\ufffe\uffff]|\$(?=\{))")


def literal(value: object) -> str:
    """Format a Python value as a SQL literal; a list becomes a parenthesized list for ``in``."""
    return Writer().literal(plain(value))


@dataclass(frozen=True, slots=True)
class Writer:
    """Formats literals for one target, whose time zone is ``timezone``."""

    target: Target = "sql"
    timezone: str | None = None

    def literal(self, value: PlainValue) -> str:
        """Format a value returned by `plain`."""
        if isinstance(value, list):
            return self._list(value)
        if isinstance(value, Time):
            return self._time(value)
        if isinstance(value, Duration):
            return self._duration(value.nanoseconds)
        if isinstance(value, Decimal):
            return self._decimal(value)
        if type(value) is int and not -_LONG < value < _LONG:
            if value.bit_length() > 256:
                raise self._too_long(f"an integer of {value.bit_length():,} bits")
            return self._decimal(Decimal(value))
        if type(value) is str:
            return _text(value, in_sql=self.target != "where")
        if type(value) is float:
            return _float(value, in_spark=self.target == "spark")
        return _WRITERS[type(value)](value)

    def _list(self, values: Sequence[PlainValue]) -> str:
        if not values:
            raise ArgumentError(
                "an empty list cannot be bound",
                # SQL has no empty list: "in (null)" and "not in (null)" both match no row.
                hint="check for an empty list first: in () is not valid SQL",
            )
        if len(values) > MAX_VALUES and self.target != "where":
            raise ArgumentError(
                f"{len(values):,} values cannot be bound in SQL; the maximum is {MAX_VALUES:,}",
                hint="join them instead: " + _JOIN[self.target],
            )
        return "(" + ", ".join(map(self.literal, values)) + ")"

    def _time(self, value: Time) -> str:
        if not value.is_instant:
            return self._cast(_clock(value.nanoseconds))
        if self.timezone is not None and (shown := self._shown(value.nanoseconds)) is not None:
            return self._cast(shown)
        if self.target != "sql":
            return self._cast(_clock(value.nanoseconds), zone="Z")
        if self.timezone is None:
            raise ArgumentError(
                "a time with a time zone cannot be bound: the time zone of the query is unknown",
                hint="connect with timezone=…, or bind a naive time: "
                "value.astimezone(zone).replace(tzinfo=None)",
            )
        raise ArgumentError(
            f"{_clock(value.nanoseconds)} UTC cannot be bound: its local time occurs twice in "
            f"{self.timezone}, and SQL would use the earlier one",
            hint="run the query in UTC: settings={'odps.sql.timezone': 'UTC'}",
        )

    def _shown(self, instant: int) -> str | None:
        """Format an instant as local time; ``None`` if the text would mean another instant."""
        assert self.timezone is not None
        zone = zone_of(self.timezone)
        seconds, rest = divmod(instant, _SECOND)
        try:
            moment = _EPOCH + datetime.timedelta(seconds=seconds)
            there = moment.replace(tzinfo=datetime.UTC).astimezone(zone)
            shown = there.replace(tzinfo=None, fold=0)  # SQL text cannot express `fold`
            read = shown.replace(tzinfo=zone).astimezone(datetime.UTC).replace(tzinfo=None)
        except OverflowError:
            raise _outside(instant) from None
        if read != moment:
            return None
        return _clock((shown - _EPOCH) // datetime.timedelta(seconds=1) * _SECOND + rest)

    def _cast(self, clock: str, *, zone: str = "") -> str:
        if self.target == "spark" and len(clock) > len("2024-01-31 00:00:00.123456"):
            raise ArgumentError(
                f"{clock} cannot be bound: Spark supports only microseconds",
                hint="round it: value.floor('us') in pandas, or .astype('datetime64[us]')",
            )
        return f"CAST('{clock}{zone}' AS TIMESTAMP)"

    def _duration(self, nanoseconds: int) -> str:
        if self.target == "spark" and nanoseconds % 1000:
            raise ArgumentError(
                f"a duration of {nanoseconds} ns cannot be bound: Spark supports only microseconds",
                hint="truncate it, for example with value.floor('us') in pandas",
            )
        seconds, rest = divmod(abs(nanoseconds), _SECOND)
        hours, seconds = divmod(seconds, 3600)
        days, hours = divmod(hours, 24)
        text = f"{days} {hours:02}:{seconds // 60:02}:{seconds % 60:02}{_fraction(rest)}"
        return f"INTERVAL '{'-' if nanoseconds < 0 else ''}{text}' DAY TO SECOND"

    def _decimal(self, value: Decimal) -> str:
        if not value.is_finite():
            raise ArgumentError(f"{value} has no SQL literal", hint="bind a finite number")
        if not value:
            value = Decimal(0)
        if abs(value.adjusted()) > _DIGITS[self.target]:  # keeps `digits` short
            raise self._too_long(f"{value:.6e}")
        digits = f"{value:f}"
        while _scale(digits) > _PLAIN_SCALE and digits.endswith("0"):
            digits = digits[:-1]
        scale = _scale(digits)
        precision = max(len(digits.lstrip("-0.").replace(".", "")), scale + 1)
        if precision > _DIGITS[self.target]:
            raise self._too_long(digits if len(digits) < 100 else f"{value:.6e}")
        return f"CAST('{digits}' AS DECIMAL({precision},{scale}))"

    def _too_long(self, number: str) -> ArgumentError:
        most = _DIGITS[self.target]
        return ArgumentError(
            f"{number} has too many digits for a DECIMAL; the maximum is {most}",
            hint=f"round it to {most} digits or fewer, or bind a float",
        )


def _clock(nanoseconds: int) -> str:
    """Format nanoseconds since 1970 as ``2024-01-31 10:00:00``, with a fraction if necessary."""
    seconds, rest = divmod(nanoseconds, _SECOND)
    try:
        moment = _EPOCH + datetime.timedelta(seconds=seconds)
    except OverflowError:
        raise _outside(nanoseconds) from None
    return f"{moment.isoformat(sep=' ')}{_fraction(rest)}"


def _fraction(nanoseconds: int) -> str:
    if not nanoseconds:
        return ""
    return f".{nanoseconds // 1000:06}" if nanoseconds % 1000 == 0 else f".{nanoseconds:09}"


def _outside(nanoseconds: int) -> ArgumentError:
    return ArgumentError(
        f"a time {nanoseconds / 1e9:.0f} seconds after 1970-01-01 is outside the years 1 to 9999",
        hint="bind a time within these years",
    )


def _text(value: str, *, in_sql: bool) -> str:
    r"""Quote text so that all supported SQL dialects parse it to the same characters.

    MaxCompute treats backslashes as escapes and standard SQL does not, and Spark replaces
    ``${name}`` by a setting. So quotes, backslashes, control characters and the ``$`` before ``{``
    are written as ``CHR(…)``.
    """
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(
            f"a string with an unpaired surrogate cannot be bound: {error.reason}",
            hint="repair it: value.encode('utf-16', 'surrogatepass').decode('utf-16')",
        ) from None
    pieces = [
        _unsafe(piece, in_sql=in_sql) if index % 2 else f"'{piece}'"
        for index, piece in enumerate(_UNSAFE.split(value))
        if piece
    ]
    if not pieces:
        return "''"
    return pieces[0] if len(pieces) == 1 else f"CONCAT({', '.join(pieces)})"


def _unsafe(character: str, *, in_sql: bool) -> str:
    # MaxCompute's CHR accepts codes up to 127, and Spark's computes modulo 256
    if character.isascii() or not in_sql:
        return f"CHR({ord(character)})"
    return f"CAST(UNHEX('{character.encode().hex().upper()}') AS STRING)"


def _float(value: float, *, in_spark: bool) -> str:
    if not math.isfinite(value):
        raise ArgumentError(
            f"{value} has no SQL literal",
            hint="drop missing values (.dropna()), test with IS NULL, or bind a finite number",
        )
    digits = repr(value)
    if in_spark and "e" not in digits:
        digits += "e0"  # Spark reads 0.1 as a DECIMAL
    return _signed(digits)


def _signed(digits: str) -> str:
    """Put a negative number in parentheses, because ``--`` would begin a comment."""
    return f"({digits})" if digits.startswith("-") else digits


def _scale(digits: str) -> int:
    return len(digits.partition(".")[2])


_WRITERS: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "NULL",
    bool: lambda value: "TRUE" if value else "FALSE",
    int: lambda value: _signed(str(value)),
    bytes: lambda value: f"UNHEX('{value.hex()}')",
    datetime.date: lambda value: f"CAST('{value}' AS DATE)",
}
