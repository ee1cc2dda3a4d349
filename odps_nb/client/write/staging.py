"""Writes by the tunnel through a staging table, with one SQL statement as the commit.

An upload session of the tunnel commits one partition, and commits every block that any process has
sent. A staging table therefore receives the rows: each stream uploads to its own partition of this
table, and one statement inserts (or merges) the rows of exactly the named streams. So a write to
several partitions, an upsert, and a write by several processes are all or nothing. See
``docs/decisions/tunnel.md``.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, Self

import numpy as np
import pyarrow as pa

from odps_nb.client.calls.attempts import Attempts
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.catalog import fetch_primary_key, fetch_table, table_exists
from odps_nb.client.sql.definitions import (
    TableOptions,
    create_table,
    drop_table,
    quoted,
    quoted_column,
)
from odps_nb.client.sql.query import run_sql
from odps_nb.client.sql.settings import schema_settings
from odps_nb.client.write.base import RowUploads, WriteSession
from odps_nb.client.write.blocks import (
    BlockNumbers,
    TunnelStream,
    UploadRef,
    commit_upload,
    not_resumable,
)
from odps_nb.client.write.direct import check_target
from odps_nb.client.write.operations import (
    DELETE,
    OPERATION,
    NewSession,
    RowPart,
    SessionKind,
    StreamReceipt,
    WriteSessionRef,
)
from odps_nb.errors import (
    ArgumentError,
    ConflictError,
    NotFoundError,
    OdpsNbError,
    ProtocolError,
    ServerFaultError,
    TransportError,
)
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import Compression, PartitionSpec, SessionStatus, TableName
from odps_nb.wire.calls import WriteSessionStateAnswer
from odps_nb.wire.schema_json import WriteSchema
from odps_nb.wire.tunnel.calls import MAX_BLOCKS, OpenUpload, TableOf
from odps_nb.wire.type_text import format_text

STEM = "odps_nb_staging_"
STREAM = "odps_nb_stream"
"""Partition column of a staging table: the stream that uploaded a row."""
ORDER = "odps_nb_row"
"""Column for upserts: the number of the row in its stream; the last row of a key wins."""
LIFECYCLE_DAYS = 3
_SETTINGS = {
    "odps.sql.allow.fullscan": "true",
    "odps.sql.type.system.odps2": "true",
    "odps.sql.decimal.odps2": "true",
}
_NAMESPACE = uuid.UUID("6f64707a-6e62-4000-8000-737461676564")
_log = logging.getLogger("odps_nb")


def open_staging(
    storage: StorageClient, table: TableName, asked: NewSession, **more: Any
) -> WriteSession:
    """Create a staging table for a write; the service drops it after `LIFECYCLE_DAYS` days."""
    schema = fetch_table(storage, table).schema
    _refuse_computed(table, schema, asked.partition)
    if asked.only is not None:
        sent = (column for column in schema.columns if column.name.casefold() in asked.only)
        schema = replace(schema, columns=tuple(sent))
    check_target(table, schema)
    key = {name.casefold() for name in fetch_primary_key(storage, table)}
    kind = SessionKind.INSERT
    if asked.overwrite:
        kind = SessionKind.REPLACE
    elif asked.only is not None:
        kind = SessionKind.PARTIAL
    elif key or asked.keyed:
        kind = SessionKind.MERGE
    name = STEM + uuid.uuid4().hex[:16]
    ref = WriteSessionRef(table=table, session_id=f"{kind.value}:{name}", partition=asked.partition)
    columns = _columns(schema, ref)
    if kind.merges:
        # a delete sends only the key, so other columns must accept nulls
        columns = tuple(
            replace(column, nullable=column.name.casefold() not in key) for column in columns
        )
        columns += (_of("__operation", TypeCode.TINYINT), _of(ORDER, TypeCode.BIGINT))
    staged = TableSchema(columns=columns, partition_columns=(_of(STREAM, TypeCode.STRING),))
    create_table(storage, _staging(ref), staged, TableOptions(lifecycle=LIFECYCLE_DAYS))
    return StagedWriteSession(storage, ref, **more)


def _refuse_computed(table: TableName, schema: TableSchema, partition: PartitionSpec) -> None:
    """Raise if ``partition`` has a value for a column that the commit's statement computes."""
    fixed = {key.casefold() for key, _ in partition}
    for column in schema.partition_columns:
        if column.generated is not None and column.name.casefold() in fixed:
            raise ArgumentError(
                f"{table} computes its partition column {column.name!r} in SQL, and without the "
                "Storage API this write is committed by SQL",
                code="InvalidPartitionSpec",
                argument="partition",
                hint="omit partition=, or use write() on a table without a primary key",
            )


