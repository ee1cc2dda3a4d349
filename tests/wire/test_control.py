"""Control plane: documents of ``docs/protocol.md`` section 9, round trips, hostile peers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.errors import (
    ArgumentError,
    ConfigError,
    FramingError,
    InvalidRequestError,
    ProtocolError,
    QueryError,
)
from odps_nb.schema import TableSchema
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
    InstanceResult,
    InstanceStatus,
    ListPartitions,
    ListTables,
    PartitionInfo,
    PartitionPage,
    ProjectInfo,
    SqlCost,
    SubmitSql,
    SubmittedInstance,
    TableInfo,
    TablePage,
    TaskResult,
    TaskState,
    TenantInfo,
    decode_control,
    decode_tunnel_endpoint,
    encode_tunnel_endpoint,
    query_error,
)
from odps_nb.wire.type_text import parse_columns
from odps_nb.wire.xml_text import DECLARATION, element, has_spelling
from tests.support.wire.schemas import json_values, outcome, schemas

TABLE = TableName(project="p1", table="t")
IN_SCHEMA = TableName(project="p1", schema="sc1", table="t")
DS = PartitionSpec.of("ds=x,h=1")
SCOPE = Scope(curr_project="p1", quota_name="not here")
NOW = 1763676245.0

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
def test_request_is_spelled_and_read_back(request_: Any, line: str) -> None:
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


def test_schema_of_the_table_wins_over_that_of_the_connection() -> None:
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
def test_what_is_not_of_this_package_is_left_to_the_server(
    method: str, path: str, params: dict[str, str]
) -> None:
    wire = WireRequest(method=method, path=path, params=tuple(params.items()))
    assert decode_control(wire) is None


def test_schema_may_stand_in_the_path() -> None:
    wire = WireRequest(method="GET", path="/projects/p1/schemas/sc1/tables/t")
    assert decode_control(wire) == GetTable(table=IN_SCHEMA)


@pytest.mark.parametrize(
    ("path", "params", "code"),
    [
        ("/projects/p1/tables/a;drop", {}, "InvalidArgument"),
        ("/projects/p1/tables/t", {"partition": "x"}, "InvalidPartitionSpec"),
    ],
)
def test_bad_names_are_told(path: str, params: dict[str, str], code: str) -> None:
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
def test_any_request_is_a_value_none_or_our_error(
    method: str, segments: list[str], params: dict[str, str], body: bytes
) -> None:
    wire = WireRequest(
        method=method, path="/" + "/".join(segments), params=tuple(params.items()), body=body
    )
    found = outcome(decode_control, wire)
    known = tuple({type(request) for request, _ in REQUESTS})
    assert found is None or isinstance(found, (*known, InvalidRequestError))


# -- tables -----------------------------------------------------------------------------------

INFO = TableInfo(
    name=TABLE,
    schema=TableSchema(
        columns=parse_columns("id bigint not null comment 'key', tags array<string>"),
        partition_columns=parse_columns("ds string"),
    ),
    table_id="id",
    owner="ALIYUN$x",
    comment="]]> <!DOCTYPE x> & more",
    created_at=1700000000,
    modified_at=1700000001,
    ddl_at=1700000002,
    lifecycle=7,
    size=10,
    record_count=3,
)


def test_table_document_round_trips() -> None:
    assert TableInfo.decode(*INFO.encode(), asked=TABLE) == INFO
    assert GetTable(table=TABLE).decode_answer(*INFO.encode()) == INFO


def test_extended_table_document_tells_its_properties() -> None:
    info = TableInfo(name=TABLE, properties={"Transactional": "true", "n": "1"}, created_at=1)
    found = TableInfo.decode(*info.encode_extended(), asked=TABLE)
    assert found.properties == {"Transactional": "true", "n": "1"}


@settings(max_examples=25)
@given(schemas())
def test_table_document_round_trips_any_schema(schema: TableSchema) -> None:
    info = TableInfo(name=TABLE, schema=schema)
    assert TableInfo.decode(*info.encode(), asked=TABLE).schema == schema


def test_table_document_of_the_protocol() -> None:
    body = b"""<?xml version="1.0"?><Table><Name>other</Name><TableId>id</TableId>
