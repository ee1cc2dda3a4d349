"""The tunnel over HTTP: table downloads and uploads, results of SQL.

A download is a read session, an upload a write session whose blocks are streams: what is said
about snapshots and commits there holds here. ``docs/protocol.md`` section 9.4.
"""

from __future__ import annotations

import json
import mmap
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response

from odps_nb.errors import ProtocolError
from odps_nb.local import faults
from odps_nb.local.reading.arrow_types import arrow_schema
from odps_nb.local.reading.row_stream import encode_stream, rebatch
from odps_nb.local.routes.storage_actions import StreamAnswer
from odps_nb.local.routes.tunnel_arrow import decode_arrow, encode_arrow
from odps_nb.local.routes.tunnel_rows import decode_rows, encode_rows
from odps_nb.local.server import asgi_io as edge
from odps_nb.local.service import Service
from odps_nb.local.store.tables import Table
from odps_nb.local.writing.sessions import COMMITTED
from odps_nb.local.writing.streams import WriteSession
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import PartitionSpec, RowRangeSplit, SplitMode, TableName, WriteMode
from odps_nb.wire.calls import (
    CreateReadSession,
    Preview,
    WireRequest,
    decode_partition,
    find_header,
)
from odps_nb.wire.codings import decoder, from_http_name
from odps_nb.wire.type_text import format_type

__all__ = ["TunnelRoutes", "is_tunnel"]

_TABLE = re.compile(r"/projects/([^/]+)(?:/schemas/([^/]+))?/tables/([^/]+)")
_PREVIEW = re.compile(_TABLE.pattern + "/preview")
_INSTANCE = re.compile(r"/projects/([^/]+)/instances/([\w-]{1,128})", re.ASCII)
_RANGE = re.compile(r"\((\d{1,18}),(\d{1,18})\)", re.ASCII)
_TUNNEL_KEYS = {"downloads", "downloadid", "uploads", "uploadid"}
ROWS_TYPE = "application/octet-stream"
BATCH_ROWS = 4096


def is_tunnel(wire: WireRequest) -> bool:
    """Whether a request outside ``/api`` is one of the tunnel's."""
    if _PREVIEW.fullmatch(wire.path):
        return True
    return not _TUNNEL_KEYS.isdisjoint(key for key, _ in wire.params)


