"""The transport over sockets: complete and broken responses, aborts, and kept connections."""

from __future__ import annotations

import pickle
import socket
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.errors import (
    BrokenStreamError,
    CancelledError,
    ConfigError,
    ConnectError,
    FramingError,
    RequestTimeoutError,
    ServiceError,
    StateError,
    ThrottledError,
    TransportError,
)
from odps_nb.http.transport import HttpRequest, RequestsTransport
from odps_nb.http.waiting import Abort
from tests.support.sockets.peers import Line, Peer, answers, refused, sends
from tests.support.sockets.transports import ask

PAYLOAD = bytes(range(256)) * 40


def test_status_headers_and_body_arrive(transport):
    with Peer(answers(PAYLOAD)) as peer, ask(transport, peer.url, body=b"hello") as answer:
        assert answer.status == 200
        assert answer.headers["X-ODPS-Request-Id"] == answer.request_id == "req-1"
        assert answer.length == len(PAYLOAD)
        assert answer.read() == PAYLOAD
        assert answer.wire_bytes == len(PAYLOAD)
        assert answer.closed
    assert peer.seen[0].body == b"hello"
    assert peer.seen[0].headers["accept-encoding"] == "identity"


def test_any_error_status_is_returned_as_a_response(transport):
    with Peer(answers(b"{}", status=503)) as peer, ask(transport, peer.url) as answer:
        assert (answer.status, answer.read()) == (503, b"{}")


def test_a_compressed_body_is_not_decoded(transport):
    packed = bytes.fromhex("28b52ffd20052900006865 6c6c6f")

    with (
        Peer(answers(packed, **{"Content-Encoding": "zstd"})) as peer,
        ask(transport, peer.url) as answer,
    ):
        assert answer.read() == packed


def test_connections_are_kept_only_after_a_complete_body(transport):
    with Peer(answers(b"one", b"two", b"three"), answers(b"four")) as peer:
        for expected in (b"one", b"two"):
            with ask(transport, peer.url) as answer:
                assert answer.read() == expected
        assert peer.connections == 1
        with ask(transport, peer.url) as answer:
            assert answer.read(2) == b"th"
        with ask(transport, peer.url) as answer:
            assert answer.read() == b"four"
        assert peer.connections == 2


@pytest.mark.parametrize("size", [1, 3, 255, 4096, 100_000])
@pytest.mark.parametrize("chunked", [False, True])
def test_every_way_to_read_gives_the_same_bytes(transport, size, chunked):
    def script(line: Line) -> None:
        while line.request() is not None:
            if chunked:
                line.chunked(PAYLOAD[:1], PAYLOAD[1:5000], PAYLOAD[5000:])
            else:
                line.answer(PAYLOAD)

    with Peer(script) as peer:
        with ask(transport, peer.url) as answer:
            assert b"".join(iter(lambda: answer.read(size), b"")) == PAYLOAD
        with ask(transport, peer.url) as answer:
            pieces = list(answer.chunks(size))
            assert b"".join(pieces) == PAYLOAD
            assert max(map(len, pieces)) <= size
        with ask(transport, peer.url) as answer:
            buffer, got = bytearray(size), b""
            while count := answer.readinto(buffer):
                got += buffer[:count]
            assert got == PAYLOAD
            assert answer.closed
        assert peer.connections == 1


def test_a_body_shorter_than_its_content_length_is_reported_as_broken(transport):
    with (
        Peer(sends(Line.headline(**{"Content-Length": "100"}) + b"x" * 99)) as peer,
        ask(transport, peer.url) as answer,
    ):
        with pytest.raises(BrokenStreamError, match="broke") as caught:
            answer.read()
        assert caught.value.request_id == "req-1"
        assert caught.value.request_sent is True
        with pytest.raises(BrokenStreamError):
            answer.read(1)


