"""Accounts that lack some of the services that transfer rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from odps_nb.errors import ConfigError
from odps_nb.local.forms import Forms
from odps_nb.local.server.launch import LocalService, start
from odps_nb.local.transfer_services import SERVICES, parse_services, refusal
from odps_nb.wire.calls import WireRequest
from tests.support.service import services
from tests.support.service.peer import Peer

REFUSALS = {
    "not-found": (404, "NoSuchObject", "does not exist"),
    "no-permission": (403, "NoPermission", "is not enabled for this tenant"),
    "quota": (400, "InvalidArgument", "the quota 'q1' does not support"),
    "region": (400, "InvalidArgument", "is not supported in this region"),
}
V1 = "/api/storage/v1/projects/{project}/schemas/default/tables/{table}"
REQUESTS: dict[str, list[tuple[str, str, dict[str, str]]]] = {
    "storage": [
        ("POST", "/api/storage/v2", {"Action": "TableCreateReadSession"}),
        ("POST", "/api/storage/v3", {"Action": "TableWrite"}),
    ],
    "storage-v1": [
        ("POST", V1 + "/sessions", {"session_type": "batch_read"}),
        ("GET", V1 + "/data", {"session_id": "s", "split_index": "0"}),
        ("POST", V1 + "/sessions/s/data", {"block_number": "0"}),
        ("POST", V1 + "/commit", {"session_id": "s"}),
    ],
    "tunnel": [
        ("POST", "/projects/{project}/tables/{table}", {"downloads": ""}),
        ("GET", "/projects/{project}/tables/{table}", {"downloadid": "d", "data": ""}),
        ("POST", "/projects/{project}/schemas/default/tables/{table}", {"uploads": "1"}),
        ("PUT", "/projects/{project}/tables/{table}", {"uploadid": "u", "blockid": "0"}),
        ("POST", "/projects/{project}/tables/{table}", {"uploadid": "u"}),
        ("GET", "/projects/{project}/tables/{table}/preview", {"limit": "1"}),
        ("POST", "/projects/{project}/instances/i", {"downloads": ""}),
        ("POST", "/projects/{project}/tables/{table}/upserts", {"slotnum": "1"}),
        ("PUT", "/projects/{project}/tables/{table}/streams", {"uploadid": "u"}),
    ],
}
CASES = [(name, *request) for name, listed in REQUESTS.items() for request in listed]


@pytest.fixture(scope="module")
def off() -> Iterator[dict[str, Peer]]:
    """An embedded service without each transfer service, and one for each form of refusal."""
    running: list[LocalService] = []

    def peer(*options: str) -> Peer:
        running.append(start(samples=False, options=options))
        return Peer(running[-1])

    try:
        yield {
            **{
                name: peer("--services", ",".join(one for one in SERVICES if one != name))
                for name in SERVICES
            },
            "no-path": peer("--services", "storage-v1", "--form", "refusal=no-path"),
        }
    finally:
        for one in running:
            one.stop()


def ask(
    peer: Peer, method: str, path: str, params: dict[str, str], body: Any = None, table: str = "t"
) -> requests.Response:
    """Send a request below the tunnel endpoint."""
    path = path.format(project=peer.service.project, table=table)
    wire = WireRequest(method=method, path=path, params=tuple(params.items()), body=body)
    endpoint = peer.service.tunnel_endpoint
    headers = peer.signature(wire, endpoint)
    return peer.session.request(method, wire.url(endpoint), headers=headers, data=body, timeout=60)


@pytest.mark.parametrize(("name", "method", "path", "params"), CASES)
@pytest.mark.gate(5)
def test_a_missing_service_refuses_every_request_the_same_way(
    off: dict[str, Peer], name: str, method: str, path: str, params: dict[str, str]
) -> None:
    peer = off[name]
    peer.sql("CREATE TABLE IF NOT EXISTS known (id bigint);")
    answers = [ask(peer, method, path, params, b"?" * 99, table) for table in ("known", "missing")]
    assert {answer.status_code for answer in answers} == {404}
    assert {answer.json()["Code"] for answer in answers} == {"NoSuchObject"}
    assert {answer.json()["Message"] for answer in answers} == {
        "The requested resource does not exist."
    }


@pytest.mark.parametrize(("name", "method", "path", "params"), CASES)
def test_the_other_services_and_the_control_plane_keep_working(
    off: dict[str, Peer], name: str, method: str, path: str, params: dict[str, str]
) -> None:
    for other in SERVICES:
        if other != name:
            answer = ask(off[other], method, path, params)
            assert "The requested resource does not exist." not in answer.text
    assert ask(off[name], "GET", "/projects/{project}/tunnel", {"service": ""}).status_code == 200


def test_the_signature_is_checked_before_the_refusal(off: dict[str, Peer]) -> None:
    peer = off["storage"]
    now = time.time() - 3600
    stale = Peer(peer.service, clock=lambda: now)
    answer = ask(stale, "POST", "/api/storage/v2", {"Action": "TableRead"})
    assert (answer.status_code, answer.json()["Code"]) == (403, "RequestTimeTooSkewed")


def test_an_error_page_of_a_gateway_is_reported(off: dict[str, Peer]) -> None:
    for name, method, path, params in CASES:
        if name != "storage-v1":
            answer = ask(off["no-path"], method, path, params)
            assert (answer.status_code, answer.headers["Content-Type"][:9]) == (404, "text/html")
            assert "<h1>404 Not Found</h1>" in answer.text


@pytest.mark.parametrize("form", REFUSALS)
@pytest.mark.parametrize("name", SERVICES)
def test_the_form_of_the_refusal_can_be_chosen(name: str, form: str) -> None:
    error = refusal(name, Forms.parse([f"refusal={form}"]).refusal, "q1")
    status, code, text = REFUSALS[form]
    assert (error.status, error.code) == (status, code)
    assert text in error.message


def test_services_may_be_listed_in_any_order() -> None:
    assert parse_services("tunnel, storage") == {"storage", "tunnel"}
    assert parse_services(",".join(SERVICES)) == set(SERVICES)


@pytest.mark.parametrize("text", ["storage,v1", "Tunnel", "", ","])
def test_an_unknown_service_is_refused_with_the_choices(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_services(text)
    assert caught.value.hint == "choose from storage, storage-v1, tunnel"


def test_a_service_with_an_unknown_name_does_not_start() -> None:
    with pytest.raises(ConfigError, match="unknown service 'tunel'"):
        start(samples=False, options=("--services", "tunel"))


def test_a_test_without_the_fixture_has_the_services_of_the_run(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fixture keeps its value until another test needs a different one."""
    monkeypatch.setattr(services, "_of_fixture", "tunnel")
    monkeypatch.setattr(services, "_in_use", "tunnel")
    assert services.by_tunnel()
    services.pytest_runtest_setup(request.node)
    assert services._in_use == services._given
