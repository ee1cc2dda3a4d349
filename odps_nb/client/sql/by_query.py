"""Reads with a query what a service cannot read: views, external tables, JSON, times out of range.

The read's columns, partitions, condition and limit become a SELECT statement, whose result is the
snapshot. The client tests the condition on each row again, as in every read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.read.columns import (
    choose_columns,
    hidden_columns,
    require_columns,
    selected,
    unit_of,
)
from odps_nb.client.read.plan import ReadPlan, ReadSession
from odps_nb.client.read.requests import Downloads
from odps_nb.client.sql.cost import estimate_sql
from odps_nb.client.sql.csv_result import TextRows
from odps_nb.client.sql.definitions import quoted, quoted_column
from odps_nb.client.sql.query import SqlInstance, run_sql
from odps_nb.client.sql.settings import schema_settings
from odps_nb.errors import AccessDeniedError, ServiceError
from odps_nb.schema import TableSchema, text_as_binary
from odps_nb.terms import PartitionSpec, RowRangeSplit, TextMode, format_bytes
from odps_nb.type_facts import TYPE_FACTS
from odps_nb.wire.type_text import format_text

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.read.needs_query import NeedsQuery

QUERY_PREFIX = "query:"
"""Prefix of the session ids of reads by a query."""
_SETTINGS = {
    "odps.sql.allow.fullscan": "true",  # the query names the partitions, or reads all of them
    "odps.sql.type.system.odps2": "true",
}

_log = logging.getLogger("odps_nb")


def open_by_query(
    storage: StorageClient,
    plan: ReadPlan,
    refusal: NeedsQuery,
    *,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> ReadSession:
    """Run the query of a read, and return a session over its result."""
    schema = refusal.info.schema
    plan = replace(plan, schema=schema)
    sql, settings = _select(plan, schema), _SETTINGS | schema_settings(plan.table.schema)
    _tell(storage, sql, settings, refusal.why, tracker)
    instance = run_sql(storage, sql, settings=settings, tracker=tracker, cancel=cancel)
    return _session(storage, plan, schema, instance, tracker=tracker, cancel=cancel)


def reopen_query(storage: StorageClient, plan: ReadPlan, session_id: str) -> ReadSession:
    """Return a plan's session over the result of a query that ran before."""
    from odps_nb.client.catalog import fetch_table

    schema = plan.schema or fetch_table(storage, plan.table).schema
    instance = SqlInstance(
        project=storage.profile.project, instance_id=session_id.removeprefix(QUERY_PREFIX)
    )
    return _session(storage, replace(plan, schema=schema), schema, instance)


def _session(
    storage: StorageClient,
    plan: ReadPlan,
    schema: TableSchema,
    instance: SqlInstance,
    *,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> ReadSession:
    from odps_nb.client.read.session import split_ranges
    from odps_nb.client.sql.result import open_result

    columns = choose_columns(plan)
    shown = selected(schema, columns.wanted)
    row_filter = columns.filter
    result = open_result(storage, instance, tracker=tracker, cancel=cancel)
    rows = result.row_count
    if plan.limit is not None and row_filter is None:
        rows = min(rows, plan.limit)
    result.check(plan.limit if row_filter is None else None)
    as_bytes = plan.text.mode is TextMode.BINARY
    splits: tuple[RowRangeSplit, ...] = split_ranges(plan, rows, None)
    source = result.source
    if isinstance(source, TextRows):
        raise AccessDeniedError(
            f"the rows of {plan.table} are read by a query, whose result the key must not download",
            code="NoPermission",
            hint="ask the project's owner for permission to download, or use odps.sql(…), whose "
            "columns are then text",
        )
    require_columns(shown.names, row_filter, result.schema)
    if isinstance(source, Downloads) and plan.compression is not source.compression:
        source = replace(source, compression=plan.compression)
    return ReadSession(
        table=plan.table,
        session_id=QUERY_PREFIX + instance.instance_id,
        schema=text_as_binary(shown) if as_bytes else shown,
        splits=splits,
        row_count=rows if row_filter is None else None,
        stored_rows=None if row_filter is None else rows,
        filter=row_filter,
        hidden=hidden_columns(schema, shown, row_filter),
        selects=bool(plan.columns),
        limit=plan.limit,
        columns=shown.names,
        timestamp_unit=unit_of(plan),
        max_batch_rows=plan.max_batch_rows,
        text=plan.text,
        sent=shown if as_bytes else None,
        source=source,
        query=instance.instance_id,
    )


def _tell(
    storage: StorageClient,
    sql: str,
    settings: Mapping[str, str],
    why: str,
    tracker: ProgressTracker | None,
) -> None:
    """Show that a query is running, and its estimated input."""
    try:
        size = estimate_sql(storage, sql, settings=settings).input_bytes
    except ServiceError as error:
        _log.info("the cost of the query is unknown: %s", error)
        size = None
    cost = "" if size is None else f", which reads {format_bytes(size)}"
    line = f"{why}, so its rows are read by a query{cost}"
    _log.info("%s: %s", line, sql)
    if tracker is not None:
        tracker.noted(line)
        tracker.remark(line)


def _select(plan: ReadPlan, schema: TableSchema) -> str:
    columns = choose_columns(plan)
    names = (*columns.data, *columns.parts) or schema.names
    text = f"select {', '.join(map(quoted_column, names))} from {quoted(plan.table)}"
    conditions = []
    if plan.partitions:
        each = (_partition(spec, schema) for spec in plan.partitions)
        conditions.append(f"({' or '.join(each)})")
    if columns.filter is not None and columns.filter.predicate:
        conditions.append(f"({columns.filter.predicate})")
    if conditions:
        text += f" where {' and '.join(conditions)}"
    if plan.limit is not None and columns.filter is None:
        text += f" limit {plan.limit}"
    return text + ";"


def _partition(spec: PartitionSpec, schema: TableSchema) -> str:
    levels = []
    for key, value in spec.checked():
        column = schema.find(key)
        is_number = column is not None and TYPE_FACTS[column.type.code].kind == "INTEGER"
        literal = str(int(value)) if is_number else format_text(value)
        levels.append(f"{quoted_column(key)} = {literal}")
    return f"({' and '.join(levels)})"
