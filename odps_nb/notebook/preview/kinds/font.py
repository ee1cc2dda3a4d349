"""Fonts: a sample of letters, drawn in the parser process."""

from __future__ import annotations

import re

from odps_nb.notebook.preview.kind import MIB, Format, Head, Kind
from odps_nb.notebook.preview.parsing import draw_parsed

_TRUETYPE = Format(
    "font/ttf", "TrueType", aliases=("application/x-font-ttf", "font/sfnt", "application/font-sfnt")
)
# version, number of tables and name of the first table: the version alone is not specific enough
_TRUETYPE_START = re.compile(rb"(?:\x00\x01\x00\x00|true)\x00[\x01-\x7f].{6}[ -~]{4}", re.DOTALL)
_FORMATS = (
    _TRUETYPE,
    Format(
        "font/collection",
        "TrueType collection",
        aliases=("application/x-font-ttf", "font/ttf", "font/otf"),
        starts=(b"ttcf\x00\x01\x00\x00", b"ttcf\x00\x02\x00\x00"),
    ),
    Format(
        "font/otf",
        "OpenType",
        aliases=("application/x-font-otf", "application/vnd.ms-opentype", "font/sfnt"),
        starts=(b"OTTO\x00",),
    ),
    Format(
        "font/woff",
        "WOFF",
        aliases=("application/font-woff",),
        starts=(b"wOFF\x00\x01\x00\x00", b"wOFFOTTO"),
    ),
    Format("font/woff2", "WOFF2", starts=(b"wOF2\x00\x01\x00\x00", b"wOF2OTTO")),
)


def _recognise(head: Head) -> Format | None:
    return _TRUETYPE if _TRUETYPE_START.match(head.data) else None


KIND = Kind(
    name="font",
    formats=_FORMATS,
    draw=draw_parsed,
    whole=True,
    recognise=_recognise,
    limit=16 * MIB,
)
