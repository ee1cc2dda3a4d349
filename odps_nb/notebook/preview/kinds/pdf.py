"""PDF: the first page as a picture, drawn in the parser process (the ``previews`` extra).

Without pypdfium2, or if the file is truncated, encrypted or corrupt, a card shows the version, and
the title and number of pages if they are plain text. The document is never embedded, because
browsers show no PDF in a sandboxed frame, and a frame without a sandbox may run scripts.
"""

from __future__ import annotations

import re

from odps_nb.notebook.display.html import LINE, element
from odps_nb.notebook.preview.drawing import Drawing, Excerpt, framed
from odps_nb.notebook.preview.kind import FIRST, MIB, Format, Kind
from odps_nb.notebook.preview.parsing import draw_parsed
from odps_nb.notebook.preview.shared import Size
from odps_nb.terms import count_of, shorten

_PDF = Format("application/pdf", "PDF", aliases=("application/x-pdf",), starts=(b"%PDF-",))
_PAGE = re.compile(rb"/Type\s{0,4}/Page[^s]")
_TITLE = re.compile(rb"/Title\s{0,4}\(((?:[^()\\]|\\.){1,200})\)")


def _card(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    """Draw a card with the title found in the first bytes."""
    title = _TITLE.search(excerpt.data)
    pages = len(_PAGE.findall(excerpt.data)) if excerpt.whole else 0
    words = title.group(1).decode("latin-1") if title else ""
    bar = "height:4px;margin:0 0 6px 0;border-radius:2px;background-color:rgba(128,128,128,0.35)"
    sheet = element(
        "div",
        element("div", "PDF", style="font-weight:bold;font-size:18px;color:#dc2626"),
        element("div", shorten(words, 60), style="font-size:11px;margin:2px 0 8px 0"),
        *(element("div", style=f"{bar};width:{width}%") for width in (100, 92, 97, 60)),
        attributes={"dir": "auto"},
        style=f"width:104px;min-height:112px;padding:12px;border:{LINE};border-radius:4px;"
        "background-color:rgba(255,255,255,0.08)",
    )
    version = f"version {excerpt.data[5:8].decode('ascii', 'replace')}"
    facts = [version, *([count_of(pages, "page")] if pages else [])]
    return Drawing(html=framed(sheet, size), facts=tuple(facts))


KIND = Kind(
    name="pdf",
    formats=(_PDF,),
    draw=draw_parsed,
    fallback=_card,
    precedence=FIRST,
    whole=True,
    limit=8 * MIB,
)
