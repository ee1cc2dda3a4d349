"""The metadata of a `Table`, and its changes other than writing rows.

Metadata is fetched once, at the first use. Must not know: the wire, what a notebook shows.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from odps_nb.access.checks import PartitionLike, check_partition, check_whole_partition
from odps_nb.access.faces import Listing
from odps_nb.client.catalog import (
    fetch_primary_key,
    fetch_table,
    iter_partitions,
    table_exists,
)
from odps_nb.errors import ArgumentError, OdpsNbError, explain, visible
from odps_nb.lifetime import renew_after_fork
from odps_nb.schema import TableSchema
from odps_nb.terms import PartitionSpec, TableName, format_bytes
from odps_nb.wire.type_text import format_type

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.access.partitions import PartitionDetails
    from odps_nb.access.table import Table
    from odps_nb.wire.control import TableInfo

__all__ = ["TableMetadata"]

_SHOWN_COLUMNS = 60


class TableMetadata:
    """Name, columns and partitions of a table: base class of `Table`."""

    def __init__(self, connection: Connection, name: TableName) -> None:
        self._connection, self._name = connection, name
        self._lock = threading.Lock()
        self._info: TableInfo | None = None
        self._partition_count: int | None = None
        self._primary_key: tuple[str, ...] | None = None
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Use new locks in a forked child: a thread of the parent may be fetching."""
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        return type(self), (self._connection, self._name)

    @property
    def name(self) -> TableName:
        """Project, schema and table."""
        return self._name

    @property
    def connection(self) -> Connection:
        """The connection of the table."""
        return self._connection

    @property
    def info(self) -> TableInfo:
        """All metadata: owner, comment, times, size; one request, then remembered."""
        with self._lock:
            if self._info is None:
                self._info = fetch_table(self._connection.storage, self._name)
            return self._info

    @property
    def schema(self) -> TableSchema:
        """Columns and partition columns; one request, then remembered.

        Raises
        ------
        NotFoundError
            No such table; the hint names similar ones.
        """
        return self.info.schema

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Columns of the primary key, empty without one; one request, then remembered."""
        with self._lock:
            if self._primary_key is None:
                self._primary_key = fetch_primary_key(self._connection.storage, self._name)
            return self._primary_key

    def partitions(self, under: PartitionLike | None = None) -> list[PartitionSpec]:
        """Return the current partitions, in the service's order.

        Parameters
        ----------
        under
            Only those inside this partial spec, e.g. ``ds=2024-01-01`` of ``ds, hour``.

        Raises
        ------
        ArgumentError
            The table has no partitions.
        """
        if not self.schema.partition_columns:
            raise ArgumentError(f"{self._name} has no partitions")
        spec = check_partition(PartitionSpec.of(under), self.schema, self._name)
        found = [
            one.spec for one in iter_partitions(self._connection.storage, self._name, under=spec)
        ]
        if not spec.items:
            self._partition_count = len(found)
        return found

    def partition_details(self, under: PartitionLike | None = None) -> list[PartitionDetails]:
        """Return rows, size and times of each partition; one request for each of them.

        Parameters
        ----------
        under
            As for `partitions`.

        Raises
        ------
        ArgumentError
            The table has no partitions.

        Examples
        --------
        >>> (day,) = odps.table("orders").partition_details("ds=2024-01-02")
        >>> day.rows, day.partition
        (243008, 'ds=2024-01-02')
        >>> import pandas as pd
        >>> pd.DataFrame(odps.table("orders").partition_details()).rows.sum()
        np.int64(2048000)
        """
        from odps_nb.access.partitions import fetch_details

        if not self.schema.partition_columns:
            raise ArgumentError(f"{self._name} has no partitions")
        spec = check_partition(PartitionSpec.of(under), self.schema, self._name)
        return fetch_details(self._connection.storage, self._name, spec)

    def reload(self) -> Table:
        """Drop the cached metadata; the next use fetches it again."""
        with self._lock:
            self._info = self._partition_count = self._primary_key = None
        return cast("Table", self)

    def exists(self, partition: PartitionLike | None = None) -> bool:
        """Whether the table, or the given partition, exists now; one request each time.

        Examples
        --------
        >>> odps.table("orders").exists(), odps.table("no_such_table").exists()
        (True, False)
        >>> odps.table("orders").exists("ds=1999-01-01")
        False
        """
        storage = self._connection.storage
        if partition is None:
            return table_exists(storage, self._name)
        return table_exists(storage, self._name, self._one_partition(partition))

    # -- changes ------------------------------------------------------------------------------

    def truncate(self, partition: PartitionLike | None = None) -> None:
        """Delete all rows of the table, or of one partition; the table or partition stays, empty.

        Raises
        ------
        NotFoundError
            No such table or partition.

        Examples
        --------
        >>> import pandas as pd
        >>> table = odps.create_table("doc_truncate", "id bigint", partitioned_by="ds string")
        >>> table.add_partition("ds=1")
        >>> table.write(pd.DataFrame({"id": [1, 2]}), partition="ds=2").rows
        2
        >>> table.truncate("ds=2")
        >>> [str(spec) for spec in table.partitions()], table.read().row_count
        (['ds=1', 'ds=2'], 0)
        >>> table.drop_partition("ds=1")
        >>> table.exists("ds=1")
        False
        >>> odps.drop_table("doc_truncate")
        """
        from odps_nb.client.table_changes import truncate_table

        spec = PartitionSpec() if partition is None else self._one_partition(partition)
        truncate_table(self._connection.storage, self._name, spec)
        self.reload()

    def add_partition(self, partition: PartitionLike, *, if_not_exists: bool = False) -> None:
        """Create an empty partition; `write` creates its own if necessary.

        Parameters
        ----------
        partition
            A value for each partition column, e.g. ``"ds=2024-01-01,hour=3"``.
        if_not_exists
            Leave one that is there as it is.

        Raises
        ------
        ConflictError
            It is there already.
        """
        from odps_nb.client.table_changes import add_partition

        spec = self._one_partition(partition)
        add_partition(self._connection.storage, self._name, spec, if_not_exists=if_not_exists)
        self.reload()

    def drop_partition(self, partition: PartitionLike, *, if_exists: bool = False) -> None:
        """Drop one partition with its rows.

        Parameters
        ----------
        partition
            A value for each partition column: a part of them could mean many partitions.

        Raises
        ------
        NotFoundError
            There is none, and ``if_exists`` is not set.
        """
        from odps_nb.client.table_changes import drop_partition

        spec = self._one_partition(partition)
        drop_partition(self._connection.storage, self._name, spec, if_exists=if_exists)
        self.reload()

    def _one_partition(self, partition: PartitionLike) -> PartitionSpec:
        return check_whole_partition(PartitionSpec.of(partition), self.schema, self._name)

    # -- looks --------------------------------------------------------------------------------

    def _loaded(self) -> None:
        info = self.info
        if info.schema.partition_columns and self._partition_count is None:
            self.partitions()

    def _facts(self) -> str:
        info = self.info
        facts = ["view"] if info.is_view else ["external table"] if info.is_external else []
        if info.schema.partition_columns:
            count = self._partition_count
            told = "" if count is None else f"{count:,} "
            facts.append(f"{told}partition{'' if count == 1 else 's'}")
        if info.record_count is not None and not info.is_view:
            facts.append(f"{info.record_count:,} rows")
        if info.size is not None and not info.is_view:
            facts.append(format_bytes(info.size))
        return " · ".join([*facts, *([info.comment] if info.comment else [])])

    def _rows(self) -> list[tuple[object, ...]]:
        rows: list[tuple[object, ...]] = []
        for kind, columns in (
            ("", self.schema.columns),
            ("partition", self.schema.partition_columns),
        ):
            for c in columns:
                made = f": {c.generated.text}" if c.generated is not None else ""
                rows.append((c.name, format_type(c.type), kind + made, c.comment))
        return rows

    def __repr__(self) -> str:
        """Name the table, with its cached metadata; sends no request."""
        if self._info is None:
            return f"Table {self._name}"
        rows = self._rows()
        width = max((len(str(row[0])) for row in rows), default=0)
        lines = [f"Table {self._name}", *([self._facts()] if self._facts() else [])]
        lines += [
            f"  {row[0]!s:{width}}  {row[1]}{f'  ({row[2]})' if row[2] else ''}"
            for row in rows[:_SHOWN_COLUMNS]
        ]
        if len(rows) > _SHOWN_COLUMNS:
            lines.append(f"  … and {len(rows) - _SHOWN_COLUMNS} more columns")
        return visible("\n".join(lines))

    def _repr_mimebundle_(self, **_: object) -> Mapping[str, Any]:
        try:
            self._loaded()
        except OdpsNbError as error:
            return {"text/plain": "\n".join([repr(self), *explain(error)])}
        text = repr(self)
        caption = " · ".join(part for part in (str(self._name), self._facts()) if part)
        listing = Listing(
            headers=("column", "type", "", "comment"), rows=self._rows(), caption=caption
        )
        return {**self._connection.faces.listing(listing), "text/plain": text}

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TableMetadata)
            and other._name == self._name
            and other._connection is self._connection
        )

    def __hash__(self) -> int:
        return hash(self._name)
