"""A minimal, bounds-checked flatbuffers reader: what an Arrow message needs, no more.

A table points back at its vtable, and its fields forward: at strings, tables and vectors. An offset
outside of the buffer is a `FramingError`.
"""

from __future__ import annotations

from struct import Struct

from odps_nb.errors import FramingError

__all__ = ["I16", "I64", "U8", "field_at", "number", "pairs", "read", "root", "table_at", "tables"]
__all__ += ["text"]

U8, I16, I64 = Struct("<B"), Struct("<h"), Struct("<q")
_U16, _U32, _I32, _PAIR = Struct("<H"), Struct("<I"), Struct("<i"), Struct("<qq")


def root(data: bytes) -> int:
    """Return the offset of the root table."""
    return read(_U32, data, 0)


def field_at(data: bytes, table: int, slot: int) -> int:
    """Return the offset of a field of a table; 0 when it is left at its default."""
    vtable = table - read(_I32, data, table)
    place = 4 + 2 * slot
    if place >= read(_U16, data, vtable):
        return 0
    offset = read(_U16, data, vtable + place)
    return table + offset if offset else 0


def number(kind: Struct, data: bytes, table: int, slot: int) -> int:
    """Return the value of a field; 0 when it is left at its default."""
    at = field_at(data, table, slot)
    return read(kind, data, at) if at else 0


def table_at(data: bytes, table: int, slot: int) -> int:
    """Return the offset of the table that a field points at; 0 when there is none."""
    at = field_at(data, table, slot)
    return at + read(_U32, data, at) if at else 0


def tables(data: bytes, table: int, slot: int) -> list[int]:
    """Return the offsets of the tables of a vector."""
    start, count = _vector(data, table, slot, _U32.size)
    places = range(start, start + count * _U32.size, _U32.size)
    return [place + read(_U32, data, place) for place in places]


def pairs(data: bytes, table: int, slot: int) -> list[tuple[int, int]]:
    """Return the members of a vector of structs of two int64."""
    start, count = _vector(data, table, slot, _PAIR.size)
    return list(_PAIR.iter_unpack(data[start : start + count * _PAIR.size]))


def text(data: bytes, table: int, slot: int) -> bytes:
    """Return the bytes of a string; none when there is none."""
    start, count = _vector(data, table, slot, 1)
    return data[start : start + count]


def read(kind: Struct, data: bytes, at: int) -> int:
    """Return the number at an offset."""
    if not 0 <= at <= len(data) - kind.size:
        raise _outside()
    value: int = kind.unpack_from(data, at)[0]
    return value


def _vector(data: bytes, table: int, slot: int, size: int) -> tuple[int, int]:
    """Return the offset of the first member of a vector, and the number of members."""
    vector = table_at(data, table, slot)
    if not vector:
        return 0, 0
    count = read(_U32, data, vector)
    start = vector + _U32.size
    if count * size > len(data) - start:
        raise _outside()
    return start, count


def _outside() -> FramingError:
    return FramingError("an offset in an Arrow message points outside of the message")
