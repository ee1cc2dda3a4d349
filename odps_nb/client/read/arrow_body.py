"""Reads and validates the record batches of a response's Arrow stream.

A body may be plain or encoded IPC, regardless of what was requested (``docs/protocol.md`` section
5.5). pyarrow accepts a stream that stops between two messages, so `EndMarkerCheck` checks every
byte before Arrow reads it. Rows have no checksum, so each batch is fully validated: a damaged
offset would crash the process. Invalid UTF-8 is not treated as damage (`odps_nb.arrow.text`).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa

from odps_nb.arrow.plain import PlainColumns
from odps_nb.arrow.text import fit_text, text_types
from odps_nb.arrow.validation import Validator
from odps_nb.errors import (
    FramingError,
    OversizeError,
    ProtocolError,
    StateError,
    TruncatedError,
)
from odps_nb.schema import Column
from odps_nb.terms import Compression, TextMode, TimeUnit
from odps_nb.wire.arrow_stream import (
    DEFAULT_MAX_BODY,
    DEFAULT_MAX_DECOMPRESSED,
    DEFAULT_MAX_METADATA,
    EndMarkerCheck,
    sniff_body,
)
from odps_nb.wire.calls.core import find_header
from odps_nb.wire.calls.errors import GZIP_MAGIC, MAX_ERROR_BYTES, find_error, find_page
from odps_nb.wire.codings import Decoder, decoder


class _Body(Protocol):
    """Interface of a response body, such as `odps_nb.http.transport.HttpResponse`."""

    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def request_id(self) -> str | None: ...
    def read(self, n: int, /) -> bytes: ...
    def read1(self) -> bytes: ...
    def readinto(self, buffer: Any, /) -> int: ...
    def close(self) -> None: ...


class Decoded:
    """The decompressed content of a body that consists of zstd or LZ4 frames."""

    def __init__(self, body: _Body, head: bytes, coding: Decoder) -> None:
        self._body = body
        self._decoder: Decoder | None = coding
        # Decode step by step, because one kilobyte may decode to a gigabyte.
        self._pieces: Iterator[bytes] = coding.pieces(head)
        self._ready = memoryview(b"")

    def readinto(self, target: memoryview) -> int:
        """Fill ``target``, or stop at the end of the stream; return the number of bytes."""
        at = 0
        while at < len(target) and (self._ready or self._more()):
            part = self._ready[: len(target) - at]
            target[at : at + len(part)] = part
            self._ready = self._ready[len(part) :]
            at += len(part)
        return at

    def _more(self) -> bool:
        """Decode more bytes; return ``False`` once the decoded body has ended."""
        while True:
            for piece in self._pieces:
                if piece:
                    self._ready = memoryview(piece)
                    return True
            if self._decoder is None:
                return False
            if data := self._body.read1():
                self._pieces = self._decoder.pieces(data)
            else:
                self._pieces, self._decoder = self._decoder.pieces_eof(), None


class _Watched(io.RawIOBase):
    """The file object that pyarrow reads; ``check`` processes every byte before Arrow does.

    Each part of a message is read directly into the buffer that Arrow keeps.
    """

    def __init__(self, body: _Body, check: EndMarkerCheck, max_output: int | None) -> None:
        super().__init__()
        self._check, self._headers = check, body.headers
        self._sender = str(getattr(body, "host", "the server")), body.request_id
        self.ran_short = False
        self.failed = True  # true until a read succeeds, so that body errors are raised unchanged
        head = body.read(4)
        if _begins_document(head):
            self._refuse(head, body.readinto)
        self.failed = False
        detected = sniff_body(head, find_header(body.headers, "content-encoding"))
        is_plain = not isinstance(detected, Compression)
        self._head = head if is_plain else b""
        self._fill = (
            body.readinto
            if is_plain
            else Decoded(body, head, decoder(detected, max_output=max_output)).readinto
        )

    def read(self, n: int | None = -1) -> bytes:
        """Return ``n`` bytes, fewer only at the end; Arrow calls this for a message's length."""
        return bytes(self.read_buffer(n or 0))

    def read_buffer(self, n: int) -> Any:
        """Return ``n`` bytes as an uncopied buffer; Arrow calls this for a message's body."""
        buffer = pa.allocate_buffer(n)
        view = memoryview(buffer).cast("B")
        have = min(len(self._head), n)
        view[:have], self._head = self._head[:have], self._head[have:]
        self.failed = True
        count = have + self._fill(view[have:])
        if self._check.between_messages and _begins_document(view[: min(count, 8)]):
            self._refuse(bytes(view[:count]), self._fill)
        self.failed = False
        self._check.feed(view[:count])
        if count == n:
            return buffer
        self.ran_short = True
        return buffer.slice(0, count)

    def _refuse(self, head: bytes, fill: Callable[[memoryview], int]) -> None:
        """Raise if an error document or web page arrived instead of rows, despite a 2xx status."""
        rest = bytearray(MAX_ERROR_BYTES)
        body = head + rest[: fill(memoryview(rest))]
        error = find_error(self._headers, body) or find_page(body, *self._sender)
        if error is not None:
            raise error

    def readable(self) -> bool:
        """Return ``True``, as pyarrow requires."""
        return True


