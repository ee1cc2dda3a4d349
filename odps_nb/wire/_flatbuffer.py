"""Minimal, bounds-checked flatbuffers reader for Arrow messages.

A table contains a backward offset to its vtable and forward offsets to its strings, tables and
vectors. An offset outside the buffer raises `FramingError`.
"""

from __future__ import annotations

import struct
from functools import cache
from struct import Struct

from odps_nb.errors import FramingError

U8, I16, I64 = Struct("<B"), Struct("<h"), Struct("<q")
_U16, _U32, _I32, _PAIR = Struct("<H"), Struct("<I"), Struct("<i"), Struct("<qq")


def root(data: bytes) -> int:
    """Return the offset of the root table."""
    return read(_U32, data, 0)


def fields_of(data: bytes, table: int, count: int) -> tuple[int, ...]:
    """Return the offsets of a table's first ``count`` fields; 0 for absent fields.

    All offsets are read in one step, because this runs for every message in a stream.
    """
    vtable = table - read(_I32, data, table)
    known = min(count, max(0, (read(_U16, data, vtable) - 3) // 2))
    if vtable + 4 + 2 * known > len(data):
        raise _outside()
    found = _slots(known).unpack_from(data, vtable + 4)
    return tuple([table + slot if slot else 0 for slot in found]) + (0,) * (count - known)


@cache
def _slots(count: int) -> Struct:
    return Struct(f"<{count}H")


def field_at(data: bytes, table: int, slot: int) -> int:
    """Return the offset of a table's field; 0 if the field is absent."""
    vtable = table - read(_I32, data, table)
    place = 4 + 2 * slot
    if place >= read(_U16, data, vtable):
        return 0
    offset = read(_U16, data, vtable + place)
    return table + offset if offset else 0


def number(kind: Struct, data: bytes, table: int, slot: int) -> int:
    """Return a field's value; 0 if the field is absent."""
    at = field_at(data, table, slot)
    return read(kind, data, at) if at else 0


def table_at(data: bytes, table: int, slot: int) -> int:
    """Return the offset of the table that a field points to; 0 if the field is absent."""
    return follow(data, field_at(data, table, slot))


def follow(data: bytes, at: int) -> int:
    """Return the offset that the field at ``at`` points to; 0 if ``at`` is 0."""
    return at + read(_U32, data, at) if at else 0


def tables(data: bytes, table: int, slot: int) -> list[int]:
    """Return the offsets of the tables in a vector."""
    start, count = _vector(data, field_at(data, table, slot), _U32.size)
    places = range(start, start + count * _U32.size, _U32.size)
    return [place + read(_U32, data, place) for place in places]


def pairs(data: bytes, at: int) -> list[tuple[int, int]]:
    """Return the int64 pairs in the vector that the field at ``at`` points to."""
    start, count = _vector(data, at, _PAIR.size)
    return list(_PAIR.iter_unpack(data[start : start + count * _PAIR.size]))


def text(data: bytes, table: int, slot: int) -> bytes:
    """Return a string's bytes; empty if the field is absent."""
    start, count = _vector(data, field_at(data, table, slot), 1)
    return data[start : start + count]


def read(kind: Struct, data: bytes, at: int) -> int:
    """Return the number at an offset."""
    if at < 0:  # Python would count a negative offset from the buffer's end
        raise _outside()
    try:
        value: int = kind.unpack_from(data, at)[0]
    except struct.error:
        raise _outside() from None
    return value


def _vector(data: bytes, at: int, size: int) -> tuple[int, int]:
    """Return the offset of a vector's first item, and the number of items."""
    vector = follow(data, at)
    if not vector:
        return 0, 0
    count = read(_U32, data, vector)
    start = vector + _U32.size
    if count * size > len(data) - start:
        raise _outside()
    return start, count


def _outside() -> FramingError:
    return FramingError("an offset in an Arrow message points outside the message")
