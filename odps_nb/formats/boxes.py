"""Parses the boxes of ISO base media files (MP4, M4A, QuickTime, 3GP), and locates the index."""

from __future__ import annotations

from collections.abc import Iterator

from odps_nb.formats.drawing import Excerpt


def boxes(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the name, start and end of each box whose header is in ``data``."""
    at = 0
    while at + 16 <= len(data):
        length, name = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        if length == 1:
            length = int.from_bytes(data[at + 8 : at + 16], "big")
        if length < 8:
            return
        yield name, at, at + length
        at += length


def place_of_index(excerpt: Excerpt) -> int | None:
    """Return the earliest possible offset of the index if it was not read, otherwise ``None``."""
    if excerpt.whole or excerpt.size is None:
        return None
    spans = list(boxes(excerpt.data))
    if not spans or any(name == b"moov" for name, _, _ in spans):
        return None
    end = spans[-1][2]
    return end if len(excerpt.data) < end < excerpt.size else None
