"""Camera RAW: identified, but not drawn.

Most of these files are based on TIFF and begin with a small picture, which must not be mistaken for
the photograph. So this kind is tried before images.
"""

from __future__ import annotations

import struct
from typing import Final, NoReturn

from odps_nb.formats.drawing import Excerpt
from odps_nb.formats.kind import FIRST, Format, Head, Kind
from odps_nb.formats.shared import Size
from odps_nb.parsing.values import UnshowableError

_RAW = Format(
    "image/x-raw",
    "camera RAW",
    aliases=(
        *(
            "image/tiff",
            "image/x-dcraw",
            "image/x-canon-cr2",
            "image/x-canon-cr3",
            "image/x-canon-crw",
        ),
        *("image/x-adobe-dng", "image/x-nikon-nef", "image/x-sony-arw", "image/x-fuji-raf"),
        *("image/x-olympus-orf", "image/x-panasonic-rw2", "image/x-pentax-pef"),
        "image/x-samsung-srw",
    ),
    starts=(
        *(b"IIRO\x08\0\0\0", b"IIRS\x08\0\0\0", b"MMOR\0\0\0\x08"),  # ORF
        *(b"IIU\0\x18\0\0\0", b"IIU\0\x08\0\0\0"),  # RW2
        b"II\x1a\0\0\0HEAPCCDR",  # CRW
    ),
    brands=(b"crx ",),
)
# TIFF tags: subfile type, compression, photometric interpretation, maker
_SUBFILE, _PACKED, _COLOURS, _MAKER, _DNG_VERSION = 254, 259, 262, 271, 50706
_REDUCED: Final = 1  # a reduced-resolution picture, which cameras store first
_RAW_PACKED: Final = (32767, 34713, 65535)  # Sony, Nikon, Pentax
_FILTERS: Final = 32803  # colour filter array (TIFF/EP)


def _recognise(head: Head) -> Format | None:
    data = head.data
    # the high half of the JPEG offset (bytes 84 and 85) must be 0
    if data.startswith(b"FUJIFILMCCD-RAW ") and data[84:86] == b"\0\0":
        return _RAW
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(data[:4])
    if order is None:
        return None
    tags = _first_directory(data, order)
    is_raw = (
        data[8:11] == b"CR\x02"
        or _DNG_VERSION in tags
        or tags.get(_PACKED) in _RAW_PACKED
        or tags.get(_COLOURS) == _FILTERS
        or (tags.get(_SUBFILE) == _REDUCED and _MAKER in tags)
    )
    return _RAW if is_raw else None


def _first_directory(data: bytes, order: str) -> dict[int, int]:
    """Return the tags of the first TIFF directory with their values or value offsets."""
    (at,) = struct.unpack_from(f"{order}I", data.ljust(8, b"\0"), 4)
    count = int.from_bytes(data[at : at + 2], "little" if order == "<" else "big")
    tags = {}
    for entry in range(at + 2, min(at + 2 + 12 * count, len(data) - 11), 12):
        tag, kind = struct.unpack_from(f"{order}HH", data, entry)
        (tags[tag],) = struct.unpack_from(order + ("H" if kind == 3 else "I"), data, entry + 8)
    return tags


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> NoReturn:
    raise UnshowableError("camera RAW is not decoded; use save(path) and a RAW converter")


KIND = Kind(name="raw", formats=(_RAW,), draw=_draw, recognise=_recognise, precedence=FIRST)
