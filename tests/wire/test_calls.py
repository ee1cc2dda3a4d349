"""Each action of the Storage API: exact spelling, round trips, and hostile requests and answers."""

from __future__ import annotations

import json
import pickle
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.errors import (
    ArgumentError,
    ConflictError,
    FramingError,
    InvalidRequestError,
    OdpsNbError,
    ProtocolError,
    ServiceError,
)
from odps_nb.schema import TableSchema
from odps_nb.terms import (
    BlobReference,
    Compression,
    IndexSplit,
    PartitionSpec,
    RowRangeSplit,
    SessionStatus,
    SplitMode,
    TableName,
    TimeUnit,
    WriteMode,
)
from odps_nb.wire.calls import (
    ACCESS_TOKEN,
    HTTP_CODINGS,
    JSON_TYPE,
    REQUESTS,
    ROUTE_TOKEN,
    STREAM_TYPE,
    AbortWriteSession,
    BlockSessionAnswer,
    CloseWriteStream,
    CommitBlocks,
    CommitWriteSession,
    CreateBlockSession,
    CreateInstanceReadSession,
    CreateReadSession,
    CreateWriteSession,
    CreateWriteStream,
    EmptyAnswer,
    GetBlockSession,
    GetInstanceReadSession,
    GetReadSession,
    GetWriteSchema,
    GetWriteSession,
    GetWriteStream,
    InstanceSessionAnswer,
    Preview,
    ReadBlobs,
    ReadInstance,
    ReadRows,
    ReadSessionAnswer,
    Scope,
    StorageRequest,
    WireRequest,
    WriteBlob,
    WriteBlobAnswer,
    WriteBlobBatch,
    WriteBlock,
    WriteBlockAnswer,
    WriteRows,
    WriteRowsAnswer,
    WriteSchemaAnswer,
    WriteSessionAnswer,
    WriteSessionStateAnswer,
    WriteStreamAnswer,
    accepted_coding,
    content_coding,
    decode_partition,
    decode_request,
    find_header,
)
from odps_nb.wire.schema_json import WriteSchema, assign_column_ids
from odps_nb.wire.type_text import parse_columns
from tests.support.wire.schemas import json_values, outcome, schemas

TABLE = TableName(project="p1", table="t")
IN_SCHEMA = TableName(project="p1", schema="sc1", table="t")
DS = PartitionSpec.of("ds=2024-01-01,city=杭州 west")
REF = BlobReference("/wByZWYw")
ROUTE = (("Content-Type", JSON_TYPE), (ROUTE_TOKEN, "rt"))
SESSION = ("SessionId", "s-1")

READ_BODY = (
    '{"RequiredDataColumns": [], "RequiredPartitionColumns": [], "RequiredPartitions": [], '
    '"RequiredBucketIds": [], "SplitOptions": {"SplitMode": "Size", "SplitUnit": "ByteSize", '
    '"SplitNumber": 268435456, "CrossPartition": true}, "ArrowOptions": {"TimestampUnit": "nano", '
    '"DatetimeUnit": "milli"}, "FilterPredicate": "", "FilterPredicateFallback": false, '
    '"SplitMaxFileNum": 0, "IncrementalRead": false}'
)
ROWS_BODY = (
    '{"MaxBatchRows": 4096, "SkipRowNum": 0, "MaxBatchRawSize": 0, "DataFormat": {"Type": "Arrow",'
    ' "Version": "V5"}, "DataColumns": [], "DataColumnsUnordered": false}'
)
BLOCK_BODY = (
    '{"PartitionSpec": "ds=x", "Overwrite": true, "DynamicPartitionOptions": {"InvalidStrategy": '
    '"Exception", "InvalidLimit": -1, "DynamicPartitionLimit": -1}, "ArrowOptions": '
    '{"TimestampUnit": "nano", "DatetimeUnit": "milli"}, "SupportWriteCluster": false, '
    '"MaxFieldSize": 0, "EnhanceWriteCheck": false, "SupportSaveToPangu": false}'
)

Pairs = tuple[tuple[str, str], ...]


def spelled(
    request: StorageRequest, *params: tuple[str, str], body: str | None, headers: Pairs = ()
) -> Any:
    """One row of the table below: what follows Action and Target, the body, the headers."""
    return pytest.param(
        request, params, body, headers or (("Content-Type", JSON_TYPE),), id=type(request).__name__
    )


