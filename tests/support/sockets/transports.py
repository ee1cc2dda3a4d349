"""Requests for tests of the transport."""

from __future__ import annotations

from odps_nb.http.transport import HttpRequest, HttpResponse, RequestsTransport


def ask(transport: RequestsTransport, url: str, **facts) -> HttpResponse:
    return transport.send(HttpRequest(method="POST", url=url, **{"read_timeout": 5.0, **facts}))
