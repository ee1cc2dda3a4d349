"""Parses and writes control plane XML, with limits against malicious input.

A DOCTYPE raises an error before any entity is declared; size and depth are limited. `element`
escapes all text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree import ElementTree

from odps_nb.errors import FramingError, OversizeError, shown

MAX_XML_BYTES = 64 * 2**20
MAX_XML_DEPTH = 64
DECLARATION = '<?xml version="1.0"?>\n'

_NOT_THEIRS = "check the endpoint, and whether a proxy or a login page sent the response"

Element = ElementTree.Element

# XML parsers normalise carriage returns and, in attributes, all white space.
_TEXT = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("\r"): "&#13;"}
_ATTRIBUTE = _TEXT | {ord('"'): "&quot;", ord("\n"): "&#10;", ord("\t"): "&#9;"}
# XML 1.0 cannot represent these characters, even as character references.
_ILLEGAL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


class _Builder(ElementTree.TreeBuilder):
    """Tree builder that raises an error for a DOCTYPE or excessive nesting."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        raise ValueError("a DOCTYPE is not allowed")

    def start(self, tag: str, attrs: dict[str, str], /) -> Element:
        self._depth += 1
        if self._depth > MAX_XML_DEPTH:
            raise ValueError(f"elements are nested deeper than {MAX_XML_DEPTH} levels")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> Element:
        self._depth -= 1
        return super().end(tag)


def parse_answer(body: bytes, what: str, *, root: str) -> Element:
    """Parse a response document; raise unless its root element is ``root``."""
    try:
        found = parse_xml(body, what)
    except FramingError as error:
        start = shown(body[:60].decode("utf-8", "replace"))
        raise FramingError(f"{error}; it begins with {start}", hint=_NOT_THEIRS) from None
    if found.tag != root:
        raise FramingError(
            f"{what}: this is not a MaxCompute response; it begins with <{found.tag[:80]}> "
            f"instead of <{root}>",
            hint=_NOT_THEIRS,
        )
    return found


def parse_xml(body: bytes, what: str, *, max_bytes: int = MAX_XML_BYTES) -> Element:
    """Parse an XML document."""
    if len(body) > max_bytes:
        raise OversizeError(f"{what} is too long", limit=max_bytes, actual=len(body))
    parser = ElementTree.XMLParser(target=_Builder())
    try:
        parser.feed(body)
        root: Element = parser.close()
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise FramingError(f"{what} is not valid XML: {error}") from None
    return root


def child_text(parent: Element, path: str) -> str:
    """Return the stripped text of the first element at a path."""
    return (parent.findtext(path) or "").strip()


def element(name: str, content: str | Iterable[str] = "", /, **attributes: str) -> str:
    """Write one element; ``content`` is text, or an iterable of serialised elements."""
    inner = _spell(content, _TEXT) if isinstance(content, str) else "".join(content)
    pairs = (f' {key}="{_spell(value, _ATTRIBUTE)}"' for key, value in attributes.items())
    return f"<{name}{''.join(pairs)}>{inner}</{name}>"


def has_spelling(text: str) -> bool:
    """Whether XML can represent the text; `element` replaces invalid characters with U+FFFD."""
    return _ILLEGAL.search(text) is None


def _spell(text: str, escapes: dict[int, str]) -> str:
    return _ILLEGAL.sub("\ufffd", text).translate(escapes)
