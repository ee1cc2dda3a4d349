"""Encodes batches as a response body: one Arrow IPC stream, its buffers uncopied.

Compression is inside IPC for most clients and around the whole stream for one of them
(``docs/protocol.md`` sections 5.5 and 11); `odps_nb.local.routes.asgi_io` decides which.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.errors import InvalidRequestError
from odps_nb.local import faults
from odps_nb.terms import Compression

LAST_NANOSECOND = 2**31 * 10**9 - 1
"""Of the last second that the real service gives in nanoseconds, 2038-01-19 03:14:07."""


def rebatch(
    batches: Iterator[pa.RecordBatch], *, max_rows: int, max_bytes: int = 0
) -> Iterator[pa.RecordBatch]:
    """Cut batches to at most ``max_rows`` rows and, where a row fits, ``max_bytes`` bytes.

    Never gives an empty batch: a stock client takes one for the end of the stream.
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
    """Fail at the first batch that has a time which the real service gives in microseconds only.

    ``status`` is that of `odps_nb.local.forms.Forms.nanosecond_status`. The batches before it are
    given. No source tells TIMESTAMP from TIMESTAMP_NTZ here: the table of the test has both.
    """
    try:
        for batch in batches:
            if status != "none" and any(map(_has_far_time, batch.columns)):
                raise faults.time_overflow()
            yield batch
    except InvalidRequestError as error:
        if status != "none" and error.code == faults.time_overflow().code:
            error.status = int(status)
        raise


def _has_far_time(array: pa.Array) -> bool:
    kind = array.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        ends = pc.min_max(array.view(pa.int64()))
        return bool(ends["min"].is_valid) and (
            ends["min"].as_py() < 0 or ends["max"].as_py() > LAST_NANOSECOND
        )
    if pa.types.is_map(kind):  # it has no flatten(), and its parts are those of the whole array
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        parts = (part.slice(first, last - first) for part in (array.keys, array.items))
        return any(map(_has_far_time, parts))
    if pa.types.is_list(kind):
        return _has_far_time(array.flatten())
    return pa.types.is_struct(kind) and any(map(_has_far_time, array.flatten()))


class _Pieces:
    """The file that Arrow writes to: keeps what it is given, buffers without a copy."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[Any] = []

    def write(self, piece: Any) -> None:
        """Keep a piece: bytes, or an Arrow buffer."""
        self._pieces.append(piece)

    def flush(self) -> None:
        """Do nothing; pyarrow requires it."""

    def close(self) -> None:
        """Do nothing; pyarrow requires it."""

    def take(self) -> list[memoryview]:
        """Return what was written since the last call."""
        taken, self._pieces = self._pieces, []
        return [memoryview(piece) for piece in taken]


def encode_stream(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], *, ipc: Compression = Compression.NONE
) -> Generator[bytes | memoryview, None, None]:
    """Yield the stream in pieces, the end marker last.

    A piece is a buffer of a column as it lies in memory, or what stands between two of them. The
    first rows are produced before the schema is given, so that their failure is an error answer
    and not a broken stream.
    """
    options = pa.ipc.IpcWriteOptions(compression=ipc.value) if ipc is not Compression.NONE else None
    pieces = _Pieces()
    with pa.ipc.new_stream(pa.PythonFile(pieces, mode="w"), schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
            yield from pieces.take()
    yield from pieces.take()
