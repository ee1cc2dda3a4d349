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
_TIMES = {TypeCode.DATETIME, TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ}
_NANOSECOND_YEARS = ("1678", "2261")


def constants_in_utc(query: Any, name: str, types: Mapping[str, set[TypeCode]]) -> None:
    """Rewrite ``cast('…' as timestamp)``, ``datetime '…'`` and their like, in place.

    A constant that meets a DATE or TIMESTAMP_NTZ column stays what a clock shows; a date that
    meets a time is its midnight. ``types`` are the types of columns by their names in
    lower case.
    """
    from sqlglot import exp

    try:
        zone = ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise faults.parse_failed(f"there is no time zone {name!r}") from None
    _split_ranges(query)
    for cast in list(query.find_all(exp.Cast)):
        text = cast.this
        if not (isinstance(text, exp.Literal) and text.is_string):
            continue
        if found := _CLOCK.fullmatch(text.this):
            column = compared_with(cast)
            met = set() if column is None else types.get(column.name.casefold(), set())
            _place(cast, found, zone, met)
            _fit(cast, found, column)


def _split_ranges(query: Any) -> None:
    """Write ``column between a and b`` as two comparisons: each constant has its own unit."""
    from sqlglot import exp

    for range_ in list(query.find_all(exp.Between)):
        column, low, high = (range_.args.get(key) for key in ("this", "low", "high"))
        if isinstance(column, exp.Column) and not range_.args.get("symmetric"):
            above = exp.GTE(this=column.copy(), expression=low.copy())
            below = exp.LTE(this=column.copy(), expression=high.copy())
            range_.replace(exp.paren(exp.and_(above, below, copy=False), copy=False))


def _place(cast: Any, found: re.Match[str], zone: ZoneInfo, met: set[TypeCode]) -> None:
    """Write a constant as UTC, unless the columns that it meets have no time zone."""
    from sqlglot import exp

    kinds = exp.DataType.Type
    if cast.to.this == kinds.DATE and found[2] is None and met and met <= _TIMES:
        cast.to.set("this", kinds.TIMESTAMP)
    if cast.to.this in (kinds.TIMESTAMP, kinds.DATETIME) and not (met and met <= _CLOCKS):
        cast.this.set("this", _in_utc(found, zone))


def _fit(cast: Any, found: re.Match[str], column: Any | None) -> None:
    """Keep nanoseconds, which DuckDB's TIMESTAMP lacks, and years that its TIMESTAMP_NS lacks."""
    from sqlglot import exp

    kinds = exp.DataType.Type
    if cast.to.this not in (kinds.TIMESTAMP, kinds.TIMESTAMPNTZ, kinds.DATETIME):
        return
    first, last = _NANOSECOND_YEARS
    if not first <= found[1][:4] <= last:
        if column is not None and not isinstance(column.parent, exp.In):
            column.replace(exp.cast(column.copy(), kinds.TIMESTAMP))
    elif len((found[3] or "").rstrip("0")) > len(".123456"):
        cast.to.set("this", kinds.TIMESTAMP_NS)


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

    return exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In


def _in_utc(found: re.Match[str], zone: ZoneInfo) -> str:
    try:
        clock = datetime.fromisoformat(f"{found[1]} {found[2] or '00:00:00'}")
        moment = clock.replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return found[0]  # for DuckDB to refuse
    return f"{moment.replace(tzinfo=None).isoformat(sep=' ')}{found[3] or ''}"