@settings(max_examples=60)
@given(data=st.data())
def test_a_truncated_chunked_body_is_reported_as_broken(data):
    whole = b"5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\nTrailer: x\r\n\r\n"
    cut = data.draw(st.integers(0, len(whole) - 1))

    transport = RequestsTransport()
    with (
        Peer(sends(Line.headline(**{"Transfer-Encoding": "chunked"}) + whole[:cut])) as peer,
        ask(transport, peer.url) as answer,
    ):
        got: list[bytes] = []
        with pytest.raises(BrokenStreamError, match="IncompleteRead"):
            got.extend(answer.chunks(4))
        assert b"hello world".startswith(b"".join(got))
    transport.close()


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        *((size, "not a chunk size") for size in (b"-5\r\n", b"zz\r\n", b"0x5\r\n", b"\r\n")),
        (b"3\r\nhello\r\n0\r\n\r\n", "does not end where"),
        (b"1" * 9000, "IncompleteRead"),
        (b"0\r\n" + b"a: b\r\n" * 65 + b"\r\n", "trailers"),
    ],
)
def test_invalid_bytes_between_chunks_break_the_response(transport, lie, why):
    with (
        Peer(sends(Line.headline(**{"Transfer-Encoding": "chunked"}) + lie)) as peer,
        ask(transport, peer.url) as answer,
        pytest.raises(BrokenStreamError, match=why),
    ):
        answer.read()


def test_a_reset_during_the_body_is_reported_as_a_broken_response(transport):
    def script(line: Line) -> None:
        line.request()
        line.send(line.headline(**{"Content-Length": "100"}) + b"x" * 50)
        line.peer.release.wait(10)
        line.reset()

    with Peer(script) as peer, ask(transport, peer.url) as answer:
        assert answer.read(50) == b"x" * 50
        peer.release.set()
        with pytest.raises(BrokenStreamError):
            answer.read(50)


def test_a_body_without_a_length_ends_with_the_connection(transport):
    with (
        Peer(sends(Line.headline() + b"until the end")) as peer,
        ask(transport, peer.url) as answer,
    ):
        assert not answer.is_delimited
        assert answer.read() == b"until the end"


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"HTTP/1.1 200 X\r\n",
        b"HTTP/1.1 200 X\r\nContent-",
        b"HTTP/1.1 200 X\r\nContent-Type: x\r\n",
        b"rubbish\r\n\r\n",
    ],
)
def test_a_missing_response_raises_an_error_that_says_that_the_request_was_sent(transport, before):
    with Peer(sends(before)) as peer, pytest.raises(BrokenStreamError) as caught:
        ask(transport, peer.url)
    assert caught.value.request_sent is True
    assert caught.value.url == peer.url


def test_silence_before_the_response_raises_a_timeout(transport):
    def script(line: Line) -> None:
        line.request()
        line.peer.release.wait(10)

    with Peer(script) as peer, pytest.raises(RequestTimeoutError) as caught:
        ask(transport, peer.url, read_timeout=0.1)
    assert caught.value.request_sent is True


def test_silence_inside_the_body_raises_a_timeout(transport):
    def script(line: Line) -> None:
        line.request()
        line.send(line.headline(**{"Content-Length": "10"}) + b"12345")
        line.peer.release.wait(10)

    with Peer(script) as peer, ask(transport, peer.url, read_timeout=0.1) as answer:
        assert answer.read(5) == b"12345"
        with pytest.raises(RequestTimeoutError):
            answer.read(5)


def test_a_refused_connection_is_a_connect_error_that_may_be_retried(transport):
    with refused() as url, pytest.raises(ConnectError, match="refuses the connection") as caught:
        ask(transport, url)
    assert caught.value.request_sent is False
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), again.url, again.hint) == (ConnectError, url, caught.value.hint)


@pytest.mark.parametrize("name", ["no-such-host.invalid", "a..invalid", "a" * 64 + ".invalid"])
def test_an_unknown_name_raises_a_connect_error(transport, name):
    with pytest.raises(ConnectError, match=f"cannot resolve the host name of the server {name}"):
        ask(transport, f"http://{name}/api")


def test_a_connection_that_is_never_accepted_raises_a_connect_error(transport):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with socket.create_connection(deaf.getsockname()):  # fills the queue of length one
            with pytest.raises(TransportError) as caught:
                ask(transport, url, connect_timeout=0.2, read_timeout=0.2)
            assert isinstance(caught.value, (ConnectError, RequestTimeoutError))


