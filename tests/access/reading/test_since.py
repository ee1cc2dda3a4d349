"""`Table.read(since=…, until=…, changes=…)` returns the rows after a version or a time."""

from __future__ import annotations

import datetime
import pickle
import time
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.access.connection import Connection
from odps_nb.access.scan import Scan
from odps_nb.access.table import Table
from odps_nb.client.read.increments import in_words, plan_increment
from odps_nb.errors import ArgumentError, ConflictError, FramingError, InvalidRequestError
from odps_nb.terms import SplitMode
from tests.support.named import NewName

pytestmark = pytest.mark.storage_api("versions")


@pytest.fixture
def keyed(odps: Connection, new_name: NewName) -> Table:
    """Versions 2 to 5 upsert rows 1 and 2, delete row 2, update row 1, and insert rows 3 and 19."""
    name = new_name("since")
    odps.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id))"
        " TBLPROPERTIES ('transactional'='true', 'acid.cdc.mode.enable'='true')"
    )
    table = odps.table(name)
    table.upsert(pa.table({"id": [1, 2], "v": ["a", "b"]}))
    table.delete([2])
    table.upsert(pa.table({"id": [1], "v": ["c"]}))
    table.upsert(pa.table({"id": [3, 19], "v": ["d", None]}))
    return table


@pytest.fixture
def plain(odps: Connection, new_name: NewName) -> Table:
    """A table without a key, whose versions 1 to 3 add one row each."""
    table = odps.create_table(new_name("since_plain"), "id bigint, v string")
    for number in range(3):
        table.write(pa.table({"id": [number], "v": [str(number)]}))
    return table


def rows(scan: Scan) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in scan.to_arrow().to_pylist()]


def test_the_error_for_a_table_without_changes_says_how_to_record_them(
    odps: Connection, new_name: NewName
) -> None:
    table = odps.create_table(new_name("since"), "id bigint", primary_key="id")
    table.upsert([{"id": 1}])
    assert rows(table.read(since=0)) == [(1,)]
    with pytest.raises(InvalidRequestError, match="does not record changes") as caught:
        table.read(since=0, changes=True).to_arrow()
    assert "properties={'acid.cdc.mode.enable': True}" in (caught.value.hint or "")


def test_an_incremental_read_returns_the_last_state_of_newer_rows(keyed: Table) -> None:
    assert sorted(rows(keyed.read(since=0))) == [(1, "c"), (3, "d"), (19, None)]
    assert rows(keyed.read(since=3)) == [(1, "c"), (3, "d"), (19, None)]
    assert rows(keyed.read(since=2, until=3)) == []  # a delete returns no row
    assert rows(keyed.read(until=2, columns=["v"])) == [("a",), ("b",)]
    scan = keyed.read(since=5)
    assert (rows(scan), scan.latest_version) == ([], 5)
    assert scan.to_arrow().column_names == ["id", "v"]


def test_a_column_names_the_kind_of_each_change(keyed: Table) -> None:
    found = keyed.read(since=1, until=4, changes=True).to_arrow()
    assert found.schema.field("_change").type == pa.string()
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (1, "a", "insert"),
        (1, "a", "update_before"),
        (1, "c", "update_after"),
        (2, "b", "insert"),
        (2, "b", "delete"),
    ]
    assert rows(keyed.read(["v"], since=3, until=4, changes=True)) == [
        ("a", "update_before"),
        ("c", "update_after"),
    ]
    assert keyed.read(since=5, changes=True).to_arrow().num_rows == 0
    assert keyed.read(changes=True).to_arrow().num_rows == 7


def test_reading_version_by_version_returns_changes_in_commit_order(keyed: Table) -> None:
    found = [
        rows(keyed.read(since=version, until=version + 1, changes=True, columns=["id"]))
        for version in range(1, 5)
    ]
    assert [{number for number, *_ in one} for one in found] == [{1, 2}, {2}, {1}, {3, 19}]


def test_changes_can_be_read_into_a_data_frame(keyed: Table) -> None:
    frame = keyed.read(since=2, changes=True).to_pandas()
    assert list(frame.columns) == ["id", "v", "_change"]
    assert frame["_change"].value_counts().to_dict() == {
        "insert": 2,
        "delete": 1,
        "update_before": 1,
        "update_after": 1,
    }
    nothing = keyed.read(since=5).to_pandas()
    assert isinstance(nothing, pd.DataFrame)
    assert nothing.empty


def test_changes_of_one_table_can_be_applied_to_another(
    odps: Connection, new_name: NewName, keyed: Table
) -> None:
    """The column `_change` makes it possible to bring an older copy of a table up to date."""
    name = new_name("copy")
    odps.sql(f"CREATE TABLE {name} (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id))")
    copy = odps.table(name)
    copy.upsert(keyed.read(since=0, until=2))
    scan = keyed.read(since=2, changes=True)
    frame = scan.to_pandas().query("_change != 'update_before'")
    frame["gone"] = frame.pop("_change") == "delete"
    copy.upsert(frame, deleted="gone")
    assert sorted(rows(copy.read())) == sorted(rows(keyed.read()))


def test_a_condition_applies_to_an_incremental_read(keyed: Table) -> None:
    assert rows(keyed.read(since=0, where="id < 3")) == [(1, "c")]
    assert rows(keyed.read(["v"], since=2, where="id = 2", changes=True)) == [("b", "delete")]