def _of(name: str, code: TypeCode) -> Column:
    return Column(name=name, type=PrimitiveType(code))


def _columns(schema: TableSchema, ref: WriteSessionRef) -> tuple[Column, ...]:
    """Return the columns that rows have: data columns, then partition columns without a value."""
    fixed = {key.casefold() for key, _ in ref.partition}
    dynamic = (c for c in schema.partition_columns if c.name.casefold() not in fixed)
    return (
        *(replace(c, generated=None) for c in schema.columns),
        *(replace(c, generated=None) for c in dynamic),
    )


def _staging(ref: WriteSessionRef) -> TableName:
    return replace(ref.table, table=ref.server_id)


class StagedWriteSession(WriteSession):
    """A write session whose rows are in a staging table until the commit."""

    names_streams = False
    abort_is_certain = False

    def _fetch_schema(self) -> WriteSchema:
        return _write_schema(fetch_table(self._storage, _staging(self.ref)).schema)

    def _make_stream(self, stream_id: str, version: int, **more: Any) -> RowUploads:
        return StagedStream(self._storage, self.ref, stream_id, version, **more)

    def _commit(self, streams: Sequence[StreamReceipt | tuple[str, int]]) -> None:
        pairs = [
            (stream.stream_id, stream.version) if isinstance(stream, StreamReceipt) else stream
            for stream in streams
        ]
        commit_staged(self._storage, self.ref, pairs, tracker=self._tracker, cancel=self._cancel)

    def _abort(self) -> None:
        drop_staging(self._storage, self.ref)


def _write_schema(staging: TableSchema) -> WriteSchema:
    """Return the columns of the rows; the stream adds the column with the row number."""
    plain = [c for c in staging.columns if c.name not in (ORDER, OPERATION)]
    keyed = any(column.name == OPERATION for column in staging.columns)
    operation = (_of(OPERATION, TypeCode.TINYINT),) if keyed else ()
    return WriteSchema.of(TableSchema(columns=tuple(plain)), system_columns=operation)


class StagedStream(RowUploads):
    """A stream that uploads to its own partition of the staging table; `close` commits this upload.

    Each version of a stream is another partition.
    """

    _inner: TunnelStream

    def start(self) -> Self:
        """Begin the upload session of the stream.

        If a process writes the same version of a stream again, its rows replace the earlier ones.
        """
        ref = self._session
        spec = PartitionSpec(((STREAM, partition_of(self.stream_id, self.version)),))
        of = TableOf(_staging(ref), spec)
        with _explained(ref):
            answer = self._storage.call(
                OpenUpload(of=of, overwrite=True),
                tracker=self._tracker,
                cancel=self._cancel,
                patient=True,
            )
        columns = answer.schema.columns
        self.schema = _write_schema(TableSchema(columns=columns))
        self._upload = UploadRef(of, answer.upload_id)
        self._counts = any(column.name == ORDER for column in columns)
        self._inner = TunnelStream(
            self._storage,
            ref,
            self.stream_id,
            self.version,
            upload=self._upload,
            columns=columns,
            schema=self.schema,
            numbers=BlockNumbers(MAX_BLOCKS),
            part_bytes=self._part_bytes,
            tracker=self._tracker,
            cancel=self._cancel,
        ).start()
        return self

    def resume(self) -> NoReturn:
        """Raise `ConflictError`: blocks do not state which rows they have."""
        raise not_resumable(self.label)

    def _send_part(self, part: RowPart, compression: Compression, attempts: Attempts) -> None:
        if self._counts:
            part = replace(part, batches=tuple(_numbered(part.batches, self.rows)))
        with _explained(self._session):
            self._inner._send_part(part, compression, attempts)
        self.rows += part.rows

    def _finish(self) -> None:
        with _explained(self._session):
            commit_upload(
                self._storage,
                self._upload,
                self._inner.blocks,
                tracker=self._tracker,
                cancel=self._cancel,
            )

    def upload_blobs(
        self, items: Any, column_id: int, partition: PartitionSpec | None = None
    ) -> Any:
        """Raise `NoStorageApiError`."""
        return self._inner.upload_blobs(items, column_id, partition)


