"""Formats and parses dates of HTTP headers (RFC 9110 section 5.6.7), whatever the locale."""

from __future__ import annotations

import re
from datetime import UTC, datetime

__all__ = ["format_date", "parse_date"]

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE = re.compile(
    r"(?:\w{3}, )?(\d{1,2}) (\w{3}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) (?:GMT|UTC|[+-]0000)", re.ASCII
)


def format_date(now: float) -> str:
    """Format seconds of the epoch as ``Thu, 20 Nov 2025 22:04:05 GMT``."""
    moment = datetime.fromtimestamp(now, UTC)
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day}, {moment.day:02d} {month} {moment:%Y %H:%M:%S} GMT"


def parse_date(text: str) -> float | None:
    """Parse such a date into seconds of the epoch; ``None`` if it is not one."""
    match = _DATE.fullmatch(text.strip())
    if match is None or match[2] not in _MONTHS:
        return None
    day, month, year, hour, minute, second = match.groups()
    try:
        moment = datetime(
            int(year),
            _MONTHS.index(month) + 1,
            int(day),
            int(hour),
            int(minute),
            int(second),
            tzinfo=UTC,
        )
    except ValueError:
        return None
    return moment.timestamp()