SPELLINGS = [
    spelled(CreateReadSession(table=TABLE), body=READ_BODY),
    spelled(
        GetReadSession(table=TABLE, session_id="s-1"),
        SESSION,
        ("session_refresh", "false"),
        body="{}",
    ),
    spelled(
        GetReadSession(table=TABLE, session_id="s-1", refresh=True),
        SESSION,
        ("session_refresh", "true"),
        body="{}",
    ),
    spelled(
        ReadRows(table=TABLE, session_id="s-1", split=IndexSplit(3), route_token="rt"),
        SESSION,
        ("Index", "3"),
        body=ROWS_BODY,
        headers=ROUTE,
    ),
    spelled(
        ReadRows(
            table=TABLE,
            session_id="s-1",
            split=RowRangeSplit(10, 5),
            compression=Compression.LZ4,
            route_token="rt",
        ),
        SESSION,
        ("Offset", "10"),
        ("Count", "5"),
        body=ROWS_BODY,
        headers=(*ROUTE, ("ACCEPT-ENCODING", "x-lz4-frame")),
    ),
    spelled(Preview(table=TABLE), body="{}"),
    spelled(
        Preview(table=TABLE, limit=2, partition=PartitionSpec.of("ds=x/h=1"), columns=("id",)),
        ("Limit", "2"),
        ("Partition", "ds=x,h=1"),
        body='{"Limit": 2, "Partition": "ds=x,h=1", "Columns": ["id"]}',
    ),
    spelled(CreateWriteSession(table=TABLE), body='{"PartialPartitionSpec": "", "Flags": {}}'),
    spelled(
        CreateWriteSession(
            table=TABLE,
            partition=PartitionSpec.of("ds=x,h=1"),
            overwrite=True,
            flags=(("quota_name", "q"),),
        ),
        body='{"PartialPartitionSpec": "ds=x/h=1", '
        '"Flags": {"overwrite": "true", "quota_name": "q"}}',
    ),
    spelled(GetWriteSession(table=TABLE, session_id="s-1"), SESSION, body="{}"),
    spelled(
        CommitWriteSession(table=TABLE, session_id="s-1", route_token="rt"),
        SESSION,
        body="{}",
        headers=ROUTE,
    ),
    spelled(
        CommitWriteSession(table=TABLE, session_id="s-1", streams=(("a", 1), ("b", 2))),
        SESSION,
        body='{"StreamIds": ["a", "b"], "StreamVersions": [1, 2]}',
    ),
    spelled(
        AbortWriteSession(table=TABLE, session_id="s-1", route_token="rt"),
        SESSION,
        body="{}",
        headers=ROUTE,
    ),
    spelled(
        GetWriteSchema(table=TABLE, session_id="s-1", route_token="rt"),
        SESSION,
        body="{}",
        headers=ROUTE,
    ),
    spelled(
        CreateWriteStream(table=TABLE, session_id="s-1", stream_id="0", route_token="rt"),
        SESSION,
        body='{"StreamId": "0", "StreamVersion": 1}',
        headers=ROUTE,
    ),
    spelled(
        CreateWriteStream(
            table=TABLE, session_id="s-1", stream_id="0", stream_version=2, exactly_once=True
        ),
        SESSION,
        body='{"StreamId": "0", "StreamVersion": 2, "ExactlyOnceMode": true}',
    ),
    spelled(
        GetWriteStream(
            table=TABLE, session_id="s-1", stream_id="0", exactly_once=True, route_token="rt"
        ),
        SESSION,
        ("StreamId", "0"),
        ("StreamVersion", "1"),
        ("ExactlyOnceMode", "true"),
        body='{"StreamId": "0", "StreamVersion": 1, "ExactlyOnceMode": true}',
        headers=ROUTE,
    ),
    spelled(
        GetWriteStream(table=TABLE, session_id="s-1", stream_id="0"),
        SESSION,
        ("StreamId", "0"),
        ("StreamVersion", "1"),
        body='{"StreamId": "0", "StreamVersion": 1}',
    ),
    spelled(
        CloseWriteStream(table=TABLE, session_id="s-1", stream_id="0", route_token="rt"),
        SESSION,
        body='{"SessionId": "s-1", "StreamId": "0", "StreamVersion": 1}',
        headers=ROUTE,
    ),
    spelled(
        WriteRows(table=TABLE, session_id="s-1", stream_id="0", stream_version=1, count=3),
        SESSION,
        ("StreamId", "0"),
        ("StreamVersion", "1"),
        ("Count", "3"),
        body=None,
        headers=(("Content-Type", STREAM_TYPE),),
    ),
    spelled(
        WriteRows(
            table=TABLE,
            session_id="s-1",
            stream_id="0",
            stream_version=1,
            count=3,
            row_offset=0,
            access_token="AT",
            route_token="rt",
            table_id="id",
            schema_version="0",
        ),
        SESSION,
        ("StreamId", "0"),
        ("StreamVersion", "1"),
        ("Count", "3"),
        ("TableId", "id"),
        ("SchemaVersion", "0"),
        ("RowOffset", "0"),
        body=None,
        headers=(("Content-Type", STREAM_TYPE), (ROUTE_TOKEN, "rt"), (ACCESS_TOKEN, "AT")),
    ),
    spelled(
        WriteBlob(
            table=TABLE,
            session_id="s-1",
            stream_id="0",
            stream_version=1,
            column_id=6,
            compression=Compression.ZSTD,
            route_token="rt",
        ),
        SESSION,
        ("StreamId", "0"),
        ("StreamVersion", "1"),
        ("PartitionValues", ""),
        ("ColumnIndex", "6"),
        body=None,
        headers=(
            ("Content-Type", STREAM_TYPE),
            (ROUTE_TOKEN, "rt"),
            ("Content-Encoding", "zstd"),
        ),
    ),
    spelled(
        WriteBlobBatch(
            table=TABLE,
            session_id="s-1",
            stream_id="0",
            stream_version=1,
            compression=Compression.LZ4,
        ),
        SESSION,
        ("StreamId", "0"),
        ("StreamVersion", "1"),
        ("Mode", "Batch"),
        body=None,
        headers=(("Content-Type", STREAM_TYPE), ("Content-Encoding", "x-lz4-frame")),
    ),
    spelled(
        CreateBlockSession(table=TABLE, partition=PartitionSpec.of("ds=x"), overwrite=True),
        ("WriteMode", "BatchCompatible"),
        ("enableQuotaToken", "true"),
        body=BLOCK_BODY,
    ),
    spelled(
        GetBlockSession(table=TABLE, session_id="s-1", route_token="rt"),
        ("WriteMode", "BatchCompatible"),
        SESSION,
        body="{}",
        headers=ROUTE,
    ),
    spelled(
        WriteBlock(
            table=TABLE, session_id="s-1", block_number=2, attempt_number=0, quota_token="Q"
        ),
        ("WriteMode", "BatchCompatible"),
        SESSION,
        ("BlockNumber", "2"),
        ("AttemptNumber", "0"),
        ("quotaToken", "Q"),
        body=None,
        headers=(("Content-Type", "application/vnd.apache.arrow.stream"),),
    ),
    spelled(
        CommitBlocks(table=TABLE, session_id="s-1", commit_messages=("a", "b")),
        ("WriteMode", "BatchCompatible"),
        SESSION,
        body='{"CommitMessages": ["a", "b"]}',
    ),
]

OTHER_TARGETS = [
    (
        ReadBlobs(references=(REF,)),
        "POST",
        "generic.blob",
        (),
        '{"BlobReferences": ["/wByZWYw"]}',
    ),
    (
        CreateInstanceReadSession(project="p1", instance_id="i-1"),
        "POST",
        "projects.p1.instances.i-1",
        (),
        '{"EnableLimit": false}',
    ),
    (
        GetInstanceReadSession(project="p1", instance_id="i-1", session_id="s-1"),
        "GET",
        "projects.p1.instances.i-1",
        (SESSION,),
        None,
    ),
    (
        ReadInstance(project="p1", instance_id="i-1", session_id="s-1", offset=4, count=3),
        "POST",
        "projects.p1.instances.i-1",
        (SESSION, ("Count", "3"), ("Offset", "4")),
        '{"TaskName": "AnonymousSQLTask", "QueryId": 0, "EnableLimit": false, "Columns": []}',
    ),
    (
        ReadInstance(project="p1", instance_id="i-1", session_id="s-1", offset=4),
        "POST",
        "projects.p1.instances.i-1",
        (SESSION, ("Offset", "4")),
        '{"TaskName": "AnonymousSQLTask", "QueryId": 0, "EnableLimit": false, "Columns": []}',
    ),
]


# -- spelling ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("request_", "params", "body", "headers"), SPELLINGS)
def test_version_2_is_spelled_as_the_stock_client_spells_it(
    request_: StorageRequest, params: Pairs, body: str | None, headers: Pairs
) -> None:
    wire = request_.encode(scope=Scope(curr_project="p1"))
    assert (wire.method, wire.path) == ("POST", "/api/storage/v2")
    assert wire.params == (
        ("Action", request_.ACTION),
        ("Target", "projects.p1.tables.t"),
        *params,
        ("curr_project", "p1"),
    )
    assert wire.headers == headers
    assert wire.body == (None if body is None else body.encode())


