"""NumPy arrays: shape, type and first values; those that are pictures as pictures."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from odps_nb.notebook.preview.drawing import Drawing, Excerpt, picture_box, table_of
from odps_nb.notebook.preview.kind import MIB, Format, Head, Kind
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.shared import Size

_START: Final = b"\x93NUMPY"
_NPY = Format(mime="application/x-npy", label="NumPy", aliases=("application/x-numpy",))
_DRAWN: Final = 8 * MIB
# RGB or RGBA with 8 bits, or 8 bits or truths in rows, as its header says
_PICTURE: Final = re.compile(
    rb"(?=.*'descr': '\|[ub]1')(?=.*'fortran_order': False)"
    rb".*'shape': \((\d{2,5}), (\d{2,5})(?:, [34])?\)"
)


def _recognise(head: Head) -> Format | None:
    if not head.data.startswith(_START):
        return None
    return replace(_NPY, limit=_DRAWN) if _PICTURE.search(head.data[:256]) else _NPY


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    """Draw the picture, or the first rows of the array or of its first plane."""
    whole = "yes" if excerpt.whole and format.limit else "no"
    parsed = parse("array", excerpt.data, size, picture=whole)
    facts = (parsed.text("fact"),)
    if parsed.data:
        return Drawing(html=picture_box(parsed.data, size, alt=f"{name}, {facts[0]}"), facts=facts)
    rows = parsed.rows("rows")
    head = [f"[{number}]" for number in range(max(map(len, rows)))] if rows else ["empty"]
    html = table_of(head, rows, size, label=f"first values of {name}")
    return Drawing(html=html, facts=facts)


KIND = Kind(name="array", formats=(_NPY,), draw=_draw, recognise=_recognise)
