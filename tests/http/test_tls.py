"""TLS: complete bodies, truncation, early responses, interrupts, and trust."""

from __future__ import annotations

import pickle
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta

import pytest

from odps_nb.errors import (
    BrokenStreamError,
    CancelledError,
    CertificateError,
    ConfigError,
    ConnectError,
    RequestTimeoutError,
    ServiceError,
)
from odps_nb.http.retry import RetryPolicy
from odps_nb.http.transport import HttpRequest, HttpResponse, RequestsTransport
from odps_nb.http.upload import Upload
from odps_nb.http.waiting import Abort
from tests.support.sockets.peers import Line, Peer, answers
from tests.support.sockets.relays import server_context

PAYLOAD = bytes(range(256)) * 4000
PIECES = [PAYLOAD] * 20


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def tls(trusted, request):
    context = server_context(trusted)
    context.minimum_version = context.maximum_version = request.param
    return context


def ask(transport: RequestsTransport, url: str, **facts) -> HttpResponse:
    return transport.send(HttpRequest(method="POST", url=url, **{"read_timeout": 10.0, **facts}))


def test_bodies_arrive_and_the_connection_is_reused(transport, tls):
    def script(line: Line) -> None:
        while line.request() is not None:
            line.chunked(PAYLOAD[:1], PAYLOAD[1:500_000], PAYLOAD[500_000:])

    with Peer(script, tls=tls) as peer:
        for _ in range(3):
            with ask(transport, peer.url, body=b"hello") as answer:
                assert answer.read() == PAYLOAD
        assert peer.connections == 1
        assert [seen.body for seen in peer.seen] == [b"hello"] * 3


@pytest.mark.parametrize("farewell", [True, False])
def test_a_truncated_body_is_reported_as_broken_with_or_without_close_notify(
    transport, tls, farewell
):
    def script(line: Line) -> None:
        line.request()
        line.send(line.headline(**{"Content-Length": "100"}) + b"x" * 99)
        if farewell:  # a close_notify of TLS does not complete the body
            line.sock.settimeout(10)
            line.sock.unwrap()

    with (
        Peer(script, tls=tls) as peer,
        ask(transport, peer.url) as answer,
        pytest.raises(BrokenStreamError),
    ):
        answer.read()


def test_a_tls_session_ticket_is_not_treated_as_a_response(transport, tls):
    tls.num_tickets = 5

    def script(line: Line) -> None:
        seen = line.head()
        line.peer.release.wait(10)  # the pipe is full by now, so sending has to wait
        line.drain(seen)
        line.answer(b"done")

    def pieces():
        for number, piece in enumerate(PIECES):
            if number == len(PIECES) // 2:
                peer.release.set()
            yield piece

    with Peer(script, tls=tls) as peer:
        threading.Timer(0.3, peer.release.set).start()
        with ask(transport, peer.url, body=pieces()) as answer:
            assert answer.read() == b"done"
            assert not answer.early
        assert peer.seen[0].body == b"".join(PIECES)


def test_an_early_response_ends_an_upload(transport, tls):
    def script(line: Line) -> None:
        line.head()
        line.answer(b"no, thank you", 403)
        line.peer.release.wait(20)  # the peer does not read, so the pipe stays full

    def refused(response: HttpResponse) -> ServiceError:
        with response:
            return ServiceError(response.read().decode(), status=response.status)

    def request(body):
        return HttpRequest(method="POST", url=peer.url, body=body, read_timeout=60.0)

    with Peer(script, tls=tls) as peer:
        upload = Upload(transport, request, reject=refused)

        def run() -> None:
            with upload:
                while True:
                    upload.write(PAYLOAD)

        with pytest.raises(ServiceError, match="no, thank you") as caught:
            run()
        assert caught.value.status == 403


def test_a_peer_that_accepts_no_data_causes_a_timeout(transport, tls):
    def script(line: Line) -> None:
        line.head()
        line.peer.release.wait(20)

    with Peer(script, tls=tls) as peer, pytest.raises(RequestTimeoutError) as caught:
        ask(transport, peer.url, body=iter(PIECES), read_timeout=0.2)
    assert caught.value.request_sent is True


