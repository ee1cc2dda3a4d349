"""Tables, partitions, projects and tenants in the control plane, also from malicious peers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.errors import ConfigError, FramingError
from odps_nb.schema import TableSchema
from odps_nb.terms import PartitionSpec
from odps_nb.wire.control import (
    SQL_ZONE,
    GetPartition,
    GetProject,
    GetTable,
    GetTables,
    GetTunnelEndpoint,
    InstanceResult,
    InstanceStatus,
    ListPartitions,
    ListProjects,
    ListSchemas,
    ListTables,
    PartitionInfo,
    PartitionPage,
    ProjectInfo,
    SubmittedInstance,
    TableInfo,
    TablePage,
    TenantInfo,
    decode_tunnel_endpoint,
    encode_tunnel_endpoint,
)
from odps_nb.wire.type_text import parse_columns
from odps_nb.wire.xml_text import element
from tests.support.wire.control import DS, NOW, TABLE
from tests.support.wire.schemas import json_values, outcome, schemas

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


def test_tables_of_one_request_are_matched_by_name_in_any_case_and_order() -> None:
    other = replace(INFO, name=replace(TABLE, table="Other"), record_count=7)
    asked = GetTables(tables=(other.name, TABLE))
    answered = [INFO.element(), replace(other, name=replace(TABLE, table="other")).element()]
    assert asked.decode_answer(element("Tables", answered).encode(), {}) == (other, INFO)
    with pytest.raises(FramingError, match="Other"):
        asked.decode_answer(element("Tables", answered[:1]).encode(), {})


def test_a_table_document_is_unchanged_by_a_round_trip() -> None:
    assert TableInfo.decode(*INFO.encode(), asked=TABLE) == INFO
    assert GetTable(table=TABLE).decode_answer(*INFO.encode()) == INFO


def test_the_extended_table_document_has_properties() -> None:
    info = TableInfo(name=TABLE, properties={"Transactional": "true", "n": "1"}, created_at=1)
    found = TableInfo.decode(*info.encode_extended(), asked=TABLE)
    assert found.properties == {"Transactional": "true", "n": "1"}


@settings(max_examples=25)
@given(schemas())
def test_a_table_document_keeps_any_schema(schema: TableSchema) -> None:
    info = TableInfo(name=TABLE, schema=schema)
    assert TableInfo.decode(*info.encode(), asked=TABLE).schema == schema


def test_the_table_document_of_the_protocol_page_is_decoded() -> None:
    body = b"""<?xml version="1.0"?><Table><Name>other</Name><TableId>id</TableId>
