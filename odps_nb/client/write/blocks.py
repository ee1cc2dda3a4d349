"""Streams of blocks: uploads of the tunnel, and of version 1 of the Storage API.

Each part of a stream is one block with a number. If a block is sent again after a broken
connection, its rows are still stored once: it replaces the earlier block (tunnel), or the earlier
block is never committed (version 1). See ``docs/protocol.md`` sections 9.4 and 12.
"""

from __future__ import annotations

import itertools
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn, Self

import pyarrow as pa

from odps_nb.arrow.tunnel_types import for_tunnel, tunnel_schema
from odps_nb.client.calls.attempts import Attempts
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.calls.version_1 import OverVersion1
from odps_nb.client.transfer import SWITCH_ON
from odps_nb.client.write.base import RowUploads
from odps_nb.client.write.operations import RowPart, write_ipc
from odps_nb.errors import (
    ConflictError,
    LimitExceededError,
    NoStorageApiError,
    OdpsNbError,
    ProtocolError,
    ServerFaultError,
    TransportError,
)
from odps_nb.http.retry import may_have_been_done
from odps_nb.schema import Column
from odps_nb.terms import Compression, PartitionSpec, TableName
from odps_nb.wire.calls.v1 import WriteBlock
from odps_nb.wire.codings import encoder
from odps_nb.wire.schema_json import WriteSchema
from odps_nb.wire.tunnel.calls import CommitUpload, GetUpload, TableOf, UploadBlock
from odps_nb.wire.tunnel.chunks import ChunkEncoder

_DONE = "closed"
_COMMITTING = ("closing", "committing")
_UNFINISHED = "CommitUnfinished"
_FIRST_POLL, _LAST_POLL = 0.1, 5.0
SETTLE_SECONDS = 300.0
"""Maximum seconds to wait for a session that the service is committing."""


class BlockNumbers:
    """The numbers of an upload's blocks, shared by its streams; thread-safe."""

    def __init__(self, limit: int) -> None:
        self._numbers, self._limit = itertools.count(), limit

    def next(self, table: TableName) -> int:
        """Return the next number; raise if the session has no more."""
        number = next(self._numbers)
        if number >= self._limit:
            raise LimitExceededError(
                f"a write to {table} has more than {self._limit:,} parts",
                limit=self._limit,
                actual=number + 1,
                hint="write the rows in several calls",
            )
        return number


class BlockStream(RowUploads):
    """A stream whose rows are uploaded as numbered blocks."""

    def __init__(self, *args: Any, schema: WriteSchema, numbers: BlockNumbers, **more: Any) -> None:
        super().__init__(*args, **more)
        self.schema = schema
        self._numbers = numbers
        self.sent: bool = False
        """Whether a block may have reached the service."""

    def start(self) -> Self:
        """Register the stream; the first block creates it on the service."""
        self._tracker.plan_split(self.label)
        return self

    def resume(self) -> NoReturn:
        """Raise `ConflictError`: the service does not report the rows of a block."""
        raise not_resumable(self.label)

    def _send_part(self, part: RowPart, compression: Compression, attempts: Attempts) -> None:
        number, self.sent = self._numbers.next(self._session.table), True
        while True:
            try:
                self._send_block(number, part, compression, attempts)
                break
            except (TransportError, ServerFaultError, ProtocolError) as error:
                attempts.again(error, idempotent=True)
            except OdpsNbError as error:
                attempts.again(error, idempotent=False)
        self.rows += part.rows

    @abstractmethod
    def _send_block(
        self, number: int, part: RowPart, compression: Compression, attempts: Attempts
    ) -> None:
        """Upload a block once."""

    def _finish(self) -> None:
        """Do nothing: a block is complete once its upload was confirmed."""

    def upload_blobs(
        self, items: Iterable[Any], column_id: int, partition: PartitionSpec | None = None
    ) -> NoReturn:
        """Raise `NoStorageApiError`."""
        raise no_blobs(self._session.table)


