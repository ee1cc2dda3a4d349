"""What a DataFrame will read, checked against the table before anything is opened."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from odps_nb.schema import has_blob
from odps_nb.terms import TableName, TimeUnit

if TYPE_CHECKING:
    from odps_nb.access.reading.planning import ReadOptions
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.read.splits import ReadPlan, ReadSession

__all__ = ["cut_session", "open_session", "plan_of"]

#: Rows of a task at most that reads a BLOB column: at 1 MB a blob, some seconds of work.
BLOB_ROWS = 256


def plan_of(storage: StorageClient, table: TableName, options: ReadOptions) -> ReadPlan:
    """Return the plan, as `odps_nb.access.reading.planning.plan_read` makes it of the same options.

    One request for the table's schema, where names must be checked.

    Raises
    ------
    NotFoundError
        No such table or column; close names are in the hint.
    ArgumentError
        An argument that makes no sense.
    """
    from odps_nb.access.reading.planning import plan_read
    from odps_nb.client.catalog import fetch_table

    return plan_read(
        table,
        lambda: fetch_table(storage, table).schema,
        replace(options, timestamp_unit=TimeUnit.MICRO),  # Spark has no other
        storage,
        timezone=storage.profile.timezone or "UTC",
    )


def open_session(storage: StorageClient, plan: ReadPlan) -> ReadSession:
    """Open the read session of a plan, cut for tasks; errors as of `open_read_session`."""
    from odps_nb.client.read.session import open_read_session

    blobs = [column for column in plan.schema or () if has_blob(column.type)]
    chosen = {name.casefold() for name in plan.columns}
    ranges = any(not chosen or column.name.casefold() in chosen for column in blobs)
    return cut_session(open_read_session(storage, replace(plan, row_ranges=ranges)), plan)


def cut_session(session: ReadSession, plan: ReadPlan) -> ReadSession:
    """Return the session cut into tasks of few rows where it reads blobs and nobody said how."""
    from odps_nb.client.read.session import cut_for_blobs

    free = plan.splits is None and plan.split_bytes is None and plan.increment is None
    return cut_for_blobs(session, BLOB_ROWS) if free else session
