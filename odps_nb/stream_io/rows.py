"""`ArrowReader` and `ArrowWriter` handle the record batches in read and write bodies."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any

from odps_nb.errors import ConfigError, ConversionError, StateError
from odps_nb.stream_io.base import Guarded, Status
from odps_nb.stream_io.reader import StreamReader
from odps_nb.stream_io.writers import Finishing, StreamWriter, WriteResult
from odps_nb.terms import Compression, TextMode
from odps_nb.wire.arrow_stream import DEFAULT_MAX_BODY, DEFAULT_MAX_DECOMPRESSED

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.client.read.arrow_body import RowStream


class ArrowReader(Guarded):
    """Reads the record batches of a table: iterate, or call `read` until it returns ``None``.

    Times are time zone-naive UTC values, whatever time zone the stream states. Dictionary-encoded
    text is returned as plain text.

    After the last batch, an error is raised if the stream has no end marker or does not have
    ``expected_rows`` rows.

    Parameters
    ----------
    stream_reader
        A `StreamReader`; closed by `close`. Its body is Arrow IPC, possibly compressed with zstd or
        LZ4 (``docs/protocol.md`` section 5.5).
    expected_rows
        Number of rows that the session reported; ``None`` if unknown.
    max_batch
        Maximum bytes of one batch.
    max_decompressed
        Maximum size of a batch after decompression, in bytes; checked before its buffers are
        decompressed.
    max_output
        Maximum bytes of the body after its content coding is decoded.
    text
        How to handle text that is not UTF-8, which a STRING may contain. ``"strict"`` raises,
        ``"replace"`` replaces each invalid sequence with U+FFFD, ``"binary"`` returns all text as
        bytes.

    Raises
    ------
    ConversionError
        Raised during iteration: a value is not UTF-8, and ``text`` is ``"strict"``.
    TruncatedError
        Raised during iteration: the stream is truncated.
    FramingError
        The body is not an Arrow stream, continues after the end of the stream, or contains damaged
        values. Every batch is fully validated.
    LimitExceededError
        A batch is larger than ``max_batch``, or than ``max_decompressed`` after decompression.

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

    _name = "reader"

    def __init__(
        self,
        stream_reader: StreamReader,
        *,
        expected_rows: int | None = None,
        max_batch: int = DEFAULT_MAX_BODY,
        max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
        max_output: int | None = None,
        text: str = "strict",
    ) -> None:
        self._stream = stream_reader
        self._options: dict[str, Any] = {
            "expected_rows": expected_rows,
            "max_message": max_batch,
            "max_decompressed": max_decompressed,
            "max_output": max_output,
            "text": TextMode.of(text),
        }
        self._rows: RowStream | None = None

    def _opened(self) -> RowStream:
        if self._rows is None:
            from odps_nb.client.read.arrow_body import RowStream

            self._rows = RowStream(self._stream, **self._options)
        return self._rows

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches. Reads the beginning of the stream if needed."""
        schema: pa.Schema = self._guarded(self._opened).schema
        return schema

    def read(self) -> pa.RecordBatch | None:
        """Return the next batch; ``None`` at the verified end of the stream."""
        if self._ended and not self._closed:
            return None
        batch: pa.RecordBatch | None = self._guarded(lambda: self._opened().read())
        self._ended = batch is None
        return batch

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = self.read()
        if batch is None:
            raise StopIteration
        return batch

    def get_status(self) -> Status:
        """Return the state: `Status.OK` once the end was verified."""
        return self._status()

    def get_request_id(self) -> str | None:
        """Return the server's id for this request; ``None`` until the response has arrived."""
        return self._stream.request_id

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._closed = True
        self._stream.close()


