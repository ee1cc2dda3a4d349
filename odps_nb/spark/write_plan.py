"""What a DataFrame's columns become in a table, decided before any task runs (floor 5, pure).

A job that fails on its last task because of a type is an hour lost; so names, types and what may
be replaced are settled here, on the driver, and everything wrong is said at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as spark

from odps_nb.convert.arrow_schema import match_columns
from odps_nb.errors import ConfigError, ConversionError
from odps_nb.schema import Column, TableSchema, TypeCode
from odps_nb.spark.types import arrow_schema
from odps_nb.terms import PartitionSpec, TableName

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

__all__ = ["NEW_BLOB_FIELDS", "blob_columns", "check_frame", "check_scope", "months_as_numbers"]

#: A struct of these fields in a BLOB column is a blob to upload; ``data`` alone is required.
NEW_BLOB_FIELDS = ("data", "mime_type", "file_name")

PARTITIONS, TABLE = "partitions", "table"


def check_scope(
    table: TableName, keys: tuple[str, ...], partition: PartitionSpec, mode: str, scope: str | None
) -> bool:
    """Return whether the write replaces rows; refuse what could replace more than was meant.

    Parameters
    ----------
    keys
        Names of the table's partition columns.
    scope
        ``"partitions"``: replace the partitions that get rows. Needed to overwrite a partitioned
        table without naming one whole partition.

    Raises
    ------
    ConfigError
        Unknown mode or scope, a partition of a table that has none or that lacks a level, or an
        overwrite whose extent was not said.
    """
    if mode not in ("append", "overwrite"):
        raise ConfigError(
            f"mode {mode!r} is unknown", option="mode", hint="use 'append' or 'overwrite'"
        )
    if scope not in (None, PARTITIONS, TABLE):
        raise ConfigError(
            f"overwrite_scope {scope!r} is unknown",
            option="overwrite_scope",
            hint="use 'partitions' or 'table'",
        )
    strange = [key for key, _ in partition if key.casefold() not in map(str.casefold, keys)]
    if strange:
        raise ConfigError(
            f"{table} is not partitioned by {strange[0]!r}",
            option="partition",
            hint=f"its partition columns are: {', '.join(keys)}" if keys else "leave it out",
        )
    if mode == "append":
        return False
    if keys and scope == TABLE:
        raise ConfigError(
            f"{table} is partitioned: its partitions cannot be replaced by one commit",
            option="overwrite_scope",
            hint="use overwrite_scope='partitions', and drop the partitions that should go",
        )
    if len(partition) < len(keys) and scope is None:
        raise ConfigError(
            f"{table} is partitioned by {', '.join(keys)}: say what the overwrite may replace",
            option="overwrite_scope",
            hint="name one partition=, or overwrite_scope='partitions' for those that get rows",
        )
    return True


def blob_columns(target: TableSchema) -> tuple[str, ...]:
    """Return the names of the columns that are BLOBs themselves (not inside of another type)."""
    return tuple(column.name for column in target if column.type.code is TypeCode.BLOB)


def check_frame(frame: spark.StructType, target: TableSchema) -> pa.Schema:
    """Return the Arrow schema of the frame's batches once all columns fit the table.

    Raises
    ------
    ConversionError
        Lists every column that does not fit, is unknown, or is missing though required.
    """
    columns = tuple(_offered_blob(frame, column) for column in target)
    arrow = arrow_schema(frame)
    match_columns(arrow, TableSchema(columns=columns))
    return arrow


def _offered_blob(frame: spark.StructType, column: Column) -> Column:
    """Let a BLOB column take a struct that describes a new blob; the task uploads it."""
    kind = next(
        (f.dataType for f in frame.fields if f.name.casefold() == column.name.casefold()), None
    )
    if column.type.code is not TypeCode.BLOB or not isinstance(kind, spark.StructType):
        return column
    given = {field.name.casefold(): field.dataType for field in kind.fields}
    texts = all(
        isinstance(given.get(name, spark.StringType()), spark.StringType)
        for name in NEW_BLOB_FIELDS[1:]
    )
    if not isinstance(given.get("data"), spark.BinaryType) or not texts:
        raise _no_blob(column, kind)
    if given.keys() - set(NEW_BLOB_FIELDS):
        raise _no_blob(column, kind)
    from odps_nb.spark.types import table_type

    return Column(name=column.name, type=table_type(kind), nullable=column.nullable)


def _no_blob(column: Column, kind: spark.DataType) -> ConversionError:
    return ConversionError(
        f"column {column.name!r} is a BLOB and {kind.simpleString()} describes none",
        column=column.name,
        source_type=kind.simpleString(),
        target_type="blob",
        hint="pass references (string), contents (binary), or "
        "struct<data: binary, mime_type: string, file_name: string>",
    )


def months_as_numbers(frame: DataFrame) -> DataFrame:
    """Return the frame with year-month intervals as months: Spark cannot send them to Python."""
    from pyspark.sql import functions as F

    for field in frame.schema.fields:
        if isinstance(field.dataType, spark.YearMonthIntervalType):
            years, months = (
                F.extract(F.lit(part), F.col(f"`{field.name}`")) for part in ("YEAR", "MONTH")
            )
            frame = frame.withColumn(field.name, years * 12 + months)
    return frame
