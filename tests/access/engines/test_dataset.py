"""`table.dataset()` transfers only the data that a query needs, and supports the pyarrow API."""

from __future__ import annotations

import datetime
import gc
import json
import pickle
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow.compute import field

from odps_nb import Connection
from odps_nb.access.engines.dataset import TableDataset
from odps_nb.errors import ArgumentError, ConversionError, NotFoundError, StateError
from tests.support.compat.recorder import Recorded, Recorder

DAY = "2024-01-02"
README = f"select status, sum(quantity) from orders where ds = '{DAY}' and quantity >= 9 group by 1"


@pytest.fixture
def orders(watched: Connection, recorder: Recorder) -> TableDataset:
    made = watched.table("orders").dataset()
    recorder.take()  # the request for the table's columns
    return made


def sessions(requests: list[Recorded]) -> list[dict[str, Any]]:
    return [json.loads(one.body) for one in requests if one.action == "TableCreateReadSession"]


def moved(requests: list[Recorded]) -> int:
    return sum(len(one.answer) for one in requests if one.action == "TableRead")


def only_session(requests: list[Recorded]) -> tuple[set[str], list[str], str]:
    """Return columns, partitions and predicate of the only session that was opened."""
    (session,) = sessions(requests)
    columns = {*session["RequiredDataColumns"], *session["RequiredPartitionColumns"]}
    return columns, session["RequiredPartitions"], session["FilterPredicate"]


# -- transferred data ------------------------------------------------------------------------------


@pytest.mark.storage_api("its requests")
@pytest.mark.parametrize(
    "run",
    [
        lambda orders: duckdb.sql(README).fetchall(),
        lambda orders: (
            pl.scan_pyarrow_dataset(orders)
            .filter((pl.col("ds") == DAY) & (pl.col("quantity") >= 9))
            .group_by("status")
            .agg(pl.col("quantity").sum())
            .collect()
            .rows()
        ),
    ],
    ids=["duckdb", "polars"],
)
def test_a_query_transfers_only_its_columns_and_partitions(orders, watched, recorder, run):
    """One session reads 1 of 8 partitions, 3 of 22 columns and 1/40 of the bytes."""
    found = run(orders)
    requests = recorder.take()
    assert only_session(requests) == ({"status", "quantity", "ds"}, [f"ds={DAY}"], "quantity >= 9")
    scan = watched.table("orders").read(partitions=f"ds={DAY}", where="quantity >= 9")
    rows = scan.to_arrow(progress=False)
    expected = rows.group_by("status").aggregate([("quantity", "sum")])
    assert sorted(found) == sorted(zip(*expected.to_pydict().values(), strict=True))
    full = 8 * moved(recorder.take())
    assert 0 < moved(requests) < full / 40


@pytest.mark.storage_api("its requests")
def test_a_query_over_a_scan_reads_its_stream_once(watched, recorder):
    """DuckDB requests the stream three times to inspect its columns."""
    scan = watched.table("orders").read(["id", "quantity"], partitions=f"ds={DAY}", splits=1)
    ((count,),) = duckdb.from_arrow(scan).count("*").fetchall()
    assert count == scan.row_count
    requests = recorder.take()
    assert len(sessions(requests)) == 1
    assert [one.action for one in requests].count("TableRead") == 1


@pytest.mark.gate(3)
@pytest.mark.parametrize(
    ("condition", "partitions"),
    [
        (field("ds") > "2024-01-06", ["ds=2024-01-07", "ds=2024-01-08"]),
        (field("ds").isin([DAY, "1999-01-01"]), [f"ds={DAY}"]),
        (pc.starts_with(field("ds"), "2024-01-03"), ["ds=2024-01-03"]),
        ((field("ds") == DAY) | (field("ds") == "2024-01-03"), [f"ds={DAY}", "ds=2024-01-03"]),
        ((field("ds") == DAY) & (field("id") + 1 > 5), [f"ds={DAY}"]),
        (~(field("ds") != DAY) & field("gift"), [f"ds={DAY}"]),
    ],
    ids=str,
)
def test_partitions_are_pruned_by_any_expression_that_arrow_can_evaluate(
    orders, recorder, condition, partitions
):
    assert orders._query(["id"], condition)._opened()  # no rows are read
    assert only_session(recorder.take())[1] == partitions


