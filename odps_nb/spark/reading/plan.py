"""What a DataFrame will read, checked against the table before anything is opened."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from odps_nb.terms import TableName, TimeUnit

if TYPE_CHECKING:
    from odps_nb.access.reading.options import ReadOptions
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.read.splits import ReadPlan

__all__ = ["plan_of"]


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
        timezone=storage.profile.timezone or "UTC",
    )
