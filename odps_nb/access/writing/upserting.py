"""Upserts and deletes rows by primary key, in one atomic commit.

Rows with the same key use the same stream, since different streams are not ordered.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odps_nb.access.checks import check_partition
from odps_nb.access.writing.columns import type_of_column
from odps_nb.access.writing.sources import Target
from odps_nb.access.writing.tabular import Chunks, as_tables, is_pandas, is_spark
from odps_nb.client.write.operations import DELETE, UPSERT, Stamp, takes_operation
from odps_nb.convert.arrow_schema import refuse_unknown
from odps_nb.convert.fitting.conversions import AS_THEY_ARE, Conversions
from odps_nb.convert.row_names import Names
from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import PartitionSpec, TableName

if TYPE_CHECKING:
    from odps_nb.access.receipt import Receipt
    from odps_nb.access.table import Table
    from odps_nb.access.writing.rows import WriteOptions

_FLAG = PrimitiveType(TypeCode.BOOLEAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An upsert or, with ``only_keys``, a delete, which uses only key and partition columns.

    ``only``: the data's columns in lower case, if the upsert keeps all other columns.
    """

    keys: tuple[str, ...]
    stamp: Stamp
    only_keys: bool = False
    only: frozenset[str] | None = None

    @property
    def key_names(self) -> frozenset[str]:
        """The names of the key columns, in lower case."""
        return frozenset(name.casefold() for name in self.keys)

    @property
    def verb(self) -> str:
        """The receipt's verb."""
        if self.only_keys:
            return "deleted"
        return "upserted" if self.stamp.flag is None else "upserted or deleted"

    def target(
        self,
        schema: TableSchema,
        table: TableName,
        fixed: PartitionSpec,
        *,
        conversions: Conversions = AS_THEY_ARE,
    ) -> Target:
        """Return the target, with the columns that the data must or may contain."""
        keys = self.key_names
        columns = tuple(
            replace(column, nullable=column.name.casefold() not in keys)
            if self.only_keys or column.name.casefold() in keys
            else column
            for column in schema.columns
            # a partial upsert may add rows, so it needs the columns that cannot be null
            if self.only is None or column.name.casefold() in self.only or not column.nullable
        )
        if self.stamp.flag is not None:
            columns = (*columns, Column(name=self.stamp.flag, type=_FLAG))
        whole = replace(schema, columns=columns)
        target = Target.of(whole, table, fixed, conversions=conversions)
        return replace(target, flag=self.stamp.flag)

    def narrowed(self, data: Any, target: Target, *, index: bool | None = None) -> Any:
        """Return the data without the columns that a delete does not need."""
        if not self.only_keys:
            return data
        schema, keys = target.columns, target.columns.partition_columns
        needed = [(schema.source_of(column) or column).name for column in keys]
        order = tuple(dict.fromkeys((*self.keys, *needed)))
        names = {*order, *(column.name for column in keys)}
        # If the key has one column, the data may be a list of key values.
        data = as_tables(data, Names(order=order, single=len(order) == 1), index=index)
        if isinstance(data, Chunks):
            return data.mapped(lambda table: _select(table, names))
        return _select(data, names)


def _find_key(table: Table) -> tuple[str, ...]:
    """Return the columns of the primary key.

    The table's extended metadata lists them (``PrimaryKey`` in ``Reserved``, as in the Python and
    Java SDKs). If they are missing, the distribution keys of a write session are used.
    """
    from odps_nb.client.write.session import open_write_session

    if table.primary_key:
        return table.primary_key
    with open_write_session(table.connection._storage, table.name) as session:
        schema = session.write_schema
        if takes_operation(schema) and schema.key_columns:
            return schema.key_columns
    raise ArgumentError(
        f"{table.name} has no primary key, so its rows cannot be found by key",
        code="NoPrimaryKey",
        hint="use write() to add rows, or create a table with odps.create_table(…, "
        "primary_key='id')",
    )


def _select(data: Any, names: Iterable[str]) -> Any:
    folded_names = {name.casefold() for name in names}
    if is_spark(data) or is_pandas(data):
        return data[[name for name in data.columns if str(name).casefold() in folded_names]]
    columns = [name for name in data.schema.names if name.casefold() in folded_names]
    if isinstance(data, pa.Table):
        return data.select(columns)
    schema = pa.schema([field for field in data.schema if field.name in columns])
    batches = (batch.select(columns) for batch in data)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _same_columns(data: Any, target: Target, *, index: bool | None) -> tuple[Any, frozenset[str]]:
    """Return the data as tables, and its column names (in lower case), equal in all rows.

    A row without a column that other rows have would set this column to null.
    """
    data = as_tables(data, replace(target.names, same=True), index=index)
    sample = data.peek() if isinstance(data, Chunks) else data
    names = () if sample is None else _names_of(sample)
    fixed = {key.casefold() for key, _ in target.fixed}
    free = [name for name in names if name.casefold() not in fixed]
    refuse_unknown(
        free, target.columns, None if is_spark(data) else lambda n: type_of_column(sample, n)
    )
    only = frozenset(name.casefold() for name in names)
    if sent := [column.name for column in target.blobs if column.name.casefold() in only]:
        raise ArgumentError(
            f"a partial upsert cannot write the BLOB column {sent[0]!r}",
            argument="partial",
            hint="upsert whole rows, without partial=True",
        )

    def checked(part: Any) -> Any:
        if differing := only ^ {name.casefold() for name in _names_of(part)}:
            raise ConversionError(
                f"some parts of the data have the column {min(differing)!r}, and others do not",
                column=min(differing),
                hint="pass parts with the same columns, in one call for each set of columns",
            )
        return part

    return data.mapped(checked) if isinstance(data, Chunks) else data, only


def _names_of(data: Any) -> tuple[str, ...]:
    columns = data.columns if is_spark(data) or is_pandas(data) else data.schema.names
    return tuple(map(str, columns))


def change_rows(
    table: Table,
    data: Any,
    options: WriteOptions,
    *,
    delete: bool,
    deleted: str | None = None,
    keeps: bool = False,
) -> Receipt:
    """Upsert or delete rows; see `Table.upsert` and `Table.delete`."""
    from odps_nb.access.writing.rows import write_data

    spec, keys = check_partition(options.partition, table.schema, table.name), _find_key(table)
    if deleted is not None and table.schema.find(deleted) is not None:
        raise ArgumentError(
            f"deleted is {deleted!r}, which is already a column of {table.name}",
            hint="pass the name of a boolean column of the data that is not a column of the table",
        )
    stamp = Stamp(operation=DELETE if delete else UPSERT, flag=deleted)
    change = Change(keys=keys, stamp=stamp, only_keys=delete)
    if keeps:
        whole = change.target(table.schema, table.name, spec)
        data, only = _same_columns(data, whole, index=options.index)
        change, options = (
            replace(change, only=only | change.key_names),
            replace(options, index=None),
        )
    receipt = write_data(table, data, replace(options, partition=spec, change=change))
    table.reload()
    return receipt
