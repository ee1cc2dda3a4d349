"""Requests of the control plane (``docs/protocol.md`` section 9), and malicious ones."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import InvalidRequestError
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.calls import Scope, WireRequest
from odps_nb.wire.control import (
    COST_TASK,
    CancelInstance,
    GetInstance,
    GetInstanceResult,
    GetPartition,
    GetProject,
    GetTable,
    GetTaskStatus,
    GetTenant,
    GetTunnelEndpoint,
    ListPartitions,
    ListTables,
    SubmitSql,
    decode_control,
)
from tests.support.wire.control import DS, TABLE
from tests.support.wire.schemas import outcome

IN_SCHEMA = TableName(project="p1", schema="sc1", table="t")
SCOPE = Scope(curr_project="p1", quota_name="not here")

REQUESTS = [
    (GetProject(project="p1"), "GET /api/projects/p1?curr_project=p1"),
    (GetTenant(), "GET /api/tenants?curr_project=p1"),
    (GetTunnelEndpoint(project="p1"), "GET /api/projects/p1/tunnel?service=&curr_project=p1"),
    (
        GetTunnelEndpoint(project="p1", quota_name="q"),
        "GET /api/projects/p1/tunnel?service=&quotaName=q&curr_project=p1",
    ),
    (GetTable(table=TABLE), "GET /api/projects/p1/tables/t?curr_project=p1"),
    (
        GetTable(table=IN_SCHEMA, extended=True),
        "GET /api/projects/p1/tables/t?extended=&curr_project=p1&curr_schema=sc1",
    ),
    (
        ListTables(project="p1"),
        "GET /api/projects/p1/tables?expectmarker=true&curr_project=p1",
    ),
    (
        ListTables(project="p1", schema="sc1", prefix="ord", marker="m+/="),
        "GET /api/projects/p1/tables?expectmarker=true&name=ord&marker=m%2B%2F%3D"
        "&curr_project=p1&curr_schema=sc1",
    ),
    (
        GetPartition(table=TABLE, partition=DS),
        "GET /api/projects/p1/tables/t?partition=ds%3D%27x%27%2Ch%3D%271%27&curr_project=p1",
    ),
    (
        ListPartitions(table=TABLE),
        "GET /api/projects/p1/tables/t?partitions=&expectmarker=true&curr_project=p1",
    ),
    (
        ListPartitions(table=TABLE, partition=PartitionSpec.of("ds=x"), marker="2"),
        "GET /api/projects/p1/tables/t?partitions=&expectmarker=true&partition=ds%3D%27x%27"
        "&marker=2&curr_project=p1",
    ),
    (
        SubmitSql(project="p1", sql="select 1;", settings={"a": "b"}, unique_id="u", priority=1),
        "POST /api/projects/p1/instances?curr_project=p1",
    ),
    (
        SubmitSql(project="p1", sql="select 1;", name=COST_TASK, estimates=True),
        "POST /api/projects/p1/instances?curr_project=p1",
    ),
    (
        GetInstance(project="p1", instance_id="20251120i"),
        "GET /api/projects/p1/instances/20251120i?curr_project=p1",
    ),
    (
        GetTaskStatus(project="p1", instance_id="20251120i"),
        "GET /api/projects/p1/instances/20251120i?taskstatus=&curr_project=p1",
    ),
    (
        GetInstanceResult(project="p1", instance_id="20251120i"),
        "GET /api/projects/p1/instances/20251120i?result=&curr_project=p1",
    ),
    (
        CancelInstance(project="p1", instance_id="20251120i"),
        "PUT /api/projects/p1/instances/20251120i?curr_project=p1",
    ),
]


@pytest.mark.parametrize(("request_", "line"), REQUESTS, ids=lambda v: type(v).__name__)
def test_a_request_is_encoded_and_decoded_unchanged(request_: Any, line: str) -> None:
    wire = request_.encode(scope=SCOPE)
    assert f"{wire.method} {wire.url('/api')}" == line
    assert decode_control(wire) == request_
    over_http = WireRequest(
        method=wire.method,
        path=wire.path,
        params=tuple(parse_qsl(urlsplit(wire.url("http://h")).query, keep_blank_values=True)),
        body=wire.body,
    )
    assert decode_control(over_http) == request_


def test_the_schema_of_the_table_has_precedence_over_that_of_the_connection() -> None:
    scope = Scope(curr_project="p1", curr_schema="other")
    assert dict(GetTable(table=IN_SCHEMA).encode(scope=scope).params)["curr_schema"] == "sc1"
    assert dict(GetTable(table=TABLE).encode(scope=scope).params)["curr_schema"] == "other"


@pytest.mark.parametrize(
    ("method", "path", "params"),
    [
        ("GET", "/logview/host", {}),
        ("GET", "/projects", {}),
        ("PUT", "/projects/p1/logs", {}),
        ("POST", "/projects/p1", {}),
        ("POST", "/tenants", {}),
        ("GET", "/projects/p1/schemas", {}),
        ("GET", "/projects/p1/functions/f", {}),
        ("GET", "/projects/p1/instances/i", {"source": ""}),
        ("GET", "/projects/p1/instances/i", {"downloadid": "d"}),
        ("GET", "/projects/p1/tables/t", {"data": "", "linenum": "3"}),
        ("POST", "/projects/p1/tables/t", {"downloads": ""}),
        ("PUT", "/projects/p1/tables/t", {"uploadid": "u"}),
        ("PUT", "/projects/p1/instances/../x", {}),
        ("POST", "/projects/p1/authorization", {"sign_bearer_token": ""}),
    ],
)
def test_unknown_requests_are_not_decoded(method: str, path: str, params: dict[str, str]) -> None:
    wire = WireRequest(method=method, path=path, params=tuple(params.items()))
    assert decode_control(wire) is None


def test_the_schema_may_be_in_the_path() -> None:
    wire = WireRequest(method="GET", path="/projects/p1/schemas/sc1/tables/t")
    assert decode_control(wire) == GetTable(table=IN_SCHEMA)


@pytest.mark.parametrize(
    ("path", "params", "code"),
    [
        ("/projects/p1/tables/a;drop", {}, "InvalidArgument"),
        ("/projects/p1/tables/t", {"partition": "x"}, "InvalidPartitionSpec"),
    ],
)
def test_requests_with_invalid_names_are_refused(
    path: str, params: dict[str, str], code: str
) -> None:
    wire = WireRequest(method="GET", path=path, params=tuple(params.items()))
    with pytest.raises(InvalidRequestError) as caught:
        decode_control(wire)
    assert (caught.value.status, caught.value.code) == (400, code)


@given(
    st.sampled_from(["GET", "POST", "PUT"]),
    st.lists(
        st.sampled_from(["projects", "p1", "tables", "t", "instances", "i", "schemas", "tenants"])
        | st.text(max_size=6),
        max_size=6,
    ),
    st.dictionaries(
        st.sampled_from(["partition", "partitions", "result", "extended", "marker"]),
        st.text(max_size=8),
    ),
    st.binary(max_size=30),
)
def test_any_request_gives_a_value_none_or_an_odps_nb_error(
    method: str, segments: list[str], params: dict[str, str], body: bytes
) -> None:
    wire = WireRequest(
        method=method, path="/" + "/".join(segments), params=tuple(params.items()), body=body
    )
    found = outcome(decode_control, wire)
    known = tuple({type(request) for request, _ in REQUESTS})
    assert found is None or isinstance(found, (*known, InvalidRequestError))
