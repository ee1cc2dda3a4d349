"""Arrow IPC: column names, types and first rows as strings.

Compressed buffers state their decompressed length; a file that states more than 64 MiB in total is
not decompressed. Offsets are validated before values are read.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import pyarrow as pa

from odps_nb.convert.unreadable import check_unions
from odps_nb.errors import ConversionError
from odps_nb.notebook.preview.parsers.strip import strip
from odps_nb.notebook.preview.shared import Size, answer
from odps_nb.parsing.reasons import DAMAGED, reason_of
from odps_nb.parsing.values import UnshowableError
from odps_nb.terms import count_of, format_bytes

#: Maximum decompressed bytes of the first rows.
MAX_UNPACKED: Final = 64 * 1024 * 1024
_LONGEST: Final = 200


def first_rows(
    read: Callable[[bytes, Size], tuple[pa.RecordBatch, str]], data: bytes, options: dict[str, Any]
) -> tuple[dict[str, Any], bytes]:
    """Return the names, types and first rows of the batch that ``read`` returns."""
    size = Size(**options["size"])
    try:
        batch, count = read(data, size)
    except KeyError:  # pyarrow has no class for Arrow's month and day intervals
        why = "not decoded here: pyarrow does not support the type of a column"
        raise UnshowableError(why) from None
    except ConversionError as error:
        raise UnshowableError(error.message) from None
    # one more column than fits, so that the table can indicate omitted columns
    shown = batch.slice(0, size.rows).columns[: size.columns + 1]
    try:
        batch.validate(full=True)
    except pa.ArrowException as error:
        raise UnshowableError(f"{DAMAGED}: {reason_of(error)}") from None
    head = [f"{one.name[:_LONGEST]} · {one.type}" for one in batch.schema][: len(shown)]
    rows = zip(*(map(_value, column) for column in shown), strict=True)
    facts = (f"{count} × {count_of(len(batch.schema), 'column')}",)
    for name, values in _bytes_of(batch):
        if picture := strip(values, size):
            note = f"pictures of column {name[:_LONGEST]!r}; to_table() returns all columns"
            return answer(facts, picture, note=note)
    return answer(facts, head=head, rows=rows)


def _bytes_of(batch: pa.RecordBatch) -> Iterator[tuple[str, list[bytes]]]:
    """Yield the binary columns, and those whose values contain a binary field, such as images."""
    for field, column in zip(batch.schema, batch.columns, strict=True):
        inner = list(field.type) if pa.types.is_struct(field.type) else [field.with_name("")]
        for one in inner:
            if pa.types.is_binary(one.type) or pa.types.is_large_binary(one.type):
                values = column.field(one.name) if one.name else column
                yield field.name, [data for data in values.to_pylist() if data]


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in schema.types], schema=schema)


def check_unpacked(promised: int) -> None:
    """Raise `UnshowableError` if decompression would yield more than `MAX_UNPACKED` bytes."""
    if not 0 <= promised <= MAX_UNPACKED:
        raise UnshowableError(f"would expand to {format_bytes(max(promised, 0))}: not decompressed")


def _value(value: Any) -> Any:
    with contextlib.suppress(ValueError, OverflowError):  # the date is outside Python's range
        return value.as_py()
    try:
        return value.cast(pa.string())
    except pa.ArrowException:
        return f"<{value.type}>"


def _read(data: bytes, size: Size) -> tuple[pa.RecordBatch, str]:
    # a file contains a magic number (padded to 8 bytes), a stream, and a footer (not needed here)
    stream = pa.py_buffer(data)[8:] if data.startswith(b"ARROW1") else pa.py_buffer(data)
    promised = rows = batches = shown = 0
    is_all = True
    try:
        for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(stream)):
            if not rows and message.type in ("record batch", "dictionary"):
                promised += _unpacked_size(message)
                check_unpacked(promised)
            if message.type == "record batch":
                batches += 1
                rows += _row_count(message)
                shown = shown or (batches if rows else 0)
    except (pa.ArrowException, OSError):  # truncated, or no end-of-stream marker before a footer
        is_all = False
    with pa.ipc.open_stream(pa.BufferReader(stream)) as reader:
        check_unions(reader.schema)
        batch = empty_batch(reader.schema)
        for _ in range(shown):
            batch = reader.read_next_batch()
    return batch, count_of(rows, "row") if is_all else f"at least {count_of(rows, 'row')}"


def _row_count(message: Any) -> int:
    data = message.metadata.to_pybytes()
    header = _table(data, _follow(data, 0), 2)  # Message.header
    length = None if header is None else _table(data, _follow(data, header), 0)
    return 0 if length is None else max(0, *struct.unpack_from("<q", data, length))


# -- decompressed size of a message ---------------------------------------------------------------
# A compressed buffer begins with its decompressed length (int64; -1: not compressed). The message's
# flatbuffer contains the buffer offsets, which these functions read.


def _table(data: bytes, at: int, field: int) -> int | None:
    """Return the position of a field of the flatbuffer table at ``at``; ``None`` if absent."""
    (back,) = struct.unpack_from("<i", data, at)
    vtable = at - back
    (length,) = struct.unpack_from("<H", data, vtable)
    if 4 + 2 * field >= length:
        return None
    (offset,) = struct.unpack_from("<H", data, vtable + 4 + 2 * field)
    return at + offset if offset else None


def _follow(data: bytes, at: int) -> int:
    (offset,) = struct.unpack_from("<I", data, at)
    return at + int(offset)


def _unpacked_size(message: Any) -> int:
    """Return the decompressed size of a record batch or dictionary; 0 if it is not compressed."""
    data, body = message.metadata.to_pybytes(), message.body
    header = _table(data, _follow(data, 0), 2)  # Message.header
    if header is None or body is None:
        return 0
    batch = _follow(data, header)
    if message.type == "dictionary":
        inner = _table(data, batch, 1)  # DictionaryBatch.data
        if inner is None:
            return 0
        batch = _follow(data, inner)
    if _table(data, batch, 3) is None:  # RecordBatch.compression
        return 0
    vector = _table(data, batch, 2)  # RecordBatch.buffers: structs of (offset, length)
    if vector is None:
        return 0
    return sum(_buffer_sizes(data, _follow(data, vector), memoryview(body)))


def _buffer_sizes(data: bytes, vector: int, body: memoryview) -> list[int]:
    (count,) = struct.unpack_from("<I", data, vector)
    sizes = []
    for number in range(count):
        offset, length = struct.unpack_from("<qq", data, vector + 4 + 16 * number)
        if length > 8:
            (unpacked,) = struct.unpack_from("<q", body, offset)
            sizes.append(length if unpacked == -1 else unpacked)
            if sizes[-1] < 0:
                raise UnshowableError("it has a buffer with a negative length")
    return sizes


parse = partial(first_rows, _read)
