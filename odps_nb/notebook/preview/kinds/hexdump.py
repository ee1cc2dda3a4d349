"""The first bytes as hex and letters: what every blob can be shown as."""

from __future__ import annotations

from odps_nb.notebook.display.html import MONO, MUTED, element, scroller
from odps_nb.notebook.preview.kinds.drawing import Drawing, Excerpt, Size
from odps_nb.notebook.preview.kinds.image import framed
from odps_nb.notebook.preview.media_types import Kind

__all__ = ["draw", "draw_empty"]


def draw(excerpt: Excerpt, kind: Kind, size: Size, *, name: str) -> Drawing:
    """Draw offset, hex and the letters of the first lines."""
    each = 16 if size.layout == "single" else 6
    lines = []
    for at in range(0, min(len(excerpt.data), each * size.lines), each):
        row = excerpt.data[at : at + each]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
        lines.append(f"{at:04x}  {row.hex(' '):<{each * 3 - 1}}  {letters}")
    dump = element(
        "pre",
        "\n".join(lines),
        style=f"margin:0;padding:8px 10px;background:none;color:inherit;{MONO}",
    )
    box = scroller("div", dump, label=f"first bytes of {name}", style=size.box)
    return Drawing(html=box)


def draw_empty(excerpt: Excerpt, kind: Kind, size: Size, *, name: str) -> Drawing:
    """Draw that there is nothing."""
    words = element("span", "no bytes", style=MUTED)
    return Drawing(html=framed(words, size))
