"""Checks a DataFrame's columns against the target table before any task runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import types as spark

from odps_nb.access.checks import check_partition
from odps_nb.access.writing.columns import (
    ColumnsLike,
    check_same_partitions,
    check_types,
    partitioned,
    typed_columns,
    with_types,
)
from odps_nb.access.writing.sources import Target, require_columns
from odps_nb.client.catalog import fetch_table, table_exists
from odps_nb.client.sql.definitions import create_table
from odps_nb.convert.arrow_schema import match_columns
from odps_nb.convert.arrow_types import is_bytes, is_text
from odps_nb.errors import ConversionError
from odps_nb.schema import (
    ArrayType,
    Column,
    MapType,
    OdpsType,
    PrimitiveType,
    StructType,
    TableSchema,
    TypeCode,
    has_blob,
    is_readable,
)
from odps_nb.spark.blobs.api import NEW_BLOB
from odps_nb.spark.tasks.types import TYPE_KEY, require_sent, spark_type, table_type
from odps_nb.spark.versions import arrow_schema
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.type_text import parse_type

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from odps_nb.client.calls.storage import StorageClient

#: Not `DatetimeType`, which PySpark 4.0 lacks.
_TIMES = (spark.DateType, spark.TimestampType, spark.TimestampNTZType)
#: A struct with these fields is uploaded as a blob. Only ``data`` is required; `NEW_BLOB` has all
#: three fields.
NEW_BLOB_FIELDS: dict[str, type[spark.DataType]] = {
    "data": spark.BinaryType,
    "mime_type": spark.StringType,
    "file_name": spark.StringType,
}


def check_frame(frame: spark.StructType, target: Target) -> None:
    """Raise unless a DataFrame's columns fit a table."""
    fixed = {key.casefold() for key, _ in target.fixed}
    offered = spark.StructType([f for f in frame.fields if f.name.casefold() not in fixed])
    kinds = {field.name.casefold(): field.dataType for field in offered.fields}
    for field in offered.fields:
        hint = "cast the column to the type of the table's column"
        if _has_months(field.dataType):
            hint = "use odps_nb.spark.write, which sends months as numbers"
        require_sent(field, hint)
    require_columns(kinds, target)
    match_columns(
        arrow_schema(offered),
        TableSchema(
            columns=tuple(
                _as_offered(column, kinds.get(column.name.casefold()))
                for column in target.columns.columns
            ),
            partition_columns=target.columns.partition_columns,
        ),
        target.conversions,
        _hint,
    )


def _hint(column: Column, given: pa.DataType) -> str:
    """Return how to convert a column whose type does not fit the table's column."""
    code, name = column.type.code, f"F.col({column.name!r})"
    if pt.is_nested(given) and code in (TypeCode.STRING, TypeCode.JSON):
        return f"convert it with F.to_json({name})"
    if not is_readable(column.type):
        return "omit the column; it becomes null"
    if code is TypeCode.GEOGRAPHY:
        return "pass WKB as binary"
    kind = spark_type(column.type, column=column.name)
    wanted = kind.simpleString()
    is_number = pt.is_integer(given) or pt.is_floating(given) or pt.is_decimal(given)
    if isinstance(kind, (spark.TimestampType, spark.TimestampNTZType)) and is_number:
        return f"convert it, e.g. with F.timestamp_seconds({name}), which counts seconds"
    # Spark matches the members of structs by position, and cannot cast between all types
    if "struct<" in wanted or not _is_castable(given, kind):
        return f"convert it to {wanted}"
    return f"cast it, e.g. with {name}.cast({wanted!r})"


def _is_castable(given: pa.DataType, kind: spark.DataType) -> bool:
    """Whether a cast in Spark may convert values of these types, without structs."""
    if pt.is_list(given) or pt.is_map(given):
        return isinstance(kind, spark.ArrayType if pt.is_list(given) else spark.MapType)
    if pt.is_temporal(given):
        return isinstance(kind, (*_TIMES, spark.StringType))
    if is_bytes(given) or isinstance(kind, (*_TIMES, spark.BinaryType)):
        return is_text(given)
    return isinstance(kind, spark.AtomicType)


def _as_offered(column: Column, kind: spark.DataType | None) -> Column:
    """Check a column's nested BLOBs; return the column with the type that later checks expect."""
    if kind is None or not has_blob(column.type):
        return column
    _check_blobs(kind, column.type, column.name)
    return replace(column, type=table_type(kind, column=column.name))