<Project>p1</Project><Schema format="Json"><![CDATA[{"columns":[{"name":"id","type":"bigint",
"comment":"","label":"","isNullable":true}],"partitionKeys":[],"tableName":"t",
"owner":"ALIYUN$x","comment":"","createTime":1700000000,"lastModifiedTime":1700000000,
"lastDDLTime":1700000000,"isVirtualView":true,"lifecycle":-1,"size":0}]]></Schema></Table>"""
    found = TableInfo.decode(body, {}, asked=TABLE)
    assert found == TableInfo(
        name=TABLE,  # the name asked for, whatever the document says
        schema=TableSchema(columns=parse_columns("id bigint")),
        table_id="id",
        owner="ALIYUN$x",
        created_at=1700000000,
        modified_at=1700000000,
        ddl_at=1700000000,
        size=0,
        is_view=True,
    )


def test_smallest_extended_document() -> None:
    body = b'<Table><Name>t</Name><Schema format="Json"><![CDATA[{}]]></Schema></Table>'
    assert TableInfo.decode(body, {}, asked=TABLE) == TableInfo(name=TABLE)
    assert TableInfo.decode(b"<Table/>", {}, asked=TABLE) == TableInfo(name=TABLE)


def test_reserved_properties_of_other_shapes_are_left_out() -> None:
    schema = json.dumps({"Reserved": json.dumps({"a": [1], "b": True, "c": None, "d": 2})})
    body = element("Table", (element("Schema", schema),)).encode()
    assert TableInfo.decode(body, {}, asked=TABLE).properties == {"b": "true", "d": "2"}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "table schema is not JSON"),
        ('{"columns": [{"name": "a", "type": "vector(3)"}]}', "of column 'a'.*not a type"),
        ('{"columns": [{"type": "bigint"}]}', "name is missing"),
        ('{"columns": {}}', "columns is an object"),
        ('{"Reserved": "["}', "reserved table properties is not JSON"),
    ],
)
def test_bad_table_document_is_told(schema: str, problem: str) -> None:
    body = element("Table", (element("Schema", schema),)).encode()
    with pytest.raises(FramingError, match=problem):
        TableInfo.decode(body, {}, asked=TABLE)


@given(st.dictionaries(st.sampled_from(["columns", "owner", "Reserved", "size"]), json_values))
def test_any_table_schema_is_a_value_or_our_error(members: dict[str, Any]) -> None:
    body = element("Table", (element("Schema", json.dumps(members)),)).encode()
    found = outcome(TableInfo.decode, body, {}, asked=TABLE)
    assert isinstance(found, (TableInfo, FramingError))


def test_list_of_tables_round_trips() -> None:
    page = TablePage(names=("t", "表"), marker="next", owners={"t": "me", "表": ""})
    assert TablePage.decode(*page.encode()) == page
    assert ListTables(project="p1").decode_answer(*page.encode()) == page
    assert TablePage.decode(b"<Tables><Marker/><MaxItems>1000</MaxItems></Tables>", {}) == (
        TablePage()
    )


def test_list_of_partitions_round_trips() -> None:
    one = PartitionInfo(spec=DS, size=10, record_count=3)
    page = PartitionPage(partitions=(one, PartitionInfo(spec=PartitionSpec.of("ds=é"))), marker="2")
    assert PartitionPage.decode(*page.encode()) == page
    assert ListPartitions(table=TABLE).decode_answer(*page.encode()) == page


def test_list_of_partitions_of_the_protocol() -> None:
    body = b"""<Partitions><Marker/><MaxItems>9</MaxItems><Partition><Column Name="ds" Value="x"/>