def _begins_document(head: bytes | memoryview) -> bool:
    """Return whether an error document begins where an Arrow message should."""
    head = bytes(head).lstrip()
    return head[:1] in (b"{", b"<") or head[:2] == GZIP_MAGIC


class RowStream:
    """A response's record batches, each fully validated; `close` closes the response.

    ``schema`` is the schema of the batches, ``sent`` that of the response.

    Parameters
    ----------
    expected_rows
        Expected number of rows; ``None`` if unknown.
    max_message
        Maximum bytes of one Arrow message.
    max_decompressed
        Maximum bytes that a batch with compressed buffers may need after decompression.
    max_output
        Maximum bytes of the body after its content coding is decoded; ``None`` for no limit.
    text
        How to handle text that is not UTF-8. ``None``: return the column as binary, for the caller
        to convert (`odps_nb.arrow.text.fit_text`).
    columns, unit
        The read's columns and the unit of its TIMESTAMPs, used to recognise the Arrow types that
        `odps_nb.arrow.plain` converts. ``None``: unknown.
    constants
        Columns to append, each with its one value, such as the partition columns of a download.
    """

    def __init__(
        self,
        body: _Body,
        *,
        expected_rows: int | None = None,
        max_message: int = DEFAULT_MAX_BODY,
        max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
        max_output: int | None = None,
        text: TextMode | None = TextMode.STRICT,
        columns: Sequence[Column] | None = None,
        unit: TimeUnit = TimeUnit.NANO,
        constants: Sequence[tuple[pa.Field, pa.Scalar]] = (),
    ) -> None:
        self._body, self._expected_rows, self._text = body, expected_rows, text
        self._constants = constants
        self._check = EndMarkerCheck(
            max_metadata=min(DEFAULT_MAX_METADATA, max_message),
            max_body=max_message,
            max_decompressed=max_decompressed,
        )
        self._ended = self._closed = False
        self._source: _Watched | None = None  # ``None`` until the first bytes arrive
        with self._translated():
            self._source = _Watched(body, self._check, max_output)
            self._reader: Any = pa.ipc.open_stream(pa.PythonFile(self._source, mode="r"))
            self.sent: pa.Schema = self._reader.schema
        self._validator = Validator(self.sent)
        self._plain = PlainColumns(self.sent, columns, unit=unit, max_bytes=max_decompressed)
        self.schema: pa.Schema = self._plain.schema
        for field, _ in constants:
            self.schema = self.schema.append(field)
        self._rows = 0
        if text is not None:
            self._types = text_types(self.schema, None, text)
            fields = map(pa.Field.with_type, self.schema, self._types)
            self.schema = pa.schema(fields, self.schema.metadata)

    @property
    def request_id(self) -> str | None:
        """The server's id for this request."""
        return self._body.request_id

    @property
    def unprotected(self) -> bool:
        """Whether the bytes arrived over plain HTTP, which does not detect changes in transit."""
        return getattr(self._body, "url", "").startswith("http:")

    def next(self) -> pa.RecordBatch | None:
        """Return the next batch with rows, or ``None`` at the stream's verified end."""
        while (batch := self.read()) is not None:
            if batch.num_rows:
                return batch
        return None

    def read(self) -> pa.RecordBatch | None:
        """Return the next batch, even one without rows; ``None`` at the stream's verified end."""
        if self._ended:
            return None
        if self._closed:
            raise StateError("the stream is closed")
        with self._translated():
            batch = self._advance()
        if batch is None or self._text is None:
            return batch
        before, self._rows = self._rows, self._rows + batch.num_rows
        return fit_text(
            batch,
            self._types,
            self._text,
            lambda row: (f"row {before + row} of the stream", before + row),
            unprotected=self.unprotected,
        )

    def _advance(self) -> pa.RecordBatch | None:
        try:
            batch = self._reader.read_next_batch()
        except StopIteration:
            self._check.require(rows=self._expected_rows)
            assert self._source is not None
            self._source.read(4)  # checks that the body ends after the end marker
            self._ended = True
            return None
        batch = self._plain.apply(self._validator.validate(batch))
        for field, value in self._constants:
            batch = batch.append_column(field, pa.repeat(value, batch.num_rows))
        return batch

    def close(self) -> None:
        """Release the connection. Idempotent."""
        self._closed = True
        self._body.close()

    def __enter__(self) -> RowStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """Add the request id to the errors raised inside the block."""
        try:
            yield
        except ProtocolError as error:
            error.request_id = error.request_id or self.request_id
            raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate Arrow's errors into this package's."""
        try:
            with self.named_in_errors():
                yield
        except MemoryError as error:
            raise OversizeError(
                f"not enough memory for the next Arrow message: {error}",
                offset=self._check.total,
                request_id=self.request_id,
                hint="read in smaller batches; if this recurs, the stream is damaged",
            ) from error
        except (pa.ArrowException, OSError, ValueError) as error:
            if self._source is None or self._source.failed:
                raise
            raise self._damage(error) from error

    def _damage(self, error: Exception) -> ProtocolError:
        short = self._source is not None and self._source.ran_short
        kind = TruncatedError if short else FramingError
        return kind(
            f"the Arrow stream is {'truncated' if short else 'damaged'}: {error}",
            offset=self._check.total,
            request_id=self.request_id,
            hint="read again; if this recurs, report the request id",
        )
