"""NumPy arrays: shape, type and first values."""

from __future__ import annotations

from odps_nb.notebook.preview.drawing import Drawing, Excerpt, table_of
from odps_nb.notebook.preview.kind import Format, Kind
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.shared import Size

__all__ = ["KIND"]

_NPY = Format(
    mime="application/x-npy",
    label="NumPy",
    aliases=("application/x-numpy",),
    starts=(b"\x93NUMPY",),
)


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    """Draw the first rows of the array, or of its first plane."""
    parsed = parse("array", excerpt.data, size)
    rows = parsed.rows("rows")
    head = [f"[{number}]" for number in range(max(map(len, rows)))] if rows else ["empty"]
    html = table_of(head, rows, size, label=f"first values of {name}")
    return Drawing(html=html, facts=(parsed.text("fact"),))


KIND = Kind(name="array", formats=(_NPY,), draw=_draw)