@pytest.mark.storage_api("its requests")
@pytest.mark.gate(3)
@pytest.mark.parametrize(
    ("condition", "listed"),
    [
        (field("ds") == "b", ["ds='b'"]),
        ((field("hour") == 2) & (field("part") == "x") & (field("ds") == "b"), ["ds='b'"]),
        ((field("ds") == "b") & (field("ds") == "a"), ["ds='a'"]),
        (field("part") == "x", [""]),
        (field("ds").isin(["b", "a"]), ["ds='a'", "ds='b'"]),
        (field("ds").isin(list("abcdefghi")), [""]),
        ((field("ds") == "b") | (field("n") == 1), [""]),
        (field("ds") == "b,hour=2", [""]),
    ],
    ids=str,
)
def test_only_partitions_whose_leading_values_satisfy_the_filter_are_listed(
    watched, recorder, new_name, condition, listed
):
    name = new_name("keyed")
    made = watched.create_table(
        name, "n bigint", partitioned_by="ds string, hour bigint, part string"
    )
    rows = [{"n": 1, "ds": ds, "hour": h, "part": "x"} for ds in "ab" for h in (1, 2)]
    made.write(pa.Table.from_pylist(rows), progress=False)
    recorder.take()
    found = made.dataset().to_table(filter=condition)
    assert found.num_rows == made.read().to_arrow(progress=False).filter(condition).num_rows
    requests = [dict(one.params) for one in recorder.take()]
    lists = [params for params in requests if "partitions" in params]
    assert [params.get("partition", "") for params in lists] == listed


@pytest.mark.gate(5)
@pytest.mark.parametrize(
    ("condition", "predicate"),
    [
        (field("id") > 5, "id > 5"),
        (pc.scalar(5) > field("id"), "id < 5"),
        ((field("id") > 5) & (field("weight") > 0.5), "id > 5"),
        ((field("id") > 5) | (field("weight") > 0.5), ""),
        (~(field("id") > 5), ""),
        (field("status").isin(["paid", "new"]), "status in ('paid', 'new')"),
        (~field("status").isin(["paid", "new"]), ""),  # in Arrow, null is not in the list
        (field("note").is_null(), "note is null"),
        (field("due") >= datetime.date(2024, 1, 1), "due >= '2024-01-01'"),
        (field("created") >= datetime.datetime(2024, 1, 5), "created >= '2024-01-03 22:00:00'"),
        (field("shipped") >= datetime.datetime(2024, 1, 5), ""),
        (field("currency") == "EUR", ""),  # in CHAR, SQL ignores trailing blanks
        (field("address", "city") == "Oslo", ""),
    ],
    ids=str,
)
def test_only_conditions_with_the_same_meaning_in_arrow_and_sql_are_pushed_down(
    orders, recorder, condition, predicate
):
    assert orders._query(["id"], condition & (field("ds") == DAY))._opened()
    assert only_session(recorder.take())[2] == predicate


def test_a_query_that_matches_no_partition_opens_no_session(orders, recorder):
    assert orders.to_table(columns=["id"], filter=field("ds") == "1999-01-01").num_rows == 0
    assert duckdb.sql("select count(*) from orders where ds > '2999'").fetchall() == [(0,)]
    assert sessions(recorder.take()) == []


def test_a_query_that_arrow_refuses_opens_no_session(orders, recorder):
    for columns, condition in (
        (["nope"], None),
        (None, field("nope") > 1),
        (None, field("ds") > 1),
    ):
        with pytest.raises((pa.ArrowInvalid, pa.ArrowNotImplementedError)):
            orders.to_table(columns=columns, filter=condition)
    assert recorder.take() == []


@pytest.mark.storage_api("its requests")
def test_a_query_of_a_table_without_partitions_lists_no_partitions(watched, recorder):
    media = watched.table("media").dataset()
    recorder.take()
    assert media.count_rows(filter=field("declared") == "image/png") > 0
    assert {one.action for one in recorder.take()} == {"TableCreateReadSession", "TableRead"}


# -- as a pyarrow dataset -----------------------------------------------------------------------


@pytest.mark.storage_api("blobs")
def test_the_schema_of_a_dataset_is_that_of_a_read(odps):
    for name in ("orders", "media", "documents"):
        table = odps.table(name)
        assert table.dataset().schema.equals(table.read().arrow_schema)
    assert odps.table("orders").dataset().schema.names[-1] == "ds"


