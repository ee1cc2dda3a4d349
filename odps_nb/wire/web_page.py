"""Recognises web pages, which proxies, login pages and other servers send as responses."""

from __future__ import annotations

import html
import re

from odps_nb.errors import FramingError, visible
from odps_nb.terms import shorten

HEAD_BYTES = 1 << 16
"""Number of bytes at the start of a body in which a title is searched."""
PAGE_HINT = (
    "log in to this network if this is its login page; otherwise check the address, HTTPS_PROXY "
    "and NO_PROXY"
)
_SHOWN = 120
_BEGIN = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--.{0,2000}?-->\s*)*<(?:!doctype\s+html|html)\b",
    re.IGNORECASE | re.DOTALL,
)
_TITLE = re.compile(r"<title\b[^>]{0,200}>(.{0,1000}?)</title", re.IGNORECASE | re.DOTALL)


def is_web_page(body: bytes) -> bool:
    """Return whether a body begins as an HTML document."""
    return _BEGIN.match(body[:HEAD_BYTES]) is not None


def describe_page(body: bytes, text: str = "") -> str:
    """Return "a web page" with its title in quotes; without a title, with the start of ``text``."""
    found = _TITLE.search(body[:HEAD_BYTES].decode("utf-8", "replace"))
    title = " ".join(visible(html.unescape(found[1])).split()) if found else ""
    if title:
        return f'a web page titled "{shorten(title, _SHOWN)}"'
    return f"a web page: {shorten(text, _SHOWN)}" if text else "a web page"


def page_error(body: bytes, sender: str, request_id: str | None = None) -> FramingError:
    """Return the error for a web page in place of a document or a stream.

    ``sender`` names the host. A retry would return the same page.
    """
    error = FramingError(
        f"{sender} responded with {describe_page(body)} instead of a response of MaxCompute",
        request_id=request_id,
        hint=PAGE_HINT,
    )
    error.lasts = True
    return error
