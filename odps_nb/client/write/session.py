"""Transactional write sessions (``docs/protocol.md`` sections 3.5 to 3.10 and 7).

Leaving a session without a commit aborts it. If the response to a commit is lost, the session's
status is fetched.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.catalog import explain_refused_table
from odps_nb.client.write.operations import DEFAULT_PART_BYTES, StreamReceipt, WriteSessionRef
from odps_nb.client.write.stream import WriteStream
from odps_nb.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    OdpsNbError,
    ProtocolError,
    ServerFaultError,
    SessionExpiredError,
    StateError,
    TransportError,
)
from odps_nb.http.retry import RetryPolicy, may_have_been_done
from odps_nb.lifetime import Home, renew_after_fork
from odps_nb.terms import PartitionSpec, SessionStatus, TableName
from odps_nb.wire.calls import (
    AbortWriteSession,
    CommitWriteSession,
    CreateWriteSession,
    GetWriteSchema,
    GetWriteSession,
    WriteSessionStateAnswer,
)
from odps_nb.wire.schema_json import WriteSchema

# An abort must not delay a user after Ctrl-C, so it is limited to two attempts, about ten seconds
# in total.
_ABORT_RETRY = RetryPolicy(max_attempts=2, connect_attempts=1, deadline=8.0)
_ABORT_TIMEOUT = 5.0

_log = logging.getLogger("odps_nb")


def open_write_session(
    storage: StorageClient,
    table: TableName,
    *,
    partition: PartitionSpec = PartitionSpec(),  # noqa: B008  a frozen value
    overwrite: bool = False,
    part_bytes: int = DEFAULT_PART_BYTES,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> WriteSession:
    """Begin a transaction; the context manager aborts it unless it was committed.

    Partition keys that are not in ``partition`` must be columns of the rows. With ``overwrite``,
    the commit replaces the rows of the table, of the partitions under ``partition``, or of the
    partitions that received rows. ``part_bytes`` is the size of one upload; each stream keeps one
    upload in memory.
    """
    if tracker is not None:
        tracker.phase(Phase.CREATING)
    request = CreateWriteSession(table=table, partition=partition, overwrite=overwrite)
    try:
        answer = storage.call(request, tracker=tracker, cancel=cancel)
    except InvalidRequestError as error:
        explain_refused_table(storage, table, error, writes=True)
        raise
    if answer.warning:
        _log.warning("write session of %s: %s", table, answer.warning)
    if tracker is not None:
        tracker.plan(session_id=answer.session_id)
    ref = WriteSessionRef(
        table=table,
        session_id=answer.session_id,
        partition=partition,
        route_token=answer.route_token,
    )
    return WriteSession(storage, ref, part_bytes=part_bytes, tracker=tracker, cancel=cancel)


class WriteSession:
    """A transaction on a table. Several threads may open and write streams.

    ``owned``: false for a session that another process opened; only `abort` aborts such a session.
    """

    def __init__(
        self,
        storage: StorageClient,
        ref: WriteSessionRef,
        *,
        part_bytes: int = DEFAULT_PART_BYTES,
        tracker: ProgressTracker | None = None,
        cancel: CancelToken | None = None,
        owned: bool = True,
    ) -> None:
        self._storage = storage
        self.ref: WriteSessionRef = ref
        self.session_id: str = ref.session_id
        self.owned: bool = owned
        self._part_bytes, self._tracker, self._cancel = part_bytes, tracker, cancel
        self._lock = threading.Lock()
        self._streams: dict[str, WriteStream] = {}
        self._schema: WriteSchema | None = None
        self._over: str | None = None  # "committed" or "aborted"
        self._commit_was_tried = False
        self._home = Home()
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Create a new lock, because another thread may have held the old one at the fork."""
        self._lock = threading.Lock()

    @property
    def is_over(self) -> bool:
        """Whether this object has committed or aborted the session."""
        return self._over is not None

    @property
    def cancel(self) -> CancelToken:
        """The token that cancels the session's requests."""
        return self._cancel or CancelToken()

    @property
    def write_schema(self) -> WriteSchema:
        """The columns that rows must have; fetched once if no stream has provided them."""
        if self._schema is None:
            self._require_open()
            ref = self.ref
            request = GetWriteSchema(
                table=ref.table, session_id=ref.session_id, route_token=ref.route_token
            )
            answer = self._storage.call(request, tracker=self._tracker, cancel=self._cancel)
            self._schema = answer.schema
        return self._schema

    @property
    def streams(self) -> tuple[WriteStream, ...]:
        """The streams that this object opened, in the order in which their ids were first used."""
        with self._lock:
            return tuple(self._streams.values())

    def open_stream(
        self, stream_id: str = "0", version: int = 1, *, resume: bool = False
    ) -> WriteStream:
        """Open or resume a stream; see `WriteStream`."""
        self._require_open()
        self._storage.end_before_closing(self)
        stream = WriteStream(
            self._storage,
            self.ref,
            stream_id,
            version,
            part_bytes=self._part_bytes,
            tracker=self._tracker,
            cancel=self._cancel,
        )
        stream = stream.resume() if resume else stream.start()
        with self._lock:
            self._streams[stream_id] = stream
            self._schema = self._schema or stream.schema
        return stream

    def commit(self, streams: Iterable[StreamReceipt | tuple[str, int]] | None = None) -> None:
        """Make the rows of exactly these streams visible. Default: all streams of this object.

        The error is ``in_doubt`` if no response arrives and the outcome cannot be determined.
        """
        self._require_open()
        if streams is None:
            opened = self.streams
            for stream in opened:
                if not stream.closed:
                    raise StateError(
                        f"{stream.label} is still open", hint="close every stream before the commit"
                    )
            streams = [stream.close() for stream in opened]
        self._commit_was_tried = True
        try:
            commit_write(
                self._storage, self.ref, streams, tracker=self._tracker, cancel=self._cancel
            )
        except OdpsNbError as error:
            if not error.in_doubt or not self.owned or not self._is_done_after_all(error):
                raise
        self._over = "committed"

    def _is_done_after_all(self, error: OdpsNbError) -> bool:
        """Determine a commit's outcome: try to abort the session, then fetch its status.

        If the abort arrives first, the commit fails. If the commit arrives first, the abort fails.
        """
        try:
            abort_write(self._storage, self.ref)
        except ConflictError as second:
            _log.debug("%s is over: %s", self, second)
        except OdpsNbError as second:
            error.add_note(f"the session could not be aborted: {second}")
            return False
        try:
            status = fetch_write_status(self._storage, self.ref, tracker=self._tracker)
        except OdpsNbError:  # the caller raises the commit's error
            return False
        if status == SessionStatus.COMMITTED.value:
            return True
        if status:
            error.in_doubt, self._over = False, "aborted"
            error.add_note("the write was aborted; none of its rows are in the table")
        return False

    def abort(self) -> None:
        """Discard all rows of the session. Idempotent; no effect after a commit."""
        if self._over is None and self._home.is_here:
            self._over = "aborted"
            abort_write(self._storage, self.ref)

    def end(self) -> None:
        """Abort the session unless a commit was attempted."""
        if not self._commit_was_tried:
            self._leave(None)

    def __enter__(self) -> WriteSession:
        self._storage.end_before_closing(self)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self._leave(error)

    def _leave(self, error: BaseException | None) -> None:
        if self._over is not None or not self.owned or not self._home.is_here:
            return
        line = "the write was aborted; none of its rows are in the table"
        try:
            self.abort()
        except OdpsNbError as second:
            line = f"the session could not be aborted and will expire: {second}"
            if isinstance(second, ConflictError):
                line = f"the session had ended before it could be aborted: {second}"
            _log.warning("write session %s: %s", self.session_id, line)
        if isinstance(error, OdpsNbError):
            error.add_note(line)

    def __repr__(self) -> str:
        return f"<WriteSession {self.ref.table} {self.session_id} {self._over or 'open'}>"

    def _require_open(self) -> None:
        self._home.require("this write")
        if self._over is not None:
            raise StateError(f"the write session is {self._over}", hint="open another session")


