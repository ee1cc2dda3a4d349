"""The HTTP face of the embedded service: routes, signatures, error documents.

::

    /api/storage/v2, /v3            Storage API: JSON errors
    /api/…                          control plane: XML errors
    /projects/…                     tunnel: JSON errors
    /                               status page, for who has its token

Every response has a request id; every request body is read to its end.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from odps_nb.errors import ArgumentError, OdpsNbError, ServiceError
from odps_nb.local import faults
from odps_nb.local.routes.rest import RestRoutes
from odps_nb.local.routes.storage import StorageRoutes
from odps_nb.local.routes.tunnel import TunnelRoutes, is_tunnel
from odps_nb.local.server import asgi_io as edge
from odps_nb.local.server.full_disk import is_full
from odps_nb.local.server.misbehaviour import MisbehavingApp, Misbehaviour
from odps_nb.local.server.status_page import status_page
from odps_nb.local.service import Service
from odps_nb.wire.calls import (
    REQUEST_ID,
    STATUS_OF_CODE,
    WireRequest,
    encode_error_json,
    encode_error_xml,
)
from odps_nb.wire.signing import verify

__all__ = ["build_app"]

log = logging.getLogger("odps_nb.local")

METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD"]
_LOOPBACK = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::(\d{1,5}))?", re.ASCII | re.I)
_PRIVATE = {"cache-control": "no-store", "referrer-policy": "no-referrer"}
Handler = Callable[[Request, WireRequest, str], Awaitable[Response]]


def build_app(service: Service, misbehaviour: Misbehaviour | None = None) -> ASGIApp:
    """Return the ASGI application of an open service.

    With a ``misbehaviour`` the service fails as its rules say, and takes rules over HTTP.
    """
    storage, rest, tunnel = StorageRoutes(service), RestRoutes(service), TunnelRoutes(service)

    async def page(request: Request) -> Response:
        if (reason := _not_ours(request, service.status_token)) is not None:
            return PlainTextResponse(reason, status_code=403)
        shown = await edge.run(service.workers, status_page, service)
        return HTMLResponse(shown, headers=_PRIVATE)

    of_tunnel = _surface(service, tunnel.handle, xml=False)
    of_rest = _surface(service, rest.handle, xml=True)

    async def other(request: Request) -> Response:
        """Without ``/api``: the tunnel, and the control plane for whoever leaves it out."""
        tunnelled = is_tunnel(_wire(request))
        return await (of_tunnel if tunnelled else of_rest)(request)

    routes = [Route("/", page)]
    if misbehaviour is not None:
        admin = _surface(service, _Admin(misbehaviour).handle, xml=True)
        routes.append(Route("/api/misbehaviour", admin, methods=METHODS))
    app = Starlette(
        routes=[
            *routes,
            Route(
                "/api/storage/{version}",
                _surface(service, storage.handle, xml=False),
                methods=METHODS,
            ),
            Route("/api/{path:path}", _surface(service, rest.handle, xml=True), methods=METHODS),
            Route("/{path:path}", other, methods=METHODS),
        ]
    )
    return app if misbehaviour is None else MisbehavingApp(app, service, misbehaviour)


class _Admin:
    """Takes and shows the rules of misbehaviour."""

    def __init__(self, misbehaviour: Misbehaviour) -> None:
        self._misbehaviour = misbehaviour

    async def handle(self, request: Request, wire: WireRequest, access_id: str) -> Response:
        """Answer GET, PUT and DELETE with the rules in force."""
        body = await edge.body_bytes(request)
        if wire.method in ("PUT", "DELETE"):
            self._misbehaviour.load(body if wire.method == "PUT" else b"")
        return Response(self._misbehaviour.dump(), media_type="application/json")


def _surface(
    service: Service, handler: Handler, *, xml: bool
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        request_id = secrets.token_hex(12).upper()
        try:
            wire = _wire(request)
            access_id = _who(service, request, wire)
            if service.rights.limits(access_id):
                await edge.run(service.workers, service.authorize, access_id, wire)
            response = await handler(request, wire, access_id)
        except OdpsNbError as error:
            log.info("%s %s %s: %s", request_id, request.method, request.url.path, error)
            response = _refusal(error, request_id, xml=xml)
        except Exception as error:  # whatever it was, the client gets a document
            if not is_full(error):
                log.exception("%s %s %s", request_id, request.method, request.url.path)
            response = _failure(error, request_id, xml=xml)
        await edge.drain(request)
        response.headers[REQUEST_ID] = request_id
        return response

    return endpoint


def _not_ours(request: Request, token: str) -> str | None:
    """Say why this request may not see the status page, which no key protects.

    A page of another site can make a browser ask here under a name of its own (DNS rebinding):
    the host must be this machine and our port. What other users of the machine lack is the token.
    """
    hosts, server = request.headers.getlist("host"), request.scope["server"]
    named = _LOOPBACK.fullmatch(hosts[0]) if len(hosts) == 1 else None
    if named is None or int(named[1] or 80) != server[1]:
        return "ask for this page by the address that the service says when it starts\n"
    given = request.query_params.get("token", "")
    if not hmac.compare_digest(given.encode(), token.encode()):
        return "this page needs the token of the address that the service says when it starts\n"
    return None


def _wire(request: Request) -> WireRequest:
    query = request.scope["query_string"].decode("latin-1")
    return WireRequest(
        method=request.method,
        path=request.url.path,
        params=tuple(parse_qsl(query, keep_blank_values=True, max_num_fields=200)),
        headers=tuple((k, v) for k, v in request.headers.items()),
    )


def _who(service: Service, request: Request, wire: WireRequest) -> str:
    settings = service.settings
    if not settings.verify:
        return service.owner
    raw = request.scope.get("raw_path") or wire.path.encode()
    query = request.scope["query_string"]
    target = raw.decode("latin-1") + (f"?{query.decode('latin-1')}" if query else "")
    return verify(
        request.method,
        target,
        dict(wire.headers),
        keys=service.keys.get,
        now=service.clock(),
        sts_tokens=lambda access_id: (settings.sts_tokens or {}).get(access_id),
        bearers=lambda token: (settings.bearer_tokens or {}).get(token),
    )


def _failure(error: Exception, request_id: str, *, xml: bool) -> Response:
    """Answer what went wrong in here: a full disk is said, the rest is in the log."""
    if is_full(error):
        return _refusal(faults.disk_full(), request_id, xml=xml)
    return _document(500, "InternalServerError", "internal error", request_id, xml=xml)


def _refusal(error: OdpsNbError, request_id: str, *, xml: bool) -> Response:
    code = getattr(error, "code", None) or "InvalidArgument"
    status = getattr(error, "status", None) or STATUS_OF_CODE.get(code, 400)
    if not isinstance(error, (ServiceError, ArgumentError)):
        status, code = 400, "MalformedDataStream"
    return _document(status, code, str(error), request_id, xml=xml)


def _document(status: int, code: str, message: str, request_id: str, *, xml: bool) -> Response:
    encode = encode_error_xml if xml else encode_error_json
    media = "application/xml" if xml else "application/json"
    return Response(encode(code, message, request_id), status_code=status, media_type=media)