def test_tls_to_a_plain_peer_raises_a_connect_error(transport):
    def script(line: Line) -> None:
        line.send(b"HTTP/1.1 400 no\r\n\r\n")
        line.wait_closed(5)

    with Peer(script) as peer, pytest.raises(ConnectError, match="secure"):
        ask(transport, peer.url.replace("http:", "https:"))


@pytest.mark.parametrize("url", ["ftp://x/y", "nowhere", "http://"])
def test_an_impossible_url_raises_a_config_error(transport, url):
    with pytest.raises(ConfigError) as caught:
        ask(transport, url)
    assert caught.value.option == "endpoint"


def test_a_redirect_is_refused_and_not_followed(transport):
    with (
        Peer(answers(b"", status=308, Location="http://127.0.0.1:1/")) as peer,
        pytest.raises(ServiceError, match="redirect") as caught,
    ):
        ask(transport, peer.url)
    assert (caught.value.status, caught.value.request_id) == (308, "req-1")


@pytest.mark.parametrize("target", ["javascript:alert(1)", "mailto:me", "https://[::1/", ""])
def test_the_hint_for_a_redirect_without_a_host_mentions_no_login_page(transport, target):
    with (
        Peer(answers(b"", status=302, Location=target)) as peer,
        pytest.raises(ServiceError, match="redirect") as caught,
    ):
        ask(transport, peer.url)
    assert caught.value.hint.startswith("check the endpoint")


def test_a_long_request_id_is_shortened(transport):
    script = answers(b"", **{"x-odps-request-id": "r" * 10**4})
    with Peer(script) as peer, ask(transport, peer.url) as response:
        assert len(response.request_id) == 100


@pytest.mark.parametrize(
    "headers",
    [{"odps-tunnel-routed-server": "10.0.0.7", "Location": "http://127.0.0.1:1/"}, {}],
    ids=["names a server", "names nothing"],
)
def test_a_redirect_of_a_reassigned_slot_is_reported_as_throttling(transport, headers):
    with (
        Peer(answers(b"", status=308, **headers)) as peer,
        pytest.raises(ThrottledError, match="another server") as caught,
    ):
        ask(transport, peer.url)
    assert (caught.value.status, caught.value.request_id) == (308, "req-1")


def test_after_a_timeout_idle_connections_are_not_reused(transport):
    """When a laptop wakes up, all idle connections are dead; each would take a time-out."""
    asleep = threading.Event()

    def script(line: Line) -> None:
        number = line.peer.connections
        while line.request() is not None:
            if asleep.is_set() and number <= 3:
                line.wait_closed()
            else:
                line.answer(b"x")

    def at_once(count: int) -> list[bytes]:
        answers = [ask(transport, peer.url, read_timeout=0.5) for _ in range(count)]
        return [answer.read() for answer in answers]

    with Peer(script) as peer:
        assert at_once(3) == [b"x"] * 3
        asleep.set()
        with pytest.raises(RequestTimeoutError, match=r"silent for 0\.5 s"):
            at_once(1)
        assert at_once(3) == [b"x"] * 3
        assert peer.connections == 6


def test_an_abort_wakes_a_waiting_read(transport):
    def script(line: Line) -> None:
        line.request()
        line.send(line.headline(**{"Content-Length": "10"}) + b"12345")
        if line.wait_closed(20):  # a third of the read time-out
            closed.set()

    closed, stop = threading.Event(), Abort()
    with Peer(script) as peer, ask(transport, peer.url, read_timeout=60.0, abort=stop) as answer:
        assert answer.read(5) == b"12345"
        timer = threading.Timer(0.05, stop.stop)
        timer.start()
        with pytest.raises(CancelledError):
            answer.read(5)
        timer.join()
        assert closed.wait(30)


def test_an_abort_wakes_the_wait_for_headers(transport):
    stop = Abort()

    def script(line: Line) -> None:
        line.request()
        stop.stop()
        assert line.wait_closed()

    with Peer(script) as peer, pytest.raises(CancelledError):
        ask(transport, peer.url, read_timeout=60.0, abort=stop)


def test_an_abort_before_the_start_ends_the_request(transport):
    stop = Abort()
    stop.stop()
    with Peer(answers(b"x")) as peer, pytest.raises(CancelledError):
        ask(transport, peer.url, abort=stop)