def test_results_equal_those_of_a_pyarrow_dataset_of_the_same_rows(odps):
    scan = odps.table("orders").read(
        ["id", "status", "amount", "created", "tags", "ds"], partitions=f"ds={DAY}"
    )
    ours, theirs = scan.dataset(), ds.dataset(scan.to_arrow(progress=False))
    some = (field("status") == "paid") & (field("amount") > Decimal("100.00"))
    for columns in (None, ["amount", "id"], {"twice": field("id") * 2, "status": field("status")}):
        for condition in (None, some):
            found = ours.to_table(columns=columns, filter=condition)
            assert found.equals(theirs.to_table(columns=columns, filter=condition))
    assert ours.count_rows() == theirs.count_rows()
    assert ours.count_rows(filter=some) == theirs.count_rows(filter=some)
    assert ours.head(7).equals(theirs.head(7))
    assert ours.head(7, columns=["id"], filter=some).equals(
        theirs.head(7, columns=["id"], filter=some)
    )
    assert ours.take([3, 1, 1]).equals(theirs.take([3, 1, 1]))
    assert ours.filter(some).filter(field("id") > 5).count_rows() == theirs.count_rows(
        filter=some & (field("id") > 5)
    )
    assert ours.scanner(columns=[]).count_rows() == theirs.count_rows()
    assert max(batch.num_rows for batch in ours.to_batches(batch_size=1000)) == 1000


def test_counting_rows_reads_no_row(orders, recorder):
    assert orders.count_rows() == 2_048_000
    assert moved(recorder.take()) == 0


def test_head_stops_the_read_after_its_rows(orders, recorder):
    assert orders.head(3, columns=["id"]).num_rows == 3
    assert orders.head(0).num_rows == 0
    assert moved(recorder.take()) < 100_000


def test_closing_the_reader_of_a_query_ends_the_read(odps):
    batches = odps.table("orders").dataset().to_batches(columns=["id", "note"])
    before = set(threading.enumerate())
    next(batches)
    reading = set(threading.enumerate()) - before
    del batches
    gc.collect()
    for thread in reading:
        thread.join(20)
        assert not thread.is_alive()


def test_a_dataset_of_a_scan_keeps_the_options_of_the_read(odps):
    scan = odps.table("orders").read(
        ["ds", "id", "status"], partitions=["ds=2024-01-01", f"ds={DAY}"], where="quantity = 9"
    )
    made = scan.dataset()
    assert made.schema.names == ["ds", "id", "status"]
    expected = scan.to_arrow(progress=False)
    assert made.to_table().equals(expected)
    condition = (field("status") == "paid") & (field("ds") > "2024-01-01")
    assert made.to_table(filter=condition).equals(expected.filter(condition))
    assert made.to_table(filter=field("ds") > DAY).num_rows == 0


def test_the_limit_of_a_scan_applies_before_the_filter_of_a_query(odps):
    scan = odps.table("orders").read(["id", "status", "ds"], partitions=f"ds={DAY}", limit=500)
    rows = scan.to_arrow(progress=False)
    paid = field("status") == "paid"
    assert 0 < scan.dataset().count_rows(filter=paid) == rows.filter(paid).num_rows
    assert scan.dataset().filter(paid).head(2).equals(rows.filter(paid).slice(0, 2))


def test_a_dataset_can_be_written_as_parquet_through_its_reader(odps, tmp_path):
    made = odps.table("orders").read(["id", "amount", "ds"], partitions=f"ds={DAY}").dataset()
    reader = made.scanner(filter=field("amount") > Decimal("200.00")).to_reader()
    ds.write_dataset(reader, tmp_path / "paid", format="parquet")
    written = pq.read_table(tmp_path / "paid")
    assert written.num_rows == made.count_rows(filter=field("amount") > Decimal("200.00")) > 0


def test_several_threads_can_query_a_dataset_concurrently(odps):
    made = odps.table("orders").dataset()
    days = [f"2024-01-0{number}" for number in range(1, 9)]
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda day: made.count_rows(filter=field("ds") == day), days))
    assert sum(counts) == made.count_rows()


