"""Makes the table that a DataFrame is to be written to, where it is not there yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as spark

from odps_nb.access.checks import check_partition
from odps_nb.access.writing.new_columns import check_same_partitions, partitioned
from odps_nb.client.catalog import create_table, fetch_table, table_exists
from odps_nb.errors import ConversionError
from odps_nb.schema import Column, OdpsType, PrimitiveType, TableSchema, TypeCode
from odps_nb.spark.tasks.types import TYPE_KEY, table_type
from odps_nb.spark.writing.checks import NEW_BLOB_FIELDS
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.type_text import parse_type

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient

__all__ = ["create_if_missing", "table_columns"]


def table_columns(frame: spark.StructType) -> TableSchema:
    """Return the columns of a table that holds every value of a DataFrame.

    A column as `odps_nb.spark.read` gives it has the type of its table (metadata ``odps.type``);
    a struct of ``data``, ``mime_type`` and ``file_name`` becomes a BLOB.

    Raises
    ------
    ConversionError
        A column for which there is no type.
    """
    columns = tuple(Column(name=f.name, type=_type(f)) for f in frame.fields)
    names = [column.name.casefold() for column in columns]
    if twins := sorted({name for name in names if names.count(name) > 1}):
        raise ConversionError(
            f"column names occur more than once: {', '.join(twins)}",
            column=twins[0],
            hint="rename or drop the repeated columns",
        )
    return TableSchema(columns=columns)


def _type(field: spark.StructField) -> OdpsType:
    said = field.metadata.get(TYPE_KEY)
    if said:
        return parse_type(said)
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
) -> bool:
    """Create the table unless it is there; return whether it was created.

    Raises
    ------
    ArgumentError
        It is there with other partition columns, or the partition cannot be one of a new table.
    ConversionError
        See `table_columns`.
    """
    if table_exists(storage, table):
        if partitioned_by is not None:
            check_same_partitions(partitioned_by, fetch_table(storage, table).schema, table)
        return False
    schema = partitioned(table_columns(frame), partitioned_by, partition)
    check_partition(partition, schema, table)
    create_table(storage, table, schema)
    return True
