"""SQLite databases: names, rows and columns of the tables."""

from __future__ import annotations

from odps_nb.notebook.preview.drawing import Drawing, Excerpt, table_of
from odps_nb.notebook.preview.kind import MIB, Format, Kind
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.shared import Size
from odps_nb.terms import count_of

_SQLITE = Format(
    mime="application/vnd.sqlite3",
    label="SQLite",
    aliases=("application/x-sqlite3", "application/geopackage+sqlite3"),
    starts=(b"SQLite format 3\x00",),
)


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    parsed = parse("database", excerpt.all_data, size)
    table = table_of(
        ("table", "rows", "columns"), parsed.rows("rows"), size, label=f"tables of {name}"
    )
    return Drawing(html=table, facts=(count_of(parsed.number("count"), "table"),))


KIND = Kind(name="database", formats=(_SQLITE,), draw=_draw, limit=8 * MIB)
