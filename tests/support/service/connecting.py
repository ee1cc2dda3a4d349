"""Connects to an embedded service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import odps_nb

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.local.server.launch import LocalService


def keys_of(service: LocalService) -> dict[str, Any]:
    """Return the settings of a connection: endpoint, project and the service's own key."""
    return {
        "endpoint": service.endpoint,
        "project": service.project,
        "access_id": service.access_id,
        "access_key": service.access_key,
    }


def account_of(service: LocalService) -> dict[str, Any]:
    """Return the same settings and the tunnel endpoint, so that no request for it is sent."""
    return {**keys_of(service), "tunnel_endpoint": service.tunnel_endpoint}


def connected(service: LocalService, **more: Any) -> Connection:
    """Return a connection with the service's own key; ``more`` contains arguments of `connect`."""
    return odps_nb.connect(**{**account_of(service), **more})
