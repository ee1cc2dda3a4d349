"""One Arrow stream off the wire: record batches, and the proof that they are all.

pyarrow takes a stream that stops between two messages for a whole one, and a body may be plain
IPC or inside a coding whatever was asked for (``docs/protocol.md`` sections 5.5, 10.1 no. 15). Here
the body is looked at before it is believed, and its end must be marked, at the end of the HTTP
body.
Rows carry no checksum: a damaged offset is found by a full validation of every batch, or by the
signal that ends the process when somebody looks at the value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import pyarrow as pa

from odps_nb.arrow.validation import validate
from odps_nb.errors import (
    FramingError,
    LimitExceededError,
    ProtocolError,
    StateError,
    TruncatedError,
)
from odps_nb.http.transport import HttpResponse
from odps_nb.terms import Compression
from odps_nb.wire.arrow_stream import (
    DEFAULT_MAX_BODY,
    DEFAULT_MAX_DECOMPRESSED,
    DEFAULT_MAX_METADATA,
    EndMarkerCheck,
    sniff_body,
)
from odps_nb.wire.codings import Decoder, decoder

__all__ = ["RowStream"]

PREFIX = 8  # bytes of continuation and length in front of every message
_HALF = 4


class _Direct:
    """A body that is IPC itself; each message lands in the buffer that Arrow keeps.

    Arrow asks for four bytes, four more (the length of a message), then for its parts. ``check``
    sees each before Arrow does.
    """

    closed = False

    def __init__(self, response: HttpResponse, head: bytes, check: EndMarkerCheck) -> None:
        self._response, self._check = response, check
        self._ahead = head  # the rest of a message's eight first bytes
        self.ran_short = False

    def read(self, n: int = -1) -> bytes:
        """Return ``n`` bytes, fewer only at the end: Arrow asks so for lengths."""
        if n > _HALF:
            return bytes(self.read_buffer(n))
        while len(self._ahead) < n and (more := self._take(PREFIX - len(self._ahead))):
            self._ahead += more
        data, self._ahead = self._ahead[:n], self._ahead[n:]
        self._check.feed(data)
        self.ran_short = self.ran_short or len(data) < n
        return data

    def read_buffer(self, n: int) -> Any:
        """Return ``n`` bytes as a buffer that nobody copies again: Arrow asks so for parts."""
        part = self._part(n)
        self._check.feed(memoryview(part))
        return part

    def finish(self) -> None:
        """Require that the stream ended with its marker, and the body with the stream."""
        self._check.require()
        if self._ahead or self._take(1):
            raise FramingError("bytes follow the end of the Arrow stream")

    def readable(self) -> bool:
        """Say yes: pyarrow asks."""
        return True

    def flush(self) -> None:
        """Do nothing: pyarrow asks."""

    def close(self) -> None:
        """Leave the response alone: its owner closes it."""

    def _take(self, n: int) -> bytes:
        return self._response.read(n)

    def _part(self, n: int) -> Any:
        head, self._ahead = self._ahead[:n], self._ahead[n:]
        buffer = pa.allocate_buffer(n)
        if head:
            memoryview(buffer).cast("B")[: len(head)] = head
            count = len(head) + self._response.readinto(memoryview(buffer)[len(head) :])
        else:
            count = self._response.readinto(buffer)
        if count == n:
            return buffer
        self.ran_short = True
        return buffer.slice(0, count)


class _Decoded(_Direct):
    """A body inside one zstd or LZ4 frame sequence."""

    def __init__(
        self, response: HttpResponse, head: bytes, check: EndMarkerCheck, coding: Compression
    ) -> None:
        super().__init__(response, b"", check)
        self._decoder: Decoder | None = decoder(coding)
        # Taken one by one: a kilobyte may become a gigabyte, if not of one message.
        self._pieces: Iterator[bytes] = self._decoder.pieces(head)
        self._ready: deque[memoryview] = deque()
        self._size = 0

    def _take(self, n: int) -> bytes:
        return bytes(self._decoded(n))

    def _part(self, n: int) -> Any:
        head, self._ahead = self._ahead[:n], self._ahead[n:]
        out = bytearray(head) + self._decoded(n - len(head)) if head else self._decoded(n)
        self.ran_short = self.ran_short or len(out) < n
        return pa.py_buffer(out)

    def _decoded(self, n: int) -> bytearray:
        while self._size < n and self._more():
            pass
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
        return out

    def _more(self) -> bool:
        """Decode some more; ``False`` once the coding ended where the body does."""
        while True:
            for piece in self._pieces:
                if piece:
                    self._ready.append(memoryview(piece))
                    self._size += len(piece)
                    return True
            if self._decoder is None:
                return False
            if data := self._response.read1():
                self._pieces = self._decoder.pieces(data)
            else:
                self._pieces, self._decoder = self._decoder.pieces_eof(), None


class RowStream:
    """Record batches of one answer, each validated whole; closing it closes the answer.

    Parameters
    ----------
    max_message
        Bytes of one Arrow message that are accepted.
    max_decompressed
        Bytes that a batch whose buffers are compressed may need.

    Raises
    ------
    TruncatedError
        The end marker is missing.
    FramingError
        The bytes are no Arrow stream, or Arrow finds them damaged.
    LimitExceededError
        A message is larger than accepted, or would be when it is decompressed.
    TransportError
        The connection broke, or HTTP's own length says that bytes are missing.
    """

    def __init__(
        self,
        response: HttpResponse,
        *,
        max_message: int = DEFAULT_MAX_BODY,
        max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
    ) -> None:
        self._response = response
        check = EndMarkerCheck(
            max_metadata=min(DEFAULT_MAX_METADATA, max_message),
            max_body=max_message,
            max_decompressed=max_decompressed,
        )
        self._ended = self._closed = False
        self._source: _Direct | None = None  # until the first bytes are there
        with self._translated():
            source = self._source = self._choose(check)
            self._reader: Any = pa.ipc.open_stream(pa.PythonFile(source, mode="r"))
            self.schema: pa.Schema = self._reader.schema

    @property
    def wire_bytes(self) -> int:
        """Bytes of the body so far."""
        return self._response.wire_bytes

    @property
    def arrived(self) -> int:
        """About the same, with what has come of the next batch; for other threads, too."""
        return self._response.arrived

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
        validate(batch)
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

    def _choose(self, check: EndMarkerCheck) -> _Direct:
        response = self._response
        head = response.read(4)
        kind = sniff_body(head, response.headers.get("content-encoding"))
        if kind == "ipc":
            return _Direct(response, head, check)
        return _Decoded(response, head, check, kind)

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

    def too_large(self, error: MemoryError) -> LimitExceededError:
        """Say that a message, true or not, is more than there is memory for."""
        return LimitExceededError(
            f"there is not memory enough for the next message of the Arrow stream: {error}",
            offset=self._response.wire_bytes,
            request_id=self.request_id,
            hint="read in smaller batches; or the stream is damaged",
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
        elif isinstance(error, MemoryError):
            raise self._stream.too_large(error) from error
        elif isinstance(error, (pa.ArrowException, OSError, ValueError)):
            raise self._stream.damage(error) from error
