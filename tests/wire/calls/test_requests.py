"""Requests of the Storage API: round trips, and requests of other clients."""

from __future__ import annotations

import json
import pickle
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.errors import InvalidRequestError
from odps_nb.terms import Compression, IndexSplit, PartitionSpec, WriteMode
from odps_nb.wire.calls import (
    REQUESTS,
    CreateInstanceReadSession,
    CreateReadSession,
    CreateWriteSession,
    CreateWriteStream,
    GetWriteStream,
    Preview,
    ReadInstance,
    ReadRows,
    Scope,
    WireRequest,
    WriteRowsAnswer,
    WriteSessionStateAnswer,
    decode_partition,
    decode_request,
    find_header,
)
from odps_nb.wire.calls.core import accepted_coding, content_coding
from tests.support.wire.calls import READ_BODY, REQUEST_STRATEGIES, ROWS_BODY, SESSION, TABLE, wire


def test_every_request_has_a_hypothesis_strategy() -> None:
    assert set(REQUEST_STRATEGIES) == set(REQUESTS)


@pytest.mark.gate(8)
@pytest.mark.parametrize("kind", REQUEST_STRATEGIES, ids=lambda kind: kind.__name__)
def test_a_request_is_unchanged_by_a_round_trip(kind: type[Any]) -> None:
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
@pytest.mark.parametrize("mode", WriteMode)
def test_the_write_mode_is_unchanged_by_a_round_trip_in_version_3(
    kind: type[Any], mode: WriteMode
) -> None:
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


def test_missing_members_of_a_request_body_have_defaults() -> None:
    assert decode_request(wire("TableCreateReadSession", body={})) == CreateReadSession(table=TABLE)
    assert decode_request(wire("TableCreateReadSession")) == CreateReadSession(table=TABLE)
    rows = decode_request(wire("TableRead", SESSION, ("Index", "0"), body={"MaxBatchRows": 0}))
    assert rows == ReadRows(table=TABLE, session_id="s-1", split=IndexSplit(0))


def test_unknown_members_and_parameters_are_ignored() -> None:
    body = {"AccquireDownload": True, "EnableLargeString": None, "SplitOptions": {"New": 1}}
    found = decode_request(wire("TableCreateReadSession", ("New", "1"), body=body))
    assert found == CreateReadSession(table=TABLE)


@pytest.mark.parametrize("spelling", ["true", True])
def test_overwrite_may_be_text_or_a_boolean(spelling: object) -> None:
    found = decode_request(wire("TableCreateWriteSession", body={"Flags": {"overwrite": spelling}}))
    assert found == CreateWriteSession(table=TABLE, overwrite=True)


def test_partition_levels_may_be_separated_by_a_slash() -> None:
    body = {"RequiredPartitions": ["pt=a/region=b"]}
    found = decode_request(wire("TableCreateReadSession", body=body))
    assert found == CreateReadSession(table=TABLE, partitions=(PartitionSpec.of("pt=a,region=b"),))


def test_a_get_request_without_a_body_is_decoded_from_its_parameters() -> None:
    found = decode_request(wire("TableGetWriteStream", SESSION, ("StreamId", "0")))
    assert found == GetWriteStream(table=TABLE, session_id="s-1", stream_id="0", stream_version=0)


def test_a_stream_may_be_named_only_in_the_body() -> None:
    body = {"StreamId": "0", "StreamVersion": 2, "ExactlyOnceMode": True}
    found = decode_request(wire("TableGetWriteStream", SESSION, body=body))
    expected = GetWriteStream(
        table=TABLE, session_id="s-1", stream_id="0", stream_version=2, exactly_once=True
    )
    assert found == expected


@pytest.mark.parametrize("spelled", ["staging-123", "7", 7])
def test_a_staging_id_is_decoded_as_text(spelled: object) -> None:
    rows = json.dumps({"StagingId": spelled}).encode()
    assert WriteRowsAnswer.decode(rows, {}).staging_id == str(spelled)
    session = json.dumps({"MinUncommittedStagingId": spelled}).encode()
    found = WriteSessionStateAnswer.decode(session, {})
    assert found.min_uncommitted_staging_id == str(spelled)


def test_a_stream_id_may_be_a_number() -> None:
    body = {"StreamId": 7, "StreamVersion": "2"}
    found = decode_request(wire("TableCreateWriteStream", SESSION, body=body))
    assert found == CreateWriteStream(
        table=TABLE, session_id="s-1", stream_id="7", stream_version=2
    )


def test_the_limits_of_a_preview_may_be_only_in_the_body() -> None:
    found = decode_request(wire("TablePreview", body={"Limit": 3, "Partition": "ds=x"}))
    assert found == Preview(table=TABLE, limit=3, partition=PartitionSpec.of("ds=x"))


def test_an_instance_session_request_may_have_the_body_of_a_table_request() -> None:
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
def test_partition_text_is_decoded(text: str, expected: str) -> None:
    assert str(decode_partition(text)) == expected


@pytest.mark.parametrize("value", [" x ", "x ", "\u3000x", "'x'", "''", '"x', "a=b", "=", "\n"])
def test_a_partition_value_is_decoded_unchanged(value: str) -> None:
    assert decode_partition(f"ds={value}/h= 1") == PartitionSpec((("ds", value), ("h", " 1")))
    quoted = decode_partition(f"ds='{value}'/h=\" 1\"", quoted=True)
    assert quoted == PartitionSpec((("ds", value), ("h", " 1")))


@pytest.mark.parametrize("text", ["x", "=x", "ds=", " ", " ds=x", "'1'=x", "ds=x,,h=", "d s=x"])
def test_malformed_partition_text_is_refused(text: str) -> None:
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
def test_a_coding_is_selected_only_from_a_list_of_supported_codings(
    header: str | None, expected: Compression
) -> None:
    headers = {} if header is None else {"Accept-Encoding": header}
    assert accepted_coding(headers) is expected
    assert accepted_coding(tuple(headers.items())) is expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [(None, Compression.NONE), ("identity", Compression.NONE), ("ZSTD", Compression.ZSTD)],
)
def test_the_coding_of_an_upload_is_read_from_its_header(
    header: str | None, expected: Compression
) -> None:
    assert content_coding({} if header is None else {"content-encoding": header}) is expected


def test_a_header_is_found_in_any_letter_case() -> None:
    assert find_header({"X-Odps-Request-Id": "r"}, "x-odps-request-id") == "r"
    assert find_header((("x-ODPS-request-ID", ""),), "x-odps-request-id") is None
