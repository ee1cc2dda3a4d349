"""Creates a table for rows to write, and drops it if the write fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from odps_nb.access.checks import check_overwrite, check_partition
from odps_nb.access.writing.columns import (
    ColumnsLike,
    check_same_partitions,
    check_types,
    columns_of,
    partitioned,
    typed_columns,
)
from odps_nb.access.writing.rows import WriteOptions, write_data
from odps_nb.client.catalog import table_exists
from odps_nb.client.sql.definitions import TableOptions, create_table, drop_table
from odps_nb.errors import ArgumentError, NotFoundError, OdpsNbError
from odps_nb.schema import TableSchema
from odps_nb.terms import TableName

if TYPE_CHECKING:
    from odps_nb.access.receipt import Receipt
    from odps_nb.access.table import Table
    from odps_nb.client.calls.storage import StorageClient


def schema_of_target(table: Table) -> TableSchema:
    """Return a table's columns; if the table is missing, raise with a hint on how to create it."""
    try:
        return table.schema
    except NotFoundError as error:
        name_the_way(error)
        raise


WAY = "pass create=True (in %odps write: --create) to create it from the data"


def name_the_way(error: NotFoundError, way: str = WAY) -> None:
    """Extend an error's hint to explain how a write can create the missing table."""
    if error.code == "NoSuchTable" and "the project lists" not in (error.hint or ""):
        near = error.hint if "did you mean" in (error.hint or "") else ""
        error.hint = f"{near} {way}".strip()


@dataclass(slots=True)
class NewTable:
    """A new table during its first write; dropped after an error unless the commit has begun."""

    storage: StorageClient
    name: TableName
    kept: bool = False
    committing: bool = False

    def keep(self) -> None:
        """Keep the table from now on, because the outcome of a commit may be unknown."""
        self.kept = self.committing = True

    def drop(self, error: BaseException | None = None) -> None:
        """Drop the table unless `keep` was called; add a note on the outcome to the error."""
        if self.kept:
            if error is not None and self.committing:
                error.add_note(f"the new table {self.name} was kept, because the commit had begun")
            return
        try:
            drop_table(self.storage, self.name, if_exists=True)
            note = f"the new table {self.name} was dropped"
        except OdpsNbError as second:
            note = f"the new table {self.name} is empty, but could not be dropped: {second}"
        if error is not None:
            error.add_note(note)

    def __enter__(self) -> NewTable:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None:
            self.drop(error)


def create_and_write(
    table: Table,
    data: Any,
    partitioned_by: str | Sequence[str] | None,
    table_options: TableOptions,
    options: WriteOptions,
    types: ColumnsLike | None = None,
) -> Receipt:
    """Create a table with the data's columns, and write the data; see `Connection.create_table`."""
    if table_options.if_not_exists:
        name = table.connection.profile._short_name(table.name)
        raise ArgumentError(
            "if_not_exists= cannot be combined with rows",
            argument="if_not_exists",
            hint=f"use odps.table({name!r}).write(data, create=True)",
        )
    storage = table.connection._storage
    typed = typed_columns(types)
    columns, rows = columns_of(data, index=options.index, types=typed)
    schema = partitioned(columns, partitioned_by, options.partition, typed)
    check_types(typed, schema, table.name)
    options = replace(options, partition=check_partition(options.partition, schema, table.name))
    check_overwrite(options.overwrite, options.partition, schema, table.name)
    create_table(storage, table.name, schema, table_options)
    table.reload()
    with NewTable(storage, table.name) as new_table:
        options = replace(options, index=None, before_commit=new_table.keep)
        receipt = write_data(table, rows, options)
    table.reload()
    return receipt


def require_create(create: bool, **arguments: object) -> None:  # noqa: FBT001  two callers
    """Raise if an argument that describes a new table is passed without ``create``."""
    for name, value in arguments.items():
        if value is not None and not create:
            hint = f"pass create=True, or omit {name}="
            raise ArgumentError(f"{name}= requires create=True", argument=name, hint=hint)


def write_table(
    table: Table,
    data: Any,
    options: WriteOptions,
    *,
    create: bool,
    partitioned_by: str | Sequence[str] | None,
    types: ColumnsLike | None = None,
) -> Receipt:
    """Write to a table; with ``create``, create a missing table first; see `Table.write`."""
    require_create(create, partitioned_by=partitioned_by, types=types)
    if create and not table_exists(table.connection._storage, table.name):
        return create_and_write(table, data, partitioned_by, TableOptions(), options, types)
    schema = schema_of_target(table)
    check_same_partitions(partitioned_by, schema, table.name)
    check_types(typed_columns(types), schema, table.name)
    spec = check_partition(options.partition, schema, table.name)
    check_overwrite(options.overwrite, spec, schema, table.name)
    return write_data(table, data, replace(options, partition=spec))