class TunnelRoutes:
    """Handles ``/projects/…`` without ``/api``."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._reads, self._writes = service.read_sessions, service.write_sessions

    async def handle(self, request: Request, wire: WireRequest, access_id: str) -> Response:
        """Answer one request; errors travel up to become documents."""
        pool, body = self._service.workers, None
        if wire.method == "PUT":
            limit = self._service.settings.max_body
            body = await edge.body_file(request, self._service.folder, pool, limit)
        else:
            await edge.body_bytes(request)
        try:
            answer = await edge.run(pool, self._answer, wire, body)
        finally:
            if body is not None:
                body.unlink(missing_ok=True)
        if isinstance(answer, StreamAnswer):
            streamed = edge.StreamedResponse(answer.chunks, pool, media_type=answer.media_type)
            return await streamed.prepare()
        return Response(json.dumps(answer), media_type="application/json")

    def _answer(self, wire: WireRequest, body: Path | None) -> StreamAnswer | dict[str, Any]:
        params = dict(wire.params)
        table = _TABLE.fullmatch(wire.path)
        if table is not None:
            name = TableName(project=table[1], schema=table[2], table=table[3])
            return self._table(wire, name, params, body)
        preview = _PREVIEW.fullmatch(wire.path)
        if preview is not None:
            name = TableName(project=preview[1], schema=preview[2], table=preview[3])
            return self._preview(name, params)
        instance = _INSTANCE.fullmatch(wire.path)
        if instance is None:
            raise faults.no_such(f"there is nothing at {wire.path}")
        return self._instance(instance[1], instance[2], params)

    def _table(
        self, wire: WireRequest, name: TableName, params: dict[str, str], body: Path | None
    ) -> StreamAnswer | dict[str, Any]:
        if "downloads" in params:
            return self._open_download(name, params)
        if "downloadid" in params:
            return self._download(name, params)
        if "uploads" in params:
            return self._open_upload(name, params)
        session = self._writes.get(name, params["uploadid"])
        if wire.method == "PUT" and body is not None:
            return self._block(session, params, body, find_header(wire.headers, "content-encoding"))
        if wire.method == "POST":
            self._writes.commit(session)
        return self._upload_state(name, session.session_id)

    # -- downloads ----------------------------------------------------------------------------

    def _open_download(self, name: TableName, params: dict[str, str]) -> dict[str, Any]:
        table = self._service.catalog.table(name)
        spec = decode_partition(params.get("partition", ""))
        session = self._reads.create(
            CreateReadSession(
                table=name,
                data_columns=tuple(c.name for c in table.schema.columns),
                partitions=(spec,) if len(spec) else (),
                split_mode=SplitMode.ROW_OFFSET,
            )
        )
        return self._download_state(name, session.session_id)

    def _download_state(self, name: TableName, session_id: str) -> dict[str, Any]:
        session = self._reads.get(name, session_id)
        return {
            "DownloadID": session_id,
            "Status": "normal",
            "RecordCount": session.record_count,
            "Schema": _schema_json(session.schema),
        }

    def _download(self, name: TableName, params: dict[str, str]) -> StreamAnswer | dict[str, Any]:
        if "data" not in params:
            return self._download_state(name, params["downloadid"])
        session = self._reads.get(name, params["downloadid"])
        start, count = _row_range(params)
        wanted = _columns(params, session.schema)
        _, batches = self._reads.rows(
            session, RowRangeSplit(start, count), columns=[c.name for c in wanted]
        )
        return _stream(wanted, batches, params)

    def _preview(self, name: TableName, params: dict[str, str]) -> StreamAnswer:
        limit = params.get("limit", "")
        request = Preview(
            table=name,
            limit=(int(limit) or None) if limit.isascii() and limit.isdigit() else None,
            partition=decode_partition(params["partition"]) if params.get("partition") else None,
            columns=tuple(c for c in params.get("columns", "").split(",") if c),
        )
        schema, batches = self._reads.preview(request, must_exist=True)
        cut = rebatch(batches, max_rows=BATCH_ROWS)
        return StreamAnswer(chunks=encode_stream(schema, cut), media_type=ROWS_TYPE)

    # -- uploads ------------------------------------------------------------------------------

    def _open_upload(self, name: TableName, params: dict[str, str]) -> dict[str, Any]:
        table = self._service.catalog.table(name)
        spec = table.spec(decode_partition(params.get("partition", "")))
        if params.get("create_partition", "").lower() == "true":
            self._service.catalog.ensure_partition(table, spec)
        elif len(spec):
            self._service.catalog.partition(table, spec)
        overwrite = params.get("overwrite", "").lower() == "true"
        session = self._writes.create(name, spec, overwrite=overwrite, mode=WriteMode.BATCH)
        return self._upload_state(name, session.session_id)

    def _upload_state(self, name: TableName, session_id: str) -> dict[str, Any]:
        session = self._writes.get(name, session_id)
        blocks = [int(s.stream_id) for s in self._writes.closed_streams(session)]
        return {
            "UploadID": session_id,
            "Status": "closed" if session.status == COMMITTED else "normal",
            "Schema": _schema_json(session.table.schema),
            "UploadedBlockList": [{"BlockID": block} for block in blocks],
            "MaxFieldSize": 8 * 1024 * 1024,
        }

    def _block(
        self, session: WriteSession, params: dict[str, str], body: Path, coding: str | None
    ) -> dict[str, Any]:
        block = params.get("blockid", "")
        if not (block.isascii() and block.isdigit()):
            raise faults.invalid("blockid is not a number")
        version = self._writes.newest_version(session, block) + 1
        stream = self._writes.open_stream(session, block, version, exactly_once=False)
        batches = self._uploaded(session.table, session.spec, params, body, coding)
        self._writes.write(session, stream, batches)
        self._writes.close_stream(session, block, version)
        return {}

    def _uploaded(
        self,
        table: Table,
        spec: PartitionSpec,
        params: dict[str, str],
        body: Path,
        coding: str | None,
    ) -> Iterator[pa.RecordBatch]:
        fixed = {key for key, _ in spec}
        dynamic = [c for c in table.schema.partition_columns if c.name not in fixed]
        columns = [*table.schema.columns, *dynamic]
        with closing(_opened(body, coding, self._service)) as data:
            view = memoryview(data)
            try:
                if "arrow" in params:
                    yield from decode_arrow(arrow_schema(columns), view)
                else:
                    yield from decode_rows(columns, view)
            finally:
                view.release()

    # -- results ------------------------------------------------------------------------------

    def _instance(
        self, project: str, instance_id: str, params: dict[str, str]
    ) -> StreamAnswer | dict[str, Any]:
        instances = self._service.instances
        result = instances.result(project, instance_id)
        if "downloads" in params:
            if not instances.get(project, instance_id).is_query:
                # what the stock client takes as the sign to read the text of the result instead
                raise faults.invalid(
                    "only the rows of a query can be downloaded", code="InstanceTypeNotSupported"
                )
            download = instances.open_download(instance_id)
        else:
            download = params["downloadid"]
            instances.check_download(download, instance_id)
        if "data" not in params:
            return {
                "DownloadID": download,
                "Status": "normal",
                "RecordCount": result.rows,
                "Schema": _schema_json(result.schema),
            }
        start, count = _row_range(params)
        wanted = _columns(params, result.schema)
        _, batches = instances.rows(result, start, count, columns=[c.name for c in wanted])
        return _stream(wanted, batches, params)


def _stream(
    columns: Sequence[Column], batches: Iterator[pa.RecordBatch], params: dict[str, str]
) -> StreamAnswer:
    if "arrow" in params:
        return StreamAnswer(chunks=encode_arrow(batches), media_type=ROWS_TYPE)
    return StreamAnswer(chunks=encode_rows(columns, batches), media_type=ROWS_TYPE)


def _row_range(params: dict[str, str]) -> tuple[int, int]:
    match = _RANGE.fullmatch(params.get("rowrange", ""))
    if match is None:
        raise faults.invalid("rowrange is not (start,count)", code="InvalidRowRange")
    return int(match[1]), int(match[2])


def _columns(params: dict[str, str], schema: TableSchema) -> tuple[Column, ...]:
    """Return the columns wanted, in the order of the table: rows number them through."""
    names = [name for name in params.get("columns", "").split(",") if name]
    if not names:
        return schema.columns
    for name in names:
        if schema.find(name) is None:
            raise faults.invalid(f"there is no column {name!r}")
    wanted = {name.casefold() for name in names}
    return tuple(c for c in schema.columns if c.name.casefold() in wanted)


def _schema_json(schema: TableSchema) -> dict[str, Any]:
    def listed(columns: Sequence[Column]) -> list[dict[str, Any]]:
        return [
            {
                "name": c.name,
                "type": format_type(c.type),
                "comment": c.comment,
                "nullable": c.nullable,
            }
            for c in columns
        ]

    return {
        "columns": listed(schema.columns),
        "partitionKeys": listed(schema.partition_columns),
    }


def _opened(body: Path, coding: str | None, service: Service) -> Any:
    """Return the body, decoded, as a buffer that can be closed."""
    path = body
    if coding is not None and coding != "identity":
        path = service.folder.work_file(".decoded")
        try:
            with body.open("rb") as source, path.open("wb") as target:
                for chunk in _decoded(source, coding):
                    target.write(chunk)
        except (ProtocolError, zlib.error) as error:
            path.unlink(missing_ok=True)
            raise faults.malformed(f"the body cannot be decoded: {error}") from None
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            raise faults.malformed("the body is empty")
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if path is not body:
        path.unlink()
    return data


def _decoded(source: Any, coding: str) -> Iterator[bytes]:
    if coding == "deflate":
        inflate = zlib.decompressobj()
        while chunk := source.read(1 << 20):
            yield inflate.decompress(chunk)
        yield inflate.flush()
        return
    undo = decoder(from_http_name(coding))
    while chunk := source.read(1 << 20):
        yield undo.feed(chunk)
    yield undo.feed_eof()
