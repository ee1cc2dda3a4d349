"""SVG: shown by ``<img>`` alone, as it is.

There it runs no script, follows no link and loads nothing (the browser's "secure static mode"). As
a document or inline it would do all three. One that would keep the browser busy is shown as source:
see `odps_nb.notebook.preview.parsers.svg`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from odps_nb.notebook.display.html import BACKDROP, data_url, element
from odps_nb.notebook.preview.drawing import Drawing, Excerpt, framed
from odps_nb.notebook.preview.kind import TEXTS, Format, Head, Kind
from odps_nb.notebook.preview.kinds import text
from odps_nb.notebook.preview.kinds.markup import root_at
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.shared import Size
from odps_nb.parsing.values import UnshowableError

_SVG = Format(mime="image/svg+xml", label="SVG", aliases=("image/svg",))
_START = re.compile(r"<(?:svg|svg:svg)[\s>/]", re.IGNORECASE)


def _recognise(head: Head) -> Format | None:
    return _SVG if _START.match(head.text, root_at(head.text)) else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    if not excerpt.whole:
        raise UnshowableError("too large to put into the notebook")
    try:
        parse("svg", excerpt.data, size)
    except UnshowableError as reason:
        return replace(text.draw(excerpt, format, size, name=name), note=str(reason))
    picture = element(
        "img",
        attributes={"src": data_url(format.mime, excerpt.data), "alt": f"{name}, SVG"},
        style=f"max-width:100%;height:{size.height}px;{BACKDROP}",
    )
    return Drawing(html=framed(picture, size), facts=("shown as a picture",))


KIND = Kind(
    name="svg", formats=(_SVG,), draw=_draw, recognise=_recognise, precedence=TEXTS, embedded=True
)
