"""Creates, empties and drops tables and partitions through SQL instances.

The statements and task names are those of pyodps (``odps/models/table.py`` and
``partitions.py``). User input is never inserted unchecked: names are validated and back-quoted,
text is escaped, and types are formatted from the type tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from odps_nb.client.sql.query import run_sql
from odps_nb.client.sql.settings import schema_settings
from odps_nb.errors import ArgumentError, ConflictError, shown
from odps_nb.schema import (
    ArrayType,
    Column,
    MapType,
    OdpsType,
    StructType,
    TableSchema,
    TypeCode,
    has_any,
    has_blob,
    types_in,
)
from odps_nb.terms import PartitionSpec, TableName, did_you_mean
from odps_nb.type_facts import TYPE_FACTS
from odps_nb.wire.control import BLOB_TABLE_PROPERTIES, BLOB_TABLE_SETTINGS
from odps_nb.wire.control.table_limits import (
    MAX_NAME_BYTES,
    decimal_settings,
    definition_problem,
    is_column_name,
    is_table_name,
)
from odps_nb.wire.type_text import format_columns, format_text, format_type

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """Options of a new table, apart from its columns.

    Parameters
    ----------
    primary_key
        Names of the primary key columns, which become ``not null``.
    properties
        Table properties. `create_table_sql` adds the properties required for BLOBs or a primary
        key.
    lifecycle
        Days without changes after which the service drops the table or partition.
    cluster_by, buckets
        Columns whose hash selects a row's bucket, and the number of buckets. For a primary-key
        table, ``buckets`` alone sets the number of write buckets.
    """

    primary_key: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str = ""
    lifecycle: int | None = None
    cluster_by: tuple[str, ...] = ()
    buckets: int | None = None
    if_not_exists: bool = False


def create_table_sql(table: TableName, schema: TableSchema, options: TableOptions) -> str:
    """Return the ``CREATE TABLE`` statement."""
    if not schema.columns:
        raise ArgumentError(
            "a table needs at least one column that is not a partition column",
            hint="add a column, or partition by fewer columns",
        )
    _check_names(table, schema.all_columns)
    _check_types(schema)
    if problem := definition_problem(schema, options.comment):
        raise ArgumentError(problem, hint="change the columns, their types or the comment")
    keys = _spelled(options.primary_key, schema, "primary key")
    columns = [replace(c, nullable=False) if c.name in keys else c for c in schema.columns]
    inside = format_columns(columns)
    if keys:
        inside += f", primary key ({_names(keys)})"
    parts = ["create table"]
    if options.if_not_exists:
        parts.append("if not exists")
    parts.append(f"{quoted(table)} ({inside})")
    if options.comment:
        parts.append(f"comment {format_text(options.comment)}")
    if schema.partition_columns:
        parts.append(_partitioned_by(schema))
    parts += _clustering(schema, options)
    if properties := _properties(schema, options):
        pairs = ", ".join(
            f"{format_text(k)}={format_text(v)}" for k, v in sorted(properties.items())
        )
        parts.append(f"tblproperties ({pairs})")
    if options.lifecycle is not None:
        parts.append(f"lifecycle {_number(options.lifecycle, 'lifecycle', 'of days')}")
    return " ".join(parts) + ";"


def _partitioned_by(schema: TableSchema) -> str:
    first = schema.partition_columns[0]
    if first.generated is not None:  # always the only partition column, without a comment
        return f"auto partitioned by ({first.generated.text} as {_names((first.name,))})"
    return f"partitioned by ({format_columns(schema.partition_columns)})"


def settings_of(schema: TableSchema) -> dict[str, str]:
    """Return the SQL settings that the table's column types require."""
    settings = dict(BLOB_TABLE_SETTINGS) if _has_blobs(schema) else {}
    if any(has_any(column.type, (TypeCode.VECTOR,)) for column in schema.columns):
        settings |= _VECTOR_SETTINGS
    return settings | decimal_settings(schema)


# These settings are from pyodps' tests against the live service (test_tables.py:
# test_vector_index_info).
_VECTOR_SETTINGS = {"odps.sql.type.system.odps2": "true", "odps.sql.type.vector.enable": "true"}


def _has_blobs(schema: TableSchema) -> bool:
    return any(has_blob(column.type) for column in schema.columns)


def quoted(table: TableName) -> str:
    """Return a table's back-quoted name for SQL; `TableName` has validated its parts."""
    return ".".join(f"`{part}`" for part in (table.project, table.schema, table.table) if part)


def quoted_column(name: str) -> str:
    """Return a column's back-quoted name for SQL."""
    return "`" + name.replace("`", "``") + "`"


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(quoted_column, names))


