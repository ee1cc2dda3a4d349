"""The three facts of an Arrow IPC message that tell where a stream ends (floor 1).

An IPC message is a flatbuffer table ``Message`` (Arrow columnar format, "Encapsulated message
format"). Only its kind, the length of its body and the rows of a batch are read here; judging
the rest is pyarrow's.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

from odps_nb.errors import FramingError

__all__ = ["IpcMessage", "parse_message"]

SCHEMA, DICTIONARY, RECORD_BATCH = 1, 2, 3

_U8, _U16, _U32, _I32, _I64 = (Struct(code) for code in ("<B", "<H", "<I", "<i", "<q"))
_HEADER_TYPE, _HEADER, _BODY_LENGTH = 1, 2, 3  # field numbers of Message
_BATCH_LENGTH = 0  # field number of RecordBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class IpcMessage:
    """What a message says of itself: ``rows`` is 0 for all but record batches."""

    kind: int
    body_length: int
    rows: int


def parse_message(metadata: bytes) -> IpcMessage:
    """Read a message's flatbuffer.

    Raises
    ------
    FramingError
        When an offset leaves the buffer, or a length is negative.

    Examples
    --------
    >>> import pyarrow as pa
    >>> stream = pa.record_batch({"id": [1, 2, 3]}).serialize().to_pybytes()
    >>> parse_message(stream[8:])
    IpcMessage(kind=3, body_length=24, rows=3)
    """
    message = _read(_U32, metadata, 0)
    kind_at = _field(metadata, message, _HEADER_TYPE)
    length_at = _field(metadata, message, _BODY_LENGTH)
    kind = _read(_U8, metadata, kind_at) if kind_at else 0
    body_length = _read(_I64, metadata, length_at) if length_at else 0
    rows = _rows(metadata, _field(metadata, message, _HEADER)) if kind == RECORD_BATCH else 0
    if body_length < 0 or rows < 0:
        raise FramingError(f"an Arrow message has a body of {body_length} bytes and {rows} rows")
    return IpcMessage(kind=kind, body_length=body_length, rows=rows)


def _rows(metadata: bytes, header_at: int) -> int:
    if not header_at:
        return 0
    length_at = _field(metadata, header_at + _read(_U32, metadata, header_at), _BATCH_LENGTH)
    return _read(_I64, metadata, length_at) if length_at else 0


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
        raise FramingError("an Arrow message points outside of itself")
    value: int = kind.unpack_from(metadata, at)[0]
    return value
