"""Shows the first pictures or sounds in a file: values of a column, or members of an archive."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from odps_nb.convert.pictures import open_picture
from odps_nb.formats.parsers.colours import as_srgb
from odps_nb.formats.parsers.depth import stretched
from odps_nb.formats.parsers.picture import check_pixels, eight_bits, upright
from odps_nb.formats.parsers.sound import stated
from odps_nb.formats.shared import SOUNDS, Size
from odps_nb.parsing.reasons import refusal_of

#: First bytes of the pictures that samples usually are: JPEG, PNG, WebP.
STARTS: Final = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF")
_MIMES: Final = ("image/jpeg", "image/png", "image/webp")
try:
    from PIL import Image, ImageOps
except ImportError:  # without Pillow, no pictures are shown
    Image = None  # type: ignore[assignment]

_PLAYED: Final = 256 << 10  # bytes of all sounds that are played together

_TRIED: Final = 24
_COLUMNS, _ROWS = 3, 2
_GAP: Final = 4  # pixels
_LONGEST: Final = 200  # characters of a name


#: Returns names and bytes of samples; called once for pictures and once for sounds.
Parts = Callable[[], Iterable[tuple[str, bytes]]]


def samples(parts: Parts, size: Size) -> tuple[dict[str, Any], bytes]:
    """Return one picture that shows the first pictures, or else ``sounds`` and the bytes to play.

    A sound has a name, facts, a media type and the number of its bytes to play, 0 for large sounds.
    """
    if picture := strip((data for _, data in parts()), size):
        return {}, picture
    sounds, played, tried = [], b"", 0
    for name, data in islice(parts(), _TRIED):
        tried += 1
        mime = next((mime for start, mime in SOUNDS.items() if data.startswith(start)), "")
        if not mime or (mime == "audio/wav" and data[8:12] != b"WAVE"):
            continue
        playable = data if len(played) + len(data) <= _PLAYED else b""
        try:
            facts = " · ".join(stated(data, mime, len(data)))
        except Exception as error:  # noqa: BLE001  # a damaged sample; FFmpeg may raise any error
            facts, playable = refusal_of(error), b""
        sounds.append([name[:_LONGEST], facts, mime, str(len(playable))])
        played += playable
        if len(sounds) == size.rows:
            break
    return ({"sounds": sounds}, played) if sounds and len(sounds) * 3 >= tried else ({}, b"")


def strip(parts: Iterable[bytes], size: Size) -> bytes:
    """Return the first pictures among ``parts`` side by side; empty if few parts are pictures."""
    if Image is None:
        return b""
    box = (
        size.width * 2 // _COLUMNS - _GAP,
        size.height * 2 // _ROWS - _GAP,
    )  # doubled for high-density screens
    pictures: list[Image.Image] = []
    tried = 0
    for data in islice(parts, _TRIED):
        tried += 1
        if data.startswith(STARTS) and (picture := _small(data, box)) is not None:
            pictures.append(picture)
        if len(pictures) == _COLUMNS * _ROWS:
            break
    if not pictures or len(pictures) * 3 < tried:
        return b""
    rows = -(-len(pictures) // _COLUMNS)
    columns = min(len(pictures), _COLUMNS)
    wide, high = box[0] + _GAP, box[1] + _GAP
    sheet = Image.new("RGB", (wide * columns - _GAP, high * rows - _GAP), (128, 128, 128))
    for index, picture in enumerate(pictures):
        row, column = divmod(index, _COLUMNS)
        mask = picture if picture.mode == "RGBA" else None
        sheet.paste(picture, (column * wide, row * high), mask)
    out = io.BytesIO()
    sheet.save(out, "JPEG", quality=85)
    return out.getvalue()


def _small(data: bytes, box: tuple[int, int]) -> Image.Image | None:
    try:
        with open_picture(data, *_MIMES) as picture:
            picture.draft("RGB", box)  # a JPEG is then decoded at reduced size
            check_pixels(*picture.size)
            flat = stretched(picture)[0] if picture.mode[0] in "IF" else picture
            return as_srgb(ImageOps.fit(upright(eight_bits(flat)), box))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        return None  # a damaged sample: the next one may be whole
