"""Checks that an Arrow stream has the columns of its session.

A column may have any Arrow type that services are known to send for its MaxCompute type
(``docs/protocol.md`` sections 5.1, 5.2). `odps_nb.arrow.plain` converts the stream before this
check.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.errors import FramingError
from odps_nb.schema import ArrayType, Column, DecimalType, MapType, OdpsType, StructType, TypeCode
from odps_nb.terms import shorten
from odps_nb.wire.type_text import format_type

_SHOWN = 120


def find_columns(
    stream: pa.Schema, columns: Sequence[Column], *, may_have_more: bool = False
) -> tuple[int, ...]:
    """Return each session column's index in the stream.

    Order, case of names, nullability and metadata may differ. Types are compared by kind of value,
    even in nested types, so time units, precisions and offset widths may differ as well.

    Parameters
    ----------
    may_have_more
        Allow additional columns in the stream, for callers that select columns from it.

    Examples
    --------
    >>> from odps_nb.wire.type_text import parse_columns
    >>> session = parse_columns("id bigint, name string")
    >>> find_columns(pa.schema({"NAME": pa.large_string(), "id": pa.int64()}), session)
    (1, 0)
    """
    names = [name.casefold() for name in stream.names]
    expected = [column.name.casefold() for column in columns]
    if len(set(expected)) < len(expected) and names == expected:
        # a query result may have two columns of the same name
        indexes = list(range(len(names)))
    else:
        indexes = _places(stream, names, columns)
        if len(names) > len(columns) and not may_have_more:
            extra = next(name for name in stream.names if name.casefold() not in set(expected))
            raise mismatch(
                f"the stream has {len(names)} columns, but the session has {len(columns)}: "
                f"{shorten(repr(extra), _SHOWN)} is not in the session"
            )
    for column, index in zip(columns, indexes, strict=True):
        _require(stream.field(index).type, column.type, column.name)
    return tuple(indexes)


def mismatch(message: str, hint: str | None = None) -> FramingError:
    """Return the error for columns that differ from the session's; the read is not retried."""
    error = FramingError(message, hint=hint)
    error.lasts = True
    return error


def _places(stream: pa.Schema, names: Sequence[str], columns: Sequence[Column]) -> list[int]:
    where: dict[str, int] = {}
    for index, name in enumerate(names):
        if where.setdefault(name, index) != index:
            raise mismatch(
                f"the stream has the column {shorten(repr(stream.field(index).name), _SHOWN)} twice"
            )
    indexes = []
    for column in columns:
        position = where.get(column.name.casefold())
        if position is None:
            raise mismatch(f"the stream has no column {column.name!r}")
        indexes.append(position)
    return indexes


def _require(received: pa.DataType, promised: OdpsType, path: str) -> None:
    if isinstance(promised, ArrayType) and (pt.is_list(received) or pt.is_large_list(received)):
        _require(received.value_type, promised.element, f"{path}.element")
    elif isinstance(promised, MapType) and pt.is_map(received):
        _require(received.key_type, promised.key, f"{path}.key")
        _require(received.item_type, promised.value, f"{path}.value")
    elif isinstance(promised, StructType) and pt.is_struct(received):
        _require_members(received, promised, path)
    elif not _is_form_of(received, promised):
        raise mismatch(
            f"the column {path!r} is {shorten(format_type(promised), _SHOWN)} in the session, "
            f"but has the Arrow type {shorten(str(received), _SHOWN)} in the stream",
            hint="read again if the table was changed; otherwise report the request id",
        )


def _require_members(received: pa.DataType, promised: StructType, path: str) -> None:
    indexes: dict[str, int] = {}
    for index in range(received.num_fields):
        if indexes.setdefault(received.field(index).name.casefold(), index) != index:
            raise mismatch(f"the struct {path!r} has the same member twice in the stream")
    expected = {member.name.casefold() for member in promised.fields}
    if indexes.keys() != expected:
        odd = sorted(indexes.keys() ^ expected)[0]
        raise mismatch(
            f"the member {odd!r} of the struct {path!r} is missing from the stream or the session"
        )
    for member in promised.fields:
        index = indexes[member.name.casefold()]
        _require(received.field(index).type, member.type, f"{path}.{member.name}")


def _is_form_of(received: pa.DataType, promised: OdpsType) -> bool:
    if isinstance(promised, (ArrayType, MapType, StructType)):
        return False
    if isinstance(promised, DecimalType):
        if not (pt.is_decimal128(received) or pt.is_decimal256(received)):
            return False
        return promised.precision is None or received.scale == (promised.scale or 0)
    return any(matches(received) for matches in _FORMS[promised.code])


_TEXT = (pt.is_string, pt.is_large_string)
_BYTES = (pt.is_binary, pt.is_large_binary)
_TIME = (pt.is_timestamp,)

_FORMS: dict[TypeCode, tuple[Callable[[pa.DataType], bool], ...]] = {
    TypeCode.TINYINT: (pt.is_int8,),
    TypeCode.SMALLINT: (pt.is_int16,),
    TypeCode.INT: (pt.is_int32,),
    TypeCode.BIGINT: (pt.is_int64,),
    TypeCode.FLOAT: (pt.is_float32,),
    TypeCode.DOUBLE: (pt.is_float64,),
    TypeCode.BOOLEAN: (pt.is_boolean,),
    TypeCode.STRING: (*_TEXT, *_BYTES),
    TypeCode.CHAR: (*_TEXT, *_BYTES),
    TypeCode.VARCHAR: (*_TEXT, *_BYTES),
    TypeCode.JSON: (*_TEXT, *_BYTES),
    TypeCode.BINARY: _BYTES,
    TypeCode.BLOB: (*_TEXT, *_BYTES),
    TypeCode.DATE: (pt.is_date32,),
    TypeCode.DATETIME: _TIME,
    TypeCode.TIMESTAMP: _TIME,
    TypeCode.TIMESTAMP_NTZ: _TIME,
    TypeCode.INTERVAL_DAY_TIME: (pt.is_duration, pt.is_timestamp),
    TypeCode.INTERVAL_YEAR_MONTH: (pt.is_int32, pt.is_int64),
    # no source documents these types, so any Arrow type is accepted
    **dict.fromkeys(
        (TypeCode.VARIANT, TypeCode.GEOGRAPHY, TypeCode.VECTOR, TypeCode.UNKNOWN),
        (lambda _: True,),
    ),
}
