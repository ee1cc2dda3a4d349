"""NumPy arrays: shape, type and first values."""

from __future__ import annotations

from odps_nb.notebook.preview.kinds.drawing import Drawing, Excerpt, Size
from odps_nb.notebook.preview.kinds.table import grid_of
from odps_nb.notebook.preview.media_types import Kind
from odps_nb.notebook.preview.parsing import parse

__all__ = ["draw"]


def draw(excerpt: Excerpt, kind: Kind, size: Size, *, name: str) -> Drawing:
    """Draw the first rows of the array, or of its first plane.

    Raises
    ------
    UnshowableError
        For Python objects (they are pickles), or when the header is corrupt.
    """
    parsed = parse("array", excerpt.data, size)
    rows = parsed.rows("rows")
    head = [f"[{number}]" for number in range(max(map(len, rows)))] if rows else ["empty"]
    html = grid_of(head, rows, size, label=f"first values of {name}")
    return Drawing(html=html, facts=(parsed.text("fact"),))
