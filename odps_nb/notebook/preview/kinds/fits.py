"""FITS (astronomy): the first picture, or the cards of the header."""

from __future__ import annotations

import re

from odps_nb.notebook.preview.drawing import Drawing, Excerpt, picture_box, table_of
from odps_nb.notebook.preview.kind import FIRST, MIB, Format, Head, Kind
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.shared import Size
from odps_nb.terms import shorten

_FITS = Format(mime="image/fits", label="FITS", aliases=("application/fits", "image/x-fits"))
# the first two cards, of 80 letters each (FITS 4.0, 4.4.1)
_START = re.compile(rb"SIMPLE  = {1,20}[TF][ -~]{49,68}BITPIX  = {1,20}-?\d")


def _recognise(head: Head) -> Format | None:
    match = _START.match(head.data)
    return _FITS if match and head.data.startswith(b"BITPIX", 80) else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    parsed = parse("fits", excerpt.data, size, whole="yes" if excerpt.whole else "no")
    facts = tuple(shorten(fact, 60) for fact in parsed.texts("facts"))
    if parsed.data:
        html = picture_box(parsed.data, size, alt=f"{name}, {' '.join(facts)}")
    else:
        html = table_of(
            ("card", "value", "comment"), parsed.rows("cards"), size, label=f"header of {name}"
        )
    return Drawing(html=html, facts=facts, note=parsed.text("note"))


KIND = Kind(
    name="fits",
    formats=(_FITS,),
    draw=_draw,
    recognise=_recognise,
    precedence=FIRST,  # a header alone is a text
    limit=16 * MIB,
)
