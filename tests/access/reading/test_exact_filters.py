"""`where=` returns exact rows in every front end, although the service only skips blocks.

Random conditions over a table of several blocks are compared with DuckDB. Other tests cover limits,
maximum bytes, columns that only the condition needs, broken connections, and splits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from odps_nb.access.connection import Connection
from odps_nb.access.paging.browsing import rows_of
from odps_nb.access.reading.planning import ReadOptions
from odps_nb.access.table import Table
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.read.splits import iter_batches
from odps_nb.errors import ArgumentError, LimitExceededError
from odps_nb.spark.reading.plan import open_session, plan_of
from odps_nb.terms import IndexSplit, RowRangeSplit
from tests.support.conditions import SCHEMA, Conditions, table
from tests.support.service.services import by_storage_api, by_tunnel
from tests.support.watcher import Watcher

# More than three blocks on the service. The tunnel transfers times in nanoseconds only.
ROWS = table(32_000, seed=7, near=by_tunnel())
COLUMNS = SCHEMA.replace(", ds string", "")


@pytest.fixture(scope="module")
def loaded(odps: Connection) -> Iterator[Table]:
    made = odps.create_table("exact_filters", f"{COLUMNS}, row bigint", partitioned_by="ds string")
    rows = ROWS.append_column("row", pa.array(range(ROWS.num_rows)))
    first = rows.slice(0, 30_000).drop_columns(["ds"])
    made.write(first, partition="ds=20240101")
    made.write(rows.slice(30_000).drop_columns(["ds"]), partition="ds=20240102")
    yield made
    odps.drop_table(made.name)


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    days = ["20240101"] * 30_000 + ["20240102"] * 2_000
    rows = ROWS.drop_columns(["ds"]).append_column("ds", pa.array(days))
    rows = rows.append_column("row", pa.array(range(rows.num_rows)))
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        connection.execute("create table given as select * from rows")
        yield connection


@pytest.mark.gate(10)
@pytest.mark.parametrize("seed", range(40))
def test_random_conditions_return_the_rows_that_duckdb_returns(loaded, duck, seed):
    made = Conditions(seed).condition()
    expected = duck.execute(f"select row from given where {made.duck} order by row").fetchall()
    found = loaded.read(["row"], where=made.ours, timestamp_unit="us").to_arrow()
    assert found.schema.names == ["row"]
    assert sorted(found["row"].to_pylist()) == [row for (row,) in expected], made.ours


def test_the_service_skips_only_whole_blocks_of_rows(loaded, odps):
    """The other tests of this file need a service that sends more rows than `where=` returns."""
    watcher = Watcher()
    found = loaded.read(["row"], where="row = 5", progress=watcher).to_arrow()
    assert found["row"].to_pylist() == [5]
    assert watcher.last.rows == 1
    assert watcher.last.decoded_bytes > 8 * 1000


@pytest.mark.parametrize("limit", [0, 1, 7, 1000, 10**6])
def test_limits_count_rows_that_satisfy_the_condition(loaded, limit):
    found = loaded.read(["row"], where="row % 3 = 1 and row >= 9000", limit=limit).to_arrow()
    expected = [row for row in range(9000, 32_000) if row % 3 == 1][:limit]
    assert found["row"].to_pylist() == expected
    assert len(loaded.read(["row"], where="row % 3 = 1", limit=limit).to_pandas()) == min(
        limit, 10_667
    )


def test_max_bytes_counts_only_matching_rows(loaded):
    scan = loaded.read(["row"], where="row >= 31900", max_bytes=2000)
    assert scan.to_arrow().num_rows == 100
    with pytest.raises(LimitExceededError):
        loaded.read(["row"], where="row >= 10", max_bytes=2000).to_arrow()


@pytest.mark.parametrize("asked", [{}, {"splits": 5}, {"split_bytes": 100_000}])
def test_splits_of_any_kind_return_the_same_rows(loaded, asked):
    scan = loaded.read(["row", "ds"], where="row in (0, 9999, 10000, 31999)", **asked)
    # The tunnel splits by row ranges only.
    kind = RowRangeSplit if asked or by_tunnel() else IndexSplit
    assert {type(split) for split in scan.splits} == {kind}
    assert scan.row_count is None
    assert scan.to_arrow().to_pydict() == {
        "row": [0, 9999, 10000, 31999],
        "ds": ["20240101"] * 3 + ["20240102"],
    }


def test_partitions_and_conditions_are_combined(loaded):
    found = loaded.read(["row"], where="ds = '20240102' and row < 30002").to_arrow()
    assert found["row"].to_pylist() == [30_000, 30_001]
    found = loaded.read(["row"], where="row > 29998", partitions="ds=20240101").to_arrow()
    assert found["row"].to_pylist() == [29_999]


def test_bound_values_are_never_inserted_as_text(loaded):
    nasty = "a' or 1 = 1 --"
    assert loaded.read(["row"], where="s = :s", params={"s": nasty}).to_arrow().num_rows == 0
    found = loaded.read(["row"], where="row in (:rows)", params={"rows": [1, 2]}).to_arrow()
    assert found["row"].to_pylist() == [1, 2]
    with pytest.raises(ArgumentError, match="params has no 'row'") as caught:
        loaded.read(where="row = :row", params={"rows": 1})
    assert caught.value.hint == "did you mean :rows?"
    with pytest.raises(ArgumentError, match=":row has no value"):
        loaded.read(where="row = :row")


def test_values_are_bound_in_queries(odps, loaded):
    query = f"select row from {loaded.name.table} where row in (:rows) and s <> :s order by row"
    found = odps.sql(query, params={"rows": [3, 4, 5], "s": "it's"}).to_arrow()
    assert set(found["row"].to_pylist()) <= {3, 4, 5}
    with pytest.raises(ArgumentError, match="params has no 'rows'"):
        odps.sql(query, params={})


def test_a_read_without_matching_rows_keeps_the_types(loaded):
    scan = loaded.read(["d", "row"], where="row < 0")
    assert scan.to_arrow().schema == scan.arrow_schema
    assert list(scan.to_pandas().columns) == ["d", "row"]
    assert list(scan.batches()) == []


@pytest.mark.parametrize(("scale", "sends"), [(18, True), (20, False)])
def test_a_table_with_a_large_decimal_scale_is_filtered_only_by_the_client(
    watched, recorder, new_name, scale, sends
):
    """Evidence 158: reads, pages and Spark send no predicate, and the rows are correct."""
    name = new_name()
    made = watched.create_table(name, f"id bigint, m decimal(38,{scale})")
    made.write(pa.table({"id": range(30_000), "m": [Decimal("1.5")] * 30_000}))
    wanted, condition = [5, 29_999], "id in (5, 29999)"
    recorder.take()
    assert made.read(where=condition).to_arrow()["id"].to_pylist() == wanted
    assert made.read(["id"], where=condition).to_arrow()["id"].to_pylist() == wanted
    rows = rows_of(made.read(["id"]))
    assert [i for _, one in rows.found(condition) for i in one["id"].to_pylist()] == wanted
    with StorageClient(watched.profile) as storage:
        options = ReadOptions(columns=["id"], where=condition)
        session = open_session(storage, plan_of(storage, made.name, options), cores=1)
        found = [i for one in iter_batches(storage, session) for i in one["id"].to_pylist()]
    assert found == wanted
    if not by_storage_api():
        return  # the requests below are those of the Storage API
    asked = [
        json.loads(one.body) for one in recorder.take() if one.action == "TableCreateReadSession"
    ]
    sent = [one["FilterPredicate"] for one in asked if one["FilterPredicateFallback"]]
    assert sent == ["id in (5, 29999)" if sends else ""] * 4