def _numbered(batches: Sequence[pa.RecordBatch], first: int) -> Sequence[pa.RecordBatch]:
    numbered = []
    for batch in batches:
        numbers = pa.array(np.arange(first, first + batch.num_rows))
        numbered.append(batch.append_column(ORDER, numbers))
        first += batch.num_rows
    return numbered


_SAFE = re.compile(r"[^A-Za-z0-9]")


def partition_of(stream_id: str, version: int) -> str:
    """Return the partition value of a stream, which differs for each id and version.

    Examples
    --------
    >>> partition_of("000001-7", 1)
    '1_000001_2d_7'
    """
    return f"{version}_" + _SAFE.sub(lambda match: f"_{ord(match[0]):x}_", stream_id)


# -- the end --------------------------------------------------------------------------------------


def commit_staged(
    storage: StorageClient,
    ref: WriteSessionRef,
    streams: Sequence[tuple[str, int]],
    *,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> None:
    """Move the rows of exactly these streams into the table with one statement.

    The statement has a unique id that depends only on the session and the streams, so repeating
    the commit does not run it twice, even after the staging table was dropped. The commit is
    retried after a lost response. The staging table is dropped afterwards.
    """
    if cancel is not None:
        cancel.check()
    with _explained(ref):
        sql = _statement(storage, ref, streams)
    settings = _SETTINGS | schema_settings(ref.table.schema)
    named = ",".join(sorted(f"{version}:{name}" for name, version in streams))
    unique = str(uuid.uuid5(_NAMESPACE, f"{_staging(ref)} {named}"))
    attempts = storage.attempts(f"commit of {ref.table}, session {ref.session_id}", tracker=tracker)

    run = partial(run_sql, storage, sql, settings=settings, unique_id=unique, keeps=True)
    try:
        while True:
            try:
                with _explained(ref):
                    run(tracker=tracker)
                break
            except (TransportError, ServerFaultError, ProtocolError) as error:
                attempts.again(error, idempotent=True)
    except OdpsNbError as error:
        if error.in_doubt:
            error.add_note(
                f"the staging table {_staging(ref)} remains for {LIFECYCLE_DAYS} days, because the "
                "statement that reads it may still be running"
            )
        raise
    try:
        drop_staging(storage, ref)
    except OdpsNbError as error:  # the rows are committed; the service drops the table later
        _log.warning("the staging table %s could not be dropped: %s", _staging(ref), error)


@contextmanager
def _explained(ref: WriteSessionRef) -> Iterator[None]:
    """Raise `ConflictError` if the staging table is gone."""
    try:
        yield
    except NotFoundError as error:
        if ref.server_id not in error.message:
            raise
        raise ConflictError(
            f"the write session {ref.session_id} has ended: it was committed or aborted, for "
            "instance by another process, or has expired",
            code="StatusConflict",
            request_id=error.request_id,
            hint="check the rows of the table, or write again in a new session",
        ) from error


def drop_staging(storage: StorageClient, ref: WriteSessionRef) -> None:
    """Drop the staging table; do nothing if it does not exist."""
    drop_table(storage, _staging(ref), if_exists=True)


def fetch_staged_state(storage: StorageClient, ref: WriteSessionRef) -> WriteSessionStateAnswer:
    """Return the state of a session: open as long as its staging table exists, then unknown."""
    is_open = table_exists(storage, _staging(ref))
    return WriteSessionStateAnswer(status=SessionStatus.NORMAL.value if is_open else None)


def _statement(
    storage: StorageClient, ref: WriteSessionRef, streams: Sequence[tuple[str, int]]
) -> str:
    schema = fetch_table(storage, ref.table).schema
    names = ", ".join(format_text(partition_of(*stream)) for stream in streams)
    chosen = f"{quoted_column(STREAM)} in ({names})" if names else "1 = 0"
    source = f"{quoted(_staging(ref))} where {chosen}"
    if ref.kind.merges:
        return _merge(storage, ref, schema, source)
    verb = "overwrite" if ref.kind is SessionKind.REPLACE else "into"
    columns = [c.name for c in _columns(schema, ref)]
    clause = ""
    if schema.partition_columns and not any(c.generated for c in schema.partition_columns):
        fixed = {key.casefold(): value for key, value in ref.partition}
        levels = [
            f"{quoted_column(c.name)} = {format_text(fixed[c.name.casefold()])}"
            if c.name.casefold() in fixed
            else quoted_column(c.name)
            for c in schema.partition_columns
        ]
        clause = f" partition ({', '.join(levels)})"
    else:
        keys = {c.name for c in schema.partition_columns}
        columns = [name for name in columns if name not in keys]
    selected = ", ".join(map(quoted_column, columns))
    return f"insert {verb} table {quoted(ref.table)}{clause} select {selected} from {source};"


def _merge(storage: StorageClient, ref: WriteSessionRef, schema: TableSchema, source: str) -> str:
    """Return the statement that upserts and deletes by key; only the last row of each key applies.

    MERGE is used instead of INSERT, because tables that record changes accept only MERGE (vendor's
    page on CDC, August 2026).
    """
    keys = [*fetch_primary_key(storage, ref.table)]
    fixed = {key.casefold(): value for key, value in ref.partition}
    dynamic = [c.name for c in schema.partition_columns if c.name.casefold() not in fixed]
    by = ", ".join(map(quoted_column, [*keys, *dynamic]))
    columns = [c.name for c in _columns(schema, ref)]
    if ref.kind is SessionKind.PARTIAL:
        staged = fetch_table(storage, _staging(ref)).schema
        columns = [name for name in columns if staged.find(name) is not None]
    listed = ", ".join(map(quoted_column, [*columns, OPERATION]))
    newest = (
        f"select {listed} from (select *, row_number() over (partition by {by} order by "
        f"{quoted_column(STREAM)} desc, {quoted_column(ORDER)} desc) as odps_nb_rank "
        f"from {source}) n where odps_nb_rank = 1"
    )
    same = [f"t.{quoted_column(name)} = s.{quoted_column(name)}" for name in (*keys, *dynamic)]
    same += [f"t.{quoted_column(key)} = {format_text(value)}" for key, value in ref.partition]
    known = {name.casefold() for name in (*keys, *dynamic)}
    updated = [name for name in columns if name.casefold() not in known]
    changes = [f"{quoted_column(name)} = s.{quoted_column(name)}" for name in updated]
    values = [f"s.{quoted_column(c.name)}" if c.name in columns else "null" for c in schema.columns]
    parts = [
        format_text(fixed[c.name.casefold()])
        if c.name.casefold() in fixed
        else f"s.{quoted_column(c.name)}"
        for c in schema.partition_columns
    ]
    deleted = f"s.{quoted_column(OPERATION)} = {DELETE}"
    update = f" when matched then update set {', '.join(changes)}" if changes else ""
    return (
        f"merge into {quoted(ref.table)} t using ({newest}) s on {' and '.join(same)} "
        f"when matched and {deleted} then delete{update} "
        f"when not matched and not ({deleted}) then insert values ({', '.join(values + parts)});"
    )
