"""Recognises compound files (old Microsoft formats) by the stream that was created first.

A directory has entries of 128 bytes, each with a name in UTF-16 and the name's length ([MS-CFB]
2.6.1). A document may contain streams of embedded documents, which were created later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

SIGNATURE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENTRY: Final = 128
_STREAM: Final = 2  # object type
# bytes at offset 512 that identify files whose directory comes later
_BEGINS: Final = (
    (b"\x09\x08\x10\x00\x00\x06\x05\x00", "Workbook"),
    (b"\x09\x08\x08\x00\x00\x05\x05\x00", "Book"),
    (b"\xec\xa5", "WordDocument"),
)


def main_stream(data: bytes, known: frozenset[str]) -> str:
    """Return the first known stream name in the head of a compound file, or ``""``."""
    begin = next((name for begin, name in _BEGINS if data.startswith(begin, 512)), "")
    return next((name for name in _names(data) if name in known), begin)


def _names(data: bytes) -> Iterator[str]:
    for at in range(512, len(data) - _ENTRY + 1, _ENTRY):
        length = int.from_bytes(data[at + 64 : at + 66], "little")
        if data[at + 66] == _STREAM and 4 <= length <= 64 and not length % 2:
            yield data[at : at + length - 2].decode("utf-16-le", "replace")
