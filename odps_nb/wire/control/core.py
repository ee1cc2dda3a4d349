"""Parts shared by control plane requests: REST paths, paging, dates.

``docs/protocol.md`` section 9. Paths are relative to the endpoint (``http://host/api``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from odps_nb.wire.calls.core import Pairs, Scope, WireRequest
from odps_nb.wire.http_date import format_date, parse_date
from odps_nb.wire.xml_text import DECLARATION, element

XML_TYPE = "application/xml"
DEFAULT_PAGE = 1000


class SafeCall:
    """Base class of requests that are safe to send twice."""

    __slots__ = ()
    idempotent: ClassVar[bool] = True


def project_path(project: str, *rest: str) -> str:
    """Return ``/projects/<project>/…``."""
    return "/".join(("", "projects", project, *rest))


def rest_request(
    path: str,
    params: Iterable[tuple[str, str]] = (),
    *,
    scope: Scope,
    schema: str | None = None,
    method: str = "GET",
    headers: Pairs = (),
    body: bytes | None = None,
) -> WireRequest:
    """Build one REST request; the object's schema overrides that of the connection."""
    of_all = Scope(curr_project=scope.curr_project, curr_schema=schema or scope.curr_schema)
    return WireRequest(
        method=method, path=path, params=(*params, *of_all.params), headers=headers, body=body
    )


def paged(*params: tuple[str, str]) -> Pairs:
    """Return the non-empty parameters of a page request."""
    return (("expectmarker", "true"), *((key, value) for key, value in params if value))


def xml_body(root: str, parts: str | Iterable[str]) -> bytes:
    """Write an XML document."""
    return (DECLARATION + element(root, parts)).encode()


def date_text(seconds: float | None) -> str:
    """Format epoch seconds for an XML element; empty for ``None``."""
    return "" if seconds is None else format_date(seconds)


def epoch(text: str | None) -> float | None:
    """Parse a date in an XML element or header; return ``None`` if it is invalid."""
    return parse_date(text or "")
