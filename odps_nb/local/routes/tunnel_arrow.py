"""Encodes and decodes the Arrow stream of the tunnel (``docs/protocol.md`` section 9.4).

    u32 BE chunk size · [ chunk · u32 BE CRC32C of the chunk ] … · last chunk · u32 BE CRC32C of all

The stream contains only record batch messages, because both sides know the schema. The type of
INTERVAL_DAY_TIME columns, and of TIMESTAMPs in SQL results, is ``struct<sec: int64, nano: int32>``.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator, Sequence

import pyarrow as pa

from odps_nb.arrow.types import SECONDS_AND_NANOS
from odps_nb.local import faults
from odps_nb.local.store.arrow_types import arrow_schema, arrow_type, in_units, seconds_and_nanos
from odps_nb.local.writing.ingest import checked_batches
from odps_nb.schema import Column, TypeCode, has_timestamp
from odps_nb.wire.arrow_stream import END_MARKER
from odps_nb.wire.crc32c import crc32c

CHUNK_SIZE = 65536
MAX_CHUNK = 64 * 1024 * 1024
_U32 = struct.Struct(">I")
_SPLIT = frozenset({TypeCode.INTERVAL_DAY_TIME})
_SPLIT_TIMES = _SPLIT | {TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ}


def encode_arrow(batches: Iterator[pa.RecordBatch]) -> Generator[bytes | memoryview, None, None]:
    """Yield batches encoded as the tunnel's Arrow stream."""
    yield _U32.pack(CHUNK_SIZE)
    held, total = bytearray(), 0
    for batch in batches:
        held += batch.serialize()
        whole = len(held) // CHUNK_SIZE * CHUNK_SIZE
        if whole:
            view = memoryview(held)[:whole]
            total = crc32c(view, total)
            yield b"".join(_checked(view))
            view.release()
            del held[:whole]
    total = crc32c(held, total)
    yield bytes(held) + _U32.pack(total)


def _checked(view: memoryview) -> Iterator[bytes]:
    for start in range(0, len(view), CHUNK_SIZE):
        chunk = view[start : start + CHUNK_SIZE]
        yield bytes(chunk)
        yield _U32.pack(crc32c(chunk))


def decode_arrow(schema: pa.Schema, data: memoryview) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream, or raise 400 if it is damaged or truncated."""
    if len(data) < 8:
        raise faults.malformed("the Arrow stream is empty")
    (size,) = _U32.unpack(data[:4])
    if not 0 < size <= MAX_CHUNK:
        raise faults.malformed(f"the chunk size is {size} bytes; it must be 1 to {MAX_CHUNK}")
    payload, at, total = bytearray(schema.serialize()), 4, 0
    while len(data) - at >= size + 4:
        chunk = data[at : at + size]
        if _U32.unpack(data[at + size : at + size + 4])[0] != crc32c(chunk):
            # not necessarily damaged: the last chunk may have exactly this size
            break
        total = crc32c(chunk, total)
        payload += chunk
        at += size + 4
    last = data[at:-4]
    if len(data) - at < 4 or _U32.unpack(data[-4:])[0] != crc32c(last, total):
        raise faults.malformed("the checksum of the Arrow stream does not match")
    payload += last
    payload += END_MARKER
    yield from checked_batches(pa.py_buffer(payload))


def wire_batches(
    columns: Sequence[Column], batches: Iterator[pa.RecordBatch], *, times: bool
) -> Generator[pa.RecordBatch, None, None]:
    """Yield rows to send: INTERVAL_DAY_TIMEs and, with ``times``, TIMESTAMPs become structs."""
    split = _SPLIT_TIMES if times else _SPLIT
    for batch in batches:
        arrays = []
        for column, array in zip(columns, batch.columns, strict=True):
            if column.type.code in split:
                array = seconds_and_nanos(array)
            elif has_timestamp(column.type):  # the client expects nanoseconds
                array = in_units(array, arrow_type(column.type))
            arrays.append(array)
        yield pa.record_batch(arrays, names=batch.schema.names)


def stored_batches(
    columns: Sequence[Column], data: memoryview
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of an uploaded stream, or raise 400 if it is damaged or truncated."""
    schema = arrow_schema(columns)
    sent = [f.with_type(SECONDS_AND_NANOS) if pa.types.is_duration(f.type) else f for f in schema]
    yield from decode_arrow(pa.schema(sent), data)
