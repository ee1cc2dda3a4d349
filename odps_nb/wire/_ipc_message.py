"""What an Arrow IPC message says of itself: where its body ends, and what it will need (floor 1).

An IPC message is a flatbuffer table ``Message`` (Arrow columnar format, "Encapsulated message
format"). Read here are its kind, the length of its body, rows and lengths of a batch, and where
the buffers lie: what has to be known before Arrow takes the body. Judging the values is pyarrow's.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from odps_nb.errors import FramingError

__all__ = ["IpcMessage", "parse_message"]

SCHEMA, DICTIONARY, RECORD_BATCH = 1, 2, 3

_U8, _I16, _U16, _U32, _I32, _I64 = (Struct(code) for code in ("<B", "<h", "<H", "<I", "<i", "<q"))
_PAIR = Struct("<qq")  # FieldNode: length, nulls; Buffer: offset, length
# field numbers of Message
_VERSION, _HEADER_TYPE, _HEADER, _BODY_LENGTH, _CUSTOM_METADATA = range(5)
_BATCH_LENGTH, _NODES, _BUFFERS, _COMPRESSION = range(4)  # of RecordBatch
_DATA = 1  # of DictionaryBatch: a RecordBatch
_ENDIANNESS = 0  # of Schema
_V4 = 3  # the value of MetadataVersion.V4
_PROMISE = 8  # bytes in front of every compressed buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class IpcMessage:
    """What a message says of itself: ``rows`` is 0 for all but record batches.

    ``longest`` is the greatest length of a column or of what is nested in one, of a batch or a
    dictionary. ``stored`` counts the bytes of all buffers. ``promises`` are the places in the body
    where buffers begin that are compressed: eight bytes there say how large each will be.
    """

    kind: int
    body_length: int
    rows: int
    longest: int = 0
    stored: int = 0
    promises: tuple[int, ...] = ()


def parse_message(metadata: bytes) -> IpcMessage:
    """Read a message's flatbuffer.

    Raises
    ------
    FramingError
        When an offset leaves the buffer, a length is negative, a buffer leaves the body or begins
        inside of the one before, or values are in an order of bytes or a compression that only
        Arrow before 1.0 wrote.

    Examples
    --------
    >>> import pyarrow as pa
    >>> stream = pa.record_batch({"id": [1, 2, 3]}).serialize().to_pybytes()
    >>> parse_message(stream[8:])
    IpcMessage(kind=3, body_length=24, rows=3, longest=3, stored=24, promises=())
    """
    message = _read(_U32, metadata, 0)
    kind_at = _field(metadata, message, _HEADER_TYPE)
    length_at = _field(metadata, message, _BODY_LENGTH)
    kind = _read(_U8, metadata, kind_at) if kind_at else 0
    body_length = _read(_I64, metadata, length_at) if length_at else 0
    header = _table(metadata, message, _HEADER)
    if header and kind == SCHEMA:
        _require_little_endian(metadata, header)
    batch = _table(metadata, header, _DATA) if header and kind == DICTIONARY else header
    rows = longest = stored = 0
    promises: tuple[int, ...] = ()
    if batch and kind in (RECORD_BATCH, DICTIONARY):
        _require_known_compression(metadata, message)
        length_at = _field(metadata, batch, _BATCH_LENGTH)
        rows = _read(_I64, metadata, length_at) if length_at else 0
        longest = max(rows, _longest(metadata, batch))
        compressed = bool(_field(metadata, batch, _COMPRESSION))
        places, stored = _buffers(metadata, batch, body_length, _PROMISE if compressed else 1)
        promises = places if compressed else ()
    if body_length < 0 or rows < 0:
        raise FramingError(f"an Arrow message has a body of {body_length} bytes and {rows} rows")
    return IpcMessage(
        kind=kind,
        body_length=body_length,
        rows=rows if kind == RECORD_BATCH else 0,
        longest=longest,
        stored=stored,
        promises=promises,
    )


def _require_little_endian(metadata: bytes, schema: int) -> None:
    at = _field(metadata, schema, _ENDIANNESS)
    if at and _read(_I16, metadata, at):
        raise FramingError("the Arrow stream is big-endian")


def _require_known_compression(metadata: bytes, message: int) -> None:
    """Refuse the compression of Arrow 0.17, which pyarrow still believes: in custom metadata."""
    at = _field(metadata, message, _VERSION)
    if at and _read(_I16, metadata, at) == _V4 and _field(metadata, message, _CUSTOM_METADATA):
        raise FramingError("an Arrow batch of metadata version 4 has custom metadata")


def _longest(metadata: bytes, batch: int) -> int:
    longest = 0
    for length, _ in _pairs(metadata, batch, _NODES):
        if length < 0:
            raise FramingError(f"an Arrow column has {length} values")
        longest = max(longest, length)
    return longest


def _buffers(
    metadata: bytes, batch: int, body_length: int, least: int
) -> tuple[tuple[int, ...], int]:
    """Return where the buffers that are not empty begin, and how long all are together."""
    places, stored, end = [], 0, 0
    for offset, length in _pairs(metadata, batch, _BUFFERS):
        if not length:
            continue
        if length < least or offset < end or offset + length > body_length:
            raise FramingError(
                f"an Arrow buffer of {length} bytes at {offset} has no place of its own in a "
                f"body of {body_length}"
            )
        places.append(offset)
        end, stored = offset + length, stored + length
    return tuple(places), stored


def _pairs(metadata: bytes, table: int, number: int) -> list[tuple[int, int]]:
    """Return the members of a vector of structs of two int64."""
    at = _field(metadata, table, number)
    if not at:
        return []
    vector = at + _read(_U32, metadata, at)
    start, size = vector + _U32.size, _read(_U32, metadata, vector) * _PAIR.size
    if size > len(metadata) - start:
        raise _outside()
    return list(_PAIR.iter_unpack(metadata[start : start + size]))


def _table(metadata: bytes, table: int, number: int) -> int:
    """Return where the table lies that a field points at; 0 when there is none."""
    at = _field(metadata, table, number)
    return at + _read(_U32, metadata, at) if at else 0


def _field(metadata: bytes, table: int, number: int) -> int:
    """Return where a field of a table lies; 0 when it is left at its default."""
    vtable = table - _read(_I32, metadata, table)
    slot = 4 + 2 * number
    if slot >= _read(_U16, metadata, vtable):
        return 0
    offset = _read(_U16, metadata, vtable + slot)
    return table + offset if offset else 0


def _read(kind: Struct, metadata: bytes, at: int) -> int:
    if not 0 <= at <= len(metadata) - kind.size:
        raise _outside()
    value: int = kind.unpack_from(metadata, at)[0]
    return value


def _outside() -> FramingError:
    return FramingError("an Arrow message points outside of itself")
