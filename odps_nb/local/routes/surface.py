"""Converts the route table to Starlette routes that check signatures and rights."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import Scope

from odps_nb.errors import ArgumentError, OdpsNbError, ServiceError
from odps_nb.local import errors
from odps_nb.local.rights import Right
from odps_nb.local.routes import asgi_io as edge
from odps_nb.local.routes.body_writer import Some, take_some
from odps_nb.local.routes.lists import check_params
from odps_nb.local.routes.table import At, RequestContext, StreamAnswer, To
from odps_nb.local.service import Service
from odps_nb.wire.calls import (
    REQUEST_ID,
    STATUS_OF_CODE,
    WireRequest,
    encode_error_json,
    encode_error_xml,
)
from odps_nb.wire.signing import verify

log = logging.getLogger("odps_nb.local")

Handler = Callable[[Request, RequestContext], Awaitable[Response]]


class Surface:
    """Creates Starlette routes whose error documents are all XML or all JSON.

    With ``strict``, the routes refuse unknown parameters.
    """

    def __init__(self, service: Service, *, xml: bool, strict: bool = False) -> None:
        self._service, self._xml, self._strict = service, xml, xml or strict

    def routes(
        self, rows: Iterator[At], *, prefix: str = "", instead: Handler | None = None
    ) -> Iterator[Route]:
        """Yield a Starlette route for each row of the route table.

        ``instead`` replaces the handlers of all rows.
        """
        for row in rows:
            for path in row.paths:
                yield _KeyedRoute(
                    prefix + path,
                    self.endpoint(instead or self._handler(row)),
                    methods=list(row.methods),
                    keys=row.keys,
                )

    def endpoint(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that calls a handler and converts errors to error documents."""

        async def endpoint(request: Request) -> Response:
            request_id = secrets.token_hex(12).upper()
            try:
                wire = _wire(request)
                access_id = _who(self._service, request, wire)
                context = RequestContext(
                    wire=_without_schema(self._service, wire),
                    access_id=access_id,
                    base=f"{request.url.scheme}://{request.url.netloc}",
                    path=request.path_params,
                )
                response = await handler(request, context)
            except OdpsNbError as error:
                log.info("%s %s %s: %s", request_id, request.method, request.scope["path"], error)
                response = self._refusal(error, request_id)
            except Exception as error:  # the client always gets an error document
                fault = errors.of_disk(error) or errors.internal("internal error")
                if fault.status == 500:
                    log.exception("%s %s %s", request_id, request.method, request.scope["path"])
                response = self._refusal(fault, request_id)
            await edge.drain(request)
            response.headers[REQUEST_ID] = request_id
            return response

        return endpoint

    async def _allow(
        self, context: RequestContext, right: Right | None, named: Mapping[str, Any]
    ) -> None:
        """Check that the key has ``right`` in the project and owns the instance (if named)."""
        service = self._service
        if not service.rights.limits(context.access_id):
            return
        if right is not None:
            service.rights.require(context.access_id, named["project"], right)
        if (instance := named.get("instance")) is not None:
            await edge.run(
                service.workers,
                service.instances.check_owner,
                named["project"],
                instance,
                context.access_id,
            )

    async def _answered(
        self,
        request: Request,
        context: RequestContext,
        work: Callable[[RequestContext], Any],
        *,
        upload: bool,
    ) -> Response:
        """Read the body, call the handler in a worker thread, and return the response."""
        service, pool = self._service, self._service.workers
        if upload:
            limit = service.settings.max_body
            body_file = await edge.body_file(request, service.folder, pool, limit)
            context = replace(context, upload=body_file)
        elif context.wire.body is None:
            body = await edge.body_bytes(request)
            context = replace(context, wire=replace(context.wire, body=body))
        try:
            answer, first = await edge.run(pool, _begun, work, context)
        finally:
            if upload:
                try:
                    context.upload.unlink(missing_ok=True)
                except OSError as error:
                    # send the response anyway; the next start of the service deletes the file
                    log.warning("%s could not be deleted: %s", context.upload, error)
        if first is not None:
            return edge.StreamedResponse(
                first, answer.chunks, pool, media_type=answer.media_type, headers=answer.headers
            )
        if isinstance(answer, dict):
            return JSONResponse(answer)
        if isinstance(answer, Response):
            return answer
        content, headers = answer.encode()
        return Response(content, headers=headers, media_type="application/json")

    async def answer_value(
        self, request: Request, context: RequestContext, call: Any, row: To, *, upload: bool = False
    ) -> Response:
        """Check the rights for a decoded request and call the handler of its route table row."""
        table = getattr(call, "table", None)
        project = getattr(call, "project", None) if table is None else table.project
        named = {"project": project, "instance": getattr(call, "instance_id", None)}
        await self._allow(context, row.right, named)
        return await self._answered(
            request, context, lambda context: row.answer(call, context), upload=upload
        )

    def _handler(self, row: At) -> Handler:
        async def handle(request: Request, context: RequestContext) -> Response:
            if self._strict:
                check_params(row, context)
            await self._allow(context, row.right, context.path)
            return await self._answered(request, context, row.answer, upload=row.upload)

        return handle

    def _refusal(self, error: OdpsNbError, request_id: str) -> Response:
        code = getattr(error, "code", None) or "InvalidArgument"
        status = getattr(error, "status", None) or STATUS_OF_CODE.get(code, 400)
        if not isinstance(error, (ServiceError, ArgumentError)):
            status, code = 400, "MalformedDataStream"
        return self.document(status, code, str(error), request_id)

    def document(self, status: int, code: str, message: str, request_id: str) -> Response:
        """Return an error document."""
        return error_document(status, code, message, request_id, xml=self._xml)


