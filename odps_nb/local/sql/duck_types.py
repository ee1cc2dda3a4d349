"""Converts types between MaxCompute and DuckDB, and opens stored rows for query processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.arrow.leaves import with_leaf_types, with_leaves
from odps_nb.arrow.types import ARROW_TYPES
from odps_nb.local import errors
from odps_nb.local.duck import duck_quoted
from odps_nb.local.store.arrow_types import arrow_type, check_years
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
    has_timestamp,
)
from odps_nb.terms import TimeUnit
from odps_nb.type_facts import TYPE_FACTS

_KEPT = (
    *(TypeCode.TINYINT, TypeCode.SMALLINT, TypeCode.INT, TypeCode.BIGINT, TypeCode.FLOAT),
    *(TypeCode.DOUBLE, TypeCode.BOOLEAN, TypeCode.STRING, TypeCode.BINARY, TypeCode.DATE),
)
_RESULT = {ARROW_TYPES[code]: code for code in _KEPT} | {
    pa.uint8(): TypeCode.SMALLINT,
    pa.uint16(): TypeCode.INT,
    pa.uint32(): TypeCode.BIGINT,
    pa.uint64(): TypeCode.BIGINT,
    pa.large_string(): TypeCode.STRING,
    pa.large_binary(): TypeCode.BINARY,
    pa.month_day_nano_interval(): TypeCode.INTERVAL_DAY_TIME,
    pa.null(): TypeCode.STRING,
}
CLOCKS = frozenset(
    (TypeCode.TIMESTAMP_NTZ, TypeCode.DATE, TypeCode.STRING, TypeCode.VARCHAR, TypeCode.CHAR)
)
"""The text types, and the time types without a time zone."""


def duck_type(odps: OdpsType) -> str:
    """Return the DuckDB spelling of a type, for a CAST."""
    if isinstance(odps, (ArrayType, VectorType)):
        return f"{duck_type(odps.element)}[]"
    if isinstance(odps, MapType):
        return f"MAP({duck_type(odps.key)}, {duck_type(odps.value)})"
    if isinstance(odps, StructType):
        members = ", ".join(f"{duck_quoted(f.name)} {duck_type(f.type)}" for f in odps.fields)
        return f"STRUCT({members})"
    if isinstance(odps, DecimalType):
        precision, scale = (38, 18) if odps.precision is None else (odps.precision, odps.scale or 0)
        return f"DECIMAL({min(precision, 38)}, {min(scale, 38)})"
    if spelling := TYPE_FACTS[odps.code].duck:
        return spelling
    raise errors.invalid(f"SQL in the embedded service does not support {odps.code.name}")


def result_type(spelled: str, arrow: pa.DataType) -> OdpsType:
    """Return the MaxCompute type of a result column, given its DuckDB and Arrow types."""
    if spelled in ("HUGEINT", "UHUGEINT"):
        return PrimitiveType(TypeCode.BIGINT)  # DuckDB returns HUGEINT for sums of integers
    return _from_arrow(arrow)


def _from_arrow(arrow: pa.DataType) -> OdpsType:
    if pa.types.is_timestamp(arrow):
        code = TypeCode.DATETIME if arrow.unit in ("s", "ms") else TypeCode.TIMESTAMP
        return PrimitiveType(code)
    if pa.types.is_decimal(arrow):
        return DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_dictionary(arrow):
        return _from_arrow(arrow.value_type)
    if pa.types.is_map(arrow):
        return MapType(_from_arrow(arrow.key_type), _from_arrow(arrow.item_type))
    if pa.types.is_list(arrow) or pa.types.is_fixed_size_list(arrow):
        return ArrayType(_from_arrow(arrow.value_type))
    if pa.types.is_struct(arrow):
        return StructType(tuple(StructField(f.name, _from_arrow(f.type)) for f in arrow))
    if arrow in _RESULT:
        return PrimitiveType(_RESULT[arrow])
    raise errors.invalid(f"a result column has the type {arrow}, which MaxCompute does not support")


def result_array(array: pa.Array, odps: OdpsType) -> pa.Array:
    """Convert a result column to its stored type."""
    check_years(array, "the result")
    target = arrow_type(odps)
    if array.type.equals(target):
        return array
    if _any(pt.is_interval, array.type):
        array = with_leaves(array, with_leaf_types(array.type, None, _duration_type), _durations)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp(array.type.unit))
    try:
        if pa.types.is_decimal(target) and pa.types.is_decimal(array.type):
            array = array.cast(pa.decimal256(76, target.scale))  # 128 bits may overflow
        return array.cast(target)
    except pa.ArrowInvalid as error:
        if not has_timestamp(odps):
            raise errors.invalid(f"a value of the result cannot be stored: {error}") from None
    return array.cast(arrow_type(odps, timestamp_unit=TimeUnit.MICRO))


def _duration_type(kind: pa.DataType, _: OdpsType | None) -> pa.DataType:
    return pa.duration("ns") if pt.is_interval(kind) else kind


def _durations(array: pa.Array, kind: pa.DataType) -> pa.Array:
    nanos: list[int | None] = []
    for value in array.to_pylist():
        if value is None:
            nanos.append(None)
            continue
        if value.months:
            raise errors.invalid("an interval of months cannot be converted to days")
        nanos.append(value.days * 86_400_000_000_000 + value.nanoseconds)
    try:
        return pa.array(nanos, pa.int64()).cast(kind)
    except OverflowError:
        raise errors.invalid("an interval of the result is longer than 106751 days") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """Visible rows of a table: Parquet files, each with a condition that all its rows satisfy.

    Rows that are in no file are in ``held``.

    A condition is a `pyarrow.compute.Expression` on partition columns, or ``None``. ``mixed``
    means that some TIMESTAMPs need nanoseconds and others microseconds. ``stored`` maps columns to
    their names in the files, where these differ.
    """

    schema: pa.Schema
    files: tuple[tuple[str, Any], ...]
    mixed: bool = False
    stored: Mapping[str, str] = field(default_factory=dict)
    held: pa.Table | None = None

    @property
    def unread(self) -> dict[str, str]:
        """Reasons why DuckDB cannot read certain columns, by column name."""
        reasons = {
            column.name: _WIDE for column in self.schema if _any(pt.is_decimal256, column.type)
        }
        if self.mixed:
            reasons |= {
                column.name: _MIXED for column in self.schema if _any(_is_fine, column.type)
            }
        return reasons

    def open(self) -> Any:
        """Return a dataset (or an empty table) for DuckDB, without the columns in `unread`.

        Columns have the names that they have in the files.
        """
        if self.held is not None:
            return self.held
        # imported here because only the worker process needs it
        import pyarrow.dataset as ds
        from pyarrow import fs

        schema = pa.schema(
            column.with_name(self.stored.get(column.name, column.name))
            for column in self.schema
            if column.name not in self.unread
        )
        if not self.files:
            return schema.empty_table()
        parquet, here = ds.ParquetFileFormat(), fs.LocalFileSystem()
        fragments = [
            parquet.make_fragment(path, here, partition_expression=condition)
            for path, condition in self.files
        ]
        return ds.FileSystemDataset(fragments, schema, parquet, here)


_WIDE = "SQL in the embedded service supports DECIMAL only up to 38 digits; read the table instead"
_SHORT = (
    "SQL in the embedded service cannot read a column with INTERVALs that have digits below a"
    " microsecond; read the table instead"
)
_MIXED = (
    "SQL in the embedded service cannot read a column in which some TIMESTAMPs are outside the"
    " range of nanoseconds and others have digits below a microsecond; read the table with"
    " timestamp_unit=us"
)


def fine_intervals(rows: StoredRows, source: Any) -> dict[str, str]:
    """Return the columns whose intervals DuckDB would round, and why; ``source``: the opened rows.

    Columns of intervals are read completely; they are rare.
    """
    return {
        column.name: _SHORT
        for column in rows.schema
        if _any(pt.is_duration, column.type)
        and column.name not in rows.unread
        and not all(map(_fits_micros, _batches(source, rows.stored.get(column.name, column.name))))
    }


def _batches(source: Any, name: str) -> Iterable[pa.RecordBatch]:
    if isinstance(source, pa.Table):
        return source.select([name]).to_batches()  # type: ignore[no-any-return]  # pyarrow
    return source.to_batches(columns=[name])  # type: ignore[no-any-return]  # a dataset


def _fits_micros(batch: pa.RecordBatch) -> bool:
    array = batch.column(0)
    try:
        array.cast(with_leaf_types(array.type, None, _micros_type))
    except pa.ArrowInvalid:  # the cast would lose digits
        return False
    return True


def _micros_type(kind: pa.DataType, _: OdpsType | None) -> pa.DataType:
    return pa.duration("us") if pt.is_duration(kind) else kind


def _is_fine(kind: pa.DataType) -> bool:
    return pt.is_timestamp(kind) and kind.unit in ("us", "ns")


def _any(test: Callable[[pa.DataType], bool], kind: pa.DataType) -> bool:
    """Return whether a type or one of its nested types passes a test."""
    inner = (kind.field(number).type for number in range(kind.num_fields))
    return test(kind) or any(_any(test, child) for child in inner)