<Project>p1</Project><Schema format="Json"><![CDATA[{"columns":[{"name":"id","type":"bigint",
"comment":"","label":"","isNullable":true}],"partitionKeys":[],"tableName":"t",
"owner":"ALIYUN$x","comment":"","createTime":1700000000,"lastModifiedTime":1700000000,
"lastDDLTime":1700000000,"isVirtualView":true,"lifecycle":-1,"size":0}]]></Schema></Table>"""
    found = TableInfo.decode(body, {}, asked=TABLE)
    assert found == TableInfo(
        name=TABLE,  # the requested name, whatever the document says
        schema=TableSchema(columns=parse_columns("id bigint")),
        table_id="id",
        owner="ALIYUN$x",
        created_at=1700000000,
        modified_at=1700000000,
        ddl_at=1700000000,
        size=0,
        is_view=True,
    )


def test_the_smallest_extended_table_document_is_decoded() -> None:
    body = b'<Table><Name>t</Name><Schema format="Json"><![CDATA[{}]]></Schema></Table>'
    assert TableInfo.decode(body, {}, asked=TABLE) == TableInfo(name=TABLE)
    assert TableInfo.decode(b"<Table/>", {}, asked=TABLE) == TableInfo(name=TABLE)


def test_reserved_properties_of_other_types_are_ignored() -> None:
    schema = json.dumps({"Reserved": json.dumps({"a": [1], "b": True, "c": None, "d": 2})})
    body = element("Table", (element("Schema", schema),)).encode()
    assert TableInfo.decode(body, {}, asked=TABLE).properties == {"b": "true", "d": "2"}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "table schema is not JSON"),
        ('{"columns": [{"type": "bigint"}]}', "name is missing"),
        ('{"columns": {}}', "columns is an object"),
        ('{"Reserved": "["}', "reserved table properties is not JSON"),
    ],
)
def test_a_malformed_table_document_raises_an_error(schema: str, problem: str) -> None:
    body = element("Table", (element("Schema", schema),)).encode()
    with pytest.raises(FramingError, match=problem):
        TableInfo.decode(body, {}, asked=TABLE)


@given(st.dictionaries(st.sampled_from(["columns", "owner", "Reserved", "size"]), json_values))
def test_any_table_schema_gives_a_value_or_an_odps_nb_error(members: dict[str, Any]) -> None:
    body = element("Table", (element("Schema", json.dumps(members)),)).encode()
    found = outcome(TableInfo.decode, body, {}, asked=TABLE)
    assert isinstance(found, (TableInfo, FramingError))


def test_a_list_of_tables_is_unchanged_by_a_round_trip() -> None:
    page = TablePage(names=("t", "表"), marker="next", owners={"t": "me", "表": ""})
    assert TablePage.decode(*page.encode()) == page
    assert ListTables(project="p1").decode_answer(*page.encode()) == page
    assert TablePage.decode(b"<Tables><Marker/><MaxItems>1000</MaxItems></Tables>", {}) == (
        TablePage()
    )


def test_a_list_of_partitions_is_unchanged_by_a_round_trip() -> None:
    one = PartitionInfo(spec=DS, size=10, record_count=3)
    page = PartitionPage(partitions=(one, PartitionInfo(spec=PartitionSpec.of("ds=é"))), marker="2")
    assert PartitionPage.decode(*page.encode()) == page
    assert ListPartitions(table=TABLE).decode_answer(*page.encode()) == page


def test_the_list_of_partitions_on_the_protocol_page_is_decoded() -> None:
    body = b"""<Partitions><Marker/><MaxItems>9</MaxItems><Partition><Column Name="ds" Value="x"/>