# -- stopping -----------------------------------------------------------------------------------


@pytest.mark.parametrize("head", [b"", b"12345"])
def test_an_abort_wakes_a_thread_that_waits_for_a_response_or_a_body(transport, tls, head):
    stop = Abort()

    def script(line: Line) -> None:
        line.request()
        if head:
            line.send(line.headline(**{"Content-Length": "10"}) + head)
        stop.stop()
        assert line.wait_closed()

    with Peer(script, tls=tls) as peer, pytest.raises(CancelledError):
        ask(transport, peer.url, read_timeout=60.0, abort=stop).read()


def test_an_abort_wakes_a_thread_in_the_handshake(transport):
    stop = Abort()

    def script(line: Line) -> None:
        line.sock.recv(1)  # the client's hello, which gets no response
        stop.stop()
        assert line.wait_closed()

    with Peer(script) as peer, pytest.raises(CancelledError):
        ask(
            transport,
            peer.url.replace("http:", "https:"),
            connect_timeout=60.0,
            read_timeout=60.0,
            abort=stop,
        )


def test_an_abort_wakes_a_thread_that_sends_to_a_full_pipe(transport, tls):
    stop = Abort()

    def script(line: Line) -> None:
        line.head()
        line.peer.release.wait(20)

    def endless():
        yield PAYLOAD
        threading.Timer(0.2, stop.stop).start()
        while True:
            yield PAYLOAD

    with Peer(script, tls=tls) as peer, pytest.raises(CancelledError):
        ask(transport, peer.url, body=endless(), read_timeout=60.0, abort=stop)


# -- trust --------------------------------------------------------------------------------------


def test_an_untrusted_certificate_is_refused_with_a_hint(transport, authority):
    with (
        Peer(answers(b"x"), tls=server_context(authority)) as peer,
        pytest.raises(CertificateError, match="is not trusted") as caught,
    ):
        ask(transport, peer.url, body=b"secret rows")
    error = caught.value
    assert "REQUESTS_CA_BUNDLE" in error.hint
    assert (error.url, error.request_sent) == (peer.url, False)
    assert isinstance(error, ConnectError)
    assert peer.seen == []
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.hint) == (CertificateError, error.hint)


def test_a_certificate_for_another_name_raises_a_named_error(transport, trusted):
    with (
        Peer(answers(b"x"), tls=server_context(trusted, "other.example")) as peer,
        pytest.raises(CertificateError, match=r"127\.0\.0\.1") as caught,
    ):
        ask(transport, peer.url)
    assert "name" in caught.value.hint


def test_an_expired_certificate_raises_a_named_error(transport, trusted):
    ended = datetime.now(UTC) - timedelta(days=1)
    context = server_context(trusted, not_before=ended - timedelta(days=9), not_after=ended)
    with (
        Peer(answers(b"x"), tls=context) as peer,
        pytest.raises(CertificateError, match="expired") as caught,
    ):
        ask(transport, peer.url)
    assert "clock" in caught.value.hint


def test_an_untrusted_certificate_is_not_retried():
    error = CertificateError("no", request_sent=False)
    assert RetryPolicy().decide(1, error, idempotent=True, elapsed=0.0) is None
    assert RetryPolicy().decide(1, ConnectError("no"), idempotent=True, elapsed=0.0) is not None


@pytest.mark.parametrize("name", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_a_missing_certificate_file_raises_a_config_error(transport, monkeypatch, name):
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)
    monkeypatch.setenv(name, "/nowhere/authority.pem")
    with pytest.raises(ConfigError, match=r"/nowhere/authority\.pem") as caught:
        ask(transport, "https://127.0.0.1:9/")
    assert caught.value.option == name


def test_a_file_without_certificates_raises_a_connect_error(transport, monkeypatch, tmp_path):
    empty = tmp_path / "empty.pem"
    empty.write_text("no certificate here\n")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(empty))
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(ConnectError, match="the file of trusted certificates") as caught,
    ):
        ask(transport, f"https://127.0.0.1:{listener.getsockname()[1]}/")
    assert caught.value.hint.startswith("set REQUESTS_CA_BUNDLE")
