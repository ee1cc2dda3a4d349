"""Converts the times in conditions from one time zone to another, for SQL that runs there."""

from __future__ import annotations

import re

from odps_nb.access.binding.literals import Writer
from odps_nb.access.binding.values import Time
from odps_nb.filters.literals import clock_of, instant_of, zone_of
from odps_nb.filters.parse import column_value
from odps_nb.filters.tree import ValueKind
from odps_nb.schema import TableSchema

# a time as `bind` writes it in a condition (Z marks UTC), text, or a name
_TOKEN = re.compile(
    r"CAST\('(?P<time>[0-9][0-9 :.-]{18,28}Z?)' AS TIMESTAMP\)|'[^']*'"
    r"|`(?P<quoted>(?:[^`]|``)+)`|(?P<name>[^\W\d]\w*)"
)


def converted(where: str, schema: TableSchema, zone: str, other: str) -> str:
    """Return a condition whose times after names of DATETIME or TIMESTAMP columns are converted."""
    is_instant = False

    def replaced(match: re.Match[str]) -> str:
        nonlocal is_instant
        if match["time"]:
            return _in_zone(match["time"], zone, other) if is_instant else match[0]
        name = match["name"] or (match["quoted"] or "").replace("``", "`")
        if (column := schema.find(name)) is not None:
            is_instant = column_value(column).kind is ValueKind.INSTANT
        return match[0]

    return _TOKEN.sub(replaced, where)


def _in_zone(text: str, zone: str, other: str) -> str:
    """Return the literal of a time, given in one time zone, for SQL in another one."""
    clock = clock_of(text.rstrip("Z"))
    instant = clock if text.endswith("Z") else instant_of(clock, zone_of(zone))
    return Writer(timezone=other).literal(Time(instant, is_instant=True))
