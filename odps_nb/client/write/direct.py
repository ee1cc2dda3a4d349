"""Write sessions of one process that commit blocks: by the tunnel, or by Storage API version 1."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.calls.version_1 import OverVersion1
from odps_nb.client.catalog import explain_refused_write, fetch_primary_key, fetch_table
from odps_nb.client.write.base import WriteSession
from odps_nb.client.write.blocks import (
    BlockNumbers,
    BlockStream,
    TunnelStream,
    UploadRef,
    Version1Stream,
    commit_settled,
    commit_upload,
    no_blobs,
    settled,
    unfinished,
)
from odps_nb.client.write.operations import NewSession, SessionKind, StreamReceipt, WriteSessionRef
from odps_nb.errors import InvalidRequestError, StateError
from odps_nb.schema import Column, TableSchema, has_blob
from odps_nb.terms import PartitionSpec, SessionStatus, TableName
from odps_nb.wire.calls import CreateWriteSession, GetWriteSession
from odps_nb.wire.calls.v1 import BlockSessionAnswer, CommitBlocks
from odps_nb.wire.schema_json import WriteSchema
from odps_nb.wire.tunnel.calls import MAX_BLOCKS, OpenUpload, TableOf

_log = logging.getLogger("odps_nb")


class BlockWriteSession(WriteSession):
    """A write session whose streams upload blocks, numbered in one sequence."""

    names_streams = False
    abort_is_certain = False
    commits_all = False
    """Whether the service commits every block that it has."""
    stream_type: type[BlockStream]

    def __init__(self, *args: Any, schema: WriteSchema, blocks: int, **more: Any) -> None:
        super().__init__(*args, **more)
        self._schema = schema
        self._numbers = BlockNumbers(blocks)
        self._made: list[Any] = []

    def _fetch_schema(self) -> WriteSchema:
        assert self._schema is not None
        return self._schema

    def _chosen(self, streams: Sequence[StreamReceipt | tuple[str, int]]) -> list[Any]:
        """Return the streams to commit; raise unless they are all of the session's streams."""
        names = {
            (stream.stream_id, stream.version) if isinstance(stream, StreamReceipt) else stream
            for stream in streams
        }
        known = {(stream.stream_id, stream.version): stream for stream in self._made}
        if names - known.keys():
            raise StateError("a stream of another session cannot be committed")
        dropped = [stream for name, stream in known.items() if name not in names and stream.sent]
        if dropped and self.commits_all:
            raise StateError(
                f"{dropped[0].label} has sent rows, but is not part of this commit, and the tunnel "
                "commits all rows of a session",
                hint="write all rows again in a new session",
            )
        return [stream for name, stream in known.items() if name in names]

    def _make_stream(self, stream_id: str, version: int, **more: Any) -> BlockStream:
        more |= {"schema": self.write_schema, "numbers": self._numbers}
        stream = self.stream_type(self._storage, self.ref, stream_id, version, **more)
        with self._lock:
            self._made.append(stream)
        return stream


def open_upload(
    storage: StorageClient, table: TableName, asked: NewSession, **more: Any
) -> WriteSession | None:
    """Begin an upload session of the tunnel; ``None`` if the write needs a staging table.

    An upload session writes to a table without partitions or to one partition, and only one
    process knows its blocks. It does not merge rows by primary key.
    """
    info = fetch_table(storage, table)
    check_target(table, info.schema)
    keys = info.schema.partition_columns
    if asked.shared or len(asked.partition) < len(keys):
        return None
    if fetch_primary_key(storage, table):  # only a statement merges rows with the same key
        return None
    of = TableOf(table, _ordered(asked.partition, keys))
    request = OpenUpload(of=of, overwrite=asked.overwrite)
    try:
        answer = storage.call(request, tracker=more["tracker"], cancel=more["cancel"], patient=True)
    except InvalidRequestError as error:
        explain_refused_write(storage, table, error)
        raise
    ref = WriteSessionRef(
        table=table,
        session_id=f"{SessionKind.UPLOAD.value}:{answer.upload_id}",
        partition=asked.partition,
    )
    schema = WriteSchema.of(TableSchema(columns=answer.schema.columns))
    return UploadWriteSession(
        storage,
        ref,
        upload=UploadRef(of, answer.upload_id),
        schema=schema,
        blocks=MAX_BLOCKS,
        **more,
    )