@pytest.mark.parametrize(("request_", "method", "target", "params", "body"), OTHER_TARGETS)
def test_other_targets_are_spelled_as_the_stock_client_spells_them(
    request_: StorageRequest, method: str, target: str, params: Pairs, body: str | None
) -> None:
    wire = request_.encode()
    assert (wire.method, wire.path) == (method, "/api/storage/v2")
    assert wire.params == (("Action", request_.ACTION), ("Target", target), *params)
    assert wire.headers == (("Content-Type", JSON_TYPE),)
    assert wire.body == (None if body is None else body.encode())
    assert (wire.action, wire.target) == (request_.ACTION, target)


def test_every_request_is_in_the_tables_above() -> None:
    shown = {type(param.values[0]) for param in SPELLINGS} | {type(r[0]) for r in OTHER_TARGETS}
    assert shown == set(REQUESTS)


@pytest.mark.parametrize(("request_", "params", "body", "headers"), SPELLINGS)
def test_version_3_adds_only_the_write_mode(
    request_: StorageRequest, params: Pairs, body: str | None, headers: Pairs
) -> None:
    two, three = request_.encode(), request_.encode(3)
    assert three.path == "/api/storage/v3"
    assert (three.headers, three.body, three.method) == (two.headers, two.body, two.method)
    added = set(three.params) - set(two.params)
    has_mode = hasattr(request_, "write_mode")
    assert added == ({("WriteMode", "Batch")} if has_mode else set())


def test_write_mode_stands_where_the_stock_client_puts_it() -> None:
    rows = WriteRows(
        table=TABLE, session_id="s", stream_id="0", stream_version=1, count=3, row_offset=0
    )
    names = [name for name, _ in rows.encode(3).params]
    assert names[-3:] == ["Count", "WriteMode", "RowOffset"]
    stream = GetWriteStream(table=TABLE, session_id="s", stream_id="0", exactly_once=True)
    names = [name for name, _ in stream.encode(3).params]
    assert names[-3:] == ["StreamVersion", "WriteMode", "ExactlyOnceMode"]


def test_schema_is_part_of_the_target_and_the_scope_comes_last() -> None:
    wire = Preview(table=IN_SCHEMA).encode(
        scope=Scope(curr_project="p1", curr_schema="sc1", quota_name="q")
    )
    assert wire.params == (
        ("Action", "TablePreview"),
        ("Target", "projects.p1.schemas.sc1.tables.t"),
        ("quotaName", "q"),
        ("curr_project", "p1"),
        ("curr_schema", "sc1"),
    )


def test_incremental_options_are_sent_only_if_there_are_any() -> None:
    options = {"Mode": "version", "From": 1, "To": 2}
    request = CreateReadSession(table=TABLE, incremental_read=True, incremental_options=options)
    body = json.loads(request.encode().body or b"")
    assert (body["IncrementalRead"], body["IncrementalReadOptions"]) == (True, options)
    assert decode_request(request.encode()) == request


def test_url_is_encoded_once_and_decodes_to_the_parameters() -> None:
    request = Preview(table=TABLE, partition=DS)
    wire = request.encode()
    url = wire.url("http://127.0.0.1:8080/")
    assert url == (
        "http://127.0.0.1:8080/api/storage/v2?Action=TablePreview&Target=projects.p1.tables.t"
        "&Partition=ds%3D2024-01-01%2Ccity%3D%E6%9D%AD%E5%B7%9E+west"
    )
    assert tuple(parse_qsl(urlsplit(url).query)) == wire.params
    assert WireRequest(method="GET", path="/a b/表").url("http://h") == ("http://h/a%20b/%E8%A1%A8")


def test_value_that_no_url_can_hold_is_told() -> None:
    request = GetReadSession(table=TABLE, session_id="\ud800")
    with pytest.raises(ArgumentError, match="not valid Unicode"):
        request.encode().url("http://h")


@pytest.mark.parametrize("token", ["a\r\nHost: x", "é", "\x00"])
def test_token_that_cannot_be_a_header_is_refused(token: str) -> None:
    body = json.dumps({"AccessToken": token}).encode()
    with pytest.raises(FramingError, match="AccessToken cannot be a header"):
        WriteStreamAnswer.decode(body, {})


def test_only_rows_with_an_offset_may_be_sent_twice() -> None:
    rows = WriteRows(table=TABLE, session_id="s", stream_id="0", stream_version=1, count=3)
    with_offset = WriteRows(
        table=TABLE, session_id="s", stream_id="0", stream_version=1, count=3, row_offset=0
    )
    assert (rows.idempotent, with_offset.idempotent) == (False, True)
    unsafe = {kind.__name__ for kind in REQUESTS if not isinstance(kind.idempotent, property)} - {
        kind.__name__ for kind in REQUESTS if kind.idempotent is True
    }
    assert unsafe == {"CommitWriteSession", "CommitBlocks", "WriteBlock"}


def test_reprs_are_bounded_and_hold_no_tokens() -> None:
    rows = WriteRows(
        table=TABLE,
        session_id="s",
        stream_id="0",
        stream_version=1,
        count=3,
        access_token="SECRET",
    )
    block = WriteBlock(
        table=TABLE, session_id="s", block_number=0, attempt_number=0, quota_token="SECRET"
    )
    answer = WriteStreamAnswer(access_token="SECRET", quota_token="SECRET")
    wire = WireRequest(
        method="POST", path="/p", params=(("a", "b" * 10**6),), body=b"x" * 12_345_678
    )
    assert "SECRET" not in repr((rows, block, answer))
    assert len(repr(wire)) < 300
    assert repr(wire).endswith(", <12.3 MB>)")
    assert repr(rows.encode()).endswith("Count=3, no body)")


# -- round trips ------------------------------------------------------------------------------

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
ids = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
table_names = st.builds(TableName, project=ids, schema=st.none() | ids, table=ids)
values = words.filter(lambda value: PartitionSpec((("key", value),)).has_name)
specs = st.dictionaries(ids, values, max_size=3).map(PartitionSpec.of)
counts = st.integers(0, 10**15)
tokens = st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)
references = st.binary(min_size=1, max_size=12).map(BlobReference.from_raw)
compressions = st.sampled_from(Compression)
modes = st.sampled_from([m for m in WriteMode if m is not WriteMode.BATCH_COMPATIBLE])
word_lists = st.lists(words, max_size=3).map(tuple)
splits = st.one_of(st.builds(IndexSplit, counts), st.builds(RowRangeSplit, counts, counts))
stream = {"table": table_names, "session_id": words, "stream_id": words}
versioned = {**stream, "stream_version": counts, "route_token": tokens}
session = {"table": table_names, "session_id": words, "route_token": tokens}
instance = {"project": ids, "instance_id": ids}

