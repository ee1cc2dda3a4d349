"""A query reads the rows of views and JSON columns, because no transfer service can."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.access.connection import Connection
from odps_nb.access.table import Table
from odps_nb.errors import ArgumentError, NotFoundError, OdpsNbError
from tests.support.named import NewName
from tests.support.watcher import Watcher

pytestmark = pytest.mark.every_service(in_turn=True)

ROWS = pa.table(
    {
        "id": pa.array(range(1000), pa.int64()),
        "text": [None if n % 7 == 0 else f"t{n}" for n in range(1000)],
        "amount": pa.array([n / 4 for n in range(1000)], pa.float64()),
        "ds": ["a" if n < 600 else "b" for n in range(1000)],
    }
)


@pytest.fixture(scope="module")
def plain(odps: Connection) -> Iterator[Table]:
    """The table that the view selects from."""
    columns = "id bigint, text string, amount double"
    made = odps.create_table("below_a_view", columns, partitioned_by="ds string")
    for ds in ("a", "b"):
        of_day = ROWS.filter(pa.compute.equal(ROWS["ds"], ds)).drop_columns(["ds"])
        made.write(of_day, partition=f"ds={ds}")
    yield made
    odps.drop_table(made.name)


@pytest.fixture(scope="module")
def view(odps: Connection, plain: Table) -> Iterator[Table]:
    odps.sql(f"create view a_view as select id, text, amount, ds from {plain.name}").to_arrow()
    yield odps.table("a_view")
    odps.sql("drop view a_view").to_arrow()


def rows(scan: Any) -> list[dict[str, Any]]:
    return sorted(pa.table(scan).to_pylist(), key=lambda row: row["id"])


READS: dict[str, dict[str, Any]] = {
    "everything": {},
    "columns": {"columns": ["amount", "id"]},
    "where": {"where": "text is null and id > 500"},
    "where on a column that is not selected": {"columns": ["id"], "where": "amount < 10.25"},
    "params": {"where": "text in (:one, :other)", "params": {"one": "t1", "other": "t2"}},
    "no rows": {"where": "id < 0"},
    "splits": {"splits": 4},
    "us": {"timestamp_unit": "us"},
}


@pytest.mark.storage_api("versions")
@pytest.mark.parametrize("bounds", [{"since": 0}, {"since": "2024-01-01"}, {"until": 3}], ids=str)
def test_a_view_has_no_changes(view: Table, bounds: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="a_view is a view, whose changes") as caught:
        view.read(**bounds).to_arrow()
    assert "read all rows" in (caught.value.hint or "")


@pytest.mark.parametrize("options", READS.values(), ids=READS)
@pytest.mark.gate(3)
def test_a_view_has_the_rows_of_the_same_read_of_its_table(
    view: Table, plain: Table, options: dict[str, Any]
) -> None:
    found, expected = view.read(**options), plain.read(**options)
    assert rows(found) == rows(expected)
    types = {field.name: field.type for field in expected.arrow_schema}
    assert {field.name: field.type for field in found.arrow_schema} == types


def test_all_forms_of_a_read_return_the_rows_of_a_view(view: Table) -> None:
    scan = view.read(where="id >= 990")
    expected = ROWS.slice(990).to_pylist()
    assert rows(scan.to_arrow()) == expected
    frame = scan.to_pandas().sort_values("id")
    assert frame["id"].tolist() == list(range(990, 1000))
    assert rows(pa.Table.from_batches(list(scan.batches()))) == expected
    assert rows(scan.reader().read_all()) == expected
    assert rows(scan.dataset().to_table()) == expected
    assert sorted(scan.to_polars()["id"].to_list()) == list(range(990, 1000))


def test_a_read_of_a_view_accepts_a_limit(view: Table) -> None:
    assert view.read(limit=17).to_arrow().num_rows == 17
    limited = view.read(["id"], where="id >= 100", limit=5).to_arrow()
    assert limited.num_rows == 5
    assert min(limited["id"].to_pylist()) >= 100
    head = view.head(3, columns=["id", "text"])
    assert (len(head), list(head.columns)) == (3, ["id", "text"])
    assert view.head(0).empty
    again = view.read(["id"], session_id=view.read(["id"]).session_id, limit=5)
    assert [split.count for split in again.splits] == [5]


def test_the_query_selects_only_what_a_read_needs(
    view: Table, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "odps_nb")
    view.read(["id"], where="amount < 10.25").to_arrow()
    assert re.search(r"select `?id`?, `?amount`? from .* where .*amount`? < 10.25", caplog.text)
    view.read(["id"], limit=17).to_arrow()
    assert re.search(r"select `?id`? from \S+ limit 17;", caplog.text)


def test_repeated_reads_of_a_view_return_one_snapshot(view: Table, plain: Table) -> None:
    scan = view.read(["id"])
    before = scan.to_arrow().num_rows
    session = scan.session_id
    plain.write(pd.DataFrame({"id": [5000]}), partition="ds=later")
    try:
        assert scan.to_arrow().num_rows == before
        assert view.read(["id"], session_id=session).to_arrow().num_rows == before
        assert view.read(["id"]).to_arrow().num_rows == before + 1
        assert pickle.loads(pickle.dumps(scan)).to_arrow().num_rows == before
        for other in ({}, {"columns": ["text"]}, {"columns": ["id"], "where": "amount < 1"}):
            with pytest.raises(ArgumentError, match="the session has no column") as caught:
                view.read(session_id=session, **other).to_arrow()
            assert "its columns are: id" in str(caught.value.hint)
    finally:
        plain.drop_partition("ds=later")


def test_the_progress_reports_that_a_query_reads_the_rows_of_a_view(view: Table) -> None:
    watcher = Watcher()
    view.read(["id"], limit=3).to_arrow(progress=watcher)
    notes = [event for event in watcher.last.events if "is a view" in event]
    assert len(notes) == 1
    assert "so its rows are read by a query, which reads " in notes[0]


def test_a_view_has_no_partitions(view: Table) -> None:
    with pytest.raises(OdpsNbError):
        view.read(partitions="ds=a").to_arrow()


def test_invalid_arguments_are_refused_as_for_a_table(view: Table, odps: Connection) -> None:
    with pytest.raises(NotFoundError, match="has no column 'nope'"):
        view.read(["nope"]).to_arrow()
    with pytest.raises(ArgumentError, match="nope"):
        view.read(where="nope = 1").to_arrow()
    with pytest.raises(NotFoundError):
        odps.table("no_such_view").read().to_arrow()


def test_json_columns_are_read_as_text(odps: Connection, new_name: NewName) -> None:
    table = odps.create_table(new_name("json"), "id bigint, j json", partitioned_by="ds string")
    for day in ("a", "b"):
        odps.sql(
            f"insert into {table.name} partition (ds = '{day}') "
            f'select 1, json \'{{"day": "{day}"}}\' union all select 2, cast(null as json)'
        ).to_arrow()
    found = table.read(partitions="ds=b").to_arrow()
    assert found["ds"].to_pylist() == ["b", "b"]
    cells = dict(zip(found["id"].to_pylist(), found["j"].to_pylist(), strict=True))
    assert (cells[1].replace(" ", ""), cells[2]) == ('{"day":"b"}', None)
    assert rows(table.read(["id"], where="ds = 'a'")) == [{"id": 1}, {"id": 2}]
    assert table.read(partitions="ds=a", limit=1).to_arrow().num_rows == 1
    assert len(table.head(4)) == 4
