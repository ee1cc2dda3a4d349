"""Encodes and decodes the row stream of the tunnel (``docs/protocol.md`` section 9.4).

    field: tag varint (column << 3 | wire type) · value      per non-null column, counted from 1
    record end:  tag 33553408 · varint CRC32C of the record
    stream end:  tag 33554430 · zigzag count · tag 33554431 · varint CRC32C of the record CRCs

A record's CRC covers the number (int32) and the fixed-width value of each column. The vendor's
client sign-extends the last CRC, so the decoder accepts both forms.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from odps_nb.arrow.text import as_bytes
from odps_nb.local import errors
from odps_nb.local.store.arrow_types import arrow_schema, arrow_type
from odps_nb.schema import (
    ArrayType,
    Column,
    DecimalType,
    MapType,
    OdpsType,
    StructType,
    TypeCode,
    VectorType,
)
from odps_nb.wire.crc32c import crc32c

END_RECORD, META_COUNT, META_CHECKSUM = 33553408, 33554430, 33554431
VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
BATCH_ROWS = 4096
CHUNK = 256 * 1024

_INT32 = struct.Struct("<i")
_INT64 = struct.Struct("<q")
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
_INTEGER_CODES = {
    TypeCode.TINYINT,
    TypeCode.SMALLINT,
    TypeCode.INT,
    TypeCode.BIGINT,
    TypeCode.DATE,
    TypeCode.DATETIME,
    TypeCode.INTERVAL_YEAR_MONTH,
}
_SPLIT_CODES = {TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ, TypeCode.INTERVAL_DAY_TIME}


def _wire_type(odps: OdpsType) -> int:
    if odps.code in _INTEGER_CODES or odps.code is TypeCode.BOOLEAN:
        return VARINT
    if odps.code is TypeCode.FLOAT:
        return FIXED32
    return FIXED64 if odps.code is TypeCode.DOUBLE else DELIMITED


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _zigzag(number: int) -> bytes:
    return _varint(number << 1 if number >= 0 else (-number << 1) - 1)


# -- encoding ---------------------------------------------------------------------------------


def encode_rows(
    columns: Sequence[Column], batches: Iterator[pa.RecordBatch]
) -> Generator[bytes | memoryview, None, None]:
    """Yield rows encoded as a row stream; ``batches`` must have exactly these columns, in order."""
    tags = [
        (_varint((i << 3) | _wire_type(c.type)), _INT32.pack(i), c.type)
        for i, c in enumerate(columns, 1)
    ]
    end = _varint(END_RECORD << 3)
    out, count, total = bytearray(), 0, 0
    for batch in batches:
        values = [to_plain(a, c.type) for a, c in zip(batch.columns, columns, strict=True)]
        for row in zip(*values, strict=True):
            crc = 0
            for value, (tag, number, odps) in zip(row, tags, strict=True):
                if value is None:
                    continue
                data, checked = _encode(value, odps)
                out += tag + data
                crc = crc32c(number + checked, crc)
            out += end + _varint(crc)
            total = crc32c(crc.to_bytes(4, "little"), total)
            count += 1
            if len(out) >= CHUNK:
                yield bytes(out)
                out.clear()
    out += _varint(META_COUNT << 3) + _zigzag(count)
    out += _varint(META_CHECKSUM << 3) + _varint(total)
    yield bytes(out)


def _encode(value: Any, odps: OdpsType) -> tuple[bytes, bytes]:
    """Return a value's bytes on the wire, and the bytes that its checksum covers."""
    if isinstance(odps, ArrayType):
        return _encode_list(value, odps.element)
    if isinstance(odps, VectorType):  # unlike in an ARRAY, the elements have no null byte
        data, checked = _join(_encode(item, odps.element) for item in value)
        return _varint(len(value)) + data, checked
    if isinstance(odps, MapType):
        keys = _encode_list([k for k, _ in value], odps.key)
        items = _encode_list([v for _, v in value], odps.value)
        return keys[0] + items[0], keys[1] + items[1]
    if isinstance(odps, StructType):
        return _join(_encode_item(value[f.name], f.type) for f in odps.fields)
    if odps.code in _INTEGER_CODES:
        return _zigzag(value), _INT64.pack(value)
    if odps.code in _SPLIT_CODES:
        seconds, nanos = divmod(value, 1_000_000_000)
        checked = _INT64.pack(seconds) + _INT32.pack(nanos)
        return _zigzag(seconds) + _zigzag(nanos), checked
    if odps.code is TypeCode.BOOLEAN:
        data = b"\x01" if value else b"\x00"
        return data, data
    if odps.code in (TypeCode.FLOAT, TypeCode.DOUBLE):
        data = (_FLOAT if odps.code is TypeCode.FLOAT else _DOUBLE).pack(value)
        return data, data
    if isinstance(value, Decimal):
        value = format(value, "f")
    data = value if isinstance(value, bytes) else str(value).encode("utf-8")
    return _varint(len(data)) + data, data


