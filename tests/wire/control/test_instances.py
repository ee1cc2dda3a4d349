"""SQL instances in the control plane: documents, round trips, malicious peers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import (
    ArgumentError,
    FramingError,
    InvalidRequestError,
    ProtocolError,
    QueryError,
)
from odps_nb.wire.calls import WireRequest
from odps_nb.wire.control import (
    CancelInstance,
    GetInstance,
    GetInstanceResult,
    GetInstanceSource,
    GetTaskStatus,
    InstanceResult,
    InstanceStatus,
    PartitionPage,
    ProjectInfo,
    SqlCost,
    SubmitSql,
    SubmittedInstance,
    TablePage,
    TaskResult,
    TaskState,
    decode_control,
    query_error,
)
from odps_nb.wire.xml_text import DECLARATION, element, has_spelling
from tests.support.wire.control import NOW
from tests.support.wire.schemas import outcome

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


def test_a_job_of_the_stock_client_is_decoded() -> None:
    assert decode_control(post(STOCK_JOB)) == SubmitSql(
        project="p1",
        sql="CREATE TABLE p1.`newt` (\na bigint < 3\n);",
        name="SQLCreateTableTask",
        settings={"PYODPS_VERSION": "0.13.2", "n": "1"},
    )


def test_the_guid_of_a_job_is_between_its_priority_and_its_tasks() -> None:
    """Evidence 163: the Go SDK says that the order of the elements is strict."""
    job = SubmitSql(project="p1", sql="select 1", unique_id="u-2")
    wire = job.encode()
    assert wire.body is not None
    assert b"<Job><Priority>9</Priority><Guid>u-2</Guid><Tasks><SQL>" in wire.body
    assert decode_control(wire) == SubmitSql(project="p1", sql="select 1;", unique_id="u-2")


@pytest.mark.parametrize(("unique_id", "again"), [("u-2", True), ("", False)])
def test_only_a_job_with_a_guid_is_idempotent(unique_id: str, again: bool) -> None:
    """Evidence 163: the property ``uuid`` has no effect on the service."""
    assert SubmitSql(project="p1", sql="select 1", unique_id=unique_id).idempotent is again


@pytest.mark.parametrize(
    "cost",
    [SqlCost(), SqlCost(input_bytes=0, complexity=1.5, udfs=2), SqlCost(input_bytes=2**60)],
)
def test_an_estimate_is_unchanged_by_a_round_trip(cost: SqlCost) -> None:
    assert SqlCost.decode(cost.encode()) == cost


def test_the_stock_client_decodes_an_estimate() -> None:
    text = '{"Cost": {"SQL": {"Complexity": "1.0", "Input": 100, "UDF": 0}}}'
    assert SqlCost.decode(text) == SqlCost(input_bytes=100, complexity=1.0, udfs=0)


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"Cost": {}}', '{"Cost": {"SQL": {"Complexity": "much"}}}', "[]", '{"Cost": 1}'],
)
def test_an_invalid_estimate_raises_a_framing_error(text: str) -> None:
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
def test_a_semicolon_ends_a_query(sql: str, sent: str) -> None:
    found = decode_control(SubmitSql(project="p1", sql=sql).encode())
    assert found == SubmitSql(project="p1", sql=sent)


@given(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
    .map(str.strip)
    .filter(lambda text: "--" not in text and has_spelling(text))
)
def test_any_query_is_unchanged_by_a_round_trip(sql: str) -> None:
    found = decode_control(SubmitSql(project="p1", sql=sql + ";").encode())
    assert isinstance(found, SubmitSql)
    assert found.sql == sql + ";"


@pytest.mark.parametrize("sign", ["\x00", "\x1b", "\ufffe", "\ud800"], ids=ascii)
def test_a_query_that_would_be_changed_in_transit_is_refused(sign: str) -> None:
    with pytest.raises(ArgumentError, match="control character") as caught:
        SubmitSql(project="p1", sql=f"select 'a{sign}b'").encode()
    assert "chr" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "not valid XML"),
        (b"<Instance/>", "has no SQL task: it has no task"),
        (STOCK_JOB.replace(b"SQL>", b"Merge>"), "has no SQL task: it has only Merge"),
        (b"<!DOCTYPE x><Instance/>", "DOCTYPE"),
        (STOCK_JOB.replace(b'{"PYODPS', b'["PYODPS'), "settings is not JSON"),
    ],
)
def test_a_malformed_job_is_refused(body: bytes, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem) as caught:
        decode_control(post(body))
    assert (caught.value.status, caught.value.code) == (400, "InvalidArgument")


def test_a_job_that_is_too_long_is_reported() -> None:
    long = SubmitSql(project="p1", sql="x" * (4 * 2**20)).encode()
    with pytest.raises(InvalidRequestError, match="too long"):
        decode_control(long)


@pytest.mark.parametrize("priority", ["", "10", "-1", "high"])
def test_an_invalid_priority_becomes_the_default(priority: str) -> None:
    body = STOCK_JOB.replace(b">9<", f">{priority}<".encode())
    found = decode_control(post(body))
    assert isinstance(found, SubmitSql)
    assert found.priority == 9


def test_a_new_instance_has_the_id_in_its_location_header() -> None:
    submitted = SubmittedInstance(instance_id="20251120i")
    body, headers = submitted.encode(location="http://h/api/projects/p1/instances/")
    assert headers == {"Location": "http://h/api/projects/p1/instances/20251120i"}
    assert SubmittedInstance.decode(body, headers) == submitted
    assert SubmitSql(project="p1", sql="x").decode_answer(body, headers) == submitted


@pytest.mark.parametrize(
    "location", ["http://h/x/20251120i?curr_project=p1", "20251120i/", "/20251120i"]
)
def test_the_instance_id_is_the_last_segment_of_the_location(location: str) -> None:
    found = SubmittedInstance.decode(b" ", {"location": location})
    assert found == SubmittedInstance(instance_id="20251120i")


@pytest.mark.parametrize("location", [None, "", "http://h/a b", "http://h/../.."])
def test_an_instance_without_an_id_raises_an_error(location: str | None) -> None:
    headers = {} if location is None else {"Location": location}
    with pytest.raises(FramingError, match="has no instance id"):
        SubmittedInstance.decode(b"", headers)


RESULT = InstanceResult(
    status="Terminated", tasks=(TaskResult(status="Success", text='"_c0"\n1\n', format="csv"),)
)


def test_an_instance_that_ran_immediately_includes_its_result() -> None:
    submitted = SubmittedInstance(instance_id="i", result=RESULT)
    assert SubmittedInstance.decode(*submitted.encode(location="/x")) == submitted
    bare = SubmittedInstance.decode(b"<Instance/>", {"Location": "/i"})
    assert bare == SubmittedInstance(instance_id="i")


def test_a_result_document_is_unchanged_by_a_round_trip() -> None:
    assert InstanceResult.decode(*RESULT.encode()) == RESULT
    assert GetInstanceResult(project="p", instance_id="i").decode_answer(*RESULT.encode()) == RESULT
    without = InstanceResult(tasks=(TaskResult(text="x"),))
    assert InstanceResult.decode(*without.encode()) == without


def test_a_result_in_base64_is_decoded() -> None:
    body = b"""<Instance><Tasks><Task Type="SQL"><Name>t</Name>
