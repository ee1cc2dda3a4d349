"""Requests and responses of version 1 of the Storage API."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import ArgumentError, FramingError, InvalidRequestError
from odps_nb.schema import TableSchema
from odps_nb.terms import (
    Compression,
    IndexSplit,
    PartitionSpec,
    RowRangeSplit,
    SessionStatus,
    SplitMode,
    TableName,
    WriteMode,
)
from odps_nb.wire.calls import (
    AbortWriteSession,
    CommitWriteSession,
    CreateReadSession,
    CreateWriteSession,
    GetReadSession,
    GetWriteSession,
    ReadBlobs,
    ReadRows,
    ReadSessionAnswer,
    Scope,
    WireRequest,
    WriteRows,
    WriteRowsAnswer,
)
from odps_nb.wire.calls.v1 import (
    BlockSessionAnswer,
    CommitBlocks,
    WriteBlock,
    decode_answer,
    decode_v1,
    encode_read_answer,
    encode_v1,
)
from odps_nb.wire.type_text import parse_columns
from tests.support.wire.calls import REQUEST_STRATEGIES, TABLE, counts, table_names, words

PLACE = "/api/storage/v1/projects/p1/schemas/default/tables/t"
ids = words.filter(lambda text: "/" not in text and text not in (".", ".."))
of_session = {"table": table_names, "session_id": ids}
STRATEGIES: dict[type[Any], dict[str, Any]] = {
    CreateReadSession: REQUEST_STRATEGIES[CreateReadSession]
    | {"filter_fallback": st.just(False), "incremental_read": st.just(False)},
    GetReadSession: of_session | {"refresh": st.booleans()},
    ReadRows: of_session
    | {
        "split": st.builds(IndexSplit, counts)
        | st.builds(RowRangeSplit, counts, st.integers(1, 10**9)),
        "max_batch_rows": st.integers(1, 10**9),
        "max_batch_raw_size": counts,
        "compression": st.sampled_from(Compression),
    },
    CreateWriteSession: {
        "table": table_names,
        "partition": REQUEST_STRATEGIES[CreateWriteSession]["partition"],
        "overwrite": st.booleans(),
    },
    GetWriteSession: of_session,
    WriteBlock: of_session | {"block_number": counts, "attempt_number": counts},
    CommitBlocks: {
        "table": table_names,
        "session_id": words,
        "messages": st.lists(words, max_size=3).map(tuple),
        "wait_seconds": st.none() | st.integers(0, 600),
    },
}


def over_http(wire: WireRequest) -> WireRequest:
    url = urlsplit(wire.url("http://h"))
    return WireRequest(
        method=wire.method,
        path=unquote(url.path),
        params=tuple(parse_qsl(url.query, keep_blank_values=True)),
        headers=tuple((name.lower(), value) for name, value in wire.headers),
        body=wire.body,
    )


@pytest.mark.parametrize("kind", STRATEGIES, ids=lambda kind: kind.__name__)
def test_a_request_is_unchanged_by_a_round_trip(kind: type[Any]) -> None:
    @given(st.builds(kind, **STRATEGIES[kind]))
    def check(request: Any) -> None:
        wire = encode_v1(request, scope=Scope(curr_project="p", quota_name="q"))
        assert wire.params[-2:] == (("quotaName", "q"), ("curr_project", "p"))
        schema = request.table.schema or "default"
        expected = replace(request, table=replace(request.table, schema=schema))
        assert decode_v1(wire) == decode_v1(over_http(wire)) == expected

    check()


# The requests of odps.apis.storage_api in pyodps 0.13.2
SESSION = {"table": TABLE, "session_id": "s-1"}
READ_BODY = {
    "RequiredDataColumns": [],
    "RequiredPartitionColumns": [],
    "RequiredPartitions": ["pt=a"],
    "RequiredBucketIds": [],
    "SplitOptions": {"SplitMode": "Size", "SplitNumber": 268435456, "CrossPartition": True},
    "ArrowOptions": {"TimestampUnit": "nano", "DatetimeUnit": "milli"},
    "FilterPredicate": "",
    "EnableEstimateStats": True,
}
WRITE_BODY = {
    "DynamicPartitionOptions": {
        "InvalidStrategy": "Exception",
        "InvalidLimit": 1,
        "DynamicPartitionLimit": 512,
    },
    "ArrowOptions": {"TimestampUnit": "nano", "DatetimeUnit": "milli"},
    "Overwrite": True,
    "PartitionSpec": "pt=a",
    "SupportWriteCluster": False,
    "EnhanceWriteCheck": True,
}
PT = PartitionSpec.of("pt=a")


@pytest.mark.parametrize(
    ("request_", "line", "body"),
    [
        (
            CreateReadSession(table=TABLE, partitions=(PT,)),
            f"POST {PLACE}/sessions?session_type=batch_read",
            READ_BODY | {"SplitMaxFileNum": 0},  # Java also sends 0
        ),
        (GetReadSession(**SESSION), f"GET {PLACE}/sessions/s-1?session_type=batch_read", None),
        (
            GetReadSession(**SESSION, refresh=True),
            f"GET {PLACE}/sessions/s-1?session_type=batch_read&session_refresh=true",
            None,
        ),
        (
            ReadRows(**SESSION, split=IndexSplit(2)),
            f"GET {PLACE}/data?session_id=s-1&split_index=2&max_batch_rows=4096",
            None,
        ),
        (
            ReadRows(**SESSION, split=RowRangeSplit(5, 7)),
            f"GET {PLACE}/data?session_id=s-1&row_index=5&row_count=7&max_batch_rows=4096",
            None,
        ),
        (
            CreateWriteSession(table=TABLE, partition=PT, overwrite=True),
            f"POST {PLACE}/sessions?session_type=batch_write",
            WRITE_BODY,
        ),
        (GetWriteSession(**SESSION), f"GET {PLACE}/sessions/s-1?session_type=batch_write", None),
        (
            WriteBlock(**SESSION, block_number=3, attempt_number=1),
            f"POST {PLACE}/sessions/s-1/data?attempt_number=1&block_number=3",
            None,
        ),
        (
            CommitBlocks(**SESSION, messages=("m",), wait_seconds=600),
            f"POST {PLACE}/commit?session_id=s-1",
            {"CommitMessages": ["m"], "WaitFlyingWritersTimeoutSeconds": 600},
        ),
    ],
)
def test_requests_equal_those_of_the_stock_client(request_: Any, line: str, body: Any) -> None:
    wire = encode_v1(request_)
    assert f"{wire.method} {wire.url('')}" == line
    assert (None if wire.body is None else json.loads(wire.body)) == body
    assert dict(wire.headers).get("Content-Type", "").startswith("application/json") == bool(body)


@pytest.mark.parametrize(
    ("codec", "sent"),
    [
        (Compression.ZSTD, "ZSTD"),
        (Compression.LZ4, "LZ4_FRAME"),
        (Compression.NONE, "identity"),
    ],
)
def test_version_1_has_its_own_codec_names(codec: Compression, sent: str) -> None:
    wire = encode_v1(ReadRows(**SESSION, split=IndexSplit(0), compression=codec))
    assert dict(wire.headers) == {"Accept-Encoding": sent}


def test_the_split_of_the_stock_client_is_a_range_if_it_counts_rows() -> None:
    """The stock client always sends a split index and a row range; an empty coding means none."""
    wire = encode_v1(ReadRows(**SESSION, split=IndexSplit(3)))
    for rows, split in ((0, IndexSplit(3)), (9, RowRangeSplit(0, 9))):
        params = (*wire.params, ("row_index", "0"), ("row_count", str(rows)))
        found = decode_v1(replace(wire, params=params, headers=(("accept-encoding", ""),)))
        assert isinstance(found, ReadRows)
        assert (found.split, found.compression) == (split, Compression.NONE)


READ = ReadRows(**SESSION, split=IndexSplit(0))


@pytest.mark.parametrize(
    "request_",
    [
        replace(READ, skip_rows=1),
        replace(READ, data_columns=("a",)),
        replace(READ, data_columns_unordered=True),
        replace(READ, split=RowRangeSplit(0, 0)),
        CreateReadSession(table=TABLE, incremental_read=True),
        CreateReadSession(table=TABLE, incremental_options={}),
        CreateReadSession(table=TABLE, filter_fallback=True),
        CreateWriteSession(table=TABLE, write_mode=WriteMode.STREAMING),
        WriteRows(**SESSION, stream_id="0", stream_version=1, count=1),
        CommitWriteSession(**SESSION),
        AbortWriteSession(**SESSION),
        ReadBlobs(references=()),
    ],
    ids=lambda one: type(one).__name__,
)
def test_requests_that_version_1_cannot_express_are_refused(request_: Any) -> None:
    with pytest.raises(ArgumentError, match="version 1 of the Storage API does not support"):
        encode_v1(request_)


@pytest.mark.parametrize("session_id", ["", "..", "a/b"])
def test_an_id_that_would_change_the_path_is_refused(session_id: str) -> None:
    with pytest.raises(ArgumentError, match="is not a session id"):
        encode_v1(GetWriteSession(table=TABLE, session_id=session_id))


@pytest.mark.parametrize(
    ("path", "params", "body", "said"),
    [
        ("/sessions/a/b/c", {}, b"", "is not a path of version 1"),
        ("/sessions", {}, b"{}", "session_type is missing"),
        ("/sessions", {"session_type": "batch"}, b"{}", "it must be batch_read or batch_write"),
        ("/sessions", {"session_type": "batch_read"}, b"[]", "a JSON object is expected"),
        ("/sessions", {"session_type": "batch_write"}, b'{"Overwrite": []}', "Overwrite"),
        ("/data", {"split_index": "0"}, b"", "session_id is missing"),
        ("/data", {"session_id": "s", "split_index": "-1"}, b"", "split_index is '-1'"),
        ("/data", {"session_id": "s", "data_format_type": "arrow1"}, b"", "'arrow1'; the only"),
        ("/data", {"session_id": "s", "data_format_version": "v6"}, b"", "'v6'; the only"),
        ("/sessions/s/data", {"data_format_version": "v6"}, b"", "'v6'; the only"),
        ("/sessions/s/data", {"block_number": "x"}, b"", "block_number is 'x'"),
        ("/commit", {"session_id": "s"}, b'{"CommitMessages": [1]}', "CommitMessages"),
    ],
)
def test_a_malformed_request_is_refused(
    path: str, params: dict[str, str], body: bytes, said: str
) -> None:
    wire = WireRequest(method="POST", path=PLACE + path, params=tuple(params.items()), body=body)
    with pytest.raises(InvalidRequestError, match=said) as caught:
        decode_v1(wire)
    assert (caught.value.status, caught.value.code) == (400, "InvalidArgument")


def test_a_path_without_a_schema_names_the_same_table() -> None:
    wire = replace(encode_v1(READ), path=PLACE.replace("/schemas/default", "") + "/data")
    found = decode_v1(wire)
    assert found.table == TableName(project="p1", table="t")


# -- responses --------------------------------------------------------------------------------

SCHEMA = TableSchema(
    columns=parse_columns("a bigint"), partition_columns=parse_columns("pt string")
)


@pytest.mark.parametrize("mode", SplitMode)
def test_a_read_session_is_unchanged_by_a_round_trip(mode: SplitMode) -> None:
    by_rows = mode is SplitMode.ROW_OFFSET
    sent = ReadSessionAnswer(
        session_id="s-1",
        expires_at=1795212245.0,
        split_mode=mode,
        splits_count=0 if by_rows else 3,
        record_count=9 if by_rows else None,
        schema=SCHEMA,
        estimated_size=7,
        estimated_rows=9,
    )
    body, headers = encode_read_answer(sent)
    document = json.loads(body)
    assert "SplitMode" not in document
    assert (document["SplitsCount"] < 0) == by_rows == (document["RecordCount"] >= 0)
    create = CreateReadSession(table=TABLE, split_mode=mode)
    found = decode_answer(create, body, headers)
    names = [column.name for column in found.schema.all_columns]
    assert names == ["a", "pt"]
    assert replace(found, schema=SCHEMA) == sent
    again = decode_answer(GetReadSession(**SESSION), body, headers)
    assert isinstance(again, ReadSessionAnswer)
    assert (again.split_mode is SplitMode.ROW_OFFSET) == by_rows


def test_a_write_session_is_unchanged_by_a_round_trip() -> None:
    sent = BlockSessionAnswer(
        session_id="s-1", status=SessionStatus.COMMITTED, expires_at=1795212245.0, max_blocks=9
    )
    body, headers = sent.encode()
    for request in (
        CreateWriteSession(table=TABLE),
        GetWriteSession(**SESSION),
        CommitBlocks(**SESSION, messages=()),
    ):
        assert decode_answer(request, body, headers) == sent


def test_a_written_block_must_have_a_message() -> None:
    request = WriteBlock(**SESSION, block_number=0)
    assert decode_answer(request, b'{"CommitMessage": "m"}', {}) == WriteRowsAnswer(
        commit_message="m"
    )
    with pytest.raises(FramingError, match="has no CommitMessage"):
        decode_answer(request, b"{}", {})
    with pytest.raises(InvalidRequestError):
        decode_answer(request, b'{"Code": "InvalidArgument", "Message": "no"}', {})