def error_document(status: int, code: str, message: str, request_id: str, *, xml: bool) -> Response:
    """Return an error as an XML or JSON document."""
    if xml and code == "NoSuchTable":  # Java SDK, `OdpsExceptionTest`; the text has a number
        code = "NoSuchObject"
    content = (encode_error_xml if xml else encode_error_json)(code, message, request_id)
    media = "application/xml" if xml else "application/json"
    return Response(content, status_code=status, media_type=media)


def _begun(
    work: Callable[[RequestContext], Any], context: RequestContext
) -> tuple[Any, Some | None]:
    """Call a handler; return its result and, if that is a stream, the stream's first chunks."""
    answer = work(context)
    return answer, take_some(answer.chunks) if isinstance(answer, StreamAnswer) else None


class _KeyedRoute(Route):
    """A route that matches only if one of certain query parameters is present."""

    def __init__(self, path: str, endpoint: Any, *, methods: list[str], keys: frozenset[str]):
        super().__init__(path, endpoint, methods=methods)
        self._keys = keys

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether the path, method and parameters match this route."""
        match, child = super().matches(scope)
        if match is Match.NONE or not self._keys:
            return match, child
        try:
            present = {key for key, _ in _query(scope)}
        except ValueError:  # the handler reports the invalid query
            present = set()
        return (Match.NONE, {}) if self._keys.isdisjoint(present) else (match, child)


def _query(scope: Scope) -> list[tuple[str, str]]:
    text = scope["query_string"].decode("latin-1")
    return parse_qsl(text, keep_blank_values=True, max_num_fields=200)


def _wire(request: Request) -> WireRequest:
    try:
        params = tuple(_query(request.scope))
    except ValueError as error:
        raise errors.invalid(f"the query string is invalid: {error}") from None
    return WireRequest(
        method=request.method,
        path=request.scope["path"],  # the Host header changes `request.url.path` (CVE-2026-48710)
        params=params,
        headers=tuple((k.decode("latin-1"), _text(v)) for k, v in request.headers.raw),
    )


def _text(header: bytes) -> str:
    try:
        return header.decode()
    except UnicodeDecodeError:
        return header.decode("latin-1")


def _without_schema(service: Service, wire: WireRequest) -> WireRequest:
    """Drop a schema with the project's name: JDBC sends it for projects without schemas."""
    project = wire.path.partition("/projects/")[2].partition("/")[0]
    if ("curr_schema", project) not in wire.params or service.catalog.has_schemas(project):
        return wire
    return replace(wire, params=tuple(param for param in wire.params if param[0] != "curr_schema"))


def _who(service: Service, request: Request, wire: WireRequest) -> str:
    settings = service.settings
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
