"""Requests work through a proxy from the environment; its password is hidden."""

from __future__ import annotations

import logging
import socket
import threading
import traceback

import pytest

from odps_nb.errors import (
    BrokenStreamError,
    CancelledError,
    CertificateError,
    ConfigError,
    ConnectError,
)
from odps_nb.http.transport import HttpRequest, HttpResponse, RequestsTransport
from odps_nb.http.waiting import Abort
from tests.support.sockets.peers import Line, Peer, answers, refused, sends
from tests.support.sockets.relays import Proxy, server_context

FAR = "far.example"  # a host name that only the proxy can resolve
PAYLOAD = bytes(range(256)) * 4000
PASSWORD = "pr0xy-pass"


@pytest.fixture(autouse=True)
def _no_proxy_yet(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def through(monkeypatch):
    """Set environment variables that route all requests through a proxy."""

    def say(proxy: Proxy, user: str = "", *, scheme: bool = True) -> None:
        named, _, place = proxy.url.partition("://")
        address = (f"{named}://" if scheme else "") + (f"{user}@" if user else "") + place
        for name in ("HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, address)

    return say


@pytest.fixture(params=["http", "https"])
def far(request, trusted):
    """Create a server called `FAR` with a scheme and a start function."""
    tls = server_context(trusted, FAR) if request.param == "https" else None
    return request.param, lambda script: Peer(script, tls=tls)


def refuse_once(listener: socket.socket) -> None:
    listener.settimeout(10)
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")


def ask(transport: RequestsTransport, url: str, **facts) -> HttpResponse:
    return transport.send(HttpRequest(method="POST", url=url, **{"read_timeout": 10.0, **facts}))


def place_of(peer: Peer) -> dict[str, tuple[str, int]]:
    return {FAR: ("127.0.0.1", peer.port)}


def test_requests_and_responses_pass_through_a_proxy(transport, far, through):
    scheme, start = far
    with start(answers(PAYLOAD, Connection="close")) as peer, Proxy(place_of(peer)) as proxy:
        through(proxy)
        for body in (b"hello", iter([PAYLOAD, PAYLOAD])):
            with ask(transport, f"{scheme}://{FAR}/api?x=1", body=body) as answer:
                assert answer.read() == PAYLOAD
    assert [seen.target for seen in peer.seen] == ["/api?x=1"] * 2
    assert [seen.body for seen in peer.seen] == [b"hello", PAYLOAD * 2]
    assert {host for _, host in proxy.asked} == {FAR}
    assert {method for method, _ in proxy.asked} == {"CONNECT" if scheme == "https" else "POST"}


def test_a_response_truncated_after_the_proxy_is_reported_as_broken(transport, far, through):
    scheme, start = far
    with (
        start(sends(Line.headline(**{"Content-Length": "100"}) + b"x" * 99)) as peer,
        Proxy(place_of(peer)) as proxy,
    ):
        through(proxy)
        with ask(transport, f"{scheme}://{FAR}/") as answer, pytest.raises(BrokenStreamError):
            answer.read()


def test_a_slow_tls_handshake_behind_a_proxy_does_not_fail(transport, trusted, through):
    greeted = threading.Event()

    def script(line: Line) -> None:
        greeted.wait(0.5)  # longer than one wait slice
        with server_context(trusted, FAR).wrap_socket(line.sock, server_side=True) as sock:
            secure = Line(sock, line.peer)
            secure.request()
            secure.answer(b"here I am")
            secure.file.close()

    with Peer(script) as peer, Proxy(place_of(peer)) as proxy:
        through(proxy)
        with ask(transport, f"https://{FAR}/") as answer:
            assert answer.read() == b"here I am"


@pytest.mark.parametrize("named", [True, False])
def test_the_proxy_receives_credentials(transport, far, through, named):
    scheme, start = far
    with (
        start(answers(b"x")) as peer,
        Proxy(place_of(peer), user=f"me:{PASSWORD}") as proxy,
    ):
        through(proxy, user=f"me:{PASSWORD}", scheme=named)
        with ask(transport, f"{scheme}://{FAR}/") as answer:
            assert answer.read() == b"x"
    assert "proxy-authorization" not in peer.seen[0].headers


def test_a_proxy_over_tls_reaches_servers_with_and_without_tls(transport, far, through, trusted):
    scheme, start = far
    with (
        start(answers(PAYLOAD)) as peer,
        Proxy(place_of(peer), tls=server_context(trusted)) as proxy,
    ):
        through(proxy)
        with ask(transport, f"{scheme}://{FAR}/", body=iter([PAYLOAD, PAYLOAD])) as answer:
            assert answer.read() == PAYLOAD
    assert peer.seen[0].body == PAYLOAD * 2


def test_loopback_and_hosts_in_no_proxy_are_contacted_directly(transport, through, monkeypatch):
    with Peer(answers(b"one", b"two")) as peer, Proxy({}) as proxy:
        through(proxy)
        for host in ("127.0.0.1", "localhost"):
            with ask(transport, f"http://{host}:{peer.port}/") as answer:
                answer.read()
        monkeypatch.setenv("NO_PROXY", "named.invalid")
        with pytest.raises(ConnectError, match="cannot resolve the host name of the server named"):
            ask(transport, "http://named.invalid/")
    assert proxy.asked == []


# -- stopping -----------------------------------------------------------------------------------


def test_an_abort_wakes_a_thread_that_waits_for_the_proxy(transport, monkeypatch):
    stop = Abort()

    def script(line: Line) -> None:
        line.head()
        stop.stop()
        assert line.wait_closed()

    with Peer(script) as deaf:
        monkeypatch.setenv("HTTPS_PROXY", deaf.url)
        with pytest.raises(CancelledError):
            ask(transport, f"https://{FAR}/", read_timeout=60.0, connect_timeout=60.0, abort=stop)


def test_an_abort_closes_a_connection_through_a_proxy(transport, far, through):
    stop = Abort()

    def script(line: Line) -> None:
        line.request()
        line.send(line.headline(**{"Content-Length": "10"}) + b"12345")
        stop.stop()
        assert line.wait_closed()

    scheme, start = far
    with start(script) as peer, Proxy(place_of(peer)) as proxy:
        through(proxy)
        with pytest.raises(CancelledError):
            ask(transport, f"{scheme}://{FAR}/", read_timeout=60.0, abort=stop).read()


# -- errors ------------------------------------------------------------------------------------


def test_the_error_names_a_proxy_that_refuses(transport, through):
    with Proxy({}) as proxy:
        through(proxy)
        with pytest.raises(ConnectError, match=r"proxy .*502") as caught:
            ask(transport, f"https://{FAR}/")
    assert "HTTPS_PROXY" in caught.value.hint
    assert caught.value.request_sent is False


def test_the_error_names_a_proxy_that_does_not_speak_http(transport, through):
    with Peer(sends(b"\x05\xff no HTTP\r\n")) as socks:
        through(socks)
        with pytest.raises(ConnectError, match=f"the proxy cannot connect to .*{FAR}") as caught:
            ask(transport, f"https://{FAR}/")
    assert caught.value.hint.startswith("check HTTP_PROXY")


def test_a_proxy_at_an_ipv6_address_is_reached(transport, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setenv("HTTPS_PROXY", f"http://[::ffff:127.0.0.1]:{port}")
        thread = threading.Thread(target=refuse_once, args=(listener,))
        thread.start()
        with pytest.raises(ConnectError, match="Tunnel connection failed: 403"):
            ask(transport, f"https://{FAR}/")
        thread.join()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_the_error_names_an_unreachable_proxy(transport, monkeypatch, scheme):
    unknown = "no-such-proxy.invalid:3128"
    with refused() as url:
        place = url.partition("//")[2]
        for address, message in (
            (url, f"^the proxy {place} refuses the connection"),
            (f"http://{unknown}", f"^cannot resolve the host name of the proxy {unknown}"),
        ):
            monkeypatch.setenv(f"{scheme.upper()}_PROXY", address)
            fresh = RequestsTransport()
            with pytest.raises(ConnectError, match=message) as caught:
                ask(fresh, f"{scheme}://{FAR}/")
            fresh.close()
            assert caught.value.hint.startswith("check HTTP_PROXY")


def test_the_certificate_of_a_server_behind_a_proxy_is_verified(transport, authority, through):
    with (
        Peer(answers(b"x"), tls=server_context(authority, FAR)) as peer,
        Proxy(place_of(peer)) as proxy,
    ):
        through(proxy)
        with pytest.raises(CertificateError, match="is not trusted"):
            ask(transport, f"https://{FAR}/")
    assert peer.seen == []


def test_a_request_whose_handshake_fails_behind_a_proxy_was_not_sent(transport, through):
    def no_tls(line: Line) -> None:
        line.send(b"no TLS here\r\n")

    with Peer(no_tls) as peer, Proxy(place_of(peer)) as proxy:
        through(proxy)
        with pytest.raises(ConnectError, match="no secure connection") as caught:
            ask(transport, f"https://{FAR}/")
    assert caught.value.request_sent is False


@pytest.mark.parametrize(
    "address",
    [
        f"http://me:{PASSWORD}@proxy.example:99999",
        f"http://me:{PASSWORD}@",
        f"socks5://me:{PASSWORD}@proxy.example:1080",
        f"me:{PASSWORD}@[::1",
        f"http://domain\\me:{PASSWORD}@proxy.example:3128",
        *(f"http://me:12{sign}{PASSWORD}@proxy.example:3128" for sign in "/?#"),
    ],
)
def test_an_invalid_proxy_address_raises_a_config_error(transport, monkeypatch, address):
    monkeypatch.setenv("HTTPS_PROXY", address)
    with pytest.raises(ConfigError, match="HTTPS_PROXY") as caught:
        ask(transport, f"https://{FAR}/")
    assert caught.value.option == "HTTPS_PROXY"
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


def repeats_the_request(line: Line) -> None:
    headers = line.request().headers
    line.send(f"HTTP/1.1 403 {headers}\r\n\r\n".encode())


def test_errors_and_log_lines_do_not_show_the_proxy_password(transport, through, trusted, caplog):
    caplog.set_level(logging.DEBUG)
    told: list[str] = []
    with (
        Peer(answers(b"x"), tls=server_context(trusted, "other.example")) as wrong,
        Proxy(place_of(wrong), user="another:one") as strict,
        Proxy({}) as lost,
        Proxy(place_of(wrong)) as willing,
        Peer(repeats_the_request) as talkative,
    ):
        for scheme, proxy in (
            ("https", talkative),
            ("http", strict),
            ("https", strict),
            ("https", lost),
            ("https", willing),
        ):
            through(proxy, user=f"me:{PASSWORD}")
            fresh = RequestsTransport()
            with pytest.raises(ConnectError) as caught:
                ask(fresh, f"{scheme}://{FAR}/")
            assert caught.value.request_sent is False
            told += [repr(caught.value), *traceback.format_exception(caught.value)]
            fresh.close()
    text = "".join(told) + caplog.text
    assert "407" in text
    assert PASSWORD not in text
    assert "bWU6" not in text  # the base64 of "me:" begins in this way


def test_a_connection_with_a_small_receive_buffer_is_replaced(transport, through, trusted):
    script = answers(PAYLOAD, PAYLOAD, PAYLOAD, PAYLOAD)
    with (
        Peer(script, tls=server_context(trusted, FAR)) as far,
        Proxy(place_of(far)) as proxy,
    ):
        through(proxy)
        connections = []
        for size in (None, 32_768, 32_768, None):  # Linux starts with 128 KiB
            with ask(transport, f"https://{FAR}/", receive_buffer=size) as response:
                if size is not None and len(connections) == 2:
                    response.receive_freely()
                assert response.read() == PAYLOAD
            connections.append(far.connections)
        assert connections == [1, 2, 2, 2]
        assert [method for method, _ in proxy.asked] == ["CONNECT", "CONNECT"]