def _encode_list(values: list[Any], odps: OdpsType) -> tuple[bytes, bytes]:
    data, checked = _join(_encode_item(value, odps) for value in values)
    return _varint(len(values)) + data, checked


def _encode_item(value: Any, odps: OdpsType) -> tuple[bytes, bytes]:
    if value is None:
        return b"\x01", b""
    data, checked = _encode(value, odps)
    return b"\x00" + data, checked


def _join(pairs: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    data, checked = _unzip(pairs)
    return b"".join(data), checked


# -- decoding ---------------------------------------------------------------------------------


def decode_rows(columns: Sequence[Column], data: memoryview) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a stream as stored columns, or raise 400 if it is damaged or truncated."""
    reader = _Reader(data)
    rows: list[list[Any]] = []
    count = total = 0
    schema = arrow_schema(columns)
    try:
        while True:
            number, row, crc = _record(reader, columns)
            if number == META_COUNT:
                break
            rows.append(row)
            count += 1
            total = crc32c(crc.to_bytes(4, "little"), total)
            if len(rows) >= BATCH_ROWS:
                yield _batch(rows, columns, schema)
                rows = []
        declared_count = reader.zigzag()
        reader.expect(META_CHECKSUM)
        declared_crc = reader.varint() & 0xFFFFFFFF
    except (IndexError, struct.error):
        raise errors.malformed("the row stream ends too early") from None
    if declared_count != count or declared_crc != total:
        raise errors.malformed(
            f"the row stream is damaged: its row count or checksum does not match ({count} rows"
            f" received, {declared_count} declared)"
        )
    if not reader.at_end:
        raise errors.malformed("bytes follow the end of the row stream")
    if rows:
        yield _batch(rows, columns, schema)


def _record(reader: _Reader, columns: Sequence[Column]) -> tuple[int, list[Any], int]:
    """Read a record, or the first tag of the stream end; return the tag, row and CRC."""
    row: list[Any] = [None] * len(columns)
    crc = 0
    while True:
        number = reader.varint() >> 3
        if number == META_COUNT:
            if crc:
                raise errors.malformed("the last record of the row stream is incomplete")
            return number, row, crc
        if number == END_RECORD:
            if reader.varint() & 0xFFFFFFFF != crc:
                raise errors.malformed("the checksum of a record does not match")
            return number, row, crc
        if not 1 <= number <= len(columns):
            raise errors.malformed(
                f"a record has column {number}, but there are {len(columns)} columns"
            )
        column = columns[number - 1]
        try:
            row[number - 1], checked = _decode(reader, column.type)
        except (InvalidOperation, ValueError) as error:
            raise errors.invalid(f"the column {column.name!r}: {error}") from None
        crc = crc32c(_INT32.pack(number) + checked, crc)


def _decode(reader: _Reader, odps: OdpsType) -> tuple[Any, bytes]:
    """Return a decoded value, and the bytes that its checksum covers."""
    if isinstance(odps, (ArrayType, VectorType, MapType, StructType)):
        return _decode_nested(reader, odps)
    if odps.code in _INTEGER_CODES:
        number = reader.zigzag()
        return number, _INT64.pack(number)
    if odps.code in _SPLIT_CODES:
        seconds, nanos = reader.zigzag(), reader.zigzag()
        checked = _INT64.pack(seconds) + _INT32.pack(nanos)
        return seconds * 1_000_000_000 + nanos, checked
    if odps.code is TypeCode.BOOLEAN:
        flag = reader.take(1)
        return flag != b"\x00", flag
    if odps.code in (TypeCode.FLOAT, TypeCode.DOUBLE):
        form = _FLOAT if odps.code is TypeCode.FLOAT else _DOUBLE
        data = reader.take(form.size)
        return form.unpack(data)[0], data
    text = reader.take(reader.varint())
    if isinstance(odps, DecimalType):
        return Decimal(text.decode("ascii")), text
    if odps.code in (TypeCode.CHAR, TypeCode.VARCHAR, TypeCode.JSON):
        return text.decode("utf-8"), text
    return text, text  # a STRING may contain any bytes


def _decode_nested(reader: _Reader, odps: OdpsType) -> tuple[Any, bytes]:
    if isinstance(odps, ArrayType):
        return _decode_list(reader, odps.element)
    if isinstance(odps, VectorType):
        return _unzip(_decode(reader, odps.element) for _ in range(reader.varint()))
    if isinstance(odps, MapType):
        keys, first = _decode_list(reader, odps.key)
        items, second = _decode_list(reader, odps.value)
        return list(zip(keys, items, strict=True)), first + second
    assert isinstance(odps, StructType)
    values, checked = _unzip(_decode_item(reader, f.type) for f in odps.fields)
    return {f.name: value for f, value in zip(odps.fields, values, strict=True)}, checked


def _unzip(pairs: Iterable[tuple[Any, bytes]]) -> tuple[list[Any], bytes]:
    entries = list(pairs)
    return [value for value, _ in entries], b"".join(checked for _, checked in entries)


def _decode_list(reader: _Reader, odps: OdpsType) -> tuple[list[Any], bytes]:
    return _unzip(_decode_item(reader, odps) for _ in range(reader.varint()))


def _decode_item(reader: _Reader, odps: OdpsType) -> tuple[Any, bytes]:
    return (None, b"") if reader.take(1) != b"\x00" else _decode(reader, odps)


def _batch(rows: list[list[Any]], columns: Sequence[Column], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [from_plain([row[i] for row in rows], column) for i, column in enumerate(columns)]
    return pa.record_batch(arrays, schema=schema)


class _Reader:
    """Reads numbers and bytes from a buffer; raises `IndexError` at the end."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    @property
    def at_end(self) -> bool:
        return self._at == len(self._data)

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number & 0xFFFFFFFFFFFFFFFF
            shift += 7
            if shift > 63:
                raise errors.malformed("a number in the row stream exceeds 64 bits")

    def zigzag(self) -> int:
        number = self.varint()
        return number >> 1 if not number & 1 else -((number + 1) >> 1)

    def take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise IndexError
        data = bytes(self._data[self._at : end])
        self._at = end
        return data

    def expect(self, number: int) -> None:
        tag = self.varint() >> 3
        if tag != number:
            raise errors.malformed(f"the row stream has the tag {tag}; expected {number}")


_INTEGERS = {
    TypeCode.DATETIME: pa.int64,
    TypeCode.TIMESTAMP: pa.int64,
    TypeCode.TIMESTAMP_NTZ: pa.int64,
    TypeCode.INTERVAL_DAY_TIME: pa.int64,
    TypeCode.DATE: pa.int32,
}


def plain_type(odps: OdpsType) -> pa.DataType:
    """Return the Arrow type whose Python values can be encoded directly."""
    if isinstance(odps, ArrayType):
        return pa.list_(pa.field("element", plain_type(odps.element)))
    if isinstance(odps, MapType):
        return pa.map_(plain_type(odps.key), plain_type(odps.value))
    if isinstance(odps, StructType):
        return pa.struct([pa.field(f.name, plain_type(f.type)) for f in odps.fields])
    make = _INTEGERS.get(odps.code)
    return arrow_type(odps) if make is None else make()


def to_plain(array: pa.Array, odps: OdpsType) -> list[Any]:
    """Return the values of a stored column as plain Python values."""
    target = plain_type(odps)
    plain = array if array.type.equals(target) else array.cast(target)
    values: list[Any] = plain.view(as_bytes(target)).to_pylist()  # a STRING may contain any bytes
    return [_as_nanos(value, odps) for value in values] if _is_micro(array.type) else values


def _is_micro(kind: pa.DataType) -> bool:
    """Return whether a column has times in microseconds (a wider range than nanoseconds)."""
    if pa.types.is_nested(kind):
        return any(_is_micro(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "us"


def _as_nanos(value: Any, odps: OdpsType) -> Any:
    if value is None:
        return None
    if isinstance(odps, ArrayType):
        return [_as_nanos(item, odps.element) for item in value]
    if isinstance(odps, MapType):
        return [(_as_nanos(k, odps.key), _as_nanos(v, odps.value)) for k, v in value]
    if isinstance(odps, StructType):
        return {f.name: _as_nanos(value[f.name], f.type) for f in odps.fields}
    return value * 1000 if odps.code in (TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ) else value


def from_plain(values: list[Any], column: Column) -> pa.Array:
    """Return a stored column built from Python values; raise 400 if they do not fit its type."""
    plain = plain_type(column.type)
    try:
        return pa.array(values, as_bytes(plain)).view(plain).cast(arrow_type(column.type))
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        raise errors.invalid(f"the column {column.name!r}: {error}") from None
