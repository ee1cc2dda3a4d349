"""Requests for write sessions, streams and rows (``docs/protocol.md`` sections 3, 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from odps_nb.schema import TableSchema
from odps_nb.terms import PartitionSpec, WriteMode
from odps_nb.wire.calls.answers import EmptyAnswer, StorageAnswer, Warned
from odps_nb.wire.calls.core import ACCESS_TOKEN, STREAM_TYPE, Params
from odps_nb.wire.calls.spelling import (
    Draft,
    FieldPlace,
    Mode,
    Received,
    RouteToken,
    SessionId,
    StorageCall,
    StreamId,
    StreamVersion,
    Table,
    fixed_member,
    header,
    member,
    no,
    param,
    partition_member,
    text_or_none,
)
from odps_nb.wire.json_fields import Fields
from odps_nb.wire.schema_json import WriteSchema, decode_nested, encode_nested


def _stream_id(fields: Fields, key: str) -> str:
    # Some clients use numbers as stream ids.
    found = fields.loose_text(key)
    if found is None:
        raise fields.fail(key, "is missing")
    return found


def _version(fields: Fields, key: str) -> int:
    found = fields.loose_integer(key)
    if found is not None and found < 0:
        raise fields.fail(key, "is negative")
    return found or 0


_ID, _VERSION = member("StreamId", _stream_id), member("StreamVersion", _version)
_EXACTLY_ONCE = member("ExactlyOnceMode", no, lambda value: value or None, optional=True)
_SCHEMA = member(
    "TableSchema", lambda one, key: decode_nested(one.mapping(key) or {}), encode_nested
)


# -- sessions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSessionAnswer(StorageAnswer):
    """A new write session."""

    WHAT: ClassVar[str] = "response to TableCreateWriteSession"

    session_id: Annotated[str, member("SessionId", Fields.need_text)]
    warning: Warned = ""
    route_token: RouteToken = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSessionStateAnswer(StorageAnswer):
    """The closed streams of a write session, as a mapping of stream id to highest closed version.

    A staging id is an opaque string that the service creates.
    """

    WHAT: ClassVar[str] = "response to TableGetWriteSession"

    streams: Annotated[
        Mapping[str, int],
        member(
            "Streams",
            lambda one, key: {name: one.inner(key).integer(name) for name in one.inner(key)},
            dict,
        ),
    ] = field(default_factory=dict)
    warning: Warned = ""
    min_uncommitted_staging_id: Annotated[
        str | None, member("MinUncommittedStagingId", Fields.loose_text)
    ] = None
    status: Annotated[str | None, member("SessionStatus", Fields.optional_text, optional=True)] = (
        None
    )
    route_token: RouteToken = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSchemaAnswer(StorageAnswer):
    """The write schema of a table."""

    WHAT: ClassVar[str] = "response to TableGetWriteSchema"

    schema: Annotated[WriteSchema, _SCHEMA]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateWriteSession(StorageCall):
    """Request to begin a transaction on a table, or on the partitions under ``partition``.

    ``overwrite`` replaces the target's rows at commit; clients may send this flag as text.
    """

    ACTION: ClassVar[str] = "TableCreateWriteSession"
    idempotent: ClassVar[bool] = True  # an uncommitted session changes nothing

    table: Table
    partition: Annotated[PartitionSpec, partition_member("PartialPartitionSpec")] = field(
        default_factory=PartitionSpec
    )
    overwrite: Annotated[
        bool,
        member(
            "Flags",
            lambda one, key: one.inner(key).boolean("overwrite", default=False),
            lambda value: {"overwrite": "true"} if value else {},
        ),
    ] = False
    write_mode: Mode = WriteMode.BATCH

    decode_answer = staticmethod(WriteSessionAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetWriteSession(StorageCall):
    """Request for a write session's closed streams."""

    ACTION: ClassVar[str] = "TableGetWriteSession"
    idempotent: ClassVar[bool] = True

    table: Table
    session_id: SessionId
    write_mode: Mode = WriteMode.BATCH

    decode_answer = staticmethod(WriteSessionStateAnswer.decode)