<PartitionSize>many</PartitionSize></Partition></Partitions>"""
    expected = PartitionPage(partitions=(PartitionInfo(spec=PartitionSpec.of("ds=x")),))
    assert PartitionPage.decode(body, {}) == expected


def test_a_partition_document_is_unchanged_by_a_round_trip() -> None:
    one = PartitionInfo(spec=DS, created_at=5, modified_at=6, record_count=3, size=10)
    assert PartitionInfo.decode(*one.encode(), asked=DS) == one
    assert GetPartition(table=TABLE, partition=DS).decode_answer(*one.encode()) == one
    assert PartitionInfo.decode(*PartitionInfo(spec=DS).encode(), asked=DS).record_count == 0


# -- projects, tenants, tunnel ----------------------------------------------------------------


def test_a_project_document_is_unchanged_by_a_round_trip() -> None:
    info = ProjectInfo(name="p1", owner="me", created_at=NOW, modified_at=NOW + 1)
    assert ProjectInfo.decode(*info.encode()) == info
    told = replace(info, properties={"odps.sql.type.system.odps2": "true", "a&b": "<c>"})
    assert ProjectInfo.decode(*told.encode()) == told
    body, headers = told.encode_extended()
    assert b"<ExtendedProperties><Property><Name>" in body
    assert ProjectInfo.decode(body, headers) == told
    assert GetProject(project="p1").decode_answer(*info.encode()) == info


@pytest.mark.parametrize(("properties", "zone"), [({}, None), ({SQL_ZONE: ""}, None)])
def test_a_project_that_names_no_time_zone_has_none(properties, zone) -> None:
    assert ProjectInfo(name="p1", properties=properties).timezone is zone
    told = ProjectInfo(name="p1", properties=properties | {SQL_ZONE: "Asia/Shanghai"})
    assert ProjectInfo.decode(*told.encode()).timezone == "Asia/Shanghai"


def test_a_project_document_always_has_the_headers_that_clients_require() -> None:
    _, headers = ProjectInfo(name="p1").encode()
    assert headers.keys() == {"x-odps-owner", "x-odps-creation-time", "Last-Modified"}
    assert headers["Last-Modified"] == "Thu, 01 Jan 1970 00:00:00 GMT"


def test_the_owner_may_be_in_the_document() -> None:
    body = b"<Project><Name>p1</Name><Owner>me</Owner></Project>"
    assert ProjectInfo.decode(body, {}) == ProjectInfo(name="p1", owner="me")


def test_the_tenant_document_is_json() -> None:
    tenant = TenantInfo(name="t", tenant_id="1", parameters={"odps.namespace.schema": "true"})
    body, headers = tenant.encode()
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body)["Tenant"] == {
        "Name": "t",
        "TenantId": "1",
        "OwnerId": "1",
        "TenantState": "NORMAL",
        "Parameters": {"odps.namespace.schema": "true"},
    }


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
def test_the_tunnel_endpoint_has_the_scheme_of_the_endpoint(
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
def test_a_response_of_another_server_raises_an_error(document: str, body: bytes) -> None:
    with pytest.raises(FramingError) as caught:
        READERS[document](body)
    assert "check the endpoint, and whether a proxy" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "text",
    ["", "<html>login</html>", "h/path", "h:port", "user@h", "h h", "ftp://h", "h?x", "h" * 254],
)
def test_an_invalid_host_name_is_reported(text: str) -> None:
    with pytest.raises(FramingError, match="not the host name of a tunnel endpoint") as caught:
        decode_tunnel_endpoint(text.encode(), endpoint="http://h")
    assert "tunnel_endpoint=" in (caught.value.hint or "")


def test_a_tunnel_response_is_unchanged_by_a_round_trip() -> None:
    body, headers = encode_tunnel_endpoint("127.0.0.1:8080")
    assert (body, headers) == (b"127.0.0.1:8080", {"Content-Type": "text/plain"})
    assert GetTunnelEndpoint(project="p1").decode_answer(body, headers) == "127.0.0.1:8080"


def test_a_table_document_states_keys_views_and_external_tables() -> None:
    info = replace(INFO, is_view=True, view_text="select 1", is_external=True, primary_key=("id",))
    found = TableInfo.decode(*info.encode_extended(), asked=TABLE)
    assert found == info


def test_object_tables_are_recognised_and_listed() -> None:
    """evidence 209: `isObjectTable` of `Table.java` (Java SDK), type OBJECT_TABLE."""
    info = replace(INFO, is_object=True)
    body, headers = info.encode()
    assert b"<Type>OBJECT_TABLE</Type>" in body
    assert TableInfo.decode(body, headers, asked=TABLE) == info
    page = TablePage(names=("a", "b"), types={"a": "OBJECT_TABLE", "b": "A_NEW_KIND"})
    assert TablePage.decode(*page.encode()).types == page.types


def test_the_repr_of_a_table_document_shows_columns_rows_bytes_and_owner() -> None:
    assert repr(INFO) == f"TableInfo({TABLE}, 3 columns, 3 rows, 10 B, owner='ALIYUN$x')"
    assert repr(TableInfo(name=TABLE)) == f"TableInfo({TABLE}, 0 columns)"


def test_an_extended_partition_document_has_sizes_and_no_times() -> None:
    body, _ = PartitionInfo(spec=DS, size=10, files=2).encode_extended()
    assert b'"PhysicalSize": 10, "FileNum": 2' in body
    assert b"createTime" not in body


@pytest.mark.parametrize(
    ("request_", "url", "root", "item"),
    [
        (ListProjects(prefix="p"), "/projects?expectmarker=true&name=p", "Projects", "Project"),
        (
            ListSchemas(project="p1", marker="m"),
            "/projects/p1/schemas?expectmarker=true&marker=m",
            "Schemas",
            "Schema",
        ),
    ],
    ids=["projects", "schemas"],
)
def test_names_are_listed_a_page_at_a_time(request_: Any, url: str, root: str, item: str) -> None:
    assert request_.encode().url("") == url
    named = (element(item, (element("Name", name),)) for name in ("a", "b"))
    page = element(root, (element("Marker", "next"), *named))
    found = request_.decode_answer(page.encode(), {})
    assert (found.names, found.marker) == (("a", "b"), "next")
