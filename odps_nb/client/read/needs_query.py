"""Recognises tables that a transfer service cannot read: views, external tables, JSON columns.

The vendor's page *Overview of Open Storage* excludes all three from the Storage API. The tunnel
reads JSON columns, but refuses views with ``MethodNotAllowed`` (vendor's page of tunnel errors).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from odps_nb.client.catalog import json_columns
from odps_nb.errors import OdpsNbError
from odps_nb.wire.control import GetTable, TableInfo

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient
    from odps_nb.client.read.plan import ReadPlan


@dataclass
class NeedsQuery(Exception):
    """Raised inside this package if only a query can read the rows; ``why`` names the object."""

    info: TableInfo
    why: str


def require_no_query(storage: StorageClient, plan: ReadPlan, error: OdpsNbError) -> None:
    """Raise `NeedsQuery` if only a query can read the refused table; sends one request."""
    try:
        info = storage.control(GetTable(table=plan.table))
    except OdpsNbError:  # the caller raises the original error
        return
    check_readable(plan, info, json=True)


def check_readable(plan: ReadPlan, info: TableInfo, *, json: bool) -> None:
    """Raise `NeedsQuery` if only a query can read the table, or with ``json``, a JSON column."""
    if info.kind:
        raise NeedsQuery(info, f"{plan.table} is {info.kind}")
    names = json_columns(info.schema, plan.columns) if json else []
    if names:
        raise NeedsQuery(info, f"{plan.table} has the JSON column {names[0]!r}")
