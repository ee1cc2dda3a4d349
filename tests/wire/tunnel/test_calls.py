"""Requests and responses of the tunnel (``docs/protocol.md`` section 9.4)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import FramingError, NotFoundError, OdpsNbError
from odps_nb.schema import Column, UnknownType
from odps_nb.terms import Compression, PartitionSpec, SessionStatus, TableName
from odps_nb.wire.calls import Scope
from odps_nb.wire.tunnel.calls import (
    CommitUpload,
    GetDownload,
    GetUpload,
    OpenDownload,
    OpenUpload,
    ReadDownload,
    ResultOf,
    TableOf,
    UploadBlock,
    decode_download,
    decode_upload,
)
from odps_nb.wire.type_text import parse_columns

TABLE = TableName(project="p", table="t")
T = TableOf(TABLE)
PART = TableOf(
    TableName(project="p", schema="s", table="t"), PartitionSpec.of("day=2026-11-28,region=eu")
)
RESULT = ResultOf("p", "20261128i")
UNCHECKED = ("disable_modified_check", "true")
SPEC = ("partition", "day=2026-11-28,region=eu")
PATH, IN_SCHEMA = "/projects/p/tables/t", "/projects/p/schemas/s/tables/t"
EVERYWHERE = {
    "x-odps-tunnel-version": "6",
    "odps-tunnel-date-transform": "v1",
    "odps-tunnel-sdk-support-schema-evolution": "true",
}
STREAM = {"Content-Type": "application/octet-stream"}
REQUESTS: list[tuple[Any, str, str, list[tuple[str, str]], dict[str, str], bytes | None]] = [
    (OpenDownload(of=T), "POST", PATH, [("downloads", ""), ("asyncmode", "true")], {}, b""),
    (
        OpenDownload(of=PART, limited=True),  # ``limited`` applies only to results
        "POST",
        IN_SCHEMA,
        [("downloads", ""), ("asyncmode", "true"), SPEC],
        {},
        b"",
    ),
    (
        OpenDownload(of=RESULT),
        "POST",
        "/projects/p/instances/20261128i",
        [("downloads", "")],
        {},
        b"",
    ),
    (
        OpenDownload(of=RESULT, limited=True),
        "POST",
        "/projects/p/instances/20261128i",
        [("downloads", ""), ("instance_tunnel_limit_enabled", "")],
        {},
        b"",
    ),
    (GetDownload(of=T, download_id="d"), "GET", PATH, [("downloadid", "d")], {}, None),
    (
        ReadDownload(of=T, download_id="d", offset=5, count=10),
        "GET",
        PATH,
        [("data", ""), ("downloadid", "d"), ("rowrange", "(5,10)"), UNCHECKED, ("arrow", "")],
        {},
        None,
    ),
    (
        ReadDownload(
            of=PART,
            download_id="d",
            offset=0,
            count=1,
            columns=("a", "b"),
            compression=Compression.ZSTD,
        ),
        "GET",
        IN_SCHEMA,
        [
            ("data", ""),
            ("downloadid", "d"),
            ("rowrange", "(0,1)"),
            ("columns", "a,b"),
            UNCHECKED,
            ("arrow", ""),
            SPEC,
        ],
        {"Accept-Encoding": "zstd"},
        None,
    ),
    (
        ReadDownload(of=T, download_id="d", offset=0, count=1, compression=Compression.LZ4),
        "GET",
        PATH,
        [("data", ""), ("downloadid", "d"), ("rowrange", "(0,1)"), UNCHECKED, ("arrow", "")],
        {"Accept-Encoding": "x-odps-lz4-frame"},
        None,
    ),
    (
        ReadDownload(of=RESULT, download_id="d", offset=0, count=1),
        "GET",
        "/projects/p/instances/20261128i",
        [("data", ""), ("downloadid", "d"), ("rowrange", "(0,1)"), ("arrow", "")],
        {},
        None,
    ),
    (OpenUpload(of=T), "POST", PATH, [("uploads", "1")], {}, b""),
    (
        OpenUpload(of=PART, overwrite=True),
        "POST",
        IN_SCHEMA,
        [("uploads", "1"), ("create_partition", "true"), ("overwrite", "true"), SPEC],
        {},
        b"",
    ),
    (GetUpload(of=PART, upload_id="u"), "GET", IN_SCHEMA, [("uploadid", "u"), SPEC], {}, None),
    (
        UploadBlock(of=T, upload_id="u", block=7),
        "PUT",
        PATH,
        [("uploadid", "u"), ("blockid", "7"), ("arrow", "")],
        STREAM,
        None,
    ),
    (
        UploadBlock(of=PART, upload_id="u", block=0, compression=Compression.ZSTD),
        "PUT",
        IN_SCHEMA,
        [("uploadid", "u"), ("blockid", "0"), ("arrow", ""), SPEC],
        {**STREAM, "Content-Encoding": "zstd"},
        None,
    ),
    (CommitUpload(of=T, upload_id="u"), "POST", PATH, [("uploadid", "u")], {}, b""),
]
SCHEMA = {
    "columns": [
        {"name": "id", "type": "bigint", "nullable": False, "comment": "key"},
        {"name": "odd", "type": "a type of next year"},
        {"name": "missing"},
    ],
    "partitionKeys": [{"name": "day", "type": "string", "nullable": "true"}],
}


def answer(**members: object) -> bytes:
    return json.dumps(members).encode()


@pytest.mark.parametrize(("request_", "method", "path", "params", "headers", "body"), REQUESTS)
def test_a_request_is_encoded_as_on_the_protocol_page(
    request_: Any,
    method: str,
    path: str,
    params: list[tuple[str, str]],
    headers: dict[str, str],
    body: bytes | None,
) -> None:
    wire = request_.encode(3)
    assert (wire.method, wire.path, list(wire.params), wire.body) == (method, path, params, body)
    assert dict(wire.headers) == {**EVERYWHERE, **headers}


@pytest.mark.parametrize("request_", [one[0] for one in REQUESTS])
def test_the_scope_parameters_of_the_connection_are_last(request_: Any) -> None:
    scope = Scope(quota_name="q", curr_project="mine")
    params = request_.encode(scope=scope).params
    assert params == (*request_.encode().params, ("quotaName", "q"), ("curr_project", "mine"))


def test_only_a_commit_is_not_idempotent() -> None:
    kinds = {type(one[0]): type(one[0]).idempotent for one in REQUESTS}
    assert [kind for kind, idempotent in kinds.items() if not idempotent] == [CommitUpload]


def test_tables_and_results_have_a_name_for_messages() -> None:
    assert [str(T), str(PART)] == ["p.t", "p.s.t (day=2026-11-28,region=eu)"]
    assert str(RESULT) == "the result of instance 20261128i"


# -- responses --------------------------------------------------------------------------------


def test_a_download_session_has_its_columns_and_rows() -> None:
    body = answer(DownloadID="d", Status="normal", RecordCount=3, Schema=SCHEMA)
    found = decode_download(body, {})
    assert (found.download_id, found.status, found.record_count) == ("d", SessionStatus.NORMAL, 3)
    (key, odd, missing), parts = found.schema.columns, found.schema.partition_columns
    bigint, string = (one.type for one in parse_columns("a bigint, b string"))
    assert key == Column(name="id", type=bigint, comment="key", nullable=False)
    assert [odd.type, missing.type] == [
        UnknownType("a type of next year"),
        UnknownType("unknown"),
    ]
    assert parts == (Column(name="day", type=string, comment="", nullable=True),)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("NORMAL", SessionStatus.NORMAL),
        ("initiating", SessionStatus.INIT),
        ("Expired", SessionStatus.EXPIRED),
        ("CLOSES", SessionStatus.EXPIRED),
        ("failed", "FAILED"),
        (None, SessionStatus.NORMAL),
        ("", SessionStatus.NORMAL),
    ],
)
def test_a_session_state_is_read_in_any_letter_case_and_an_unknown_state_is_kept(
    text: str | None, status: object
) -> None:
    members = {} if text is None else {"Status": text}
    assert decode_download(answer(DownloadID="d", RecordCount=0, **members), {}).status == status


def test_a_session_that_is_not_ready_may_lack_its_row_count() -> None:
    for members in ({}, {"RecordCount": -1}):
        found = decode_download(answer(DownloadID="d", Status="initiating", **members), {})
        assert (found.record_count, found.schema.columns) == (0, ())


@pytest.mark.parametrize("members", [{}, {"RecordCount": -1}, {"RecordCount": None}])
def test_a_ready_session_without_a_number_of_rows_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(FramingError, match="RecordCount is missing or negative"):
        decode_download(answer(DownloadID="d", Status="NORMAL", **members), {})


@pytest.mark.parametrize(
    "body",
    [
        answer(RecordCount=1),
        answer(DownloadID="", RecordCount=1),
        answer(DownloadID=7, RecordCount=1),
        answer(DownloadID="d", RecordCount="1"),
        answer(DownloadID="d", RecordCount=1, Status=1),
        answer(DownloadID="d", RecordCount=1, Schema=[]),
        answer(DownloadID="d", RecordCount=1, Schema={"columns": {}}),
        answer(DownloadID="d", RecordCount=1, Schema={"columns": [{"type": "bigint"}]}),
        b"[]",
        b"<html>",
        b"",
    ],
)
def test_a_malformed_download_session_is_refused(body: bytes) -> None:
    with pytest.raises(FramingError) as caught:
        decode_download(body, {"x-odps-request-id": "r1"})
    assert caught.value.request_id == "r1"


def test_an_upload_session_lists_its_blocks() -> None:
    blocks = [{"BlockID": 0, "CreateTime": 1}, {"BlockID": "12"}, {"BlockID": 0}]
    body = answer(UploadID="u", Status="NORMAL", UploadedBlockList=blocks, Schema=SCHEMA)
    found = decode_upload(body, {})
    assert (found.upload_id, found.status, found.blocks) == ("u", "normal", frozenset((0, 12)))
    assert found.schema.names == ("id", "odd", "missing", "day")


def test_a_new_upload_session_has_no_blocks() -> None:
    found = decode_upload(answer(UploadID="u"), {})
    assert (found.status, found.blocks) == ("normal", frozenset())


@pytest.mark.parametrize("block", [{}, {"BlockID": -1}, {"BlockID": "x"}, {"BlockID": None}])
def test_a_block_without_a_number_is_refused(block: dict[str, Any]) -> None:
    with pytest.raises(FramingError, match="BlockID"):
        decode_upload(answer(UploadID="u", UploadedBlockList=[block]), {})


@pytest.mark.parametrize("body", [b"", b"   ", b"OK", b"<xml/>", answer(UploadID="u")])
def test_any_successful_response_without_an_error_document_confirms_a_block(body: bytes) -> None:
    assert UploadBlock(of=T, upload_id="u", block=0).decode_answer(body, {}) is None


@pytest.mark.parametrize(
    "decode",
    [decode_download, decode_upload, UploadBlock(of=T, upload_id="u", block=0).decode_answer],
)
def test_an_error_document_in_a_successful_response_is_raised(decode: Any) -> None:
    body = b" " + answer(Code="NoSuchTable", Message="there is no table t")
    with pytest.raises(NotFoundError, match="there is no table t") as caught:
        decode(body, {"x-odps-request-id": "r1"})
    assert (caught.value.code, caught.value.request_id) == ("NoSuchTable", "r1")


@given(
    st.binary(max_size=100)
    | st.recursive(st.none() | st.text(max_size=9), st.lists).map(
        lambda value: json.dumps({"UploadID": "u", "DownloadID": "d", "Schema": value}).encode()
    )
)
def test_any_response_is_read_or_refused(body: bytes) -> None:
    for decode in (decode_download, decode_upload):
        try:
            decode(body, {})
        except OdpsNbError:
            continue
