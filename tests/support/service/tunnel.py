"""A plain client of the tunnel's upsert and stream sessions."""

from __future__ import annotations

from typing import Any

import requests

from odps_nb.wire.calls import WireRequest
from tests.support.service.peer import Peer


class Tunnel:
    """Sends requests to the sessions of one table."""

    def __init__(self, peer: Peer, table: str, kind: str) -> None:
        self.peer = peer
        self.path = f"/projects/{peer.service.project}/tables/{table}/{kind}"
        self.key = {"upserts": "upsertid", "streams": "uploadid"}[kind]

    def ask(
        self, method: str, body: bytes = b"", *, header: str = "", **params: Any
    ) -> requests.Response:
        """Send a request; ``header`` is "name: value" of a header that is not signed."""
        texts = tuple((name, str(value)) for name, value in params.items())
        wire = WireRequest(method=method, path=self.path, params=texts)
        endpoint = self.peer.service.tunnel_endpoint
        headers = self.peer.signature(wire, endpoint)
        if header:
            name, _, value = header.partition(": ")
            headers[name] = value
        url = wire.url(endpoint)
        return self.peer.session.request(method, url, headers=headers, data=body, timeout=60)

    def refusal(self, method: str, body: bytes = b"", **params: Any) -> tuple[int, str, str]:
        answer = self.ask(method, body, **params)
        return answer.status_code, answer.json()["Code"], answer.json()["Message"]
