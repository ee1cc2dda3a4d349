"""One stream of a write session (``docs/protocol.md`` sections 3.8, 3.9, 7.2, 7.3).

Each upload states its row offset. If the response to an upload is lost, the stream's offset is
fetched, and only rows that did not arrive are sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, TypeVar

import pyarrow as pa

from odps_nb.client.blob.upload import BlobItem, BlobUploader
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
    write_ipc,
)
from odps_nb.errors import (
    ConflictError,
    OdpsNbError,
    ProtocolError,
    ServerFaultError,
    ServiceError,
    StateError,
    TransportError,
)
from odps_nb.lifetime import Home
from odps_nb.terms import BlobReference, Compression, PartitionSpec
from odps_nb.wire.calls import (
    Call,
    CloseWriteStream,
    CreateWriteStream,
    GetWriteStream,
    WriteRows,
    WriteRowsAnswer,
    WriteStreamAnswer,
)
from odps_nb.wire.schema_json import WriteSchema

T = TypeVar("T")

_log = logging.getLogger("odps_nb")


class WriteStream:
    """A stream of a write session, for use by one thread. `close` makes it ready for the commit.

    Call `start` or `resume` first. A higher version of a stream replaces the rows of lower
    versions. The context manager closes the stream after success, and drops it after an error.
    """

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
        self._route_token = session.route_token
        self._access_token: str | None = None
        self.label: str = f"stream {stream_id}"
        self.rows: int = 0
        """Number of rows that the server has confirmed."""
        self._size = 0
        self._receipt: StreamReceipt | None = None
        self.failed: bool = False
        """Whether an error has ended the stream."""
        self._home = Home()

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> WriteStream:
        """Create the stream on the server."""
        answer = self._call(CreateWriteStream(exactly_once=True, **self._named()))
        return self._stands(answer, answer.row_offset or 0)

    def resume(self) -> WriteStream:
        """Resume a stream that was not closed.

        Afterwards, `rows` is the number of rows that the service has, and the earlier writer can
        no longer write. Raises `ConflictError` if the session has ended or a higher version exists.
        """
        answer = self._call_get(exactly_once=True)
        offset = answer.row_offset if answer.access_token else answer.record_count
        if offset is None:
            raise ConflictError(
                f"the service does not report how many rows {self.label} has",
                code="UnknownRowOffset",
                hint="open a higher version of the stream and write all of its rows again",
            )
        return self._stands(answer, offset)

    def _stands(self, answer: WriteStreamAnswer, offset: int) -> WriteStream:
        self.schema: WriteSchema = answer.schema
        self._table_id, self._schema_version = answer.table_id, answer.schema_version
        self._access_token = answer.access_token
        self.rows = offset
        self._route_token = answer.route_token or self._route_token
        self._tracker.plan_split(self.label)
        return self

    def _named(self) -> dict[str, Any]:
        """Return the fields that identify this stream in each request."""
        return {
            "table": self._session.table,
            "session_id": self._session.session_id,
            "stream_id": self.stream_id,
            "stream_version": self.version,
            "route_token": self._route_token,
        }

    def _call(self, request: Call[T], **more: Any) -> T:
        return self._storage.call(request, tracker=self._tracker, cancel=self._cancel, **more)

    @property
    def is_exactly_once(self) -> bool:
        """Whether uploads have offsets. Without them, a lost response may end the stream."""
        return self._access_token is not None

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
            self._call(
                CloseWriteStream(**self._named()),
                read_timeout=self._storage.options.work_timeout,
                patient=True,
            )
            self._receipt = StreamReceipt(
                stream_id=self.stream_id, version=self.version, rows=self.rows, size=self._size
            )
            self._tracker.split_done(self.label)
        return self._receipt

    def __enter__(self) -> WriteStream:
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
        return f"<WriteStream {name}, {self.rows} rows, {state}>"

    def require_open(self) -> None:
        """Raise `StateError` unless rows can be written."""
        self._home.require("this write")
        if self.closed:
            raise StateError(f"{self.label} is closed", hint="open another stream of the session")

    # -- rows ---------------------------------------------------------------------------------

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
        first = self.rows
        attempts = self._storage.attempts(
            f"TableWrite of {part.rows} rows, starting at row {first}, into {self.label} of "
            f"{self._session.table}",
            tracker=self._tracker,
            cancel=self._cancel,
        )
        with attempts:
            self._send_until(first + part.rows, part, first, compression, attempts)
        self._size += part.size
        self._tracker.add(
            split=self.label, rows=part.rows, decoded_bytes=part.size, complete_bytes=part.size
        )

    def _send_until(
        self, end: int, part: RowPart, first: int, compression: Compression, attempts: Attempts
    ) -> None:
        while self.rows < end:
            rest = part.after(self.rows - first)
            try:
                self._confirm(self._upload(rest, compression, attempts), end)
            except (TransportError, ServerFaultError, ProtocolError) as error:
                self._look_up(error, first, end, attempts)
            except ServiceError as error:
                attempts.again(error, idempotent=False)  # retries only if no rows can have arrived

    def _upload(
        self, part: RowPart, compression: Compression, attempts: Attempts
    ) -> WriteRowsAnswer:
        request = WriteRows(
            count=part.rows,
            row_offset=self.rows if self.is_exactly_once else None,
            access_token=self._access_token,
            table_id=self._table_id,
            schema_version=self._schema_version,
            **self._named(),
        )
        with self._storage.upload(request, attempts=attempts) as upload:
            try:
                write_ipc(part, compression, upload.write)
                return upload.finish()
            finally:
                self._tracker.add(split=self.label, wire_bytes=upload.sent_bytes)

    def _confirm(self, answer: WriteRowsAnswer, end: int) -> None:
        self._route_token = answer.route_token or self._route_token
        if answer.warning:
            _log.warning("TableWrite into %s: %s", self.label, answer.warning)
        if self.is_exactly_once and answer.row_offset not in (None, end):
            raise ConflictError(
                f"the server counts {answer.row_offset} rows in {self.label}, but {end} were sent",
                code="RowOffsetConflict",
                hint="check whether another writer uses this stream",
            )
        self.rows = end

    # -- after a lost response ----------------------------------------------------------------

    def _look_up(
        self,
        error: TransportError | ServiceError | ProtocolError,
        first: int,
        end: int,
        attempts: Attempts,
    ) -> None:
        """Fetch the offset after a lost response; return once the remaining rows can be sent."""
        if isinstance(error, TransportError) and error.request_sent is False:
            attempts.again(error, idempotent=True)
            return
        if self._cancel is not None:
            self._cancel.check()
        landed = self._ask(error)
        if landed is None or not first <= landed <= end:
            raise self._conflict(error, landed, first, end) from error
        if not self.is_exactly_once and landed != end:
            # Without offsets, the lost upload may still arrive.
            error.add_note("these rows may have arrived, so they are not sent again")
            attempts.give_up(error)
        self.rows = landed
        if landed < end:
            attempts.again(error, idempotent=True, resume=f"row {landed}")
        else:
            what = f"{attempts.what}: the response was lost, but the rows arrived"
            self._tracker.noted(what, retries=1)

    def _ask(self, error: OdpsNbError) -> int | None:
        try:
            answer = self._call_get(exactly_once=self.is_exactly_once)
        except OdpsNbError as second:
            second.add_note(f"while checking the outcome of an upload that failed with: {error}")
            raise
        self._route_token = answer.route_token or self._route_token
        if not self.is_exactly_once:
            return answer.record_count
        self._access_token = answer.access_token or self._access_token
        return answer.row_offset

    def _call_get(self, *, exactly_once: bool) -> WriteStreamAnswer:
        return self._call(GetWriteStream(exactly_once=exactly_once, **self._named()))

    def _conflict(
        self, error: OdpsNbError, landed: int | None, first: int, end: int
    ) -> OdpsNbError:
        if landed is None:
            error.add_note(
                "the server does not report whether the rows arrived; they are not sent again"
            )
            return error
        return ConflictError(
            f"the server has {landed} rows in {self.label}; expected {first} to {end}",
            code="RowOffsetConflict",
            hint="check whether another writer uses this stream",
        )

    # -- blobs --------------------------------------------------------------------------------

    def upload_blobs(
        self,
        items: Iterable[BlobItem],
        column_id: int,
        partition: PartitionSpec | None = None,
    ) -> list[BlobReference]:
        """Upload blobs for a BLOB column; return their references, in order.

        An item is (content, media type, file name); the content is bytes, a path or a binary file.
        ``column_id`` is the BLOB column's id in `schema` (``schema.column_ids``), not its position.
        ``partition`` is the rows' partition. Default: the session's partition.
        """
        self.require_open()
        uploader = BlobUploader(
            storage=self._storage,
            stream=self._named(),
            partition=self._session.partition if partition is None else partition,
            column_id=column_id,
            tracker=self._tracker,
            cancel=self._cancel,
        )
        return uploader.upload(items)
