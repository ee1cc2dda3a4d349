"""PDF: the first page as a picture, drawn in the parser process (the ``previews`` extra).

Without pypdfium2, or if the file is truncated, encrypted or corrupt, a card shows the version, and
the title and number of pages if they are plain text. The document is never embedded, because
browsers do not show PDFs in a sandboxed frame, and a frame without a sandbox may run scripts.
"""

from __future__ import annotations

import re

from odps_nb.formats.drawing import Drawing, Excerpt, card
from odps_nb.formats.kind import FIRST, MIB, Format, Kind
from odps_nb.formats.parsing import draw_parsed
from odps_nb.formats.shared import Size
from odps_nb.terms import count_of, shorten

_PDF = Format("application/pdf", "PDF", aliases=("application/x-pdf",), starts=(b"%PDF-",))
_PAGE = re.compile(rb"/Type\s{0,4}/Page[^s]")
_TITLE = re.compile(rb"/Title\s{0,4}\(((?:[^()\\]|\\.){1,200})\)")


def _card(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    """Draw a card with the title found in the first bytes."""
    title = _TITLE.search(excerpt.data)
    pages = len(_PAGE.findall(excerpt.data)) if excerpt.whole else 0
    words = title.group(1).decode("latin-1") if title else ""
    version = f"version {excerpt.data[5:8].decode('ascii', 'replace')}"
    facts = [version, *([count_of(pages, "page")] if pages else [])]
    return Drawing(html=card("PDF", (shorten(words, 60),), size), facts=tuple(facts))


KIND = Kind(
    name="pdf",
    formats=(_PDF,),
    draw=draw_parsed,
    fallback=_card,
    precedence=FIRST,
    whole=True,
    limit=8 * MIB,
)