<PartitionSize>many</PartitionSize></Partition></Partitions>"""
    expected = PartitionPage(partitions=(PartitionInfo(spec=PartitionSpec.of("ds=x")),))
    assert PartitionPage.decode(body, {}) == expected


def test_partition_document_round_trips() -> None:
    one = PartitionInfo(spec=DS, created_at=5, modified_at=6, record_count=3, size=10)
    assert PartitionInfo.decode(*one.encode(), asked=DS) == one
    assert GetPartition(table=TABLE, partition=DS).decode_answer(*one.encode()) == one
    assert PartitionInfo.decode(*PartitionInfo(spec=DS).encode(), asked=DS).record_count == 0


# -- projects, tenants, tunnel ----------------------------------------------------------------


def test_project_document_round_trips() -> None:
    info = ProjectInfo(name="p1", owner="me", created_at=NOW, modified_at=NOW + 1)
    assert ProjectInfo.decode(*info.encode()) == info
    told = replace(info, properties={"odps.sql.type.system.odps2": "true", "a&b": "<c>"})
    assert ProjectInfo.decode(*told.encode()) == told
    body, headers = told.encode_extended()
    assert b"<ExtendedProperties><Property><Name>" in body
    assert ProjectInfo.decode(body, headers) == told
    assert GetProject(project="p1").decode_answer(*info.encode()) == info


def test_project_document_always_has_the_headers_that_clients_insist_on() -> None:
    _, headers = ProjectInfo(name="p1").encode()
    assert headers.keys() == {"x-odps-owner", "x-odps-creation-time", "Last-Modified"}
    assert headers["Last-Modified"] == "Thu, 01 Jan 1970 00:00:00 GMT"


def test_owner_may_stand_in_the_document() -> None:
    body = b"<Project><Name>p1</Name><Owner>me</Owner></Project>"
    assert ProjectInfo.decode(body, {}) == ProjectInfo(name="p1", owner="me")


def test_tenant_document_round_trips() -> None:
    tenant = TenantInfo(name="t", tenant_id="1", parameters={"odps.namespace.schema": "true"})
    assert TenantInfo.decode(*tenant.encode()) == tenant
    assert GetTenant().decode_answer(*tenant.encode()) == tenant


def test_tenant_may_be_numbered_or_empty() -> None:
    body = b'{"Tenant": {"TenantId": 7, "Parameters": {"a": 1}}}'
    assert TenantInfo.decode(body, {}) == TenantInfo(tenant_id="7", parameters={"a": "1"})
    assert TenantInfo.decode(b"{}", {}) == TenantInfo()


@pytest.mark.parametrize(
    ("text", "endpoint", "expected"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:9090/api", "http://127.0.0.1:8080"),
        (
            " dt.cn-hangzhou.maxcompute.aliyun.com\n",
            "https://h/api",
            "https://dt.cn-hangzhou.maxcompute.aliyun.com",
        ),
        ("https://h:1/", "http://h/api", "https://h:1"),
        ("http://h:1/", "http://h/api", "http://h:1"),
        ("[::1]:80", "http://h", "http://[::1]:80"),
    ],
)
def test_tunnel_endpoint_has_the_scheme_of_the_endpoint(
    text: str, endpoint: str, expected: str
) -> None:
    assert decode_tunnel_endpoint(text.encode(), endpoint=endpoint) == expected


@pytest.mark.parametrize("text", ["http://h:1/", "HTTP://h", "http://[::1]:80"])
@pytest.mark.parametrize("endpoint", ["https://h/api", "HTTPS://h/api"])
def test_a_tunnel_endpoint_is_never_less_secure_than_the_endpoint(text: str, endpoint: str) -> None:
    with pytest.raises((ConfigError, FramingError)) as caught:
        decode_tunnel_endpoint(text.encode(), endpoint=endpoint)
    assert "tunnel_endpoint=" in (caught.value.hint or "")


READERS = {
    "tables": lambda body: TablePage.decode(body, {}),
    "table": lambda body: TableInfo.decode(body, {}, asked=TABLE),
    "partitions": lambda body: PartitionPage.decode(body, {}),
    "partition": lambda body: PartitionInfo.decode(body, {}, asked=DS),
    "project": lambda body: ProjectInfo.decode(body, {}),
    "result": lambda body: InstanceResult.decode(body, {}),
    "status": lambda body: InstanceStatus.decode(body, {}),
    "submitted": lambda body: SubmittedInstance.decode(body, {"Location": "http://h/instances/i"}),
}
STRANGERS = [
    b"<html><body><form action='/login'/></body></html>",
    b"<!DOCTYPE html><html><body>login</body></html>",
    b"<html><Tables><Table><Name>t</Name></Table></Tables><Status>Running</Status></html>",
    b"<Error><Code>x</Code></Error>",
    b"login, please",
    b'{"Tables": []}',
]


@pytest.mark.parametrize("document", READERS)
@pytest.mark.parametrize("body", STRANGERS)
def test_what_is_no_answer_of_maxcompute_is_told(document: str, body: bytes) -> None:
    with pytest.raises(FramingError) as caught:
        READERS[document](body)
    assert "check the endpoint, and whether a proxy" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "text", ["", "<html>login</html>", "h/path", "h:port", "user@h", "h h", "ftp://h", "h?x"]
)
def test_what_is_no_host_name_is_told(text: str) -> None:
    with pytest.raises(FramingError, match="not a host name of a tunnel endpoint") as caught:
        decode_tunnel_endpoint(text.encode(), endpoint="http://h")
    assert "tunnel_endpoint=" in (caught.value.hint or "")


def test_tunnel_answer_round_trips() -> None:
    body, headers = encode_tunnel_endpoint("127.0.0.1:8080")
    assert (body, headers) == (b"127.0.0.1:8080", {"Content-Type": "text/plain"})
    assert GetTunnelEndpoint(project="p1").decode_answer(body, headers) == "127.0.0.1:8080"


# -- SQL instances ----------------------------------------------------------------------------

STOCK_JOB = b"""<?xml version="1.0"?>
<Instance><Job><Priority>9</Priority><Tasks><SQL>
  <Name>SQLCreateTableTask</Name>
  <Config>
    <Property><Name>settings</Name><Value>{"PYODPS_VERSION": "0.13.2", "n": 1}</Value></Property>
    <Property><Name>uuid</Name><Value>u-1</Value></Property></Config>
  <Query><![CDATA[CREATE TABLE p1.`newt` (
a bigint < 3
);]]></Query></SQL></Tasks><DAG><RunMode>Sequence</RunMode></DAG></Job></Instance>"""


def post(body: bytes) -> WireRequest:
    return WireRequest(method="POST", path="/projects/p1/instances", body=body)


def test_job_of_the_stock_client_is_read() -> None:
    assert decode_control(post(STOCK_JOB)) == SubmitSql(
        project="p1",
        sql="CREATE TABLE p1.`newt` (\na bigint < 3\n);",
        name="SQLCreateTableTask",
        settings={"PYODPS_VERSION": "0.13.2", "n": "1"},
        unique_id="u-1",
    )


@pytest.mark.parametrize(
    "cost",
    [SqlCost(), SqlCost(input_bytes=0, complexity=1.5, udfs=2), SqlCost(input_bytes=2**60)],
)
def test_estimate_round_trips(cost: SqlCost) -> None:
    assert SqlCost.decode(cost.encode()) == cost


def test_estimate_as_the_stock_client_reads_it() -> None:
    text = '{"Cost": {"SQL": {"Complexity": "1.0", "Input": 100, "UDF": 0}}}'
    assert SqlCost.decode(text) == SqlCost(input_bytes=100, complexity=1.0, udfs=0)


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"Cost": {}}', '{"Cost": {"SQL": {"Complexity": "much"}}}', "[]", '{"Cost": 1}'],
)
def test_estimate_that_makes_no_sense_is_a_framing_error(text: str) -> None:
    with pytest.raises(FramingError):
        SqlCost.decode(text)


@pytest.mark.parametrize(
    ("sql", "sent"),
    [
        (" select 1 ", "select 1;"),
        ("select 1;\n", "select 1;"),
        ("select 1 -- one", "select 1 -- one\n;"),
        ("select 1; -- one", "select 1; -- one"),
        ("select '--';", "select '--';"),
        ("-- one\nselect 1", "-- one\nselect 1;"),
    ],
)
def test_query_is_ended_by_a_semicolon(sql: str, sent: str) -> None:
    found = decode_control(SubmitSql(project="p1", sql=sql).encode())
    assert found == SubmitSql(project="p1", sql=sent)


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
    .map(str.strip)
    .filter(lambda text: "--" not in text and has_spelling(text))
)
def test_any_query_round_trips(sql: str) -> None:
    found = decode_control(SubmitSql(project="p1", sql=sql + ";").encode())
    assert isinstance(found, SubmitSql)
    assert found.sql == sql + ";"


@pytest.mark.parametrize("sign", ["\x00", "\x1b", "\ufffe", "\ud800"], ids=ascii)
def test_query_that_would_arrive_as_another_one_is_refused(sign: str) -> None:
    with pytest.raises(ArgumentError, match="control character") as caught:
        SubmitSql(project="p1", sql=f"select 'a{sign}b'").encode()
    assert "chr" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "not valid XML"),
        (b"<Instance/>", "has no SQL task"),
        (b"<!DOCTYPE x><Instance/>", "DOCTYPE"),
        (STOCK_JOB.replace(b'{"PYODPS', b'["PYODPS'), "settings is not JSON"),
    ],
)
def test_bad_job_is_told(body: bytes, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem) as caught:
        decode_control(post(body))
    assert (caught.value.status, caught.value.code) == (400, "InvalidArgument")


def test_too_long_job_is_told() -> None:
    long = SubmitSql(project="p1", sql="x" * (4 * 2**20)).encode()
    with pytest.raises(InvalidRequestError, match="too long"):
        decode_control(long)


@pytest.mark.parametrize("priority", ["", "10", "-1", "high"])
def test_odd_priority_is_the_default(priority: str) -> None:
    body = STOCK_JOB.replace(b">9<", f">{priority}<".encode())
    found = decode_control(post(body))
    assert isinstance(found, SubmitSql)
    assert found.priority == 9


def test_new_instance_is_named_by_its_location() -> None:
    submitted = SubmittedInstance(instance_id="20251120i")
    body, headers = submitted.encode(location="http://h/api/projects/p1/instances/")
    assert headers == {"Location": "http://h/api/projects/p1/instances/20251120i"}
    assert SubmittedInstance.decode(body, headers) == submitted
    assert SubmitSql(project="p1", sql="x").decode_answer(body, headers) == submitted


@pytest.mark.parametrize(
    "location", ["http://h/x/20251120i?curr_project=p1", "20251120i/", "/20251120i"]
)
def test_only_the_end_of_the_location_counts(location: str) -> None:
    found = SubmittedInstance.decode(b" ", {"location": location})
    assert found == SubmittedInstance(instance_id="20251120i")


@pytest.mark.parametrize("location", [None, "", "http://h/a b", "http://h/../.."])
def test_instance_without_a_name_is_told(location: str | None) -> None:
    headers = {} if location is None else {"Location": location}
    with pytest.raises(FramingError, match="does not name its instance"):
        SubmittedInstance.decode(b"", headers)


RESULT = InstanceResult(
    status="Terminated", tasks=(TaskResult(status="Success", text='"_c0"\n1\n', format="csv"),)
)


def test_instance_that_ran_at_once_brings_its_result() -> None:
    submitted = SubmittedInstance(instance_id="i", result=RESULT)
    assert SubmittedInstance.decode(*submitted.encode(location="/x")) == submitted
    bare = SubmittedInstance.decode(b"<Instance/>", {"Location": "/i"})
    assert bare == SubmittedInstance(instance_id="i")


def test_result_document_round_trips() -> None:
    assert InstanceResult.decode(*RESULT.encode()) == RESULT
    assert GetInstanceResult(project="p", instance_id="i").decode_answer(*RESULT.encode()) == RESULT
    without = InstanceResult(tasks=(TaskResult(text="x"),))
    assert InstanceResult.decode(*without.encode()) == without


def test_result_in_base64_is_decoded() -> None:
    body = b"""<Instance><Tasks><Task Type="SQL"><Name>t</Name>
