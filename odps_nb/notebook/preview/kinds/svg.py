"""SVG: shown unchanged in an ``<img>``, which runs no scripts and loads no resources.

An SVG that is too complex is shown as source; see `odps_nb.notebook.preview.parsers.svg`.
"""

from __future__ import annotations

import re

from odps_nb.notebook.display.html import data_url
from odps_nb.notebook.preview.drawing import Drawing, Excerpt, pictured
from odps_nb.notebook.preview.kind import TEXTS, Format, Head, Kind
from odps_nb.notebook.preview.kinds import text
from odps_nb.notebook.preview.kinds.markup import root_at
from odps_nb.notebook.preview.parsing import parse
from odps_nb.notebook.preview.shared import Size

_SVG = Format("image/svg+xml", "SVG", aliases=("image/svg",))
_START = re.compile(r"<(?:svg|svg:svg)[\s>/]", re.IGNORECASE)


def _recognise(head: Head) -> Format | None:
    return _SVG if _START.match(head.text, root_at(head.text)) else None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    parse("svg", excerpt.data, size)
    source = data_url(format.mime, excerpt.data)
    return pictured(source, size, alt=f"{name}, SVG", facts=("shown as a picture",))


KIND = Kind(
    name="svg",
    formats=(_SVG,),
    draw=_draw,
    fallback=text.draw,
    recognise=_recognise,
    precedence=TEXTS,
    whole=True,
    embedded=True,
)
