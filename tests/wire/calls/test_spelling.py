"""Each Storage API request is encoded as the stock client encodes it, byte for byte."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl, urlsplit

import pytest

from odps_nb.errors import ArgumentError, FramingError
from odps_nb.terms import Compression, IndexSplit, PartitionSpec, RowRangeSplit, TableName
from odps_nb.wire.calls import (
    REQUESTS,
    ROUTE_TOKEN,
    STREAM_TYPE,
    AbortWriteSession,
    CloseWriteStream,
    CommitWriteSession,
    CreateInstanceReadSession,
    CreateReadSession,
    CreateWriteSession,
    CreateWriteStream,
    GetInstanceReadSession,
    GetReadSession,
    GetWriteSchema,
    GetWriteSession,
    GetWriteStream,
    Preview,
    ReadBlobs,
    ReadInstance,
    ReadRows,
    Scope,
    StorageRequest,
    WireRequest,
    WriteBlob,
    WriteBlobBatch,
    WriteRows,
    WriteStreamAnswer,
    decode_request,
)
from odps_nb.wire.calls.core import ACCESS_TOKEN, JSON_TYPE
from tests.support.wire.calls import READ_BODY, REF, ROWS_BODY, SESSION, TABLE, Pairs, spelled

IN_SCHEMA = TableName(project="p1", schema="sc1", table="t")
DS = PartitionSpec.of("ds=2024-01-01,city=杭州 west")
ROUTE = (("Content-Type", JSON_TYPE), (ROUTE_TOKEN, "rt"))

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
        ),
        body='{"PartialPartitionSpec": "ds=x/h=1", "Flags": {"overwrite": "true"}}',
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


@pytest.mark.parametrize(("request_", "params", "body", "headers"), SPELLINGS)
def test_version_2_is_encoded_like_the_stock_client(
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
def test_other_targets_are_encoded_like_the_stock_client(
    request_: StorageRequest, method: str, target: str, params: Pairs, body: str | None
) -> None:
    wire = request_.encode()
    assert (wire.method, wire.path) == (method, "/api/storage/v2")
    assert wire.params == (("Action", request_.ACTION), ("Target", target), *params)
    assert wire.headers == (("Content-Type", JSON_TYPE),)
    assert wire.body == (None if body is None else body.encode())
    assert (wire.action, wire.target) == (request_.ACTION, target)


def test_every_request_is_in_a_table_of_cases() -> None:
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


def test_the_write_mode_is_at_the_same_position_as_in_the_stock_client() -> None:
    rows = WriteRows(
        table=TABLE, session_id="s", stream_id="0", stream_version=1, count=3, row_offset=0
    )
    names = [name for name, _ in rows.encode(3).params]
    assert names[-3:] == ["Count", "WriteMode", "RowOffset"]
    stream = GetWriteStream(table=TABLE, session_id="s", stream_id="0", exactly_once=True)
    names = [name for name, _ in stream.encode(3).params]
    assert names[-3:] == ["StreamVersion", "WriteMode", "ExactlyOnceMode"]


def test_the_schema_is_part_of_the_target_and_the_scope_parameters_are_last() -> None:
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


def test_a_url_is_encoded_once_and_decodes_to_its_parameters() -> None:
    request = Preview(table=TABLE, partition=DS)
    wire = request.encode()
    url = wire.url("http://127.0.0.1:8080/")
    assert url == (
        "http://127.0.0.1:8080/api/storage/v2?Action=TablePreview&Target=projects.p1.tables.t"
        "&Partition=ds%3D2024-01-01%2Ccity%3D%E6%9D%AD%E5%B7%9E+west"
    )
    assert tuple(parse_qsl(urlsplit(url).query)) == wire.params
    assert WireRequest(method="GET", path="/a b/表").url("http://h") == ("http://h/a%20b/%E8%A1%A8")


def test_a_value_that_no_url_can_contain_is_reported() -> None:
    request = GetReadSession(table=TABLE, session_id="\ud800")
    with pytest.raises(ArgumentError, match="not valid Unicode"):
        request.encode().url("http://h")


@pytest.mark.parametrize("token", ["a\r\nHost: x", "é", "\x00"])
def test_a_token_that_no_header_can_contain_is_refused(token: str) -> None:
    body = json.dumps({"AccessToken": token}).encode()
    with pytest.raises(FramingError, match="AccessToken is not valid in a header"):
        WriteStreamAnswer.decode(body, {})


def test_of_all_writes_only_rows_with_an_offset_are_idempotent() -> None:
    rows = WriteRows(table=TABLE, session_id="s", stream_id="0", stream_version=1, count=3)
    with_offset = WriteRows(
        table=TABLE, session_id="s", stream_id="0", stream_version=1, count=3, row_offset=0
    )
    assert (rows.idempotent, with_offset.idempotent) == (False, True)
    unsafe = {kind.__name__ for kind in REQUESTS if not isinstance(kind.idempotent, property)} - {
        kind.__name__ for kind in REQUESTS if kind.idempotent is True
    }
    assert unsafe == {"CommitWriteSession"}


def test_reprs_have_a_limited_length_and_contain_no_tokens() -> None:
    rows = WriteRows(
        table=TABLE,
        session_id="s",
        stream_id="0",
        stream_version=1,
        count=3,
        access_token="SECRET",
    )
    answer = WriteStreamAnswer(access_token="SECRET")
    wire = WireRequest(
        method="POST", path="/p", params=(("a", "b" * 10**6),), body=b"x" * 12_345_678
    )
    assert "SECRET" not in repr((rows, answer))
    assert len(repr(wire)) < 300
    assert repr(wire).endswith(", <12.3 MB>)")
    assert repr(rows.encode()).endswith("Count=3, no body)")
