"""`ArrowWriter`: writes record batches into a request body (face)."""

from __future__ import annotations

from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any

from odps_nb._stream_io.reader import Status
from odps_nb._stream_io.writers import StreamWriter, WriteResult
from odps_nb.errors import ConfigError, ConversionError, StateError
from odps_nb.terms import Compression

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowWriter"]


class ArrowWriter:
    """Writes record batches into the body of a table write.

    `finish` without any rows sends a valid, empty stream. Leaving a ``with`` block finishes, or
    aborts after an error.

    Parameters
    ----------
    stream_writer
        A `StreamWriter`.
    schema
        Of all batches; ``None``: that of the first. A compression that stands here, as in the
        SDK's ``ArrowWriter(stream, Compression.ZSTD)``, is taken for what it is.
    compression
        Codec of the buffers inside of the stream: ``None``, ``"zstd"`` or ``"lz4"``.

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
                    f"two compressions are given: {schema} and {compression}",
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
        """Schema of all batches; a `StateError` while it is unknown."""
        if self._schema is None:
            raise StateError(
                "the schema is not known before the first batch",
                hint="pass it: ArrowWriter(stream, schema)",
            )
        return self._schema

    def write(self, record_batch: pa.RecordBatch | pa.Table) -> int:
        """Send a batch (or a table's batches); return its number of rows.

        Raises
        ------
        ConversionError
            The batch has another schema.
        StateError
            After `finish`, `abort` or a failure.
        """
        if not self._stream.writable():
            raise StateError(f"the writer is {self._stream.get_status().value.lower()}")
        if self._schema is None:
            self._schema = record_batch.schema
        if not record_batch.schema.equals(self._schema):
            raise ConversionError(
                "the batch has another schema than the stream",
                source_type=str(record_batch.schema),
                target_type=str(self._schema),
                hint="cast it first: batch.cast(writer.schema)",
            )
        self._opened().write(record_batch)
        self.rows += record_batch.num_rows
        return int(record_batch.num_rows)

    def finish(self) -> WriteResult:
        """End the stream and return the server's answer; the same one when called again.

        Raises
        ------
        StateError
            Nothing was written and no schema was given: there is no Arrow stream to send. The
            write is aborted.
        """
        if self._stream.writable():
            if self._schema is None:
                self.abort()
                raise StateError(
                    "nothing was written and no schema was given: there is no Arrow stream to send",
                    hint="pass it, ArrowWriter(stream, schema), to send a stream without rows",
                )
            self._opened().close()
        return self._stream.finish()

    def get_write_stream_response(self) -> WriteResult | None:
        """Return what `finish` returned; ``None`` before."""
        return self._stream.get_write_stream_response()

    def abort(self) -> None:
        """Break off the request, so that the server stores nothing. Idempotent."""
        self._stream.abort()

    def close(self) -> None:
        """Abort unless finished. Idempotent."""
        self._stream.close()

    def _opened(self) -> Any:
        if self._writer is None:
            import pyarrow as pa

            codec = None if self._compression is Compression.NONE else self._compression.value
            options = pa.ipc.IpcWriteOptions(compression=codec)
            self._writer = pa.ipc.new_stream(self._stream, self._schema, options=options)
        return self._writer

    def get_status(self) -> Status:
        """`Status.OK` once the server has confirmed."""
        return self._stream.get_status()

    def get_request_id(self) -> str | None:
        """Return the server's id of its answer, once there is one."""
        return self._stream.request_id

    def __enter__(self) -> ArrowWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if error is not None:
            self.abort()
        elif self._stream.writable():
            self.finish()
