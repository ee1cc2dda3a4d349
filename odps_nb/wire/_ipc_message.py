"""Parses the Arrow IPC message metadata that must be checked before Arrow reads the body.

Covers kind, body length, rows, column lengths and buffer offsets (Arrow columnar format,
"Encapsulated message format"). pyarrow checks the values.
"""

from __future__ import annotations

from dataclasses import dataclass

from odps_nb.errors import FramingError
from odps_nb.wire._flatbuffer import (
    I16,
    I64,
    U8,
    fields_of,
    follow,
    number,
    pairs,
    read,
    root,
    table_at,
    tables,
    text,
)

SCHEMA, DICTIONARY, RECORD_BATCH = 1, 2, 3
MAX_FIELDS = 100_000
"""Maximum number of fields in a schema, including nested ones."""

# Number of fields: Message (version, header kind, header, body length, custom metadata) and
# RecordBatch (length, nodes, buffers, compression).
_MESSAGE_FIELDS, _BATCH_FIELDS = 5, 4
_DATA = 1  # the field of DictionaryBatch that contains the RecordBatch
_ENDIANNESS, _FIELDS = 0, 1  # Schema fields
_NAME, _TYPE_KIND, _TYPE, _CHILDREN = 0, 2, 3, 5  # fields of Field
_TIMESTAMP, _ZONE = 10, 1  # the Timestamp type, and its timezone field
_V4 = 3  # MetadataVersion.V4
_PROMISE = 8  # bytes at the start of a compressed buffer that state its decompressed size


@dataclass(frozen=True, slots=True, kw_only=True)
class IpcMessage:
    """A message's metadata; ``rows`` is 0 except in record batches.

    ``longest`` is the greatest length of a column or nested column in a batch or dictionary.
    ``stored`` is the total size of all buffers in bytes. ``promises`` are the body offsets of
    compressed buffers, whose first eight bytes state the decompressed size.
    """

    kind: int
    body_length: int
    rows: int
    longest: int = 0
    stored: int = 0
    promises: tuple[int, ...] = ()


def parse_message(metadata: bytes) -> IpcMessage:
    """Parse a message's flatbuffer."""
    version, kind_at, header_at, length_at, custom = fields_of(
        metadata, root(metadata), _MESSAGE_FIELDS
    )
    kind = read(U8, metadata, kind_at) if kind_at else 0
    body_length = read(I64, metadata, length_at) if length_at else 0
    header = follow(metadata, header_at)
    if header and kind == SCHEMA:
        _require_schema(metadata, header)
    batch = table_at(metadata, header, _DATA) if header and kind == DICTIONARY else header
    rows = longest = stored = 0
    promises: tuple[int, ...] = ()
    if batch and kind in (RECORD_BATCH, DICTIONARY):
        if custom and version and read(I16, metadata, version) == _V4:
            # Arrow 0.17 marked compression this way, and pyarrow still decompresses it
            raise FramingError(
                "an Arrow batch of metadata version 4 has custom metadata, which is not supported"
            )
        rows_at, nodes, buffers, compressed = fields_of(metadata, batch, _BATCH_FIELDS)
        rows = read(I64, metadata, rows_at) if rows_at else 0
        longest = max(rows, _longest(metadata, nodes))
        places, stored = _buffers(metadata, buffers, body_length, _PROMISE if compressed else 1)
        promises = places if compressed else ()
    if body_length < 0 or rows < 0:
        raise FramingError(
            f"an Arrow message has a negative size: {body_length} bytes, {rows} rows"
        )
    return IpcMessage(
        kind=kind,
        body_length=body_length,
        rows=rows if kind == RECORD_BATCH else 0,
        longest=longest,
        stored=stored,
        promises=promises,
    )


def _require_schema(metadata: bytes, schema: int) -> None:
    if number(I16, metadata, schema, _ENDIANNESS):
        raise FramingError("the Arrow stream is big-endian; only little-endian is supported")
    waiting, count = tables(metadata, schema, _FIELDS), 0
    while waiting:
        field = waiting.pop()
        count += 1
        if count > MAX_FIELDS:
            raise FramingError(f"the schema of the Arrow stream has more than {MAX_FIELDS} fields")
        _require_text(text(metadata, field, _NAME))
        if number(U8, metadata, field, _TYPE_KIND) == _TIMESTAMP:
            zone = table_at(metadata, field, _TYPE)
            _require_text(text(metadata, zone, _ZONE) if zone else b"")
        waiting += tables(metadata, field, _CHILDREN)


def _require_text(name: bytes) -> None:
    """Raise unless the name is UTF-8: pyarrow accepts other bytes, but fails when they are used."""
    try:
        name.decode()
    except UnicodeDecodeError:
        raise FramingError("a name in the schema of the Arrow stream is not UTF-8 text") from None


def _longest(metadata: bytes, nodes: int) -> int:
    longest = 0
    for length, _ in pairs(metadata, nodes):
        if length < 0:
            raise FramingError(f"the length of an Arrow column is {length}; it must be at least 0")
        longest = max(longest, length)
    return longest


def _buffers(
    metadata: bytes, buffers: int, body_length: int, least: int
) -> tuple[tuple[int, ...], int]:
    """Return the offsets of the non-empty buffers, and the total length of all buffers."""
    places, stored, end = [], 0, 0
    for offset, length in pairs(metadata, buffers):
        if not length:
            continue
        if length < least or offset < end or offset + length > body_length:
            raise FramingError(
                f"an Arrow buffer of {length} bytes at {offset} overlaps another buffer or lies "
                f"outside the body of {body_length} bytes"
            )
        places.append(offset)
        end, stored = offset + length, stored + length
    return tuple(places), stored
