"""One stream of a write session (``docs/protocol.md`` sections 3.8, 3.9, 7.2, 7.3).

Each upload states its row offset. If the response to an upload is lost, the stream's offset is
fetched, and only rows that did not arrive are sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, TypeVar

from odps_nb.client.blob.upload import BlobItem, BlobUploader
from odps_nb.client.calls.attempts import Attempts
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.write.base import RowUploads
from odps_nb.client.write.operations import (
    RowPart,
    WriteSessionRef,
    write_ipc,
)
from odps_nb.errors import (
    ConflictError,
    OdpsNbError,
    ProtocolError,
    ServerFaultError,
    ServiceError,
    TransportError,
)
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


class WriteStream(RowUploads):
    """A stream of a write session of the Storage API."""

    _ACTION = "TableWrite"

    def __init__(
        self, storage: StorageClient, session: WriteSessionRef, *args: Any, **more: Any
    ) -> None:
        super().__init__(storage, session, *args, **more)
        self._route_token = session.route_token
        self._access_token: str | None = None

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> WriteStream:
        """Create the stream on the server."""
        answer = self._call(CreateWriteStream(exactly_once=True, **self._named()))
        return self._opened_at(answer, answer.row_offset or 0)

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
        return self._opened_at(answer, offset)

    def _opened_at(self, answer: WriteStreamAnswer, offset: int) -> WriteStream:
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

    def _finish(self) -> None:
        self._call(
            CloseWriteStream(**self._named()),
            read_timeout=self._storage.options.work_timeout,
            patient=True,
        )

    # -- rows ---------------------------------------------------------------------------------

    def _send_part(self, part: RowPart, compression: Compression, attempts: Attempts) -> None:
        first = self.rows
        self._send_until(first + part.rows, part, first, compression, attempts)

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
        stored = self._ask(error)
        if stored is None or not first <= stored <= end:
            raise self._conflict(error, stored, first, end) from error
        if not self.is_exactly_once and stored != end:
            # Without offsets, the lost upload may still arrive.
            error.add_note("these rows may have arrived, so they are not sent again")
            attempts.give_up(error)
        self.rows = stored
        if stored < end:
            attempts.again(error, idempotent=True, resume=f"row {stored}")
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
        self, error: OdpsNbError, stored: int | None, first: int, end: int
    ) -> OdpsNbError:
        if stored is None:
            error.add_note(
                "the server does not report whether the rows arrived; they are not sent again"
            )
            return error
        return ConflictError(
            f"the server has {stored} rows in {self.label}; expected {first} to {end}",
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