REFUSED: list[tuple[str, Callable[[Any], Any]]] = [
    ("fragments", lambda one: one.get_fragments()),
    ("replace_schema", lambda one: one.replace_schema(one.schema)),
    ("sort_by", lambda one: one.sort_by("id")),
    ("join", lambda one: one.join(one, "id")),
    ("join_asof", lambda one: one.join_asof(one, "id", [], 1)),
    ("pickling", pickle.dumps),
]


@pytest.mark.parametrize(("what", "call"), REFUSED)
def test_methods_that_need_files_or_the_whole_table_raise_an_error_with_an_alternative(
    odps, what, call
):
    with pytest.raises(StateError, match=what) as caught:
        call(odps.table("orders").dataset())
    assert caught.value.hint


def test_arrow_functions_that_accept_only_its_own_datasets_raise_an_error(odps):
    made = odps.table("orders").dataset()
    for read in (
        lambda: ds.Scanner.from_dataset(made).to_table(),
        lambda: ds.UnionDataset(made.schema, [made]).count_rows(),
    ):
        with pytest.raises(OSError, match=r"read the rows with dataset\.scanner\(\)"):
            read()


def test_a_scan_that_cannot_be_repeated_has_no_dataset(odps, new_name):
    orders = odps.table("orders")
    opened = orders.read(["id"], partitions=f"ds={DAY}")
    with pytest.raises(ArgumentError, match="opens a new session for each query"):
        orders.read(["id"], session_id=opened.session_id).dataset()
    keyed = odps.create_table(new_name("keyed"), "id bigint", primary_key="id")
    keyed.upsert(pa.table({"id": [1]}))
    with pytest.raises(ArgumentError, match="not its changes"):
        keyed.read(since=0).dataset()
    assert keyed.dataset().count_rows() == 1


def test_a_missing_table_raises_an_error_immediately(odps):
    with pytest.raises(NotFoundError, match="no_such_table"):
        odps.table("no_such_table").dataset()


@pytest.mark.storage_api("far times")
def test_times_outside_the_nanosecond_range_raise_an_error_that_names_the_option(odps, new_name):
    table = odps.create_table(new_name("far"), "at timestamp")
    far = datetime.datetime(9999, 12, 31)
    table.write(pa.table({"at": pa.array([far], pa.timestamp("us"))}), progress=False)
    with warnings.catch_warnings(), duckdb.connect() as database:
        warnings.simplefilter("error")  # no warning about a read in microseconds
        with pytest.raises(ConversionError) as caught:
            list(table.dataset().to_batches())
        assert "timestamp_unit='us'" in caught.value.hint
        database.register("made", table.dataset())
        with pytest.raises(duckdb.Error, match="timestamp_unit='us'"):
            database.sql("select * from made").fetchall()
    assert table.read(timestamp_unit="us").dataset().to_table().to_pylist() == [{"at": far}]


def test_times_in_a_zone_are_compared_as_instants(in_shanghai):
    table = in_shanghai.table("orders")
    scan = table.read(["id", "created", "ds"], partitions=f"ds={DAY}")
    rows, made = scan.to_arrow(progress=False), scan.dataset()
    noon = datetime.datetime(2024, 1, 2, 4, tzinfo=datetime.UTC)
    literal = pa.scalar(noon, pa.timestamp("ms", "Asia/Shanghai"))
    found = made.to_table(filter=field("created") >= literal)
    assert 0 < found.num_rows < rows.num_rows
    assert found.equals(rows.filter(field("created") >= literal))


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_duckdb_compares_times_in_a_zone(in_shanghai, unit):
    scan = in_shanghai.table("orders").read(partitions=f"ds={DAY}", timestamp_unit=unit)
    rows, made = scan.to_arrow(progress=False), scan.dataset()
    for column in ("created", "shipped"):
        text = "select count(*) from {} where {} >= timestamptz '2024-01-02 12:00:00+08:00'"
        ((found,),) = duckdb.sql(text.format("made", column)).fetchall()
        ((expected,),) = duckdb.sql(text.format("rows", column)).fetchall()
        assert 0 < found == expected < len(rows) == made.count_rows()


def test_a_head_of_zero_rows_reads_nothing(watched: Connection, recorder: Recorder) -> None:
    rows = watched.table("orders").dataset()
    recorder.take()
    assert rows.head(0, columns=["id"]).schema.names == ["id"]
    assert recorder.take() == []
