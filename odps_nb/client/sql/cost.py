"""Asks the service what a query would cost, without running it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odps_nb.client.catalog import control_call
from odps_nb.client.sql.query import stop_quietly, submit_sql, wait_sql
from odps_nb.errors import FramingError, ServiceError
from odps_nb.wire.control import COST_TASK, GetInstanceResult, SqlCost

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient

__all__ = ["estimate_sql"]


def estimate_sql(
    storage: StorageClient, sql: str, *, settings: Mapping[str, str] | None = None
) -> SqlCost:
    """Return the service's estimate for a query; leaving the wait early stops it.

    Raises
    ------
    QueryError
        The service cannot estimate it, in its own words.
    """
    instance = submit_sql(storage, sql, name=COST_TASK, settings=settings, estimates=True)
    try:
        wait_sql(storage, instance, cancel=storage.operation())
    except ServiceError:
        raise
    except BaseException:
        stop_quietly(storage, instance)
        raise
    wanted = GetInstanceResult(project=instance.project, instance_id=instance.instance_id)
    tasks = control_call(storage, wanted).tasks
    if not tasks:
        raise FramingError("the estimate of a query has no result")
    return SqlCost.decode(tasks[0].text)
