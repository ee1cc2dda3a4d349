"""The route table, and XML responses. To support another request, add a row and a handler."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.responses import Response

from odps_nb.local.rights import Right
from odps_nb.wire.calls import WireRequest
from odps_nb.wire.xml_text import DECLARATION, element

ALL = ("GET", "POST", "PUT", "DELETE", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """An authenticated request; ``base``: scheme and host; ``upload``: file with the body.

    ``is_mcqa``: the path is below ``/mcqa`` (`routes.interactive`).
    """

    wire: WireRequest
    access_id: str
    base: str = ""
    path: Mapping[str, str] = field(default_factory=dict)
    upload: Path = Path()
    is_mcqa: bool = False

    @property
    def params(self) -> dict[str, str]:
        """The query parameters; the last one wins if a name is repeated."""
        return dict(self.wire.params)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAnswer:
    """A response whose body is produced while it is sent."""

    chunks: Generator[bytes | memoryview, None, None]
    media_type: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class At:
    """One row of the route table; requests need ``right`` in the project (``None``: no check).

    If ``keys`` is not empty, one of these query parameters must be present. With ``upload``, the
    body is saved to a file. ``accepts`` names further parameters, separated by blanks; the control
    plane refuses others (`routes.lists`).
    """

    paths: Sequence[str]
    right: Right | None
    answer: Callable[[RequestContext], Response | StreamAnswer | dict[str, Any]]
    methods: Sequence[str] = ("GET",)
    keys: frozenset[str] = frozenset()
    upload: bool = False
    accepts: str = ""
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class To:
    """A route table row for a request type; for the other fields, see `At`."""

    kind: type
    right: Right | None
    answer: Callable[[Any, RequestContext], Any]
    accepts: str = ""
    is_list: bool = False


PAGE = 1000
XML = "application/xml"


def listing(
    outer: str, inner: str, names: Iterable[str], *, marker: str = "", most: int = PAGE
) -> Response:
    """Return a page of a list of names as an XML document."""
    items = [element(inner, (element("Name", name),)) for name in names]
    return page(outer, items, marker=marker, most=most)


def page(outer: str, items: Iterable[str], *, marker: str = "", most: int = PAGE) -> Response:
    """Return a page of a list as an XML document; ``marker`` requests the next page."""
    body = DECLARATION + element(
        outer, (element("Marker", marker), element("MaxItems", str(most)), *items)
    )
    return Response(body, media_type=XML)


def reply(encoded: tuple[bytes, dict[str, str]]) -> Response:
    """Convert a response encoded by `odps_nb.wire.control` to a Starlette response."""
    content, headers = encoded
    if not any(name.lower() == "content-type" for name in headers):
        headers = {**headers, "Content-Type": XML}
    return Response(content, headers=headers)
