"""Stream uploads of the tunnel (``docs/protocol.md`` section 9.4).

A session is a streaming write session: the rows of each upload are visible immediately.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.responses import JSONResponse, Response

from odps_nb.errors import SessionExpiredError
from odps_nb.local import errors
from odps_nb.local.rights import Right
from odps_nb.local.routes.table import Asked, At
from odps_nb.local.routes.tunnel_bodies import (
    TABLES,
    quota_of,
    schema_json,
    table_of,
    uploaded,
    whole_spec,
)
from odps_nb.local.routes.tunnel_upserts import counted, server_of
from odps_nb.local.service import Service
from odps_nb.local.store.tables import StoredTable
from odps_nb.local.writing.sessions import OPEN
from odps_nb.local.writing.streams import StoredWriteSession
from odps_nb.schema import TableSchema
from odps_nb.terms import WriteMode
from odps_nb.wire.calls import decode_partition, find_header

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

    def _create(self, asked: Asked) -> dict[str, Any]:
        name, params = table_of(asked), asked.params
        table = self._service.catalog.stored_table(name)
        _check_schema(table, asked)
        if params.get("dynamic_partition", "").lower() == "true":
            spec = table.spec(decode_partition(params.get("partition", "")))
        else:
            spec = whole_spec(table, asked)
            if len(spec) and "create_partition" in params:
                self._service.catalog.ensure_partition(table, spec)
            elif len(spec):
                self._service.catalog.partition(table, spec)
        session = self._writes.create(name, spec, overwrite=False, mode=WriteMode.STREAMING)
        headers = asked.wire.headers  # pyodps sends the first name; Java and Go, the second
        asked_slots = find_header(headers, "odps-slot-num") or find_header(headers, SLOTS) or "1"
        slots = int(asked_slots) if asked_slots.isascii() and asked_slots.isdigit() else 1
        return _state(asked, session, max(1, min(slots, MAX_SLOTS)))

    def _get(self, asked: Asked) -> dict[str, Any]:
        return _state(asked, *self._session(asked))

    def _upload(self, asked: Asked) -> Response:
        session, slots = self._session(asked)
        _check_schema(session.table, asked)
        slot = asked.params.get("slotid", "")
        if slot not in map(str, range(slots)):
            raise errors.invalid(f"slotid is {slot[:40]!r}; it must be 0 to {slots - 1}")
        stream = self._writes.open_stream(session, slot, 1, appends=True)
        self._writes.write(session, stream, counted(asked, uploaded(self._service, session, asked)))
        headers = {
            SLOTS: str(slots),
            "odps-tunnel-routed-server": server_of(asked),
        }
        return JSONResponse({}, headers=headers)

    def _abort(self, asked: Asked) -> dict[str, Any]:
        session, slots = self._session(asked)
        self._writes.end_streaming(session)
        return _state(asked, self._writes.get(session.table.name, session.session_id), slots)

    def _session(self, asked: Asked) -> tuple[StoredWriteSession, int]:
        """Return the session that a request names, and its number of slots."""
        session_id, _, slots = asked.params["uploadid"].partition("-")
        try:
            session = self._writes.get(table_of(asked), session_id)
            if session.mode is WriteMode.STREAMING:
                return session, int(slots)
        except (SessionExpiredError, ValueError):
            pass
        raise SessionExpiredError(
            f"the stream upload session {session_id!r} does not exist or has expired",
            status=404,
            code="StreamSessionNotFound",
        )


def _check_schema(table: StoredTable, asked: Asked) -> None:
    """Raise 404 for a schema version that the table never had, or that is not the latest.

    The code is the one after which stock clients read the latest version and try again.
    """
    said, latest = asked.params.get("schema_version"), str(table.schema_version)
    must_be_latest = asked.params.get("check_latest_schema", "").lower() == "true"
    known = [latest] if must_be_latest else list(map(str, range(table.schema_version + 1)))
    if said is not None and said not in known:
        raise errors.no_such(
            f"the schema version {said[:40]} of {table.name.table} is not the latest version,"
            f" {latest}",
            code="NoSuchSchema",
        )


def _state(asked: Asked, session: StoredWriteSession, slots: int) -> dict[str, Any]:
    server, schema, fixed = server_of(asked), session.table.schema, dict(session.spec)
    if len(fixed) < len(schema.partition_columns):
        # pyodps sends values of data columns only, so the values of partitions must be such columns
        dynamic = (c for c in schema.partition_columns if c.name not in fixed)
        schema = TableSchema(columns=(*schema.columns, *dynamic))
    return {
        "session_name": f"{session.session_id}-{slots}",
        "schema": schema_json(schema),
        "slots": [[slot, server] for slot in range(slots)],
        "status": "normal" if session.status == OPEN else "closed",
        "schema_version": session.table.schema_version,
        **quota_of(asked, "QuotaName"),  # read by pyodps; Java and Go read the other
        **quota_of(asked, "quota_name"),
    }
