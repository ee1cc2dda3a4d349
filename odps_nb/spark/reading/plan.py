"""Plans the read of a DataFrame, checks it against the table, and opens its read session."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from odps_nb.client.calls.progress import Phase
from odps_nb.errors import visible
from odps_nb.filters.tree import text_of
from odps_nb.schema import has_blob
from odps_nb.spark.launch.connect import is_connect
from odps_nb.spark.progress.counting import Activity
from odps_nb.terms import TableName, TimeUnit, shorten

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.reading.planning import ReadOptions
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.read.plan import ReadPlan, ReadSession

#: Maximum rows of a task that reads a BLOB column: a few seconds of work with 1 MB blobs.
BLOB_ROWS = 256
#: Minimum rows or requests of an additional task for an idle core. A task costs 16 ms, as much as
#: reading about 16,000 rows of six columns. The tunnel needs a request for each partition.
TASK_ROWS, TASK_REQUESTS = 100_000, 4
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


def cores_of(spark: SparkSession) -> int:
    """Return the number of tasks that a session runs at a time; 1 with Spark Connect."""
    return 1 if is_connect(spark) else spark.sparkContext.defaultParallelism


def open_session(storage: StorageClient, plan: ReadPlan, cores: int) -> ReadSession:
    """Open the read session of a plan, split for tasks; raises like `open_read_session`."""
    from odps_nb.client.reading import open_read_session

    blobs = [column for column in plan.schema or () if has_blob(column.type)]
    chosen = {name.casefold() for name in plan.columns}
    ranges = any(not chosen or column.name.casefold() in chosen for column in blobs)
    return cut_session(open_read_session(storage, replace(plan, row_ranges=ranges)), plan, cores)


def cut_session(session: ReadSession, plan: ReadPlan, cores: int) -> ReadSession:
    """Divide the splits of a session further for tasks, unless the plan sets their number or size.

    Each core gets a task of at least `TASK_ROWS` rows or `TASK_REQUESTS` requests, and tasks that
    read BLOBs are small: the service's size estimate counts the 36 bytes of a reference, not the
    blob.
    """
    from odps_nb.client.read.requests import Downloads
    from odps_nb.client.read.resume import rows_of
    from odps_nb.client.read.session import divided

    if plan.splits is not None or plan.split_bytes is not None or plan.increment is not None:
        return session
    rows = sum(rows_of(split) or 0 for split in session.splits)
    if any(has_blob(column.type) for column in session.schema):
        return divided(session, math.ceil(rows / BLOB_ROWS))
    requests = len(session.source.parts) if isinstance(session.source, Downloads) else 0
    return divided(session, min(cores, max(rows // TASK_ROWS, requests // TASK_REQUESTS)))


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
    parts = [f"{count} columns" if session.selects else f"all {count} columns"]
    if plan.schema is not None:
        parts = [f"{count} of {len(plan.schema)} columns"]
    if plan.partitions:
        parts.append(_short(" or ".join(map(str, plan.partitions))))
    if plan.where:
        parts.append(f"where {_short(' '.join(plan.where.split()))}")
    elif plan.condition is not None:
        parts.append(f"where {_short(text_of(plan.condition))}")
    if session.limit is not None:
        parts.append(f"limit {session.limit}")
    parts.append(f"session {session.session_id}")
    return visible(f"odps {session.table} [{'; '.join(parts)}]")


def _short(text: str) -> str:
    return shorten(text, _SHOWN)
