"""Arrow columns as the plain Python values of the tunnel's row stream, and back.

Times are integers here (DATETIME milliseconds, TIMESTAMP and INTERVAL_DAY_TIME nanoseconds, DATE
days), decimals are text: as on the wire, without conversion by a library of dates.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from odps_nb.arrow.text import as_bytes
from odps_nb.local import faults
from odps_nb.local.store.arrow_types import arrow_type
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

__all__ = ["from_plain", "plain_type", "to_plain"]

_INTEGERS = {
    TypeCode.DATETIME: pa.int64,
    TypeCode.TIMESTAMP: pa.int64,
    TypeCode.TIMESTAMP_NTZ: pa.int64,
    TypeCode.INTERVAL_DAY_TIME: pa.int64,
    TypeCode.DATE: pa.int32,
}


def plain_type(odps: OdpsType) -> pa.DataType:
    """Return the Arrow type whose Python values are the plain ones (decimals stay decimals)."""
    if isinstance(odps, ArrayType):
        return pa.list_(pa.field("element", plain_type(odps.element)))
    if isinstance(odps, MapType):
        return pa.map_(plain_type(odps.key), plain_type(odps.value))
    if isinstance(odps, StructType):
        return pa.struct([pa.field(f.name, plain_type(f.type)) for f in odps.fields])
    make = _INTEGERS.get(odps.code)
    return arrow_type(odps) if make is None else make()


def to_plain(array: pa.Array, odps: OdpsType) -> list[Any]:
    """Return the values of a stored column."""
    target = plain_type(odps)
    plain = array if array.type.equals(target) else array.cast(target)
    values: list[Any] = plain.view(as_bytes(target)).to_pylist()  # a STRING holds any bytes
    return [_as_nanos(value, odps) for value in values] if _is_micro(array.type) else values


def _is_micro(kind: pa.DataType) -> bool:
    """Return whether the times in a column are microseconds, which reach farther."""
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
    """Return a stored column from plain values; 400 if they do not fit its type."""
    try:
        prepared = [_prepared(value, column.type) for value in values]
        plain = plain_type(column.type)
        return pa.array(prepared, as_bytes(plain)).view(plain).cast(arrow_type(column.type))
    except (pa.ArrowException, InvalidOperation, OverflowError, ValueError, TypeError) as error:
        raise faults.invalid(f"the column {column.name!r}: {error}") from None


def _prepared(value: Any, odps: OdpsType) -> Any:
    if value is None:
        return None
    if isinstance(odps, VectorType):
        if len(value) != odps.length:
            raise ValueError(f"a vector has {len(value)} elements, not {odps.length}")
        return value
    if isinstance(odps, ArrayType):
        return [_prepared(item, odps.element) for item in value]
    if isinstance(odps, MapType):
        return [(_prepared(k, odps.key), _prepared(v, odps.value)) for k, v in value]
    if isinstance(odps, StructType):
        members = zip(odps.fields, value, strict=True)
        return {f.name: _prepared(v, f.type) for f, v in members}
    if isinstance(odps, DecimalType):
        return Decimal(value.decode("ascii"))
    if isinstance(value, bytes) and odps.code in (TypeCode.CHAR, TypeCode.VARCHAR, TypeCode.JSON):
        return value.decode("utf-8")
    return value