REQUEST_STRATEGIES: dict[type[Any], dict[str, st.SearchStrategy[Any]]] = {
    CreateReadSession: {
        "table": table_names,
        "data_columns": word_lists,
        "partition_columns": word_lists,
        "partitions": st.lists(specs.filter(len), max_size=2).map(tuple),
        "bucket_ids": st.lists(counts, max_size=3).map(tuple),
        "split_mode": st.sampled_from(SplitMode),
        "split_number": counts,
        "cross_partition": st.booleans(),
        "timestamp_unit": st.sampled_from(TimeUnit),
        "datetime_unit": st.sampled_from(TimeUnit),
        "filter_predicate": words,
        "filter_fallback": st.booleans(),
        "split_max_file_num": counts,
        "incremental_read": st.booleans(),
    },
    GetReadSession: {"table": table_names, "session_id": words, "refresh": st.booleans()},
    ReadRows: {
        **session,
        "split": splits,
        "max_batch_rows": st.integers(1, 10**9),
        "skip_rows": counts,
        "max_batch_raw_size": counts,
        "data_columns": word_lists,
        "data_columns_unordered": st.booleans(),
        "compression": compressions,
    },
    Preview: {
        "table": table_names,
        "limit": st.none() | counts,
        "partition": st.none() | specs.filter(len),
        "columns": word_lists,
    },
    CreateWriteSession: {
        "table": table_names,
        "partition": specs,
        "overwrite": st.booleans(),
        "flags": st.just((("quota_name", "q"),)) | st.just(()),
    },
    GetWriteSession: {"table": table_names, "session_id": words},
    CommitWriteSession: {
        **session,
        "streams": st.lists(st.tuples(words, counts), max_size=3).map(tuple),
    },
    AbortWriteSession: session,
    GetWriteSchema: session,
    CreateWriteStream: {**versioned, "exactly_once": st.booleans()},
    GetWriteStream: {**versioned, "exactly_once": st.booleans()},
    CloseWriteStream: versioned,
    WriteRows: {
        **versioned,
        "count": counts,
        "row_offset": st.none() | counts,
        "access_token": tokens,
        "table_id": st.none() | words,
        "schema_version": st.none() | words,
    },
    WriteBlob: {
        **versioned,
        "partition": specs,
        "column_id": counts,
        "compression": compressions,
    },
    WriteBlobBatch: {**versioned, "compression": compressions},
    ReadBlobs: {
        "references": st.lists(references, max_size=3).map(tuple),
        "compression": compressions,
    },
    CreateInstanceReadSession: {**instance, "enable_limit": st.booleans()},
    GetInstanceReadSession: {**instance, "session_id": words},
    ReadInstance: {
        **instance,
        "session_id": words,
        "offset": counts,
        "count": counts,
        "columns": word_lists,
        "task_name": words,
        "enable_limit": st.booleans(),
        "compression": compressions,
    },
    CreateBlockSession: {
        "table": table_names,
        "partition": specs,
        "overwrite": st.booleans(),
        "dynamic_partition_limit": st.integers(-1, 10),
        "max_field_size": counts,
        "enhance_write_check": st.booleans(),
    },
    GetBlockSession: session,
    WriteBlock: {
        **session,
        "block_number": counts,
        "attempt_number": counts,
        "quota_token": words,
    },
    CommitBlocks: {**session, "commit_messages": word_lists},
}
requests_of_any_kind = st.one_of(
    *(st.builds(kind, **parts) for kind, parts in REQUEST_STRATEGIES.items())
)


def test_every_request_has_a_strategy() -> None:
    assert set(REQUEST_STRATEGIES) == set(REQUESTS)


@pytest.mark.parametrize("kind", REQUEST_STRATEGIES, ids=lambda kind: kind.__name__)
def test_request_round_trips(kind: type[Any]) -> None:
    @settings(max_examples=25)
    @given(st.builds(kind, **REQUEST_STRATEGIES[kind]), st.sampled_from([2, 3]))
    def check(request: Any, version: int) -> None:
        wire = request.encode(version, scope=Scope(curr_project="p"))
        assert decode_request(wire) == request
        over_http = WireRequest(
            method="POST",  # servers ignore it
            path=wire.path,
            params=tuple(parse_qsl(urlsplit(wire.url("http://h")).query, keep_blank_values=True)),
            headers=tuple((name.lower(), value) for name, value in wire.headers),
            body=wire.body,
        )
        assert decode_request(over_http) == request
        assert pickle.loads(pickle.dumps(request)) == request

    check()


@pytest.mark.parametrize(
    "kind",
    [kind for kind in REQUESTS if "write_mode" in kind.__dataclass_fields__],
    ids=lambda kind: kind.__name__,
)
@pytest.mark.parametrize("mode", [m for m in WriteMode if m is not WriteMode.BATCH_COMPATIBLE])
def test_write_mode_round_trips_in_version_3(kind: type[Any], mode: WriteMode) -> None:
    required: dict[str, Any] = {
        "table": TABLE,
        "session_id": "default",
        "stream_id": "0",
        "stream_version": 1,
        "count": 1,
    }
    parts = {k: v for k, v in required.items() if k in REQUEST_STRATEGIES[kind]}
    request = kind(**parts, write_mode=mode)
    assert decode_request(request.encode(3)) == request


def test_streams_of_a_block_session_keep_their_write_mode() -> None:
    mode = WriteMode.BATCH_COMPATIBLE
    request = CreateWriteStream(
        table=TABLE, session_id="s", stream_id="block-0-attempt-0", write_mode=mode
    )
    assert decode_request(request.encode(3)) == request


# -- requests of other clients ----------------------------------------------------------------


def wire(action: str, *params: tuple[str, str], body: object = None, **headers: str) -> WireRequest:
    return WireRequest(
        method="POST",
        path="/api/storage/v2",
        params=(("Action", action), ("Target", "projects.p1.tables.t"), *params),
        headers=tuple((name.replace("_", "-"), value) for name, value in headers.items()),
        body=None if body is None else json.dumps(body).encode(),
    )


def test_minimal_bodies_have_defaults() -> None:
    assert decode_request(wire("TableCreateReadSession", body={})) == CreateReadSession(table=TABLE)
    assert decode_request(wire("TableCreateReadSession")) == CreateReadSession(table=TABLE)
    rows = decode_request(wire("TableRead", SESSION, ("Index", "0"), body={"MaxBatchRows": 0}))
    assert rows == ReadRows(table=TABLE, session_id="s-1", split=IndexSplit(0))


