"""Routes of the tunnel: table downloads, table uploads and SQL results.

See ``docs/protocol.md`` section 9.4.

A download is a read session. An upload is a write session in which each block is a stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from odps_nb.errors import SessionExpiredError
from odps_nb.local import errors
from odps_nb.local.reading.plan import find_column
from odps_nb.local.reading.row_stream import encode_stream, rebatch
from odps_nb.local.rights import Right
from odps_nb.local.routes.lists import number
from odps_nb.local.routes.refused import refusing
from odps_nb.local.routes.surface import Surface
from odps_nb.local.routes.table import ALL, At, RequestContext, StreamAnswer
from odps_nb.local.routes.tunnel_arrow import encode_arrow, preview_rows, wire_batches
from odps_nb.local.routes.tunnel_bodies import (
    TABLES,
    quota_of,
    schema_json,
    table_of,
    uploaded,
    whole_spec,
)
from odps_nb.local.routes.tunnel_rows import encode_rows
from odps_nb.local.routes.tunnel_upserts import TunnelUpserts, counted, server_of
from odps_nb.local.service import Service
from odps_nb.local.store.tables import StoredTable
from odps_nb.local.writing.sessions import COMMITTED, OPEN
from odps_nb.local.writing.streams import StoredWriteSession
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import RowRangeSplit, SplitMode, WriteMode
from odps_nb.wire.calls import (
    CreateReadSession,
    Preview,
    decode_partition,
    find_header,
)
from odps_nb.wire.tunnel.calls import MAX_BLOCKS

_RANGE = re.compile(r"\((\d{1,18}),(\d{1,18})\)", re.ASCII)
ROWS_TYPE = "application/octet-stream"
BATCH_ROWS = 4096


_INSTANCES = ("/projects/{project}/instances/{instance}",)


def tunnel_routes(service: Service) -> Iterator[Route]:
    """Yield the routes of the tunnel, whose paths begin with ``/projects``, without ``/api``."""
    surface, instead = Surface(service, xml=False), refusing(service, "tunnel")
    for part in (TunnelUpserts(service), TunnelStreams(service), Tunnel(service)):
        yield from surface.routes(part.rows(), instead=instead)


class Tunnel:
    """Handles requests of the tunnel."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reads, self._writes = service.read_sessions, service.write_sessions

    def rows(self) -> Iterator[At]:
        downloads, download = frozenset({"downloads"}), frozenset({"downloadid"})
        uploads, upload = frozenset({"uploads"}), frozenset({"uploadid"})
        read, write = Right.READ, Right.WRITE
        yield At([f"{path}/preview" for path in TABLES], read, self._preview, methods=ALL)
        yield At(TABLES, read, self._open_download, methods=ALL, keys=downloads)
        yield At(TABLES, read, self._download, methods=ALL, keys=download)
        yield At(TABLES, write, self._open_upload, methods=ALL, keys=uploads)
        yield At(TABLES, write, self._block, methods=["PUT"], keys=upload, upload=True)
        yield At(TABLES, write, self._commit, methods=["POST"], keys=upload)
        yield At(TABLES, write, self._upload, methods=ALL, keys=upload)
        yield At(_INSTANCES, Right.QUERY, self._open_result, methods=ALL, keys=downloads)
        yield At(_INSTANCES, Right.QUERY, self._result, methods=ALL, keys=download)

    # -- downloads ----------------------------------------------------------------------------

    def _open_download(self, context: RequestContext) -> dict[str, Any]:
        name = table_of(context)
        table = self._service.catalog.stored_table(name)
        spec = whole_spec(table, context)
        session = self._reads.create(
            CreateReadSession(
                table=name,
                data_columns=tuple(c.name for c in table.schema.columns),
                partitions=(spec,) if len(spec) else (),
                split_mode=SplitMode.ROW_OFFSET,
            )
        )
        return self._download_state(context, session.session_id)

    def _download_state(self, context: RequestContext, session_id: str) -> dict[str, Any]:
        name = table_of(context)
        session, table = self._reads.get(name, session_id), self._service.catalog.stored_table(name)
        parts = table.schema.partition_columns  # clients append these values to the rows
        schema = replace(session.schema, partition_columns=parts)
        return _download_json(context, session_id, session.record_count, schema)

    def _download(self, context: RequestContext) -> StreamAnswer | dict[str, Any]:
        name, params = table_of(context), context.params
        if "data" not in params:
            return self._download_state(context, params["downloadid"])
        session = self._reads.get(name, params["downloadid"])
        start, count = _row_range(params)
        columns = _columns(params, session.schema)
        _, batches = self._reads.rows(
            session, RowRangeSplit(start, count), columns=[c.name for c in columns]
        )
        return _stream(columns, batches, params)

    def _preview(self, context: RequestContext) -> StreamAnswer:
        params = context.params
        name = table_of(context)
        has_limit = params.get("limit") != "-1"  # -1: all rows (pyodps and Go)
        request = Preview(
            table=name,
            limit=(number(context, "limit", 0) or None) if has_limit else None,
            partition=decode_partition(params["partition"]) if params.get("partition") else None,
            columns=tuple(c for c in params.get("columns", "").split(",") if c),
        )
        schema, batches = self._reads.preview(request, must_exist=True)
        table = self._service.catalog.stored_table(name)
        columns = [find_column(table.schema, field.name) for field in schema]
        schema, batches = preview_rows(columns, schema, batches)
        cut = rebatch(batches, max_rows=BATCH_ROWS)
        return StreamAnswer(chunks=encode_stream(schema, cut), media_type=ROWS_TYPE)

    # -- uploads ------------------------------------------------------------------------------

    def _open_upload(self, context: RequestContext) -> dict[str, Any]:
        name, params = table_of(context), context.params
        table = self._service.catalog.stored_table(name)
        spec = table.spec(decode_partition(params.get("partition", "")))
        if params.get("create_partition", "").lower() == "true":
            self._service.catalog.ensure_partition(table, spec)
        elif len(spec):
            self._service.catalog.partition(table, spec)
        overwrite = params.get("overwrite", "").lower() == "true"
        session = self._writes.create(name, spec, overwrite=overwrite, mode=WriteMode.BATCH)
        return self._upload_state(session)

    def _commit(self, context: RequestContext) -> dict[str, Any]:
        self._writes.commit(self._session(context))
        return self._upload(context)

    def _upload(self, context: RequestContext) -> dict[str, Any]:
        return self._upload_state(self._session(context))

    def _session(self, context: RequestContext) -> StoredWriteSession:
        return self._writes.get(table_of(context), context.params["uploadid"])

    def _upload_state(self, session: StoredWriteSession) -> dict[str, Any]:
        blocks = [int(s.stream_id) for s in self._writes.streams.closed(session)]
        return {
            "UploadID": session.session_id,
            "Status": "closed" if session.status == COMMITTED else "normal",
            "Schema": schema_json(session.table.schema),
            "UploadedBlockList": [{"BlockID": block} for block in blocks],
            "MaxFieldSize": 8 * 1024 * 1024,
        }

    def _block(self, context: RequestContext) -> dict[str, Any]:
        session, block = self._session(context), context.params.get("blockid", "")
        if not re.fullmatch("[0-9]{1,18}", block) or int(block) >= MAX_BLOCKS:
            raise errors.invalid(f"blockid is {block[:40]!r}; it must be 0 to {MAX_BLOCKS - 1}")
        batches = uploaded(self._service, session, context)
        self._writes.write_whole(session, str(int(block)), batches)
        return {}

    # -- results ------------------------------------------------------------------------------

    def _open_result(self, context: RequestContext) -> StreamAnswer | dict[str, Any]:
        instances, (project, instance_id) = self._service.instances, _instance(context)
        instances.result(project, instance_id)
        if not instances.get(project, instance_id).is_query:
            # for this code, the vendor's client falls back to reading the result as text
            raise errors.invalid(
                "only the rows of a query can be downloaded", code="InstanceTypeNotSupported"
            )
        limited = "instance_tunnel_limit_enabled" in context.params  # sent by pyodps
        if not limited:
            self._service.rights.require(context.access_id, project, Right.READ)
        return self._rows_of(context, instances.open_download(instance_id, limited=limited))

    def _result(self, context: RequestContext) -> StreamAnswer | dict[str, Any]:
        return self._rows_of(context, context.params["downloadid"])

    def _rows_of(self, context: RequestContext, download: str) -> StreamAnswer | dict[str, Any]:
        instances, params = self._service.instances, context.params
        result = instances.downloaded(download, *_instance(context))
        if "data" not in params:
            return _download_json(context, download, result.rows, result.schema)
        start, count = _row_range(params)
        columns = _columns(params, result.schema)
        _, batches = instances.rows(result, start, count, columns=[c.name for c in columns])
        return _stream(columns, batches, params, times=True)