def test_a_limit_and_batches_apply_to_an_incremental_read(keyed: Table) -> None:
    assert keyed.read(since=0, changes=True, limit=2).to_arrow().num_rows == 2
    batches = list(keyed.read(since=0, changes=True).batches())
    assert {name for batch in batches for name in batch.schema.names} == {"id", "v", "_change"}


def test_partitions_apply_to_an_incremental_read(odps: Connection, new_name: NewName) -> None:
    name = new_name("since_parted")
    odps.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id))"
        " PARTITIONED BY (ds STRING) TBLPROPERTIES ('acid.cdc.mode.enable'='true')"
    )
    table = odps.table(name)
    table.upsert(pa.table({"id": [1, 2], "v": ["a", "b"], "ds": ["x", "y"]}))
    table.delete([1], partition="ds=x")
    scan = table.read(since=0, changes=True)
    assert scan.to_arrow().column_names == ["id", "v", "ds", "_change"]
    assert rows(table.read(since=0, changes=True, partitions="ds=x")) == [
        (1, "a", "x", "insert"),
        (1, "a", "x", "delete"),
    ]
    assert rows(table.read(["ds", "id"], since=0)) == [("y", 2)]


def wait_for_next_millisecond() -> datetime.datetime:
    """Wait until a millisecond has passed; return it in UTC, the time zone of the project."""
    moment = time.time_ns() // 1_000_000 + 1
    while time.time_ns() // 1_000_000 <= moment:
        pass
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=moment)


@pytest.mark.parametrize("kind", ["keyed", "plain"])
def test_versions_can_be_selected_by_time(request: pytest.FixtureRequest, kind: str) -> None:
    table: Table = request.getfixturevalue(kind)
    first = wait_for_next_millisecond()
    table.write(pa.table({"id": [7], "v": ["x"]}))
    second = wait_for_next_millisecond()
    table.write(pa.table({"id": [8], "v": ["y"]}))
    assert rows(table.read(since=first)) == [(7, "x"), (8, "y")]
    assert rows(table.read(since=str(second))) == [(8, "y")]
    assert rows(table.read(since=first, until=second)) == [(7, "x")]
    assert rows(table.read(since=pd.Timestamp(second))) == [(8, "y")]


def test_a_table_without_a_key_returns_added_rows(plain: Table) -> None:
    assert rows(plain.read(since=1)) == [(1, "1"), (2, "2")]
    assert rows(plain.read(["v"], since=1, until=2)) == [("1",)]
    assert plain.read(since=3).row_count == 0
    plain.write(pa.table({"id": [9], "v": ["9"]}), overwrite=True)
    with pytest.raises(ConflictError, match="replaced rows"):
        rows(plain.read(since=3))
    with pytest.raises(ArgumentError, match="needs a table with a primary key"):
        plain.read(since=1, changes=True)


@pytest.mark.gate(2)
@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        ({"since": -1}, "versions start at 0"),
        ({"since": True}, "must be a version number or a time"),
        ({"since": "yesterday"}, "must be a version number or a time"),
        ({"since": 3, "until": 2}, "is before since"),
        ({"since": "2024-01-02", "until": datetime.date(2024, 1, 1)}, "is before since"),
        ({"since": datetime.datetime.now(datetime.UTC)}, "has a time zone"),
        ({"since": "9999-01-01"}, "in the future"),
    ],
)
def test_invalid_bounds_are_refused(keyed: Table, bounds: dict[str, Any], reason: str) -> None:
    with pytest.raises(ArgumentError, match=reason):
        keyed.read(**bounds)


def test_a_column_named_like_the_change_column_is_refused() -> None:
    with pytest.raises(ArgumentError, match="'_change'"):
        plan_increment(0, None, changes=True, keyed=True, names=["id", "_CHANGE"])


def test_an_incremental_read_sends_the_expected_options() -> None:
    """The C++ client sends -1 for unused bounds, modes append and cdc, and splits by bucket."""
    moment = datetime.datetime(2024, 1, 31, 12, 0, 0, 5000)
    plan = plan_increment(moment, 7, changes=True, keyed=True, names=["id"])
    assert plan.request()["incremental_options"] == {
        "EnableIncrementalRead": True,
        "StartVersion": -1,
        "EndVersion": 7,
        "StartTimeStamp": "2024-01-31 12:00:00.005",
        "EndTimeStamp": "-1",
        "Mode": "cdc",
    }
    assert plan.split_mode is SplitMode.BUCKET
    early = plan_increment("0999-01-01", "1001-01-01", changes=True, keyed=True, names=[])
    assert early.start == "0999-01-01 00:00:00.000"
    appended = plan_increment(1, None, changes=False, keyed=True, names=[]).request()
    sent = appended["incremental_options"]
    assert (sent["Mode"], sent["StartVersion"], sent["EndVersion"]) == ("append", 1, -1)
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_an_unknown_operation_raises_an_error() -> None:
    batch = pa.record_batch({"id": [1, 2], "__meta_op_type": pa.array([2, 64], pa.int8())})
    with pytest.raises(FramingError, match="unknown operation code 64"):
        in_words(batch)
    assert in_words(batch.slice(0, 1)).column("_change").to_pylist() == ["insert"]


def test_a_start_after_the_latest_version_is_refused(keyed: Table) -> None:
    assert rows(keyed.read(since=5)) == []
    with pytest.raises(ArgumentError, match="since is 6, but the latest version") as caught:
        keyed.read(since=6).to_arrow()
    assert "dropped and created again" in (caught.value.hint or "")
