"""Adapts Starlette to the service: reads request bodies to the end and streams responses."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from odps_nb.local import errors
from odps_nb.local.routes.body_writer import (
    BodyWriter,
    Bytes,
    Some,
    TurnEnd,
    direct_transport,
    take_some,
)
from odps_nb.local.store.folder import DataFolder
from odps_nb.terms import Compression
from odps_nb.wire.calls import WireRequest, find_header

SPOOL = 4 << 20
MAX_SMALL_BODY = 64 << 20
_AT_ONCE = 512  # chunks per system call; the system's limit is 1024

T = TypeVar("T")


async def run(pool: Executor, work: Callable[..., T], *arguments: Any) -> T:
    """Run a blocking callable in a worker thread and return its result."""
    return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)


async def body_bytes(request: Request, limit: int = MAX_SMALL_BODY) -> bytes:
    """Read a small body; if it exceeds the limit, read it to the end and raise 400."""
    parts, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= limit:
            parts.append(chunk)
    if size > limit:
        raise errors.invalid(f"the body has {size} bytes; this request accepts at most {limit}")
    return b"".join(parts)


async def body_file(request: Request, folder: DataFolder, pool: Executor, limit: int) -> Path:
    """Receive a body into a work file, which the caller deletes or renames."""
    path = folder.work_file(".body")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    held: list[bytes] = []
    waiting = size = 0
    writing: asyncio.Future[None] | None = None
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                continue  # read to the end, discarding the data
            held.append(chunk)
            waiting += len(chunk)
            if waiting >= SPOOL:
                if writing is not None:
                    await writing
                writing = asyncio.ensure_future(run(pool, _write, fd, held))
                held, waiting = [], 0
        if size > limit:
            raise errors.invalid(f"the body has {size} bytes; at most {limit} are accepted")
        if writing is not None:
            await writing
        _write(fd, held)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        if writing is not None:
            # the file must stay open while a thread writes to it
            await asyncio.gather(writing, return_exceptions=True)
        os.close(fd)
    return path


def _write(fd: int, chunks: list[bytes]) -> None:
    for at in range(0, len(chunks), _AT_ONCE):
        batch = chunks[at : at + _AT_ONCE]
        done = os.writev(fd, batch)
        if done < sum(map(len, batch)):
            rest = memoryview(b"".join(batch))[done:]
            while rest:
                rest = rest[os.write(fd, rest) :]


async def drain(request: Request) -> None:
    """Read and discard the remaining body."""
    # the client may have disconnected, or the body may already have been read
    with suppress(ClientDisconnect, RuntimeError):
        async for _ in request.stream():
            pass


class StreamedResponse(Response):
    """A response whose chunks come from a generator that runs in worker threads.

    The first chunks are produced before the response is created, so that an early failure results
    in an error document. A later failure aborts the connection, so the client detects a broken
    body.
    """

    def __init__(
        self,
        first: Some,
        source: Generator[Bytes, None, None],
        pool: Executor,
        *,
        media_type: str,
        headers: Mapping[str, str],
    ) -> None:
        self._first, self._source, self._pool = first, source, pool
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.body = b""
        self.init_headers(headers)
        # Starlette's Response sets the length of an empty body, but this body is chunked
        self.raw_headers = [h for h in self.raw_headers if h[0] != b"content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the status, the chunks and the end of the body; stop if the client disconnects."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if self._first.is_end:
            await _send_all(self._first.chunks, send, is_end=True)
            return
        # the server silently drops data for a closed connection, so watch for the disconnect
        gone = asyncio.ensure_future(_disconnect(receive))
        try:
            transport = direct_transport(scope)
            if transport is not None:
                await self._send_directly(transport, gone, send)
            else:
                await self._send_messages(gone, send)
        finally:
            gone.cancel()

    async def _send_directly(self, transport: Any, gone: asyncio.Future[None], send: Send) -> None:
        """Write the chunks directly to the socket; the server then sends the final chunk."""
        writer = BodyWriter(transport.get_extra_info("socket"), self._first.chunks, self._source)
        state = TurnEnd.SOME
        writing: asyncio.Future[TurnEnd] | None = None
        loop = asyncio.get_running_loop()
        try:
            while state is not TurnEnd.ALL and not gone.done():
                writing = loop.run_in_executor(self._pool, writer.write)
                state, writing = await writing, None
                if state is TurnEnd.FULL:
                    await writer.until_writable(gone)
                elif state is TurnEnd.BROKEN:
                    transport.abort()
                    await gone
        finally:
            await self._put_away(writing, is_end=state is TurnEnd.ALL)
            writer.close()
        if state is TurnEnd.ALL:
            await _send_all([], send, is_end=True)

    async def _send_messages(self, gone: asyncio.Future[None], send: Send) -> None:
        """Send the chunks as ASGI messages, so that middleware can change them."""
        current = self._first
        upcoming: asyncio.Future[Some] | None = None
        loop = asyncio.get_running_loop()
        try:
            while not (current.is_end or gone.done()):
                upcoming = loop.run_in_executor(self._pool, take_some, self._source)
                await _send_all(current.chunks, send, is_end=False)
                current, upcoming = await upcoming, None
            if current.is_end:
                await _send_all(current.chunks, send, is_end=True)
        finally:
            await self._put_away(upcoming, is_end=current.is_end)

    async def _put_away(self, working: asyncio.Future[Any] | None, *, is_end: bool) -> None:
        """Close the source after its worker has stopped. (A running generator cannot be closed.)"""
        if working is not None:
            await asyncio.wait([working])
        if not is_end:
            await asyncio.get_running_loop().run_in_executor(self._pool, self._source.close)


async def _send_all(chunks: list[Bytes], send: Send, *, is_end: bool) -> None:
    body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    await send({"type": "http.response.body", "body": body, "more_body": not is_end})


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Client(Enum):
    """Client families that need different response forms."""

    JAVA = "java"
    MAXST = "maxst"
    SAPI2 = "sapi2"
    OTHER = "other"


def identify(wire: WireRequest) -> Client:
    """Return the family of the client that made a request."""
    agent = find_header(wire.headers, "user-agent") or ""
    if agent.startswith("JavaSDK"):
        return Client.JAVA
    if not agent.startswith("pyodps/") or wire.path.startswith("/api/storage/v1/"):
        return Client.OTHER
    params = dict(wire.params)
    target = params.get("Target", "")
    plain_table = ".tables." in target and ".schemas." not in target
    traced = find_header(wire.headers, "odps-tunnel-retry-index") is not None
    return Client.MAXST if traced or plain_table or "curr_schema" in params else Client.SAPI2


def row_codings(client: Client, requested: Compression) -> tuple[Compression, Compression]:
    """Return the Arrow IPC buffer codec and the HTTP content coding for a read."""
    if client is Client.MAXST:
        return Compression.NONE, requested
    return requested, Compression.NONE


def blob_coding(client: Client, requested: Compression) -> Compression:
    """Return the coding of a blob download; none for pyodps, whose decoding is unreliable."""
    if client is Client.JAVA:
        return Compression.LZ4
    return requested if client is Client.OTHER else Compression.NONE
