"""The ASGI application of the embedded service, assembled from ``routes``.

Storage API and tunnel errors are JSON; control plane errors are XML.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from odps_nb.local import errors
from odps_nb.local.routes import asgi_io as edge
from odps_nb.local.routes.catalogapi import catalog_routes
from odps_nb.local.routes.instances import InstanceRoutes
from odps_nb.local.routes.interactive import InteractiveRoutes
from odps_nb.local.routes.lists import check_params
from odps_nb.local.routes.projects import ProjectRoutes
from odps_nb.local.routes.resources import ResourceRoutes
from odps_nb.local.routes.security import SecurityRoutes
from odps_nb.local.routes.storage import storage_routes
from odps_nb.local.routes.storage_v1 import storage_v1_routes
from odps_nb.local.routes.surface import Surface
from odps_nb.local.routes.table import ALL, At, RequestContext, To
from odps_nb.local.routes.tables import TableRoutes
from odps_nb.local.routes.tunnel import tunnel_routes
from odps_nb.local.server.faults import FaultRules, FaultyApp
from odps_nb.local.service import Service
from odps_nb.wire import control


def build_app(service: Service, rules: FaultRules | None = None) -> ASGIApp:
    """Return the ASGI application of an open service, with fault injection if requested."""
    routes: list[Route] = []
    if rules is not None:
        routes += Surface(service, xml=True).routes(_rules(rules))
    routes += [
        *storage_routes(service),
        *storage_v1_routes(service),
        *tunnel_routes(service),
        *catalog_routes(service),
        *rest_routes(service),
    ]
    app = Starlette(routes=routes)
    return app if rules is None else FaultyApp(app, service, rules)


def _rules(rules: FaultRules) -> Iterator[At]:
    """Yield the routes that set, show and clear the fault injection rules."""

    def answer(context: RequestContext) -> Response:
        if context.wire.method in ("PUT", "DELETE"):
            body = context.wire.body or b""
            rules.load(body if context.wire.method == "PUT" else b"")
        return Response(rules.dump(), media_type="application/json")

    yield At(["/api/misbehaviour"], None, answer, methods=ALL)


def rest_routes(service: Service) -> Iterator[Route]:
    """Yield the control plane routes, each with and without the prefix ``/api``."""
    surface = Surface(service, xml=True)
    instances = tuple(InstanceRoutes(service).rows())
    parts = (ProjectRoutes, SecurityRoutes, TableRoutes, ResourceRoutes, InteractiveRoutes)
    rows = [*(row for part in parts for row in part(service).rows()), *instances]
    values = {row.kind: row for row in rows if isinstance(row, To)}
    of_instances = tuple(row.kind for row in instances if isinstance(row, To))

    async def answer(request: Request, context: RequestContext) -> Response:
        path = context.wire.path.removeprefix("/api")
        if is_mcqa := path.startswith("/mcqa/"):
            path = path.removeprefix("/mcqa")
        wire = replace(context.wire, path=path, body=await edge.body_bytes(request))
        call = control.decode_control(wire)
        if call is None or (is_mcqa and not isinstance(call, of_instances)):
            raise errors.no_such(f"there is no resource at {context.wire.path} for {wire.method}")
        context = replace(context, wire=wire, is_mcqa=is_mcqa)
        check_params(values[type(call)], context)
        return await surface.answer_value(request, context, call, values[type(call)])

    for prefix in ("/api", ""):
        yield from surface.routes((row for row in rows if isinstance(row, At)), prefix=prefix)
        mcqa = (row for row in instances if isinstance(row, At))
        yield from surface.routes(mcqa, prefix=f"{prefix}/mcqa")
    yield Route("/{path:path}", surface.endpoint(answer), methods=list(ALL))
