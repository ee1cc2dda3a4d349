"""Responses of the Storage API: round trips, requirements of clients, and malicious responses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.errors import ConflictError, FramingError, ProtocolError, ServiceError
from odps_nb.schema import TableSchema
from odps_nb.terms import SessionStatus, SplitMode
from odps_nb.wire.calls import (
    REQUESTS,
    AbortWriteSession,
    CloseWriteStream,
    CommitWriteSession,
    CreateInstanceReadSession,
    CreateReadSession,
    CreateWriteSession,
    CreateWriteStream,
    EmptyAnswer,
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
    WriteBlob,
    WriteBlobAnswer,
    WriteBlobBatch,
    WriteRows,
    WriteRowsAnswer,
    WriteSchemaAnswer,
    WriteSessionAnswer,
    WriteSessionStateAnswer,
    WriteStreamAnswer,
)
from odps_nb.wire.schema_json import WriteSchema, assign_column_ids
from odps_nb.wire.type_text import parse_columns
from tests.support.wire.calls import REF, TABLE, counts, references, tokens, words
from tests.support.wire.schemas import described, json_values, outcome, schemas

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
maybe_counts = st.none() | counts
write_schemas = schemas(plain=True).map(described).map(WriteSchema.of)

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
        "schema": schemas().map(described).map(assign_column_ids),
        "owner": texts,
        "quota_name": texts,
    },
    EmptyAnswer: {"warning": texts},
}


@pytest.mark.gate(4)
@pytest.mark.parametrize("kind", ANSWER_STRATEGIES, ids=lambda kind: kind.__name__)
def test_a_response_is_unchanged_by_a_round_trip(kind: type[Any]) -> None:
    @settings(max_examples=25)
    @given(st.builds(kind, **ANSWER_STRATEGIES[kind]))
    def check(answer: Any) -> None:
        body, headers = answer.encode()
        assert isinstance(json.loads(body), dict)
        assert kind.decode(body, headers) == answer

    check()


@given(write_schemas, tokens, tokens, maybe_counts, maybe_counts, st.sampled_from([None, "7"]))
def test_a_stream_response_is_unchanged_by_a_round_trip(
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
def test_any_json_response_gives_a_value_or_an_odps_nb_error(
    kind: type[Any], members: dict[str, Any], headers: dict[str, str]
) -> None:
    found = outcome(kind.decode, json.dumps(members).encode(), headers)
    assert isinstance(found, (kind, ProtocolError, ServiceError))


@given(st.sampled_from(KINDS), st.binary(max_size=40))
def test_any_bytes_give_a_response_or_an_odps_nb_error(kind: type[Any], body: bytes) -> None:
    assert isinstance(outcome(kind.decode, body, {}), (kind, ProtocolError))


def test_the_smallest_session_response_that_the_stock_client_accepts_is_encoded() -> None:
    body = b'{"SessionId": "s", "SessionStatus": "normal", "SplitsCount": 1}'
    assert ReadSessionAnswer.decode(body, {}) == ReadSessionAnswer(session_id="s", splits_count=1)


def test_a_session_response_has_every_member_that_a_client_needs() -> None:
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
            "RecordCount is text, but an integer",
        ),
        (WriteSessionAnswer, {}, "SessionId is missing"),
        (WriteSessionStateAnswer, {"Streams": [1]}, "Streams is a list"),
        (WriteStreamAnswer, {"TableSchema": 3}, "TableSchema is a number"),
        (InstanceSessionAnswer, {}, "DownloadID is missing"),
        (InstanceSessionAnswer, {"DownloadID": "d", "Status": "odd"}, "not a known session status"),
        (WriteBlobAnswer, {"BlobReference": "?"}, "not a reference"),
    ],
)
def test_a_malformed_response_raises_an_error_with_the_request_id(
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
def test_an_instance_session_may_have_the_statuses_of_the_tunnel(
    status: str | None, expected: SessionStatus
) -> None:
    body = json.dumps({"DownloadID": "d", "Status": status}).encode()
    assert InstanceSessionAnswer.decode(body, {}).status is expected


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_document_with_status_200_is_raised(kind: type[Any]) -> None:
    body = json.dumps(
        {"Code": "InvalidState", "Message": "aborted", "SessionId": "s", "DownloadID": "d"}
    )
    with pytest.raises(ConflictError, match="aborted") as caught:
        kind.decode(body.encode(), {"x-odps-request-id": "r-1"})
    assert (caught.value.code, caught.value.request_id) == ("InvalidState", "r-1")


def test_stream_members_are_read_in_both_letter_cases() -> None:
    lower = {"status": 2, "recordCount": 5, "SchemaVersion": 3, "RowOffset": 5}
    upper = {"Status": "NORMAL", "RecordCount": 5, "ByteSize": 9}
    assert WriteStreamAnswer.decode(json.dumps(lower).encode(), {}) == WriteStreamAnswer(
        status="2", record_count=5, schema_version="3", row_offset=5
    )
    assert WriteStreamAnswer.decode(json.dumps(upper).encode(), {}) == WriteStreamAnswer(
        status="NORMAL", record_count=5, byte_size=9
    )


def test_the_row_offset_of_exactly_once_is_sent_only_if_there_is_one() -> None:
    body, _ = WriteRowsAnswer().encode()
    assert json.loads(body) == {"WarningMessage": "", "CommitMessage": ""}
    body, _ = WriteRowsAnswer(row_offset=3, staging_id="0x5-a").encode()
    assert json.loads(body) == {
        "WarningMessage": "",
        "CommitMessage": "",
        "ExactlyOnceRowOffset": 3,
        "StagingId": "0x5-a",
    }


def test_the_upload_response_of_the_protocol_page_is_decoded() -> None:
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
def test_the_response_to_a_single_upload_must_contain_one_reference(references: list[str]) -> None:
    body = json.dumps({"BlobReferences": references}).encode()
    with pytest.raises(FramingError, match=f"names {len(references)} blobs, not 1"):
        BLOB.decode_answer(body, {})
    assert len(BATCH.decode_answer(body, {}).references) == len(references)


def test_the_response_to_an_empty_batch_contains_no_reference() -> None:
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
]


@pytest.mark.parametrize(("request_", "answer"), ANSWERS, ids=lambda v: type(v).__name__)
def test_a_request_decodes_its_response(request_: Any, answer: Any) -> None:
    assert request_.decode_answer(*answer.encode()) == answer


def test_every_request_has_a_response_decoder_or_returns_a_stream() -> None:
    streams = {ReadRows, Preview, ReadInstance, ReadBlobs}
    assert {type(request) for request, _ in ANSWERS} == set(REQUESTS) - streams
    assert not any(hasattr(kind, "decode_answer") for kind in streams)
