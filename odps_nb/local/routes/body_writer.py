"""Writes a long response body to its socket from a worker thread, in chunks (RFC 9112, 7.1).

Through uvicorn, each megabyte takes two turns of a thread and up to three copies; here a worker
sends it with one system call. h11 sends the head of the response and the last chunk.
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
"""Bytes that a worker produces before they are sent."""
TURN_BYTES = 8 << 20
"""Bytes after which a worker lets others in."""
PATIENCE = 0.005
"""Seconds that a worker waits for a client that takes nothing more."""
_MOST_PIECES = 1000  # of one call; the system takes 1024


class TurnEnd(enum.Enum):
    """What a turn of a worker ended with."""

    ALL = "all"
    SOME = "some"
    FULL = "full"
    """The client has not taken what was sent; wait until it does."""
    BROKEN = "broken"
    """The client is gone."""


def direct_transport(scope: Scope) -> Any | None:
    """Return the transport whose socket may be written to now, or ``None``.

    Only HTTP/1.1 has chunks, no middleware may need the messages, and what the server wrote so far
    must have been sent.
    """
    state = scope.get("state", {})
    if scope["http_version"] != "1.1" or scope["method"] == "HEAD" or not state.get("direct"):
        return None
    transport = state["connection"].transport
    return None if transport.get_write_buffer_size() else transport


class Some(NamedTuple):
    """Chunks of a response, and whether they are its last ones."""

    chunks: list[Bytes]
    is_end: bool


def take_some(source: Generator[Bytes, None, None]) -> Some:
    """Take chunks until there is a megabyte, or no more."""
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
    """The body of one response, in chunks: ``first`` and then ``source``; close it in any case."""

    def __init__(self, sock: Any, first: list[Bytes], source: Generator[Bytes, None, None]) -> None:
        self._socket = socket.socket(fileno=socket.dup(sock.fileno()))
        self._socket.setblocking(False)
        self._source = source
        self._pieces: list[Bytes] = []
        self._begun = self._ended = False
        self._frame(first)

    def write(self) -> TurnEnd:
        """Produce and send until the body ends, the turn is over, or the client is slow."""
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
                self._take()
        except (ConnectionError, TimeoutError):
            return TurnEnd.BROKEN

    async def until_writable(self, gone: asyncio.Future[Any]) -> None:
        """Wait until the client takes more, or is gone."""
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

    def _take(self) -> None:
        chunks, self._ended = take_some(self._source)
        self._frame(chunks)
        if self._ended:
            self._pieces.append(b"\r\n")

    def _frame(self, chunks: list[Bytes]) -> None:
        size = sum(map(len, chunks))
        if not size:  # a chunk without data would end the body
            return
        if len(chunks) > _MOST_PIECES:
            chunks = [b"".join(chunks)]
        self._pieces += [b"%s%x\r\n" % (b"\r\n" if self._begun else b"", size), *chunks]
        self._begun = True

    def _send(self) -> int:
        """Send some of the pieces; 0 if the client takes none within `PATIENCE`."""
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
        """Forget what was sent."""
        pieces = self._pieces
        while pieces and count >= len(pieces[0]):
            count -= len(pieces.pop(0))
        if count:
            pieces[0] = memoryview(pieces[0])[count:]
