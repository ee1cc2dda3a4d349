"""SQL results as the real service sends them, with and without a session."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from odps_nb.terms import SessionStatus
from odps_nb.wire.calls import InstanceSessionAnswer, ReadInstance
from odps_nb.wire.schema_json import decode_nested
from tests.support.service.raw import Raw, good, rows_of

COLUMNS = ["col1", "col2", "col3", "col4"]


@pytest.fixture(scope="module")
def table(raw: Raw) -> str:
    name = raw.make("(col1 bigint, col2 string, col3 double, col4 boolean)")
    values = ", ".join(
        f"({i}, 'test_string_{i}', {i * 1.5}, {'true' if i % 2 == 0 else 'false'})"
        for i in range(10)
    )
    raw.sql(f"insert into {name} values {values};")
    return name


@pytest.fixture(scope="module")
def instance(raw: Raw, table: str) -> str:
    return raw.sql(f"select * from {table};")


def opened(raw: Raw, instance: str) -> dict[str, Any]:
    body: dict[str, object] = {"EnableLimit": False}
    target = raw.instance(instance)
    answer: dict[str, Any] = good(
        raw.ask("InstanceCreateReadSession", target, body=body, coding="application/json")
    ).json()
    return answer


def read(raw: Raw, instance: str, params: dict[str, object], **body: object) -> pa.Table:
    answer = raw.ask(
        "InstanceRead", raw.instance(instance), params, dict(body), coding="x-lz4-frame,zstd"
    )
    return rows_of(answer)


def test_the_row_count_of_a_result_session_is_exact(raw: Raw, instance: str) -> None:
    """evidence 147, 36: the session has DownloadID, RecordCount, nested schema (C++: TestNormal)"""
    session = opened(raw, instance)
    assert session["RecordCount"] == 10
    assert isinstance(session["DownloadID"], str)
    assert list(decode_nested(session["TableSchema"]).schema.names) == COLUMNS
    place = {"SessionId": session["DownloadID"], "Count": 10}
    rows = read(raw, instance, place, Columns=[])
    assert rows.column_names == COLUMNS
    assert rows.schema.types == [pa.int64(), pa.utf8(), pa.float64(), pa.bool_()]
    assert sorted(rows["col1"].to_pylist()) == list(range(10))


def test_two_row_ranges_contain_all_rows_of_the_result(raw: Raw, instance: str) -> None:
    """evidence 147: Offset is omitted if it is 0 (C++: …WithOffset)"""
    named = {"SessionId": opened(raw, instance)["DownloadID"]}
    halves = [
        read(raw, instance, named | {"Count": 5}, Columns=[]),
        read(raw, instance, named | {"Offset": 5, "Count": 5}, Columns=[]),
    ]
    assert [half.num_rows for half in halves] == [5, 5]
    assert sorted(pa.concat_tables(halves)["col1"].to_pylist()) == list(range(10))


def test_a_count_beyond_the_end_of_a_result_is_reduced(raw: Raw, instance: str) -> None:
    """evidence 3: a count of 9999999 returns all rows (C++: table_write_test reads in this way)"""
    named = {"SessionId": opened(raw, instance)["DownloadID"]}
    assert read(raw, instance, named | {"Count": 9999999}, Columns=[]).num_rows == 10


def test_columns_of_a_result_can_be_selected(raw: Raw, instance: str) -> None:
    """evidence 148 (C++: TestCreateInstanceReadStreamWithColumns)"""
    place = {"SessionId": opened(raw, instance)["DownloadID"], "Count": 10}
    rows = read(raw, instance, place, Columns=["col1", "col2"])
    assert (rows.column_names, rows.num_rows) == (["col1", "col2"], 10)


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_result_session_is_found_by_its_id(raw: Raw, instance: str, method: str) -> None:
    """evidence 148: POST without body, and GET (C++: TestRebuildSessionWithSessionId; Java)"""
    session = opened(raw, instance)
    again = raw.ask(
        "InstanceGetReadSession",
        raw.instance(instance),
        {"SessionId": session["DownloadID"]},
        method=method,
    )
    assert good(again).json() == session


@pytest.mark.parametrize("word", ["initiating", "Initiating", "INIT", "init"])
def test_the_status_of_a_result_in_preparation_is_decoded_in_any_letter_case(word: str) -> None:
    """evidence 149: the status may be in lower case (C++: SESSION_STATUS_INITIATING)"""
    body = json.dumps({"DownloadID": "d", "Status": word, "RecordCount": 0}).encode()
    assert InstanceSessionAnswer.decode(body, {}).status is SessionStatus.INIT


@pytest.mark.parametrize("task", ["console_sqlrt_task", "AnonymousSQLTask"])
@pytest.mark.parametrize("limited", [True, False])
def test_a_result_is_read_without_a_session(
    raw: Raw, instance: str, task: str, *, limited: bool
) -> None:
    """evidence 150: TaskName and QueryId are sent, Count is optional (C++: …DirectReadStream…)"""
    said: dict[str, object] = {"TaskName": task, "QueryId": 0, "EnableLimit": limited}
    assert read(raw, instance, {}, Columns=[], **said).num_rows == 10
    assert read(raw, instance, {"Count": 100}, Columns=["col1"], **said).column_names == ["col1"]
    assert read(raw, instance, {"Offset": 4, "Count": 100}, Columns=[], **said).num_rows == 6


def test_a_read_without_a_session_returns_some_rows(raw: Raw, instance: str) -> None:
    """evidence 151: 5 rows are not guaranteed, but some rows are (C++: …AllMethods)"""
    said: dict[str, object] = {"TaskName": "console_sqlrt_task", "QueryId": 0, "EnableLimit": True}
    assert 0 < read(raw, instance, {"Count": 5}, Columns=[], **said).num_rows <= 10


def test_odps_nb_reads_a_result_without_a_session_id(raw: Raw, instance: str) -> None:
    """evidence 150: the request contains no SessionId (C++: instance_read_stream)"""
    project = raw.service.project
    wire = ReadInstance(project=project, instance_id=instance, session_id=None).encode()
    assert "SessionId" not in dict(wire.params)
    assert rows_of(raw.send(wire)).num_rows == 10


def test_a_limited_query_counts_its_rows(raw: Raw, table: str) -> None:
    """evidence 152: LIMIT 5 gives RecordCount 5 and 5 rows (Python: test_instance_read_session)"""
    instance = raw.sql(f"select * from {table} limit 5;")
    session = opened(raw, instance)
    assert session["RecordCount"] == 5
    place = {"SessionId": session["DownloadID"], "Count": 5}
    assert read(raw, instance, place, Columns=[]).num_rows == 5
