"""Storage API requests over HTTP: body in, action, answer out."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from odps_nb.local import faults
from odps_nb.local.routes.storage_actions import StorageActions, StreamAnswer
from odps_nb.local.server import asgi_io as edge
from odps_nb.local.server.clients import identify
from odps_nb.local.service import Service
from odps_nb.wire.calls import ReadBlobs, WireRequest, decode_request

__all__ = ["StorageRoutes"]

_UPLOAD_ACTIONS = ("TableWrite", "TableWriteBlob")


class StorageRoutes:
    """Handles ``/api/storage/v2`` and ``/api/storage/v3``."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._actions = StorageActions(service)

    async def handle(self, request: Request, wire: WireRequest, access_id: str) -> Response:
        """Answer one request; errors travel up to become documents."""
        if request.path_params["version"] not in ("v2", "v3"):
            raise faults.no_such(f"there is no Storage API {request.path_params['version']!r}")
        service, pool, body = self._service, self._service.workers, None
        if wire.action in _UPLOAD_ACTIONS:
            call = decode_request(wire)
            body = await edge.body_file(request, service.folder, pool, service.settings.max_body)
        else:
            call = decode_request(replace(wire, body=await edge.body_bytes(request)))
        if isinstance(call, ReadBlobs) and service.rights.limits(access_id):
            await edge.run(pool, service.authorize_blobs, access_id, call.references)
        try:
            answer = await edge.run(pool, self._actions.answer, call, identify(wire), body)
        finally:
            if body is not None:
                body.unlink(missing_ok=True)
        if isinstance(answer, StreamAnswer):
            streamed = edge.StreamedResponse(
                answer.chunks, pool, media_type=answer.media_type, headers=answer.headers
            )
            return await streamed.prepare()
        content, headers = answer.encode()
        return Response(content, headers=headers, media_type="application/json")
