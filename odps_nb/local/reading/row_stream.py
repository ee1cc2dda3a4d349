"""Encodes batches as a response body: one Arrow IPC stream in large chunks.

::

    schema message · record batch messages … · ff ff ff ff 00 00 00 00

Compression is inside IPC for most clients and around the whole stream for one of them
(``docs/protocol.md`` sections 5.5 and 11); `odps_nb.local.server.clients` decides which.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pyarrow as pa

from odps_nb.terms import Compression
from odps_nb.wire.arrow_stream import END_MARKER
from odps_nb.wire.codings import encoder

__all__ = ["CHUNK_BYTES", "coded", "encode_stream", "rebatch"]

CHUNK_BYTES = 1 << 20


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


def encode_stream(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], *, ipc: Compression = Compression.NONE
) -> Generator[bytes | memoryview, None, None]:
    """Yield the stream in chunks of about `CHUNK_BYTES`, the end marker last.

    The first rows are produced before the schema is sent, so that their failure is an error answer
    and not a broken stream.
    """
    head = schema.serialize()
    chunks = _row_chunks(batches, ipc, head.size)
    first = next(chunks)
    yield memoryview(head)
    yield first
    yield from chunks


def _row_chunks(
    batches: Iterator[pa.RecordBatch], ipc: Compression, head_size: int
) -> Iterator[bytes | memoryview]:
    options = pa.ipc.IpcWriteOptions(compression=ipc.value) if ipc is not Compression.NONE else None
    held: list[pa.Buffer | memoryview] = []
    size = 0
    for batch in batches:
        message = batch.serialize() if options is None else _message(batch, options, head_size)
        held.append(message)
        size += len(message)
        if size >= CHUNK_BYTES:
            yield _joined(held)
            held, size = [], 0
    held.append(memoryview(END_MARKER))
    yield _joined(held)


def coded(
    chunks: Iterator[bytes | memoryview], coding: Compression
) -> Generator[bytes | memoryview, None, None]:
    """Compress a whole body."""
    coder = encoder(coding)
    for chunk in chunks:
        if ready := coder.feed(chunk):
            yield ready
    yield coder.finish()


def _message(batch: pa.RecordBatch, options: pa.ipc.IpcWriteOptions, head: int) -> memoryview:
    """Serialise one batch with compressed buffers, without schema and end marker."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue())[head : -len(END_MARKER)]


def _joined(parts: list[pa.Buffer | memoryview]) -> bytes | memoryview:
    return memoryview(parts[0]) if len(parts) == 1 else b"".join(parts)