def _clustering(schema: TableSchema, options: TableOptions) -> list[str]:
    if not options.cluster_by:
        if options.buckets is not None and not options.primary_key:
            raise ArgumentError(
                "buckets= was passed without cluster_by=",
                hint="pass columns as well: cluster_by=['id'], buckets=16",
            )
        return []
    if options.buckets is None:
        raise ArgumentError("cluster_by= requires buckets=", hint="pass e.g. buckets=16")
    names = _names(_spelled(options.cluster_by, schema, "cluster_by"))
    count = _number(options.buckets, "buckets", "of buckets")
    return [f"clustered by ({names}) sorted by ({names}) into {count} buckets"]


def _properties(schema: TableSchema, options: TableOptions) -> dict[str, str]:
    """Return the caller's properties plus those set in live tests of pyodps and the C++ SDK."""
    needed: dict[str, str] = {}
    if options.primary_key:
        needed["transactional"] = "true"
        if options.buckets is not None and not options.cluster_by:
            needed["write.bucket.num"] = str(_number(options.buckets, "buckets", "of buckets"))
    if _has_blobs(schema):
        needed |= BLOB_TABLE_PROPERTIES
    for key, value in needed.items():
        actual = options.properties.get(key, value)
        if actual.lower() != value:
            raise ArgumentError(
                f"the property {key!r} is {actual!r}, but this table needs {value!r}",
                hint="omit it: it is set automatically",
            )
    return needed | dict(options.properties)


def _spelled(names: Sequence[str], schema: TableSchema, what: str) -> tuple[str, ...]:
    """Return column names as spelled in the schema; raise if a column cannot be a key."""
    known = {column.name.casefold(): column for column in schema.columns}
    spelled: list[str] = []
    for name in names:
        column = known.get(name.casefold())
        if column is None:
            near = did_you_mean(name, (column.name for column in schema.columns))
            raise ArgumentError(
                f"{what} names {name!r}, which is not a column of the table",
                hint=f"{near}its columns are: {', '.join(c.name for c in schema.columns[:20])}",
            )
        if column.name in spelled:
            raise ArgumentError(f"{what} names {name!r} twice")
        code = column.type.code
        if TYPE_FACTS[code].kind == "OTHER" and code is not TypeCode.INTERVAL_YEAR_MONTH:
            raise ArgumentError(
                f"{what} names {column.name!r}, whose type {code.name} cannot be a key"
            )
        spelled.append(column.name)
    return tuple(spelled)


def _check_types(schema: TableSchema) -> None:
    for column in schema.partition_columns:
        if has_blob(column.type):
            raise ArgumentError(
                f"the partition column {column.name!r} contains a BLOB, which is not allowed"
            )
    for column in schema.columns:
        if _key_holds_blob(column.type):
            raise ArgumentError(f"the column {column.name!r} contains a MAP with a BLOB in its key")
    for column in schema.all_columns:
        if has_any(column.type, (TypeCode.UNKNOWN,)):  # an unknown type's text could inject SQL
            raise ArgumentError(
                f"the column {column.name!r} has the type {format_type(column.type)[:80]!r}, "
                "which odps_nb does not know",
                hint="omit the column, or write the CREATE TABLE yourself: odps.sql(…)",
            )


def _key_holds_blob(type_: OdpsType) -> bool:
    if isinstance(type_, ArrayType):
        return _key_holds_blob(type_.element)
    if isinstance(type_, MapType):
        return has_blob(type_.key) or _key_holds_blob(type_.value)
    return isinstance(type_, StructType) and any(_key_holds_blob(m.type) for m in type_.fields)


