"""SQLite databases: names, row counts and columns of the tables."""

from __future__ import annotations

from odps_nb.formats.kind import MIB, Format, Kind
from odps_nb.formats.parsing import draw_parsed

_SQLITE = Format(
    "application/vnd.sqlite3",
    "SQLite",
    aliases=("application/x-sqlite3", "application/geopackage+sqlite3"),
    starts=(b"SQLite format 3\x00",),
)


KIND = Kind(name="database", formats=(_SQLITE,), draw=draw_parsed, whole=True, limit=8 * MIB)
