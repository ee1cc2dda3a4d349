"""Avro: names, types and first rows."""

from __future__ import annotations

from odps_nb.notebook.preview.drawing import Drawing, Excerpt, table_of
from odps_nb.notebook.preview.kind import MIB, Format, Kind
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.shared import Size

_AVRO = Format(
    mime="application/vnd.apache.avro",
    label="Avro",
    aliases=("application/avro", "avro/binary", "application/x-avro"),
    starts=(b"Obj\x01",),
)


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    """Draw the first rows; without a reader, or of what is cut, names and types alone."""
    parsed = parse("avro", excerpt.data, size, whole="yes" if excerpt.whole else "no")
    html = table_of(parsed.texts("head"), parsed.rows("rows"), size, label=f"first rows of {name}")
    return Drawing(html=html, facts=(parsed.text("fact"),), note=parsed.text("note"))


KIND = Kind(name="avro", formats=(_AVRO,), draw=_draw, limit=MIB)
