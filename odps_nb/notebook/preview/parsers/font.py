"""Fonts: a picture of some letters, drawn by FreeType, and the font's names."""

from __future__ import annotations

import io
from itertools import islice
from typing import Any, Final

from PIL import Image, ImageDraw, ImageFont

from odps_nb.notebook.preview.shared import Size, answer
from odps_nb.parsing.values import UnshowableError

_LINES: Final = ("Aa Bb Cc 123", "Hamburgefonstiv", "Ää Éé Ññ & ?!")
_SYMBOLS: Final = 24
# code points of glyphs in fonts without Latin letters: icons, arrows to dingbats, other scripts
_ELSEWHERE: Final = (
    range(0xE000, 0xF900),
    range(0x2190, 0x2BFF),
    range(0x370, 0x1100),
    range(0x3041, 0x30FF),
    range(0x4E00, 0x4F00),
    range(0xAC00, 0xAD00),
    range(0xF0000, 0xF0400),
    range(0x21, 0x7F),
)
_ABSENT: Final = "\U0010ffff"  # a code point that no font supports
_INK: Final = (17, 24, 39, 255)


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return the family and style, and a picture of some letters."""
    size = Size(**options["size"])
    width, height = size.width * 2, size.height * 2
    # the other engine, Raqm, fails on invisible characters such as U+061C
    basic = ImageFont.Layout.BASIC
    font = ImageFont.truetype(io.BytesIO(data), height // 6, layout_engine=basic)
    picture = Image.new("RGBA", (width, height), (255, 255, 255, 255))
    pen = ImageDraw.Draw(picture)
    lines = _lines(font)
    if not lines:
        raise UnshowableError("it contains none of the letters shown in a preview")
    for number, line in enumerate(lines):
        _write(pen, font, line, width, y=height * (1 + number * 2) // 7)
    out = io.BytesIO()
    picture.convert("P", palette=Image.Palette.ADAPTIVE, colors=32).save(out, "PNG", optimize=True)
    return answer(filter(None, font.getname()), out.getvalue())


def _lines(font: Any) -> list[str]:
    """Return lines of letters that the font supports, or some symbols of an icon font."""
    small = font.font_variant(size=16)
    absent = {_shape(small, _ABSENT), _shape(small, " ")}

    def has(letter: str) -> bool:
        return _shape(small, letter) not in absent

    lines = ["".join(one for one in line if one == " " or has(one)).strip() for line in _LINES]
    if any(len(line) >= 4 for line in lines[:2]):
        return [line for line in lines if line]
    signs = (chr(point) for points in _ELSEWHERE for point in points)
    found = "".join(islice(filter(has, signs), _SYMBOLS))
    each = max(1, -(-len(found) // len(_LINES)))
    return [" ".join(found[at : at + each]) for at in range(0, len(found), each)]


def _shape(font: Any, letter: str) -> tuple[tuple[int, int], bytes]:
    mask = font.getmask(letter)
    return mask.size, bytes(mask)


def _write(pen: Any, font: Any, line: str, width: int, *, y: int) -> None:
    taken = pen.textlength(line, font=font)
    if taken > width * 0.94:
        font = font.font_variant(size=max(8, int(font.size * width * 0.94 / taken)))
        taken = pen.textlength(line, font=font)
    pen.text(((width - taken) / 2, y), line, font=font, fill=_INK)
