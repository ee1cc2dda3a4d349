"""Parses ``Retry-After`` headers that hold a date (RFC 9110 section 10.2.3).

The form in seconds needs no clock and is parsed by `wire`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

from odps_nb.wire.http_date import parse_date

__all__ = ["seconds_until_retry"]

_MAX_TEXT = 64


def seconds_until_retry(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds until the date in ``Retry-After``; ``None`` where there is none.

    Parameters
    ----------
    headers
        Of the answer; names in any case.
    now
        Seconds of the epoch, for an answer without ``Date``. The server's own clock is better:
        ours may be wrong, and the wait is what it meant.

    Examples
    --------
    >>> seconds_until_retry(
    ...     {
    ...         "retry-after": "Fri, 31 Dec 1999 23:59:59 GMT",
    ...         "date": "Fri, 31 Dec 1999 23:59:29 GMT",
    ...     },
    ...     now=0.0,
    ... )
    30.0
    """
    until = _moment(headers.get("retry-after", ""))
    if until is None:
        return None
    told = _moment(headers.get("date", ""))
    return max(0.0, until - (now if told is None else told))


def _moment(text: str) -> float | None:
    """Read a date in any of the three forms that a recipient must know (RFC 9110 section 5.6.7)."""
    text = text.strip()
    moment = parse_date(text)
    if moment is not None or len(text) > _MAX_TEXT:
        return moment
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
