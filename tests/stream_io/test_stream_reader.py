"""A response body over real sockets is read completely or raises an error; close frees it."""

import io

import pytest
import requests

from odps_nb.errors import (
    BrokenStreamError,
    NotFoundError,
    StateError,
    ThrottledError,
    TransportError,
    TruncatedError,
)
from odps_nb.http.transport import HttpRequest, HttpResponse, RequestsTransport
from odps_nb.stream_io import Status, StreamReader
from tests.support.sockets.peers import Line, Peer, sends
from tests.support.sockets.raw_streams import ReadOnly, WithHeaders, pattern

BODY = pattern(300_000)


def fetch(transport: RequestsTransport, peer: Peer) -> HttpResponse:
    return transport.send(HttpRequest(method="POST", url=peer.url, body=b"{}", read_timeout=5.0))


def whole(line: Line) -> None:
    while line.request() is not None:
        line.answer(BODY)


def chunked(line: Line) -> None:
    line.request()
    line.chunked(*(BODY[at : at + 7001] for at in range(0, len(BODY), 7001)))


@pytest.mark.parametrize("script", [whole, chunked])
@pytest.mark.parametrize("step", [1000, 65_536, 1 << 20, -1])
def test_a_response_body_is_read_completely(
    transport: RequestsTransport, script: object, step: int
) -> None:
    with Peer(script) as peer, StreamReader(fetch(transport, peer)) as reader:  # type: ignore[arg-type]
        parts = []
        while part := reader.read(step):
            parts.append(part)
        assert b"".join(parts) == BODY
        assert reader.get_status() is Status.OK
        assert reader.status == 200
        assert reader.request_id == reader.get_request_id() == "req-1"
        assert reader.headers["x-odps-request-id"] == "req-1"


def test_readinto_fills_its_buffer(transport: RequestsTransport) -> None:
    with Peer(chunked) as peer, StreamReader(fetch(transport, peer)) as reader:
        target = bytearray(200_000)
        assert reader.readinto(target) == 200_000
        assert target == BODY[:200_000]
        assert reader.get_status() is Status.RUNNING
        assert reader.readinto(target) == 100_000
        assert reader.readinto(target) == 0
        assert reader.get_status() is Status.OK


@pytest.mark.parametrize("size", [0, 1, 5, 299_999])
def test_a_body_shorter_than_its_declared_length_raises_an_error(
    transport: RequestsTransport, size: int
) -> None:
    with (
        Peer(sends(Line.headline(Content_Length=str(len(BODY))) + BODY[:size])) as peer,
        StreamReader(fetch(transport, peer)) as reader,
    ):
        with pytest.raises((BrokenStreamError, TruncatedError)) as caught:
            reader.read()
        assert caught.value.request_id == "req-1"
        assert reader.get_status() is Status.FAILED
        with pytest.raises(StateError):
            reader.read()


def test_a_chunked_body_without_its_last_chunk_raises_an_error(
    transport: RequestsTransport,
) -> None:
    def cut(line: Line) -> None:
        line.request()
        line.chunked(BODY, end=False)

    with Peer(cut) as peer:
        reader = StreamReader(fetch(transport, peer))
        with pytest.raises(TransportError):
            reader.read()
        reader.close()


@pytest.mark.parametrize("length", ["6", "5", "4"])
def test_a_response_of_another_library_is_checked_against_its_length(length: str) -> None:
    answer = WithHeaders(b"hello", Content_Length=length, x_odps_request_id="r9")
    reader = StreamReader(answer)
    if length == "6":
        with pytest.raises(TruncatedError, match="5 of 6 bytes") as caught:
            reader.read()
        assert (caught.value.expected, caught.value.actual) == (6, 5)
        assert caught.value.request_id == "r9"
    else:
        assert reader.read() == b"hello"


def test_the_content_length_of_a_chunked_response_is_ignored() -> None:
    answer = WithHeaders(b"hello", Content_Length="9", Transfer_Encoding="chunked")
    assert StreamReader(answer).read() == b"hello"


def test_an_error_of_the_server_is_raised_with_its_code_and_request_id() -> None:
    answer = WithHeaders(b'{"Code": "NoSuchTable", "Message": "gone"}', x_odps_request_id="r1")
    answer.status = 404
    reader = StreamReader(answer)
    with pytest.raises(NotFoundError, match="gone") as caught:
        reader.read()
    assert (caught.value.code, caught.value.request_id, caught.value.status) == (
        "NoSuchTable",
        "r1",
        404,
    )
    assert reader.get_status() is Status.FAILED
    with pytest.raises(StateError):
        reader.read()


def test_a_response_of_the_requests_library_is_accepted() -> None:
    def script(line: Line) -> None:
        line.request()
        line.answer(BODY)
        line.request()
        line.answer(b'{"Code": "FlowExceeded", "Message": "slow down"}', status=429)

    with Peer(script) as peer, requests.Session() as session:
        with StreamReader(lambda: session.get(peer.url, stream=True)) as reader:
            assert reader.request_id is None
            assert reader.read(10) == BODY[:10]
            target = bytearray(1 << 20)
            assert target[: reader.readinto(target)] == BODY[10:]
            assert (reader.status, reader.request_id) == (200, "req-1")
        refused = StreamReader(session.get(peer.url, stream=True))
        with pytest.raises(ThrottledError):
            refused.read()
        refused.close()


def test_an_opener_that_fails_is_called_again() -> None:
    answers = [ConnectionError("refused"), io.BytesIO(b"abc")]

    def opener() -> io.BytesIO:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    reader = StreamReader(opener)
    with pytest.raises(ConnectionError):
        reader.read()
    assert reader.get_status() == Status.RUNNING
    assert reader.read() == b"abc"


def test_an_opener_is_called_once_and_on_the_first_read() -> None:
    calls = []

    def opener() -> io.BytesIO:
        calls.append(1)
        return io.BytesIO(b"hello")

    reader = StreamReader(opener)
    assert calls == []
    assert reader.read(2) + reader.read() == b"hello"
    assert calls == [1]
    unused = StreamReader(opener)
    unused.close()
    assert calls == [1]


def test_sources_with_short_reads_are_accepted() -> None:
    for most in (1, 1000):
        reader = StreamReader(ReadOnly(BODY[:5000], most=most))
        assert reader.read(4000) == BODY[:4000]
        target = bytearray(4000)
        assert target[: reader.readinto(target)] == BODY[4000:5000]
        assert (reader.status, reader.headers, reader.request_id) == (None, {}, None)


def test_close_frees_the_response_once_and_later_calls_raise_a_state_error(
    transport: RequestsTransport,
) -> None:
    with Peer(whole) as peer:
        answer = fetch(transport, peer)
        with StreamReader(answer) as reader:
            assert reader.readable()
            reader.read(10)
        reader.close()
        assert answer.closed
        assert reader.closed
        assert not reader.readable()
        assert reader.get_status() is Status.CANCELLED
        for use in (reader.read, lambda: reader.readinto(bytearray(1)), lambda: reader.status):
            with pytest.raises(StateError, match="closed"):
                use()


def test_closing_a_completely_read_stream_keeps_its_status_ok() -> None:
    reader = StreamReader(io.BytesIO(b"x"))
    reader.read()
    reader.close()
    assert reader.get_status() is Status.OK
