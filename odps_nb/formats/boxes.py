"""Locates the index of an ISO base media file (MP4, M4A, QuickTime, 3GP)."""

from __future__ import annotations

from odps_nb.formats.drawing import Excerpt
from odps_nb.parsing.lengths import boxes


def place_of_index(excerpt: Excerpt) -> int | None:
    """Return the earliest possible offset of the index if it was not read, otherwise ``None``."""
    if excerpt.whole or excerpt.size is None:
        return None
    spans = list(boxes(excerpt.data))
    if not spans or any(name == b"moov" for name, _, _ in spans):
        return None
    end = spans[-1][2]
    return end if len(excerpt.data) < end < excerpt.size else None