<Result Transform="Base64" Format="text">5p2t5bee</Result></Task></Tasks></Instance>"""
    expected = TaskResult(name="t", text="杭州", format="text")
    assert InstanceResult.decode(body, {}).tasks == (expected,)
    with pytest.raises(FramingError, match="declared as Base64"):
        InstanceResult.decode(body.replace(b"5p2t5bee", b"5"), {})


def test_task_without_a_result_is_empty() -> None:
    body = b"<Instance><Tasks><Task><Name>t</Name></Task></Tasks></Instance>"
    assert InstanceResult.decode(body, {}).tasks == (TaskResult(name="t", format=""),)


@pytest.mark.parametrize(
    ("status", "failed"), [("Success", False), ("Failed", True), ("CANCELLED", True), ("", False)]
)
def test_task_knows_whether_it_failed(status: str, failed: bool) -> None:
    assert TaskResult(status=status).failed is failed


def test_failure_becomes_a_query_error_with_code_and_hint() -> None:
    text = "ODPS-0130131:[1,15] Table not found - table p1.nope cannot be resolved"
    error = query_error(TaskResult(status="Failed", text=text))
    assert isinstance(error, QueryError)
    assert (error.message, error.code) == (text, "NoSuchTable")
    assert "odps.tables()" in (error.hint or "")


def test_failure_without_text_still_says_what_it_is() -> None:
    error = query_error(TaskResult(name="task", status="Cancelled"))
    assert error.message == "task task ended as Cancelled"
    assert query_error(TaskResult(name="t")).message == "task t ended as unknown"
    assert (error.code, error.hint) == (None, None)


STATUS = InstanceStatus(
    status="Terminated",
    owner="me",
    started_at=NOW,
    ended_at=NOW + 5,
    tasks=(TaskState(status="Success", started_at=NOW, ended_at=NOW + 5), TaskState(name="b")),
)


@pytest.mark.parametrize("status", [STATUS, InstanceStatus(status="Running")])
def test_status_document_round_trips(status: InstanceStatus) -> None:
    assert InstanceStatus.decode(*status.encode()) == status
    for request in (GetInstance, GetTaskStatus):
        assert request(project="p", instance_id="i").decode_answer(*status.encode()) == status


def test_instance_is_over_when_terminated() -> None:
    assert InstanceStatus(status="TERMINATED").is_over
    assert not InstanceStatus(status="Suspended").is_over


def test_status_document_without_a_status_is_told() -> None:
    with pytest.raises(FramingError, match="has no Status"):
        InstanceStatus.decode(b"<Instance/>", {})


def test_cancelling_says_nothing() -> None:
    request = CancelInstance(project="p", instance_id="i")
    assert request.decode_answer(b"anything", {}) is None
    assert (
        request.encode().body
        == (DECLARATION + "<Instance><Status>Terminated</Status></Instance>").encode()
    )


DOCUMENTS = [
    ProjectInfo,
    TenantInfo,
    TablePage,
    PartitionPage,
    InstanceResult,
    InstanceStatus,
    SubmittedInstance,
]


@given(st.sampled_from(DOCUMENTS), st.binary(max_size=60))
def test_any_bytes_are_a_document_or_our_error(kind: Any, body: bytes) -> None:
    found = outcome(kind.decode, body, {"Location": "/i"})
    assert isinstance(found, (kind, ProtocolError))


TAGS = ["Instance", "Tasks", "Task", "Name", "Status", "Result", "Table", "Partition", "Column"]
trees = st.recursive(
    st.tuples(st.sampled_from(TAGS), st.text(max_size=5)).map(lambda p: element(p[0], p[1])),
    lambda inner: st.tuples(st.sampled_from(TAGS), st.lists(inner, max_size=3)).map(
        lambda p: element(p[0], p[1], Transform="Base64", Name="n")
    ),
    max_leaves=8,
)


@given(st.sampled_from([k for k in DOCUMENTS if k is not TenantInfo]), trees)
def test_any_tree_is_a_document_or_our_error(kind: Any, text: str) -> None:
    found = outcome(kind.decode, text.encode(), {"Location": "/i"})
    assert isinstance(found, (kind, ProtocolError))
