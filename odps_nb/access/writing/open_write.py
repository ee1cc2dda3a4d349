"""`OpenWrite`: a write session that several processes write to and one process commits."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from odps_nb.access.displayed import DisplayedText
from odps_nb.access.writing.rows import fitted_batches
from odps_nb.access.writing.sources import Target, open_input
from odps_nb.access.writing.tabular import is_spark
from odps_nb.access.writing.uploading import CellUploader
from odps_nb.client.write.base import RowUploads, WriteSession
from odps_nb.client.write.operations import StreamReceipt, WriteSessionRef
from odps_nb.client.write.session import (
    fetch_write_state,
    open_write_session,
    resume_write_session,
)
from odps_nb.convert.fitting.conversions import AS_THEY_ARE, Conversions
from odps_nb.convert.warning import warn
from odps_nb.errors import ArgumentError, ConflictError, StateError, shown
from odps_nb.terms import Compression, PartitionSpec, SessionStatus, TableName, count_of

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.access.table import Table

BUFFER_BYTES = 64 * 2**20
_SESSION_ID = re.compile("[!-~]{1,4096}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A commit: its streams as (id, version), and the number of rows (``None`` if unknown)."""

    table: TableName
    session_id: str
    streams: tuple[tuple[str, int], ...]
    rows: int | None = None


def open_write(
    table: Table,
    partition: PartitionSpec,
    *,
    overwrite: bool,
    session: str | WriteSessionRef | None,
    compression: Compression,
    conversions: Conversions,
) -> OpenWrite:
    """Open a write session, or resume one opened elsewhere; see ``Table.open_write``."""
    storage = table.connection._storage
    token = storage.operation()
    if session is None:
        new_session = open_write_session(
            storage,
            table.name,
            partition=partition,
            overwrite=overwrite,
            shared=True,
            cancel=token,
        )
        return OpenWrite(table, new_session, compression, conversions)
    if overwrite:
        raise ArgumentError("overwrite cannot be changed for an open session", hint="omit it")
    if isinstance(session, str):
        if not _SESSION_ID.fullmatch(session):
            raise ArgumentError(
                f"{shown(session)} is not the id of a write session",
                argument="session_id",
                hint="pass the handle of the session that open_write() opened",
            )
        session = WriteSessionRef(table=table.name, session_id=session, partition=partition)
    elif session.table != table.name:
        raise ArgumentError(f"the session belongs to {session.table}, not {table.name}")
    elif partition.items and partition != session.partition:
        raise ArgumentError(
            f"the session writes to partition {str(session.partition)!r}, not {str(partition)!r}"
        )
    resumed = OpenWrite(
        table, resume_write_session(storage, session, cancel=token), compression, conversions
    )
    resumed.check()
    return resumed


