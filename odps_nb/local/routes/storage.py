"""The Storage API's actions, as blocking functions that run in worker threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odps_nb.local import errors
from odps_nb.local.forms import formed
from odps_nb.local.reading.plan import OpenReadSession, check_batch
from odps_nb.local.reading.row_stream import encode_stream, in_nanoseconds, rebatch
from odps_nb.local.rights import Right
from odps_nb.local.routes import asgi_io as edge
from odps_nb.local.routes.asgi_io import blob_coding, identify, row_codings
from odps_nb.local.routes.refused import refusing
from odps_nb.local.routes.surface import Surface
from odps_nb.local.routes.table import ALL, RequestContext, StreamAnswer, To
from odps_nb.local.service import Service
from odps_nb.local.sql.instances import limited_result
from odps_nb.local.store.blob_bodies import encoded
from odps_nb.local.store.tables import OPERATION
from odps_nb.local.writing.ingest import read_body
from odps_nb.local.writing.sessions import OPEN
from odps_nb.local.writing.streams import StoredWriteSession, Stream, staging_text
from odps_nb.schema import TableSchema
from odps_nb.terms import BlobReference, Compression, SessionStatus, TimeUnit
from odps_nb.wire import calls
from odps_nb.wire.schema_json import WriteSchema

HTTP_CODINGS = calls.HTTP_CODINGS
_VERSIONS = ("v2", "v3")
_UPLOADS = ("TableWrite", "TableWriteBlob")


def storage_routes(service: Service) -> Iterator[Route]:
    """Yield the route of the Storage API, which calls the actions of `StorageActions`."""
    surface = Surface(service, xml=False)
    rows = {row.kind: row for row in StorageActions(service).rows()}

    async def answer(request: Request, context: RequestContext) -> Response:
        if context.path["version"] not in _VERSIONS:
            raise errors.no_such(
                f"there is no Storage API version {context.path['version']!r}; use v2 or v3"
            )
        upload = context.wire.action in _UPLOADS
        if not upload:
            wire = replace(context.wire, body=await edge.body_bytes(request))
            context = replace(context, wire=wire)
        call = calls.decode_request(context.wire)
        return await surface.answer_value(request, context, call, rows[type(call)], upload=upload)

    handler = refusing(service, "storage") or answer
    yield Route("/api/storage/{version}", surface.endpoint(handler), methods=list(ALL))


class StorageActions:
    """The actions of ``docs/protocol.md`` section 3 for one service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reads, self._writes = service.read_sessions, service.write_sessions
        self._route = service.route_token

    def rows(self) -> Iterator[To]:
        yield To(calls.CreateReadSession, Right.READ, self._create_read)
        yield To(calls.GetReadSession, Right.READ, self._get_read)
        yield To(calls.ReadRows, Right.READ, self.read_rows)
        yield To(calls.Preview, Right.READ, self._preview)
        yield To(calls.CreateWriteSession, Right.WRITE, self._create_write)
        yield To(calls.GetWriteSession, Right.WRITE, self._get_write)
        yield To(calls.CommitWriteSession, Right.WRITE, self._commit)
        yield To(calls.AbortWriteSession, Right.WRITE, self._abort)
        yield To(calls.GetWriteSchema, Right.WRITE, self._write_schema)
        yield To(calls.CreateWriteStream, Right.WRITE, self._create_stream)
        yield To(calls.GetWriteStream, Right.WRITE, self._get_stream)
        yield To(calls.CloseWriteStream, Right.WRITE, self._close_stream)
        yield To(calls.WriteRows, Right.WRITE, self._write_rows)
        yield To(calls.WriteBlob, Right.WRITE, self._write_blob)
        yield To(calls.WriteBlobBatch, Right.WRITE, self._write_blobs)
        yield To(calls.ReadBlobs, None, self._read_blobs)  # the action checks the blobs' projects
        yield To(calls.CreateInstanceReadSession, Right.QUERY, self._create_instance)
        yield To(calls.GetInstanceReadSession, Right.QUERY, self._get_instance)
        yield To(calls.ReadInstance, Right.QUERY, self._read_instance)

    # -- reading ------------------------------------------------------------------------------

    def _create_read(self, request: calls.CreateReadSession, _context: RequestContext) -> object:
        return self.read_answer(self._reads.create(request))

    def _get_read(self, request: calls.GetReadSession, _context: RequestContext) -> object:
        session = self._reads.get(request.table, request.session_id, refresh=request.refresh)
        return self.read_answer(session)

    def read_answer(self, session: OpenReadSession) -> calls.ReadSessionAnswer:
        """Return the response that describes a read session."""
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

    def read_rows(self, request: calls.ReadRows, context: RequestContext) -> StreamAnswer:
        """Return the Arrow stream of one split."""
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
        if session.plan.timestamp_unit is TimeUnit.NANO:
            cut = in_nanoseconds(cut, self._service.settings.forms.nanosecond_status)
        return self._rows(schema, cut, session.schema, context, request.compression)

    def _preview(self, request: calls.Preview, context: RequestContext) -> StreamAnswer:
        schema, batches = self._reads.preview(request)
        table = self._service.catalog.stored_table(request.table)
        cut = rebatch(batches, max_rows=4096)
        return self._rows(schema, cut, table.schema, context, Compression.NONE)

    def _rows(
        self,
        schema: pa.Schema,
        batches: Iterator[pa.RecordBatch],
        columns: TableSchema,
        context: RequestContext,
        coding: Compression,
    ) -> StreamAnswer:
        schema, batches = formed(schema, batches, list(columns), self._service.settings.forms)
        inside, around = row_codings(identify(context.wire), coding)
        chunks = encode_stream(schema, batches, ipc=inside)
        headers = {}
        if around is not Compression.NONE:
            chunks = encoded(chunks, around)
            headers["Content-Encoding"] = HTTP_CODINGS[around]
        return StreamAnswer(
            chunks=chunks, media_type="application/vnd.apache.arrow.stream", headers=headers
        )

    # -- writing ------------------------------------------------------------------------------

    def _create_write(self, request: calls.CreateWriteSession, _context: RequestContext) -> object:
        session = self._writes.create(
            request.table, request.partition, overwrite=request.overwrite, mode=request.write_mode
        )
        return calls.WriteSessionAnswer(session_id=session.session_id, route_token=self._route)

    def _get_write(self, request: calls.GetWriteSession, _context: RequestContext) -> object:
        session = self._writes.get(request.table, request.session_id)
        streams = {s.stream_id: s.version for s in self._writes.streams.closed(session)}
        return calls.WriteSessionStateAnswer(
            streams=streams,
            status=session.status,
            min_uncommitted_staging_id=staging_text(session.table.version + 1),
            route_token=self._route,
        )

    def _commit(self, request: calls.CommitWriteSession, _context: RequestContext) -> object:
        self._writes.commit(
            self._writes.get(request.table, request.session_id), request.streams or None
        )
        return calls.EmptyAnswer()

    def _abort(self, request: calls.AbortWriteSession, _context: RequestContext) -> object:
        self._writes.abort(self._writes.get(request.table, request.session_id))
        return calls.EmptyAnswer()

    def _write_schema(self, request: calls.GetWriteSchema, _context: RequestContext) -> object:
        session = self._writes.get(request.table, request.session_id)
        return calls.WriteSchemaAnswer(schema=_write_schema(session))

    def _create_stream(self, request: calls.CreateWriteStream, _context: RequestContext) -> object:
        session = self._writes.get(request.table, request.session_id)
        stream = self._writes.open_stream(
            session,
            request.stream_id,
            request.stream_version,
            exactly_once=request.exactly_once,
        )
        return self._stream_answer(session, stream)

    def _get_stream(self, request: calls.GetWriteStream, _context: RequestContext) -> object:
        session = self._writes.get(request.table, request.session_id)
        look = self._writes.renewed_stream if request.exactly_once else self._writes.streams.stream
        stream = look(session, request.stream_id, request.stream_version)
        return self._stream_answer(session, stream)

    def _stream_answer(
        self, session: StoredWriteSession, stream: Stream
    ) -> calls.WriteStreamAnswer:
        version = str(session.table.schema_version)
        return calls.WriteStreamAnswer(
            schema=_write_schema(session),
            table_id=str(session.table.table_id),
            schema_version=version,
            latest_schema_version=version,
            access_token=stream.token,
            row_offset=stream.next_row,
            record_count=stream.rows,
            byte_size=stream.bytes,
            status=session.status,
            route_token=self._route,
        )

    def _close_stream(self, request: calls.CloseWriteStream, _context: RequestContext) -> object:
        session = self._writes.get(request.table, request.session_id)
        self._writes.close_stream(session, request.stream_id, request.stream_version)
        return calls.EmptyAnswer()

    def _write_rows(self, request: calls.WriteRows, context: RequestContext) -> object:
        session = self._writes.get(request.table, request.session_id)
        stream = self._writes.streams.stream(session, request.stream_id, request.stream_version)
        stream, staging_id = self._writes.write(
            session,
            stream,
            read_body(context.upload),
            row_offset=request.row_offset,
            token=request.access_token,
        )
        return calls.WriteRowsAnswer(
            row_offset=stream.next_row if request.row_offset is not None else None,
            staging_id=staging_id or None,
            route_token=self._route,
        )

    # -- blobs --------------------------------------------------------------------------------

    def _write_blob(self, request: calls.WriteBlob, context: RequestContext) -> object:
        session = self._blob_target(request)
        if request.column_id not in _write_schema(session).blob_ids.values():
            raise errors.invalid(f"the table has no BLOB column with the id {request.column_id}")
        if session.table.key_columns:  # only frames have a distribution key
            raise errors.invalid("blobs of primary-key tables must be uploaded in frames")
        blob = self._service.blobs.store_one(
            context.upload, request.compression, session.table.name.project
        )
        return calls.WriteBlobAnswer(references=(blob.reference,), size=blob.size, md5=blob.md5)

    def _write_blobs(self, request: calls.WriteBlobBatch, context: RequestContext) -> object:
        session = self._blob_target(request)
        blobs = self._service.blobs.store_batch(
            context.upload,
            request.compression,
            session.table.name.project,
            keys=session.table.key_columns,
        )
        return calls.WriteBlobAnswer(
            references=tuple(b.reference for b in blobs),
            size=sum(b.size for b in blobs),
            batch=True,
        )

    def _blob_target(self, request: calls.WriteBlob | calls.WriteBlobBatch) -> StoredWriteSession:
        # do not require the stream: the vendor's clients upload blobs before they open it
        session = self._writes.get(request.table, request.session_id)
        if session.status != OPEN:
            raise errors.invalid_state(f"the session {session.session_id!r} is no longer open")
        return session

    def _read_blobs(self, request: calls.ReadBlobs, context: RequestContext) -> StreamAnswer:
        references: tuple[BlobReference, ...] = request.references
        blobs = self._service.blobs.find(references)
        for project in sorted({blob.project for blob in blobs}):
            self._service.rights.require(context.access_id, project, Right.READ)
        coding = blob_coding(identify(context.wire), request.compression)
        headers = {}
        if coding is not Compression.NONE:
            headers["Content-Encoding"] = HTTP_CODINGS[coding]
        return StreamAnswer(
            chunks=self._service.blobs.body(blobs, coding),
            media_type="application/octet-stream",
            headers=headers,
        )

    # -- results of SQL -----------------------------------------------------------------------

    def _create_instance(
        self, request: calls.CreateInstanceReadSession, context: RequestContext
    ) -> object:
        instances, limited = self._service.instances, request.enable_limit
        if not limited:
            self._service.rights.require(context.access_id, request.project, Right.READ)
        result = instances.result(request.project, request.instance_id)
        download = instances.open_download(result.instance_id, limited=limited)
        return self._instance_answer(download, limited_result(result) if limited else result)

    def _get_instance(
        self, request: calls.GetInstanceReadSession, _context: RequestContext
    ) -> object:
        result = self._service.instances.downloaded(
            request.session_id, request.project, request.instance_id
        )
        return self._instance_answer(request.session_id, result)

    def _instance_answer(self, download_id: str, result: Any) -> calls.InstanceSessionAnswer:
        return calls.InstanceSessionAnswer(
            download_id=download_id,
            record_count=result.rows,
            schema=result.schema,
            owner=result.owner,
        )

    def _read_instance(self, request: calls.ReadInstance, context: RequestContext) -> StreamAnswer:
        instances, project, instance = self._service.instances, request.project, request.instance_id
        if request.session_id is not None:
            result = instances.downloaded(request.session_id, project, instance)
        else:
            if not request.enable_limit:
                self._service.rights.require(context.access_id, project, Right.READ)
            result = instances.result(project, instance)
            result = limited_result(result) if request.enable_limit else result
        count = result.rows if request.count is None else request.count
        schema, batches = instances.rows(result, request.offset, count, columns=request.columns)
        cut = rebatch(batches, max_rows=4096)
        return self._rows(schema, cut, result.schema, context, request.compression)


def _write_schema(session: StoredWriteSession) -> WriteSchema:
    """Return the columns of the session's rows: data columns, then dynamic partition keys.

    The list includes the system column of a primary-key table, because Java expects it there.
    """
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
            columns=(*whole.schema.columns, *dynamic, *whole.system_columns),
            partition_columns=whole.schema.partition_columns,
        ),
    )