class ArrowWriter(Finishing):
    """Writes record batches into the request body of a table write.

    If no rows were written, `finish` sends a valid, empty stream. Leaving a ``with`` block calls
    `finish`, or `abort` after an error.

    Parameters
    ----------
    stream_writer
        A `StreamWriter` that sends the body.
    schema
        Schema of all batches. Default: the schema of the first batch. A compression passed in this
        position, as in the SDK's ``ArrowWriter(stream, Compression.ZSTD)``, is used as
        ``compression``.
    compression
        Codec for the buffers inside the stream: ``None``, ``"zstd"`` or ``"lz4"``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from odps_nb.stream_io import ArrowWriter, StreamWriter
    >>> class Server:  # holds a connection
    ...     status, headers = 200, {}
    ...     def write(self, data): pass
    ...     def finish(self): return self
    ...     def abort(self): pass
    ...     def read(self): return b'{"CommitMessage": "m"}'
    >>> with ArrowWriter(StreamWriter(Server()), pa.schema({"id": pa.int64()})) as writer:
    ...     writer.write(pa.record_batch({"id": [1, 2, 3]}))
    3
    >>> writer.finish().commit_message, writer.rows
    ('m', 3)
    """

    def __init__(
        self,
        stream_writer: StreamWriter,
        schema: pa.Schema | str | Enum | None = None,
        compression: str | Enum | None = None,
    ) -> None:
        if isinstance(schema, (str, Enum)):
            if compression is not None:
                raise ConfigError(
                    f"two compressions were passed: {schema} and {compression}",
                    option="compression",
                    hint="write ArrowWriter(stream, schema, compression)",
                )
            schema, compression = None, schema
        self._stream = stream_writer
        self._schema = schema
        self._compression = Compression.of(compression)
        self._writer: Any = None
        self.rows: int = 0
        """Rows written so far."""

    @property
    def schema(self) -> pa.Schema:
        """Schema of all batches; raises `StateError` while it is unknown."""
        if self._schema is None:
            raise StateError(
                "the schema is not known before the first batch",
                hint="pass it: ArrowWriter(stream, schema)",
            )
        return self._schema

    def write(self, record_batch: pa.RecordBatch | pa.Table) -> int:
        """Send a batch, or all batches of a table; return the number of rows.

        Raises
        ------
        ConversionError
            The schema differs from that of the earlier batches.
        StateError
            The writer was finished or aborted, or it failed.
        """
        self._stream._check_open()
        if self._schema is None:
            self._schema = record_batch.schema
        if not record_batch.schema.equals(self._schema):
            raise ConversionError(
                "the schema of the batch differs from that of the stream",
                source_type=str(record_batch.schema),
                target_type=str(self._schema),
                hint="cast it first: batch.cast(writer.schema)",
            )
        self._opened().write(record_batch)
        self.rows += record_batch.num_rows
        return int(record_batch.num_rows)

    def finish(self) -> WriteResult:
        """End the stream and return the server's response; later calls return the same one.

        Raises
        ------
        StateError
            Nothing was written and no schema was passed, so there is no Arrow stream to send. The
            write is aborted.
        """
        if self._stream.writable():
            if self._schema is None:
                self.abort()
                raise StateError(
                    "nothing was written and no schema was passed, so there is no stream to send",
                    hint="pass a schema to send an empty stream: ArrowWriter(stream, schema)",
                )
            self._opened().close()
        return self._stream.finish()

    def get_write_stream_response(self) -> WriteResult | None:
        """Return the result of `finish`; ``None`` before `finish`."""
        return self._stream.get_write_stream_response()

    def abort(self) -> None:
        """Abort the request; the server stores nothing. Idempotent."""
        self._stream.abort()

    def writable(self) -> bool:
        """Whether `write` may be called."""
        return self._stream.writable()

    def _opened(self) -> Any:
        if self._writer is None:
            import pyarrow as pa

            codec = None if self._compression is Compression.NONE else self._compression.value
            options = pa.ipc.IpcWriteOptions(compression=codec)
            self._writer = pa.ipc.new_stream(self._stream, self._schema, options=options)
        return self._writer

    def get_status(self) -> Status:
        """Return the state: `Status.OK` once the server has confirmed the write."""
        return self._stream.get_status()

    def get_request_id(self) -> str | None:
        """Return the server's id for this request; ``None`` until the response has arrived."""
        return self._stream.request_id