class OpenWrite(DisplayedText):
    """A write session; created by ``Table.open_write``.

    A context manager. Leaving it aborts a session that was opened here and not committed, with an
    `OdpsNbWarning` if no error occurred. A resumed session stays open; its streams are closed
    unless an error occurred. Several threads may write, each to a separate stream.
    """

    def __init__(
        self,
        table: Table,
        session: WriteSession,
        compression: Compression,
        conversions: Conversions = AS_THEY_ARE,
    ) -> None:
        self._table, self._session, self._compression = table, session, compression
        self._target = Target.of(
            table.schema,
            table.name,
            session.ref.partition,
            conversions=replace(conversions, timezone=table.connection.profile.timezone),
        )
        self._streams: dict[str, OpenStream] = {}
        self._default: OpenStream | None = None
        self._committed: Committed | None = None

    @property
    def session_id(self) -> str:
        """The session's id on the service, with which another process can resume it."""
        return self._session.session_id

    @property
    def handle(self) -> WriteSessionRef:
        """The value for ``Table.open_write(session_id=…)`` in another process; can be pickled."""
        return self._session.ref

    def check(self) -> None:
        """Raise unless the session is open on the service and has the partition passed here."""
        storage = self._table.connection._storage
        status = (fetch_write_state(storage, self._session.ref).status or "").upper()
        if status in (SessionStatus.COMMITTED.value, "ABORTED"):
            raise StateError(f"the write session {self.session_id} is {status.lower()}")
        if self._session.ref.kind.is_staged and not status:
            raise StateError(
                f"the write session {self.session_id} has ended: it was committed or aborted, or "
                "has expired",
                hint="check the rows of the table, or open another session",
            )
        keys = {column.name.casefold() for column in self._table.schema.partition_columns}
        open_keys = {c.name.casefold() for c in self._session.write_schema.schema.columns} & keys
        fixed = {key.casefold() for key, _ in self._session.ref.partition}
        if keys - open_keys != fixed:
            named = ", ".join(sorted(keys - open_keys)) or "none"
            raise ArgumentError(
                f"the session was opened with different fixed partition levels: {named}",
                hint="pass the same partition= here, or the session's handle instead of its id",
            )

    # -- rows ---------------------------------------------------------------------------------

    def open_stream(
        self, stream_id: str | None = None, *, version: int = 1, resume: bool = False
    ) -> OpenStream:
        """Open a write stream of the session; only closed streams are committed.

        Parameters
        ----------
        stream_id
            Name of the stream, which no other process may use. Default: a new name.
        version
            Version of the stream; replaces lower versions of the same stream, including their rows.
        resume
            Resume a stream that another writer left open and no longer uses. New rows are appended
            to the rows already on the service; ``rows`` of the returned stream counts both.

        Raises
        ------
        ConflictError
            The session has ended, or a higher version of the stream exists.
        NotFoundError
            The stream to resume does not exist.
        """
        if resume and stream_id is None:
            raise ArgumentError("resume requires stream_id")
        name = uuid.uuid4().hex if stream_id is None else stream_id
        here = self._streams.get(name)
        if here is not None and version <= here.version and not (resume and here.failed):
            raise ArgumentError(
                f"{here!r} is already open in this session",
                hint="write to it, or open a higher version, which replaces it",
            )
        uploads = self._session.open_stream(name, version, resume=resume)
        self._streams[name] = OpenStream(self, uploads)
        return self._streams[name]

    def write(self, data: Any, *, index: bool | None = None) -> int:
        """Write rows to this process's default stream, as `OpenStream.write` does."""
        self._require_open()
        if self._default is None:
            self._default = self.open_stream()
        return self._default.write(data, index=index)

    def flush(self) -> None:
        """Send the rows buffered in the streams of this process."""
        for stream in self._streams.values():
            stream.flush()

    # -- the end ------------------------------------------------------------------------------

    def commit(self, streams: Iterable[StreamReceipt | tuple[str, int]] | None = None) -> Committed:
        """Close the streams opened here and commit, which makes all rows visible at once.

        Parameters
        ----------
        streams
            Receipts, or pairs of id and version, of streams that other processes have closed; a
            write by the tunnel accepts only receipts. They are committed together with the streams
            opened here. ``None``: commit all closed streams of the session, and silently drop the
            rows of streams that other processes have not closed. In a write by the tunnel, ``None``
            commits only the streams opened here.

        Raises
        ------
        ConflictError
            A stream is not closed, or the session has ended; this call committed nothing.
        StateError
            A stream of this process failed, or the session was already committed or aborted here.
        SessionExpiredError
            The service has dropped the session.
        TransportError
            The outcome is unknown: there was no response, and the status cannot be fetched.
        """
        self._require_open()
        storage, ref = self._table.connection._storage, self._session.ref
        receipts = [*self._close_all(), *(streams or ())]
        versions = dict(_pair(receipt) for receipt in receipts)
        if self._session.names_streams:
            closed = dict(fetch_write_state(storage, ref).streams)
        else:
            closed = _closed_by_receipts(receipts)
        for name, version in versions.items():
            if closed.get(name) != version:
                raise ConflictError(
                    f"the service has no closed stream {name!r} of version {version}",
                    code="InvalidStreamState",
                    hint="close each stream before the commit",
                )
        chosen = closed if streams is None else versions
        self._session.commit(chosen.items())
        self._table.reload()
        rows = {
            _pair(receipt): receipt.rows
            for receipt in receipts
            if isinstance(receipt, StreamReceipt)
        }
        self._committed = Committed(
            table=ref.table,
            session_id=ref.session_id,
            streams=tuple(chosen.items()),
            rows=sum(rows.values()) if rows.keys() == set(chosen.items()) else None,
        )
        return self._committed

    def _close_all(self) -> list[StreamReceipt]:
        for stream in self._streams.values():
            if stream.failed:
                raise StateError(
                    f"the stream {stream.stream_id!r} has failed: some of its rows are missing",
                    hint="open a higher version of the stream and write all rows again, or abort",
                )
        return [stream.close() for stream in self._streams.values()]

    def abort(self) -> None:
        """Discard all rows that any process has written to the session. Idempotent.

        Raises
        ------
        ConflictError
            The session was committed elsewhere.
        """
        self._session.abort()

    def detach(self) -> WriteSessionRef:
        """Return the handle; the session then stays open after the ``with`` block."""
        self._session.owned = False
        return self.handle

    def __enter__(self) -> OpenWrite:
        self._session.__enter__()
        return self

    def __exit__(
        self,
        _: type[BaseException] | None,
        error: BaseException | None,
        __: TracebackType | None,
    ) -> None:
        if error is None and not self._session.owned and not self._session.is_over:
            for stream in self._streams.values():
                if not stream.failed:
                    stream.close()
        dropped = self._session.leave(error)
        written = any(stream.rows or stream.waiting for stream in self._streams.values())
        if dropped and written and error is None:
            warn(
                f"the rows written to {self._table.name} were dropped, because the with block "
                "ended without commit(); call abort() to drop rows without this warning"
            )

    def __reduce__(self) -> NoReturn:
        raise StateError(
            "a write session cannot be pickled, because it holds rows and sockets",
            hint="send session.handle, and pass it to open_write(session_id=…)",
        )

    def __repr__(self) -> str:
        state = "committed" if self._committed else "over" if self._session.is_over else "open"
        streams = count_of(len(self._streams), "stream")
        return f"<OpenWrite {self._table.name} {self.session_id}, {streams} here, {state}>"

    def _require_open(self) -> None:
        if self._session.is_over:
            raise StateError("the write session was committed or aborted", hint="open another one")


