"""Rewrites times in SQL between the statement's time zone and UTC, with all their digits.

DuckDB sees stored instants as UTC wall-clock times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from odps_nb.local import faults
from odps_nb.local.sql.types_of_query import duck_time, forget, wrap
from odps_nb.schema import TypeCode

__all__ = ["ZONE", "Clock", "compared_with", "constants_in_utc", "is_read", "zone_of"]

ZONE = "odps.sql.timezone"
_UTC = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "UCT")
_CLOCK = re.compile(r"(\d{4}-\d\d-\d\d)(?: (\d\d:\d\d:\d\d)(\.\d+)?)?")
_OWN_ZONE = re.compile(r"-?infinity|.*(?:Z|[+-]\d\d:?\d\d)\s*", re.DOTALL)
_CLOCKS = {TypeCode.DATE, TypeCode.TIMESTAMP_NTZ}
_TIMES = {TypeCode.DATETIME, TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ}
# Clocks of 64 bits of nanoseconds; DuckDB takes the first and the last one as infinite.
_FIRST, _LAST = "1677-09-21 00:12:43.145224193", "2262-04-11 23:47:16.854775807"


class Clock:
    """The clock of a session: reads text as an instant, and shows an instant as a clock time."""

    def __init__(self, name: str) -> None:
        self._zone = zone_of(name)

    @property
    def is_utc(self) -> bool:
        """Whether nothing has to be moved."""
        return self._zone.key in _UTC

    def read(self, node: Any, wanted: str) -> None:
        """Make an instant of text, a date or a clock time, in place of it."""
        from sqlglot import exp

        is_constant = isinstance(node, exp.Literal)
        if is_constant and (found := _CLOCK.fullmatch(node.this)):
            node.set("this", _in_utc(found, self._zone))
            return
        if is_constant and is_read(node):
            return
        duck = "TIMESTAMP_MS" if wanted == "DATETIME" else "TIMESTAMP"
        kind = exp.Cast if isinstance(node, (exp.Anonymous, exp.Literal)) else exp.TryCast

        def made(inner: Any) -> Any:
            clock = kind(this=inner, to=duck_time(duck))
            moved = exp.Anonymous(this="mc_instant", expressions=[clock, self._name()])
            return exp.Cast(this=moved, to=duck_time(duck))

        wrap(node, made)

    def show(self, node: Any) -> None:
        """Make a clock time of an instant, in place of it."""
        from sqlglot import exp

        def made(inner: Any) -> Any:
            return exp.Anonymous(this="mc_local", expressions=[inner, self._name()])

        wrap(node, made, typed=False)

    def _name(self) -> Any:
        from sqlglot import exp

        return exp.Literal.string(self._zone.key)


def is_read(constant: Any) -> bool:
    """Whether `constants_in_utc` has read a text, or it has a zone of its own."""
    return (
        _CLOCK.fullmatch(constant.this) is not None
        or _OWN_ZONE.fullmatch(constant.this) is not None
    )


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone; 400 if there is none of that name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise faults.parse_failed(
            f"there is no time zone {name!r}", advice="name one like Asia/Shanghai"
        ) from None


def constants_in_utc(query: Any, name: str, types: Mapping[str, set[TypeCode]]) -> None:
    """Rewrite ``cast('…' as timestamp)``, ``datetime '…'`` and their like, in place.

    A constant that meets a DATE or TIMESTAMP_NTZ column stays what a clock shows; a date that
    meets a time is its midnight. ``types`` are the types of columns by their names in
    lower case.
    """
    from sqlglot import exp

    zone = zone_of(name)
    _split_ranges(query)
    for cast in list(query.find_all(exp.Cast)):
        text = cast.this
        if not (isinstance(text, exp.Literal) and text.is_string):
            continue
        if found := _CLOCK.fullmatch(text.this):
            column = compared_with(cast)
            met = set() if column is None else types.get(column.name.casefold(), set())
            _place(cast, found, zone, met)
            _fit(cast, column)


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
        forget(cast)
    if cast.to.this not in (kinds.TIMESTAMP, kinds.DATETIME):
        return
    if met and met <= _CLOCKS:
        forget(cast)  # a clock time: the column that it meets stays one, too
    else:
        cast.this.set("this", _in_utc(found, zone))


def _fit(cast: Any, column: Any | None) -> None:
    """Keep nanoseconds, which DuckDB's TIMESTAMP lacks, and times that its TIMESTAMP_NS lacks."""
    from sqlglot import exp

    kinds = exp.DataType.Type
    found = _CLOCK.fullmatch(cast.this.this)
    if found is None or cast.to.this not in (kinds.TIMESTAMP, kinds.TIMESTAMPNTZ, kinds.DATETIME):
        return
    fraction = (found[3] or ".").rstrip("0")
    clock = f"{found[1]} {found[2] or '00:00:00'}{fraction:0<10}"
    if not _FIRST <= clock <= _LAST:
        if column is not None and not isinstance(column.parent, exp.In):
            column.replace(exp.Anonymous(this="mc_micros", expressions=[column.copy()]))
    elif len(fraction) > len(".123456"):
        cast.to.set("this", kinds.TIMESTAMP_NS)
        infinite = {_FIRST: "-infinity", _LAST: "infinity"}
        cast.this.set("this", infinite.get(clock, cast.this.this))


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