<Result Transform="Base64" Format="text">5p2t5bee</Result></Task></Tasks></Instance>"""
    expected = TaskResult(name="t", text="杭州", format="text")
    assert InstanceResult.decode(body, {}).tasks == (expected,)
    with pytest.raises(FramingError, match="declared as Base64"):
        InstanceResult.decode(body.replace(b"5p2t5bee", b"5"), {})


def test_a_task_without_a_result_has_empty_text() -> None:
    body = b"<Instance><Tasks><Task><Name>t</Name></Task></Tasks></Instance>"
    assert InstanceResult.decode(body, {}).tasks == (TaskResult(name="t", format=""),)


@pytest.mark.parametrize(
    ("status", "failed"), [("Success", False), ("Failed", True), ("CANCELLED", True), ("", False)]
)
def test_the_status_of_a_task_tells_whether_it_failed(status: str, failed: bool) -> None:
    assert TaskResult(status=status).failed is failed


def test_a_failed_task_becomes_a_query_error_with_code_and_hint() -> None:
    text = "ODPS-0130131:[1,15] Table not found - table p1.nope cannot be resolved"
    error = query_error(TaskResult(status="Failed", text=text))
    assert isinstance(error, QueryError)
    assert (error.message, error.code) == (text, "NoSuchTable")
    assert "odps.tables()" in (error.hint or "")


def test_a_failed_task_without_text_becomes_an_error_with_its_status() -> None:
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
def test_a_status_document_is_unchanged_by_a_round_trip(status: InstanceStatus) -> None:
    assert InstanceStatus.decode(*status.encode()) == status
    for request in (GetInstance, GetTaskStatus):
        assert request(project="p", instance_id="i").decode_answer(*status.encode()) == status


def test_an_instance_has_ended_when_terminated() -> None:
    assert InstanceStatus(status="TERMINATED").is_over
    assert not InstanceStatus(status="Suspended").is_over


def test_a_status_document_without_a_status_raises_an_error() -> None:
    with pytest.raises(FramingError, match="has no Status"):
        InstanceStatus.decode(b"<Instance/>", {})


def test_the_response_to_a_cancellation_is_ignored() -> None:
    request = CancelInstance(project="p", instance_id="i")
    assert request.decode_answer(b"anything", {}) is None
    assert (
        request.encode().body
        == (DECLARATION + "<Instance><Status>Terminated</Status></Instance>").encode()
    )


DOCUMENTS = [
    ProjectInfo,
    TablePage,
    PartitionPage,
    InstanceResult,
    InstanceStatus,
    SubmittedInstance,
]


@given(st.sampled_from(DOCUMENTS), st.binary(max_size=60))
def test_any_bytes_give_a_document_or_an_odps_nb_error(kind: Any, body: bytes) -> None:
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


@given(st.sampled_from(DOCUMENTS), trees)
def test_any_xml_tree_gives_a_document_or_an_odps_nb_error(kind: Any, text: str) -> None:
    found = outcome(kind.decode, text.encode(), {"Location": "/i"})
    assert isinstance(found, (kind, ProtocolError))


def test_text_that_xml_cannot_represent_is_sent_in_base64() -> None:
    result = InstanceResult(tasks=(TaskResult(status="Success", text="a\x00b"),))
    body, headers = result.encode()
    assert b'Transform="Base64"' in body
    assert InstanceResult.decode(body, headers) == result


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ('{"odps.sql.timezone": "UTC", "id_of_another_tool": "1"}', {"odps.sql.timezone": "UTC"}),
        ("", {}),
        ("not JSON", {}),
    ],
)
def test_the_sql_of_an_instance_and_its_settings_are_read_from_its_job(
    settings: str, expected: dict[str, str]
) -> None:
    request = GetInstanceSource(project="p1", instance_id="i")
    assert request.encode().url("") == "/projects/p1/instances/i?source="
    named = element("Property", (element("Name", "settings"), element("Value", settings)))
    parts = (element("Config", (named,)), element("Query", " select 1; "))
    job = element("Job", (element("Tasks", (element("SQL", parts),)),))
    assert request.decode_answer(job.encode(), {}) == ("select 1;", expected)
    assert request.decode_answer(b"<Job/>", {}) == ("", {})
