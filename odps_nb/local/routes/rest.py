"""The control plane over HTTP: everything that is neither Storage API nor tunnel.

``docs/protocol.md`` section 9. Most requests are values of ``odps_nb.wire.control``; requests that
only the stock client sends are matched by their path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odps_nb.local import faults
from odps_nb.local.routes import asgi_io as edge
from odps_nb.local.routes.instances import Instances
from odps_nb.local.routes.projects import Projects
from odps_nb.local.routes.surface import Surface
from odps_nb.local.routes.table import ALL, Asked, At, To
from odps_nb.local.routes.tables import Tables
from odps_nb.local.service import Service
from odps_nb.wire import control

__all__ = ["rest_routes"]


def rest_routes(service: Service) -> Iterator[Route]:
    """Yield the routes, each with and without the prefix ``/api``."""
    surface = Surface(service, xml=True)
    parts = (Projects(service), Tables(service), Instances(service))
    rows = [row for part in parts for row in part.rows()]
    values = {row.kind: row for row in rows if isinstance(row, To)}

    async def answer(request: Request, asked: Asked) -> Response:
        path = asked.wire.path.removeprefix("/api")
        wire = replace(asked.wire, path=path, body=await edge.body_bytes(request))
        call = control.decode_control(wire)
        if call is None:
            raise faults.no_such(f"there is nothing at {path}")
        asked = replace(asked, wire=wire)
        return await surface.answer_value(request, asked, call, values[type(call)])

    for prefix in ("/api", ""):
        yield from surface.routes((row for row in rows if isinstance(row, At)), prefix=prefix)
    yield Route("/{path:path}", surface.endpoint(answer), methods=list(ALL))
