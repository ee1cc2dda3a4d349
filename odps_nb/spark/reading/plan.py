"""Plans the read of a DataFrame, checks it against the table, and opens its read session."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from odps_nb.client.calls.progress import Phase
from odps_nb.errors import visible
from odps_nb.filters.tree import text_of
from odps_nb.schema import has_blob
from odps_nb.spark.progress.counting import Activity
from odps_nb.terms import TableName, TimeUnit, shorten

if TYPE_CHECKING:
    from odps_nb.access.reading.planning import ReadOptions
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.read.plan import ReadPlan, ReadSession

#: Maximum rows of a task that reads a BLOB column: a few seconds of work with 1 MB blobs.
BLOB_ROWS = 256
_SHOWN = 200


def plan_of(storage: StorageClient, table: TableName, options: ReadOptions) -> ReadPlan:
    """Return the plan of a read; requests the table's schema if column names must be checked."""
    from odps_nb.access.reading.planning import plan_read
    from odps_nb.client.catalog import fetch_primary_key, fetch_table

    return plan_read(
        table,
        lambda: fetch_table(storage, table).schema,
        lambda: fetch_primary_key(storage, table),
        replace(options, timestamp_unit=TimeUnit.MICRO),  # Spark's only unit
        storage,
        timezone=storage.profile.timezone or "UTC",
    )


def open_session(storage: StorageClient, plan: ReadPlan) -> ReadSession:
    """Open the read session of a plan, split for tasks; raises like `open_read_session`."""
    from odps_nb.client.reading import open_read_session

    blobs = [column for column in plan.schema or () if has_blob(column.type)]
    chosen = {name.casefold() for name in plan.columns}
    ranges = any(not chosen or column.name.casefold() in chosen for column in blobs)
    return cut_session(open_read_session(storage, replace(plan, row_ranges=ranges)), plan)


def cut_session(session: ReadSession, plan: ReadPlan) -> ReadSession:
    """Split the session into tasks of few rows if it reads BLOBs and the plan sets no size."""
    from odps_nb.client.read.session import cut_for_blobs

    free = plan.splits is None and plan.split_bytes is None and plan.increment is None
    return cut_for_blobs(session, BLOB_ROWS) if free else session


def read_activity(session: ReadSession) -> Activity:
    """Return the activity of the tasks that read a session."""
    rows = session.row_count
    return Activity(
        operation="read",
        title=str(session.table),
        phase=Phase.READING,
        session_id=session.session_id,
        rows_total=rows if rows is None or session.limit is None else min(rows, session.limit),
    )


def read_name(session: ReadSession, plan: ReadPlan) -> str:
    """Return a read's name in Spark plans: unique to its session, without endpoint or keys."""
    count = len(session.schema)
    told = [f"{count} columns" if session.selects else f"all {count} columns"]
    if plan.schema is not None:
        told = [f"{count} of {len(plan.schema)} columns"]
    if plan.partitions:
        told.append(_short(" or ".join(map(str, plan.partitions))))
    if plan.where:
        told.append(f"where {_short(' '.join(plan.where.split()))}")
    elif plan.condition is not None:
        told.append(f"where {_short(text_of(plan.condition))}")
    if session.limit is not None:
        told.append(f"limit {session.limit}")
    told.append(f"session {session.session_id}")
    return visible(f"odps {session.table} [{'; '.join(told)}]")


def _short(text: str) -> str:
    return shorten(text, _SHOWN)
