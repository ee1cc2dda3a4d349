"""Estimates the cost of queries, and refuses queries above a limit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from odps_nb.client.sql.failures import tables_in
from odps_nb.client.sql.query import stop_quietly, submit_sql, wait_sql
from odps_nb.errors import FramingError, LimitExceededError, ServiceError
from odps_nb.terms import format_bytes
from odps_nb.wire.control import COST_TASK, GetInstanceResult, SqlCost

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient

_READS = re.compile(r"\b(select|from|update|merge)\b", re.IGNORECASE)


def estimate_sql(
    storage: StorageClient, sql: str, *, settings: Mapping[str, str] | None = None
) -> SqlCost:
    """Return the service's cost estimate for a query; cancel the estimation job if interrupted."""
    instance = submit_sql(storage, sql, name=COST_TASK, settings=settings, estimates=True)
    try:
        wait_sql(storage, instance, cancel=storage.operation())
    except ServiceError:
        raise
    except BaseException:
        stop_quietly(storage, instance)
        raise
    request = GetInstanceResult(project=instance.project, instance_id=instance.instance_id)
    tasks = storage.control(request).tasks
    if not tasks:
        raise FramingError("the service returned no estimate for the query")
    return SqlCost.decode(tasks[0].text)


def check_cost(
    storage: StorageClient, sql: str, most: int, *, settings: Mapping[str, str] | None = None
) -> None:
    """Raise `LimitExceededError` if a query is estimated to read more than ``most`` bytes.

    The query is also refused if the service returns no estimate. A statement that reads no table,
    such as DROP TABLE, is not estimated.
    """
    if not _READS.search(sql):
        return
    size = estimate_sql(storage, sql, settings=settings).input_bytes
    if size is not None and size <= most:
        return
    reads = "is not known" if size is None else f"is {format_bytes(size)}"
    keys = {
        info.name.table: ", ".join(column.name for column in info.schema.partition_columns)
        for info in tables_in(storage, sql)
    }
    by = " and ".join(f"{table} is partitioned by {key}" for table, key in keys.items() if key)
    raise LimitExceededError(
        f"the query was not run: the estimated size of its input {reads}, and max_bytes is "
        f"{format_bytes(most)}",
        limit=most,
        actual=size,
        hint="select fewer partitions or columns" + f" ({by})" * bool(by) + ", or pass a larger "
        "max_bytes",
    )
