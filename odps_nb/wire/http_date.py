"""Formats and parses dates in HTTP headers (RFC 9110 section 5.6.7)."""

from __future__ import annotations

from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime


def format_date(now: float) -> str:
    """Format epoch seconds as ``Thu, 20 Nov 2025 22:04:05 GMT``."""
    return formatdate(now, usegmt=True)


def parse_date(text: str) -> float | None:
    """Parse a date in any of HTTP's three formats; return ``None`` if it is invalid."""
    try:
        found = parsedate_to_datetime(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
