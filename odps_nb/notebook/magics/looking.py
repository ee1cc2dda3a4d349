"""The subcommands that list tables, columns and partitions."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from odps_nb.client.catalog import fetch_table, iter_partitions
from odps_nb.errors import ArgumentError, OdpsNbError
from odps_nb.notebook.display.listing import Listing
from odps_nb.notebook.magics.arguments import TABLE, argument, parse_partition, parsed_as
from odps_nb.notebook.magics.context import Context
from odps_nb.terms import PartitionSpec, format_bytes

if TYPE_CHECKING:
    from odps_nb.access.table import Table
    from odps_nb.wire.control import TableInfo

MAX_DESCRIBED = 40
"""Maximum number of tables listed with rows, size and comment; longer lists show names only."""

_WORKERS = 8
T = TypeVar("T")


@parsed_as("odps tables")
@argument("pattern", nargs="?", metavar="PATTERN", help="Only tables that match, e.g. ord*.")
def tables(context: Context, args: argparse.Namespace, cell: str | None) -> Listing:
    """List the project's tables; describe them if there are at most 40.

    Descriptions show the row count, size, partition columns and comment. names = %odps tables
    returns a sequence of rows, whose first item is the table name.
    """
    names = [str(name) for name in context.connection.tables(args.pattern)]
    if len(names) > MAX_DESCRIBED:
        return Listing(headers=("table",), rows=tuple((name,) for name in names))
    nothing = f"no table name matches {args.pattern}" if args.pattern else "no tables yet"
    connection = context.connection

    def facts(name: str) -> tuple[str, ...]:
        return _facts(fetch_table(connection._storage, connection.profile.table(name)))

    unknown = ("", "", "", "")
    found = zip(names, each_table(facts, names), strict=True)
    rows = tuple((name, *(more or unknown)) for name, more in found)
    return _without_empty(("table", "rows", "size", "partitioned by", "comment"), rows, nothing)


def each_table(describe: Callable[[str], T], names: Sequence[str]) -> list[T | None]:
    """Describe tables, a few at a time; the result is ``None`` for a table that cannot be read."""

    def described(name: str) -> T | None:
        try:
            return describe(name)
        except OdpsNbError:  # the table was dropped in the meantime, or cannot be read
            return None

    pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="odps-nb-tables")
    try:
        return list(pool.map(described, names))
    finally:  # after an interrupt, do not wait for requests that hang
        pool.shutdown(wait=False, cancel_futures=True)


def _facts(info: TableInfo) -> tuple[str, ...]:
    keys = ", ".join(column.name for column in info.schema.partition_columns)
    return (_known(info.record_count), _known(info.size, format_bytes), keys, info.comment)


@parsed_as("odps schema")
@TABLE
def schema(context: Context, args: argparse.Namespace, cell: str | None) -> Table:
    """Show the columns, partition columns and size of a table.

    table = %odps schema TABLE returns the table object.
    """
    table = context.connection.table(args.table)
    table.info  # noqa: B018  # fetch now, so a missing table fails in this cell
    return table


@parsed_as("odps partitions")
@TABLE
@argument("-p", "--partition", metavar="KEY=VALUE", help="List only the partitions below this one.")
def partitions(context: Context, args: argparse.Namespace, cell: str | None) -> Listing:
    """List the partitions of a table with rows, size and time of the last change.

    found = %odps partitions TABLE returns a sequence of rows; found[0][0] can be passed to -p.
    """
    from odps_nb.access.checks import check_partition

    table = context.connection.table(args.table)
    if not table.schema.partition_columns:
        raise ArgumentError(f"{table.name} is not partitioned")
    asked = parse_partition(args.partition) or PartitionSpec()
    under = check_partition(asked, table.schema, table.name)
    rows = tuple(
        (
            str(one.spec),
            _known(one.record_count),
            _known(one.size, format_bytes),
            _time(one.modified_at),
        )
        for one in iter_partitions(context.connection._storage, table.name, under)
    )
    return _without_empty(("partition", "rows", "size", "changed"), rows, "no partitions yet")


def _without_empty(
    headers: tuple[str, ...], rows: tuple[tuple[str, ...], ...], empty: str
) -> Listing:
    """Return a listing without the columns for which the service reports no values."""
    told = [i for i in range(len(headers)) if i == 0 or any(row[i] for row in rows)]
    return Listing(
        headers=tuple(headers[i] for i in told),
        rows=tuple(tuple(row[i] for i in told) for row in rows),
        empty=empty,
    )


def _known(value: int | None, write: Callable[[int], str] = "{:,}".format) -> str:
    return "" if value is None or value < 0 else write(value)


def _time(seconds: Any) -> str:
    return f"{datetime.datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}" if seconds else ""