def _refuse_changed(rows: pa.Schema, now: pa.Schema, table: TableName) -> None:
    """Raise if the table has other columns than the rows, which were converted earlier."""
    differing = _kinds_of(rows).items() ^ _kinds_of(now).items()
    if changed := sorted({name for name, _ in differing}):
        raise ConflictError(
            f"columns of {table} have changed since its metadata was fetched: {', '.join(changed)}",
            code="SchemaModified",
            hint="call table.reload(), and write again",
        )


def not_resumable(label: str) -> ConflictError:
    """Return the error for resuming a stream of blocks."""
    return ConflictError(
        f"{label} cannot be resumed: its rows are uploaded as blocks",
        code="NotResumable",
        hint="open a higher version of the stream and write all of its rows again",
    )


def no_blobs(table: TableName) -> NoStorageApiError:
    """Return the error for a write of blobs without the Storage API."""
    return NoStorageApiError(
        f"writing BLOB columns of {table} needs the Storage API, which this account or connection "
        "does not use",
        code="NoStorageApi",
        hint=SWITCH_ON,
    )


# -- tunnel ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UploadRef:
    """An upload session of the tunnel: its target and its id."""

    of: TableOf
    upload_id: str


class TunnelStream(BlockStream):
    """A stream of blocks of one upload session."""

    def __init__(
        self, *args: Any, upload: UploadRef, columns: Iterable[Column], **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self._upload, self._sent = upload, tunnel_schema(columns)
        self.blocks: set[int] = set()
        """Numbers of the confirmed blocks."""

    def _send_block(
        self, number: int, part: RowPart, compression: Compression, attempts: Attempts
    ) -> None:
        _refuse_changed(part.batches[0].schema, self._sent, self._session.table)
        request = UploadBlock(
            of=self._upload.of,
            upload_id=self._upload.upload_id,
            block=number,
            compression=compression,
        )
        with self._storage.upload(request, attempts=attempts) as upload:
            try:
                for piece in _encoded(part, self._sent, compression):
                    upload.write(piece)
                upload.finish()
            finally:
                self._tracker.add(split=self.label, wire_bytes=upload.sent_bytes)
        self.blocks.add(number)


_VARIED = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|(?<=int)\d+|(?<=decimal)\d+| not null")


def _kinds_of(schema: pa.Schema) -> dict[str, str]:
    """Return the types by column, without what Arrow converts or refuses: sizes, units, nulls."""
    return {field.name: _VARIED.sub("", str(field.type)).casefold() for field in schema}


def _encoded(part: RowPart, schema: pa.Schema, compression: Compression) -> Iterator[Any]:
    """Yield a part as the tunnel's Arrow stream, in the content coding."""
    chunks, coding = ChunkEncoder(), encoder(compression)
    plain = compression is Compression.NONE
    for batch in part.batches:
        for piece in chunks.feed(for_tunnel(batch, schema).serialize()):
            yield piece if plain else coding.feed(piece)
    last = chunks.finish()
    yield last if plain else coding.feed(last) + coding.finish()


def commit_upload(
    storage: StorageClient,
    upload: UploadRef,
    blocks: Iterable[int],
    *,
    tracker: ProgressTracker | None = None,
    cancel: CancelToken | None = None,
) -> None:
    """Commit an upload session that has exactly these blocks.

    The service commits all blocks that it has, so they are compared first (as pyodps does). After a
    lost response, the session's state shows whether the commit has succeeded. The error is
    ``in_doubt`` if the outcome cannot be determined.
    """
    state = storage.call(GetUpload(of=upload.of, upload_id=upload.upload_id), tracker=tracker)
    own = set(blocks)
    if state.blocks != own:
        raise ConflictError(
            f"the upload session {upload.upload_id} of {upload.of} has {len(state.blocks)} blocks, "
            f"but this write has sent {len(own)}",
            code="BlocksDiffer",
            hint="write again; nothing was committed",
        )
    if cancel is not None:
        cancel.check()  # last check, because the commit below cannot be undone
    request = CommitUpload(of=upload.of, upload_id=upload.upload_id)
    attempts = storage.attempts(
        f"commit of {upload.of}, upload session {upload.upload_id}", tracker=tracker
    )

    def committed() -> bool:
        state = storage.call(GetUpload(of=upload.of, upload_id=upload.upload_id), tracker=tracker)
        if state.status in _COMMITTING:
            raise unfinished(f"the upload session {upload.upload_id} is {state.status}")
        return state.status == _DONE

    def commit() -> bool:
        timeout = storage.options.work_timeout
        answer = storage.call(request, tracker=tracker, read_timeout=timeout, patient=True)
        return answer.status == _DONE or settled(committed, attempts)

    commit_settled(commit, committed, attempts)


def commit_settled(
    commit: Callable[[], bool], committed: Callable[[], bool], attempts: Attempts
) -> None:
    """Call ``commit`` until it succeeds; after a lost response, ask ``committed`` for the outcome.

    The service commits a session at most once, so a commit can be retried. ``commit`` returns
    whether the session is committed. The error is ``in_doubt`` if a request may have arrived and
    the outcome is unknown.
    """
    sent = False
    while True:
        try:
            if commit():
                return
            sent = True
            raise unfinished("the service accepted the commit, but the session is not committed")
        except OdpsNbError as error:
            sent = sent or may_have_been_done(error) or error.in_doubt
            error.in_doubt = sent
            if sent and _is_done(committed, error, attempts):
                return
            if not isinstance(error, (TransportError, ServerFaultError, ProtocolError)):
                if sent:
                    error.add_note("an earlier attempt received no response; check the table")
                raise  # the service has responded
            attempts.again(error, idempotent=True)


def _is_done(committed: Callable[[], bool], error: OdpsNbError, attempts: Attempts) -> bool:
    try:
        done = settled(committed, attempts)
    except OdpsNbError as second:
        error.add_note(f"the outcome of the commit is unknown; its state cannot be read: {second}")
        raise error from second
    if done and attempts.tracker is not None:
        what = "the response to the commit was lost, but the session is committed"
        attempts.tracker.noted(what, retries=1)
    return done


def settled(committed: Callable[[], bool], attempts: Attempts) -> bool:
    """Return whether a session is committed; wait for at most `SETTLE_SECONDS` while it commits."""
    waited, delay = 0.0, _FIRST_POLL
    while True:
        try:
            return committed()
        except OdpsNbError as error:
            if error.in_doubt or waited >= SETTLE_SECONDS or not _is_unfinished(error):
                error.in_doubt = True
                raise
        attempts.pause(delay)
        waited, delay = waited + delay, min(_LAST_POLL, delay * 1.5)


def _is_unfinished(error: OdpsNbError) -> bool:
    return isinstance(error, ServerFaultError) and error.code == _UNFINISHED


def unfinished(message: str) -> ServerFaultError:
    """Return the error for a session whose commit has begun but not ended; see `settled`."""
    return ServerFaultError(
        message, code=_UNFINISHED, hint="check the rows of the table before you write again"
    )


# -- version 1 ------------------------------------------------------------------------------------


class Version1Stream(BlockStream):
    """A stream of blocks of a write session of version 1; `messages` are for the commit."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.messages: list[str] = []

    def _send_block(
        self, number: int, part: RowPart, compression: Compression, attempts: Attempts
    ) -> None:
        request = WriteBlock(
            table=self._session.table,
            session_id=self._session.server_id,
            block_number=number,
            attempt_number=attempts.index,
        )
        names = [column.name for column in self.schema.schema]
        batches = tuple(batch.select(names) for batch in part.batches)
        with self._storage.upload(OverVersion1(request), attempts=attempts) as upload:
            try:
                write_ipc(replace(part, batches=batches), compression, upload.write)
                answer = upload.finish()
            finally:
                self._tracker.add(split=self.label, wire_bytes=upload.sent_bytes)
        self.messages.append(answer.commit_message)