def test_unknown_members_and_parameters_are_ignored() -> None:
    body = {"AccquireDownload": True, "EnableLargeString": None, "SplitOptions": {"New": 1}}
    found = decode_request(wire("TableCreateReadSession", ("New", "1"), body=body))
    assert found == CreateReadSession(table=TABLE)


@pytest.mark.parametrize("spelling", ["true", True])
def test_overwrite_may_be_text_or_a_truth_value(spelling: object) -> None:
    found = decode_request(wire("TableCreateWriteSession", body={"Flags": {"overwrite": spelling}}))
    assert found == CreateWriteSession(table=TABLE, overwrite=True)


def test_java_joins_partition_levels_with_a_slash() -> None:
    body = {"RequiredPartitions": ["pt=a/region=b"]}
    found = decode_request(wire("TableCreateReadSession", body=body))
    assert found == CreateReadSession(table=TABLE, partitions=(PartitionSpec.of("pt=a,region=b"),))


def test_get_without_a_body_reads_its_parameters() -> None:
    found = decode_request(wire("TableGetWriteStream", SESSION, ("StreamId", "0")))
    assert found == GetWriteStream(table=TABLE, session_id="s-1", stream_id="0", stream_version=0)


def test_a_stream_may_be_named_in_the_body_alone() -> None:
    body = {"StreamId": "0", "StreamVersion": 2, "ExactlyOnceMode": True}
    found = decode_request(wire("TableGetWriteStream", SESSION, body=body))
    expected = GetWriteStream(
        table=TABLE, session_id="s-1", stream_id="0", stream_version=2, exactly_once=True
    )
    assert found == expected


@pytest.mark.parametrize("spelled", ["staging-123", "7", 7])
def test_a_staging_id_is_text_whatever_it_looks_like(spelled: object) -> None:
    rows = json.dumps({"StagingId": spelled}).encode()
    assert WriteRowsAnswer.decode(rows, {}).staging_id == str(spelled)
    session = json.dumps({"MinUncommittedStagingId": spelled}).encode()
    found = WriteSessionStateAnswer.decode(session, {})
    assert found.min_uncommitted_staging_id == str(spelled)


def test_stream_may_be_numbered() -> None:
    body = {"StreamId": 7, "StreamVersion": "2"}
    found = decode_request(wire("TableCreateWriteStream", SESSION, body=body))
    assert found == CreateWriteStream(
        table=TABLE, session_id="s-1", stream_id="7", stream_version=2
    )


def test_preview_may_have_its_limits_in_the_body_alone() -> None:
    found = decode_request(wire("TablePreview", body={"Limit": 3, "Partition": "ds=x"}))
    assert found == Preview(table=TABLE, limit=3, partition=PartitionSpec.of("ds=x"))


def test_sapi2_sends_the_body_of_a_table_to_an_instance() -> None:
    whole = WireRequest(
        method="POST",
        path="/api/storage/v2",
        params=(("Action", "InstanceCreateReadSession"), ("Target", "projects.p.instances.i")),
        body=READ_BODY.encode(),
    )
    assert decode_request(whole) == CreateInstanceReadSession(project="p", instance_id="i")
    rows = WireRequest(
        method="POST",
        path="/api/storage/v2",
        params=(
            ("Action", "InstanceRead"),
            ("Target", "projects.p.instances.i"),
            SESSION,
            ("Count", "5"),
        ),
        body=ROWS_BODY.encode(),
    )
    assert decode_request(rows) == ReadInstance(
        project="p", instance_id="i", session_id="s-1", offset=0, count=5
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("ds=2024-01-01,h=1", "ds=2024-01-01,h=1"),
        ("ds=x/h=1", "ds=x,h=1"),
        ("path=/a/b,c/d/h=1", "path=/a/b,c/d,h=1"),
    ],
)
def test_partition_text(text: str, expected: str) -> None:
    assert str(decode_partition(text)) == expected


@pytest.mark.parametrize("value", [" x ", "x ", "\u3000x", "'x'", "''", '"x', "a=b", "=", "\n"])
def test_partition_value_is_what_came(value: str) -> None:
    assert decode_partition(f"ds={value}/h= 1") == PartitionSpec((("ds", value), ("h", " 1")))
    quoted = decode_partition(f"ds='{value}'/h=\" 1\"", quoted=True)
    assert quoted == PartitionSpec((("ds", value), ("h", " 1")))


@pytest.mark.parametrize("text", ["x", "=x", "ds=", " ", " ds=x", "1=x", "ds=x,,h=", "d s=x"])
def test_bad_partition_text_is_told(text: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        decode_partition(text)
    assert (caught.value.status, caught.value.code) == (400, "InvalidPartitionSpec")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, Compression.NONE),
        ("zstd", Compression.ZSTD),
        ("X-LZ4-Frame", Compression.LZ4),
        ("x-lz4-frame,zstd", Compression.LZ4),
        ("zstd;q=1.0, x-lz4-frame", Compression.ZSTD),
        ("gzip, deflate, br, zstd", Compression.NONE),
        ("identity", Compression.NONE),
    ],
)
def test_only_a_list_of_our_codings_is_a_wish(header: str | None, expected: Compression) -> None:
    headers = {} if header is None else {"Accept-Encoding": header}
    assert accepted_coding(headers) is expected
    assert accepted_coding(tuple(headers.items())) is expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [(None, Compression.NONE), ("identity", Compression.NONE), ("ZSTD", Compression.ZSTD)],
)
def test_coding_of_an_upload(header: str | None, expected: Compression) -> None:
    assert content_coding({} if header is None else {"content-encoding": header}) is expected


def test_names_of_codings_are_those_of_the_codecs() -> None:
    from odps_nb.wire import codings

    assert HTTP_CODINGS == codings.HTTP_NAMES


def test_header_is_found_in_any_case() -> None:
    assert find_header({"X-Odps-Request-Id": "r"}, "x-odps-request-id") == "r"
    assert find_header((("x-ODPS-request-ID", ""),), "x-odps-request-id") is None


# -- bad requests -----------------------------------------------------------------------------

