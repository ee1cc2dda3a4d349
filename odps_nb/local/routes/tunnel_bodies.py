"""Parts shared by the tunnel's routes: table names, schemas, and bodies of uploads."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from odps_nb.local import errors
from odps_nb.local.routes.table import RequestContext
from odps_nb.local.routes.tunnel_arrow import stored_batches
from odps_nb.local.routes.tunnel_rows import decode_rows
from odps_nb.local.service import Service
from odps_nb.local.store.tables import StoredTable
from odps_nb.local.writing.streams import StoredWriteSession
from odps_nb.schema import Column, TableSchema, explicit_decimals
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.calls import decode_partition, find_header
from odps_nb.wire.codings import MAX_PIECE, decoder, from_http_name
from odps_nb.wire.type_text import format_type

TABLES = (
    "/projects/{project}/tables/{table}",
    "/projects/{project}/schemas/{schema}/tables/{table}",
)


def table_of(context: RequestContext) -> TableName:
    """Return the table that a request's path names."""
    path = context.path
    return TableName(project=path["project"], schema=path.get("schema"), table=path["table"])


def whole_spec(table: StoredTable, context: RequestContext) -> PartitionSpec:
    """Return the partition that a request names; raise 400 unless it is complete."""
    spec = table.spec(decode_partition(context.params.get("partition", "")))
    if len(spec) < len(table.partition_keys):
        raise errors.invalid(
            "You need to specify a partitionspec along with the specified table.",
            code="MissingPartitionSpec",
        )
    return spec


def quota_of(context: RequestContext, member: str) -> dict[str, str]:
    """Return the response member that repeats the request's quota, if it names one."""
    quota = context.params.get("quotaName")
    return {member: quota} if quota else {}


def uploaded(
    service: Service,
    session: StoredWriteSession,
    context: RequestContext,
    extra: Sequence[Column] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an upload, or raise 400 if its body is damaged or truncated.

    The columns are those of the table, the partition columns that the session does not fix, and
    ``extra``.
    """
    coding = find_header(context.wire.headers, "content-encoding")
    fixed, schema = {key for key, _ in session.spec}, session.table.schema
    dynamic = [c for c in schema.partition_columns if c.name not in fixed]
    data = _opened(context.upload, coding, service)
    decode = stored_batches if "arrow" in context.params else decode_rows
    yield from decode([*schema.columns, *dynamic, *extra], data)


def schema_json(schema: TableSchema) -> dict[str, Any]:
    """Return a schema as the JSON object of the tunnel's documents."""

    def listed(columns: Sequence[Column]) -> list[dict[str, Any]]:
        return [
            {
                "name": c.name,
                "type": format_type(explicit_decimals(c.type)),
                "comment": c.comment,
                "nullable": c.nullable,
            }
            for c in columns
        ]

    return {
        "columns": listed(schema.columns),
        "partitionKeys": listed(schema.partition_columns),
    }


def _opened(body: Path, coding: str | None, service: Service) -> memoryview:
    """Return the decoded body, mapped into memory."""
    if coding is None or coding == "identity":
        return _mapped(body)
    path, limit = service.folder.work_file(".decoded"), service.settings.max_body
    try:
        with body.open("rb") as source, path.open("wb") as target:
            for piece in _decoded(source, coding):
                if target.tell() + len(piece) > limit:
                    raise errors.invalid(f"the body decodes to more than {limit} bytes")
                target.write(piece)
        return _mapped(path)
    except zlib.error as error:
        raise errors.malformed(f"the body cannot be decoded: {error}") from None
    finally:
        path.unlink(missing_ok=True)


def _mapped(path: Path) -> memoryview:
    return memoryview(pa.memory_map(str(path)).read_buffer()).cast("B")


def _decoded(source: BinaryIO, coding: str) -> Iterator[bytes]:
    """Yield the decoded body in pieces of at most 1 MiB."""
    if coding == "deflate":
        inflate = zlib.decompressobj()
        while not inflate.eof and (chunk := inflate.unconsumed_tail or source.read(MAX_PIECE)):
            yield inflate.decompress(chunk, MAX_PIECE)
        yield inflate.flush()
        if inflate.unused_data or source.read(1):
            raise errors.malformed("bytes follow the end of the compressed body")
        return
    undo = decoder(from_http_name(coding.replace("x-odps-lz4-frame", "x-lz4-frame")))
    while chunk := source.read(MAX_PIECE):
        yield from undo.pieces(chunk)
    yield from undo.pieces_eof()
