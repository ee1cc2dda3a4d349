"""XML answers of the control plane (``docs/protocol.md`` section 9)."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response

from odps_nb.wire.xml_text import DECLARATION, element

__all__ = ["PAGE", "XML", "listing", "page", "reply"]

PAGE = 1000
XML = "application/xml"


def listing(outer: str, inner: str, names: Iterable[str]) -> Response:
    """Return the XML document of a list of names."""
    return page(outer, [element(inner, (element("Name", name),)) for name in names])


def page(outer: str, items: Iterable[str], *, marker: str = "", most: int = PAGE) -> Response:
    """Return the XML document of a list; ``marker`` asks for what comes after these items."""
    body = DECLARATION + element(
        outer, (element("Marker", marker), element("MaxItems", str(most)), *items)
    )
    return Response(body, media_type=XML)


def reply(encoded: tuple[bytes, dict[str, str]]) -> Response:
    """Return an encoded answer of `odps_nb.wire.control` as a response."""
    content, headers = encoded
    if not any(name.lower() == "content-type" for name in headers):
        headers = {**headers, "Content-Type": XML}
    return Response(content, headers=headers)
