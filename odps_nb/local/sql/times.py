"""Rewrites time constants in SQL from the statement's time zone to UTC, with all their digits.

DuckDB sees stored instants as UTC wall-clock times. Functions of hours and conversions to text use
UTC as well, whatever time zone the statement sets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from odps_nb.local import faults
from odps_nb.schema import TypeCode

__all__ = ["ZONE", "compared_with", "constants_in_utc"]

ZONE = "odps.sql.timezone"
_CLOCK = re.compile(r"(\d{4}-\d\d-\d\d)(?: (\d\d:\d\d:\d\d)(\.\d+)?)?")
_CLOCKS = {TypeCode.DATE, TypeCode.TIMESTAMP_NTZ}
_INSTANTS = {TypeCode.DATETIME, TypeCode.TIMESTAMP}
_NANOSECOND_YEARS = ("1678", "2261")


def constants_in_utc(query: Any, name: str, types: Mapping[str, set[TypeCode]]) -> None:
    """Rewrite ``cast('…' as timestamp)``, ``datetime '…'`` and their like, in place.

    A constant that meets a DATE or TIMESTAMP_NTZ column stays what a clock shows; a date that
    meets an instant is midnight in the zone. ``types`` are the types of columns by their names in
    lower case.
    """
    from sqlglot import exp

    try:
        zone = ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise faults.parse_failed(f"there is no time zone {name!r}") from None
    kinds = exp.DataType.Type
    for cast in list(query.find_all(exp.Cast)):
        text, to = cast.this, cast.to.this
        if not (isinstance(text, exp.Literal) and text.is_string):
            continue
        if not (found := _CLOCK.fullmatch(text.this)):
            continue
        column = compared_with(cast)
        met = set() if column is None else types.get(column.name.casefold(), set())
        if to == kinds.DATE and found[2] is None and met and met <= _INSTANTS:
            cast.to.set("this", to := kinds.TIMESTAMP)
        if to in (kinds.TIMESTAMP, kinds.DATETIME) and not (met and met <= _CLOCKS):
            text.set("this", _in_utc(found, zone))
        if to in (kinds.TIMESTAMP, kinds.TIMESTAMPNTZ) and _has_nanoseconds(found):
            cast.to.set("this", kinds.TIMESTAMP_NS)  # DuckDB's own TIMESTAMP has microseconds


def compared_with(constant: Any) -> Any | None:
    """Return the column that a constant is compared with; ``None`` if that is not a column."""
    from sqlglot import exp

    while isinstance(constant.parent, exp.Paren):
        constant = constant.parent
    parent: Any = constant.parent
    if not isinstance(parent, _comparisons()):
        return None
    other = (parent.expression if parent.this is constant else parent.this).unnest()
    return other if isinstance(other, exp.Column) else None


def _comparisons() -> tuple[Any, ...]:
    from sqlglot import exp

    return exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between


def _has_nanoseconds(found: re.Match[str]) -> bool:
    first, last = _NANOSECOND_YEARS
    return len((found[3] or "").rstrip("0")) > len(".123456") and first <= found[1][:4] <= last


def _in_utc(found: re.Match[str], zone: ZoneInfo) -> str:
    try:
        clock = datetime.fromisoformat(f"{found[1]} {found[2] or '00:00:00'}")
        moment = clock.replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return found[0]  # for DuckDB to refuse
    return f"{moment.replace(tzinfo=None).isoformat(sep=' ')}{found[3] or ''}"
