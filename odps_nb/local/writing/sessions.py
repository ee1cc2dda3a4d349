"""Write sessions: streams, parts, commit and abort (``docs/protocol.md`` section 7).

A part is a file with the rows of an upload, listed in the catalog but invisible to readers. A
commit makes parts visible in one transaction.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from odps_nb.local import errors
from odps_nb.local.store.blobs import BlobStore
from odps_nb.local.store.catalog import Catalog
from odps_nb.local.store.database import Database
from odps_nb.local.store.folder import DataFolder, new_id
from odps_nb.local.store.ledger import Ledger
from odps_nb.local.store.snapshots import Addition
from odps_nb.local.store.tables import StoredTable, check_values
from odps_nb.local.writing.ingest import Ingest
from odps_nb.local.writing.streams import (
    StoredWriteSession,
    Stream,
    Streams,
    natural_order,
    staging_text,
)
from odps_nb.local.writing.upserts import Publisher
from odps_nb.terms import PartitionSpec, TableName, WriteMode

LIFETIME = 24 * 3600.0
OPEN, COMMITTED, ABORTED = "NORMAL", "COMMITTED", "ABORTED"
DEFAULT_ID = "default"
_SET_STATUS = "UPDATE write_sessions SET status = ? WHERE session_id = ?"


class WriteSessions:
    """The write sessions of the service: create, write, commit, abort."""

    def __init__(
        self,
        database: Database,
        catalog: Catalog,
        publisher: Publisher,
        blobs: BlobStore,
        folder: DataFolder,
        clock: Callable[[], float],
    ) -> None:
        self._db, self._catalog = database, catalog
        self._blobs, self._folder, self._clock = blobs, folder, clock
        self._ledger, self._publisher = Ledger(database, folder), publisher
        self.streams = Streams(database, self._ledger)

    # -- sessions -----------------------------------------------------------------------------

    def create(
        self, name: TableName, spec: PartitionSpec, *, overwrite: bool, mode: WriteMode
    ) -> StoredWriteSession:
        """Create a session on a table, or on the partitions that ``spec`` covers."""
        table = self._catalog.stored_table(name, writes=True)
        spec = check_values(table, table.spec(spec))
        session_id = new_id()
        self._insert(session_id, table, spec, overwrite=overwrite, mode=mode)
        return self.get(name, session_id)

    def get(self, name: TableName, session_id: str) -> StoredWriteSession:
        """Return a session of a table, or raise 404 if it is unknown or expired.

        The session ``default`` always exists, for streaming writers that create no session.
        """
        table = self._catalog.stored_table(name, writes=True)
        key = session_id
        if session_id == DEFAULT_ID:
            key = f"{DEFAULT_ID}-{table.table_id}"
            if self._db.row("SELECT 1 FROM write_sessions WHERE session_id = ?", key) is None:
                mode = WriteMode.STREAMING
                self._insert(key, table, PartitionSpec(), overwrite=False, mode=mode)
        row = self._db.row("SELECT * FROM write_sessions WHERE session_id = ?", key)
        if row is None or row["table_id"] != table.table_id:
            raise errors.no_such_session(session_id)
        if row["status"] == OPEN and row["expires"] <= self._clock() and session_id != DEFAULT_ID:
            raise errors.expired(session_id)
        return StoredWriteSession(
            session_id=key,
            table=table,
            spec=PartitionSpec(tuple((k, v) for k, v in json.loads(row["spec"]))),
            overwrite=bool(row["overwrite"]),
            mode=WriteMode(row["mode"]),
            status=row["status"],
            expires=row["expires"],
        )

    def commit(
        self,
        session: StoredWriteSession,
        chosen: Sequence[tuple[str, int]] | None = None,
    ) -> None:
        """Make rows visible. Idempotent; raises for an aborted session.

        ``chosen`` lists (stream id, version) pairs, at most one version of each stream; a repeated
        pair counts once. The default is all closed streams. Rows of open
        streams are silently dropped, as in the real service (live tests of the C++ client:
        TestTableWriteMultiStreamsWithSpecialState).
        """
        with self._db.transaction() as db:
            session = self.get(session.table.name, session.session_id)
            if session.status == COMMITTED or session.is_streaming:
                return
            self._require_open(session)
            streams = self.streams.closed(session)
            if chosen is not None:
                distinct = dict.fromkeys(chosen)
                if len({stream_id for stream_id, _ in distinct}) < len(distinct):
                    raise errors.invalid("the commit names two versions of one stream")
                named = (self.streams.stream(session, *pair) for pair in distinct)
                streams = sorted(named, key=lambda stream: natural_order(stream.stream_id))
            additions = [a for s in streams for a in self.streams.parts(session, s)]
            self._publish(session, additions)
            self.streams.drop_parts(session.session_id, [a.file.name for a in additions])
            db.execute(_SET_STATUS, (COMMITTED, session.session_id))

    def abort(self, session: StoredWriteSession) -> None:
        """Drop a session that is not streaming, and its rows. Idempotent; raises after a commit."""
        with self._db.transaction() as db:
            session = self.get(session.table.name, session.session_id)
            if session.status == COMMITTED:
                raise errors.invalid_state(f"the session {session.session_id!r} is committed")
            if session.is_streaming:
                return
            self.streams.drop_parts(session.session_id)
            db.execute(_SET_STATUS, (ABORTED, session.session_id))

    def end_streaming(self, session: StoredWriteSession) -> None:
        """Reject further rows of a streaming session; its rows stay visible. Idempotent."""
        self._db.run(_SET_STATUS, ABORTED, session.session_id)

    def abort_expired(self) -> None:
        """Abort open sessions that have expired."""
        for row in self._db.rows(
            "SELECT session_id FROM write_sessions WHERE status = ? AND expires <= ?"
            " AND mode NOT IN (?, ?)",
            OPEN,
            self._clock(),
            WriteMode.STREAMING.value,
            WriteMode.STREAMING_REALTIME.value,
        ):
            with self._db.transaction() as db:
                self.streams.drop_parts(row["session_id"])
                db.execute(_SET_STATUS, (ABORTED, row["session_id"]))

    # -- streams ------------------------------------------------------------------------------

    def open_stream(
        self,
        session: StoredWriteSession,
        stream_id: str,
        version: int,
        *,
        exactly_once: bool = False,
        appends: bool = False,
    ) -> Stream:
        """Open a stream. A newer version replaces an older one; an older version raises 409.

        If the version exists, its rows are dropped, because a client repeats a failed write this
        way. With ``exactly_once`` or ``appends``, or if the rows are already visible, they stay.
        """
        with self._db.transaction() as db:
            self._require_open(session)
            newest = self.streams.newest(session, stream_id)
            if newest is not None and version < newest.version:
                raise errors.invalid_state(
                    f"the stream {stream_id!r} is already at version {newest.version}"
                )
            token = secrets.token_urlsafe(16) if exactly_once else ""
            if newest is None or version > newest.version:
                db.execute(
                    "INSERT INTO streams VALUES (?, ?, ?, 'open', ?, 0, 0, 0)",
                    (session.session_id, stream_id, version, token),
                )
            elif exactly_once:
                self.streams.set_token(session, newest, token)
            elif not (appends or session.is_streaming):
                self.streams.restart(session, newest)
            return self.streams.stream(session, stream_id, version)

    def renewed_stream(self, session: StoredWriteSession, stream_id: str, version: int) -> Stream:
        """Return an exactly-once stream with a new access token. The old token becomes invalid."""
        stream = self.streams.stream(session, stream_id, version)
        self.streams.set_token(session, stream, secrets.token_urlsafe(16))
        return self.streams.stream(session, stream_id, version)

    def close_stream(self, session: StoredWriteSession, stream_id: str, version: int) -> None:
        """Mark a stream as complete. Idempotent."""
        stream = self.streams.stream(session, stream_id, version)
        if session.status == ABORTED:
            raise errors.invalid_state(f"the session {session.session_id!r} is aborted")
        self._db.run(
            "UPDATE streams SET state = 'closed' WHERE session_id = ? AND stream_id = ?"
            " AND version = ?",
            session.session_id,
            stream_id,
            stream.version,
        )

    # -- rows ---------------------------------------------------------------------------------

    def write_whole(
        self, session: StoredWriteSession, stream_id: str, batches: Iterable[pa.RecordBatch]
    ) -> int:
        """Write and close a new version of a stream in one call; return the version."""
        with self._db.transaction():
            newest = self.streams.newest(session, stream_id)
            version = 1 if newest is None else newest.version + 1
            stream = self.open_stream(session, stream_id, version)
        self.write(session, stream, batches)
        self.close_stream(session, stream_id, version)
        return version

    def write(
        self,
        session: StoredWriteSession,
        stream: Stream,
        batches: Iterable[pa.RecordBatch],
        *,
        row_offset: int | None = None,
        token: str | None = None,
        partial: bool = False,
    ) -> tuple[Stream, str]:
        """Add the rows of one upload to a stream; return the stream and an opaque staging id.

        An exactly-once stream ignores rows that are already stored. A gap raises `ConflictError`.
        With ``partial``, rows may set only some columns (see `partial`).
        """
        self._check_writable(session, stream)
        if row_offset is not None:
            if not stream.token:
                raise errors.invalid("the stream was not created for exactly-once writes")
            if not hmac.compare_digest(stream.token.encode(), (token or "").encode()):
                raise errors.forbidden("the access token of the stream is not the latest one")
            if row_offset > stream.next_row:
                raise errors.offset_conflict(stream.next_row, row_offset)
        arguments = (self._folder, session.table, session.spec, self._blobs)
        with Ingest(*arguments, exact=True, partial=partial) as ingest:
            for batch in batches:
                ingest.write(batch)
            additions = ingest.finish()
        try:
            return self._land(session, stream, additions, ingest.rows, row_offset)
        except BaseException:
            self._ledger.give_up([a.file.file_name for a in additions])
            raise

    def _land(
        self,
        session: StoredWriteSession,
        stream: Stream,
        additions: list[Addition],
        rows: int,
        row_offset: int | None,
    ) -> tuple[Stream, str]:
        with self._db.transaction() as db:
            session = self.get(session.table.name, session.session_id)
            stream = self.streams.stream(session, stream.stream_id, stream.version)
            self._check_writable(session, stream)
            if row_offset is not None and row_offset != stream.next_row:
                # the request is a retry, or a concurrent upload of the same rows finished first
                if row_offset + rows <= stream.next_row:
                    self._ledger.drop([a.file.file_name for a in additions])
                    return stream, ""
                raise errors.offset_conflict(stream.next_row, row_offset)
            if session.is_streaming or stream.stream_id == DEFAULT_ID:
                number = self._publisher.publish(session.table, additions)
            else:
                number = self.streams.add_parts(session, stream, additions)
            size = sum(a.file.raw_bytes for a in additions)
            key = (session.session_id, stream.stream_id, stream.version)
            db.execute(
                "UPDATE streams SET next_row = next_row + ?, rows = rows + ?, bytes = bytes + ?"
                " WHERE session_id = ? AND stream_id = ? AND version = ?",
                (rows, rows, size, *key),
            )
            stream = self.streams.stream(session, stream.stream_id, stream.version)
        return stream, staging_text(number)

    def _publish(self, session: StoredWriteSession, additions: list[Addition]) -> None:
        table, spec = session.table, session.spec
        whole = len(spec) == len(table.partition_keys)
        replace: list[PartitionSpec] | None = None
        if session.overwrite:
            dynamic = table.is_partitioned and not whole
            replace = list({a.spec: None for a in additions}) if dynamic else [spec]
        if table.is_partitioned and whole:
            self._catalog.ensure_partition(table, spec)
        if additions or replace:
            self._publisher.publish(table, additions, replace=replace)

    # -- rules --------------------------------------------------------------------------------

    def _require_open(self, session: StoredWriteSession) -> None:
        if session.status != OPEN:
            raise errors.invalid_state(
                f"the session {session.session_id!r} is {session.status.lower()}"
            )

    def _check_writable(self, session: StoredWriteSession, stream: Stream) -> None:
        self._require_open(session)
        newest = self.streams.newest(session, stream.stream_id)
        if newest is not None and newest.version > stream.version:
            raise errors.invalid_state(
                f"version {newest.version} of the stream {stream.stream_id!r} replaced this version"
            )
        if not stream.is_open and not session.is_streaming:
            raise errors.invalid_state(f"the stream {stream.stream_id!r} is closed")

    def _insert(
        self,
        session_id: str,
        table: StoredTable,
        spec: PartitionSpec,
        *,
        overwrite: bool,
        mode: WriteMode,
    ) -> None:
        now, items = self._clock(), json.dumps(spec.items, ensure_ascii=False)
        how = overwrite, mode.value, OPEN
        self._db.run(
            "INSERT OR IGNORE INTO write_sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            *(session_id, table.table_id, items, *how, now, now + LIFETIME),
        )
