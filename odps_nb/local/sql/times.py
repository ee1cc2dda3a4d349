"""Rewrites times in SQL between the statement's time zone and UTC.

DuckDB sees stored instants as UTC wall-clock times.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from odps_nb.local import faults
from odps_nb.local.sql.types_of_query import duck_time, wrap

__all__ = ["ZONE", "Clock", "constants_in_utc", "zone_of"]

ZONE = "odps.sql.timezone"
_UTC = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "UCT")
_CLOCK = re.compile(r"(\d{4}-\d\d-\d\d)(?: (\d\d:\d\d:\d\d)(\.\d+)?)?")


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

        if isinstance(node, exp.Literal):
            if found := _CLOCK.fullmatch(node.this):
                node.set("this", _in_utc(found, self._zone))
            return
        duck = "TIMESTAMP_MS" if wanted == "DATETIME" else "TIMESTAMP"
        kind = exp.Cast if isinstance(node, exp.Anonymous) else exp.TryCast

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


def zone_of(name: str) -> ZoneInfo:
    """Return a time zone; 400 if there is none of that name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise faults.parse_failed(
            f"there is no time zone {name!r}", advice="name one like Asia/Shanghai"
        ) from None


def constants_in_utc(query: Any, name: str) -> None:
    """Rewrite ``cast('…' as timestamp)``, ``datetime '…'`` and their like, in place."""
    from sqlglot import exp

    zone = zone_of(name)
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
