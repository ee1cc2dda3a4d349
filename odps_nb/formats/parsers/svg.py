"""SVG: drawn by resvg, which runs no scripts, as a picture of limited size.

resvg would open the files that an SVG names, so these references are removed first.
"""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any, Final

import resvg_py
from PIL import Image, ImageFont

from odps_nb.formats.parsers.picture import thumbnail
from odps_nb.formats.shared import Size, answer
from odps_nb.parsing.values import UnshowableError

#: References, except those to a part of the SVG and to data in it.
_ELSEWHERE: Final = re.compile(r"""(href\s*=\s*(["']))(?!\#|data:).*?(?=\2)""", re.DOTALL)
#: Entities whose text contains markup or other entities, which could hide a reference.
_HIDING: Final = re.compile(r"""<!ENTITY(?!\s+[\w.-]+\s+(?:"[^"<&]*"|'[^'<&]*')\s*>)""")


def _installed() -> str | None:
    for name in (
        "DejaVuSans.ttf",
        "LiberationSans-Regular.ttf",
        "NotoSans-Regular.ttf",
        "Arial.ttf",
    ):
        with contextlib.suppress(OSError):
            return ImageFont.truetype(name).getname()[0]
    return None


_FAMILIES: Final = ("font_family", "serif_family", "sans_serif_family", "monospace_family")
#: An installed font, used for text whose own font is missing; resvg would not draw the text.
_FONT: Final = _installed()


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Draw an SVG in UTF-8, scaled to fit."""
    text, size = data.decode(), Size(**options["size"])
    if _HIDING.search(text):
        raise UnshowableError("not drawn: it declares entities that contain markup")
    png = resvg_py.svg_to_bytes(
        svg_string=_ELSEWHERE.sub(r"\1", text),
        width=size.width * 2,
        height=size.height * 2,
        **dict.fromkeys(_FAMILIES, _FONT),
    )
    note = "" if _FONT or "<text" not in text else "its text may be missing: no font was found"
    with Image.open(io.BytesIO(png), formats=["PNG"]) as picture:
        return answer((), thumbnail(picture, size), note=note)
