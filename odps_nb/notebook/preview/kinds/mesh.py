"""Meshes (PLY, STL, OBJ): the number of points and faces; not rendered."""

from __future__ import annotations

import math
import re
import struct
from typing import Final

from odps_nb.notebook.preview.drawing import Drawing, Excerpt, card
from odps_nb.notebook.preview.kind import FIRST, MIB, Format, Head, Kind
from odps_nb.notebook.preview.shared import Size
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of

_PLY = Format("model/x-ply", "PLY", aliases=("application/ply", "text/plain"))
_STL = Format(
    "model/stl",
    "STL",
    aliases=("application/sla", "model/x.stl-ascii", "model/x.stl-binary", "text/plain"),
)
_OBJ = Format("model/obj", "OBJ", aliases=("application/x-tgif", "text/plain"))
_PLY_START: Final = re.compile(rb"ply\r?\nformat (?:ascii|binary_(?:little|big)_endian) 1\.0\r?\n")
_PLY_PART: Final = re.compile(rb"^element (\w{1,40}) (\d{1,12})\r?$", re.MULTILINE)
_STL_START: Final = re.compile(rb"\s{0,100}solid[^\n]{0,200}\n\s{0,100}facet\s{1,20}normal\s")
_STL_FACE: Final = re.compile(rb"^[ \t]{0,40}facet[ \t]", re.MULTILINE)
_OBJ_LINE: Final = re.compile(
    rb"\s*(?:#.*|(?:v|vn|vt|vp|f|l|p|o|g|s|usemtl|mtllib|usemap)(?:\s.*)?)?$"
)
_OBJ_POINT: Final = re.compile(rb"^[ \t]{0,40}v[ \t]{1,40}[-+.\d]", re.MULTILINE)
_OBJ_FACE: Final = re.compile(rb"^[ \t]{0,40}f[ \t]{1,40}-?\d", re.MULTILINE)
_JUDGED: Final = 100  # lines to examine
_TRIANGLES: Final = 8  # triangles to examine
_STL_HEAD: Final = 84  # 80 bytes of arbitrary text, and the number of triangles (4 bytes)
_TRIANGLE: Final = struct.Struct("<12fH")  # normal, three points, and a field that is usually 0


def _recognise(head: Head) -> Format | None:
    data = head.data
    if _PLY_START.match(data):
        return _PLY
    if _STL_START.match(data) or _is_binary_stl(data):
        return _STL
    return _OBJ if _is_obj(data) else None


def _is_binary_stl(data: bytes) -> bool:
    """Whether the first triangles are plausible; binary STL has no signature."""
    stated = int.from_bytes(data[80:_STL_HEAD], "little")
    count = min(stated, _TRIANGLES)
    if not count or len(data) < _STL_HEAD + count * _TRIANGLE.size:
        return False
    for at in range(count):
        *numbers, rest = _TRIANGLE.unpack_from(data, _STL_HEAD + at * _TRIANGLE.size)
        normal = math.hypot(*numbers[:3])
        points = {tuple(numbers[side : side + 3]) for side in (3, 6, 9)}
        is_one = abs(normal - 1) < 0.01 or normal == 0
        if rest or not is_one or len(points) < 2 or not all(map(math.isfinite, numbers)):
            return False
    return True


def _is_obj(data: bytes) -> bool:
    lines = data[: _JUDGED * 200].splitlines()[:_JUDGED]
    known = all(_OBJ_LINE.match(line) for line in lines[:-1])
    return known and len(_OBJ_POINT.findall(data, 0, _JUDGED * 200)) >= 3


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    facts = _COUNTS[format.label](excerpt)
    return Drawing(html=card("3-D", facts, size), facts=facts)


def _of_ply(excerpt: Excerpt) -> tuple[str, ...]:
    end = excerpt.data.find(b"end_header")
    if end < 0:
        raise UnshowableError("the end of its header is missing")
    parts = _PLY_PART.findall(excerpt.data, 0, end)[:6]
    names = {b"vertex": "point", b"face": "face"}
    return tuple(
        count_of(int(count), names.get(name, name.decode("ascii", "replace")))
        for name, count in parts
    )


def _of_stl(excerpt: Excerpt) -> tuple[str, ...]:
    if _is_binary_stl(excerpt.data):
        count = int.from_bytes(excerpt.data[80:_STL_HEAD], "little")
        if excerpt.size is not None and excerpt.size < _STL_HEAD + count * _TRIANGLE.size:
            raise UnshowableError(f"cut: it states {count_of(count, 'triangle')}")
        return (count_of(count, "triangle"),)
    return _counted(excerpt, triangle=_STL_FACE)


def _of_obj(excerpt: Excerpt) -> tuple[str, ...]:
    return _counted(excerpt, point=_OBJ_POINT, face=_OBJ_FACE)


def _counted(excerpt: Excerpt, **lines: re.Pattern[bytes]) -> tuple[str, ...]:
    if not excerpt.whole:
        raise UnshowableError("too large to count its lines")
    return tuple(
        count_of(sum(1 for _ in line.finditer(excerpt.data)), name) for name, line in lines.items()
    )


_COUNTS: Final = {"PLY": _of_ply, "STL": _of_stl, "OBJ": _of_obj}

KIND = Kind(
    name="mesh",
    formats=(_PLY, _STL, _OBJ),
    draw=_draw,
    recognise=_recognise,
    precedence=FIRST,  # tried for any bytes, because each format has text and binary variants
    limit=8 * MIB,
)
