"""Determines the columns of a new table from a description in any accepted form, or from data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import pyarrow as pa

from odps_nb.access.blob import Blob, NewBlob
from odps_nb.access.row_forms import RowForms
from odps_nb.access.writing.pictures import is_array, is_picture
from odps_nb.access.writing.tabular import Chunks, as_tables, is_pandas, is_spark
from odps_nb.client.sql.settings import texts_of
from odps_nb.convert.arrow_schema import refuse_repeated_names, table_schema
from odps_nb.convert.row_names import Names
from odps_nb.errors import ArgumentError, ConversionError, a_type
from odps_nb.schema import Column, OdpsType, PrimitiveType, TableSchema, TypeCode, has_blob
from odps_nb.terms import BlobReference, PartitionSpec, TableName, did_you_mean
from odps_nb.wire.control.generated import parse_generated
from odps_nb.wire.type_text import parse_columns, parse_type

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


ColumnsLike: TypeAlias = str | Sequence[str] | Mapping[str, str] | pa.Schema | TableSchema
"""Columns with their types, as in `Connection.create_table`."""
_NO_TYPES: Mapping[str, Column] = MappingProxyType({})


def schema_of(
    columns: str | Sequence[str] | Mapping[str, str] | pa.Schema | TableSchema | StructType,
    partitioned_by: str | Sequence[str] | None = None,
) -> TableSchema:
    """Return the schema of a new table; see `Connection.create_table` for the forms."""
    schema = _data_columns(columns)
    if partitioned_by is None or not (isinstance(partitioned_by, str) or len(partitioned_by)):
        return schema
    if schema.partition_columns:
        raise ArgumentError("the schema already has partition columns")
    return _partitioned(schema, partition_items(partitioned_by, schema.names))


def _partitioned(schema: TableSchema, items: Sequence[Column | str]) -> TableSchema:
    by_name = {column.name.casefold(): column for column in schema.columns}
    keys = []
    for item in items:
        if isinstance(item, Column):
            keys.append(item)
            continue
        column = by_name.pop(item.casefold(), None)
        if column is None:
            known = [candidate.name for candidate in schema.columns]
            raise ArgumentError(
                f"the table has no column {item!r} to partition by",
                hint=f"{did_you_mean(item, known)}to add the column, write its type: "
                f"'{item} string'",
            )
        keys.append(column)
    return TableSchema(columns=tuple(by_name.values()), partition_columns=tuple(keys))


def partition_items(
    partitioned_by: str | Sequence[str], taken: Sequence[str] = ()
) -> tuple[Column | str, ...]:
    """Parse ``partitioned_by`` into columns (items with a type) and column names (other items).

    ``taken``: names of the other columns, which a generated name must not repeat.
    """
    if isinstance(partitioned_by, str):
        if not partitioned_by.strip():
            raise ArgumentError(
                "partitioned_by is blank",
                argument="partitioned_by",
                hint="name a column, or omit it for a table without partitions",
            )
        if (generated := parse_generated(partitioned_by, taken)) is not None:
            return (generated,)
        parts = [part.strip() for part in partitioned_by.split(",")]
        if any(len(part.split(None, 1)) > 1 for part in parts):
            return parse_columns(partitioned_by)
        return tuple(parts)
    items: list[Column | str] = []
    for item in partitioned_by:
        if not isinstance(item, str):
            raise ArgumentError(
                f"partitioned_by contains {a_type(type(item))}",
                argument="partitioned_by",
                hint="pass column names, or strings such as 'ds string'",
            )
        items += partition_items(item, taken)
    return tuple(items)


def names_of(columns: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names in ``"a, b"`` or in a list."""
    names = columns.split(",") if isinstance(columns, str) else columns
    return tuple(name.strip() for name in names)


def properties_of(properties: Mapping[str, object] | None) -> dict[str, str]:
    """Return table properties as strings, such as ``true`` for ``True``."""
    return {} if properties is None else texts_of(properties, "property")


