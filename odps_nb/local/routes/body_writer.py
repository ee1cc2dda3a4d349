"""Writes a long response body to its socket from a worker thread, in chunks (RFC 9112, 7.1).

Through uvicorn, each megabyte costs two thread switches and up to three copies. Here, a worker
thread sends a megabyte with one system call. h11 sends the response head and the last chunk.
"""

from __future__ import annotations

import asyncio
import enum
import select
import socket
from collections.abc import Generator
from typing import Any, NamedTuple

from starlette.types import Scope

Bytes = bytes | memoryview

CHUNK_BYTES = 1 << 20
"""The number of bytes that a worker produces before it sends them."""
TURN_BYTES = 8 << 20
"""The number of bytes after which a worker thread yields to other responses."""
PATIENCE = 0.005
"""The time in seconds that a worker waits for a client whose receive buffer is full."""
_MOST_PIECES = 1000  # pieces per system call; the system's limit is 1024


class TurnEnd(enum.Enum):
    """The reason why `BodyWriter.write` returned."""

    ALL = "all"
    SOME = "some"
    FULL = "full"
    """The socket buffer is full; wait until it is writable."""
    BROKEN = "broken"
    """The client has disconnected."""


def direct_transport(scope: Scope) -> Any | None:
    """Return the transport if its socket may be written to directly now, else ``None``.

    Requires HTTP/1.1 (for chunks) and no middleware that reads the ASGI messages. The socket must
    already have sent all data that the server has written.
    """
    state = scope.get("state", {})
    if scope["http_version"] != "1.1" or scope["method"] == "HEAD" or not state.get("direct"):
        return None
    transport = state["connection"].transport
    return None if transport.get_write_buffer_size() else transport


class Some(NamedTuple):
    """Some chunks of a response, and whether the last chunk is among them."""

    chunks: list[Bytes]
    is_end: bool


def take_some(source: Generator[Bytes, None, None]) -> Some:
    """Take chunks until they add up to a megabyte or the source ends."""
    chunks: list[Bytes] = []
    size = 0
    while size < CHUNK_BYTES:
        chunk = next(source, None)
        if chunk is None:
            return Some(chunks, is_end=True)
        chunks.append(chunk)
        size += len(chunk)
    return Some(chunks, is_end=False)


class BodyWriter:
    """Writes one response body: ``first``, then ``source``. The caller must call `close`."""

    def __init__(self, sock: Any, first: list[Bytes], source: Generator[Bytes, None, None]) -> None:
        self._socket = socket.socket(fileno=socket.dup(sock.fileno()))
        self._socket.setblocking(False)
        self._source = source
        self._pieces: list[Bytes] = []
        self._begun = self._ended = False
        self._frame(first)

    def write(self) -> TurnEnd:
        """Send chunks until the body ends, `TURN_BYTES` are sent, or the client falls behind."""
        sent = 0
        try:
            while True:
                while self._pieces:
                    if not (count := self._send()):
                        return TurnEnd.FULL
                    sent += count
                if self._ended:
                    return TurnEnd.ALL
                if sent >= TURN_BYTES:
                    return TurnEnd.SOME
                chunks, self._ended = take_some(self._source)
                self._frame(chunks)
                if self._ended:
                    self._pieces.append(b"\r\n")
        except (ConnectionError, TimeoutError):
            return TurnEnd.BROKEN

    async def until_writable(self, gone: asyncio.Future[Any]) -> None:
        """Wait until the socket is writable or the client has disconnected."""
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_writer(self._socket, ready.set)
        waiting: asyncio.Future[Any] = asyncio.ensure_future(ready.wait())
        try:
            await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            loop.remove_writer(self._socket)

    def close(self) -> None:
        """Close the duplicate of the socket. Idempotent."""
        self._socket.close()

    def _frame(self, chunks: list[Bytes]) -> None:
        size = sum(map(len, chunks))
        if not size:  # an empty chunk would end the body
            return
        if len(chunks) > _MOST_PIECES:
            chunks = [b"".join(chunks)]
        self._pieces += [b"%s%x\r\n" % (b"\r\n" if self._begun else b"", size), *chunks]
        self._begun = True

    def _send(self) -> int:
        """Send some pieces; return the number of bytes sent, or 0 if the socket stays full."""
        try:
            count = self._socket.sendmsg(self._pieces)
        except BlockingIOError:
            waiting = select.poll()
            waiting.register(self._socket, select.POLLOUT)
            if not waiting.poll(PATIENCE * 1e3):
                return 0
            try:
                count = self._socket.sendmsg(self._pieces)
            except BlockingIOError:
                return 0
        self._drop(count)
        return count

    def _drop(self, count: int) -> None:
        """Remove the first ``count`` bytes, which have been sent."""
        pieces = self._pieces
        while pieces and count >= len(pieces[0]):
            count -= len(pieces.pop(0))
        if count:
            pieces[0] = memoryview(pieces[0])[count:]
