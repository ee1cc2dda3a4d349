"""Fonts: a picture of some letters, and the names that the font gives itself.

Runs in the parser process: FreeType reads the file.
"""

from __future__ import annotations

import io
from typing import Any, Final

from odps_nb.errors import MissingDependencyError
from odps_nb.notebook.preview.shared import Size
from odps_nb.parsing.reasons import reason_of
from odps_nb.parsing.values import UnshowableError

__all__ = ["parse"]

_LINES: Final = ("Aa Bb Cc 123", "Hamburgefonstiv", "Ää Éé Ññ & ?!")
_INK: Final = (17, 24, 39, 255)

try:
    from PIL import Image, ImageDraw, ImageFont
except ImportError:  # said when a font is asked for
    Image = None  # type: ignore[assignment]


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return family and style, and a PNG of some letters as data.

    Raises
    ------
    UnshowableError
        When FreeType cannot read the font.
    MissingDependencyError
        Without Pillow.
    """
    if Image is None:
        raise MissingDependencyError("fonts need Pillow", extra="notebook")
    size = Size(**options["size"])
    width, height = size.width * 2, size.height * 2
    try:
        font = ImageFont.truetype(io.BytesIO(data), height // 6)
        picture = Image.new("RGBA", (width, height), (255, 255, 255, 255))
        pen = ImageDraw.Draw(picture)
        for number, line in enumerate(_LINES):
            _write(pen, font, line, width, y=height * (1 + number * 2) // 7)
    except OSError as error:
        raise UnshowableError(f"not readable as a font: {reason_of(error)}") from None
    out = io.BytesIO()
    picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=32).save(out, "PNG", optimize=True)
    return {"facts": [str(name)[:200] for name in font.getname() if name]}, out.getvalue()


def _write(pen: Any, font: Any, line: str, width: int, *, y: int) -> None:
    taken = pen.textlength(line, font=font)
    if taken > width * 0.94:
        font = font.font_variant(size=max(8, int(font.size * width * 0.94 / taken)))
        taken = pen.textlength(line, font=font)
    pen.text(((width - taken) / 2, y), line, font=font, fill=_INK)