def _put_streams(draft: Draft, value: tuple[tuple[str, int], ...]) -> None:
    if value:
        draft.add("StreamIds", [stream_id for stream_id, _ in value])
        draft.add("StreamVersions", [version for _, version in value])


def _take_streams(received: Received) -> tuple[tuple[str, int], ...]:
    fields = received.fields
    ids, versions = fields.texts("StreamIds"), fields.integers("StreamVersions")
    if len(ids) != len(versions):
        raise fields.fail("StreamIds", "and StreamVersions differ in length")
    return tuple(zip(ids, versions, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWriteSession(StorageCall):
    """Request to commit the named (stream id, version) pairs, or all closed streams."""

    ACTION: ClassVar[str] = "TableCommitWriteSession"
    idempotent: ClassVar[bool] = False  # after a lost response, check the session's state

    table: Table
    session_id: SessionId
    streams: Annotated[tuple[tuple[str, int], ...], FieldPlace(_put_streams, _take_streams)] = ()
    route_token: RouteToken = None
    write_mode: Mode = WriteMode.BATCH

    decode_answer = staticmethod(EmptyAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortWriteSession(StorageCall):
    """Request to abort a write session and discard its rows."""

    ACTION: ClassVar[str] = "TableAbortWriteSession"
    idempotent: ClassVar[bool] = True

    table: Table
    session_id: SessionId
    route_token: RouteToken = None
    write_mode: Mode = WriteMode.BATCH

    decode_answer = staticmethod(EmptyAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetWriteSchema(StorageCall):
    """Request for a write session's column ids; sent without a write mode in every API version."""

    ACTION: ClassVar[str] = "TableGetWriteSchema"
    idempotent: ClassVar[bool] = True

    table: Table
    session_id: SessionId
    route_token: RouteToken = None

    decode_answer = staticmethod(WriteSchemaAnswer.decode)


# -- streams ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStreamAnswer(StorageAnswer):
    """A write stream: its schema and state.

    ``row_offset`` is the next offset of an exactly-once stream, ``record_count`` its number of
    rows, ``byte_size`` the size of these rows in bytes; each is ``None`` if absent from the
    response. State and row count have two member names each (``docs/protocol.md`` 3.8).
    """

    WHAT: ClassVar[str] = "write stream"

    schema: Annotated[WriteSchema, _SCHEMA] = field(
        default_factory=lambda: WriteSchema(schema=TableSchema())
    )
    table_id: Annotated[str | None, member("TableId", Fields.loose_text)] = None
    schema_version: Annotated[str | None, member("SchemaVersion", Fields.loose_text)] = None
    access_token: Annotated[str | None, member("AccessToken", Fields.header_text, text_or_none)] = (
        field(default=None, repr=False)
    )
    status: Annotated[
        str | None,
        fixed_member("QuotaToken", ""),
        fixed_member("WarningMessage", ""),
        member("Status", Fields.loose_text, lambda text: text or "NORMAL"),
        member("status", Fields.loose_text, lambda _: 1),
    ] = None
    record_count: Annotated[
        int | None,
        member("recordCount", Fields.optional_integer),
        member("RecordCount", Fields.optional_integer),
    ] = None
    byte_size: Annotated[
        int | None,
        member("ByteSize", Fields.optional_integer),
        fixed_member("ErrorCode", None),
        fixed_member("ErrorMessage", None),
    ] = None
    latest_schema_version: Annotated[
        str | None, member("LatestSchemaVersion", Fields.loose_text)
    ] = None
    row_offset: Annotated[int | None, member("RowOffset", Fields.loose_integer)] = None
    route_token: RouteToken = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRowsAnswer(StorageAnswer):
    """Confirmation of stored rows; ``row_offset`` is the next offset of an exactly-once stream.

    ``staging_id`` is an opaque string that the service creates. All members may be absent.
    """

    WHAT: ClassVar[str] = "response to TableWrite"

    warning: Warned = ""
    commit_message: Annotated[str, member("CommitMessage", Fields.text)] = ""
    row_offset: Annotated[
        int | None, member("ExactlyOnceRowOffset", Fields.loose_integer, optional=True)
    ] = None
    staging_id: Annotated[str | None, member("StagingId", Fields.loose_text, optional=True)] = None
    route_token: RouteToken = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateWriteStream(StorageCall):
    """Request to open a write stream; a higher version of the same id replaces lower versions.

    With ``exactly_once``, the response contains an access token, and each `WriteRows` sends an
    offset.
    """

    ACTION: ClassVar[str] = "TableCreateWriteStream"
    idempotent: ClassVar[bool] = True

    table: Table
    session_id: SessionId
    stream_id: Annotated[str, _ID]
    stream_version: Annotated[int, _VERSION] = 1
    exactly_once: Annotated[bool, _EXACTLY_ONCE] = False
    route_token: RouteToken = None
    write_mode: Mode = WriteMode.BATCH

    decode_answer = staticmethod(WriteStreamAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetWriteStream(StorageCall):
    """Request for a stream's state; with ``exactly_once``, also its next offset and a new token.

    The id and version are in the query, the body, or both: the C++ client sends them only in the
    body; the Java client may send a GET without a body.
    """

    ACTION: ClassVar[str] = "TableGetWriteStream"
    idempotent: ClassVar[bool] = True

    table: Table
    session_id: SessionId
    stream_id: Annotated[str, param("StreamId", Params.optional), _ID]
    stream_version: Annotated[int, param("StreamVersion", Params.optional_integer), _VERSION] = 1
    write_mode: Mode = WriteMode.BATCH
    exactly_once: Annotated[
        bool,
        param(
            "ExactlyOnceMode",
            lambda params, key: params.flag(key) or None,
            lambda value: "true" if value else None,
        ),
        _EXACTLY_ONCE,
    ] = False
    route_token: RouteToken = None

    decode_answer = staticmethod(WriteStreamAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseWriteStream(StorageCall):
    """Request to close a complete stream. A commit includes only closed streams."""

    ACTION: ClassVar[str] = "TableCloseWriteStream"
    idempotent: ClassVar[bool] = True

    table: Table
    session_id: Annotated[SessionId, member("SessionId", Fields.optional_text)]
    stream_id: Annotated[str, _ID]
    stream_version: Annotated[int, _VERSION] = 1
    route_token: RouteToken = None
    write_mode: Mode = WriteMode.BATCH

    decode_answer = staticmethod(EmptyAnswer.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRows(StorageCall):
    """Request to upload rows into a stream; the caller sends the body, a complete Arrow IPC stream.

    ``count`` is the number of rows in the body; the service does not check it (pyodps's live tests
    send a different number). ``row_offset`` is the first row's offset in an exactly-once stream.
    """

    ACTION: ClassVar[str] = "TableWrite"
    CONTENT_TYPE: ClassVar[str] = STREAM_TYPE

    table: Table
    session_id: SessionId
    stream_id: StreamId
    stream_version: StreamVersion
    count: Annotated[int, param("Count", Params.count)]
    write_mode: Mode = WriteMode.BATCH
    table_id: Annotated[str | None, param("TableId", Params.optional)] = None
    schema_version: Annotated[str | None, param("SchemaVersion", Params.optional)] = None
    row_offset: Annotated[int | None, param("RowOffset", Params.optional_integer)] = None
    route_token: RouteToken = None
    access_token: Annotated[str | None, header(ACCESS_TOKEN)] = field(default=None, repr=False)

    @property
    def idempotent(self) -> bool:
        """Whether the rows have an offset, which lets the server recognise repeats."""
        return self.row_offset is not None

    decode_answer = staticmethod(WriteRowsAnswer.decode)
