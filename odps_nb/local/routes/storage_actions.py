"""What each Storage API action does, from request value to answer value.

Blocking code, run in worker threads; no HTTP framework here. An upload gets the path of its
body, a read gives a `RowsAnswer` or `BlobsAnswer` whose chunks are made while they are sent.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from odps_nb.local import faults
from odps_nb.local.reading.plan import ReadSession
from odps_nb.local.reading.row_stream import coded, encode_stream, rebatch
from odps_nb.local.reading.rules import check_batch
from odps_nb.local.server.clients import Client, blob_coding, row_codings
from odps_nb.local.service import Service
from odps_nb.local.store.tables import OPERATION
from odps_nb.local.writing.ingest import read_body
from odps_nb.local.writing.sessions import OPEN
from odps_nb.local.writing.streams import Stream, WriteSession, staging_text
from odps_nb.schema import TableSchema
from odps_nb.terms import BlobReference, Compression, SessionStatus, WriteMode
from odps_nb.wire import calls
from odps_nb.wire.schema_json import WriteSchema

__all__ = ["UPLOADS", "StorageActions", "StreamAnswer"]

UPLOADS = (calls.WriteRows, calls.WriteBlob, calls.WriteBlobBatch, calls.WriteBlock)
HTTP_CODINGS = calls.HTTP_CODINGS


class Answer(Protocol):
    """An answer value of `odps_nb.wire.calls`."""

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Return body and headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAnswer:
    """A body that is made while it is sent."""

    chunks: Generator[bytes | memoryview, None, None]
    media_type: str
    headers: dict[str, str] = field(default_factory=dict)


class StorageActions:
    """The actions of ``docs/protocol.md`` section 3 on one service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reads, self._writes = service.read_sessions, service.write_sessions
        self._route = service.route_token
        self._by_type: dict[type, Any] = {
            calls.CreateReadSession: self._create_read,
            calls.GetReadSession: self._get_read,
            calls.ReadRows: self._read_rows,
            calls.Preview: self._preview,
            calls.CreateWriteSession: self._create_write,
            calls.GetWriteSession: self._get_write,
            calls.CommitWriteSession: self._commit,
            calls.AbortWriteSession: self._abort,
            calls.GetWriteSchema: self._write_schema,
            calls.CreateWriteStream: self._create_stream,
            calls.GetWriteStream: self._get_stream,
            calls.CloseWriteStream: self._close_stream,
            calls.WriteRows: self._write_rows,
            calls.WriteBlob: self._write_blob,
            calls.WriteBlobBatch: self._write_blobs,
            calls.ReadBlobs: self._read_blobs,
            calls.CreateInstanceReadSession: self._create_instance,
            calls.GetInstanceReadSession: self._get_instance,
            calls.ReadInstance: self._read_instance,
            calls.CreateBlockSession: self._create_blocks,
            calls.GetBlockSession: self._get_blocks,
            calls.WriteBlock: self._write_block,
            calls.CommitBlocks: self._commit_blocks,
        }

    def answer(
        self, request: calls.StorageRequest, client: Client, body: Path | None
    ) -> Answer | StreamAnswer:
        """Do one action."""
        act = self._by_type[type(request)]
        if isinstance(request, UPLOADS):
            found: Answer | StreamAnswer = act(request, body)
        elif isinstance(
            request, (calls.ReadRows, calls.Preview, calls.ReadInstance, calls.ReadBlobs)
        ):
            found = act(request, client)
        else:
            found = act(request)
        return found

    # -- reading ------------------------------------------------------------------------------

    def _create_read(self, request: calls.CreateReadSession) -> Answer:
        return self._read_answer(self._reads.create(request))

    def _get_read(self, request: calls.GetReadSession) -> Answer:
        session = self._reads.get(request.table, request.session_id, refresh=request.refresh)
        return self._read_answer(session)

    def _read_answer(self, session: ReadSession) -> calls.ReadSessionAnswer:
        return calls.ReadSessionAnswer(
            session_id=session.session_id,
            status=SessionStatus.NORMAL,
            split_mode=session.mode,
            splits_count=len(session.ranges),
            record_count=session.record_count,
            schema=session.schema,
            expires_at=session.expires,
            estimated_size=session.size,
            estimated_rows=session.rows,
            bucket_ids=session.buckets,
            latest_version=session.version,
            incremental_options=session.increment,
            route_token=self._route,
        )

    def _read_rows(self, request: calls.ReadRows, client: Client) -> StreamAnswer:
        session = self._reads.get(request.table, request.session_id)
        check_batch(request)
        schema, batches = self._reads.rows(
            session,
            request.split,
            columns=request.data_columns,
            skip=request.skip_rows,
            unordered=request.data_columns_unordered,
        )
        cut = rebatch(
            batches, max_rows=request.max_batch_rows, max_bytes=request.max_batch_raw_size
        )
        return self._rows(schema, cut, client, request.compression)

    def _preview(self, request: calls.Preview, client: Client) -> StreamAnswer:
        schema, batches = self._reads.preview(request)
        return self._rows(schema, rebatch(batches, max_rows=4096), client, Compression.NONE)

    def _rows(self, schema: Any, batches: Any, client: Client, asked: Compression) -> StreamAnswer:
        inside, around = row_codings(client, asked)
        chunks = encode_stream(schema, batches, ipc=inside)
        headers = {}
        if around is not Compression.NONE:
            chunks = coded(chunks, around)
            headers["Content-Encoding"] = HTTP_CODINGS[around]
        return StreamAnswer(
            chunks=chunks, media_type="application/vnd.apache.arrow.stream", headers=headers
        )

    # -- writing ------------------------------------------------------------------------------

    def _create_write(self, request: calls.CreateWriteSession) -> Answer:
        session = self._writes.create(
            request.table, request.partition, overwrite=request.overwrite, mode=request.write_mode
        )
        return calls.WriteSessionAnswer(session_id=session.session_id, route_token=self._route)

    def _get_write(self, request: calls.GetWriteSession) -> Answer:
        session = self._writes.get(request.table, request.session_id)
        streams = {s.stream_id: s.version for s in self._writes.closed_streams(session)}
        return calls.WriteSessionStateAnswer(
            streams=streams,
            status=session.status,
            min_uncommitted_staging_id=staging_text(session.table.version + 1),
            route_token=self._route,
        )

    def _commit(self, request: calls.CommitWriteSession) -> Answer:
        self._writes.commit(self._writes.get(request.table, request.session_id), request.streams)
        return calls.EmptyAnswer()

    def _abort(self, request: calls.AbortWriteSession) -> Answer:
        self._writes.abort(self._writes.get(request.table, request.session_id))
        return calls.EmptyAnswer()

    def _write_schema(self, request: calls.GetWriteSchema) -> Answer:
        session = self._writes.get(request.table, request.session_id)
        return calls.WriteSchemaAnswer(schema=_write_schema(session))

    def _create_stream(self, request: calls.CreateWriteStream) -> Answer:
        session = self._writes.get(request.table, request.session_id)
        stream = self._writes.open_stream(
            session,
            request.stream_id,
            request.stream_version,
            exactly_once=request.exactly_once,
        )
        return self._stream_answer(session, stream)

    def _get_stream(self, request: calls.GetWriteStream) -> Answer:
        session = self._writes.get(request.table, request.session_id)
        look = self._writes.renewed_stream if request.exactly_once else self._writes.stream
        stream = look(session, request.stream_id, request.stream_version)
        return self._stream_answer(session, stream)

    def _stream_answer(self, session: WriteSession, stream: Stream) -> calls.WriteStreamAnswer:
        version = str(session.table.schema_version)
        return calls.WriteStreamAnswer(
            schema=_write_schema(session),
            table_id=str(session.table.table_id),
            schema_version=version,
            latest_schema_version=version,
            access_token=stream.token,
            quota_token="local",
            row_offset=stream.next_row,
            record_count=stream.rows,
            byte_size=stream.bytes,
            status=session.status,
            route_token=self._route,
        )

    def _close_stream(self, request: calls.CloseWriteStream) -> Answer:
        session = self._writes.get(request.table, request.session_id)
        self._writes.close_stream(session, request.stream_id, request.stream_version)
        return calls.EmptyAnswer()

    def _write_rows(self, request: calls.WriteRows, body: Path) -> Answer:
        session = self._writes.get(request.table, request.session_id)
        stream = self._writes.stream(session, request.stream_id, request.stream_version)
        landed = self._writes.write(
            session,
            stream,
            read_body(body),
            row_offset=request.row_offset,
            token=request.access_token,
        )
        return calls.WriteRowsAnswer(
            row_offset=landed.stream.next_row if request.row_offset is not None else None,
            staging_id=landed.staging_id or None,
            route_token=self._route,
        )

    # -- blocks (``docs/protocol.md`` section 7.5) --------------------------------------------

    def _create_blocks(self, request: calls.CreateBlockSession) -> Answer:
        session = self._writes.create(
            request.table,
            request.partition,
            overwrite=request.overwrite,
            mode=WriteMode.BATCH_COMPATIBLE,
        )
        return self._block_answer(session)

    def _get_blocks(self, request: calls.GetBlockSession) -> Answer:
        return self._block_answer(self._writes.get(request.table, request.session_id))

    def _block_answer(self, session: WriteSession) -> calls.BlockSessionAnswer:
        status = SessionStatus.CRITICAL
        if session.status in (OPEN, SessionStatus.COMMITTED.value):
            status = SessionStatus(session.status)
        return calls.BlockSessionAnswer(
            session_id=session.session_id,
            status=status,
            schema=_write_schema(session).schema,
            route_token=self._route,
        )

    def _write_block(self, request: calls.WriteBlock, body: Path) -> Answer:
        session = self._writes.get(request.table, request.session_id)
        name = f"block-{request.block_number}-attempt-{request.attempt_number}"
        stream = self._writes.open_stream(session, name, 1, exactly_once=False)
        landed = self._writes.write(session, stream, read_body(body))
        self._writes.close_stream(session, name, 1)
        message = {
            "BlockNumber": request.block_number,
            "AttemptNumber": request.attempt_number,
            "WriterStats": {"RecordNum": landed.rows},
        }
        return calls.WriteBlockAnswer(
            commit_message=json.dumps(message), record_count=landed.rows, route_token=self._route
        )

    def _commit_blocks(self, request: calls.CommitBlocks) -> Answer:
        session = self._writes.get(request.table, request.session_id)
        named = [(_block_name(message), 1) for message in request.commit_messages]
        # nothing named is nothing wanted: not "all", as it would be for streams
        self._writes.commit(session, named or [], nothing=not named)
        return self._block_answer(self._writes.get(request.table, request.session_id))

    # -- blobs --------------------------------------------------------------------------------

    def _write_blob(self, request: calls.WriteBlob, body: Path) -> Answer:
        session = self._writes.get(request.table, request.session_id)
        self._check_blob_target(session)
        if request.column_id not in _write_schema(session).blob_ids.values():
            raise faults.invalid(f"the column id {request.column_id} is no BLOB of the table")
        blob = self._service.blobs.store_one(body, request.compression, session.table.name.project)
        return calls.WriteBlobAnswer(references=(blob.reference,), size=blob.size, md5=blob.md5)

    def _write_blobs(self, request: calls.WriteBlobBatch, body: Path) -> Answer:
        session = self._writes.get(request.table, request.session_id)
        self._check_blob_target(session)
        blobs = self._service.blobs.store_batch(
            body, request.compression, session.table.name.project
        )
        return calls.WriteBlobAnswer(
            references=tuple(b.reference for b in blobs),
            size=sum(b.size for b in blobs),
            batch=True,
        )

    def _check_blob_target(self, session: WriteSession) -> None:
        # the stream may not be open yet: stock clients upload blobs before they open it
        if session.status != OPEN:
            raise faults.invalid_state(f"the session {session.session_id!r} is not open any more")

    def _read_blobs(self, request: calls.ReadBlobs, client: Client) -> StreamAnswer:
        references: tuple[BlobReference, ...] = request.references
        blobs = self._service.blobs.find(references)
        coding = blob_coding(client, request.compression)
        headers = {}
        if coding is not Compression.NONE:
            headers["Content-Encoding"] = HTTP_CODINGS[coding]
        return StreamAnswer(
            chunks=self._service.blobs.body(blobs, coding),
            media_type="application/octet-stream",
            headers=headers,
        )

    # -- results of SQL -----------------------------------------------------------------------

    def _create_instance(self, request: calls.CreateInstanceReadSession) -> Answer:
        instances = self._service.instances
        result = instances.result(request.project, request.instance_id)
        return self._instance_answer(instances.open_download(result.instance_id), result)

    def _get_instance(self, request: calls.GetInstanceReadSession) -> Answer:
        instances = self._service.instances
        result = instances.result(request.project, request.instance_id)
        instances.check_download(request.session_id, request.instance_id)
        return self._instance_answer(request.session_id, result)

    def _instance_answer(self, download_id: str, result: Any) -> calls.InstanceSessionAnswer:
        return calls.InstanceSessionAnswer(
            download_id=download_id,
            record_count=result.rows,
            schema=result.schema,
            owner=result.owner,
        )

    def _read_instance(self, request: calls.ReadInstance, client: Client) -> StreamAnswer:
        instances = self._service.instances
        if request.session_id is not None:
            instances.check_download(request.session_id, request.instance_id)
        result = instances.result(request.project, request.instance_id)
        count = result.rows if request.count is None else request.count
        schema, batches = instances.rows(result, request.offset, count, columns=request.columns)
        return self._rows(schema, rebatch(batches, max_rows=4096), client, request.compression)


def _write_schema(session: WriteSession) -> WriteSchema:
    """Say what rows of the session hold: data columns, then the partition keys that vary."""
    table = session.table
    fixed = {key for key, _ in session.spec}
    dynamic = tuple(c for c in table.schema.partition_columns if c.name not in fixed)
    whole = WriteSchema.of(
        table.schema,
        system_columns=(OPERATION,) if table.key_columns else (),
        key_columns=table.key_columns,
    )
    return replace(
        whole,
        schema=TableSchema(
            columns=(*whole.schema.columns, *dynamic),
            partition_columns=whole.schema.partition_columns,
        ),
    )


def _block_name(message: str) -> str:
    try:
        block = json.loads(message)
        return f"block-{int(block['BlockNumber'])}-attempt-{int(block['AttemptNumber'])}"
    except (ValueError, KeyError, TypeError):
        raise faults.invalid(f"{message[:80]!r} is no commit message of this service") from None