def _instance(context: RequestContext) -> tuple[str, str]:
    return context.path["project"], context.path["instance"]


def _stream(
    columns: Sequence[Column],
    batches: Iterator[pa.RecordBatch],
    params: dict[str, str],
    *,
    times: bool = False,
) -> StreamAnswer:
    if "arrow" in params:
        chunks = encode_arrow(wire_batches(columns, batches, times=times))
    else:
        chunks = encode_rows(columns, batches)
    return StreamAnswer(chunks=chunks, media_type=ROWS_TYPE)


def _row_range(params: dict[str, str]) -> tuple[int, int]:
    match = _RANGE.fullmatch(params.get("rowrange", ""))
    if match is None:
        raise errors.invalid("rowrange must have the form (start,count)", code="InvalidRowRange")
    return int(match[1]), int(match[2])


def _columns(params: dict[str, str], schema: TableSchema) -> tuple[Column, ...]:
    """Return the requested columns in the order of the stream's fields.

    Row streams have the requested order (record readers of pyodps and Java). Arrow streams have
    the order of the table (Arrow reader of pyodps).
    """
    names = [name for name in params.get("columns", "").split(",") if name]
    if not names:
        return schema.columns
    requested = tuple(find_column(schema, name) for name in names)
    if len(set(requested)) < len(requested):
        raise errors.invalid(f"a column is requested twice: {', '.join(names)[:100]}")
    if "arrow" in params:
        return tuple(column for column in schema.columns if column in requested)
    return requested


