"""The ASGI application of the embedded service, assembled from ``routes``.

::

    /api/storage/v2, /v3            Storage API: JSON errors
    /api/…                          control plane: XML errors
    /projects/…                     tunnel: JSON errors; else the control plane
    /                               status page, for requests with its token
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from odps_nb.local.routes import asgi_io as edge
from odps_nb.local.routes.rest import rest_routes
from odps_nb.local.routes.storage import storage_routes
from odps_nb.local.routes.surface import Surface
from odps_nb.local.routes.table import ALL, Asked, At
from odps_nb.local.routes.tunnel import tunnel_routes
from odps_nb.local.server.misbehaviour import MisbehavingApp, Misbehaviour
from odps_nb.local.server.status_page import status_page
from odps_nb.local.service import Service

__all__ = ["build_app"]

_LOOPBACK = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::(\d{1,5}))?", re.ASCII | re.I)
_PRIVATE = {"cache-control": "no-store", "referrer-policy": "no-referrer"}


def build_app(service: Service, misbehaviour: Misbehaviour | None = None) -> ASGIApp:
    """Return the ASGI application of an open service.

    With a ``misbehaviour`` the service fails as its rules say, and takes rules over HTTP.
    """

    async def page(request: Request) -> Response:
        if (reason := _not_ours(request, service.status_token)) is not None:
            return PlainTextResponse(reason, status_code=403)
        shown = await edge.run(service.workers, status_page, service)
        return HTMLResponse(shown, headers=_PRIVATE)

    routes = [Route("/", page)]
    if misbehaviour is not None:
        routes += Surface(service, xml=True).routes(_rules(misbehaviour))
    routes += [*storage_routes(service), *tunnel_routes(service), *rest_routes(service)]
    app = Starlette(routes=routes)
    return app if misbehaviour is None else MisbehavingApp(app, service, misbehaviour)


def _rules(misbehaviour: Misbehaviour) -> Iterator[At]:
    """Yield the routes that set, show and clear the rules of misbehaviour."""

    def answer(asked: Asked) -> Response:
        if asked.wire.method in ("PUT", "DELETE"):
            body = asked.wire.body or b""
            misbehaviour.load(body if asked.wire.method == "PUT" else b"")
        return Response(misbehaviour.dump(), media_type="application/json")

    yield At(["/api/misbehaviour"], None, answer, methods=ALL)


def _not_ours(request: Request, token: str) -> str | None:
    """Return why this request may not see the status page, or ``None``; no key protects it.

    A page of another site can make a browser send requests here under a host name of its own (DNS
    rebinding): the host must be this machine and our port. The token keeps other users of this
    machine out.
    """
    hosts, server = request.headers.getlist("host"), request.scope["server"]
    named = _LOOPBACK.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if named is None or int(named[1] or 80) != server[1]:
        return "open this page with the address that the service prints when it starts\n"
    given = request.query_params.get("token", "")
    if not hmac.compare_digest(given.encode(), token.encode()):
        return "this page needs the token in the address that the service prints when it starts\n"
    return None
