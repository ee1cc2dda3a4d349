"""Record batches of a body (face)."""

from __future__ import annotations

import io
import threading
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from odps_nb._stream_io.ahead import OneAhead
from odps_nb._stream_io.payload import DecodedStream
from odps_nb._stream_io.raw import content_encoding_of
from odps_nb._stream_io.reader import Status, StreamReader
from odps_nb.errors import (
    FramingError,
    LimitExceededError,
    OdpsNbError,
    ProtocolError,
    StateError,
    TruncatedError,
)
from odps_nb.terms import Compression
from odps_nb.wire.arrow_stream import (
    DEFAULT_MAX_BODY,
    DEFAULT_MAX_DECOMPRESSED,
    EndMarkerCheck,
    sniff_body,
)
from odps_nb.wire.codings import decoder

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowReader"]


class _IpcSource:
    """What pyarrow reads from: plain IPC bytes, watched from message to message."""

    closed = False

    def __init__(self, stream: StreamReader, check: EndMarkerCheck, max_output: int | None) -> None:
        self._answer, self.check = stream, check
        self._max_output = max_output
        self._plain: io.BufferedIOBase | None = None
        self._head = b""
        self.failed = False

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer only at the end: lengths and other small parts."""
        return bytes(self.read_buffer(size))

    def read_buffer(self, size: int) -> Any:
        """Return the same as memory that Arrow keeps without a copy; it asks for this one."""
        import pyarrow as pa

        self.failed = True  # until the steps below have succeeded
        plain = self._plain or self._begin()
        buffer = pa.allocate_buffer(size)
        view = memoryview(buffer).cast("B")
        have = min(len(self._head), size)
        view[:have], self._head = self._head[:have], self._head[have:]
        count = have + plain.readinto(view[have:])
        self.check.feed(view[:count])
        self.failed = False
        return buffer if count == size else buffer.slice(0, count)

    def _begin(self) -> io.BufferedIOBase:
        first = self._answer.read(4)
        found = sniff_body(first, content_encoding_of(self._answer))
        if isinstance(found, Compression):
            decoding = decoder(found, max_output=self._max_output)
            self._plain = DecodedStream(self._answer, decoding, head=first)
        else:
            self._plain, self._head = self._answer, first
        return self._plain


class _Batches:
    """Batch after batch of a stream, and the proof that they are all; knows no reader."""

    def __init__(
        self,
        stream: StreamReader,
        check: EndMarkerCheck,
        expected_rows: int | None,
        max_output: int | None,
    ) -> None:
        self._stream = stream
        self._source = _IpcSource(stream, check, max_output)
        self._expected_rows = expected_rows
        self._lock = threading.Lock()  # the schema may be asked for while a batch is on its way
        self._reader: Any = None

    def schema(self) -> pa.Schema:
        """Return the schema, opening the stream if need be."""
        return self._translated(self._opened).schema

    def read(self) -> pa.RecordBatch | None:
        """Return the next batch; ``None`` at the proven end."""
        return self._translated(self._next)

    def _opened(self) -> Any:
        import pyarrow as pa

        with self._lock:
            if self._reader is None:
                self._reader = pa.ipc.open_stream(self._source)
        return self._reader

    def _next(self) -> pa.RecordBatch | None:
        try:
            batch = self._opened().read_next_batch()
        except StopIteration:
            self._source.check.require(rows=self._expected_rows)
            self._source.read(1)  # the end of the body, which the check requires to be here
            return None
        from odps_nb.arrow.validation import validate

        # A damaged offset would otherwise end the process when somebody looks at the value.
        validate(batch)
        return batch

    def _translated(self, step: Callable[[], Any]) -> Any:
        import pyarrow as pa

        try:
            return step()
        except ProtocolError as error:
            error.request_id = error.request_id or self._stream.request_id
            raise
        except MemoryError as error:
            raise self._ours(error) from error
        except (pa.ArrowException, OSError, ValueError) as error:
            if self._source.failed:
                raise
            raise self._ours(error) from error

    def _ours(self, error: Exception) -> OdpsNbError:
        check = self._source.check
        facts = {"offset": check.total, "request_id": self._stream.request_id}
        if isinstance(error, MemoryError):
            return LimitExceededError(
                f"there is not memory enough for the next message of the Arrow stream: {error}",
                hint="read in smaller batches; or the stream is damaged",
                **facts,
            )
        if not check.complete and self._stream.get_status() is Status.OK:
            return TruncatedError(
                f"the Arrow stream stops after {check.total} bytes inside a message",
                actual=check.total,
                hint="batches are missing; read the split again or resume it",
                **facts,
            )
        return FramingError(f"pyarrow cannot read the stream: {error}", **facts)


class ArrowReader:
    """The record batches of a table read; iterate, or `read` until ``None``.

    The stream must end with its end marker, and with ``expected_rows`` rows where given: the
    last batch is followed by an error otherwise, never by silence.

    Parameters
    ----------
    stream_reader
        A `StreamReader`; closed by `close`. Its body may be IPC, or IPC inside of zstd or LZ4
        (``docs/protocol.md`` section 5.5).
    expected_rows
        How many rows the session promised; ``None`` when it does not say.
    max_batch
        Bytes of one batch that are accepted.
    max_decompressed
        Bytes that a batch may need whose buffers are compressed; known before they are
        decompressed.
    max_output
        Bytes that a coding around the stream may decode to.
    prefetch
        Read the next batch while the last one is worked on, in a helper thread that ends with
        the stream, with `close`, and with the reader itself.

    Raises
    ------
    TruncatedError
        Of the iteration: the stream stops too early.
    FramingError
        What arrives is no Arrow stream, goes on behind its end, or has values that are damaged:
        every batch is validated in full.
    LimitExceededError
        A batch is larger than ``max_batch``, or needs more than ``max_decompressed``.

    Examples
    --------
    >>> import io, pyarrow as pa
    >>> from odps_nb.stream_io import ArrowReader, StreamReader
    >>> sink = pa.BufferOutputStream()
    >>> with pa.ipc.new_stream(sink, pa.schema({"id": pa.int64()})) as stream:
    ...     stream.write(pa.record_batch({"id": [1, 2, 3]}))
    >>> body = io.BytesIO(sink.getvalue().to_pybytes())
    >>> with ArrowReader(StreamReader(body), expected_rows=3) as reader:
    ...     [batch.num_rows for batch in reader]
    [3]
    """

    def __init__(
        self,
        stream_reader: StreamReader,
        *,
        expected_rows: int | None = None,
        max_batch: int = DEFAULT_MAX_BODY,
        max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
        max_output: int | None = None,
        prefetch: bool = False,
    ) -> None:
        self._stream = stream_reader
        check = EndMarkerCheck(max_body=max_batch, max_decompressed=max_decompressed)
        self._batches = _Batches(stream_reader, check, expected_rows, max_output)
        self._ahead: OneAhead[pa.RecordBatch] | None = None
        if prefetch:
            self._ahead = OneAhead(self._batches.read, stream_reader.abort)
            weakref.finalize(self, self._ahead.close)
        self._status = Status.RUNNING
        self._closed = False

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches. Reads the beginning of the stream if need be."""
        return self._guarded(self._batches.schema)

    def read(self) -> pa.RecordBatch | None:
        """Return the next batch; ``None`` at the proven end."""
        if self._status is Status.OK and not self._closed:
            return None
        batch = self._guarded(self._batches.read if self._ahead is None else self._ahead.take)
        if batch is None:
            self._status = Status.OK
        return batch

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = self.read()
        if batch is None:
            raise StopIteration
        return batch

    def _guarded(self, step: Callable[[], Any]) -> Any:
        if self._closed:
            raise StateError("the reader is closed", hint="read it before closing it")
        if self._status is Status.FAILED:
            raise StateError("the reader failed before; what follows a defect means nothing")
        before, self._status = self._status, Status.FAILED
        result = step()
        self._status = before
        return result

    def get_status(self) -> Status:
        """`Status.OK` once the end was proven."""
        return self._status

    def get_request_id(self) -> str | None:
        """Return the server's id of this answer, once there is one."""
        return self._stream.request_id

    def close(self) -> None:
        """Free the connection. Idempotent."""
        self._closed = True
        if self._status is Status.RUNNING:
            self._status = Status.CANCELLED
        if self._ahead is not None:
            self._ahead.close()
        self._stream.close()

    def __enter__(self) -> ArrowReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()
