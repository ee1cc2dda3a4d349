"""Fonts: a line of letters in the font, drawn outside the kernel."""

from __future__ import annotations

import re

from odps_nb.notebook.preview.drawing import Drawing, Excerpt, picture_box
from odps_nb.notebook.preview.kind import MIB, Format, Head, Kind
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.shared import Size
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import shorten

_TRUETYPE = Format(
    mime="font/ttf",
    label="TrueType",
    aliases=("application/x-font-ttf", "font/sfnt", "application/font-sfnt"),
)
# the version, how many tables, and the name of the first one: four bytes alone prove little
_TRUETYPE_START = re.compile(rb"(?:\x00\x01\x00\x00|true)\x00[\x01-\x7f].{6}[ -~]{4}", re.DOTALL)
_FORMATS = (
    _TRUETYPE,
    Format(
        mime="font/collection",
        label="TrueType collection",
        aliases=("application/x-font-ttf", "font/ttf", "font/otf"),
        starts=(b"ttcf\x00\x01\x00\x00", b"ttcf\x00\x02\x00\x00"),
    ),
    Format(
        mime="font/otf",
        label="OpenType",
        aliases=("application/x-font-otf", "application/vnd.ms-opentype", "font/sfnt"),
        starts=(b"OTTO\x00",),
    ),
    Format(
        mime="font/woff",
        label="WOFF",
        aliases=("application/font-woff",),
        starts=(b"wOFF\x00\x01\x00\x00", b"wOFFOTTO"),
    ),
    Format(mime="font/woff2", label="WOFF2", starts=(b"wOF2\x00\x01\x00\x00", b"wOF2OTTO")),
)


def _recognise(head: Head) -> Format | None:
    return _TRUETYPE if _TRUETYPE_START.match(head.data) else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    if not excerpt.whole:
        raise UnshowableError("too large to draw")
    parsed = parse("font", excerpt.data, size)
    facts = tuple(shorten(fact, 60) for fact in parsed.texts("facts"))
    return Drawing(html=picture_box(parsed.data, size, alt=f"letters of {name}"), facts=facts)


KIND = Kind(name="font", formats=_FORMATS, draw=_draw, recognise=_recognise, limit=16 * MIB)