def _download_json(
    context: RequestContext, download: str, rows: int | None, schema: TableSchema
) -> dict[str, Any]:
    return {
        "DownloadID": download,
        "Status": "normal",
        "RecordCount": rows,
        "Schema": schema_json(schema),
        **quota_of(context, "QuotaName"),
    }


MAX_SLOTS = 20
SLOTS = "odps-tunnel-slot-num"


class TunnelStreams:
    """Handles requests of stream uploads."""

    def __init__(self, service: Service) -> None:
        self._service, self._writes = service, service.write_sessions

    def rows(self) -> Iterator[At]:
        paths, write = [f"{path}/streams" for path in TABLES], Right.WRITE
        existing = frozenset({"uploadid"})
        yield At(paths, write, self._upload, methods=["PUT"], keys=existing, upload=True)
        yield At(paths, write, self._abort, methods=["POST"], keys=existing)
        yield At(paths, write, self._get, methods=["GET"], keys=existing)
        yield At(paths, write, self._create, methods=["POST"])

    def _create(self, context: RequestContext) -> dict[str, Any]:
        name, params = table_of(context), context.params
        table = self._service.catalog.stored_table(name)
        _check_schema(table, context)
        if params.get("dynamic_partition", "").lower() == "true":
            spec = table.spec(decode_partition(params.get("partition", "")))
        else:
            spec = whole_spec(table, context)
            if len(spec) and "create_partition" in params:
                self._service.catalog.ensure_partition(table, spec)
            elif len(spec):
                self._service.catalog.partition(table, spec)
        session = self._writes.create(name, spec, overwrite=False, mode=WriteMode.STREAMING)
        headers = context.wire.headers  # pyodps sends the first name; Java and Go, the second
        requested_slots = (
            find_header(headers, "odps-slot-num") or find_header(headers, SLOTS) or "1"
        )
        slots = (
            int(requested_slots) if requested_slots.isascii() and requested_slots.isdigit() else 1
        )
        return _state(context, session, max(1, min(slots, MAX_SLOTS)))

    def _get(self, context: RequestContext) -> dict[str, Any]:
        return _state(context, *self._session(context))

    def _upload(self, context: RequestContext) -> Response:
        session, slots = self._session(context)
        _check_schema(session.table, context)
        slot = context.params.get("slotid", "")
        if slot not in map(str, range(slots)):
            raise errors.invalid(f"slotid is {slot[:40]!r}; it must be 0 to {slots - 1}")
        stream = self._writes.open_stream(session, slot, 1, appends=True)
        self._writes.write(
            session, stream, counted(context, uploaded(self._service, session, context))
        )
        headers = {
            SLOTS: str(slots),
            "odps-tunnel-routed-server": server_of(context),
        }
        return JSONResponse({}, headers=headers)

    def _abort(self, context: RequestContext) -> dict[str, Any]:
        session, slots = self._session(context)
        self._writes.end_streaming(session)
        return _state(context, self._writes.get(session.table.name, session.session_id), slots)

    def _session(self, context: RequestContext) -> tuple[StoredWriteSession, int]:
        """Return the session that a request names, and its number of slots."""
        session_id, _, slots = context.params["uploadid"].partition("-")
        try:
            session = self._writes.get(table_of(context), session_id)
            if session.mode is WriteMode.STREAMING:
                return session, int(slots)
        except (SessionExpiredError, ValueError):
            pass
        raise SessionExpiredError(
            f"the stream upload session {session_id!r} does not exist or has expired",
            status=404,
            code="StreamSessionNotFound",
        )


def _check_schema(table: StoredTable, context: RequestContext) -> None:
    """Raise 404 for a schema version that the table never had, or that is not the latest.

    After this error, stock clients read the latest version and retry.
    """
    requested, latest = context.params.get("schema_version"), str(table.schema_version)
    must_be_latest = context.params.get("check_latest_schema", "").lower() == "true"
    known = [latest] if must_be_latest else list(map(str, range(table.schema_version + 1)))
    if requested is not None and requested not in known:
        raise errors.no_such(
            f"the schema version {requested[:40]} of {table.name.table} is not the latest version,"
            f" {latest}",
            code="NoSuchSchema",
        )


def _state(context: RequestContext, session: StoredWriteSession, slots: int) -> dict[str, Any]:
    server, schema, fixed = server_of(context), session.table.schema, dict(session.spec)
    if len(fixed) < len(schema.partition_columns):
        # pyodps sends only data columns, so partition values must be among them
        dynamic = (c for c in schema.partition_columns if c.name not in fixed)
        schema = TableSchema(columns=(*schema.columns, *dynamic))
    return {
        "session_name": f"{session.session_id}-{slots}",
        "schema": schema_json(schema),
        "slots": [[slot, server] for slot in range(slots)],
        "status": "normal" if session.status == OPEN else "closed",
        "schema_version": session.table.schema_version,
        **quota_of(context, "QuotaName"),  # pyodps reads this member; Java and Go read the other
        **quota_of(context, "quota_name"),
    }
