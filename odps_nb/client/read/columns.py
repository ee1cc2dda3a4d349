"""A read's columns: those requested, those returned, and those that only a filter needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from odps_nb.client.read.plan import ReadPlan
from odps_nb.errors import ArgumentError, FramingError
from odps_nb.filters.parse import parse_condition
from odps_nb.filters.row_filter import RowFilter
from odps_nb.filters.tree import AllOf, Node
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import SplitMode, TableName, TimeUnit, listed_columns, shorten
from odps_nb.wire.calls import CreateReadSession, ReadSessionAnswer

Ask = Callable[[CreateReadSession], ReadSessionAnswer]


def unit_of(plan: ReadPlan) -> TimeUnit:
    """Return the TIMESTAMP unit to request."""
    return plan.timestamp_unit or TimeUnit.NANO


def increment_of(plan: ReadPlan) -> dict[str, Any]:
    """Return the request options that select versions; empty to read the table as it is now."""
    if plan.increment is not None:
        return plan.increment.request()
    if plan.versions is None:
        return {}
    after, upto = plan.versions
    # The vendor's clients do not agree on the names and modes (``docs/protocol.md`` section 3.1).
    # The service ignores unknown keys, so both names of each bound are sent.
    options = {
        "Mode": "append" if plan.appends_only else "version",
        "StartVersion": after,
        "EndVersion": upto,
        "From": after,
        "To": upto,
    }
    return {"incremental_read": True, "incremental_options": options}


@dataclass(frozen=True, slots=True)
class Columns:
    """A request's data and partition columns, the columns to return in order, and the filter."""

    data: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    filter: RowFilter | None = None


def require_columns(
    wanted: Iterable[str], row_filter: RowFilter | None, session: TableSchema
) -> None:
    """Raise if a reopened session lacks a column of the read or of its filter."""
    names = (*wanted, *(row_filter.columns if row_filter else ()))
    missing = next((name for name in names if session.find(name) is None), None)
    if missing is not None:
        raise ArgumentError(
            f"the session has no column {missing!r}",
            argument="session_id",
            hint="pass the same columns and conditions as to the read that opened the session; its "
            f"columns are: {shorten(', '.join(session.names), 200)}",
        )


def choose_columns(plan: ReadPlan, ask: Ask | None = None) -> Columns:
    """Return a plan's columns; if the plan lacks the table's columns, ``ask`` fetches them."""
    schema = plan.schema
    if plan.where and schema is None:  # a condition tree always comes with a schema
        schema = _probed(plan, ask)
    row_filter = None if schema is None else _filter(plan, schema)
    if not plan.columns:
        return Columns(filter=row_filter)
    if plan.increment is not None and plan.increment.keyed:
        # select on the client, because some of these columns may not be in the table
        return Columns(wanted=plan.columns, filter=row_filter)
    needed = plan.columns
    if row_filter is not None:
        has = {name.casefold() for name in needed}
        needed = (*needed, *(name for name in row_filter.columns if name.casefold() not in has))
    keys = plan.partition_columns
    if keys is None and schema is not None:
        keys = tuple(column.name for column in schema.partition_columns)
    if keys is not None:
        folded = {name.casefold() for name in keys}
        parts = tuple(name for name in needed if name.casefold() in folded)
        data = tuple(name for name in needed if name.casefold() not in folded)
        if data:
            return Columns(data, parts, plan.columns, row_filter)
    schema = schema or _probed(plan, ask)
    columns = [_find(schema, name, plan.table) for name in needed]
    data = tuple(column.name for column in columns if column in schema.columns)
    parts = tuple(column.name for column in columns if column in schema.partition_columns)
    chosen = tuple(column.name for column in columns[: len(plan.columns)])
    # A request without data columns would return all of them, so one is requested and then dropped.
    return Columns(data or tuple(c.name for c in schema.columns[:1]), parts, chosen, row_filter)


def _filter(plan: ReadPlan, schema: TableSchema) -> RowFilter | None:
    parts: list[Node] = []
    if plan.where:
        parts.append(parse_condition(plan.where, schema, timezone=plan.timezone))
    if plan.condition is not None:
        parts.append(plan.condition)
    if not parts:
        return None
    whole = parts[0] if len(parts) == 1 else AllOf(tuple(parts))
    return RowFilter.of(whole, schema, unit=unit_of(plan), text=plan.where or "")


def _probed(plan: ReadPlan, ask: Ask | None) -> TableSchema:
    """Return the table's columns, from a session opened only for this purpose."""
    assert ask is not None, "the plan has no schema"
    options = increment_of(plan) or {"split_mode": SplitMode.ROW_OFFSET, "split_number": 0}
    return ask(
        CreateReadSession(
            table=plan.table, partitions=plan.partitions, timestamp_unit=unit_of(plan), **options
        )
    ).schema


def _find(schema: TableSchema, name: str, table: TableName) -> Column:
    column = schema.find(name)
    if column is None:
        raise ArgumentError(
            f"{table} has no column {name!r}",
            hint=f"use its columns: {listed_columns(schema.names)}",
        )
    return column


def hidden_columns(
    answered: TableSchema, shown: TableSchema, found: RowFilter | None
) -> tuple[Column, ...]:
    """Return the columns that only the filter needs."""
    if found is None:
        return ()
    columns = {column.name.casefold(): column for column in answered}
    names = [name for name in found.columns if shown.find(name) is None]
    try:
        return tuple(columns[name.casefold()] for name in names)
    except KeyError as error:
        raise FramingError(
            f"the session has no column {error.args[0]!r}, which where= needs"
        ) from None


def selected(schema: TableSchema, wanted: tuple[str, ...]) -> TableSchema:
    """Return the schema of the batches: the ``wanted`` columns, or all if none are specified."""
    if not wanted:
        return schema
    order = {name.casefold(): position for position, name in enumerate(wanted)}

    def pick(columns: tuple[Column, ...]) -> tuple[Column, ...]:
        chosen = [column for column in columns if column.name.casefold() in order]
        return tuple(sorted(chosen, key=lambda column: order[column.name.casefold()]))

    return TableSchema(
        columns=pick(schema.columns), partition_columns=pick(schema.partition_columns)
    )
