"""Plans a read after checking its arguments against the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odps_nb.access.binding.text import bind, without_comments
from odps_nb.access.checks import check_columns, check_count, check_text
from odps_nb.access.partitions import PartitionChoice, choose_partitions
from odps_nb.client.read.increments import CHANGE, Bound, plan_increment
from odps_nb.client.read.plan import ReadPlan
from odps_nb.errors import ArgumentError
from odps_nb.filters.row_filter import RowFilter
from odps_nb.schema import TableSchema
from odps_nb.terms import Compression, TableName, TextMode, TextOptions, TimeUnit

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a read, named as in `Table.read`; `plan_read` checks them."""

    columns: Sequence[str] | None = None
    where: str | None = None
    params: Mapping[str, object] | None = None
    partitions: PartitionChoice | Iterable[PartitionChoice] | None = None
    limit: int | None = None
    splits: int | None = None
    split_bytes: int | None = None
    compression: str | Compression | None = None
    timestamp_unit: TimeUnit | None = None
    text: str | TextMode | None = None
    char_padding: bool = False
    since: Bound | None = None
    until: Bound | None = None
    changes: bool = False


def plan_read(
    table: TableName,
    fetch_schema: Callable[[], TableSchema],
    fetch_key: Callable[[], Sequence[str]],
    options: ReadOptions,
    storage: StorageClient,
    *,
    timezone: str = "UTC",
) -> ReadPlan:
    """Return the plan of a read; used by every front end.

    Fetches the schema only to check names, and the primary key only for an incremental read.
    """
    columns, where, partitions = options.columns, options.where, options.partitions
    increment = None
    if options.since is not None or options.until is not None or options.changes:
        names = fetch_schema().names
        increment = plan_increment(
            options.since,
            options.until,
            changes=options.changes,
            keyed=bool(fetch_key()),
            names=names,
        )
        columns = names if columns is None else columns
    if columns is not None and not isinstance(columns, Sized):
        raise ArgumentError(
            f"columns is of type {type(columns).__name__}", hint="pass a list of column names"
        )
    if columns is not None and not len(columns):
        raise ArgumentError("columns is empty", hint="pass at least one name, or omit columns=")
    if options.splits is not None and options.split_bytes is not None:
        raise ArgumentError(
            "splits and split_bytes cannot be combined",
            hint="pass the number of splits, or the bytes per split",
        )
    needs_schema = any(option is not None for option in (columns, where, partitions))
    schema = fetch_schema() if needs_schema else None
    condition = _condition(where, options.params, timezone)
    if schema is not None and condition is not None:
        # raises if the condition is invalid, before any request for rows
        RowFilter.parse(condition, schema, timezone=timezone, unit=options.timestamp_unit)
    selected: tuple[str, ...] = ()
    keys: tuple[str, ...] | None = None
    if schema is not None and columns is not None:
        selected = check_columns(columns, schema, table)
        keys = tuple(column.name for column in schema.partition_columns)
    if increment is not None and increment.changes:
        selected = (*selected, CHANGE.name)
    return ReadPlan(
        table=table,
        columns=selected,
        partition_columns=keys,
        partitions=() if schema is None else choose_partitions(partitions, schema, table, storage),
        where=condition,
        timezone=timezone,
        schema=schema,
        limit=check_count("limit", options.limit, at_least=0),
        splits=check_count("splits", options.splits),
        split_bytes=check_count("split_bytes", options.split_bytes),
        compression=Compression.of(options.compression),
        timestamp_unit=options.timestamp_unit,
        increment=increment,
        text=TextOptions.of(options.text, char_padding=options.char_padding),
    )


def _condition(where: str | None, params: Mapping[str, object] | None, timezone: str) -> str | None:
    if where is None:
        if params:
            hint = "pass the condition as where=, or omit params="
            raise ArgumentError(
                "params has values, but where is missing", argument="params", hint=hint
            )
        return None
    check_text("where", where)
    where = without_comments(where)
    if not where:
        raise ArgumentError("where is blank", hint="pass where=None to read all rows")
    if params is None:
        return where
    return bind(where, params, source="params has no", timezone=timezone, target="where")
