"""A written body arrives completely, or the writer soon receives the error."""

from __future__ import annotations

import hashlib
import threading
import time

import pytest

from odps_nb.errors import (
    BrokenStreamError,
    CancelledError,
    ConnectError,
    RequestTimeoutError,
    ServiceError,
    StateError,
)
from odps_nb.http.transport import HttpRequest, HttpResponse, RequestsTransport
from odps_nb.http.upload import Upload
from tests.support.sockets.peers import Line, Peer, refused


def begin(transport: RequestsTransport, url: str, *, timeout: float = 5.0, **facts) -> Upload:
    def request(body):
        return HttpRequest(
            method="POST", url=url, body=body, connect_timeout=timeout, read_timeout=timeout
        )

    return Upload(transport, request, **facts)


def flood(upload: Upload) -> None:
    """Write 100 MiB, more than all buffers between client and server, and finish."""
    for _ in range(400):
        upload.write(bytes(1 << 18))
    upload.finish()


def echo_digest(line: Line) -> None:
    seen = line.request()
    if seen is not None and seen.whole:
        line.answer(hashlib.md5(seen.body).hexdigest().encode())


@pytest.mark.parametrize("sizes", [[], [0], [1], [262144], [262143, 2], [7] * 1000, [3_000_000, 1]])
def test_a_written_body_arrives(transport, sizes):
    pieces = [bytes([i % 251]) * size for i, size in enumerate(sizes)]
    with Peer(echo_digest) as peer, begin(transport, peer.url) as upload:
        assert [upload.write(piece) for piece in pieces] == sizes
        with upload.finish() as answer:
            assert answer.read().decode() == hashlib.md5(b"".join(pieces)).hexdigest()
        assert upload.finish() is answer
        assert upload.sent_bytes == sum(sizes)
        with pytest.raises(StateError):
            upload.write(b"more")
    assert peer.seen[0].headers["transfer-encoding"] == "chunked"


def test_any_buffer_can_be_written_and_changed_afterwards(transport):
    buffer = bytearray(b"abc")
    with Peer(echo_digest) as peer, begin(transport, peer.url) as upload:
        upload.write(memoryview(buffer))
        buffer[:] = b"xyz"
        upload.finish().close()
    assert peer.seen[0].body == b"abc"


def test_a_slow_peer_blocks_the_writer(transport):
    def script(line: Line) -> None:
        seen = line.head()
        line.peer.release.wait(10)
        line.drain(seen)
        line.answer(b"ok")

    with Peer(script) as peer, begin(transport, peer.url, pending=1 << 20) as upload:
        written = threading.Semaphore(0)

        def write() -> None:
            for _ in range(64):
                upload.write(bytes(1 << 18))
                written.release()

        writer = threading.Thread(target=write)
        writer.start()
        accepted = 0
        while written.acquire(timeout=0.5):
            accepted += 1
        assert accepted < 64  # 16 MiB do not fit into the pipe and the sockets
        peer.release.set()
        writer.join(10)
        assert not writer.is_alive()
        upload.finish().close()
    assert len(peer.seen[0].body) == 64 << 18


@pytest.mark.parametrize("keep_reading", [False, True])
def test_an_early_response_reaches_the_writer(transport, keep_reading):
    def script(line: Line) -> None:
        seen = line.head()
        line.answer(b"no room", 403)
        if keep_reading:
            line.drain(seen)
        else:
            line.peer.release.wait(10)

    with Peer(script) as peer, begin(transport, peer.url) as upload:
        with pytest.raises(ServiceError, match="403") as caught:
            flood(upload)
        assert caught.value.request_id == "req-1"
        with pytest.raises(ServiceError):
            upload.write(b"again")
        with pytest.raises(ServiceError):
            upload.finish()


class ReadsTheRest:
    """A transport that reads the whole body before it returns an early response."""

    def __init__(self, transport: RequestsTransport) -> None:
        self.transport, self.close = transport, transport.close

    def send(self, request: HttpRequest) -> HttpResponse:
        response = self.transport.send(request)
        for _ in request.body:
            pass
        return response


