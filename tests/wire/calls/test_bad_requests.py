"""Malicious requests of the Storage API are decoded, or raise an error that has a response."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import InvalidRequestError, OdpsNbError
from odps_nb.wire.calls import REQUESTS, ReadBlobs, WireRequest, decode_request
from tests.support.wire.calls import REF, REQUEST_STRATEGIES, SESSION, wire
from tests.support.wire.schemas import json_values, outcome

requests_of_any_kind = st.one_of(
    *(st.builds(kind, **parts) for kind, parts in REQUEST_STRATEGIES.items())
)

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
        (wire(*READ, body=[]), "is a list, but a JSON object"),
        (wire(*READ, body={"MaxBatchRows": "many"}), "MaxBatchRows is text"),
        (wire(*READ, body={"SkipRowNum": -1}), "SkipRowNum is negative"),
        (wire(*READ, body={"DataColumns": "a"}), "DataColumns is text, but a list"),
        (
            wire(*READ, body={"DataFormat": {"Type": "CSV"}}),
            "'CSV' is not Arrow, the only supported row format",
        ),
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
def test_a_malformed_request_raises_the_error_to_return(bad: WireRequest, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem) as caught:
        decode_request(bad)
    assert (caught.value.status, caught.value.code) == (400, "InvalidArgument")


def test_a_malformed_blob_reference_is_refused() -> None:
    bad = WireRequest(
        method="POST",
        path="/api/storage/v2",
        params=(("Action", "BlobRead"), ("Target", "generic.blob")),
        body=b'{"BlobReferences": ["not base64!"]}',
    )
    with pytest.raises(InvalidRequestError, match="BlobReferences has an item that is not"):
        decode_request(bad)


def test_the_number_of_blob_references_is_limited() -> None:
    many = ReadBlobs(references=(REF,) * 100_001)
    with pytest.raises(InvalidRequestError, match="100001 items; the limit is 100000"):
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
def test_any_request_gives_a_value_or_an_odps_nb_error(
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
def test_any_body_gives_a_value_or_an_odps_nb_error(request: Any, body: bytes) -> None:
    sent = request.encode()
    changed = WireRequest(method="POST", path=sent.path, params=sent.params, body=body)
    found = outcome(decode_request, changed)
    assert isinstance(found, (*REQUESTS, InvalidRequestError))
