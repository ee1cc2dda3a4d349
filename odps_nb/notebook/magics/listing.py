"""The subcommands that list tables, columns and partitions."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from odps_nb.client.catalog import fetch_tables, iter_partitions
from odps_nb.errors import ArgumentError
from odps_nb.notebook.display.listing import MAX_ROWS, Listing
from odps_nb.notebook.magics.arguments import TABLE, argument, parse_partition, parsed_as
from odps_nb.notebook.magics.context import Context
from odps_nb.terms import PartitionSpec, format_bytes

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.access.table import Table
    from odps_nb.wire.control import TableInfo

_WORKERS, _BATCH = 8, 100  # concurrent requests; tables of one request
_ORDERS: Mapping[str, Callable[[TableInfo], int | None]] = {
    "rows": lambda info: info.record_count,
    "size": lambda info: info.size,
    "changed": lambda info: info.modified_at,
}


@parsed_as("odps tables")
@argument("pattern", nargs="?", metavar="PATTERN", help="Only tables that match, e.g. ord*.")
@argument("-c", "--column", metavar="PATTERN", help="Only tables with such a column, e.g. *_id.")
@argument("-s", "--sort", choices=tuple(_ORDERS), help="Show the largest or latest first.")
def tables(context: Context, args: argparse.Namespace, cell: str | None) -> Listing:
    """List the project's tables with rows, size, last change, partition columns and comment.

    Without -c and -s, only the first 1,000 tables are described. names = %odps tables returns a
    sequence of rows, whose first item is the table name.
    """
    connection = context.connection
    names = [str(name) for name in connection.tables(args.pattern)]
    is_whole = args.column is not None or args.sort
    known = dict(
        zip(names, each_table(connection, names if is_whole else names[:MAX_ROWS]), strict=False)
    )
    is_any = args.pattern is None
    nothing = "no tables yet" if is_any else f"no table name matches {args.pattern}"
    if args.column is not None:
        nothing = f"no table has a column {args.column}"
        names = [name for name in names if _has_column(known[name], args.column)]
    if args.sort:
        value = _ORDERS[args.sort]
        names.sort(key=lambda name: -(((info := known[name]) and value(info)) or 0))
    zone = connection.profile.timezone
    rows = tuple((name, *_facts(known.get(name), zone)) for name in names)
    headers = ("table", "rows", "size", "changed", "partitioned by", "comment")
    return _without_empty(headers, rows, nothing)


def each_table(connection: Connection, names: Sequence[str]) -> list[TableInfo | None]:
    """Describe tables, 100 in each request; the result is ``None`` for an unreadable table."""
    table_names = [connection.profile.table(name) for name in names]
    batches = [table_names[start : start + _BATCH] for start in range(0, len(table_names), _BATCH)]
    pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="odps-nb-tables")
    try:
        described = pool.map(partial(fetch_tables, connection._storage), batches)
        return [info for batch in described for info in batch]
    finally:  # after an interrupt, do not wait for requests that hang
        pool.shutdown(wait=False, cancel_futures=True)


def _has_column(info: TableInfo | None, pattern: str) -> bool:
    names = [] if info is None else info.schema.all_columns
    return any(fnmatchcase(column.name.casefold(), pattern.casefold()) for column in names)


def _facts(info: TableInfo | None, zone: str | None) -> tuple[str, ...]:
    if info is None:
        return ("",) * 5
    keys = ", ".join(column.name for column in info.schema.partition_columns)
    size = _known(info.size, format_bytes)
    return (_known(info.record_count), size, _time(info.modified_at, zone), keys, info.comment)


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
    spec = parse_partition(args.partition) or PartitionSpec()
    under = check_partition(spec, table.schema, table.name)
    zone = context.connection.profile.timezone
    rows = tuple(
        (
            str(partition.spec),
            _known(partition.record_count),
            _known(partition.size, format_bytes),
            _time(partition.modified_at, zone),
        )
        for partition in iter_partitions(context.connection._storage, table.name, under)
    )
    return _without_empty(("partition", "rows", "size", "changed"), rows, "no partitions yet")


def _without_empty(
    headers: tuple[str, ...], rows: tuple[tuple[str, ...], ...], empty: str
) -> Listing:
    """Return a listing without the columns for which the service reports no values."""
    filled = [i for i in range(len(headers)) if i == 0 or any(row[i] for row in rows)]
    return Listing(
        headers=tuple(headers[i] for i in filled),
        rows=tuple(tuple(row[i] for i in filled) for row in rows),
        empty=empty,
    )


def _known(value: int | None, write: Callable[[int], str] = "{:,}".format) -> str:
    return "" if value is None or value < 0 else write(value)


def _time(seconds: float | None, zone: str | None) -> str:
    """Format a time in the connection's time zone, or else in that of this machine."""
    if not seconds:
        return ""
    moment = datetime.datetime.fromtimestamp(seconds, ZoneInfo(zone) if zone else None)
    return f"{moment:%Y-%m-%d %H:%M:%S}"