READ = ("TableRead", SESSION, ("Index", "0"))


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (WireRequest(method="POST", path="/"), "parameter Action is missing"),
        (wire("NoSuchAction"), "Action 'NoSuchAction' is unknown"),
        (wire("TableRead", ("Index", "0")), "parameter SessionId is missing"),
        (wire("TableRead", SESSION), "parameter Offset is missing"),
        (wire("TableRead", SESSION, ("Offset", "0")), "parameter Count is missing"),
        (wire("TableRead", SESSION, ("Index", "-1")), "not an integer of at least 0"),
        (wire("TableRead", SESSION, ("Index", "٣")), "not an integer of at least 0"),
        (wire("TableRead", SESSION, ("Index", "9" * 19)), "not an integer of at least 0"),
        (wire("TableRead", SESSION, ("Index", "-")), "not an integer of at least 0"),
        (wire(*READ, body=[]), "is a list where a JSON object"),
        (wire(*READ, body={"MaxBatchRows": "many"}), "MaxBatchRows is text"),
        (wire(*READ, body={"SkipRowNum": -1}), "SkipRowNum is negative"),
        (wire(*READ, body={"DataColumns": "a"}), "DataColumns is text where a list"),
        (wire("TablePreview", ("Target", "")), "parameter Target is missing"),
        (wire("TablePreview", ("Target", "projects.p")), "is not a table"),
        (wire("TablePreview", ("Target", "projects.p.tables.a;b")), "not a valid table name"),
        (wire("TablePreview", ("Target", "projects.p.tables.a.b")), "not a valid table name"),
        (wire("TablePreview", ("Limit", "all")), "not an integer"),
        (wire("InstanceRead"), "is not an instance"),
        (wire("InstanceRead", ("Target", "projects.p.instances.../x")), "is not an instance"),
        (wire("BlobRead", body={}), "is not generic.blob"),
        (wire("TableCreateReadSession", body={"SplitOptions": {"SplitMode": "x"}}), "split mode"),
        (
            wire("TableCreateReadSession", body={"ArrowOptions": {"TimestampUnit": "x"}}),
            "time unit",
        ),
        (wire("TableCreateWriteSession", body={"Flags": {"overwrite": 1}}), "true or false"),
        (wire("TableCreateWriteSession", ("WriteMode", "x")), "WriteMode 'x' is unknown"),
        (wire("TableCreateWriteStream", SESSION, body={}), "StreamId is missing"),
        (
            wire("TableCreateWriteStream", SESSION, body={"StreamId": "0", "StreamVersion": -1}),
            "StreamVersion is negative",
        ),
        (wire("TableCommitWriteSession", SESSION, body={"StreamIds": ["a"]}), "differ in length"),
        (
            wire(
                "TableWriteBlob",
                SESSION,
                ("StreamId", "0"),
                ("ColumnIndex", "1"),
                Content_Encoding="gzip",
            ),
            "Content-Encoding 'gzip'",
        ),
    ],
)
def test_bad_request_is_told_with_the_answer_to_give(bad: WireRequest, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem) as caught:
        decode_request(bad)
    assert (caught.value.status, caught.value.code) == (400, "InvalidArgument")


def test_bad_reference_is_told() -> None:
    bad = WireRequest(
        method="POST",
        path="/api/storage/v2",
        params=(("Action", "BlobRead"), ("Target", "generic.blob")),
        body=b'{"BlobReferences": ["not base64!"]}',
    )
    with pytest.raises(InvalidRequestError, match="BlobReferences holds an item that is not"):
        decode_request(bad)


def test_number_of_references_has_a_limit() -> None:
    many = ReadBlobs(references=(REF,) * 100_001)
    with pytest.raises(InvalidRequestError, match="100001 items, more than 100000"):
        decode_request(many.encode())


ACTIONS = sorted({kind.ACTION for kind in REQUESTS})
PARAMETERS = [
    "SessionId",
    "Index",
    "Offset",
    "Count",
    "StreamId",
    "StreamVersion",
    "Limit",
    "Partition",
    "PartitionValues",
    "ColumnIndex",
    "Mode",
    "WriteMode",
    "RowOffset",
    "BlockNumber",
    "AttemptNumber",
]
MEMBERS = [
    "StreamId",
    "StreamVersion",
    "StreamIds",
    "StreamVersions",
    "Flags",
    "Columns",
    "RequiredPartitions",
    "SplitOptions",
    "ArrowOptions",
    "BlobReferences",
    "CommitMessages",
    "PartialPartitionSpec",
    "IncrementalReadOptions",
]


@given(
    st.sampled_from(ACTIONS),
    st.sampled_from(["projects.p.tables.t", "projects.p.instances.i", "generic.blob"])
    | st.text(max_size=20),
    st.lists(
        st.tuples(
            st.sampled_from(PARAMETERS),
            st.sampled_from(["0", "1", "Batch", "BatchCompatible", "ds=x"]) | st.text(max_size=9),
        )
    ),
    st.dictionaries(st.sampled_from(MEMBERS), json_values),
)
def test_any_request_is_a_value_or_our_error(
    action: str, target: str, params: list[tuple[str, str]], body: dict[str, Any]
) -> None:
    request = WireRequest(
        method="POST",
        path="/api/storage/v2",
        params=(("Action", action), ("Target", target), *params),
        body=json.dumps(body).encode(),
    )
    found = outcome(decode_request, request)
    if isinstance(found, OdpsNbError):
        assert isinstance(found, InvalidRequestError)
        assert found.status == 400
        assert found.code in ("InvalidArgument", "InvalidPartitionSpec")
    else:
        assert type(found) in REQUESTS


@given(requests_of_any_kind, st.binary(max_size=40))
def test_any_body_is_a_value_or_our_error(request: Any, body: bytes) -> None:
    sent = request.encode()
    changed = WireRequest(method="POST", path=sent.path, params=sent.params, body=body)
    found = outcome(decode_request, changed)
    assert isinstance(found, (*REQUESTS, InvalidRequestError))


# -- answers ----------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
maybe_counts = st.none() | counts
write_schemas = schemas(plain=True).map(WriteSchema.of)
ANSWER_STRATEGIES: dict[type[Any], dict[str, st.SearchStrategy[Any]]] = {
    ReadSessionAnswer: {
        "session_id": words,
        "status": st.sampled_from(SessionStatus),
        "split_mode": st.sampled_from(SplitMode),
        "splits_count": counts,
        "record_count": maybe_counts,
        "schema": schemas().map(assign_column_ids),
        "expires_at": st.none() | st.integers(10**9, 10**10).map(float),
        "estimated_size": maybe_counts,
        "estimated_rows": maybe_counts,
        "bucket_ids": st.lists(counts, max_size=3).map(tuple),
        "message": texts,
        "latest_version": counts,
        "route_token": tokens,
    },
    WriteSessionAnswer: {"session_id": words, "warning": texts, "route_token": tokens},
    WriteSessionStateAnswer: {
        "streams": st.dictionaries(words, st.integers(1, 99), max_size=3),
        "warning": texts,
        "min_uncommitted_staging_id": st.none() | words,
        "status": st.none() | words,
        "route_token": tokens,
    },
    WriteSchemaAnswer: {"schema": write_schemas},
    WriteRowsAnswer: {
        "commit_message": texts,
        "row_offset": maybe_counts,
        "staging_id": st.none() | words,
        "warning": texts,
        "route_token": tokens,
    },
    WriteBlobAnswer: {
        "references": st.lists(references, min_size=1, max_size=3).map(tuple),
        "size": maybe_counts,
        "md5": st.none() | st.just("5eb63bbbe01eeed093cb22bb8f5acdc3"),
        "warning": texts,
        "batch": st.booleans(),
    },
    InstanceSessionAnswer: {
        "download_id": words,
        "status": st.sampled_from(SessionStatus),
        "record_count": maybe_counts,
        "schema": schemas().map(assign_column_ids),
        "owner": texts,
        "quota_name": texts,
    },
    EmptyAnswer: {"warning": texts},
    BlockSessionAnswer: {
        "session_id": st.none() | words,
        "status": st.sampled_from(SessionStatus),
        "schema": schemas().map(assign_column_ids),
        "max_block_number": counts,
        "enhance_write_check": st.booleans(),
        "message": texts,
        "route_token": tokens,
    },
    WriteBlockAnswer: {"commit_message": words, "record_count": counts, "route_token": tokens},
}


