"""Long responses of the embedded service, whatever the client does in the meantime."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import psutil
import pyarrow as pa
import pytest

from odps_nb.local.routes.body_writer import BodyWriter, TurnEnd, direct_transport
from odps_nb.local.server.launch import LocalService, start
from odps_nb.terms import IndexSplit
from odps_nb.wire import calls
from odps_nb.wire.signing import Credentials, sign
from tests.support.service.peer import Peer

# 17 MB: more than a worker writes at once, and more than the socket buffers hold
ROWS = pa.table({"id": pa.array(range(1_200_000)), "note": ["ä"] * 1_200_000})
WITHIN = 60.0


@pytest.fixture(scope="module")
def large() -> Iterator[LocalService]:
    with start(samples=False) as running:
        peer = Peer(running)
        peer.sql("CREATE TABLE large (id bigint, note string);")
        peer.write("large", ROWS)
        peer.session.close()
        yield running


@pytest.fixture
def peer(large: LocalService) -> Iterator[Peer]:
    peer = Peer(large)
    yield peer
    peer.session.close()


def request_of(peer: Peer) -> calls.WireRequest:
    session = peer.open_read("large")
    request = calls.ReadRows(
        table=peer.table("large"), session_id=session.session_id, split=IndexSplit(0)
    )
    return request.encode()


def sent_requests(
    service: LocalService, wire: calls.WireRequest, *, version: str = "1.1", times: int = 1
) -> socket.socket:
    """Send a number of requests in an HTTP version over a new socket."""
    url = wire.url(service.tunnel_endpoint)
    parts = urlsplit(url)
    headers = {**dict(wire.headers), "Host": parts.netloc}
    headers |= sign(
        wire.method,
        url,
        headers,
        endpoint=service.tunnel_endpoint,
        credentials=Credentials(access_id=service.access_id, access_key=service.access_key),
        now=time.time(),
    )
    body = wire.body or b""
    headers["Content-Length"] = str(len(body))
    lines = [f"{wire.method} {parts.path}?{parts.query} HTTP/{version}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    link = socket.create_connection((parts.hostname, parts.port), timeout=WITHIN)
    link.sendall(("\r\n".join([*lines, "", ""]).encode() + body) * times)
    return link


def test_pipelined_requests_get_responses_in_order(peer: Peer, large: LocalService) -> None:
    """The next response begins before the client has received the end of the previous one."""
    wire = request_of(peer)
    with sent_requests(large, wire) as link:
        size = len(read_response(link))
    with sent_requests(large, wire, times=3) as link:
        for _ in range(3):
            parts, left = [], size
            while left:
                part = link.recv(min(left, 2048))  # slower than the service
                assert part
                parts.append(part)
                left -= len(part)
            head, _, chunked = b"".join(parts).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert rows_in(unchunked(chunked)) == ROWS


def read_response(link: socket.socket) -> bytes:
    found = bytearray()
    while not found.endswith(b"\r\n0\r\n\r\n"):
        found += link.recv(200_000 if len(found) > 1_000_000 else 1000)
    return bytes(found)


def rest(link: socket.socket) -> bytes:
    parts = []
    while part := link.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)


def rows_in(body: bytes) -> pa.Table:
    return pa.ipc.open_stream(body).read_all()


def test_a_long_body_is_complete_and_its_connection_is_reused(peer: Peer) -> None:
    wire = request_of(peer)
    for _ in range(3):
        assert rows_in(peer.ok(wire).content) == ROWS


def test_a_client_of_http_1_0_gets_a_body_without_chunks(peer: Peer, large: LocalService) -> None:
    with sent_requests(large, request_of(peer), version="1.0") as link:
        head, _, body = rest(link).partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert rows_in(body) == ROWS


def test_stalled_clients_do_not_block_workers(peer: Peer, large: LocalService) -> None:
    wire = request_of(peer)
    waiting = [sent_requests(large, wire) for _ in range(40)]  # more than the number of workers
    try:
        assert rows_in(peer.ok(wire).content) == ROWS
        for link in waiting:  # slow clients receive every byte
            while not (part := link.recv(4096)).startswith(b"HTTP/1.1 200"):
                assert part
    finally:
        for link in waiting:
            link.close()


def test_a_slow_client_gets_every_byte(peer: Peer, large: LocalService) -> None:
    with sent_requests(large, request_of(peer)) as link:
        found = read_response(link)
    head, _, chunked = found.partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head.lower()
    assert rows_in(unchunked(chunked)) == ROWS


def unchunked(data: bytes) -> bytes:
    parts, at = [], 0
    while True:
        end = data.index(b"\r\n", at)
        size = int(data[at:end], 16)
        if not size:
            assert data[end:] == b"\r\n\r\n"
            return b"".join(parts)
        parts.append(data[end + 2 : end + 2 + size])
        at = end + 2 + size
        assert data[at : at + 2] == b"\r\n"
        at += 2


def test_a_disconnected_client_leaves_no_open_socket(peer: Peer, large: LocalService) -> None:
    wire = request_of(peer)
    assert rows_in(peer.ok(wire).content) == ROWS
    service = psutil.Process(large.pid)
    before = service.num_fds()
    for _ in range(20):
        with sent_requests(large, wire) as link:
            assert link.recv(4096)
    give_up = time.monotonic() + WITHIN
    while service.num_fds() > before:
        assert time.monotonic() < give_up, "sockets of disconnected clients are open"
        time.sleep(0.01)


class Pending:
    """A transport that still has a number of bytes to send."""

    def __init__(self, waiting: int) -> None:
        self.transport, self._waiting = self, waiting

    def get_write_buffer_size(self) -> int:
        return self._waiting


@pytest.mark.parametrize(
    ("changed", "waiting", "direct"),
    [
        ({}, 0, True),
        ({}, 1, False),  # later writes must not overtake a pending head
        ({"http_version": "1.0"}, 0, False),
        ({"method": "HEAD"}, 0, False),
        ({"state": {}}, 0, False),
    ],
)
def test_a_body_is_written_directly_only_in_http_1_1_after_all_earlier_data(
    changed: dict[str, Any], waiting: int, direct: bool
) -> None:
    state = {"connection": Pending(waiting), "direct": True}
    scope = {"http_version": "1.1", "method": "POST", "state": state, **changed}
    assert (direct_transport(scope) is not None) is direct


@pytest.mark.parametrize(
    ("first", "rest"),
    [([b"abc"], []), ([b""], [b"", b"abc", b""]), ([b"a"] * 3000, [b"b"] * 3000)],
)
def test_any_number_of_chunks_becomes_one_body_without_the_final_chunk(
    first: list[bytes], rest: list[bytes]
) -> None:
    ours, theirs = socket.socketpair()
    writer = BodyWriter(ours, first, (one for one in rest))
    with ours, theirs:
        assert writer.write() is TurnEnd.ALL
        writer.close()
        ours.close()
        sent = b"".join(iter(lambda: theirs.recv(1 << 16), b""))
    body = b""
    while sent:
        head, _, sent = sent.partition(b"\r\n")
        length = int(head, 16)
        assert length > 0
        assert sent[length : length + 2] == b"\r\n"
        body, sent = body + sent[:length], sent[length + 2 :]
    assert body == b"".join([*first, *rest])


def test_a_closed_connection_ends_a_body() -> None:
    ours, theirs = socket.socketpair()
    writer = BodyWriter(ours, [b"abc"], (one for one in [b"abc"]))
    theirs.close()
    with ours:
        assert writer.write() is TurnEnd.BROKEN
    writer.close()
