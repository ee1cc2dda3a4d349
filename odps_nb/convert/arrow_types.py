"""Converts MaxCompute types to Arrow types and back (``docs/protocol.md`` section 5.1).

There are two forms: the types that a read returns, and the types that a write sends. They differ
only for these types:

===================  ==========================  ================================
type                 read                        write
===================  ==========================  ================================
BLOB                 string: the reference text  binary: the raw reference (6.5)
INTERVAL_DAY_TIME    duration[ns]                struct<sec: int64, nano: int32>
VECTOR(element, n)   fixed-size list of n;       list, as pyodps writes it
                     nested: list
===================  ==========================  ================================

Reads return values of VARIANT and unknown types as sent. Their Arrow type is known only when
rows arrive, and they cannot be written, so both forms are ``null`` here.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.arrow.types import ARROW_TYPES, SECONDS_AND_NANOS
from odps_nb.convert.blob_columns.arrow_blob import is_reference
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
    VectorType,
)

BARE_DECIMAL = (38, 18)
_PLAIN = ARROW_TYPES | dict.fromkeys((TypeCode.VARIANT, TypeCode.UNKNOWN), pa.null())


def arrow_type(
    odps: OdpsType,
    *,
    timestamp_unit: str = "ns",
    datetime_unit: str = "ms",
    for_write: bool = False,
) -> pa.DataType:
    """Return the Arrow type of a MaxCompute type.

    ``odps``: the type; DECIMAL without a size means DECIMAL(38, 18). ``timestamp_unit``,
    ``datetime_unit``: ``s``, ``ms``, ``us`` or ``ns``, as requested in the read session.
    ``for_write``: return the form that a write sends, not the form that a read returns.
    """

    def of(inner: OdpsType) -> pa.DataType:
        if isinstance(inner, VectorType):  # Arrow cannot cast null lists to a fixed size
            return pa.list_(_PLAIN[inner.element.code])
        return arrow_type(
            inner,
            timestamp_unit=timestamp_unit,
            datetime_unit=datetime_unit,
            for_write=for_write,
        )

    if isinstance(odps, ArrayType):
        return pa.list_(pa.field("element", of(odps.element)))
    if isinstance(odps, MapType):
        return pa.map_(of(odps.key), of(odps.value))
    if isinstance(odps, StructType):
        return pa.struct([pa.field(member.name, of(member.type)) for member in odps.fields])
    if isinstance(odps, VectorType):
        element = _PLAIN[odps.element.code]
        return pa.list_(element) if for_write else pa.list_(element, odps.length)
    if isinstance(odps, DecimalType):
        precision, scale = decimal_size(odps)
        return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
    units = {"timestamp_unit": timestamp_unit, "datetime_unit": datetime_unit}
    return _scalar(odps.code, **units, for_write=for_write)


def _scalar(
    code: TypeCode, *, timestamp_unit: str, datetime_unit: str, for_write: bool
) -> pa.DataType:
    if code is TypeCode.DATETIME:
        return pa.timestamp(datetime_unit)
    if code in (TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ):
        return pa.timestamp(timestamp_unit)
    if code is TypeCode.INTERVAL_DAY_TIME:
        return SECONDS_AND_NANOS if for_write else pa.duration("ns")
    if code is TypeCode.BLOB:
        return pa.binary() if for_write else pa.string()
    return _PLAIN[code]


def decimal_size(odps: DecimalType) -> tuple[int, int]:
    """Return the precision and scale; (38, 18) for DECIMAL without a size."""
    if odps.precision is None:
        return BARE_DECIMAL
    return odps.precision, odps.scale or 0


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
    """Return the MaxCompute type that holds every value of an Arrow type.

    Unsigned integers become the next wider type (uint64: DECIMAL(20, 0)). Timestamps in seconds or
    milliseconds become DATETIME, finer ones TIMESTAMP; for local times, create the table with
    ``timestamp_ntz``. Nulls become STRING. Dictionaries and extension types are converted like
    their value type or storage type.
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
    raise _homeless(arrow)


def _extension(arrow: pa.DataType) -> OdpsType:
    if arrow.extension_name == "arrow.json":
        return PrimitiveType(TypeCode.JSON)
    if is_reference(arrow):
        return PrimitiveType(TypeCode.BLOB)
    return odps_type(arrow.storage_type)


def _nested(arrow: pa.DataType) -> OdpsType:
    if pt.is_map(arrow):
        return MapType(odps_type(arrow.key_type), odps_type(arrow.item_type))
    if is_list(arrow):
        return ArrayType(odps_type(arrow.value_type))
    if pt.is_struct(arrow):
        members = (arrow.field(i) for i in range(arrow.num_fields))
        return StructType(tuple(StructField(m.name, odps_type(m.type)) for m in members))
    raise _homeless(arrow)


def _homeless(arrow: pa.DataType) -> ConversionError:
    return ConversionError(
        f"no MaxCompute type can store Arrow {arrow}",
        source_type=str(arrow),
        hint="cast the column first, e.g. times of day to text or to a number of seconds",
    )


def is_text(arrow: pa.DataType) -> bool:
    """Whether the values are text, in any of Arrow's layouts."""
    return bool(pt.is_string(arrow) or pt.is_large_string(arrow) or pt.is_string_view(arrow))


def is_bytes(arrow: pa.DataType) -> bool:
    """Whether the values are bytes, in any of Arrow's layouts."""
    return bool(
        pt.is_binary(arrow)
        or pt.is_large_binary(arrow)
        or pt.is_fixed_size_binary(arrow)
        or pt.is_binary_view(arrow)
    )


def is_list(arrow: pa.DataType) -> bool:
    """Whether the values are lists, in any of Arrow's layouts."""
    return bool(
        pt.is_list(arrow)
        or pt.is_large_list(arrow)
        or pt.is_fixed_size_list(arrow)
        or pt.is_list_view(arrow)
        or pt.is_large_list_view(arrow)
    )
