"""Routes that connect clients to MaxQA, the interactive query service (also named MCQA 2).

A client requests a connection of a quota and sends it with the job. Its requests about the job have
paths below ``/mcqa`` (`routes.instances`). Here, every quota name is accepted, and jobs of all
quotas run in the same way.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from starlette.responses import Response

from odps_nb.local import errors
from odps_nb.local.rights import Right
from odps_nb.local.routes.table import XML, At, RequestContext
from odps_nb.local.service import Service
from odps_nb.wire.xml_text import DECLARATION, element

CONNECTION = "x-odps-mcqa-conn"
COOKIE = "x-odps-mcqa-query-cookie"
_KIND = "FUXI_VW"  # the kind of interactive quotas
_DEFAULT = "default"


class InteractiveRoutes:
    """Handles requests for a connection, in the form of each client."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def rows(self) -> Iterator[At]:
        # pyodps and the Go SDK
        yield At(["/connection/mcqa"], None, self._connection)
        # the Java SDK, and pyodps if the request above fails
        yield At(["/quotas/{quota}"], None, self._quota)
        # the C++ SDK
        yield At(
            ["/mcqa/projects/{project}/sessions"], Right.QUERY, self._session, methods=["POST"]
        )

    def _connection(self, context: RequestContext) -> dict[str, Any]:
        quota = context.params.get("quota") or _DEFAULT
        connection = self._connected(context, context.params.get("project", ""), quota)
        return {"connInfo": connection, "quotaNickName": quota, "quotaType": _KIND}

    def _quota(self, context: RequestContext) -> Response:
        quota = context.path["quota"]
        connection = self._connected(context, context.params.get("project", ""), quota)
        names = {"Name": quota, "Nickname": quota, "ResourceSystemType": _KIND}
        facts = (element(name, text) for name, text in names.items())
        body = DECLARATION + element("Quota", facts)
        return Response(body, media_type=XML, headers={CONNECTION: connection})

    def _session(self, context: RequestContext) -> Response:
        quota = context.params.get("quota") or _DEFAULT
        connection = self._connected(context, context.path["project"], quota)
        return Response(headers={CONNECTION: connection})

    def _connected(self, context: RequestContext, project: str, quota: str) -> str:
        """Return a connection; a quota has no project, so the project is a parameter."""
        if not project:
            raise errors.invalid("the parameter project is missing")
        self._service.rights.require(context.access_id, project, Right.QUERY)
        self._service.catalog.project(project)
        return base64.b64encode(f"{project}/{quota}".encode()).decode()