def is_text(columns: object) -> TypeGuard[str | Sequence[str]]:
    """Whether ``columns`` is a string or a non-empty list of strings."""
    return isinstance(columns, str) or (
        isinstance(columns, (list, tuple))
        and bool(columns)
        and all(isinstance(item, str) for item in columns)
    )


def _data_columns(
    columns: str | Sequence[str] | Mapping[str, str] | pa.Schema | TableSchema | StructType,
) -> TableSchema:
    if isinstance(columns, TableSchema):
        return columns
    if is_text(columns):
        text = columns if isinstance(columns, str) else ", ".join(columns)
        return TableSchema(columns=parse_columns(text))
    if isinstance(columns, Mapping):
        for name, text in columns.items():
            if not isinstance(text, str):
                raise ArgumentError(
                    f"the type of {name!r} is of type {type(text).__name__}, not a string",
                    argument="columns",
                    hint="pass types, e.g. {'id': 'bigint'}, or a list of values for each column",
                )
        parsed = (Column(name=name, type=parse_type(text)) for name, text in columns.items())
        return TableSchema(columns=tuple(parsed))
    if isinstance(columns, pa.Schema):
        return table_schema(columns)
    if is_spark_type(columns):
        from odps_nb.spark.writing.checks import table_columns

        return table_columns(columns)
    raise ArgumentError(
        f"columns is of type {type(columns).__name__}",
        hint="pass a string such as 'id bigint, note string', or an Arrow schema",
    )


def has_rows(data: Any) -> bool:
    """Whether this is data to write rather than a description of columns."""
    if isinstance(data, Mapping):  # a dict maps names to types or to data
        return not all(isinstance(value, str) for value in data.values())
    described = isinstance(data, (TableSchema, pa.Schema)) or is_text(data)
    return not described and not is_spark_type(data)


def is_spark_type(data: Any) -> TypeGuard[StructType]:
    """Whether this is a Spark schema; does not import Spark."""
    kind = type(data)
    return kind.__name__ == "StructType" and kind.__module__.split(".")[0] == "pyspark"


def typed_columns(types: ColumnsLike | None) -> dict[str, Column]:
    """Return the columns of ``types=`` by their names in lower case."""
    if types is None:
        return {}
    return {column.name.casefold(): column for column in schema_of(types)}


def columns_of(
    data: Any, *, index: bool | None = None, types: Mapping[str, Column] = _NO_TYPES
) -> tuple[TableSchema, Any]:
    """Return the data's columns, and the data converted by `as_tables` without consuming rows.

    The columns of an iterator come from its first `CHUNK_ROWS` rows or its first table. Columns in
    ``types`` get the type stated there.
    """
    if isinstance(data, RowForms):
        _refuse_references(data, types)
    data = as_tables(data, Names(), index=index)
    if is_spark(data):
        from odps_nb.spark.writing.checks import table_columns

        return table_columns(data.schema, types), data
    sample = data.peek() if isinstance(data, Chunks) else data
    if sample is None or (is_pandas(sample) and not len(sample.columns)):
        raise ConversionError(
            "the data has no rows and no columns, so the columns of a new table are unknown",
            hint="create the table first, e.g. odps.create_table(name, 'id bigint, name string')",
        )
    if is_pandas(sample):
        from odps_nb.convert.frame_schema import frame_schema

        free = [str(name).casefold() not in types for name in sample.columns]
        schema = frame_schema(sample.loc[:, free], _is_blob)
        return with_types(schema, list(sample.columns), types), data
    fields = [field for field in sample.schema if field.name.casefold() not in types]
    # Make all columns nullable, because later writes may contain nulls.
    inferred = table_schema(pa.schema(fields)).columns
    schema = TableSchema(columns=tuple(replace(column, nullable=True) for column in inferred))
    return with_types(schema, sample.schema.names, types), data


