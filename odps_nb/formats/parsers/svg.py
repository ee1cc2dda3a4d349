"""SVG: drawn by resvg, which runs no scripts, as a picture of limited size.

resvg would open the files that an SVG names, so these references are removed before.
"""

from __future__ import annotations

import io
import re
from typing import Any, Final

import resvg_py
from PIL import Image

from odps_nb.formats.parsers.picture import thumbnail
from odps_nb.formats.shared import Size, answer
from odps_nb.parsing.values import UnshowableError

#: References, except those to a part of the SVG and to data in it.
_ELSEWHERE: Final = re.compile(r"""(href\s*=\s*(["']))(?!\#|data:).*?(?=\2)""", re.DOTALL)
#: Entities whose text contains markup or other entities, which could hide a reference.
_HIDING: Final = re.compile(r"""<!ENTITY(?!\s+[\w.-]+\s+(?:"[^"<&]*"|'[^'<&]*')\s*>)""")


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Draw an SVG in UTF-8, scaled to fit."""
    text, size = data.decode(), Size(**options["size"])
    if _HIDING.search(text):
        raise UnshowableError("not drawn: it declares entities that contain markup")
    png = resvg_py.svg_to_bytes(
        svg_string=_ELSEWHERE.sub(r"\1", text), width=size.width * 2, height=size.height * 2
    )
    with Image.open(io.BytesIO(png), formats=["PNG"]) as picture:
        return answer((), thumbnail(picture, size))
