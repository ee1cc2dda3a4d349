"""Camera RAW: the embedded JPEG preview; the RAW data are not decoded.

Most of these files are based on TIFF, so this kind is tried before images.
"""

from __future__ import annotations

import struct
from typing import Final

from odps_nb.notebook.preview.kind import FIRST, MIB, Format, Head, Kind
from odps_nb.notebook.preview.parsing import draw_parsed


def _raw(mime: str, name: str, *starts: bytes, brands: tuple[bytes, ...] = ()) -> Format:
    return Format(
        mime,
        f"camera RAW ({name})" if name else "camera RAW",
        aliases=("image/tiff", "image/x-dcraw", *([f"image/{name.lower()}"] if name else [])),
        starts=starts,
        brands=brands,
    )


_CR2 = _raw("image/x-canon-cr2", "CR2")
_DNG = _raw("image/x-adobe-dng", "DNG")
_RAF = _raw("image/x-fuji-raf", "RAF")
_OTHER = _raw("image/x-raw", "")
#: Format by the first word of the camera maker's name.
_MAKERS: Final = {
    b"NIKON": _raw("image/x-nikon-nef", "NEF"),
    b"SONY": _raw("image/x-sony-arw", "ARW"),
    b"PENTAX": _raw("image/x-pentax-pef", "PEF"),
    b"SAMSUNG": _raw("image/x-samsung-srw", "SRW"),
}
_FORMATS = (
    *(_CR2, _DNG, _RAF, _OTHER, *_MAKERS.values()),
    _raw("image/x-canon-cr3", "CR3", brands=(b"crx ",)),
    _raw("image/x-olympus-orf", "ORF", *(b"IIRO\x08\0\0\0", b"IIRS\x08\0\0\0", b"MMOR\0\0\0\x08")),
    _raw("image/x-panasonic-rw2", "RW2", b"IIU\0\x18\0\0\0", b"IIU\0\x08\0\0\0"),
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
        return _RAF
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(data[:4])
    if order is None:
        return None
    if data[8:11] == b"CR\x02":
        return _CR2
    tags = _first_directory(data, order)
    if _DNG_VERSION in tags:
        return _DNG
    is_raw = tags.get(_PACKED) in _RAW_PACKED or tags.get(_COLOURS) == _FILTERS
    if not is_raw and not (tags.get(_SUBFILE) == _REDUCED and _MAKER in tags):
        return None
    maker = data[tags.get(_MAKER, 0) :][:16].split(b" ")[0].split(b"\0")[0]
    return _MAKERS.get(maker.upper(), _OTHER)


def _first_directory(data: bytes, order: str) -> dict[int, int]:
    """Return the tags of the first TIFF directory with their values or value offsets."""
    (at,) = struct.unpack_from(f"{order}I", data.ljust(8, b"\0"), 4)
    count = int.from_bytes(data[at : at + 2], "little" if order == "<" else "big")
    tags = {}
    for entry in range(at + 2, min(at + 2 + 12 * count, len(data) - 11), 12):
        tag, kind = struct.unpack_from(f"{order}HH", data, entry)
        (tags[tag],) = struct.unpack_from(order + ("H" if kind == 3 else "I"), data, entry + 8)
    return tags


KIND = Kind(
    name="raw",
    formats=_FORMATS,
    draw=draw_parsed,
    recognise=_recognise,
    precedence=FIRST,
    limit=16 * MIB,
    head=4 * MIB,  # includes the JPEG, which cameras store before the RAW data
    alone=64 * MIB,
)
