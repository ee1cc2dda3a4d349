"""The route table, and XML responses. A new request of the service is one row and its function."""

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
class Asked:
    """An authorised request; ``base`` is scheme and host, ``body`` the file of an upload."""

    wire: WireRequest
    access_id: str
    base: str = ""
    path: Mapping[str, str] = field(default_factory=dict)
    body: Path | None = None

    @property
    def params(self) -> dict[str, str]:
        """The query parameters; the last one of equal names wins."""
        return dict(self.wire.params)

    @property
    def upload(self) -> Path:
        """The body of an upload, in a file."""
        assert self.body is not None
        return self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAnswer:
    """An answer whose body is produced while it is sent."""

    chunks: Generator[bytes | memoryview, None, None]
    media_type: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class At:
    """A path; ``right`` applies to the project in the path, ``None`` if there is none.

    ``keys`` are parameters of which one must be there; an upload has its body in a file.
    """

    paths: Sequence[str]
    right: Right | None
    answer: Callable[[Asked], Response | StreamAnswer | dict[str, Any]]
    methods: Sequence[str] = ("GET",)
    keys: frozenset[str] = frozenset()
    upload: bool = False


@dataclass(frozen=True, slots=True)
class To:
    """A request value; ``right`` applies to the project that it names, ``None`` if none."""

    kind: type
    right: Right | None
    answer: Callable[[Any, Asked], Any]


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
