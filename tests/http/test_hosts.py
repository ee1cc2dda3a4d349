"""An error of a connection names the host and its role, and its hint fits the role.

Rule: an error of the storage host never blames the endpoint; an error of the service never blames
`tunnel_endpoint=`. A proxy is named only for hosts that are not local.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from odps_nb.errors import ConnectError, RequestTimeoutError, ServiceError, TransportError
from odps_nb.http.hosts import TUNNEL_HINT, Host, Role
from tests.support.sockets.peers import Line, Peer, answers, dropping, refused, silent
from tests.support.sockets.transports import ask

UNKNOWN = "http://service.no-such-host.invalid/api"
ROLES = pytest.mark.parametrize("role", [Role.SERVICE, Role.STORAGE])
BLAMES = {Role.SERVICE: "tunnel_endpoint", Role.STORAGE: "the endpoint"}


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


SITUATIONS = {
    "unknown": (lambda: _there(UNKNOWN), "cannot resolve the host name of {named}"),
    "refused": (refused, "{host} refuses the connection"),
    "dropped": (dropping, "{host} does not answer"),
    "silent": (silent, "{host} was silent for 0.2 s"),
}


@contextmanager
def _there(url: str) -> Iterator[str]:
    yield url


def failure(transport, url: str, host: Host) -> TransportError:
    with pytest.raises(TransportError) as caught:
        ask(transport, url, connect_timeout=0.2, read_timeout=0.2, host=host)
    return caught.value


def host_of(url: str, role: Role, **facts) -> Host:
    found = Host.of(url, role)
    return Host(place=found.place, scheme=found.scheme, role=role, **facts)


@ROLES
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("answered", [False, True])
def test_an_error_names_the_host_and_only_its_setting(transport, situation, role, answered):
    start, message = SITUATIONS[situation]
    with start() as url:
        host = host_of(url, role, answered=answered, service_answered=True)
        error = failure(transport, url, host)
    assert error.message.startswith(message.format(host=host, named=host.named))
    assert BLAMES[role] not in error.hint
    assert error.never_answered is not answered
    if situation == "silent":
        assert ("read_timeout" in error.hint) is answered
        assert ("has not responded to this client before" in error.message) is not answered
        assert isinstance(error, RequestTimeoutError)
    elif role is Role.SERVICE:
        assert "endpoint" in error.hint
    if role is Role.STORAGE and not answered:
        for said in ("tunnel_endpoint=", "the VPC", host.place, "the service responds"):
            assert said in error.hint


def test_an_error_names_a_host_with_its_role():
    assert str(Host.of("http://a.example:1/x", Role.SERVICE)) == "the service at a.example:1"
    assert str(Host.of("http://a.example:1/x", Role.STORAGE)) == "the storage host a.example:1"
    assert str(Host.of("http://a.example:1/x")) == "the server at a.example:1"


@ROLES
def test_hints_about_the_storage_host_appear_only_after_a_response_of_the_service(transport, role):
    with refused() as url:
        error = failure(transport, url, host_of(url, role, answered=False))
    assert "responds" not in error.hint
    assert ("tunnel_endpoint=" in error.hint) is (role is Role.STORAGE)


@ROLES
@pytest.mark.parametrize("name", ["HTTP_PROXY", "all_proxy", None])
def test_setting_a_proxy_is_suggested_if_none_is_set(transport, monkeypatch, name, role):
    if name:
        monkeypatch.setenv(name, "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", "invalid")
    error = failure(transport, UNKNOWN, host_of(UNKNOWN, role, service_answered=True))
    assert ("set HTTP_PROXY" in error.hint) is (name is None)


def test_no_proxy_is_suggested_for_local_hosts(transport):
    with refused() as url:
        assert "PROXY" not in failure(transport, url, host_of(url, Role.SERVICE)).hint


@pytest.mark.parametrize(("role", "is_hinted"), [(Role.SERVICE, True), (Role.STORAGE, False)])
def test_a_tunnel_given_as_the_endpoint_is_recognised_by_its_name(transport, role, is_hinted):
    url = "http://dt.no-such-host.invalid"
    error = failure(transport, url, host_of(url, role))
    assert error.hint.startswith(TUNNEL_HINT) is is_hinted


@pytest.mark.parametrize(
    ("location", "shown", "hint"),
    [
        ("https://127.0.0.1/login?token=secret", "https://127.0.0.1", "use https:// in the {}"),
        (
            "http://me:secret@wifi.example/login?token=secret",
            "http://wifi.example",
            "log in to this network if wifi.example",
        ),
        ("/elsewhere?token=secret", "http://127.0.0.1", "check the {}; a signed request"),
        ("http://[", None, "check the {}; a signed request"),
        (None, None, "check the {}; a signed request"),
    ],
)
@ROLES
def test_a_redirect_shows_only_the_host_of_its_target(transport, location, shown, hint, role):
    headers = {} if location is None else {"Location": location}

    with Peer(answers(b"", status=302, **headers)) as peer, pytest.raises(ServiceError) as caught:
        ask(transport, peer.url, host=host_of(peer.url, role))
    error = caught.value
    assert ("redirect to " in error.message) is (shown is not None)
    assert shown is None or f"redirect to {shown}" in error.message
    assert "secret" not in error.message + error.hint
    option = "tunnel_endpoint" if role is Role.STORAGE else "endpoint"
    assert error.hint.startswith(hint.format(option))


def test_a_tls_failure_names_the_setting_of_the_host(transport):
    def script(line: Line) -> None:
        line.send(b"HTTP/1.1 400 no\r\n\r\n")
        line.wait_closed(5)

    with Peer(script) as peer:
        url = peer.url.replace("http:", "https:")
        error = failure(transport, url, host_of(url, Role.STORAGE))
    assert isinstance(error, ConnectError)
    assert "the tunnel_endpoint supports https://" in error.hint