@pytest.mark.parametrize("kind", ANSWER_STRATEGIES, ids=lambda kind: kind.__name__)
def test_answer_round_trips(kind: type[Any]) -> None:
    @settings(max_examples=25)
    @given(st.builds(kind, **ANSWER_STRATEGIES[kind]))
    def check(answer: Any) -> None:
        body, headers = answer.encode()
        assert isinstance(json.loads(body), dict)
        assert kind.decode(body, headers) == answer

    check()


@given(write_schemas, tokens, tokens, maybe_counts, maybe_counts, st.sampled_from([None, "7"]))
def test_stream_answer_round_trips(
    schema: WriteSchema,
    access: str | None,
    route: str | None,
    offset: int | None,
    count: int | None,
    version: str | None,
) -> None:
    answer = WriteStreamAnswer(
        schema=schema,
        table_id="id",
        schema_version=version,
        latest_schema_version=version,
        access_token=access,
        route_token=route,
        row_offset=offset,
        record_count=count,
        status="NORMAL",
    )
    body, headers = answer.encode()
    assert WriteStreamAnswer.decode(body, headers) == answer
    members = json.loads(body)
    assert (members["status"], members["Status"]) == (1, "NORMAL")
    assert members["recordCount"] == members["RecordCount"] == count


KINDS = [*ANSWER_STRATEGIES, WriteStreamAnswer]
ANSWER_MEMBERS = [
    "SessionId",
    "SessionStatus",
    "SplitsCount",
    "RecordCount",
    "DataSchema",
    "SplitMode",
    "ExpirationTime",
    "SessionStats",
    "SplitBucketId",
    "TableSchema",
    "Streams",
    "BlobReference",
    "BlobReferences",
    "MD5Value",
    "DownloadID",
    "Status",
    "status",
    "CommitMessage",
    "Code",
]


@given(
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(ANSWER_MEMBERS), json_values),
    st.dictionaries(st.text(), st.text()),
)
def test_any_answer_is_a_value_or_our_error(
    kind: type[Any], members: dict[str, Any], headers: dict[str, str]
) -> None:
    found = outcome(kind.decode, json.dumps(members).encode(), headers)
    assert isinstance(found, (kind, ProtocolError, ServiceError))


@given(st.sampled_from(KINDS), st.binary(max_size=40))
def test_any_bytes_are_an_answer_or_our_error(kind: type[Any], body: bytes) -> None:
    assert isinstance(outcome(kind.decode, body, {}), (kind, ProtocolError))


def test_smallest_session_answer_that_the_stock_client_takes() -> None:
    body = b'{"SessionId": "s", "SessionStatus": "normal", "SplitsCount": 1}'
    assert ReadSessionAnswer.decode(body, {}) == ReadSessionAnswer(session_id="s", splits_count=1)


def test_session_answer_has_every_member_that_some_client_needs() -> None:
    body, _ = ReadSessionAnswer(session_id="s").encode()
    members = json.loads(body)
    assert set(members) == {
        "SessionId",
        "SessionStatus",
        "SessionType",
        "ExpirationTime",
        "Message",
        "SplitsCount",
        "RecordCount",
        "SplitMode",
        "SplitBucketId",
        "DataSchema",
        "TableSchema",
        "SupportedDataFormat",
        "SessionStats",
        "LatestVersion",
        "EnableLargeString",
        "IncrementalReadOptions",
    }
    assert members["RecordCount"] == -1


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, None), (-1, None), (1795212245, 1795212245.0), (1795212245500, 1795212245.5)],
)
def test_expiry_may_be_in_seconds_or_milliseconds(number: int, expected: float | None) -> None:
    body = {"SessionId": "s", "SessionStatus": "NORMAL", "ExpirationTime": number}
    assert ReadSessionAnswer.decode(json.dumps(body).encode(), {}).expires_at == expected


@pytest.mark.parametrize(
    ("kind", "members", "problem"),
    [
        (ReadSessionAnswer, {}, "SessionId is missing"),
        (ReadSessionAnswer, {"SessionId": "s"}, "SessionStatus is missing"),
        (ReadSessionAnswer, {"SessionId": "s", "SessionStatus": "X"}, "not a known session status"),
        (
            ReadSessionAnswer,
            {"SessionId": "s", "SessionStatus": "NORMAL", "SplitMode": "x"},
            "not a split mode",
        ),
        (
            ReadSessionAnswer,
            {"SessionId": "s", "SessionStatus": "NORMAL", "RecordCount": "3"},
            "RecordCount is text where an integer",
        ),
        (WriteSessionAnswer, {}, "SessionId is missing"),
        (WriteSessionStateAnswer, {"Streams": [1]}, "Streams is a list"),
        (WriteStreamAnswer, {"TableSchema": 3}, "TableSchema is a number"),
        (InstanceSessionAnswer, {}, "DownloadID is missing"),
        (InstanceSessionAnswer, {"DownloadID": "d", "Status": "odd"}, "not a known session status"),
        (BlockSessionAnswer, {}, "SessionStatus is missing"),
        (WriteBlockAnswer, {"CommitMessage": ""}, "CommitMessage is missing"),
        (WriteBlobAnswer, {"BlobReference": "?"}, "not a reference"),
    ],
)
def test_bad_answer_is_told_with_its_request_id(
    kind: type[Any], members: dict[str, Any], problem: str
) -> None:
    with pytest.raises(FramingError, match=problem) as caught:
        kind.decode(json.dumps(members).encode(), {"X-Odps-Request-Id": "r-1"})
    assert caught.value.request_id == "r-1"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, SessionStatus.NORMAL),
        ("normal", SessionStatus.NORMAL),
        ("INITIATING", SessionStatus.INIT),
        ("closes", SessionStatus.EXPIRED),
    ],
)
def test_instance_session_may_speak_the_words_of_the_tunnel(
    status: str | None, expected: SessionStatus
) -> None:
    body = json.dumps({"DownloadID": "d", "Status": status}).encode()
    assert InstanceSessionAnswer.decode(body, {}).status is expected


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_error_in_a_200_is_raised_and_not_taken_for_an_empty_result(kind: type[Any]) -> None:
    body = json.dumps(
        {"Code": "InvalidState", "Message": "aborted", "SessionId": "s", "DownloadID": "d"}
    )
    with pytest.raises(ConflictError, match="aborted") as caught:
        kind.decode(body.encode(), {"x-odps-request-id": "r-1"})
    assert (caught.value.code, caught.value.request_id) == ("InvalidState", "r-1")