def _refuse_references(rows: RowForms, types: Mapping[str, Column]) -> None:
    """Raise for BLOB columns, whose Arrow form contains only references to the old table."""
    for column in rows.schema:
        if not has_blob(column.type) or column.name.casefold() in types:
            continue
        way = "pass to_pandas() of these rows"
        if column.type.code is not TypeCode.BLOB:
            way = "create the table first, and pass odps.blob(reference) for each reference"
        raise ConversionError(
            f"the rows contain only references to the blobs of {column.name!r}",
            column=column.name,
            source_type=str(column.type),
            hint=f"{way} to copy the blobs, or read only the other columns",
        )


def with_types(
    found: TableSchema, names: Sequence[str], types: Mapping[str, Column]
) -> TableSchema:
    """Return columns with these names: from ``types``, or otherwise from ``found``."""
    refuse_repeated_names([str(name) for name in names])
    chosen = (found.find(name) or replace(types[name.casefold()], name=name) for name in names)
    return TableSchema(columns=tuple(chosen))


def check_types(types: Mapping[str, Column], schema: TableSchema, table: TableName) -> None:
    """Raise if a table lacks a column of ``types=``, or has another type for it."""
    for expected in types.values():
        column = schema.find(expected.name)
        if column is None:
            raise ArgumentError(
                f"types names {expected.name!r}, which is not a column of the data",
                argument="types",
                hint=f"{did_you_mean(expected.name, schema.names)}the columns are: "
                + ", ".join(schema.names[:20]),
            )
        if column.type != expected.type:
            raise ArgumentError(
                f"the column {column.name!r} of {table} is {column.type}, but types says "
                f"{expected.type}",
                argument="types",
                hint=f"omit {expected.name!r} from types, or use a table with another name",
            )


def type_of_column(data: Any, name: str) -> OdpsType:
    """Return the type of a new column for one column of a DataFrame or of Arrow data."""
    part = data[[name]] if is_pandas(data) else pa.schema([data.schema.field(name)]).empty_table()
    return columns_of(part)[0].columns[0].type


def _is_blob(value: Any) -> bool:
    if is_array(value):
        return bool(value.ndim > 1)  # a one-dimensional array is an ARRAY, others are images
    return (
        isinstance(value, (Path, NewBlob, Blob, BlobReference))
        or is_picture(value)
        or callable(getattr(value, "read", None))
    )


def partitioned(
    columns: TableSchema,
    partitioned_by: str | Sequence[str] | None,
    partition: PartitionSpec = PartitionSpec(),  # noqa: B008  a frozen value
    types: Mapping[str, Column] = _NO_TYPES,
) -> TableSchema:
    """Return the schema with some columns turned into partition columns.

    Keys of ``partition`` that the data lacks become columns with their type in ``types``, or
    STRING. ``partitioned_by`` defaults to the keys of ``partition``.
    """
    known = {column.name.casefold() for column in columns.columns}
    keys = [key for key, _ in partition]
    added = tuple(
        types.get(key.casefold(), Column(name=key, type=PrimitiveType(TypeCode.STRING)))
        for key in keys
        if key.casefold() not in known
    )
    if partitioned_by is None:
        return schema_of(replace(columns, columns=columns.columns + added), keys)
    items = partition_items(partitioned_by, columns.names)
    typed = {item.name.casefold() for item in items if isinstance(item, Column)}
    rest = tuple(c for c in (*columns.columns, *added) if c.name.casefold() not in typed)
    return schema_of(replace(columns, columns=rest), partitioned_by)


def check_same_partitions(
    partitioned_by: str | Sequence[str] | None, schema: TableSchema, table: TableName
) -> None:
    """Raise if the partition columns of an existing table differ from ``partitioned_by``."""
    if partitioned_by is None:
        return
    items = partition_items(partitioned_by)
    requested = [(i.name if isinstance(i, Column) else i).casefold() for i in items]
    keys = [column.name for column in schema.partition_columns]
    if requested != [key.casefold() for key in keys]:
        there = f"partitioned by {', '.join(keys)}" if keys else "not partitioned"
        raise ArgumentError(
            f"{table} already exists and is {there}",
            argument="partitioned_by",
            hint="omit partitioned_by, or write to a table with another name",
        )
