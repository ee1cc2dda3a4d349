"""Parses a condition's constants in MaxCompute's documented formats ("Type conversions")."""

from __future__ import annotations

import datetime
import re
from decimal import Context, Decimal
from zoneinfo import ZoneInfo

from odps_nb.errors import ArgumentError

_CLOCK = re.compile(r"(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_DURATION = re.compile(r"(-?)(\d{1,9}) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`""", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_KNOWN_ESCAPES = frozenset("\\'\"nrt%_")
_EPOCH = datetime.datetime(1970, 1, 1)

EXACT = Context(prec=200)
"""Context for exact decimal arithmetic, since Python's default context has only 28 digits."""


def refuse(problem: str, hint: str = "") -> ArgumentError:
    """Create the error for a condition that cannot be evaluated exactly."""
    return ArgumentError(
        f"where= cannot be applied exactly: {problem}",
        code="InvalidFilter",
        hint=hint
        or "write another condition, or run it in MaxCompute: odps.sql('select … where …')",
    )


_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_DATE = re.compile(r"(?<![-\w])\d{4}-\d\d?-\d\d?(?![-\w])")


def bare_date(text: str) -> str | None:
    """Return the first date without quotes, which SQL would read as a subtraction, or ``None``.

    >>> bare_date("ds = 2024-01-01"), bare_date("ds = '2024-01-01'")
    ('2024-01-01', None)
    """
    match = _DATE.search(_COMMENT.sub("", _QUOTED.sub("''", text)))
    return None if match is None else match[0]


def check_escapes(text: str) -> None:
    """Raise for backslashes and doubled quotes whose meaning differs between SQL dialects."""
    ended = -1
    for match in _QUOTED.finditer(text):
        quoted = match[0]
        if match.start() == ended and quoted[0] != "`":
            raise refuse(
                "two quotes in a row are ambiguous",
                r"write \' for a quote inside quotes, or bind the text with params=",
            )
        ended = match.end()
        for escaped in () if quoted[0] == "`" else _ESCAPE.findall(quoted):
            if escaped not in _KNOWN_ESCAPES:
                raise refuse(
                    f"the escape \\{escaped} is ambiguous",
                    "write the character itself, or bind it: where='name = :name', params=…",
                )


def clock_of(text: str) -> int:
    """Parse a local time to nanoseconds, as if it were UTC."""
    match = _CLOCK.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
        moment = datetime.datetime(year, month, day, hour, minute, second)
    except ValueError:
        whole = f"{text} 00:00:00"
        example = whole if _CLOCK.fullmatch(whole) else "2024-01-31 00:00:00"
        raise refuse(f"{text!r} is not a time", f"write it with all digits: '{example}'") from None
    seconds = (moment - _EPOCH) // datetime.timedelta(seconds=1)
    return seconds * 10**9 + int((match[7] or "").ljust(9, "0"))


def instant_of(clock: int, zone: ZoneInfo) -> int:
    """Convert a local time in a zone to epoch nanoseconds.

    If a local time occurs twice, the first occurrence is used. For a nonexistent time, the offset
    before the change is used.
    """
    seconds, rest = divmod(clock, 10**9)
    shown = (_EPOCH + datetime.timedelta(seconds=seconds)).replace(tzinfo=zone)
    offset = shown.utcoffset() or datetime.timedelta()
    return (seconds - offset // datetime.timedelta(seconds=1)) * 10**9 + rest


def clock_in(zone: ZoneInfo, instant: int) -> int:
    """Convert an instant to a zone's local time; both are in nanoseconds."""
    seconds, rest = divmod(instant, 10**9)
    moment = (_EPOCH + datetime.timedelta(seconds=seconds)).replace(tzinfo=datetime.UTC)
    try:
        shown = moment.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        raise refuse(f"a local time in {zone.key} is outside the years 1 to 9999") from None
    return (shown - _EPOCH) // datetime.timedelta(seconds=1) * 10**9 + rest


def duration_of(text: str) -> int:
    """Parse ``days hh:mi:ss``, with up to nine decimal places, to nanoseconds."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise refuse(f"{text!r} is not a duration", "write interval '1 02:03:04' day to second")
    days, hours, minutes, seconds = (int(part) for part in match.groups()[1:5])
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    nanoseconds = whole * 10**9 + int((match[6] or "").ljust(9, "0"))
    return -nanoseconds if match[1] else nanoseconds


def bytes_of(text: str) -> bytes:
    """Parse hexadecimal digits."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise refuse(
            f"{text!r} is not hexadecimal", "write two digits per byte: unhex('0aff')"
        ) from None


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone by its name, e.g. ``Asia/Shanghai``."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ArgumentError(
            f"there is no time zone {name!r}", hint="write a name such as 'Asia/Shanghai' or 'UTC'"
        ) from None


def date_of(text: str) -> datetime.date:
    """Parse ``yyyy-mm-dd``."""
    try:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            raise ValueError
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise refuse(f"{text!r} is not a date", "write it as '2024-01-31'") from None


def number_of(text: str) -> Decimal:
    """Parse a number without rounding."""
    if not _NUMBER.fullmatch(text):
        raise refuse(f"{text!r} is not a number", "write a number, e.g. 12.5")
    return Decimal(text)


def regex_of(pattern: str) -> str:
    """Convert a LIKE pattern to an RE2 regular expression, which Arrow uses."""
    parts, rest = [], iter(pattern)
    for character in rest:
        if character == "\\":
            escaped = next(rest, "")
            if escaped not in ("%", "_", "\\"):
                raise refuse(
                    f"the pattern {pattern!r} has a backslash before {escaped or 'its end'!r}",
                    r"escape only %, _ and \, and double the backslash in quotes: '50\\%'",
                )
            parts.append(re.escape(escaped))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    return "(?s)^" + "".join(parts) + "$"
