"""3-D scenes (binary glTF): what is inside, as its JSON says; nothing is rendered."""

from __future__ import annotations

import json
from typing import Any

from odps_nb.notebook.display.html import element
from odps_nb.notebook.preview.drawing import Drawing, Excerpt, card
from odps_nb.notebook.preview.kind import MIB, Format, Kind
from odps_nb.notebook.preview.shared import Size
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of, shorten

_GLB = Format("model/gltf-binary", "glTF", starts=(b"glTF\x02\x00\x00\x00",))
_PARTS = ("scene", "node", "mesh", "material", "texture", "animation", "camera")


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    # header: magic, version, length; then a chunk: u32 length, "JSON", text (glTF 2.0, 4.4)
    length = int.from_bytes(excerpt.data[12:16], "little")
    text = excerpt.data[20 : 20 + length]
    if excerpt.data[16:20] != b"JSON" or len(text) < length:
        raise UnshowableError("its JSON part is missing or too large")
    try:
        found = json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        raise UnshowableError("its JSON part cannot be parsed") from None
    if not isinstance(found, dict):
        raise UnshowableError("its JSON part is no object")
    counts = [
        count_of(len(parts), part)
        for part in _PARTS
        if isinstance(parts := found.get(_plural(part)), list)
    ]
    rows = [element("div", count.replace("meshs", "meshes")) for count in counts]
    made_by = _text(found, "asset", "generator")
    if made_by:
        rows.append(element("div", shorten(made_by, 80), style="margin-top:8px;opacity:0.75"))
    version = _text(found, "asset", "version")
    facts = (f"version {shorten(version, 10)}",) if version else ()
    return Drawing(html=card("3-D", rows, size), facts=facts)


def _plural(part: str) -> str:
    return "meshes" if part == "mesh" else f"{part}s"


def _text(found: dict[str, Any], outer: str, inner: str) -> str:
    held = found.get(outer)
    value = held.get(inner) if isinstance(held, dict) else None
    return value if isinstance(value, str) else ""


KIND = Kind(name="scene", formats=(_GLB,), draw=_draw, limit=4 * MIB)
