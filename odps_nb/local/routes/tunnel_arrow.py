"""Encodes and decodes the Arrow stream of the tunnel (``docs/protocol.md`` section 9.4).

`odps_nb.wire.tunnel.chunks` divides the stream into chunks with checksums. The stream contains only
record batch messages, because both sides know the schema. The type of INTERVAL_DAY_TIME columns,
and of TIMESTAMPs in SQL results, is ``struct<sec: int64, nano: int32>``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import pyarrow as pa

from odps_nb.arrow.leaves import with_leaf_types, with_leaves
from odps_nb.arrow.plain import PlainColumns
from odps_nb.arrow.tunnel_types import seconds_and_nanos, tunnel_schema
from odps_nb.arrow.types import SECONDS_AND_NANOS
from odps_nb.local.store.arrow_types import arrow_schema, arrow_type, in_units
from odps_nb.local.writing.ingest import checked_batches
from odps_nb.schema import Column, OdpsType, TypeCode, has_any, has_timestamp
from odps_nb.terms import TimeUnit
from odps_nb.wire.arrow_stream import END_MARKER
from odps_nb.wire.tunnel.chunks import SIZE_BYTES, ChunkVerifier, encode_chunks

MAX_EXPANDED = 1 << 30
"""Maximum bytes that the rows of one batch may expand to."""
_SPLIT = frozenset({TypeCode.INTERVAL_DAY_TIME})
_SPLIT_TIMES = _SPLIT | {TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ}


def encode_arrow(batches: Iterator[pa.RecordBatch]) -> Generator[bytes | memoryview, None, None]:
    """Yield batches encoded as the tunnel's Arrow stream."""
    yield from encode_chunks(batch.serialize() for batch in batches)


def decode_arrow(schema: pa.Schema, data: memoryview) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream; raise `ProtocolError` if it is damaged or truncated."""
    verifier, payload = ChunkVerifier(data[:SIZE_BYTES]), bytearray(schema.serialize())
    for at in range(SIZE_BYTES, len(data), verifier.stored_size):
        payload += verifier.verify(data[at : at + verifier.stored_size])
    verifier.require_end()
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
            elif has_any(column.type, tuple(_SPLIT)):
                kind = with_leaf_types(array.type, column.type, _split_leaf)
                array = with_leaves(array, kind, lambda leaf, _kind: seconds_and_nanos(leaf))
            elif has_timestamp(column.type):  # the client expects nanoseconds
                array = in_units(array, arrow_type(column.type))
            arrays.append(array)
        yield pa.record_batch(arrays, names=batch.schema.names)


def _split_leaf(stored: pa.DataType, _odps: OdpsType | None) -> pa.DataType:
    return SECONDS_AND_NANOS if pa.types.is_duration(stored) else stored


def preview_rows(
    columns: Sequence[Column], schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the rows of a preview: times with nanoseconds, even nested ones, become structs."""
    kinds = [
        with_leaf_types(field.type, column.type, _preview_leaf)
        for field, column in zip(schema, columns, strict=True)
    ]
    split = pa.schema([f.with_type(kind) for f, kind in zip(schema, kinds, strict=True)])

    def converted(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [
            with_leaves(array, kind, lambda leaf, _kind: seconds_and_nanos(leaf))
            for array, kind in zip(batch.columns, kinds, strict=True)
        ]
        return pa.record_batch(arrays, schema=split)

    return split, map(converted, batches)


def _preview_leaf(stored: pa.DataType, odps: OdpsType | None) -> pa.DataType:
    return SECONDS_AND_NANOS if odps is not None and odps.code in _SPLIT_TIMES else stored


def stored_batches(
    columns: Sequence[Column], data: memoryview
) -> Generator[pa.RecordBatch, None, None]:
    """Yield the rows of an uploaded stream, or raise 400 if it is damaged or truncated."""
    schema = tunnel_schema(columns)
    arrow_schema(columns)  # raises for a type that Arrow uploads do not support
    plain = PlainColumns(schema, columns, unit=TimeUnit.NANO, max_bytes=MAX_EXPANDED)
    yield from map(plain.apply, decode_arrow(schema, data))
