"""Encodes batches as a response body: one Arrow IPC stream, without copying buffers.

Most clients expect compressed IPC buffers; one expects a compressed stream (``docs/protocol.md``
sections 5.5 and 11). `odps_nb.local.routes.asgi_io` selects the form.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.errors import InvalidRequestError
from odps_nb.local import errors
from odps_nb.terms import Compression

LAST_NANOSECOND = 2**31 * 10**9 - 1
"""The end of 2038-01-19 03:14:07, the last second that the real service sends in ns."""


def rebatch(
    batches: Iterator[pa.RecordBatch], *, max_rows: int, max_bytes: int = 0
) -> Iterator[pa.RecordBatch]:
    """Split batches into pieces of at most ``max_rows`` rows and ``max_bytes`` bytes.

    A row that is larger than ``max_bytes`` becomes a separate piece. Yields no empty batches,
    because one vendor client interprets them as the end of the stream.
    """
    for batch in batches:
        for start in range(0, batch.num_rows, max_rows):
            piece = batch.slice(start, max_rows)
            if max_bytes > 0:
                yield from _fitting(piece, max_bytes)
            else:
                yield piece


def _fitting(batch: pa.RecordBatch, max_bytes: int) -> Iterator[pa.RecordBatch]:
    if batch.num_rows <= 1 or batch.nbytes <= max_bytes:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _fitting(batch.slice(0, half), max_bytes)
    yield from _fitting(batch.slice(half), max_bytes)


def in_nanoseconds(batches: Iterator[pa.RecordBatch], status: str) -> Iterator[pa.RecordBatch]:
    """Yield batches; raise if one has a time outside the range that is sent in nanoseconds.

    ``status`` is `odps_nb.local.forms.Forms.nanosecond_status`. TIMESTAMP_NTZ is treated like
    TIMESTAMP, because the test that documents this error reads a table with both types.
    """
    try:
        for batch in batches:
            if status != "none" and any(map(_has_far_time, batch.columns)):
                raise errors.time_overflow()
            yield batch
    except InvalidRequestError as error:
        if status != "none" and error.code == errors.time_overflow().code:
            error.status = int(status)
        raise


def _has_far_time(array: pa.Array) -> bool:
    kind = array.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        ends = pc.min_max(array.view(pa.int64()))
        return bool(ends["min"].is_valid) and (
            ends["min"].as_py() < 0 or ends["max"].as_py() > LAST_NANOSECOND
        )
    if pa.types.is_map(kind):  # maps have no flatten(), and their keys and items ignore the slice
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        parts = (part.slice(first, last - first) for part in (array.keys, array.items))
        return any(map(_has_far_time, parts))
    if pa.types.is_list(kind):
        return _has_far_time(array.flatten())
    return pa.types.is_struct(kind) and any(map(_has_far_time, array.flatten()))


class _Pieces:
    """A writable file object for Arrow that collects bytes and buffers without copying them."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[Any] = []

    def write(self, piece: Any) -> None:
        """Keep a piece: bytes, or an Arrow buffer."""
        self._pieces.append(piece)

    def flush(self) -> None:
        """Do nothing; pyarrow requires this method."""

    def close(self) -> None:
        """Do nothing; pyarrow requires this method."""

    def take(self) -> list[memoryview]:
        """Return the pieces written since the last call."""
        pieces, self._pieces = self._pieces, []
        return [memoryview(piece) for piece in pieces]


def encode_stream(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], *, ipc: Compression = Compression.NONE
) -> Generator[bytes | memoryview, None, None]:
    """Yield the stream in pieces, with the end marker last.

    A piece is a column's buffer (not a copy), or the metadata and padding between buffers. The
    first rows are produced before the schema is yielded, so that an early failure results in an
    error response instead of a broken stream.
    """
    options = pa.ipc.IpcWriteOptions(compression=ipc.value) if ipc is not Compression.NONE else None
    pieces = _Pieces()
    with pa.ipc.new_stream(pa.PythonFile(pieces, mode="w"), schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield from pieces.take()
    yield from pieces.take()
