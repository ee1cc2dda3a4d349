"""``df.writeStream.format("odps")``: writes each micro-batch into a table exactly once.

Each micro-batch has one write session. Tasks write the rows, the commit is recorded in the
checkpoint (`commit_log`), the service commits, and Spark records the batch. After a crash, a
recorded commit is repeated, which has no second effect (``docs/protocol.md`` section 3.7). Spark
creates two writers per micro-batch: one opens the session and is pickled for the tasks, and the
other commits.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from odps_nb.client.write.operations import WriteSessionRef
from odps_nb.client.write.session import (
    abort_write,
    commit_write,
    fetch_write_status,
    named_streams,
)
from odps_nb.errors import (
    ConfigError,
    ConflictError,
    NotFoundError,
    OdpsNbError,
    QueryError,
    SessionExpiredError,
    StateError,
)
from odps_nb.spark.source.commit_log import CommitLog, Intent
from odps_nb.spark.source.options import StreamWriteSettings
from odps_nb.spark.tasks.errors import task_errors
from odps_nb.spark.tasks.shipping import Shipped
from odps_nb.spark.writing.task import WriteTask, Written, check_or_abort, write_partition

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter

    from odps_nb.client.calls.storage import StorageClient

    TAKES_ARROW = True
else:
    try:
        from pyspark.sql.datasource import DataSourceStreamArrowWriter

        TAKES_ARROW = True
    except ImportError:  # before PySpark 4.1, a streaming sink receives rows, not batches
        from pyspark.sql.datasource import DataSourceStreamWriter as DataSourceStreamArrowWriter

        TAKES_ARROW = False

_ROWS = 10_000
_COMMITTED, _ABORTED = "COMMITTED", "ABORTED"


@dataclass(frozen=True)
class _Message(WriterCommitMessage):
    """The stream written by a successful attempt, and its session."""

    session: WriteSessionRef
    written: Written | None


class OdpsStreamWriter(Shipped, DataSourceStreamArrowWriter):
    """Writes and commits the micro-batches of one query."""

    def __init__(
        self, settings: StreamWriteSettings, schema: StructType, *, overwrite: bool
    ) -> None:
        self._settings, self._schema, self._overwrite = settings, schema, overwrite
        self._task: WriteTask | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Spark pickles the writer twice per micro-batch; the first time, the session is opened.
        if self._task is None:
            with task_errors(self._what):
                self._task = self._opened()
        return {"_task": self._task, "_schema": self._schema}

    def _opened(self) -> WriteTask:
        from odps_nb.client.calls.storage import StorageClient

        settings = self._settings.write
        self._log()  # fail before rows are sent if the checkpoint cannot be opened
        with StorageClient(settings.profile) as storage:
            return settings.open(storage, self._schema, overwrite=self._overwrite)[0]

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Write the rows of one attempt into a new stream; runs in a task."""
        if self._task is None:
            raise StateError("this writer was not created by a streaming query")
        batches = iterator if TAKES_ARROW else _batches(iterator, self._schema)
        return _Message(self._task.session, write_partition(self._task, batches))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the rows of a micro-batch, unless an earlier run has committed it."""
        from odps_nb.client.calls.storage import StorageClient

        with task_errors(f"{self._what}, micro-batch {batchId}"):
            own = [message for message in messages if isinstance(message, _Message)]
            if not own:
                return
            session, settings = own[0].session, self._settings.write
            written = [message.written for message in own if message.written]
            with StorageClient(settings.profile) as storage:
                check_or_abort(storage, session, written, settings.max_partitions)
                commit_batch(
                    storage, self._log(), batchId, session, written, replaces=self._overwrite
                )

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the session, unless it may be committed (Spark also calls this after a commit)."""
        from odps_nb.client.calls.storage import StorageClient

        own = [message for message in messages if isinstance(message, _Message)]
        if not own or len(own) == len(messages):
            return
        with (
            task_errors(f"{self._what}, abort of micro-batch {batchId}"),
            StorageClient(self._settings.write.profile) as storage,
        ):
            abort_write(storage, own[0].session)

    def _log(self) -> CommitLog:
        return CommitLog(self._settings.checkpoint)

    @property
    def _what(self) -> str:
        return f"stream into {self._settings.write.table}"


def commit_batch(
    storage: StorageClient,
    log: CommitLog,
    batch: int,
    session: WriteSessionRef,
    written: Sequence[Written],
    *,
    replaces: bool = False,
) -> None:
    """Commit a micro-batch exactly once, even if it is written several times.

    If an earlier run has committed it, the rows of this run are dropped. With ``replaces``, a
    micro-batch without rows empties the table.
    """
    earlier = log.find(batch)
    if earlier is not None and _finished(storage, log, batch, session, earlier):
        log.note_done(batch)
        if earlier.session != session.session_id:
            abort_write(storage, session)
        return
    if not written and not replaces:
        abort_write(storage, session)
        return
    streams = named_streams(storage, session, [one.stream for one in written])
    intent = Intent(table=str(session.table), session=session.session_id, streams=streams)
    try:
        log.note(batch, intent, instead_of=earlier)
    except StateError:
        abort_write(storage, session)
        raise
    commit_write(storage, session, streams)
    log.note_done(batch)


def _finished(
    storage: StorageClient, log: CommitLog, batch: int, session: WriteSessionRef, earlier: Intent
) -> bool:
    """Repeat the recorded commit; return whether its rows are committed."""
    if earlier.table != str(session.table):
        raise ConfigError(
            f"this checkpoint belongs to a stream that writes to {earlier.table}, not to "
            f"{session.table}",
            option="checkpointLocation",
            hint="use a separate checkpoint for each stream",
        )
    if log.is_done(batch):
        return True
    ref = dataclasses.replace(session, session_id=earlier.session, route_token=None)
    try:
        commit_write(storage, ref, earlier.streams)
    except QueryError as error:
        if not ref.kind.is_staged or error.in_doubt:
            raise
        abort_write(storage, ref)  # the statement has failed, so its rows are not in the table
        return False
    except (ConflictError, NotFoundError, SessionExpiredError) as error:
        status = _status(storage, ref)
        if status in (_COMMITTED, _ABORTED):
            return status == _COMMITTED
        raise StateError(
            f"micro-batch {batch} may already be in {session.table}: the service does not report "
            f"the outcome of the write session {earlier.session} ({error})",
            hint=f"check whether its rows are in the table. If so, create an empty file "
            f"{log.path(batch, 'done')}; if not, delete {log.path(batch)}. Then restart the "
            "query",
        ) from error
    return True


def _status(storage: StorageClient, session: WriteSessionRef) -> str:
    try:
        return fetch_write_status(storage, session)
    except OdpsNbError:  # the caller reports the commit's error instead
        return ""


def _batches(rows: Iterator[Any], schema: StructType) -> Iterable[pa.RecordBatch]:
    """Convert rows (as passed by older Spark versions) to Arrow batches."""
    from pyspark.sql.conversion import LocalDataToArrowConversion

    while some := list(itertools.islice(rows, _ROWS)):
        table = LocalDataToArrowConversion.convert(some, schema, use_large_var_types=False)
        yield from table.to_batches()