def _number(value: object, name: str, of_what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
        raise ArgumentError(
            f"{name} is {shown(value)}; it must be a number {of_what}, at least 1",
            argument=name,
            hint=f"pass e.g. {name}=7, or omit it",
        )
    return value


def _check_names(table: TableName, columns: tuple[Column, ...]) -> None:
    if not is_table_name(table.table):
        raise ArgumentError(
            f"{table.table!r} is not a valid table name",
            hint="use letters from a to z, digits and underscores; do not start with a digit, "
            f"and use at most {MAX_NAME_BYTES} bytes",
        )
    seen: set[str] = set()
    for column in columns:
        if not is_column_name(column.name):
            raise ArgumentError(
                f"{column.name!r} is not a valid column name",
                hint="use letters from a to z, Chinese characters, digits, underscores and "
                f"single quotes, at most {MAX_NAME_BYTES} bytes",
            )
        if column.name.casefold() in seen:
            raise ArgumentError(f"the column {column.name!r} is defined twice")
        seen.add(column.name.casefold())
        _check_members(column)


def _check_members(column: Column) -> None:
    for struct in types_in(column.type):
        if not isinstance(struct, StructType):
            continue
        names = [member.name.casefold() for member in struct.fields]
        if not all(names) or len({*names}) != len(names) or not names:
            raise ArgumentError(
                f"a STRUCT in the column {column.name!r} has no members, a member without a name, "
                "or two members with the same name",
                hint="give each member its own name (names are not case-sensitive), or drop the "
                "column",
            )


_NEW_TYPES = {"odps.sql.type.system.odps2": "true", "odps.sql.decimal.odps2": "true"}


def create_table(
    storage: StorageClient,
    table: TableName,
    schema: TableSchema,
    options: TableOptions = TableOptions(),
) -> None:
    """Create a table; raise `ArgumentError` before any request if the definition is invalid."""
    sql = create_table_sql(table, schema, options)
    _run(storage, table, sql, "SQLCreateTableTask", settings_of(schema))
    storage.new_tables.add(table)


def drop_table(storage: StorageClient, table: TableName, *, if_exists: bool = False) -> None:
    """Drop a table and its rows."""
    _run(storage, table, f"drop table {_if(if_exists)}{quoted(table)};", "SQLDropTableTask")


def truncate_table(storage: StorageClient, table: TableName, partition: PartitionSpec) -> None:
    """Delete all rows of a table, or of one partition if the spec is not empty."""
    where = f" {_partition(partition)}" if partition.items else ""
    _run(storage, table, f"truncate table {quoted(table)}{where};", "SQLTruncateTableTask")


def add_columns(
    storage: StorageClient,
    table: TableName,
    added: TableSchema,
    schema: TableSchema,
    *,
    if_not_exists: bool,
) -> None:
    """Add columns to the end of the table's data columns; ``schema`` is its current schema."""
    if added.partition_columns or not added.columns:
        raise ArgumentError("only data columns can be added", hint="pass e.g. 'price double'")
    _check_names(table, added.columns)
    _check_types(added)
    new = [column for column in added.columns if schema.find(column.name) is None]
    if len(new) < len(added) and not if_not_exists:
        there = [column.name for column in added.columns if schema.find(column.name) is not None]
        raise ConflictError(
            f"{table} already has the column {', '.join(map(repr, there))}",
            code="ObjectAlreadyExists",
            hint="omit it, or pass if_not_exists=True",
        )
    if problem := definition_problem(replace(schema, columns=(*schema.columns, *new))):
        raise ArgumentError(problem)
    for column in added.columns:
        if not column.nullable:
            raise ArgumentError(
                f"the new column {column.name!r} cannot be NOT NULL: existing rows have no value",
                hint="omit NOT NULL",
            )
        if has_blob(column.type) and not _has_blobs(schema):
            raise ArgumentError(
                f"{table} was created without BLOB columns, so {column.name!r} cannot be one",
                hint="create another table with a BLOB column, and copy the rows",
            )
    unless = "if not exists " if if_not_exists else ""
    sql = f"alter table {quoted(table)} add columns {unless}({format_columns(added.columns)});"
    _run(storage, table, sql, "SQLAddColumnsTask", settings_of(added))


def add_partition(
    storage: StorageClient, table: TableName, partition: PartitionSpec, *, if_not_exists: bool
) -> None:
    """Create an empty partition."""
    unless = "if not exists " if if_not_exists else ""
    sql = f"alter table {quoted(table)} add {unless}{_partition(partition)};"
    _run(storage, table, sql, "SQLAddPartitionTask")


def drop_partition(
    storage: StorageClient, table: TableName, partition: PartitionSpec, *, if_exists: bool
) -> None:
    """Drop a partition and its rows."""
    sql = f"alter table {quoted(table)} drop {_if(if_exists)}{_partition(partition)};"
    _run(storage, table, sql, "SQLDropPartitionTask")


def _if(exists: bool) -> str:  # noqa: FBT001  named at each call
    return "if exists " if exists else ""


def _partition(partition: PartitionSpec) -> str:
    levels = ", ".join(f"`{key}`={format_text(value)}" for key, value in partition.checked())
    return f"partition ({levels})"


def _run(
    storage: StorageClient,
    table: TableName,
    sql: str,
    task: str,
    settings: Mapping[str, str] | None = None,
) -> None:
    all_settings = _NEW_TYPES | schema_settings(table.schema) | dict(settings or {})
    run_sql(storage, sql, name=task, settings=all_settings)
