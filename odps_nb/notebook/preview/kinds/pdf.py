"""PDF: a card with what its plain text tells.

The document is never embedded: a sandboxed frame shows no PDF, and a frame without a sandbox is
what the safety rules forbid. It is saved and opened by the person who wants to read it.
"""

from __future__ import annotations

import re

from odps_nb.notebook.display.html import LINE, element
from odps_nb.notebook.preview.kinds.drawing import Drawing, Excerpt, Size, clip, count_of
from odps_nb.notebook.preview.kinds.image import framed
from odps_nb.notebook.preview.media_types import Kind

__all__ = ["draw"]

_PAGE = re.compile(rb"/Type\s{0,4}/Page[^s]")
_TITLE = re.compile(rb"/Title\s{0,4}\(((?:[^()\\]|\\.){1,200})\)")


def draw(excerpt: Excerpt, kind: Kind, size: Size, *, name: str) -> Drawing:
    """Draw a sheet of paper with the version, and the title and page count where they are plain."""
    version = excerpt.data[5:8].decode("ascii", "replace")
    title = _TITLE.search(excerpt.data)
    pages = len(_PAGE.findall(excerpt.data)) if excerpt.whole else 0
    words = title.group(1).decode("latin-1") if title else ""
    bar = "height:4px;margin:0 0 6px 0;border-radius:2px;background-color:rgba(128,128,128,0.35)"
    sheet = element(
        "div",
        element("div", "PDF", style="font-weight:bold;font-size:18px;color:#dc2626"),
        element("div", clip(words, 60), style="font-size:11px;margin:2px 0 8px 0"),
        *(element("div", style=f"{bar};width:{width}%") for width in (100, 92, 97, 60)),
        attributes={"dir": "auto"},
        style=f"width:104px;min-height:112px;padding:12px;border:{LINE};border-radius:4px;"
        "background-color:rgba(255,255,255,0.08)",
    )
    facts = [f"version {version}"]
    if pages:
        facts.append(count_of(pages, "page"))
    return Drawing(html=framed(sheet, size), facts=tuple(facts))