def _check_blobs(kind: spark.DataType, target: OdpsType, path: str) -> None:
    if isinstance(target, ArrayType) and isinstance(kind, spark.ArrayType):
        _check_blobs(kind.elementType, target.element, f"{path}.element")
    elif isinstance(target, MapType) and isinstance(kind, spark.MapType):
        _check_blobs(kind.keyType, target.key, f"{path}.key")
        _check_blobs(kind.valueType, target.value, f"{path}.value")
    elif isinstance(target, StructType) and isinstance(kind, spark.StructType):
        types = {member.name.casefold(): member.type for member in target.fields}
        for field in kind.fields:
            if field.name.casefold() not in types:
                raise _misfit(path, kind, f"the STRUCT has no member {field.name!r}")
            _check_blobs(field.dataType, types[field.name.casefold()], f"{path}.{field.name}")
    elif isinstance(target, (ArrayType, MapType, StructType)):
        raise _misfit(path, kind, "the nesting differs")
    elif target.code is TypeCode.BLOB and not _describes_blob(kind):
        raise _misfit(path, kind, "the type cannot describe a blob")


def _describes_blob(kind: spark.DataType) -> bool:
    if isinstance(kind, spark.StructType):
        return "data" in kind.names and all(
            isinstance(f.dataType, NEW_BLOB_FIELDS.get(f.name, ())) for f in kind.fields
        )
    return isinstance(kind, (spark.BinaryType, spark.StringType))


def _misfit(path: str, kind: spark.DataType, reason: str) -> ConversionError:
    return ConversionError(
        f"column {path!r}: Spark type {kind.simpleString()} does not fit: {reason}",
        column=path,
        source_type=kind.simpleString(),
        target_type="blob",
        hint=f"pass a BLOB as content (binary), as a reference to copy (string), or as {NEW_BLOB}",
    )


def months_as_numbers(frame: DataFrame) -> DataFrame:
    """Return the frame with year-month intervals converted to months, which Python can receive."""
    from pyspark.sql import functions as F

    for field in frame.schema.fields:
        if _has_months(field.dataType):
            months = _months(F.col(f"`{field.name}`"), field.dataType)
            frame = frame.withColumn(field.name, months)
    return frame


def _has_months(kind: spark.DataType) -> bool:
    if isinstance(kind, spark.ArrayType):
        return _has_months(kind.elementType)
    if isinstance(kind, spark.MapType):
        return _has_months(kind.keyType) or _has_months(kind.valueType)
    if isinstance(kind, spark.StructType):
        return any(_has_months(field.dataType) for field in kind.fields)
    return isinstance(kind, spark.YearMonthIntervalType)


def _months(column: SparkColumn, kind: spark.DataType) -> SparkColumn:
    """Return the column with its intervals, including nested ones, converted to months."""
    from pyspark.sql import functions as F

    if not _has_months(kind):
        return column
    if isinstance(kind, spark.ArrayType):
        return F.transform(column, lambda one: _months(one, kind.elementType))
    if isinstance(kind, spark.MapType):
        keyed = F.transform_keys(column, lambda key, _: _months(key, kind.keyType))
        return F.transform_values(keyed, lambda _, value: _months(value, kind.valueType))
    if isinstance(kind, spark.StructType):
        parts = [_months(column[f.name], f.dataType).alias(f.name) for f in kind.fields]
        return F.when(column.isNotNull(), F.struct(*parts))
    whole = column.cast("interval year to month")  # "interval year" has no MONTH to extract
    years, months = (F.extract(F.lit(unit), whole) for unit in ("YEAR", "MONTH"))
    return years * 12 + months


def table_columns(
    frame: spark.StructType, types: Mapping[str, Column] = MappingProxyType({})
) -> TableSchema:
    """Return the columns of a table that can store every value of a DataFrame.

    Metadata ``odps.type`` overrides the type; a struct of `NEW_BLOB_FIELDS` becomes a BLOB.
    ``types`` overrides the types of columns by name in lower case.
    """
    free = (f for f in frame.fields if f.name.casefold() not in types)
    columns = tuple(Column(name=f.name, type=_type(f)) for f in free)
    return with_types(TableSchema(columns=columns), frame.names, types)


def _type(field: spark.StructField) -> OdpsType:
    text = field.metadata.get(TYPE_KEY)
    if text:
        return parse_type(text)
    kind = field.dataType
    if isinstance(kind, spark.StructType) and {f.name: type(f.dataType) for f in kind.fields} == (
        NEW_BLOB_FIELDS
    ):
        return PrimitiveType(TypeCode.BLOB)
    return table_type(kind, column=field.name)


def create_if_missing(
    storage: StorageClient,
    table: TableName,
    frame: spark.StructType,
    partition: PartitionSpec,
    partitioned_by: str | Sequence[str] | None,
    types: ColumnsLike | None = None,
) -> bool:
    """Create the table unless it exists; return whether it was created."""
    typed = typed_columns(types)
    if table_exists(storage, table):
        if partitioned_by is not None or typed:
            schema = fetch_table(storage, table).schema
            check_same_partitions(partitioned_by, schema, table)
            check_types(typed, schema, table)
        return False
    schema = partitioned(table_columns(frame, typed), partitioned_by, partition, typed)
    check_types(typed, schema, table)
    check_partition(partition, schema, table)
    create_table(storage, table, schema)
    return True
