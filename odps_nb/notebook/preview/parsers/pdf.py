"""PDF: the first page as a picture, and how many pages there are.

Runs in the parser process: PDFium draws it. Forms are never set up, so that no script of the file
could run; nothing outside of the bytes is opened.
"""

from __future__ import annotations

from contextlib import closing
from typing import Any, Final

from odps_nb.errors import MissingDependencyError
from odps_nb.notebook.preview.parsers.picture import thumbnail
from odps_nb.notebook.preview.shared import Size
from odps_nb.parsing.reasons import reason_of
from odps_nb.parsing.values import UnshowableError

_LONGEST: Final = 200
_SMALLEST: Final = 1.0  # points of a side of a page

try:
    import pypdfium2
except ImportError:  # said when a PDF is asked for
    pypdfium2 = None


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return title and number of pages, and the first page as an encoded picture."""
    if pypdfium2 is None:
        raise MissingDependencyError("its first page needs pypdfium2", extra="previews")
    size = Size(**options["size"])
    try:
        with closing(pypdfium2.PdfDocument(data)) as document:
            title = document.get_metadata_dict().get("Title", "")
            pages = len(document)
            page = document[0]
            # the sides are checked, so that no page asks for more pixels than there is room for
            width, height = (max(side, _SMALLEST) for side in page.get_size())
            scale = min(size.width * 2 / width, size.height * 2 / height)
            drawn = page.render(scale=scale, may_draw_forms=False).to_pil()
    except (pypdfium2.PdfiumError, IndexError) as error:
        reason = "it has no pages" if isinstance(error, IndexError) else reason_of(error)
        if "password" in str(error).lower():
            reason = "it is locked by a password"
        raise UnshowableError(f"its first page is not drawn: {reason}") from None
    return {"title": title[:_LONGEST], "pages": pages}, thumbnail(drawn, size)