def test_an_abort_after_the_end_does_not_affect_the_pooled_connection(transport):
    with Peer(answers(b"one", b"two")) as peer:
        stop = Abort()
        assert ask(transport, peer.url, abort=stop).read() == b"one"
        stop.stop()
        with ask(transport, peer.url) as second:
            assert second.read() == b"two"
        assert peer.connections == 1


def test_closing_an_unread_response_closes_the_connection(transport):
    gone = threading.Event()

    def script(line: Line) -> None:
        line.request()
        line.send(line.headline(**{"Content-Length": "1000000"}) + b"x" * 10)
        if line.wait_closed():
            gone.set()

    with Peer(script) as peer:
        with ask(transport, peer.url) as answer:
            answer.read(1)
        assert gone.wait(10)
        with pytest.raises(StateError):
            answer.read(1)
        answer.close()


def test_idle_connections_are_closed_while_a_response_is_open(transport):
    left = threading.Event()

    def script(line: Line) -> None:
        line.request()
        line.answer(b"all of it")
        if line.wait_closed():
            left.set()

    with Peer(script) as peer:
        held = ask(transport, peer.url)
        assert held.read() == b"all of it"
        transport.close()
        assert left.wait(10)
        assert held.closed


def test_an_error_of_a_broken_response_keeps_no_connection_open(transport):
    with (
        Peer(sends(Line.headline(**{"Content-Length": "100"}) + b"x")) as peer,
        ask(transport, peer.url) as answer,
    ):
        with pytest.raises(BrokenStreamError) as first:
            answer.read()
        with pytest.raises(BrokenStreamError) as again:
            answer.read()
    assert again.value is not first.value
    assert (again.value.message, again.value.request_id) == (first.value.message, "req-1")


def test_a_closed_transport_sends_nothing(transport):
    transport.close()
    transport.close()
    with pytest.raises(StateError):
        ask(transport, "http://127.0.0.1:1")


def test_an_error_of_the_request_body_is_raised_unchanged(transport):
    def body():
        yield b"first"
        raise FileNotFoundError("the caller's file")

    with (
        Peer(lambda line: line.request()) as peer,
        pytest.raises(FileNotFoundError, match="caller"),
    ):
        ask(transport, peer.url, body=body())
    assert not any(seen.whole for seen in peer.seen)


def test_a_proxy_of_the_environment_is_not_used_for_loopback(transport, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with Peer(answers(b"direct")) as peer, ask(transport, peer.url) as answer:
        assert answer.read() == b"direct"


def test_reprs_show_the_state_and_no_headers(transport):
    request = HttpRequest(method="GET", url="http://h", headers={"Authorization": "ODPS a:secret"})
    assert "secret" not in repr(request)
    with Peer(answers(b"x")) as peer, ask(transport, peer.url) as answer:
        assert repr(answer) == "<HttpResponse 200 request_id='req-1' open>"
        answer.read()
        assert repr(answer).endswith("closed>")


@pytest.mark.parametrize("lengths", [b"5\r\nContent-Length: 7", b"5, 7", b"-5", b"five"])
def test_contradicting_or_invalid_content_lengths_raise_an_error(transport, lengths):
    with (
        Peer(sends(b"HTTP/1.1 200 OK\r\nContent-Length: %b\r\n\r\nhello" % lengths)) as peer,
        pytest.raises(FramingError, match="contradict each other") as caught,
    ):
        ask(transport, peer.url)
    assert "Content-Length" in str(caught.value)
    assert "cannot be requested" not in str(caught.value)


def test_a_content_length_that_a_proxy_repeats_delimits_the_body(transport):
    """As RFC 9110 permits; otherwise, the client would wait for the end of the connection."""
    with (
        Peer(sends(b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello")) as peer,
        ask(transport, peer.url) as answer,
    ):
        assert answer.is_delimited
        assert answer.read() == b"hello"


def test_an_idle_connection_that_the_server_has_closed_is_not_reused(transport):
    def once(line: Line) -> None:
        line.request()
        line.answer(b"ok")

    with Peer(once) as peer:
        for number in range(3):
            with ask(transport, peer.url) as answer:
                assert answer.read() == b"ok"
            peer._threads[number].join(10)  # the script has ended, and closed the connection
