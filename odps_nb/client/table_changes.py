"""Creates, empties and drops tables and partitions through SQL instances.

The statements and task names are those of the stock pyodps (``odps/models/table.py`` and
``partitions.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odps_nb.client.sql.definitions import (
    TableOptions,
    create_table_sql,
    quoted,
    schema_settings,
    settings_of,
)
from odps_nb.client.sql.query import run_sql
from odps_nb.schema import TableSchema
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.type_text import format_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from odps_nb.client.calls.storage import StorageClient

_NEW_TYPES = {"odps.sql.type.system.odps2": "true", "odps.sql.decimal.odps2": "true"}


def create_table(
    storage: StorageClient,
    table: TableName,
    schema: TableSchema,
    options: TableOptions = TableOptions(),  # noqa: B008  a frozen value
) -> None:
    """Create a table; `ArgumentError` for an invalid definition, which is not sent."""
    sql = create_table_sql(table, schema, options)
    _run(storage, table, sql, "SQLCreateTableTask", settings_of(schema))


def drop_table(storage: StorageClient, table: TableName, *, if_exists: bool = False) -> None:
    """Drop a table with its rows."""
    _run(storage, table, f"drop table {_if(if_exists)}{quoted(table)};", "SQLDropTableTask")


def truncate_table(storage: StorageClient, table: TableName, partition: PartitionSpec) -> None:
    """Delete all rows of a table, or of a partition if one is given."""
    where = f" {_spelled(partition)}" if partition.items else ""
    _run(storage, table, f"truncate table {quoted(table)}{where};", "SQLTruncateTableTask")


def add_partition(
    storage: StorageClient, table: TableName, partition: PartitionSpec, *, if_not_exists: bool
) -> None:
    """Create an empty partition."""
    unless = "if not exists " if if_not_exists else ""
    sql = f"alter table {quoted(table)} add {unless}{_spelled(partition)};"
    _run(storage, table, sql, "SQLAddPartitionTask")


def drop_partition(
    storage: StorageClient, table: TableName, partition: PartitionSpec, *, if_exists: bool
) -> None:
    """Drop a partition with its rows."""
    sql = f"alter table {quoted(table)} drop {_if(if_exists)}{_spelled(partition)};"
    _run(storage, table, sql, "SQLDropPartitionTask")


def _if(exists: bool) -> str:  # noqa: FBT001  the caller's own option
    return "if exists " if exists else ""


def _spelled(partition: PartitionSpec) -> str:
    levels = ", ".join(f"`{key}`={format_text(value)}" for key, value in partition.checked())
    return f"partition ({levels})"


def _run(
    storage: StorageClient,
    table: TableName,
    sql: str,
    task: str,
    settings: Mapping[str, str] | None = None,
) -> None:
    inside = schema_settings(table.schema) if table.schema is not None else {}
    run_sql(storage, sql, name=task, settings=_NEW_TYPES | inside | dict(settings or {}))
