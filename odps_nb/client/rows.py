"""One Arrow stream off the wire: record batches, and the proof that they are all (floor 3).

pyarrow takes a stream that stops between two messages for a whole one, and a body may be plain
IPC or inside a coding whatever was asked for (``protocol.md`` 5.5, 10.1 no. 15). Here the body
is looked at before it is believed, and its end must be marked, at the end of the HTTP body.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Any

import pyarrow as pa

from odps_nb.errors import (
    FramingError,
    LimitExceededError,
    ProtocolError,
    StateError,
    TruncatedError,
)
from odps_nb.http.transport import HttpResponse
from odps_nb.terms import Compression
from odps_nb.wire.arrow_stream import EndMarkerCheck, sniff_body
from odps_nb.wire.codings import Decoder, decoder

__all__ = ["MAX_MESSAGE", "RowStream"]

MAX_MESSAGE = 1 << 31
"""Bytes of one Arrow message that are accepted."""


class _Direct:
    """A body that is IPC itself; each message lands in the buffer that Arrow keeps."""

    closed = False
    ran_short = False
    """Whether somebody asked for more bytes than there were."""

    def __init__(self, response: HttpResponse, head: bytes, max_message: int) -> None:
        self._response, self._head, self._max_message = response, head, max_message
        self.check = EndMarkerCheck()

    def read(self, n: int = -1) -> bytes:
        """Return ``n`` bytes, fewer only at the end: lengths and other small parts."""
        return bytes(self.read_buffer(n))

    def read_buffer(self, n: int) -> Any:
        """Return ``n`` bytes as a buffer that nobody copies again; Arrow asks for this one."""
        if n > self._max_message:
            raise LimitExceededError(
                f"an Arrow message of {n} bytes is over the limit",
                limit=self._max_message,
                actual=n,
                hint="ask for fewer rows per batch; or the stream is damaged",
            )
        buffer = pa.allocate_buffer(n)
        view = memoryview(buffer).cast("B")
        have = len(self._head)
        if have:
            taken = min(have, n)
            view[:taken], self._head = self._head[:taken], self._head[taken:]
            have = taken
        count = have + (self._response.readinto(view[have:]) if have < n else 0)
        self.check.feed(view[:count])
        if count < n:
            self.ran_short = True
            return buffer.slice(0, count)
        return buffer

    def finish(self) -> None:
        """Require that the stream ended with its marker, and the body with the stream."""
        self.check.require()
        if self._response.read1(1):
            raise FramingError("bytes follow the end of the Arrow stream")

    def readable(self) -> bool:
        """Say yes: pyarrow asks."""
        return True

    def flush(self) -> None:
        """Do nothing: pyarrow asks."""

    def close(self) -> None:
        """Leave the response alone: its owner closes it."""


class _Decoded(_Direct):
    """A body inside one zstd or LZ4 frame sequence."""

    def __init__(
        self, response: HttpResponse, head: bytes, max_message: int, coding: Compression
    ) -> None:
        super().__init__(response, b"", max_message)
        self._decoder: Decoder | None = decoder(coding)
        self._ready: deque[memoryview] = deque()
        self._size = 0
        self._take(self._decoder.feed(head))

    def read_buffer(self, n: int) -> Any:
        """Return ``n`` decoded bytes, fewer only at the end."""
        if n > self._max_message:
            return super().read_buffer(n)  # raises
        while self._size < n and self._more():
            pass
        self.ran_short = self._size < n
        out = bytearray(min(n, self._size))
        at = 0
        while at < len(out):
            piece = self._ready.popleft()
            part = piece[: len(out) - at]
            out[at : at + len(part)] = part
            at += len(part)
            if len(part) < len(piece):
                self._ready.appendleft(piece[len(part) :])
        self._size -= at
        self.check.feed(memoryview(out))
        return pa.py_buffer(out)

    def finish(self) -> None:
        """Require the marker, the end of the coding and the end of the body in one place."""
        self.check.require()
        while self._more():
            pass
        if self._size:
            raise FramingError("bytes follow the end of the Arrow stream")

    def _more(self) -> bool:
        if self._decoder is None:
            return False
        data = self._response.read1()
        if data:
            self._take(self._decoder.feed(data))
            return True
        self._take(self._decoder.feed_eof())
        self._decoder = None
        return bool(self._size)

    def _take(self, data: bytes) -> None:
        if data:
            self._ready.append(memoryview(data))
            self._size += len(data)


class RowStream:
    """Record batches of one answer; closing it closes the answer.

    Raises
    ------
    TruncatedError
        The end marker is missing.
    FramingError
        The bytes are no Arrow stream, or Arrow finds them damaged.
    TransportError
        The connection broke, or HTTP's own length says that bytes are missing.
    """

    def __init__(self, response: HttpResponse, *, max_message: int = MAX_MESSAGE) -> None:
        self._response = response
        self._ended = self._closed = False
        self._source: _Direct | None = None  # until the first bytes are there
        with self._translated():
            source = self._source = self._choose(max_message)
            self._reader: Any = pa.ipc.open_stream(pa.PythonFile(source, mode="r"))
        self.schema: pa.Schema = self._reader.schema

    @property
    def wire_bytes(self) -> int:
        """Bytes of the body so far."""
        return self._response.wire_bytes

    @property
    def request_id(self) -> str | None:
        """The server's id of this answer."""
        return self._response.request_id

    def next(self) -> pa.RecordBatch | None:
        """Return the next batch that has rows; ``None`` once the stream is proved whole."""
        if self._closed and not self._ended:
            raise StateError("the stream is closed")
        while not self._ended:
            with self._translated():
                batch = self._advance()
            if batch is not None and batch.num_rows:
                return batch
        return None

    def _advance(self) -> pa.RecordBatch | None:
        try:
            batch = self._reader.read_next_batch()
        except StopIteration:
            if self._source is not None:
                self._source.finish()
            self._ended = True
            return None
        batch.validate()
        return batch

    def close(self) -> None:
        """Free the connection. Idempotent."""
        self._closed = True
        self._response.close()

    def __enter__(self) -> RowStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def _choose(self, max_message: int) -> _Direct:
        response = self._response
        head = response.read(4)
        kind = sniff_body(head, response.headers.get("content-encoding"))
        if kind == "ipc":
            return _Direct(response, head, max_message)
        return _Decoded(response, head, max_message, kind)

    def _translated(self) -> _ArrowErrors:
        return _ArrowErrors(self)

    def damage(self, error: Exception) -> ProtocolError:
        """Say in our words what Arrow found."""
        short = self._source is not None and self._source.ran_short
        kind = TruncatedError if short else FramingError
        return kind(
            f"the Arrow stream is {'cut' if short else 'damaged'}: {error}",
            offset=self._response.wire_bytes,
            request_id=self.request_id,
            hint="read again; quote the request id if it persists",
        )


class _ArrowErrors:
    """Arrow's complaints about bytes become ours; ours get the request id."""

    __slots__ = ("_stream",)

    def __init__(self, stream: RowStream) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if isinstance(error, ProtocolError):
            error.request_id = error.request_id or self._stream.request_id
        elif isinstance(error, (pa.ArrowException, OSError, ValueError)):
            raise self._stream.damage(error) from error
