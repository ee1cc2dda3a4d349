"""Raster images: a thumbnail that the parser process encodes.

No original bytes reach the page; see `odps_nb.formats.parsers.picture`.
"""

from __future__ import annotations

import contextlib
import re
from typing import Final

from odps_nb.errors import MissingDependencyError
from odps_nb.formats.drawing import Drawing, Excerpt, placeholder
from odps_nb.formats.kind import MIB, Format, Head, Kind
from odps_nb.formats.parsing import draw_answer, parse
from odps_nb.formats.shared import Size
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import format_bytes

_LIMIT: Final = 16 * MIB
_ALONE: Final = 64 * MIB

_WEBP = Format("image/webp", "WebP")
_BMP = Format("image/bmp", "BMP", aliases=("image/x-ms-bmp", "image/x-bmp"))
_BMP_HEADERS = (12, 16, 40, 52, 56, 64, 108, 124)  # header sizes in bytes; 16 and 64 are OS/2
_ICO = Format("image/vnd.microsoft.icon", "ICO", aliases=("image/x-icon", "image/ico"))
_PPM = Format(
    "image/x-portable-anymap",
    "PPM",
    aliases=(
        *("image/x-portable-pixmap", "image/x-portable-graymap", "image/x-portable-bitmap"),
        *("image/x-pnm", "image/x-ppm", "image/x-portable-greymap"),
    ),
)
# type, width and height (Netpbm, and PFM with one channel); the plain variants (P1 to P3) are text
_PPM_START = re.compile(rb"P[456f]\s(?:\s|#[^\n]{0,200}\n){0,20}\d{1,6}\s{1,20}\d{1,6}\s")
_PSD = Format(
    "image/vnd.adobe.photoshop",
    "PSD",
    aliases=("image/x-photoshop", "application/x-photoshop", "image/psd"),
    starts=(b"8BPS\x00\x01",),  # version 2 is PSB (large pictures), which Pillow does not read
)
_JPEG_2000 = Format(
    "image/jp2",
    "JPEG 2000",
    aliases=("image/jpx", "image/jpm", "image/j2k", "image/jpeg2000", "image/x-jp2-codestream"),
    starts=(b"\xff\x4f\xff\x51",),  # a raw codestream (ITU-T T.800, annex A)
)
# the first boxes of a file (annex I), but not those of a video (Motion JPEG 2000)
_JP2_START: Final = re.compile(rb"\0\0\0\x0cjP  \r\n\x87\n(?!.{8}mjp2)", re.DOTALL)
_FORMATS = (
    Format("image/png", "PNG", aliases=("image/x-png",), starts=(b"\x89PNG\r\n\x1a\n",)),
    Format("image/jpeg", "JPEG", aliases=("image/jpg", "image/pjpeg"), starts=(b"\xff\xd8\xff",)),
    Format("image/gif", "GIF", starts=(b"GIF87a", b"GIF89a")),
    Format(
        "image/tiff",
        "TIFF",
        aliases=("image/tif",),
        starts=(b"II*\x00", b"MM\x00*", b"II+\x00\x08\x00\x00\x00", b"MM\x00+\x00\x08\x00\x00"),
    ),
    Format("image/avif", "AVIF", brands=(b"avif", b"avis")),
    Format(
        "image/heic", "HEIC", aliases=("image/heif",), brands=(b"heic", b"heix", b"heim", b"heis")
    ),
    _JPEG_2000,
    Format(
        "image/vnd-ms.dds",
        "DDS",
        aliases=("image/x-dds", "image/dds"),
        starts=(b"DDS \x7c\x00\x00\x00",),
    ),
    Format("image/qoi", "QOI", aliases=("image/x-qoi",), starts=(b"qoif\0",)),
    _PSD,
    _PPM,
    _ICO,
    _WEBP,
    _BMP,
)


def _recognise(head: Head) -> Format | None:
    data = head.data
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return _WEBP
    # two letters are not specific enough, so check the following fields as well
    if data.startswith(b"BM") and len(data) >= 18 and data[6:10] == bytes(4):
        return _BMP if int.from_bytes(data[14:18], "little") in _BMP_HEADERS else None
    if _JP2_START.match(data):
        return _JPEG_2000
    if _PPM_START.match(data):
        return _PPM
    pictures = int.from_bytes(data[4:6], "little")
    if data.startswith(b"\0\0\1\0") and 0 < pictures <= 256:
        # each entry: a zero byte, planes 0 or 1, and an offset after all entries
        first = data[6:22]
        begins = int.from_bytes(first[12:], "little")
        return _ICO if len(first) == 16 and not first[3] and begins >= 6 + 16 * pictures else None
    return None


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    if excerpt.whole:
        parsed = parse("picture", excerpt.data, size, mime=format.mime)
        return draw_answer(parsed, size, name=name)
    facts: tuple[str, ...] = ()
    with contextlib.suppress(UnshowableError, MissingDependencyError):
        facts = parse("picture", excerpt.data, size, mime=format.mime, whole=False).texts("facts")
    note = f"pictures above {format_bytes(_ALONE)} are not drawn"
    if size.layout != "single" and (excerpt.size or 0) <= _ALONE:
        note = f"larger than {format_bytes(_LIMIT)}: open it alone to see it"
    return placeholder("large picture", size, facts=facts, note=note)


KIND = Kind(
    name="image", formats=_FORMATS, draw=_draw, recognise=_recognise, limit=_LIMIT, alone=_ALONE
)
