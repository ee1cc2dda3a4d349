"""Parquet and Arrow: the first rows as a table."""

from __future__ import annotations

from odps_nb.notebook.preview.kinds.drawing import Drawing, Excerpt, Size, UnshowableError
from odps_nb.notebook.preview.kinds.table import grid_of
from odps_nb.notebook.preview.media_types import Kind
from odps_nb.notebook.preview.parsing import parse

__all__ = ["draw"]


def draw(excerpt: Excerpt, kind: Kind, size: Size, *, name: str) -> Drawing:
    """Draw the names, types and first rows.

    Raises
    ------
    UnshowableError
        When the file is too large, promises too much, or is cut or corrupt.
    """
    if not excerpt.whole:
        raise UnshowableError("too large to look inside")
    parsed = parse("columns", excerpt.data, size, label=kind.label)
    html = grid_of(parsed.texts("head"), parsed.rows("rows"), size, label=f"first rows of {name}")
    return Drawing(html=html, facts=(parsed.text("fact"),))
