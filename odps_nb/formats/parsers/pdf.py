"""PDF: the first page as a picture, drawn by PDFium, and the number of pages.

Forms are never initialised, so no script in the file can run. No other file is opened.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any, Final

import pypdfium2

from odps_nb.formats.parsers.picture import thumbnail
from odps_nb.formats.shared import Size, answer
from odps_nb.terms import count_of

_SMALLEST: Final = 1.0  # minimum page width and height in points


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return version, number of pages and title, and the first page as an encoded picture."""
    size = Size(**options["size"])
    with closing(pypdfium2.PdfDocument(data)) as document:
        title = " ".join(document.get_metadata_dict().get("Title", "").split())
        version = f"version {data[5:8].decode('ascii', 'replace')}"
        facts = [version, count_of(len(document), "page"), *([title] if title else [])]
        page = document[0]
        # scale any page size to the preview, to limit the number of pixels
        width, height = (max(side, _SMALLEST) for side in page.get_size())
        scale = min(size.width * 2 / width, size.height * 2 / height)
        drawn = page.render(scale=scale, may_draw_forms=False).to_pil()
    return answer(facts, thumbnail(drawn, size))
