"""Transactional write sessions of any service (``docs/protocol.md`` sections 3.5 to 3.10 and 7).

Leaving a session without a commit aborts it. If the response to a commit is lost, the session's
status is fetched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.catalog import explain_refused_write
from odps_nb.client.write.base import RowUploads, WriteSession
from odps_nb.client.write.blocks import commit_settled
from odps_nb.client.write.operations import (
    DEFAULT_PART_BYTES,
    NewSession,
    SessionKind,
    StreamReceipt,
    WriteSessionRef,
)
from odps_nb.client.write.stream import WriteStream
from odps_nb.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    OdpsNbError,
    SessionExpiredError,
    StateError,
)
from odps_nb.http.retry import RetryPolicy
from odps_nb.terms import PartitionSpec, SessionStatus, TableName, Transfer
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
    shared: bool = False,
    keyed: bool = False,
    only: frozenset[str] | None = None,
    part_bytes: int = DEFAULT_PART_BYTES,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> WriteSession:
    """Begin a transaction; the context manager aborts it unless it was committed.

    Partition keys that are not in ``partition`` must be columns of the rows. With ``overwrite``,
    the commit replaces the rows of the table, of the partitions under ``partition``, or of the
    partitions that received rows. ``part_bytes`` is the size of one upload; each stream keeps one
    upload in memory. See `NewSession` for ``shared``, ``keyed`` and ``only``. The first transfer
    service that the account has opens the session (`TransferChoice`).
    """
    from odps_nb.client.write.direct import open_blocks, open_upload
    from odps_nb.client.write.staging import open_staging

    if tracker is not None:
        tracker.phase(Phase.CREATING)
    new_session = NewSession(partition, overwrite, shared, keyed, only)
    more: dict[str, Any] = {"part_bytes": part_bytes, "tracker": tracker, "cancel": cancel}

    def by_tunnel() -> WriteSession:
        direct = None if keyed else open_upload(storage, table, new_session, **more)
        return direct or open_staging(storage, table, new_session, **more)

    ways: dict[Transfer, Callable[[], WriteSession]] = {Transfer.TUNNEL: by_tunnel}
    if only is None:  # the Storage API replaces whole rows
        ways[Transfer.STORAGE] = lambda: _open_storage(storage, table, new_session, **more)
    if not (shared or keyed):
        ways[Transfer.STORAGE_V1] = lambda: open_blocks(storage, table, new_session, **more)
    what = f"writing to {table}" if only is None else f"a partial upsert into {table}"
    session = storage.transfer.run(ways, what=what, table=table, tracker=tracker)
    if tracker is not None:
        tracker.plan(session_id=session.session_id)
    return session


def _open_storage(
    storage: StorageClient, table: TableName, new_session: NewSession, **more: Any
) -> WriteSession:
    tracker, cancel = more["tracker"], more["cancel"]
    request = CreateWriteSession(
        table=table, partition=new_session.partition, overwrite=new_session.overwrite
    )
    try:
        answer = storage.call(request, tracker=tracker, cancel=cancel)
    except InvalidRequestError as error:
        explain_refused_write(storage, table, error)
        raise
    if answer.warning:
        _log.warning("write session of %s: %s", table, answer.warning)
    ref = WriteSessionRef(
        table=table,
        session_id=answer.session_id,
        partition=new_session.partition,
        route_token=answer.route_token,
    )
    return StorageWriteSession(storage, ref, **more)


def resume_write_session(storage: StorageClient, ref: WriteSessionRef, **more: Any) -> WriteSession:
    """Return a session that another process opened; only `WriteSession.abort` aborts it."""
    from odps_nb.client.write.staging import StagedWriteSession

    kinds: dict[SessionKind, type[WriteSession]] = {SessionKind.STORAGE: StorageWriteSession}
    kind = StagedWriteSession if ref.kind.is_staged else kinds.get(ref.kind)
    if kind is None:
        raise _not_shared(ref)
    return kind(storage, ref, owned=False, **more)


def _not_shared(ref: WriteSessionRef) -> StateError:
    return StateError(
        f"the session {ref.session_id} can be used only by the object that opened it",
        hint="open the session with Table.open_write, whose sessions can be shared",
    )


def stream_of(
    storage: StorageClient, ref: WriteSessionRef, stream_id: str, version: int = 1, **more: Any
) -> RowUploads:
    """Return a stream, not yet started, of a session that several processes write to."""
    from odps_nb.client.write.staging import StagedStream

    kind = StagedStream if ref.kind.is_staged else WriteStream
    return kind(storage, ref, stream_id, version, **more)


class StorageWriteSession(WriteSession):
    """A write session of the Storage API."""

    def _fetch_schema(self) -> WriteSchema:
        ref = self.ref
        request = GetWriteSchema(
            table=ref.table, session_id=ref.session_id, route_token=ref.route_token
        )
        return self._storage.call(request, tracker=self._tracker, cancel=self._cancel).schema

    def _make_stream(self, stream_id: str, version: int, **more: Any) -> RowUploads:
        return WriteStream(self._storage, self.ref, stream_id, version, **more)

    def _commit(self, streams: Sequence[StreamReceipt | tuple[str, int]]) -> None:
        commit_write(self._storage, self.ref, streams, tracker=self._tracker, cancel=self._cancel)

    def _abort(self) -> None:
        abort_write(self._storage, self.ref)

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


def named_streams(
    storage: StorageClient,
    session: WriteSessionRef,
    streams: Iterable[StreamReceipt | tuple[str, int]],
) -> tuple[tuple[str, int], ...]:
    """Return the ids and versions of the streams to name in a commit.

    If there are no streams, an empty stream is written to a session of the Storage API, because a
    commit without names would include all streams of the session, even those of failed or late
    writers.
    """
    pairs = tuple(
        (stream.stream_id, stream.version) if isinstance(stream, StreamReceipt) else stream
        for stream in streams
    )
    if pairs or session.kind.is_staged:
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
    if session.kind.is_staged:
        from odps_nb.client.write.staging import commit_staged

        pairs = named_streams(storage, session, streams)
        commit_staged(storage, session, pairs, tracker=tracker, cancel=cancel)
        return
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

    def committed() -> bool:
        status = fetch_write_status(storage, session, tracker=tracker)
        return status == SessionStatus.COMMITTED.value

    def commit() -> bool:
        timeout = storage.options.work_timeout
        storage.call(request, tracker=tracker, read_timeout=timeout, patient=True)
        return True

    # a commit can be retried (``docs/protocol.md`` section 3.7)
    commit_settled(commit, committed, attempts)


def fetch_write_status(
    storage: StorageClient, session: WriteSessionRef, *, tracker: ProgressTracker | None = None
) -> str:
    """Return a session's status in capitals; empty if the service does not report it."""
    return (fetch_write_state(storage, session, tracker=tracker).status or "").upper()


