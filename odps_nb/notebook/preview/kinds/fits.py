"""FITS (astronomy): the first image, or the header cards."""

from __future__ import annotations

import re

from odps_nb.notebook.preview.kind import FIRST, MIB, Format, Head, Kind
from odps_nb.notebook.preview.parsing import draw_parsed

_FITS = Format("image/fits", "FITS", aliases=("application/fits", "image/x-fits"))
# the first two cards, of 80 characters each (FITS 4.0, 4.4.1)
_START = re.compile(rb"SIMPLE  = {1,20}[TF][ -~]{49,68}BITPIX  = {1,20}-?\d")


def _recognise(head: Head) -> Format | None:
    match = _START.match(head.data)
    return _FITS if match and head.data.startswith(b"BITPIX", 80) else None


KIND = Kind(
    name="fits",
    formats=(_FITS,),
    draw=draw_parsed,
    recognise=_recognise,
    precedence=FIRST,  # before the text kinds, because a header without data is text
    limit=16 * MIB,
)
