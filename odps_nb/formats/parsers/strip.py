"""Draws the first pictures inside a file: values of a column, or members of an archive."""

from __future__ import annotations

import io
from collections.abc import Iterable
from itertools import islice
from typing import Final

from odps_nb.convert.pictures import open_picture
from odps_nb.formats.parsers.picture import check_pixels
from odps_nb.formats.shared import Size

#: First bytes of the pictures that samples usually are: JPEG, PNG, WebP.
STARTS: Final = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF")
_MIMES: Final = ("image/jpeg", "image/png", "image/webp")
try:
    from PIL import Image, ImageOps
except ImportError:  # then no pictures are shown
    Image = None  # type: ignore[assignment]

_TRIED: Final = 24
_COLUMNS, _ROWS = 3, 2
_GAP: Final = 4  # pixels


def strip(parts: Iterable[bytes], size: Size) -> bytes:
    """Return the first pictures among ``parts`` side by side; empty if few parts are pictures."""
    if Image is None:
        return b""
    box = (size.width * 2 // _COLUMNS - _GAP, size.height * 2 // _ROWS - _GAP)  # for dense screens
    made: list[Image.Image] = []
    tried = 0
    for data in islice(parts, _TRIED):
        tried += 1
        if data.startswith(STARTS) and (picture := _small(data, box)) is not None:
            made.append(picture)
        if len(made) == _COLUMNS * _ROWS:
            break
    if not made or len(made) * 3 < tried:
        return b""
    rows = -(-len(made) // _COLUMNS)
    columns = min(len(made), _COLUMNS)
    wide, high = box[0] + _GAP, box[1] + _GAP
    sheet = Image.new("RGB", (wide * columns - _GAP, high * rows - _GAP), (128, 128, 128))
    for place, picture in enumerate(made):
        row, column = divmod(place, _COLUMNS)
        sheet.paste(picture, (column * wide, row * high))
    out = io.BytesIO()
    sheet.save(out, "JPEG", quality=85)
    return out.getvalue()


def _small(data: bytes, box: tuple[int, int]) -> Image.Image | None:
    try:
        with open_picture(data, *_MIMES) as picture:
            picture.draft("RGB", box)  # a JPEG is then decoded at reduced size
            check_pixels(*picture.size)
            return ImageOps.fit(picture.convert("RGB"), box)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None  # a damaged sample: the next one may be whole
