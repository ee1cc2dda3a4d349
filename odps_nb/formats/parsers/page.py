"""HTML pages, rebuilt without links, forms, frames, scripts and external resources.

The frame's sandbox and policy do not prevent resource hints (``<link rel=preconnect>``) or clicks
on links. Therefore, nh3 (based on the browser parser html5ever) keeps only the elements listed
here.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

import nh3

from odps_nb.formats.parsers.picture import MAX_PIXELS, pixels
from odps_nb.formats.shared import words
from odps_nb.parsing.values import UnshowableError

_TAGS: Final = words(
    "abbr address article aside b bdi bdo big blockquote br caption center cite code col "
    "colgroup dd del details dfn div dl dt em figcaption figure font footer h1 h2 h3 h4 h5 h6 "
    "header hgroup hr i img ins kbd li main mark nav ol p pre q rp rt ruby s samp section "
    "small span strike strong sub summary sup table tbody td tfoot th thead time tr tt u ul "
    "var wbr"
)
# elements whose contents are dropped
_DROPPED: Final = words(
    "applet audio canvas embed iframe math noembed noframes noscript object option script "
    "select svg template textarea title video xmp"
)
_EVERYWHERE: Final = words(
    "align bgcolor border cellpadding cellspacing class colspan dir height id lang rowspan "
    "span start style title valign width"
)
_ATTRIBUTES: Final = {
    "*": set(_EVERYWHERE),
    "img": {"src", "alt"},
    "font": {"color", "face", "size"},
    "details": {"open"},
}
# The policy allows data: URLs, and an SVG in such a URL may freeze the page. So styles must not
# refer to any source, however it is spelled.
_LOADS: Final = re.compile(
    r"\\|@import|@font-face|@namespace|(?:url|src|image|image-set|cross-fade|element|paint)\s*\(",
    re.IGNORECASE,
)
_PICTURE: Final = re.compile(r"\s*data:image/[a-z]+;base64,([A-Za-z0-9+/=\s]+)", re.IGNORECASE)


def parse(data: bytes, options: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Rebuild a UTF-8 page from allowed elements, and return it as UTF-8 data."""
    text = data.decode()
    cleaned = _cleaned(text, styles=True)
    first, last = cleaned.find("<style"), cleaned.rfind("</style")
    plain = first >= 0 and bool(_LOADS.search(cleaned, first, max(first, last)))
    if plain:
        cleaned = _cleaned(text, styles=False)
    return {"styles": "dropped" if plain else "kept"}, cleaned.encode()


def _cleaned(text: str, *, styles: bool) -> str:
    left = MAX_PIXELS

    def keep(tag: str, name: str, value: str) -> str | None:
        nonlocal left
        if name == "src":
            count = _pixels(value)
            if count is None or count > left:
                return None
            left -= count
        if name == "style" and _LOADS.search(value):
            return None
        return value

    return nh3.clean(
        text,
        tags={*_TAGS, "style"} if styles else set(_TAGS),
        clean_content_tags=set(_DROPPED) if styles else {*_DROPPED, "style"},
        attributes=_ATTRIBUTES,
        attribute_filter=keep,
        url_schemes={"data"},
        link_rel=None,
    )


def _pixels(source: str) -> int | None:
    """Return the number of pixels of a raster image in a ``data:`` URL; ``None`` for others."""
    match = _PICTURE.fullmatch(source)
    if match is None:
        return None
    try:
        return pixels(base64.b64decode(match[1]))
    except (binascii.Error, UnshowableError, OSError, ValueError, SyntaxError):
        return None
