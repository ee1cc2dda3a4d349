"""`ArrowReader`: the record batches of a response body (face)."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from odps_nb._stream_io.ahead import OneAhead
from odps_nb._stream_io.reader import Status, StreamReader
from odps_nb.errors import StateError
from odps_nb.terms import TextMode
from odps_nb.wire.arrow_stream import DEFAULT_MAX_BODY, DEFAULT_MAX_DECOMPRESSED

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.client.read.arrow_body import RowStream

__all__ = ["ArrowReader"]


class _Batches:
    """Reads the batches of a body; the first use reads its beginning."""

    def __init__(self, open_rows: Callable[[], RowStream]) -> None:
        self._open_rows = open_rows
        self._lock = threading.Lock()  # the schema may be read while another thread reads a batch
        self._rows: RowStream | None = None

    def schema(self) -> pa.Schema:
        """Return the schema."""
        return self._opened().schema

    def read(self) -> pa.RecordBatch | None:
        """Return the next batch; ``None`` at the verified end."""
        return self._opened().read()

    def _opened(self) -> RowStream:
        with self._lock:
            if self._rows is None:
                self._rows = self._open_rows()
        return self._rows


class ArrowReader:
    """The record batches of a table read; iterate, or `read` until ``None``.

    Times have no time zone and count from the epoch in UTC, whatever zone the stream names; text
    that comes as dictionaries is plain text.

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
    text
        What to do with text that is not UTF-8, which a STRING may hold: ``"strict"`` raises,
        ``"replace"`` reads U+FFFD in place of each invalid sequence, ``"binary"`` reads all text
        as bytes.
    prefetch
        Read the next batch while the last one is worked on, in a helper thread that ends with
        the stream, with `close`, and with the reader itself.

    Raises
    ------
    ConversionError
        Of the iteration: a text is not UTF-8, and ``text`` is strict.
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
        text: str = "strict",
        prefetch: bool = False,
    ) -> None:
        self._stream, mode = stream_reader, TextMode.of(text)

        def open_rows() -> RowStream:
            from odps_nb.client.read.arrow_body import RowStream

            return RowStream(
                stream_reader,
                expected_rows=expected_rows,
                max_message=max_batch,
                max_decompressed=max_decompressed,
                max_output=max_output,
                text=mode,
            )

        self._batches = _Batches(open_rows)
        self._ahead: OneAhead[pa.RecordBatch] | None = None
        if prefetch:
            self._ahead = OneAhead(self._batches.read, stream_reader.abort)
            weakref.finalize(self, self._ahead.close)
        self._status = Status.RUNNING
        self._closed = False

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches. Reads the beginning of the stream if necessary."""
        return self._guarded(self._batches.schema)

    def read(self) -> pa.RecordBatch | None:
        """Return the next batch; ``None`` at the verified end."""
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
            raise StateError("the reader failed before; bytes after a defect cannot be decoded")
        before, self._status = self._status, Status.FAILED
        result = step()
        self._status = before
        return result

    def get_status(self) -> Status:
        """`Status.OK` once the end was verified."""
        return self._status

    def get_request_id(self) -> str | None:
        """Return the server's id of this answer, once there is one."""
        return self._stream.request_id

    def close(self) -> None:
        """Close the connection. Idempotent."""
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
