"""Connects to an embedded service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import odps_nb

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.local.server.launch import LocalService


def connected(service: LocalService, **more: Any) -> Connection:
    """Return a connection with the service's own key; ``more`` contains arguments of `connect`."""
    own: dict[str, Any] = {
        "endpoint": service.endpoint,
        "tunnel_endpoint": service.tunnel_endpoint,
        "project": service.project,
        "access_id": service.access_id,
        "access_key": service.access_key,
    }
    return odps_nb.connect(**{**own, **more})
