"""Upsert sessions of the tunnel, for tables with a primary key (``docs/protocol.md`` section 9.4).

A session is a write session in which each bucket is a stream. The client chooses a row's bucket by
a hash of its key, so the rows of a key are applied in the order of its bucket's uploads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from odps_nb.errors import SessionExpiredError
from odps_nb.local import errors
from odps_nb.local.rights import Right
from odps_nb.local.routes.table import At, RequestContext
from odps_nb.local.routes.tunnel_bodies import (
    TABLES,
    quota_of,
    schema_json,
    table_of,
    uploaded,
    whole_spec,
)
from odps_nb.local.service import Service
from odps_nb.local.store.tables import OPERATION, StoredTable
from odps_nb.local.writing.partial import UPDATED, check_places, is_partial
from odps_nb.local.writing.sessions import ABORTED, COMMITTED, OPEN
from odps_nb.local.writing.streams import StoredWriteSession
from odps_nb.schema import ArrayType, Column, PrimitiveType, TypeCode
from odps_nb.terms import WriteMode

BUCKETS = 16
"""Number of buckets of a table without the property ``write.bucket.num``."""
PARTIAL = "acid.partial.fields.update.enable"
_BIGINT = PrimitiveType(TypeCode.BIGINT)
_DROPPED = ("__version", "__app_version", "__key_cols")
_EXTRA = (
    Column(name="__version", type=_BIGINT),
    Column(name="__app_version", type=_BIGINT),
    OPERATION,
    Column(name="__key_cols", type=ArrayType(_BIGINT)),
    UPDATED,
)
_STATUS = {OPEN: "normal", COMMITTED: "committed", ABORTED: "aborted"}


class TunnelUpserts:
    """Handles requests of upsert sessions."""

    def __init__(self, service: Service) -> None:
        self._service, self._writes = service, service.write_sessions

    def rows(self) -> Iterator[At]:
        paths, write = [f"{path}/upserts" for path in TABLES], Right.WRITE
        existing = frozenset({"upsertid"})
        yield At(paths, write, self._upload, methods=["PUT"], keys=existing, upload=True)
        yield At(paths, write, self._commit, methods=["POST"], keys=existing)
        yield At(paths, write, self._abort, methods=["DELETE"], keys=existing)
        yield At(paths, write, self._get, methods=["GET"], keys=existing)
        yield At(paths, write, self._create, methods=["POST"])

    def _create(self, context: RequestContext) -> dict[str, Any]:
        name = table_of(context)
        table = self._service.catalog.stored_table(name)
        if not table.key_columns:
            raise errors.invalid(f"{name.table} has no primary key, which upserts require")
        spec = whole_spec(table, context)
        if len(spec):
            self._service.catalog.partition(table, spec)
        session = self._writes.create(name, spec, overwrite=False, mode=WriteMode.BATCH)
        slots = context.params.get("slotnum", "1")
        if not (slots.isascii() and slots.isdigit() and int(slots)):
            raise errors.invalid(f"slotnum is {slots[:40]!r}; it must be a number of at least 1")
        return _state(context, session, min(int(slots), _buckets(table)))

    def _get(self, context: RequestContext) -> dict[str, Any]:
        return _state(context, *self._session(context))

    def _upload(self, context: RequestContext) -> dict[str, Any]:
        session, _ = self._session(context)
        bucket = context.params.get("bucketid", "")
        buckets = [str(number) for number in range(_buckets(session.table))]
        if bucket not in buckets:
            raise errors.invalid(f"bucketid is {bucket[:40]!r}; it must be 0 to {buckets[-1]}")
        stream = self._writes.open_stream(session, bucket, 1, appends=True)
        batches = counted(context, uploaded(self._service, session, context, _EXTRA))
        self._writes.write(session, stream, _stored(session.table, batches), partial=True)
        return {}

    def _commit(self, context: RequestContext) -> dict[str, Any]:
        session, slots = self._session(context)
        for bucket in range(_buckets(session.table)):
            if self._writes.streams.newest(session, str(bucket)) is not None:
                self._writes.close_stream(session, str(bucket), 1)
        self._writes.commit(session)
        return _state(context, self._writes.get(session.table.name, session.session_id), slots)

    def _abort(self, context: RequestContext) -> dict[str, Any]:
        self._writes.abort(self._session(context)[0])
        return {}

    def _session(self, context: RequestContext) -> tuple[StoredWriteSession, int]:
        """Return the session that a request names, and its number of slots."""
        session_id, _, slots = context.params["upsertid"].partition("-")
        try:
            return self._writes.get(table_of(context), session_id), int(slots)
        except (SessionExpiredError, ValueError):
            raise SessionExpiredError(
                f"the upsert session {session_id!r} does not exist or has expired",
                status=404,
                code="UpsertSessionNotFound",
            ) from None


def server_of(context: RequestContext) -> str:
    """Return host and port of this service as the client knows them."""
    return urlsplit(context.base).netloc


def counted(context: RequestContext, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches; raise 400 at the end if the request declares another number of rows."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        yield batch
    declared = context.params.get("record_count", str(rows))
    if declared != str(rows):
        raise errors.malformed(
            f"record_count is {declared[:40]}, but {rows} rows were received; send them again"
        )


def _stored(table: StoredTable, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield uploaded rows with the columns of stored parts; raise 400 for invalid operations."""
    enabled = table.properties.get(PARTIAL, "").lower() == "true"
    for batch in batches:
        operations = batch.column(OPERATION.name)
        if set(operations.unique().to_pylist()) - {ord("U"), ord("D")}:
            raise errors.invalid("__operation must be 85 (upsert) or 68 (delete) in each row")
        updated = batch.column(UPDATED.name)
        check_places(updated, len(table.schema.columns), enabled=enabled)
        dropped = [*_DROPPED, *([] if is_partial(updated).true_count else [UPDATED.name])]
        yield batch.drop_columns(dropped)


def _buckets(table: StoredTable) -> int:
    text = table.properties.get("write.bucket.num", "")
    return int(text) if text.isascii() and text.isdigit() and int(text) else BUCKETS


def _schema_json(table: StoredTable) -> dict[str, Any]:
    """Return the schema with column positions, which Java writes to ``__value_cols``."""
    schema = schema_json(table.schema)
    columns = [column | {"column_id": n} for n, column in enumerate(schema["columns"])]
    return schema | {"columns": columns}


def _state(context: RequestContext, session: StoredWriteSession, slots: int) -> dict[str, Any]:
    table, server = session.table, server_of(context)
    buckets = range(_buckets(table))
    return {
        "id": f"{session.session_id}-{slots}",
        "schema": _schema_json(table),
        "hash_key": list(table.key_columns),
        "hasher": "default",
        "slots": [
            {"slot_id": str(slot), "buckets": list(buckets[slot::slots]), "worker_addr": server}
            for slot in range(slots)
        ],
        "status": _STATUS[session.status],
        "enable_partial_update": table.properties.get(PARTIAL, "").lower() == "true",
        **quota_of(context, "quota_name"),
    }