@pytest.mark.parametrize(
    "sends", [lambda same: same, ReadsTheRest], ids=["while writing", "after the last write"]
)
def test_an_early_success_response_raises_an_error(transport, sends):
    def script(line: Line) -> None:
        line.head()
        line.answer(b"ok", 200)
        line.peer.release.wait(10)

    with (
        Peer(script) as peer,
        begin(sends(transport), peer.url) as upload,
        pytest.raises(ServiceError, match="before the request ended"),
    ):
        flood(upload)


def test_a_connection_broken_while_writing_raises_an_error_in_the_writer(transport):
    def script(line: Line) -> None:
        line.head()
        line.reset()

    with Peer(script) as peer, begin(transport, peer.url) as upload:
        with pytest.raises(BrokenStreamError) as caught:
            flood(upload)
        assert caught.value.request_sent is True


def test_a_peer_that_accepts_no_data_causes_a_send_timeout(transport):
    """The time-out for sending is independent of the one for the response."""

    def script(line: Line) -> None:
        line.head()
        line.wait_closed(reads=False)

    def request(body):
        return HttpRequest(
            method="POST", url=peer.url, body=body, send_timeout=0.2, read_timeout=600.0
        )

    with (
        Peer(script) as peer,
        Upload(transport, request) as upload,
        pytest.raises(RequestTimeoutError, match=r"was silent for 0\.2 s"),
    ):
        flood(upload)


def test_a_peer_may_stop_reading_for_longer_than_the_connect_timeout(transport):
    def script(line: Line) -> None:
        seen = line.head()
        time.sleep(0.5)  # longer than the connect time-out
        line.drain(seen)
        line.answer(b"ok")

    def request(body):
        return HttpRequest(
            method="POST", url=peer.url, body=body, connect_timeout=0.2, read_timeout=20.0
        )

    with Peer(script) as peer, Upload(transport, request) as upload:
        for _ in range(64):
            upload.write(bytes(1 << 18))
        with upload.finish() as answer:
            assert answer.read() == b"ok"


def test_a_complete_upload_without_a_response_raises_an_error(transport):
    with Peer(lambda line: line.request()) as peer, begin(transport, peer.url) as upload:
        upload.write(b"data")
        with pytest.raises(BrokenStreamError):
            upload.finish()
    assert peer.seen[0].whole


def test_a_refused_connection_is_raised_in_the_writer(transport):
    with refused() as url, begin(transport, url) as upload, pytest.raises(ConnectError):
        upload.finish()


def test_an_abort_truncates_the_body_and_ends_the_thread(transport):
    def script(line: Line) -> None:
        seen = line.head()
        line.peer.release.set()
        line.drain(seen)

    with Peer(script) as peer:
        upload = begin(transport, peer.url)
        upload.write(bytes(1 << 19))
        assert peer.release.wait(10)  # the thread waits for more of the body
        aborting = threading.Thread(target=upload.abort, daemon=True)
        aborting.start()
        aborting.join(20)
        assert not aborting.is_alive()
        upload.abort()
        for call in (upload.finish, lambda: upload.write(b"x")):
            with pytest.raises(StateError):
                call()
    assert not any(seen.whole for seen in peer.seen)


def test_an_error_in_the_block_aborts_the_upload(transport):
    def interrupted(url: str) -> None:
        with begin(transport, url) as upload:
            upload.write(bytes(1 << 19))
            raise KeyError("the caller's")

    with Peer(lambda line: line.request()) as peer, pytest.raises(KeyError):
        interrupted(peer.url)
    assert not any(seen.whole for seen in peer.seen)


def test_an_abort_wakes_a_thread_that_waits_for_the_response(transport):
    def script(line: Line) -> None:
        line.request()
        line.peer.release.set()
        assert line.wait_closed()

    with Peer(script) as peer:
        upload = begin(transport, peer.url, timeout=60.0)
        upload.write(b"x")
        outcome: list[BaseException] = []

        def finish() -> None:
            try:
                upload.finish()
            except CancelledError as error:
                outcome.append(error)

        finishing = threading.Thread(target=finish)
        finishing.start()
        assert peer.release.wait(10)
        upload.abort()
        finishing.join(20)  # a third of the time-out
        assert not finishing.is_alive()
        assert len(outcome) == 1
