"""Responses that arrive very slowly: each part has a total time-out, except rows and blobs."""

from __future__ import annotations

import pytest

from odps_nb.errors import BrokenStreamError, LimitExceededError, RequestTimeoutError
from tests.support.sockets.peers import Line, Peer
from tests.support.sockets.transports import ask


def drip(line: Line, data: bytes, pieces: bytes = b"") -> None:
    """Send each byte after the previous one was received, and then continue forever."""
    for at in range(len(data)):
        line.send(data[at : at + 1])
        line.peer.release.wait(0.002)
    while pieces and not line.peer.release.is_set():
        line.send(pieces)
        line.peer.release.wait(0.002)


ENDLESS_HEADS = {
    "header lines": (b"HTTP/1.1 200 OK\r\n", b"x"),
    "status line": (b"HTTP/1.1 200 O", b"K"),
    "continues": (b"HTTP/1.1 100 Continue\r\n", b"a: b\r\n"),
    "nothing but line ends": (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nx: ", b" "),
}


@pytest.mark.parametrize("head", ENDLESS_HEADS)
def test_a_slow_response_head_has_a_total_time_limit(transport, head):
    def script(line: Line) -> None:
        line.request()
        drip(line, *ENDLESS_HEADS[head])

    with Peer(script) as peer, pytest.raises((RequestTimeoutError, BrokenStreamError)) as caught:
        ask(transport, peer.url, read_timeout=0.3)
    if isinstance(caught.value, RequestTimeoutError):
        assert "longer than the total time allowed" in str(caught.value)
        assert "read_timeout" in (caught.value.hint or "")


def test_endless_1xx_responses_are_refused(transport):
    def script(line: Line) -> None:
        line.request()
        while not line.peer.release.is_set():
            line.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)

    with Peer(script) as peer, pytest.raises(LimitExceededError, match="too many 1xx responses"):
        ask(transport, peer.url)


def test_a_few_1xx_responses_are_skipped(transport):
    def script(line: Line) -> None:
        line.request()
        line.send(b"HTTP/1.1 100 Continue\r\n\r\n" * 3)
        line.answer(b"here")

    with Peer(script) as peer, ask(transport, peer.url) as response:
        assert (response.status, response.read()) == (200, b"here")


@pytest.mark.parametrize("framing", ["length", "chunks", "chunk size", "trailers"])
def test_a_slow_document_has_a_total_time_limit(transport, framing):
    chunked = Line.headline(**{"Transfer-Encoding": "chunked"})
    begin, more = {
        "length": (Line.headline(**{"Content-Length": "1000000"}), b"x"),
        "chunks": (chunked, b"1\r\nx\r\n"),
        "chunk size": (chunked + b"1;", b"x"),
        "trailers": (chunked + b"0\r\na:", b"x"),
    }[framing]

    def script(line: Line) -> None:
        line.request()
        line.send(begin)
        drip(line, b"", more)

    with Peer(script) as peer, ask(transport, peer.url, document_timeout=0.3) as response:
        response.end_in_time()
        with pytest.raises((RequestTimeoutError, BrokenStreamError)) as caught:
            response.read()
    if isinstance(caught.value, RequestTimeoutError):
        assert "longer than the total time allowed" in str(caught.value)


def test_rows_and_blobs_have_no_total_time_limit(transport):
    def script(line: Line) -> None:
        line.request()
        line.send(line.headline(**{"Content-Length": "300"}))
        drip(line, b"x" * 300)

    with (
        Peer(script) as peer,
        ask(transport, peer.url, read_timeout=0.25, document_timeout=0.01) as response,
    ):
        assert response.read() == b"x" * 300
