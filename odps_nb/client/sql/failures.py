"""The errors of queries: their classes, hints, and the line of the query that they concern."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from odps_nb.client.sql.suggestions import suggest_names
from odps_nb.errors import ConflictError, NotFoundError, ServiceError
from odps_nb.wire.control import TaskResult, query_error

if TYPE_CHECKING:
    from odps_nb.client.calls.storage import StorageClient

_MISSING = {"NoSuchProject", "NoSuchTable", "NoSuchPartition", "NoSuchObject"}
# Error texts of queries that projects refuse by default, and hints on how to allow these queries
# (``docs/protocol.md`` 8.6).
_REFUSED = {
    "is full scan with all partitions": "select partitions in the condition, or write "
    "set odps.sql.allow.fullscan=true; above the query",
    "ORDER BY must be used with a LIMIT": "add a limit, or write "
    "set odps.sql.validate.orderby.limit=false; above the query",
}
_NO_PARTITION = re.compile("partition.*(?:does not exist|not found|not exist)", re.IGNORECASE)


def failure_of(
    storage: StorageClient, task: TaskResult, instance_id: str, sql: str
) -> ServiceError:
    """Return the error of a failed task; sends requests for similar names if one is unknown."""
    error: ServiceError = query_error(task)
    if error.code in _MISSING:  # use the error class that REST requests raise
        error = NotFoundError(error.message, code=error.code, hint=error.hint, status=error.status)
    elif _NO_PARTITION.search(error.message):  # the service has no code for this error
        error = NotFoundError(
            error.message,
            code="NoSuchPartition",
            hint="check the partition; table.partitions() lists those that exist",
        )
    elif "already exist" in error.message:  # the service has no code for this error
        of_table = "partition already exist" not in error.message.lower()
        error = ConflictError(
            error.message,
            code="TableAlreadyExists" if of_table else "ObjectAlreadyExists",
            hint="drop it first, or pass if_not_exists",
        )
    for said, hint in _REFUSED.items():
        if said in error.message:
            error.hint = hint
    error.excerpt = excerpt(sql, error.message)
    suggest_names(storage, sql, error)
    error.add_note(f"instance {instance_id}")
    storage.redact(error)
    return error


_MOST = 100  # maximum characters of the displayed line
_PLACE = re.compile(r"ODPS-\d{7}:\s*\[(\d{1,6}),(\d{1,6})\]")


def excerpt(sql: str, message: str) -> str | None:
    """Return the query line of an error, with a caret below the error's position, or ``None``.

    The service counts lines and columns from 1; ``[1,1]`` means that the position is unknown.

    Examples
    --------
    >>> print(excerpt("select id frm orders", "ODPS-0130161:[1,11] Parse exception"))
      select id frm orders
                ^
    """
    match = _PLACE.search(message)
    if match is None or match.groups() == ("1", "1"):
        return None
    line, column = (int(part) - 1 for part in match.groups())
    lines = sql.strip().split("\n")
    if not 0 <= line < len(lines) or not 0 <= column <= len(lines[line]):
        return None
    start = max(0, column - _MOST * 3 // 4)
    shown = "".join(c if c.isprintable() else " " for c in lines[line][start : start + _MOST])
    return f"  {shown.rstrip()}\n  {' ' * (column - start)}^"
