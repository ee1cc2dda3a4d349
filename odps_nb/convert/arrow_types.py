"""Converts Arrow types to MaxCompute types, and recognises kinds of values in any Arrow layout."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.convert.blob_columns.arrow_blob import is_reference
from odps_nb.convert.foreign import value_type
from odps_nb.errors import ConversionError
from odps_nb.schema import (
    ArrayType,
    DecimalType,
    MapType,
    OdpsType,
    PrimitiveType,
    StructField,
    StructType,
    TypeCode,
)

_CODES: tuple[tuple[Callable[[pa.DataType], bool], TypeCode], ...] = (
    (pt.is_boolean, TypeCode.BOOLEAN),
    (pt.is_int8, TypeCode.TINYINT),
    (lambda t: pt.is_int16(t) or pt.is_uint8(t), TypeCode.SMALLINT),
    (lambda t: pt.is_int32(t) or pt.is_uint16(t), TypeCode.INT),
    (lambda t: pt.is_int64(t) or pt.is_uint32(t), TypeCode.BIGINT),
    (lambda t: pt.is_float16(t) or pt.is_float32(t), TypeCode.FLOAT),
    (pt.is_float64, TypeCode.DOUBLE),
    (lambda t: is_text(t) or pt.is_null(t), TypeCode.STRING),
    (lambda t: is_bytes(t), TypeCode.BINARY),
    (pt.is_date, TypeCode.DATE),
    (lambda t: pt.is_timestamp(t) and t.unit in ("s", "ms"), TypeCode.DATETIME),
    (pt.is_timestamp, TypeCode.TIMESTAMP),
    (pt.is_duration, TypeCode.INTERVAL_DAY_TIME),
)


def odps_type(arrow: pa.DataType) -> OdpsType:
    """Return a MaxCompute type that can hold every value of an Arrow type.

    Unsigned integers become the next wider type (uint64: DECIMAL(20, 0)). Timestamps in seconds or
    milliseconds become DATETIME, finer ones TIMESTAMP; for local times, create the table with a
    ``timestamp_ntz`` column. Nulls become STRING. Dictionaries are converted like their value type,
    and extension types like their storage type.
    """
    if isinstance(arrow, pa.BaseExtensionType):
        return _extension(arrow)
    if pt.is_dictionary(arrow) or pt.is_run_end_encoded(arrow):
        return odps_type(arrow.value_type)
    if pt.is_nested(arrow):
        return _nested(arrow)
    if pt.is_decimal(arrow):
        if arrow.scale < 0:
            return DecimalType(arrow.precision - arrow.scale, 0)
        return DecimalType(max(arrow.precision, arrow.scale), arrow.scale)
    if pt.is_uint64(arrow):
        return DecimalType(20, 0)
    for matches, code in _CODES:
        if matches(arrow):
            return PrimitiveType(code)
    raise _no_type_for(arrow)


def _extension(arrow: pa.DataType) -> OdpsType:
    if arrow.extension_name == "arrow.json":
        return PrimitiveType(TypeCode.JSON)
    if is_reference(arrow):
        return PrimitiveType(TypeCode.BLOB)
    return odps_type(value_type(arrow))


def _nested(arrow: pa.DataType) -> OdpsType:
    if pt.is_map(arrow):
        return MapType(odps_type(arrow.key_type), odps_type(arrow.item_type))
    if is_list(arrow):
        return ArrayType(odps_type(arrow.value_type))
    if pt.is_struct(arrow):
        members = (arrow.field(i) for i in range(arrow.num_fields))
        return StructType(tuple(StructField(m.name, odps_type(m.type)) for m in members))
    raise _no_type_for(arrow)


def _no_type_for(arrow: pa.DataType) -> ConversionError:
    return ConversionError(
        f"no MaxCompute type can store Arrow {arrow}",
        source_type=str(arrow),
        hint="cast the column first, e.g. intervals to a number of months or days"
        if pt.is_interval(arrow)
        else "cast the column first, e.g. times of day to text or to a number of seconds",
    )


def is_text(arrow: pa.DataType) -> bool:
    """Whether the values are text, in any of Arrow's layouts."""
    return arrow in (pa.string(), pa.large_string(), pa.string_view())


def is_bytes(arrow: pa.DataType) -> bool:
    """Whether the values are bytes, in any of Arrow's layouts."""
    layouts = (pa.binary(), pa.large_binary(), pa.binary_view())
    return arrow in layouts or bool(pt.is_fixed_size_binary(arrow))


def is_list(arrow: pa.DataType) -> bool:
    """Whether the values are lists, in any of Arrow's layouts."""
    lists = (pa.ListType, pa.LargeListType, pa.FixedSizeListType)
    return isinstance(arrow, (*lists, pa.ListViewType, pa.LargeListViewType))