def fetch_write_state(
    storage: StorageClient, session: WriteSessionRef, *, tracker: ProgressTracker | None = None
) -> WriteSessionStateAnswer:
    """Return a session's closed streams, and its status if the service reports it.

    For a staging table, no streams are listed, and the status is unknown once the table is gone.
    """
    if session.kind.is_staged:
        from odps_nb.client.write.staging import fetch_staged_state

        return fetch_staged_state(storage, session)
    if session.kind is not SessionKind.STORAGE:
        raise _not_shared(session)
    request = GetWriteSession(table=session.table, session_id=session.session_id)
    return storage.call(request, tracker=tracker)


def abort_write(storage: StorageClient, session: WriteSessionRef) -> None:
    """Abort a session, from any process; do nothing if it no longer exists."""
    if session.kind.is_staged:
        from odps_nb.client.write.staging import drop_staging

        drop_staging(storage, session)
        return
    request = AbortWriteSession(
        table=session.table, session_id=session.session_id, route_token=session.route_token
    )
    try:
        timeout = min(_ABORT_TIMEOUT, storage.options.read_timeout)
        storage.call(request, retry=_ABORT_RETRY, read_timeout=timeout)
    except (NotFoundError, SessionExpiredError) as error:
        _log.debug("nothing to abort: %s", error)
