"""Base classes of write sessions and their streams, for every transfer service.

Leaving a session without a commit aborts it.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self

import pyarrow as pa

from odps_nb.client.blob.upload import BlobItem
from odps_nb.client.calls.attempts import Attempts
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.write.operations import (
    DEFAULT_PART_BYTES,
    RowPart,
    StreamReceipt,
    WriteSessionRef,
    iter_parts,
)
from odps_nb.errors import ConflictError, OdpsNbError, StateError
from odps_nb.lifetime import Home, renew_after_fork
from odps_nb.terms import BlobReference, Compression, PartitionSpec
from odps_nb.wire.schema_json import WriteSchema

_log = logging.getLogger("odps_nb")


class RowUploads:
    """Base class of write streams; for use by one thread. `close` makes a stream ready to commit.

    Call `start` or `resume` first. A higher version of a stream replaces the rows of lower
    versions. The context manager closes the stream after success, and drops it after an error.
    """

    schema: WriteSchema
    _ACTION: ClassVar[str] = "upload"

    def __init__(
        self,
        storage: StorageClient,
        session: WriteSessionRef,
        stream_id: str,
        version: int = 1,
        *,
        part_bytes: int = DEFAULT_PART_BYTES,
        tracker: ProgressTracker | None = None,
        cancel: CancelToken | None = None,
    ) -> None:
        self._storage, self._session = storage, session
        self.stream_id: str = stream_id
        self.version: int = version
        self._tracker = tracker or ProgressTracker("write", str(session.table))
        self._part_bytes, self._cancel = part_bytes, cancel
        self.label: str = f"stream {stream_id}"
        self.rows: int = 0
        """Number of rows that the server has confirmed."""
        self._size = 0
        self._receipt: StreamReceipt | None = None
        self.failed: bool = False
        """Whether an error has ended the stream."""
        self._home = Home()

    @abstractmethod
    def start(self) -> Self:
        """Create the stream on the server."""

    @abstractmethod
    def resume(self) -> Self:
        """Resume a stream that was not closed; raise `ConflictError` if this is not possible."""

    @abstractmethod
    def _send_part(self, part: RowPart, compression: Compression, attempts: Attempts) -> None:
        """Upload a part and add its rows to `rows`."""

    @abstractmethod
    def _finish(self) -> None:
        """Finish the stream on the server, so that a commit can include its rows."""

    @abstractmethod
    def upload_blobs(
        self,
        items: Iterable[BlobItem],
        column_id: int,
        partition: PartitionSpec | None = None,
    ) -> list[BlobReference]:
        """Upload blobs for a BLOB column; return their references, in order."""

    @property
    def closed(self) -> bool:
        """Whether the stream was closed or has failed."""
        return self.failed or self._receipt is not None

    def give_up(self) -> None:
        """Drop the stream without closing it, so that its rows are never committed."""
        self.failed = self._receipt is None

    def close(self) -> StreamReceipt:
        """Mark the stream as complete; return its receipt for the commit. Idempotent."""
        if self._receipt is None:
            self.require_open()
            self._finish()
            self._receipt = StreamReceipt(
                stream_id=self.stream_id, version=self.version, rows=self.rows, size=self._size
            )
            self._tracker.split_done(self.label)
        return self._receipt

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            if not self.failed:
                self.close()
        else:
            self.failed = True

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        name = f"{self.stream_id} version {self.version}"
        return f"<{type(self).__name__} {name}, {self.rows} rows, {state}>"

    def require_open(self) -> None:
        """Raise `StateError` unless rows can be written."""
        self._home.require("this write")
        if self.closed:
            raise StateError(f"{self.label} is closed", hint="open another stream of the session")

    def write(
        self, batches: Iterable[pa.RecordBatch], compression: Compression = Compression.NONE
    ) -> int:
        """Upload batches; return the number of rows once the server has confirmed all of them.

        One part (64 MiB by default) is in memory at a time. After an error, the stream is unusable.
        """
        self.require_open()
        self._tracker.phase(Phase.WRITING)
        before = self.rows
        try:
            for part in iter_parts(batches, max_bytes=self._part_bytes):
                self._send(part, compression)
                del part  # otherwise the part stays in memory while the next is collected
        except BaseException:
            self.failed = True
            raise
        return self.rows - before

    def _send(self, part: RowPart, compression: Compression) -> None:
        attempts = self._storage.attempts(
            f"{self._ACTION} of {part.rows} rows, starting at row {self.rows}, into "
            f"{self.label} of {self._session.table}",
            tracker=self._tracker,
            cancel=self._cancel,
        )
        with attempts:
            self._send_part(part, compression, attempts)
        self._size += part.size
        self._tracker.add(
            split=self.label, rows=part.rows, decoded_bytes=part.size, complete_bytes=part.size
        )


class WriteSession(ABC):
    """A transaction on a table. Several threads may open and write streams.

    ``owned``: false for a session that another process opened; only `abort` aborts such a session.
    """

    names_streams: bool = True
    """Whether the service lists the closed streams, and a commit names them by id and version."""
    abort_is_certain: bool = True
    """Whether a successful abort means that no commit has taken or will take effect."""

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
        self._streams: dict[str, RowUploads] = {}
        self._schema: WriteSchema | None = None
        self._over: str | None = None  # "committed" or "aborted"
        self._commit_was_tried = False
        self._home = Home()
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Create a new lock, because another thread may have held the old one at the fork."""
        self._lock = threading.Lock()

    @abstractmethod
    def _fetch_schema(self) -> WriteSchema:
        """Return the columns that rows must have."""

    @abstractmethod
    def _make_stream(self, stream_id: str, version: int, **more: Any) -> RowUploads:
        """Return a stream that is not started."""

    @abstractmethod
    def _commit(self, streams: Sequence[StreamReceipt | tuple[str, int]]) -> None:
        """Make the rows of exactly these streams visible."""

    @abstractmethod
    def _abort(self) -> None:
        """Discard all rows; do nothing if the session no longer exists."""

    def _is_done_after_all(self, error: OdpsNbError) -> bool:
        """Return whether a commit without a response has succeeded; prevent it if possible."""
        return False

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
            self._schema = self._fetch_schema()
        return self._schema

    @property
    def streams(self) -> tuple[RowUploads, ...]:
        """The streams that this object opened, in the order in which their ids were first used."""
        with self._lock:
            return tuple(self._streams.values())

    def stream(
        self, stream_id: str, version: int = 1, *, cancel: CancelToken | None = None
    ) -> RowUploads:
        """Return a stream, not yet started, that the session does not list in `streams`."""
        self._require_open()
        self._storage.end_before_closing(self)
        return self._make_stream(
            stream_id,
            version,
            part_bytes=self._part_bytes,
            tracker=self._tracker,
            cancel=cancel or self._cancel,
        )

    def open_stream(
        self, stream_id: str = "0", version: int = 1, *, resume: bool = False
    ) -> RowUploads:
        """Open or resume a stream; see `RowUploads`."""
        stream = self.stream(stream_id, version)
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
        if self._tracker is not None:
            self._tracker.phase(Phase.COMMITTING)
        try:
            self._commit(tuple(streams))
        except OdpsNbError as error:
            if not error.in_doubt or not self.owned or not self._is_done_after_all(error):
                raise
        self._over = "committed"

    def abort(self) -> None:
        """Discard all rows of the session. Idempotent; no effect after a commit."""
        if self._over is None and self._home.is_here:
            self._over = "aborted"
            self._abort()

    def end(self) -> None:
        """Abort the session unless a commit was attempted."""
        if not self._commit_was_tried:
            self.leave(None)

    def __enter__(self) -> WriteSession:
        self._storage.end_before_closing(self)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.leave(error)

    def leave(self, error: BaseException | None) -> bool:
        """Abort an owned session that is not over; return whether its rows were dropped."""
        if self._over is not None or not self.owned or not self._home.is_here:
            return False
        in_doubt = isinstance(error, OdpsNbError) and error.in_doubt
        if in_doubt and self._commit_was_tried and not self.abort_is_certain:
            return False  # an abort would neither prevent the commit nor show its outcome
        line = "" if in_doubt else "the write was aborted; none of its rows are in the table"
        dropped = True
        try:
            self.abort()
        except OdpsNbError as second:
            dropped = False
            line = f"the session could not be aborted and will expire: {second}"
            if isinstance(second, ConflictError):
                line = f"the session had ended before it could be aborted: {second}"
            _log.warning("write session %s: %s", self.session_id, line)
        if isinstance(error, OdpsNbError) and line:
            error.add_note(line)
        return dropped

    def __repr__(self) -> str:
        return f"<WriteSession {self.ref.table} {self.session_id} {self._over or 'open'}>"

    def _require_open(self) -> None:
        self._home.require("this write")
        if self._over is not None:
            raise StateError(f"the write session is {self._over}", hint="open another session")
