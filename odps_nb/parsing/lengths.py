"""How many bytes a media file must have according to its own structure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

_UNKNOWN: Final = 0x7FFF0000  # from here on, sizes in RIFF and AIFF files are not known
_CONTENT: Final = (b"mdat", b"moov", b"moof", b"meta", b"jp2c")
_EBML: Final = b"\x1a\x45\xdf\xa3"  # the first element of Matroska and WebM
_SEGMENT: Final = b"\x18\x53\x80\x67"
_ASF: Final = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")  # WMA and WMV
_ASF_PROPERTIES: Final = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")


def boxes(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the name, start and end of each box of an ISO base media file.

    Boxes whose header is not in ``data`` are omitted.
    """
    at = 0
    while at + 16 <= len(data):
        length, name = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        if length == 1:
            length = int.from_bytes(data[at + 8 : at + 16], "big")
        if length < 8:
            return
        yield name, at, at + length
        at += length


def ends_early(data: bytes) -> bool:
    """Whether a file of a known format is shorter than its structure states.

    False for files that do not state a size, such as streams that a program wrote without knowing
    their end.
    """
    return len(data) < _stated(data)


def _stated(data: bytes) -> int:
    """Return the size that the file states; 0 if it states none, or the format is unknown."""
    if data.startswith((b"RIFF", b"FORM")):
        order: Literal["little", "big"] = "little" if data.startswith(b"RIFF") else "big"
        size = int.from_bytes(data[4:8], order)  # some programs count the 8 bytes of the header
        return size if size < _UNKNOWN else 0
    if data.startswith((b"II*\0", b"MM\0*")):  # the offset of the first directory
        order = "little" if data.startswith(b"II") else "big"
        start = int.from_bytes(data[4:8], order)
        count = int.from_bytes(data[start : start + 2], order)
        return start + 2 + 12 * count + 4 if start >= 8 else 0
    if data[4:8] in (b"ftyp", b"jP  "):
        return max((end for name, _, end in boxes(data) if name in _CONTENT), default=0)
    if data.startswith(_EBML):
        size, start = _element(data, 4)
        at = start + size
        size, start = _element(data, at + len(_SEGMENT))
        return start + size if data.startswith(_SEGMENT, at) else 0
    if data.startswith(b"OggS"):  # the number of segments, then the size of each one
        page = data.rfind(b"OggS")
        count = int.from_bytes(data[page + 26 : page + 27], "big")
        return page + 27 + count + sum(data[page + 27 :][:count])
    if data.startswith(_ASF):
        at = data.find(_ASF_PROPERTIES, 0, 4096)
        is_broadcast = at < 0 or data[at + 88 : at + 89] != b"\2"
        return 0 if is_broadcast else int.from_bytes(data[at + 40 : at + 48], "little")
    return 0


def _element(data: bytes, at: int) -> tuple[int, int]:
    """Return the size of a Matroska element, 0 if it is unknown, and the start of its content."""
    length = 9 - int.from_bytes(data[at : at + 1], "big").bit_length()
    unknown = (1 << 7 * length) - 1
    size = int.from_bytes(data[at : at + length], "big") & unknown
    return (0 if size == unknown else size), at + length