def _pair(receipt: StreamReceipt | tuple[str, int]) -> tuple[str, int]:
    return (receipt.stream_id, receipt.version) if isinstance(receipt, StreamReceipt) else receipt


def _closed_by_receipts(receipts: Iterable[StreamReceipt | tuple[str, int]]) -> dict[str, int]:
    """Return stream ids and versions from receipts; raise for pairs, which prove no close."""
    versions = {}
    for receipt in receipts:
        if not isinstance(receipt, StreamReceipt):
            raise ArgumentError(
                f"the stream {receipt[0]!r} was passed as a pair, but this write uses the "
                "tunnel, which does not report whether a stream is closed",
                argument="streams",
                hint="pass the receipts that close() returned in the other processes",
            )
        versions[receipt.stream_id] = receipt.version
    return versions


class OpenStream(DisplayedText):
    """A write stream of an `OpenWrite`; a context manager that closes the stream after success.

    Up to 64 MiB of rows are buffered before they are sent; `flush` and `close` also send the
    buffer.
    """

    def __init__(self, owner: OpenWrite, uploads: RowUploads) -> None:
        self._owner, self._uploads = owner, uploads
        self.stream_id: str = uploads.stream_id
        self.version: int = uploads.version
        self._held: list[pa.RecordBatch] = []
        self._size = self._rows = 0
        self._uploader = CellUploader(uploads, owner._target, owner._table.connection)

    @property
    def rows(self) -> int:
        """Number of rows that the service has confirmed."""
        return self._uploads.rows

    @property
    def waiting(self) -> int:
        """Number of rows buffered and not sent yet."""
        return self._rows

    @property
    def closed(self) -> bool:
        """Whether the stream accepts no more rows, because it was closed or has failed."""
        return self._uploads.closed

    @property
    def failed(self) -> bool:
        """Whether the stream has failed; if so, its rows are never committed."""
        return self._uploads.failed

    def write(self, data: Any, *, index: bool | None = None) -> int:
        """Buffer data as for `Table.write`, except Spark DataFrames; return the number of rows.

        Blobs are uploaded immediately. If an iterator or a reader fails, the rows before the error
        stay in the stream; leave the session without a commit to drop them.

        Raises
        ------
        ConversionError
            Columns, types or values do not fit the table. If the data is in memory, no rows were
            buffered.
        StateError
            The stream is closed or has failed.
        """
        if is_spark(data):
            raise ArgumentError(
                "a Spark DataFrame needs its own write session", hint="use Table.write"
            )
        self._uploads.require_open()
        before = self._uploads.rows + self._rows
        write_input = open_input(data, self._owner._target, workers=1, index=index)
        token = self._owner._session.cancel
        for chunks in write_input.streams:
            for batch in fitted_batches(chunks, self._uploader, token):
                self._held.append(batch)
                self._size += batch.nbytes
                self._rows += batch.num_rows
                if self._size >= BUFFER_BYTES:
                    self.flush()
        return self._uploads.rows + self._rows - before

    def flush(self) -> int:
        """Send the buffered rows and return the total number of rows confirmed by the service."""
        held, self._held = self._held, []
        self._size = self._rows = 0
        if held:
            self._uploads.write(held, self._owner._compression)
        return self._uploads.rows

    def close(self) -> StreamReceipt:
        """Send the buffered rows and close the stream, so that it can be committed. Idempotent.

        Pass the receipt to ``commit(streams=[…])``, in any process; it can be pickled.
        """
        if not self._uploads.closed:
            self.flush()
        return self._uploads.close()

    def __enter__(self) -> OpenStream:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None and not self.failed:
            self.close()
        elif error is not None:
            self._uploads.give_up()

    def __repr__(self) -> str:
        state = "failed" if self.failed else "closed" if self.closed else "open"
        return f"<OpenStream {self.stream_id} version {self.version}, {self.rows} rows, {state}>"
