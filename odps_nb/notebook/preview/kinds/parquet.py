"""Parquet: names, types and first rows."""

from __future__ import annotations

from odps_nb.notebook.preview.drawing import Drawing, Excerpt, table_of
from odps_nb.notebook.preview.kind import MIB, Format, Kind
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.shared import Size

_PARQUET = Format(
    mime="application/vnd.apache.parquet",
    label="Parquet",
    aliases=("application/x-parquet", "application/parquet"),
    starts=(b"PAR1", b"PARE"),  # the second one with an encrypted footer
)


def draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    """Draw the rows that the parser of this kind finds."""
    parsed = parse(format.kind, excerpt.all_data, size)
    html = table_of(parsed.texts("head"), parsed.rows("rows"), size, label=f"first rows of {name}")
    return Drawing(html=html, facts=(parsed.text("fact"),))


KIND = Kind(name="parquet", formats=(_PARQUET,), draw=draw, limit=8 * MIB)
