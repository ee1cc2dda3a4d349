"""Version 1 of the Storage API (``docs/protocol.md`` section 12).

Read sessions are those of the newer versions. In a write session, each attempt to upload a block is
a stream, and the commit message of the attempt names the stream.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from odps_nb.local import errors
from odps_nb.local.rights import Right
from odps_nb.local.routes import asgi_io as edge
from odps_nb.local.routes.refused import refusing
from odps_nb.local.routes.storage import StorageActions
from odps_nb.local.routes.surface import Surface
from odps_nb.local.routes.table import ALL, RequestContext, StreamAnswer, To
from odps_nb.local.service import Service
from odps_nb.local.writing.ingest import read_body
from odps_nb.local.writing.streams import StoredWriteSession
from odps_nb.schema import TableSchema
from odps_nb.terms import RowRangeSplit, SessionStatus
from odps_nb.wire import calls
from odps_nb.wire.calls import v1

MAX_BLOCKS = 20_000
MAX_WAIT = 600
"""The longest wait of a commit in seconds (pyodps: live test with 600, mock with 601)."""
_MESSAGE = re.compile(r"(\w+)/(\d+-\d+)/(\d{1,9})", re.ASCII)
_STATUSES = {"ABORTED": SessionStatus.EXPIRED}


def storage_v1_routes(service: Service) -> Iterator[Route]:
    """Yield the route of version 1, which calls the actions of `V1Actions`."""
    surface = Surface(service, xml=False)
    rows = {row.kind: row for row in V1Actions(service).rows()}

    async def answer(request: Request, context: RequestContext) -> Response:
        path = context.wire.path
        upload = path.endswith("/data") and "/sessions/" in path
        if not upload:
            wire = replace(context.wire, body=await edge.body_bytes(request))
            context = replace(context, wire=wire)
        call = v1.decode_v1(context.wire)
        return await surface.answer_value(request, context, call, rows[type(call)], upload=upload)

    handler = refusing(service, "storage-v1") or answer
    yield Route("/api/storage/v1/{path:path}", surface.endpoint(handler), methods=list(ALL))


class V1Actions:
    """The actions of version 1 for one service."""

    def __init__(self, service: Service) -> None:
        self._newer = StorageActions(service)
        self._reads, self._writes = service.read_sessions, service.write_sessions

    def rows(self) -> Iterator[To]:
        yield To(calls.CreateReadSession, Right.READ, self._create_read)
        yield To(calls.GetReadSession, Right.READ, self._get_read)
        yield To(calls.ReadRows, Right.READ, self._read_rows)
        yield To(calls.CreateWriteSession, Right.WRITE, self._create_write)
        yield To(calls.GetWriteSession, Right.WRITE, self._get_write)
        yield To(v1.WriteBlock, Right.WRITE, self._write_block)
        yield To(v1.CommitBlocks, Right.WRITE, self._commit)

    # -- reading ------------------------------------------------------------------------------

    def _create_read(self, request: calls.CreateReadSession, _context: RequestContext) -> Response:
        answer = self._newer.read_answer(self._reads.create(request))
        return _json(v1.encode_read_answer(answer), status=201)

    def _get_read(self, request: calls.GetReadSession, _context: RequestContext) -> Response:
        session = self._reads.get(request.table, request.session_id, refresh=request.refresh)
        return _json(v1.encode_read_answer(self._newer.read_answer(session)))

    def _read_rows(self, request: calls.ReadRows, context: RequestContext) -> StreamAnswer:
        count = self._reads.get(request.table, request.session_id).record_count
        split = request.split
        if isinstance(split, RowRangeSplit) and count is not None and split.offset >= count:
            # the text of issue 51 of the vendor's MaxFrame client
            raise errors.invalid("row_index exceeded total row count", code="InvalidRowRange")
        return self._newer.read_rows(request, context)

    # -- writing ------------------------------------------------------------------------------

    def _create_write(
        self, request: calls.CreateWriteSession, _context: RequestContext
    ) -> Response:
        session = self._writes.create(
            request.table, request.partition, overwrite=request.overwrite, mode=request.write_mode
        )
        return _state(session, status=201)

    def _get_write(self, request: calls.GetWriteSession, _context: RequestContext) -> Response:
        return _state(self._writes.get(request.table, request.session_id))

    def _write_block(
        self, request: v1.WriteBlock, context: RequestContext
    ) -> calls.WriteRowsAnswer:
        if request.block_number >= MAX_BLOCKS:
            raise errors.invalid(
                f"block_number is {request.block_number}; it must be less than {MAX_BLOCKS}"
            )
        session = self._writes.get(request.table, request.session_id)
        name = f"{request.block_number:06d}-{request.attempt_number}"
        version = self._writes.write_whole(session, name, read_body(context.upload))
        return calls.WriteRowsAnswer(commit_message=_message(session, name, version))

    def _commit(self, request: v1.CommitBlocks, _context: RequestContext) -> Response:
        if not 0 <= (request.wait_seconds or 0) <= MAX_WAIT:
            raise errors.invalid(
                f"WaitFlyingWritersTimeoutSeconds is {request.wait_seconds}; it must be 0 to"
                f" {MAX_WAIT}"
            )
        session = self._writes.get(request.table, request.session_id)
        chosen = [_stream_of(session, message) for message in dict.fromkeys(request.messages)]
        blocks = [name.partition("-")[0] for name, _ in chosen]
        if len(set(blocks)) < len(blocks):
            raise errors.invalid("two of the messages name the same block")
        self._writes.commit(session, chosen)
        return _state(self._writes.get(request.table, request.session_id), status=201)


def _state(session: StoredWriteSession, *, status: int = 200) -> Response:
    fixed = {key for key, _ in session.spec}
    schema = session.table.schema
    answer = v1.BlockSessionAnswer(
        session_id=session.session_id,
        status=_STATUSES.get(session.status) or SessionStatus(session.status),
        expires_at=session.expires,
        schema=TableSchema(
            columns=schema.columns,
            partition_columns=tuple(c for c in schema.partition_columns if c.name not in fixed),
        ),
        max_blocks=MAX_BLOCKS,
    )
    return _json(answer.encode(), status=status)


def _message(session: StoredWriteSession, stream_id: str, version: int) -> str:
    """Return an opaque commit message that names one stream of a session."""
    return base64.b64encode(f"{session.session_id}/{stream_id}/{version}".encode()).decode()


def _stream_of(session: StoredWriteSession, message: str) -> tuple[str, int]:
    try:
        match = _MESSAGE.fullmatch(base64.b64decode(message, validate=True).decode("ascii"))
    except ValueError:
        match = None
    if match is None or match[1] != session.session_id:
        raise errors.invalid(f"{message[:80]!r} is not a commit message of this session")
    return match[2], int(match[3])


def _json(encoded: tuple[bytes, dict[str, str]], *, status: int = 200) -> Response:
    content, headers = encoded
    return Response(content, status_code=status, headers=headers, media_type="application/json")
