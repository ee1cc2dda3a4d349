"""HTML and XML as escaped source; HTML drawn in a sandbox on request.

Before rendering, a page is rebuilt without links, forms and scripts (`parsers.page`). The page is
drawn in a frame with an empty ``sandbox`` and its own content security policy. The folded source
stays below the frame, because a notebook that is reopened untrusted loses the frame.
"""

from __future__ import annotations

import re
from typing import Final

from odps_nb.formats.drawing import Drawing, Excerpt, source_box
from odps_nb.formats.kind import TEXTS, Format, Head, Kind, text_of
from odps_nb.formats.kinds import text
from odps_nb.formats.parsing import parse
from odps_nb.formats.shared import Size
from odps_nb.html import element, escape, join, scroller
from odps_nb.parsing.values import UnshowableError

_HTML = Format("text/html", "HTML", aliases=("application/xhtml+xml", "text/plain"))
_XML = Format(
    "application/xml",
    "XML",
    aliases=(
        *("text/xml", "application/rss+xml", "application/atom+xml"),
        *("application/xhtml+xml", "text/plain"),
    ),
)
# text that may precede the root element; repeats are bounded, so that matching is never slow
_PROLOG = re.compile(
    r"\s*(?:(?:<\?[^>]{0,2000}\?>|<!--.{0,4000}?-->|<!DOCTYPE[^>\[]{0,2000}"
    r"(?:\[[^\]]{0,4000}\]\s*)?>)\s*){0,8}",
    re.IGNORECASE | re.DOTALL,
)
_PROLOG_SIZE: Final = 16_384
_HTML_START = re.compile(
    r"<(?:html|head|body|script|title|meta|link|style|iframe|img|div|span|table|form|center|h[1-6]"
    r"|ul|ol|p|a|b|br|details|pre|button)[\s>/]",
    re.IGNORECASE,
)
# a root element without a declaration before it
_ROOT: Final = re.compile(r"<([\w.-]{1,60}(?::[\w.-]{1,60})?)(\s[^<>]{0,4000})?>")
_XHTML_START: Final = re.compile(r"<html[\s>/]", re.IGNORECASE)
_NO_TAG: Final = re.compile(r"<[^\w/!?]")
#: Prepended to the page's markup, so that the policy applies to all of it.
POLICY: Final = (
    '<!DOCTYPE html><meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
)
_TALL: Final = 3


def root_at(text: str) -> int:
    """Return the offset after declarations and comments, where the root element may begin."""
    prolog = _PROLOG.match(text, 0, _PROLOG_SIZE)
    return prolog.end() if prolog else 0


def _recognise(head: Head) -> Format | None:
    at = root_at(head.text)
    before = head.text[:at].lower()
    # after an XML declaration, <a> or <title> may be any element
    start = _XHTML_START if before.lstrip().startswith("<?xml") else _HTML_START
    if "<!doctype html" in before or start.match(head.text, at):
        return _HTML
    if before.lstrip().startswith(("<?xml", "<!doctype")):
        return _XML
    root = _ROOT.match(head.text, at)
    if root is None or _NO_TAG.search(head.text):
        return None
    is_whole = head.whole and head.text.rstrip().endswith(f"</{root[1]}>")
    return _XML if is_whole or " xmlns" in (root[2] or "") else None


def _draw_rendered(excerpt: Excerpt, format: Format, size: Size, *, name: str) -> Drawing:
    """Draw an HTML page in a fully restricted frame, with its folded source below."""
    if format.mime != _HTML.mime:
        return text.draw(excerpt, format, size, name=name)
    if not excerpt.whole:
        raise UnshowableError("too large to draw")
    source = text_of(excerpt, format)
    parsed = parse("page", source.encode("utf-8", "replace"), size)
    page = POLICY + parsed.data.decode("utf-8", "replace")
    # Clicks pass through the frame, so it cannot scroll; the shorter box around it scrolls instead.
    frame = element(
        "iframe",
        attributes={"sandbox": "", "srcdoc": page, "title": f"{name}, drawn in a sandbox"},
        style=f"display:block;width:100%;height:{size.height * _TALL}px;border:0;"
        "background-color:#ffffff;pointer-events:none",
    )
    window = scroller("div", frame, label=f"{name}, drawn", style=size.box)
    box = source_box(source, size, label=f"source of {name}")
    below = element("details", element("summary", escape("source"), style="padding:2px 10px"), box)
    dropped = parsed.text("styles") == "dropped"
    return Drawing(
        html=join((window, below)),
        facts=("drawn in a sandbox",),
        note="its styles are omitted because they load files" if dropped else "",
    )


KIND = Kind(
    name="markup",
    formats=(_HTML, _XML),
    draw=text.draw,
    draw_rendered=_draw_rendered,
    fallback=text.draw,
    recognise=_recognise,
    precedence=TEXTS + 10,  # tried after SVG, which may begin with the same declarations
)
