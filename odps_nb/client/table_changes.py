"""Emptying tables, and adding and dropping partitions, through SQL instances.

The statements and task names are those of the stock pyodps (``odps/models/table.py`` and
``partitions.py``: ``truncate``, ``Partitions.create``, ``Partitions.delete``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odps_nb.client.catalog import table_settings
from odps_nb.client.sql.definitions import quoted
from odps_nb.client.sql.query import run_sql
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.type_text import format_text

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient


def truncate_table(storage: StorageClient, table: TableName, partition: PartitionSpec) -> None:
    """Delete all rows of a table, or of a partition if one is given.

    Raises
    ------
    NotFoundError
        No such table or partition.
    """
    where = f" {_spelled(partition)}" if partition.items else ""
    _run(storage, table, f"truncate table {quoted(table)}{where};", "SQLTruncateTableTask")


def add_partition(
    storage: StorageClient, table: TableName, partition: PartitionSpec, *, if_not_exists: bool
) -> None:
    """Create an empty partition.

    Raises
    ------
    ConflictError
        It is there, and ``if_not_exists`` is not set.
    """
    unless = "if not exists " if if_not_exists else ""
    sql = f"alter table {quoted(table)} add {unless}{_spelled(partition)};"
    _run(storage, table, sql, "SQLAddPartitionTask")


def drop_partition(
    storage: StorageClient, table: TableName, partition: PartitionSpec, *, if_exists: bool
) -> None:
    """Drop a partition with its rows.

    Raises
    ------
    NotFoundError
        There is none, and ``if_exists`` is not set.
    """
    unless = "if exists " if if_exists else ""
    sql = f"alter table {quoted(table)} drop {unless}{_spelled(partition)};"
    _run(storage, table, sql, "SQLDropPartitionTask")


def _spelled(partition: PartitionSpec) -> str:
    levels = ", ".join(f"`{key}`={format_text(value)}" for key, value in partition.checked())
    return f"partition ({levels})"


def _run(storage: StorageClient, table: TableName, sql: str, task: str) -> None:
    run_sql(storage, sql, name=task, settings=table_settings(table))
