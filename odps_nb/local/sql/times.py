"""Rewrites time constants in SQL from the statement's time zone to UTC.

DuckDB sees stored instants as UTC wall-clock times. Functions of hours and conversions to text use
UTC as well, whatever time zone the statement sets.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from odps_nb.local import faults

__all__ = ["ZONE", "constants_in_utc"]

ZONE = "odps.sql.timezone"
_CLOCK = re.compile(r"(\d{4}-\d\d-\d\d)(?: (\d\d:\d\d:\d\d)(\.\d+)?)?")


def constants_in_utc(query: Any, name: str) -> None:
    """Rewrite ``cast('…' as timestamp)``, ``datetime '…'`` and their like, in place."""
    from sqlglot import exp

    try:
        zone = ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise faults.parse_failed(f"there is no time zone {name!r}") from None
    instants = {exp.DataType.Type.TIMESTAMP, exp.DataType.Type.DATETIME}
    for cast in query.find_all(exp.Cast):
        text = cast.this
        if cast.to.this not in instants or not (isinstance(text, exp.Literal) and text.is_string):
            continue
        if found := _CLOCK.fullmatch(text.this):
            text.set("this", _in_utc(found, zone))


def _in_utc(found: re.Match[str], zone: ZoneInfo) -> str:
    try:
        clock = datetime.fromisoformat(f"{found[1]} {found[2] or '00:00:00'}")
        moment = clock.replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return found[0]  # for DuckDB to refuse
    return f"{moment.replace(tzinfo=None).isoformat(sep=' ')}{found[3] or ''}"
