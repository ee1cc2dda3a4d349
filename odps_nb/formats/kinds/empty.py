"""Empty blobs."""

from __future__ import annotations

from odps_nb.formats.drawing import Drawing, Excerpt, placeholder
from odps_nb.formats.kind import FIRST, Format, Head, Kind
from odps_nb.formats.shared import Size

_EMPTY = Format("application/x-empty", "empty")


def _recognise(head: Head) -> Format | None:
    return None if head.data else _EMPTY


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    return placeholder("no bytes", size)


KIND = Kind(name="empty", formats=(_EMPTY,), draw=_draw, recognise=_recognise, precedence=FIRST)
