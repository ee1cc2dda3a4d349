"""Version 1 of the Storage API: the requests and responses of the older protocol.

``docs/protocol.md`` section 12. Reads use the request dataclasses of the newer versions. Writes
have no streams: a client uploads numbered blocks, each in one or more attempts, and commits the
messages that the service returned for the attempts to keep (`WriteBlock`, `CommitBlocks`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from odps_nb.errors import ArgumentError
from odps_nb.schema import TableSchema
from odps_nb.terms import (
    Compression,
    IndexSplit,
    PartitionSpec,
    RowRangeSplit,
    SessionStatus,
    Split,
    SplitMode,
    TableName,
    WriteMode,
)
from odps_nb.wire.calls.answers import FlatSchema, Status, StorageAnswer
from odps_nb.wire.calls.core import (
    JSON_TYPE,
    NO_SCOPE,
    STREAM_TYPE,
    Pairs,
    Params,
    Scope,
    WireRequest,
    decode_partition,
    encode_partition,
    find_header,
    table_name,
    table_target,
)
from odps_nb.wire.calls.read import (
    DEFAULT_BATCH_ROWS,
    CreateReadSession,
    GetReadSession,
    ReadRows,
    ReadSessionAnswer,
    parse_expiry,
)
from odps_nb.wire.calls.spelling import Draft, fill, fixed_member, member
from odps_nb.wire.calls.write import CreateWriteSession, GetWriteSession, WriteRowsAnswer
from odps_nb.wire.json_fields import (
    Fields,
    dump,
    in_answer,
    in_request,
    load_object,
    parse_object,
)

PREFIX = "/api/storage/v1"
READ, WRITE = "batch_read", "batch_write"
_CODECS = {Compression.ZSTD: "ZSTD", Compression.LZ4: "LZ4_FRAME"}
_PATH = re.compile(
    rf"{PREFIX}/projects/([^/]+)(?:/schemas/([^/]+))?/tables/([^/]+)/"
    r"(sessions|data|commit|sessions/([^/]+)|sessions/([^/]+)/data)"
)
_READ_MEMBERS = (
    *("RequiredDataColumns", "RequiredPartitionColumns", "RequiredPartitions"),
    *("RequiredBucketIds", "SplitOptions", "SplitMaxFileNum", "ArrowOptions", "FilterPredicate"),
)
_READ_ANSWER = (
    *("SessionId", "SessionType", "SessionStatus", "ExpirationTime", "Message", "SplitsCount"),
    *("RecordCount", "DataSchema", "SupportedDataFormat", "SessionStats"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBlock:
    """Request to upload one attempt of a block; the caller sends the body, an Arrow IPC stream.

    It is safe to repeat: only the attempt whose message is committed becomes visible.
    """

    idempotent: ClassVar[bool] = True

    table: TableName
    session_id: str
    block_number: int
    attempt_number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitBlocks:
    """Request to commit the blocks with these messages; all other blocks are dropped.

    ``wait_seconds`` is the time to wait for uploads that have not ended. ``None``: the default of
    the service.
    """

    idempotent: ClassVar[bool] = False  # after a lost response, check the session's state

    table: TableName
    session_id: str
    messages: tuple[str, ...]
    wait_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSessionAnswer(StorageAnswer):
    """A write session of version 1.

    ``schema`` lists the columns of the blocks; its partition columns are those that the session's
    partition does not fix. The rows are visible if ``status`` is `SessionStatus.COMMITTED`.
    """

    WHAT: ClassVar[str] = "write session"

    session_id: Annotated[str, member("SessionId", Fields.text)] = ""
    status: Annotated[Status, fixed_member("SessionType", "BATCH_WRITE")] = SessionStatus.NORMAL
    expires_at: Annotated[
        float | None,
        member("ExpirationTime", parse_expiry, lambda at: 0 if at is None else int(at * 1000)),
    ] = None
    message: Annotated[str, member("Message", Fields.text)] = ""
    schema: Annotated[FlatSchema, fixed_member("RequiredOrdering", [])] = field(
        default_factory=TableSchema
    )
    max_blocks: Annotated[
        int | None,
        fixed_member("SupportedDataFormat", [{"Type": "ARROW", "Version": "V5"}]),
        member("MaxBlockNumber", Fields.optional_integer),
    ] = None


V1Request = (
    CreateReadSession
    | GetReadSession
    | ReadRows
    | CreateWriteSession
    | GetWriteSession
    | WriteBlock
    | CommitBlocks
)
V1Answer = ReadSessionAnswer | BlockSessionAnswer | WriteRowsAnswer


# -- requests ---------------------------------------------------------------------------------


def encode_v1(request: Any, *, scope: Scope = NO_SCOPE) -> WireRequest:
    """Encode a request of version 1.

    Raises `ArgumentError` for a request, or a value in it, that version 1 cannot express.
    """
    encode = _ENCODERS.get(type(request))
    if encode is None:
        raise _inexpressible(type(request).__name__)
    method, place, params, headers, body = encode(request)
    table: TableName = request.table
    schema = table.schema or "default"  # the path always names a schema (pyodps, v1)
    path = f"{PREFIX}/projects/{table.project}/schemas/{schema}/tables/{table.table}/{place}"
    content = (("Content-Type", JSON_TYPE),) if body is not None else ()
    return WireRequest(
        method=method,
        path=path,
        params=(*params, *scope.params),
        headers=(*content, *headers),
        body=None if body is None else dump(body),
    )


_Encoded = tuple[str, str, Pairs, Pairs, dict[str, object] | None]


def _create_read(one: CreateReadSession) -> _Encoded:
    if one.incremental_read or one.incremental_options is not None:
        raise _inexpressible("an incremental read")
    if one.filter_fallback:
        raise _inexpressible("FilterPredicateFallback")
    found = fill(Draft(), one).body
    body = {name: found[name] for name in _READ_MEMBERS} | {"EnableEstimateStats": True}
    body["SplitOptions"].pop("SplitUnit")
    return "POST", "sessions", (("session_type", READ),), (), body


def _get_read(one: GetReadSession) -> _Encoded:
    refresh = (("session_refresh", "true"),) if one.refresh else ()
    return "GET", _session(one.session_id), (("session_type", READ), *refresh), (), None


def _read_rows(one: ReadRows) -> _Encoded:
    for problem, is_set in (
        ("skipped rows of a split", one.skip_rows),
        ("the columns of a split", one.data_columns or one.data_columns_unordered),
        ("a range of 0 rows", isinstance(one.split, RowRangeSplit) and not one.split.count),
    ):
        if is_set:
            raise _inexpressible(problem)
    if isinstance(one.split, IndexSplit):
        place: Pairs = (("split_index", str(one.split.index)),)
    else:
        place = (("row_index", str(one.split.offset)), ("row_count", str(one.split.count)))
    size = one.max_batch_raw_size
    limits = (("max_batch_rows", str(one.max_batch_rows)),)
    raw_size = (("max_batch_raw_size", str(size)),) if size else ()
    codec = _CODECS.get(one.compression, "identity")
    params = (("session_id", one.session_id), *place, *limits, *raw_size)
    return "GET", "data", params, (("Accept-Encoding", codec),), None


def _create_write(one: CreateWriteSession) -> _Encoded:
    if one.write_mode is not WriteMode.BATCH:
        raise _inexpressible(f"the write mode {one.write_mode.value}")
    body: dict[str, object] = {
        "DynamicPartitionOptions": {
            "InvalidStrategy": "Exception",
            "InvalidLimit": 1,
            "DynamicPartitionLimit": 512,
        },
        "ArrowOptions": {"TimestampUnit": "nano", "DatetimeUnit": "milli"},
        "Overwrite": one.overwrite,
        "PartitionSpec": encode_partition(one.partition, separator="/"),
        "SupportWriteCluster": False,
        "EnhanceWriteCheck": True,
    }
    return "POST", "sessions", (("session_type", WRITE),), (), body


def _get_write(one: GetWriteSession) -> _Encoded:
    return "GET", _session(one.session_id), (("session_type", WRITE),), (), None


def _write_block(one: WriteBlock) -> _Encoded:
    params = (("attempt_number", str(one.attempt_number)), ("block_number", str(one.block_number)))
    place = f"{_session(one.session_id)}/data"
    return "POST", place, params, (("Content-Type", STREAM_TYPE),), None


def _commit(one: CommitBlocks) -> _Encoded:
    body: dict[str, object] = {"CommitMessages": list(one.messages)}
    if one.wait_seconds is not None:
        body["WaitFlyingWritersTimeoutSeconds"] = one.wait_seconds
    return "POST", "commit", (("session_id", one.session_id),), (), body


_ENCODERS: Mapping[type, Any] = {
    CreateReadSession: _create_read,
    GetReadSession: _get_read,
    ReadRows: _read_rows,
    CreateWriteSession: _create_write,
    GetWriteSession: _get_write,
    WriteBlock: _write_block,
    CommitBlocks: _commit,
}


def _session(session_id: str) -> str:
    if "/" in session_id or session_id in ("", ".", ".."):
        raise ArgumentError(
            f"{session_id[:80]!r} is not a session id of version 1 of the Storage API",
            hint="pass the id that the service returned",
        )
    return f"sessions/{session_id}"


def _inexpressible(what: str) -> ArgumentError:
    return ArgumentError(
        f"version 1 of the Storage API does not support {what}",
        hint="use version 2 of the Storage API, or read and write without it",
    )


def decode_v1(wire: WireRequest) -> V1Request:
    """Decode a request of version 1; raise `InvalidRequestError` for an invalid one."""
    match = _PATH.fullmatch(wire.path)
    if match is None:
        raise in_request(f"{wire.path[:200]!r} is not a path of version 1 of the Storage API")
    table = table_name(match[1], match[2], match[3])
    params, place = Params(wire), match[4]
    if place == "data":
        return _decode_read(table, wire, params)
    if place == "commit":
        fields = _fields(wire)
        return CommitBlocks(
            table=table,
            session_id=params.text("session_id"),
            messages=fields.texts("CommitMessages"),
            wait_seconds=fields.optional_integer("WaitFlyingWritersTimeoutSeconds"),
        )
    if match[6]:
        _check_format(params)
        return WriteBlock(
            table=table,
            session_id=match[6],
            block_number=params.count("block_number"),
            attempt_number=params.count("attempt_number"),
        )
    kind = params.text("session_type")
    if kind not in (READ, WRITE):
        raise in_request(f"session_type is {kind[:40]!r}; it must be {READ} or {WRITE}")
    if not match[5]:
        return _decode_create(table, wire, kind)
    if kind == WRITE:
        return GetWriteSession(table=table, session_id=match[5])
    refresh = params.flag("session_refresh")
    return GetReadSession(table=table, session_id=match[5], refresh=refresh)


def _decode_create(
    table: TableName, wire: WireRequest, kind: str
) -> CreateReadSession | CreateWriteSession:
    if kind == READ:
        found = load_object(wire.body or b"", f"body of {wire.path}", in_request)
        body = dump({name: found[name] for name in _READ_MEMBERS if name in found})
        target = (("Target", table_target(table)),)
        return CreateReadSession.decode(replace(wire, params=target, body=body))
    fields = _fields(wire)
    text = fields.text("PartitionSpec")
    return CreateWriteSession(
        table=table,
        partition=decode_partition(text) if text else PartitionSpec(),
        overwrite=fields.boolean("Overwrite", default=True),
    )


def _decode_read(table: TableName, wire: WireRequest, params: Params) -> ReadRows:
    _check_format(params)
    rows = params.count("row_count")
    split: Split = IndexSplit(params.count("split_index"))
    if rows or "split_index" not in params:  # pyodps always sends all three parameters
        split = RowRangeSplit(params.count("row_index"), rows)
    asked = find_header(wire.headers, "accept-encoding") or ""
    codec = next((one for one, name in _CODECS.items() if name == asked.upper()), Compression.NONE)
    return ReadRows(
        table=table,
        session_id=params.text("session_id"),
        split=split,
        max_batch_rows=params.count("max_batch_rows") or DEFAULT_BATCH_ROWS,
        max_batch_raw_size=params.count("max_batch_raw_size"),
        compression=codec,
    )


def _check_format(params: Params) -> None:
    for name, known in (("data_format_type", "arrow"), ("data_format_version", "v5")):
        value = params.optional(name)
        if value is not None and value.lower() != known:
            raise in_request(f"{name} is {value[:40]!r}; the only supported row format is Arrow V5")


def _fields(wire: WireRequest) -> Fields:
    return parse_object(wire.body or b"", f"body of {wire.path}", in_request)


# -- responses --------------------------------------------------------------------------------


def decode_answer(request: Any, body: bytes, headers: Mapping[str, str]) -> V1Answer:
    """Decode the response of a request whose response is a JSON document (not `ReadRows`).

    The responses of version 1 do not contain the split mode of a read session. It is taken from the
    request, or is RowOffset if the response contains the number of rows.
    """
    if isinstance(request, WriteBlock):
        written = WriteRowsAnswer.decode(body, headers)
        if not written.commit_message:
            raise in_answer("the response to an uploaded block has no CommitMessage")
        return written
    if not isinstance(request, (CreateReadSession, GetReadSession)):
        return BlockSessionAnswer.decode(body, headers)
    found = ReadSessionAnswer.decode(body, headers)
    if isinstance(request, CreateReadSession):
        return replace(found, split_mode=request.split_mode)
    counts = found.record_count is not None
    return replace(found, split_mode=SplitMode.ROW_OFFSET if counts else found.split_mode)


def encode_read_answer(answer: ReadSessionAnswer) -> tuple[bytes, dict[str, str]]:
    """Encode a read session as version 1 does: without the members of the newer versions.

    Either the number of rows or the number of splits is -1, because the Java client uses the number
    of splits if it is at least 0.
    """
    found = fill(Draft(), answer).body
    body = {name: found[name] for name in _READ_ANSWER}
    if answer.split_mode is SplitMode.ROW_OFFSET:
        body["SplitsCount"] = -1
    return dump(body), {}
