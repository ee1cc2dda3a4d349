"""Chooses the columns of a new table from the data that is to be written to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from odps_nb.access.blob import Blob, NewBlob
from odps_nb.access.writing.columns import is_text, partition_items, schema_of
from odps_nb.access.writing.pictures import is_array, is_picture
from odps_nb.access.writing.tabular import Chunks, as_tables, is_pandas, is_spark
from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import BlobReference, PartitionSpec, TableName

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def has_rows(data: Any) -> bool:
    """Whether this is data to be written, and not only a description of columns."""
    import pyarrow as pa

    if isinstance(data, Mapping):  # of names to types, or of names to columns
        return not all(isinstance(value, str) for value in data.values())
    described = isinstance(data, (TableSchema, pa.Schema)) or is_text(data)
    return not described and not is_spark_type(data)


def is_spark_type(data: Any) -> TypeGuard[StructType]:
    """Whether this is a schema of Spark; Spark is not imported for it."""
    kind = type(data)
    return kind.__name__ == "StructType" and kind.__module__.split(".")[0] == "pyspark"


def columns_of(data: Any, *, index: bool | None = None) -> tuple[TableSchema, Any]:
    """Return the columns for the data, and the data to write: a stream can be read only once.

    The columns of an iterator are those of its first rows (`CHUNK_ROWS`) or of its first table.
    """
    from odps_nb.convert.row_names import Names

    data = as_tables(data, Names(), index=index)
    if is_spark(data):
        from odps_nb.spark.writing.checks import table_columns

        return table_columns(data.schema), data
    sample = data.peek() if isinstance(data, Chunks) else data
    if sample is None or (is_pandas(sample) and not len(sample.columns)):
        raise ConversionError(
            "the data has no rows and no columns, so the columns of a new table are unknown",
            hint="create the table first, e.g. odps.create_table(name, 'id bigint, name string')",
        )
    if is_pandas(sample):
        from odps_nb.convert.frame_schema import frame_schema

        return frame_schema(sample, _is_blob), data
    from odps_nb.convert.arrow_schema import table_schema

    # Data without nulls makes no rule for what will be written later.
    found = tuple(replace(column, nullable=True) for column in table_schema(sample.schema).columns)
    return TableSchema(columns=found), data


def _is_blob(value: Any) -> bool:
    if is_array(value):
        return bool(value.ndim > 1)  # one of one dimension is an ARRAY
    return (
        isinstance(value, (Path, NewBlob, Blob, BlobReference))
        or is_picture(value)
        or callable(getattr(value, "read", None))
    )


def partitioned(
    columns: TableSchema,
    partitioned_by: str | Sequence[str] | None,
    partition: PartitionSpec = PartitionSpec(),  # noqa: B008  a frozen value
) -> TableSchema:
    """Return the columns with some of them as partition columns.

    Keys of ``partition`` that the data lacks become STRING; without ``partitioned_by`` the table
    is partitioned by them.
    """
    known = {column.name.casefold() for column in columns.columns}
    keys = [key for key, _ in partition]
    made = tuple(
        Column(name=key, type=PrimitiveType(TypeCode.STRING))
        for key in keys
        if key.casefold() not in known
    )
    if partitioned_by is None:
        return schema_of(replace(columns, columns=columns.columns + made), keys)
    items = partition_items(partitioned_by)
    typed = {item.name.casefold() for item in items if isinstance(item, Column)}
    rest = tuple(c for c in (*columns.columns, *made) if c.name.casefold() not in typed)
    return schema_of(replace(columns, columns=rest), partitioned_by)


def check_same_partitions(
    partitioned_by: str | Sequence[str] | None, schema: TableSchema, table: TableName
) -> None:
    """Raise if an existing table has other partition columns than ``partitioned_by``."""
    if partitioned_by is None:
        return
    items = partition_items(partitioned_by)
    asked = [(i.name if isinstance(i, Column) else i).casefold() for i in items]
    keys = [column.name for column in schema.partition_columns]
    if asked != [key.casefold() for key in keys]:
        there = f"partitioned by {', '.join(keys)}" if keys else "not partitioned"
        raise ArgumentError(
            f"{table} is there, and {there}",
            argument="partitioned_by",
            hint="leave partitioned_by out, or write to a table of another name",
        )
