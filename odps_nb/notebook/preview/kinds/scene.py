"""3-D scenes (binary glTF): the contents listed in the JSON chunk; not rendered."""

from __future__ import annotations

from typing import Any

from odps_nb.notebook.display.html import MUTED, element
from odps_nb.notebook.preview.drawing import Drawing, Excerpt, card
from odps_nb.notebook.preview.kind import MIB, Format, Kind, load_json
from odps_nb.notebook.preview.shared import Size
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of, shorten

_GLB = Format("model/gltf-binary", "glTF", starts=(b"glTF\x02\x00\x00\x00",))
_PARTS = {
    one: "meshes" if one == "mesh" else f"{one}s"
    for one in ("scene", "node", "mesh", "material", "texture", "animation", "camera")
}


def _draw(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    # header: magic, version, length; then a chunk: u32 length, "JSON", text (glTF 2.0, 4.4)
    length = int.from_bytes(excerpt.data[12:16], "little")
    text = excerpt.data[20 : 20 + length]
    if excerpt.data[16:20] != b"JSON" or len(text) < length:
        raise UnshowableError("its JSON part is missing or too large")
    found = load_json(text)
    if not isinstance(found, dict):
        raise UnshowableError("its JSON part is not an object")
    counts = [
        count_of(len(parts), part)
        for part, name in _PARTS.items()
        if isinstance(parts := found.get(name), list)
    ]
    rows = [count.replace("meshs", "meshes") for count in counts]
    if made_by := _text(found, "asset", "generator"):
        rows.append(element("span", shorten(made_by, 80), style=MUTED))
    version = _text(found, "asset", "version")
    facts = (f"version {shorten(version, 10)}",) if version else ()
    return Drawing(html=card("3-D", rows, size), facts=facts)


def _text(found: dict[str, Any], outer: str, inner: str) -> str:
    held = found.get(outer)
    value = held.get(inner) if isinstance(held, dict) else None
    return value if isinstance(value, str) else ""


KIND = Kind(name="scene", formats=(_GLB,), draw=_draw, limit=4 * MIB)