def named_streams(
    storage: StorageClient,
    session: WriteSessionRef,
    streams: Iterable[StreamReceipt | tuple[str, int]],
) -> tuple[tuple[str, int], ...]:
    """Return the ids and versions of the streams to name in a commit.

    If there are no streams, an empty one is written. A commit without names would include all
    streams of the session, even those of failed or late writers.
    """
    pairs = tuple(
        (one.stream_id, one.version) if isinstance(one, StreamReceipt) else one for one in streams
    )
    if pairs:
        return pairs
    empty = WriteStream(storage, session, "empty").start().close()
    return ((empty.stream_id, empty.version),)


def commit_write(
    storage: StorageClient,
    session: WriteSessionRef,
    streams: Iterable[StreamReceipt | tuple[str, int]] = (),
    *,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> None:
    """Commit exactly these streams of a session, from any process; see `WriteSession.commit`."""
    if tracker is not None:
        tracker.phase(Phase.COMMITTING)
    pairs = named_streams(storage, session, streams)
    request = CommitWriteSession(
        table=session.table,
        session_id=session.session_id,
        streams=pairs,
        route_token=session.route_token,
    )
    attempts = storage.attempts(
        f"commit of {session.table}, session {session.session_id}", tracker=tracker, cancel=cancel
    )
    if cancel is not None:
        cancel.check()  # last check, because the commit below cannot be undone
    in_doubt = False
    while True:
        try:
            timeout = storage.options.work_timeout
            storage.call(request, tracker=tracker, read_timeout=timeout, patient=True)
            return
        except (TransportError, ServerFaultError, ProtocolError) as error:
            in_doubt = in_doubt or may_have_been_done(error)
            if in_doubt and _is_committed(storage, session, error, tracker):
                return
            error.in_doubt = in_doubt  # set first, because `again` may raise this error
            # It is safe to commit again (``docs/protocol.md`` section 3.7).
            attempts.again(error, idempotent=True)
        except (ConflictError, NotFoundError, SessionExpiredError) as error:
            if in_doubt and _is_committed(storage, session, error, tracker):
                return
            error.in_doubt = in_doubt
            if in_doubt:
                error.add_note(
                    "an earlier attempt received no response; check the rows of the table"
                )
            raise


def _is_committed(
    storage: StorageClient,
    session: WriteSessionRef,
    error: OdpsNbError,
    tracker: ProgressTracker | None,
) -> bool:
    """Return whether a commit whose response was lost has succeeded; sends one request."""
    try:
        status = fetch_write_status(storage, session, tracker=tracker)
    except OdpsNbError as second:
        error.in_doubt = True
        error.add_note(f"the outcome of the commit is unknown; its status cannot be read: {second}")
        raise error from second
    if status != SessionStatus.COMMITTED.value:
        return False
    if tracker is not None:
        what = "the response to the commit was lost, but the session is committed"
        tracker.noted(what, retries=1)
    return True


def fetch_write_status(
    storage: StorageClient, session: WriteSessionRef, *, tracker: ProgressTracker | None = None
) -> str:
    """Return a session's status in capitals; empty if the service does not report it."""
    return (fetch_write_state(storage, session, tracker=tracker).status or "").upper()


def fetch_write_state(
    storage: StorageClient, session: WriteSessionRef, *, tracker: ProgressTracker | None = None
) -> WriteSessionStateAnswer:
    """Return a session's closed streams, and its status if the service reports it."""
    request = GetWriteSession(table=session.table, session_id=session.session_id)
    return storage.call(request, tracker=tracker)


def abort_write(storage: StorageClient, session: WriteSessionRef) -> None:
    """Abort a session, from any process; do nothing if it no longer exists."""
    request = AbortWriteSession(
        table=session.table, session_id=session.session_id, route_token=session.route_token
    )
    try:
        timeout = min(_ABORT_TIMEOUT, storage.options.read_timeout)
        storage.call(request, retry=_ABORT_RETRY, read_timeout=timeout)
    except (NotFoundError, SessionExpiredError) as error:
        _log.debug("nothing to abort: %s", error)