def check_target(table: TableName, schema: TableSchema) -> None:
    """Raise for a table with BLOB columns, which need the Storage API."""
    if any(has_blob(column.type) for column in schema.columns):
        raise no_blobs(table)


def _ordered(spec: PartitionSpec, keys: Sequence[Column]) -> PartitionSpec:
    """Return a full spec with its levels in the table's order."""
    values = {key.casefold(): value for key, value in spec}
    return PartitionSpec(tuple((key.name, values[key.name.casefold()]) for key in keys))


class UploadWriteSession(BlockWriteSession):
    """One upload session of the tunnel, which this process commits."""

    commits_all = True
    stream_type = TunnelStream

    def __init__(self, *args: Any, upload: UploadRef, **more: Any) -> None:
        super().__init__(*args, **more)
        self._upload = upload

    def _make_stream(self, stream_id: str, version: int, **more: Any) -> BlockStream:
        columns = self.write_schema.schema.columns
        return super()._make_stream(
            stream_id, version, upload=self._upload, columns=columns, **more
        )

    def _commit(self, streams: Sequence[StreamReceipt | tuple[str, int]]) -> None:
        blocks = {number for stream in self._chosen(streams) for number in stream.blocks}
        commit_upload(
            self._storage, self._upload, blocks, tracker=self._tracker, cancel=self._cancel
        )

    def _abort(self) -> None:
        """Do nothing: without a commit, the session expires, and its blocks are deleted."""


def open_blocks(
    storage: StorageClient, table: TableName, asked: NewSession, **more: Any
) -> WriteSession:
    """Begin a write session of version 1 of the Storage API."""
    request = CreateWriteSession(table=table, partition=asked.partition, overwrite=asked.overwrite)
    try:
        answer: BlockSessionAnswer = storage.call(
            OverVersion1(request), tracker=more["tracker"], cancel=more["cancel"]
        )
    except InvalidRequestError as error:
        explain_refused_write(storage, table, error)
        raise
    check_target(table, answer.schema)
    ref = WriteSessionRef(
        table=table,
        session_id=f"{SessionKind.BLOCKS.value}:{answer.session_id}",
        partition=asked.partition,
    )
    columns = (*answer.schema.columns, *answer.schema.partition_columns)
    schema = WriteSchema.of(TableSchema(columns=columns))
    blocks = answer.max_blocks or MAX_BLOCKS
    return Version1WriteSession(storage, ref, schema=schema, blocks=blocks, **more)


class Version1WriteSession(BlockWriteSession):
    """A write session of version 1; the commit names the uploaded blocks by their messages."""

    stream_type = Version1Stream

    def _commit(self, streams: Sequence[StreamReceipt | tuple[str, int]]) -> None:
        messages = [message for stream in self._chosen(streams) for message in stream.messages]
        ref, storage, tracker = self.ref, self._storage, self._tracker
        request = OverVersion1(
            CommitBlocks(table=ref.table, session_id=ref.server_id, messages=tuple(messages))
        )
        attempts = storage.attempts(
            f"commit of {ref.table}, session {ref.session_id}", tracker=tracker
        )
        if self._cancel is not None:
            self._cancel.check()  # last check, because the commit below cannot be undone
        state = OverVersion1(GetWriteSession(table=ref.table, session_id=ref.server_id))

        def is_done(answer: BlockSessionAnswer) -> bool:
            if answer.status is SessionStatus.COMMITTING:
                raise unfinished(f"the write session {ref.session_id} is COMMITTING")
            return answer.status is SessionStatus.COMMITTED

        def committed() -> bool:
            return is_done(storage.call(state, tracker=tracker))

        def commit() -> bool:
            timeout = storage.options.work_timeout
            answer = storage.call(request, tracker=tracker, read_timeout=timeout, patient=True)
            done = answer.status is SessionStatus.COMMITTED
            return done or settled(committed, attempts)

        commit_settled(commit, committed, attempts)

    def _abort(self) -> None:
        """Do nothing: version 1 has no abort; without a commit, the session expires."""
