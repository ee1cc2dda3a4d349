"""Creates a table for rows to be written, and drops it if the write fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from odps_nb.access.checks import check_overwrite, check_partition
from odps_nb.access.writing.columns import check_same_partitions, columns_of, partitioned
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
    """Return the columns of a table to be written to; the error of a missing one says how."""
    try:
        return table.schema
    except NotFoundError as error:
        name_the_way(error)
        raise


def name_the_way(error: NotFoundError) -> None:
    """Say in the hint of an error how a write creates the missing table."""
    if error.code == "NoSuchTable":
        way = "create=True (with %odps write: --create) makes it from the data"
        near = error.hint if "did you mean" in (error.hint or "") else ""
        error.hint = f"{near} {way}".strip()


@dataclass(slots=True)
class NewTable:
    """A table during its first write: an error drops it, unless the commit was begun."""

    storage: StorageClient
    name: TableName
    kept: bool = False
    committing: bool = False

    def keep(self) -> None:
        """Keep the table from now on: the outcome of a commit may be unknown."""
        self.kept = self.committing = True

    def drop(self, error: BaseException | None = None) -> None:
        """Drop the table unless it is kept, and say so in a note of the error."""
        if self.kept:
            if error is not None and self.committing:
                error.add_note(f"the new table {self.name} is there: its commit was begun")
            return
        try:
            drop_table(self.storage, self.name, if_exists=True)
            note = f"the new table {self.name} was dropped again; nothing is left of this write"
        except OdpsNbError as second:
            note = f"the new table {self.name} is there, empty: dropping it failed: {second}"
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
) -> Receipt:
    """Create a table with the columns of the data, and write it; see `Connection.create_table`."""
    if table_options.if_not_exists:
        raise ArgumentError(
            "if_not_exists= cannot be combined with rows",
            argument="if_not_exists",
            hint=f"odps.table({table.name.table!r}).write(data, create=True) adds them",
        )
    storage = table.connection._storage
    columns, rows = columns_of(data, index=options.index)
    schema = partitioned(columns, partitioned_by, options.partition)
    options = replace(options, partition=check_partition(options.partition, schema, table.name))
    check_overwrite(options.overwrite, options.partition, schema, table.name)
    create_table(storage, table.name, schema, table_options)
    table.reload()
    with NewTable(storage, table.name) as made:
        options = replace(options, index=None, before_commit=made.keep)
        receipt = write_data(table, rows, options)
    table.reload()
    return receipt


def write_table(
    table: Table,
    data: Any,
    options: WriteOptions,
    *,
    create: bool,
    partitioned_by: str | Sequence[str] | None,
) -> Receipt:
    """Write to a table, creating it first if wanted and necessary; see `Table.write`."""
    if partitioned_by is not None and not create:
        raise ArgumentError(
            "partitioned_by= is given without create=True", argument="partitioned_by"
        )
    if create and not table_exists(table.connection._storage, table.name):
        return create_and_write(table, data, partitioned_by, TableOptions(), options)
    schema = schema_of_target(table)
    check_same_partitions(partitioned_by, schema, table.name)
    spec = check_partition(options.partition, schema, table.name)
    check_overwrite(options.overwrite, spec, schema, table.name)
    return write_data(table, data, replace(options, partition=spec))
