"""Rows of a finished SQL instance over the Storage API (floor 3; ``protocol.md`` section 3.14).

A result is a snapshot with a known number of rows; a broken stream goes on at the row where it
broke. Knows no pandas.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odps_nb.client.cancel import CancelToken
from odps_nb.client.cursor import RowCursor
from odps_nb.client.progress import ProgressTracker
from odps_nb.client.query import FIRST_POLL, LAST_POLL, SqlInstance
from odps_nb.errors import InvalidRequestError, QueryError
from odps_nb.schema import TableSchema
from odps_nb.terms import Compression, SessionStatus
from odps_nb.wire.calls import (
    CreateInstanceReadSession,
    GetInstanceReadSession,
    InstanceSessionAnswer,
    ReadInstance,
)
from odps_nb.wire.control import SQL_TASK

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.client.storage import StorageClient

__all__ = ["ResultSession", "iter_result", "open_result"]

NO_ROWS = "InstanceTypeNotSupported"
"""Code of the service for an instance that is no query (known from the stock client)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSession:
    """The result of a query as the Storage API offers it; lives on the server for a day."""

    project: str
    instance_id: str
    session_id: str
    schema: TableSchema
    row_count: int
    task: str = SQL_TASK


def open_result(
    storage: StorageClient,
    instance: SqlInstance,
    *,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> ResultSession:
    """Open the rows of a query that has succeeded; waits while the service prepares them.

    A statement that has no rows by its nature, such as ``create table``, gives a result without
    columns.
    """
    try:
        answer = _ready(storage, instance, tracker, cancel or CancelToken())
    except InvalidRequestError as error:
        if error.code != NO_ROWS:
            raise
        answer = InstanceSessionAnswer(download_id="")
    if answer.status is not SessionStatus.NORMAL:
        raise QueryError(
            f"the result of instance {instance.instance_id} cannot be read: {answer.status.value}",
            hint="run the query again",
        )
    return ResultSession(
        project=instance.project,
        instance_id=instance.instance_id,
        session_id=answer.download_id,
        schema=answer.schema,
        row_count=answer.record_count or 0,
        task=instance.task,
    )


def _ready(
    storage: StorageClient,
    instance: SqlInstance,
    tracker: ProgressTracker | None,
    cancel: CancelToken,
) -> InstanceSessionAnswer:
    create = CreateInstanceReadSession(project=instance.project, instance_id=instance.instance_id)
    answer = storage.call(create, tracker=tracker, cancel=cancel)
    delay = FIRST_POLL
    while answer.status is SessionStatus.INIT:
        if cancel.wait(delay):
            cancel.check()
        delay = min(LAST_POLL, delay * 1.5)
        again = GetInstanceReadSession(
            project=instance.project,
            instance_id=instance.instance_id,
            session_id=answer.download_id,
        )
        answer = storage.call(again, tracker=tracker, cancel=cancel)
    return answer


def iter_result(
    storage: StorageClient,
    session: ResultSession,
    *,
    limit: int | None = None,
    compression: Compression = Compression.NONE,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows in order; a broken stream goes on at the row where it broke.

    Leaving the iterator early closes its connection.

    Raises
    ------
    TruncatedError
        The service sent fewer rows than it had announced.
    """
    total = session.row_count if limit is None else min(limit, session.row_count)

    def request_at(row: int) -> ReadInstance:
        return ReadInstance(
            project=session.project,
            instance_id=session.instance_id,
            session_id=session.session_id,
            offset=row,
            count=total - row,
            task_name=session.task,
            compression=compression,
        )

    what = f"the result of instance {session.instance_id}"
    cursor = RowCursor(
        storage, request_at, what=what, expected=total, tracker=tracker, cancel=cancel
    )
    return cursor.batches()
