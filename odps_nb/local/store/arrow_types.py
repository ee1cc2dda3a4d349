"""Maps MaxCompute types to Arrow types on disk and on the wire, and converts partition values.

On disk, DATETIME is in milliseconds, and TIMESTAMP(_NTZ) in nanoseconds (microseconds in files with
years outside the nanosecond range). Intervals are ``duration[ns]`` or ``int64`` months. A BLOB is
represented by the base64 text of its reference. A read session may request other time units
(``docs/protocol.md`` sections 5.1, 5.2, 6.5).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.arrow.types import ARROW_TYPES
from odps_nb.local import errors
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
from odps_nb.terms import TimeUnit
from odps_nb.wire.xml_text import has_spelling

_ARROW_UNITS = {
    TimeUnit.SECOND: "s",
    TimeUnit.MILLI: "ms",
    TimeUnit.MICRO: "us",
    TimeUnit.NANO: "ns",
}

_PLAIN = ARROW_TYPES | {
    TypeCode.BLOB: pa.binary(),
    TypeCode.INTERVAL_DAY_TIME: pa.duration("ns"),
}


def arrow_type(
    odps: OdpsType,
    *,
    timestamp_unit: TimeUnit = TimeUnit.NANO,
    datetime_unit: TimeUnit = TimeUnit.MILLI,
) -> pa.DataType:
    """Return the Arrow type of a MaxCompute type, or raise 400 if Arrow reads do not support it."""

    def of(inner: OdpsType) -> pa.DataType:
        return arrow_type(inner, timestamp_unit=timestamp_unit, datetime_unit=datetime_unit)

    if isinstance(odps, ArrayType):
        return pa.list_(pa.field("element", of(odps.element)))
    if isinstance(odps, MapType):
        return pa.map_(of(odps.key), of(odps.value))
    if isinstance(odps, StructType):
        return pa.struct([pa.field(f.name, of(f.type)) for f in odps.fields])
    if isinstance(odps, VectorType):
        return pa.list_(of(odps.element))
    if isinstance(odps, DecimalType):
        precision, scale = (38, 18) if odps.precision is None else (odps.precision, odps.scale or 0)
        return (pa.decimal128 if precision <= 38 else pa.decimal256)(precision, scale)
    if odps.code is TypeCode.DATETIME:
        return pa.timestamp(_ARROW_UNITS[datetime_unit])
    if odps.code in (TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ):
        return pa.timestamp(_ARROW_UNITS[timestamp_unit])
    plain_type = _PLAIN.get(odps.code)
    if plain_type is None:
        raise errors.invalid(f"the type {odps.code.name} is not supported by Arrow reads")
    return plain_type


def arrow_schema(columns: Iterable[Column], **units: TimeUnit) -> pa.Schema:
    """Return the Arrow schema of these columns, in the same order."""
    return pa.schema(
        pa.field(column.name, arrow_type(column.type, **units), nullable=column.nullable)
        for column in columns
    )


def in_units(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert stored values to a session's time units, rounding times down.

    Raises ``ODPS-0422214`` for a time outside the unit's range, such as the year 9999 in ns.
    """
    if array.type.equals(target):
        return array
    try:
        options = pc.CastOptions(target_type=target, allow_time_truncate=True)
        cut = pc.cast(array, options=options)
        if not pa.types.is_timestamp(target):
            return cut
        rounded_up = pc.greater(cut, array)
        return pc.subtract(cut.view(pa.int64()), rounded_up.cast(pa.int64())).view(target)
    except pa.ArrowInvalid:
        raise errors.time_overflow() from None


_YEAR_0, _YEAR_1 = -719528, -719162  # days since 1970


def check_years(array: pa.Array, what: str, first_day: int = _YEAR_0) -> None:
    """Raise 400 for a time before the year 0 or after the year 9999.

    MaxCompute stores the year 0 (pyodps, `test_antique_datetime`). Nested times must
    begin with the year 1, because clients convert them to Python objects, which have no year 0.
    """
    kind = array.type
    if pa.types.is_nested(kind):
        children = [array.keys, array.items] if pa.types.is_map(kind) else array.flatten()
        for child in children if isinstance(children, list) else [children]:
            check_years(child, what, _YEAR_1)
        return
    is_date = pa.types.is_date32(kind)
    if not is_date and (not pa.types.is_timestamp(kind) or kind.unit == "ns"):
        return  # nanoseconds cannot represent such years
    numbers = array.view(pa.int32() if is_date else pa.int64())
    last = pa.scalar(dt.date.max if is_date else dt.datetime.max, kind).value
    day = 1 if is_date else pa.scalar(dt.timedelta(1), pa.duration(kind.unit)).value
    found = pc.min_max(numbers)
    if not found["min"].is_valid:
        return
    if found["min"].as_py() < first_day * day or found["max"].as_py() > last:
        year = int(first_day == _YEAR_1)
        message = f"ODPS-0121095: {what} has a time before the year {year} or after the year 9999"
        raise errors.invalid(errors.with_advice(message, "exclude such times"))


def check_listable(text: str, key: str) -> None:
    """Raise 400 for a partition value that XML, the format of partition lists, cannot represent."""
    if not text or not has_spelling(text):
        problem = "contains a character that XML cannot represent" if text else "is empty"
        raise errors.invalid(
            f"a value of the partition key {key!r} {problem}", code="InvalidPartitionSpec"
        )


def constant(text: str, odps: OdpsType, key: str) -> pa.Scalar:
    """Return a partition value as an Arrow scalar, or raise 400 for invalid text.

    Trailing blanks of a CHAR are dropped; the partition name keeps them (Java SDK 0.50.4).
    """
    target = arrow_type(odps)
    try:
        trimmed = text.rstrip(" ") if odps.code is TypeCode.CHAR else text
        return pa.scalar(trimmed, pa.string()).cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise errors.invalid(
            f"{text!r} is not a valid value of the partition key {key!r} ({target})",
            code="InvalidPartitionSpec",
        ) from None


def spelled(array: pa.Array, key: str) -> pa.Array:
    """Return partition values as the text used in partition names, or raise 400 for null."""
    if array.null_count:
        raise errors.invalid(
            f"a value of the partition key {key!r} is null", code="InvalidPartitionSpec"
        )
    text = array if pa.types.is_string(array.type) else array.cast(pa.string())
    for value in pc.unique(text).to_pylist():
        check_listable(value, key)
    return text
