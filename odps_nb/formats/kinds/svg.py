"""SVG: drawn as a picture; the source if it cannot be drawn."""

from __future__ import annotations

import re

from odps_nb.formats.drawing import Drawing, Excerpt
from odps_nb.formats.kind import MIB, TEXTS, Format, Head, Kind, text_of
from odps_nb.formats.kinds import text
from odps_nb.formats.kinds.markup import root_at
from odps_nb.formats.parsing import draw_answer, parse
from odps_nb.formats.shared import Size

_SVG = Format("image/svg+xml", "SVG", aliases=("image/svg",))
_START = re.compile(r"<(?:svg|svg:svg)[\s>/]", re.IGNORECASE)


def _recognise(head: Head) -> Format | None:
    return _SVG if _START.match(head.text, root_at(head.text)) else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    source = text_of(excerpt, format).removeprefix("\ufeff")
    return draw_answer(parse("svg", source.encode("utf-8", "replace"), size), size, name=name)


KIND = Kind(
    name="svg",
    formats=(_SVG,),
    draw=_draw,
    fallback=text.draw,
    recognise=_recognise,
    precedence=TEXTS,
    whole=True,
    limit=2 * MIB,
)