def test_new_stream_and_its_state_are_read_in_both_casings() -> None:
    lower = {"status": 2, "recordCount": 5, "SchemaVersion": 3, "RowOffset": 5}
    upper = {"Status": "NORMAL", "RecordCount": 5, "ByteSize": 9, "ErrorCode": 4}
    assert WriteStreamAnswer.decode(json.dumps(lower).encode(), {}) == WriteStreamAnswer(
        status="2", record_count=5, schema_version="3", row_offset=5
    )
    assert WriteStreamAnswer.decode(json.dumps(upper).encode(), {}) == WriteStreamAnswer(
        status="NORMAL", record_count=5, byte_size=9, error_code="4"
    )


def test_exactly_once_offset_is_sent_only_where_there_is_one() -> None:
    body, _ = WriteRowsAnswer().encode()
    assert json.loads(body) == {"WarningMessage": "", "CommitMessage": ""}
    body, _ = WriteRowsAnswer(row_offset=3, staging_id="0x5-a").encode()
    assert json.loads(body) == {
        "WarningMessage": "",
        "CommitMessage": "",
        "ExactlyOnceRowOffset": 3,
        "StagingId": "0x5-a",
    }


def test_upload_answer_of_the_protocol() -> None:
    body = (
        b'{"BlobReference": "/wByZWYw", "BlobReferences": ["/wByZWYw"], "Size": 11,'
        b' "MD5Value": "5EB63BBBE01EEED093CB22BB8F5ACDC3", "WarningMessage": ""}'
    )
    expected = WriteBlobAnswer(references=(REF,), size=11, md5="5eb63bbbe01eeed093cb22bb8f5acdc3")
    assert WriteBlobAnswer.decode(body, {}) == expected
    assert REF.raw == bytes.fromhex("ff0072656630")
    alone = WriteBlobAnswer.decode(b'{"BlobReference": "/wByZWYw"}', {})
    assert alone == WriteBlobAnswer(references=(REF,))


BLOB = WriteBlob(table=TABLE, session_id="s", stream_id="0", stream_version=1, column_id=1)
BATCH = WriteBlobBatch(table=TABLE, session_id="s", stream_id="0", stream_version=1)


@pytest.mark.parametrize("references", [[], ["AAAA", "BBBB"]])
def test_single_upload_must_be_answered_with_one_reference(references: list[str]) -> None:
    body = json.dumps({"BlobReferences": references}).encode()
    with pytest.raises(FramingError, match=f"names {len(references)} blobs, not 1"):
        BLOB.decode_answer(body, {})
    assert len(BATCH.decode_answer(body, {}).references) == len(references)


def test_empty_batch_is_answered_with_no_reference() -> None:
    empty = WriteBlobAnswer(references=(), batch=True)
    assert WriteBlobAnswer.decode(*empty.encode()) == empty


ANSWERS: list[tuple[Any, Any]] = [
    (CreateReadSession(table=TABLE), ReadSessionAnswer(session_id="s")),
    (GetReadSession(table=TABLE, session_id="s"), ReadSessionAnswer(session_id="s")),
    (CreateWriteSession(table=TABLE), WriteSessionAnswer(session_id="s")),
    (GetWriteSession(table=TABLE, session_id="s"), WriteSessionStateAnswer(streams={"0": 1})),
    (CommitWriteSession(table=TABLE, session_id="s"), EmptyAnswer()),
    (AbortWriteSession(table=TABLE, session_id="s"), EmptyAnswer()),
    (
        GetWriteSchema(table=TABLE, session_id="s"),
        WriteSchemaAnswer(schema=WriteSchema.of(TableSchema(columns=parse_columns("a blob")))),
    ),
    (
        CreateWriteStream(table=TABLE, session_id="s", stream_id="0"),
        WriteStreamAnswer(status="NORMAL"),
    ),
    (
        GetWriteStream(table=TABLE, session_id="s", stream_id="0"),
        WriteStreamAnswer(status="NORMAL"),
    ),
    (CloseWriteStream(table=TABLE, session_id="s", stream_id="0"), EmptyAnswer(warning="w")),
    (
        WriteRows(table=TABLE, session_id="s", stream_id="0", stream_version=1, count=1),
        WriteRowsAnswer(row_offset=1),
    ),
    (BLOB, WriteBlobAnswer(references=(REF,))),
    (BATCH, WriteBlobAnswer(references=(REF, REF), batch=True)),
    (
        CreateInstanceReadSession(project="p", instance_id="i"),
        InstanceSessionAnswer(download_id="d"),
    ),
    (
        GetInstanceReadSession(project="p", instance_id="i", session_id="d"),
        InstanceSessionAnswer(download_id="d", record_count=3),
    ),
    (CreateBlockSession(table=TABLE), BlockSessionAnswer(session_id="s")),
    (GetBlockSession(table=TABLE, session_id="s"), BlockSessionAnswer(session_id="s")),
    (
        WriteBlock(table=TABLE, session_id="s", block_number=0, attempt_number=0, quota_token="q"),
        WriteBlockAnswer(commit_message="m"),
    ),
    (
        CommitBlocks(table=TABLE, session_id="s", commit_messages=()),
        BlockSessionAnswer(status=SessionStatus.COMMITTED),
    ),
]


@pytest.mark.parametrize(("request_", "answer"), ANSWERS, ids=lambda v: type(v).__name__)
def test_request_reads_its_answer(request_: Any, answer: Any) -> None:
    assert request_.decode_answer(*answer.encode()) == answer


def test_every_request_reads_its_answer_or_is_a_stream() -> None:
    streams = {ReadRows, Preview, ReadInstance, ReadBlobs}
    assert {type(request) for request, _ in ANSWERS} == set(REQUESTS) - streams
    assert not any(hasattr(kind, "decode_answer") for kind in streams)
