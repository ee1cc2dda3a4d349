"""Refuses all requests to the transfer services that are switched off."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from odps_nb.local.routes.surface import Handler
from odps_nb.local.routes.table import RequestContext
from odps_nb.local.service import Service
from odps_nb.local.transfer_services import NO_PATH, refusal


def refusing(service: Service, name: str) -> Handler | None:
    """Return a handler that refuses every request, or ``None`` if the service is switched on."""
    settings = service.settings
    if name in settings.services:
        return None
    form = settings.forms.refusal

    async def refuse(_request: Request, context: RequestContext) -> Response:
        if form == "no-path":
            return Response(NO_PATH, status_code=404, media_type="text/html")
        raise refusal(name, form, context.params.get("quotaName", "default"))

    return refuse
