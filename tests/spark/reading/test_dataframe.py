"""`odps_nb.spark.read`: the same rows as in Arrow, read by tasks and not by the driver."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import odps_nb.spark
from odps_nb import ClientOptions
from odps_nb.client.read.session import plan_ranges
from odps_nb.errors import (
    ArgumentError,
    NotFoundError,
    SessionExpiredError,
)
from odps_nb.spark.reading import dataframe as frames
from odps_nb.spark.reading.plan import TASK_ROWS
from odps_nb.spark.reading.task import SplitList
from odps_nb.spark.tasks.errors import from_spark
from odps_nb.spark.versions import to_arrow
from odps_nb.terms import IndexSplit, RowRangeSplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.client.auth.profile import Profile

DAY = "ds=2024-01-03"


def plain(table: pa.Table) -> dict[str, list[Any]]:
    """Return columns as Python values, with times in whole microseconds, the unit of Spark."""
    columns = {}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        if pa.types.is_timestamp(column.type):
            per_second = {"ms": 10**3, "us": 10**6, "ns": 10**9}[column.type.unit]
            counts = column.cast(pa.int64()).to_pylist()
            columns[name] = [None if n is None else n * 10**6 // per_second for n in counts]
        elif pa.types.is_floating(column.type):
            columns[name] = [str(value) for value in column.to_pylist()]  # NaN does not equal NaN
        else:
            columns[name] = column.to_pylist()
    return columns


@pytest.mark.spark
def test_a_view_is_read_by_a_query(
    spark: SparkSession, odps: Connection, new_name: Callable[[str], str]
) -> None:
    name = new_name("view")
    odps.sql(f"create view {name} as select id from orders where id = 1000001")
    for read in (
        odps_nb.spark.read(spark, odps, name),
        odps_nb.spark.sql(spark, odps, f"select * from {name}"),
        odps.sql(f"select * from {name}").to_spark(spark),
    ):
        assert [row.id for row in read.collect()] == [1000001]
    assert odps_nb.spark.read(spark, odps, name).where("id > 1000001").count() == 0
    odps.sql(f"drop view {name}")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("table", "zone"),
    [
        ("types_all", "Asia/Shanghai"),
        pytest.param("documents", "America/New_York", marks=pytest.mark.storage_api("blobs")),
        pytest.param("media", "America/New_York", marks=pytest.mark.storage_api("blobs")),
        pytest.param("types_all", "America/New_York", marks=pytest.mark.nightly),
    ],
)
def test_values_equal_those_in_arrow_in_any_session_zone(
    spark: SparkSession, odps: Connection, table: str, zone: str
) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    frame = odps_nb.spark.read(spark, odps, table)
    assert plain(to_arrow(frame)) == plain(odps.table(table).read().to_arrow())


@pytest.mark.spark
def test_a_session_zone_affects_instants_but_not_timestamp_ntz(
    spark: SparkSession, odps: Connection
) -> None:
    frame = odps_nb.spark.read(spark, odps, "types_all", where="row_name = 'usual'")
    shown = {}
    for zone in ("UTC", "Asia/Shanghai"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        # The zone is bound when the expression is created, not when it runs.
        texts = frame.selectExpr("cast(c_datetime as string)", "cast(c_timestamp_ntz as string)")
        shown[zone] = tuple(texts.collect()[0])
    assert shown["UTC"] == ("2024-02-29 12:30:45.123", "2024-02-29 12:30:45.123456")
    assert shown["Asia/Shanghai"] == ("2024-02-29 20:30:45.123", "2024-02-29 12:30:45.123456")


@pytest.mark.spark
def test_two_splits_are_read_by_two_tasks_and_nothing_by_the_driver(
    spark: SparkSession, odps: Connection, connections: Callable[[], list[Any]]
) -> None:
    service = urlsplit(odps.profile.tunnel_endpoint or "").port

    def with_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            rows = batch.num_rows
            yield pa.RecordBatch.from_pydict(
                {"rows": [rows], "task": [context.taskAttemptId()], "pid": [os.getpid()]}
            )

    frame = odps_nb.spark.read(spark, odps, "orders", partitions=DAY, columns=["id"], splits=2)
    assert any(address[1] == service for address in connections())  # the driver opened the session
    tagged = frame.mapInArrow(with_task, "rows bigint, task bigint, pid bigint").collect()
    assert not [address for address in connections() if address[1] == service]
    assert len({row.task for row in tagged}) == 2
    import os

    assert os.getpid() not in {row.pid for row in tagged}
    assert sum(row.rows for row in tagged) == odps.table("orders").read(partitions=DAY).row_count


@pytest.mark.spark
def test_columns_are_returned_in_the_requested_order(spark: SparkSession, odps: Connection) -> None:
    frame = odps_nb.spark.read(
        spark, odps, "orders", columns=["ds", "amount", "id"], partitions=[DAY], limit=5
    )
    assert frame.columns == ["ds", "amount", "id"]
    expected = odps.table("orders").read(columns=["ds", "amount", "id"], partitions=[DAY], limit=5)
    assert [tuple(row) for row in frame.collect()] == [
        (row["ds"], row["amount"], row["id"]) for row in expected.to_arrow().to_pylist()
    ]


@pytest.mark.spark
@pytest.mark.parametrize(
    "limit", [0, 1000, *(pytest.param(n, marks=pytest.mark.nightly) for n in (1, 10**6))]
)
def test_a_limit_is_exact(spark: SparkSession, odps: Connection, limit: int) -> None:
    frame = odps_nb.spark.read(
        spark, odps, "orders", partitions=DAY, columns=["id"], limit=limit, splits=3
    )
    assert frame.filter("true").count() == min(
        limit, odps.table("orders").read(partitions=DAY).row_count or 0
    )


@pytest.mark.spark
def test_a_filter_and_a_limit_together_are_exact(spark: SparkSession, odps: Connection) -> None:
    frame = odps_nb.spark.read(
        spark, odps, "orders", partitions=DAY, columns=["id"], where="quantity > 2", limit=77
    )
    assert frame.count() == 77


@pytest.mark.spark
@pytest.mark.parametrize("asked", [{}, {"splits": 3}])
def test_a_filter_is_exact_even_if_the_service_skips_no_rows(
    spark: SparkSession, odps: Connection, asked: dict[str, int]
) -> None:
    table = odps.table("orders")
    everything = table.read(["id", "quantity", "status"], partitions=DAY).to_arrow()
    frame = odps_nb.spark.read(
        spark,
        odps,
        "orders",
        partitions=[DAY],
        columns=["id"],
        where="quantity > :least and status = 'paid'",
        params={"least": 2},
        **asked,
    )
    assert frame.columns == ["id"]
    kept = everything.filter((pc.field("quantity") > 2) & (pc.field("status") == "paid"))
    found = sorted(to_arrow(frame)["id"].to_pylist())
    assert found == sorted(kept["id"].to_pylist()) != []


@pytest.mark.spark
def test_filters_of_different_queries_of_one_dataframe_are_independent(
    spark: SparkSession, odps: Connection
) -> None:
    frame = odps_nb.spark.read(spark, odps, "types_all", columns=["row_name"])
    total = frame.filter("true").count()
    one, other = frame.filter("row_name = 'least'"), frame.filter("row_name = 'most'")
    assert (one.count(), frame.filter("true").count()) == (1, total)
    assert sorted(row[0] for row in one.union(other).collect()) == ["least", "most"]


@pytest.mark.spark
def test_a_partition_without_rows_returns_no_rows(spark: SparkSession, odps: Connection) -> None:
    frame = odps_nb.spark.read(spark, odps, "orders", partitions=DAY, where="id < 0")
    assert frame.count() == 0
    assert frame.columns == odps_nb.spark.read(spark, odps, "orders", partitions=DAY).columns
    assert odps_nb.spark.read(spark, odps, "types_all", limit=0).collect() == []


@pytest.mark.spark
def test_a_dataframe_of_a_scan_reads_the_snapshot_of_the_scan(
    spark: SparkSession, odps: Connection
) -> None:
    scan = odps.table("types_all").read(columns=["row_name", "c_int"])
    assert plain(to_arrow(scan.to_spark(spark))) == plain(scan.to_arrow())


@pytest.mark.storage_api("blobs")
@pytest.mark.nightly
@pytest.mark.spark
def test_a_table_with_blobs_is_split_by_rows_if_they_are_read(
    spark: SparkSession, odps: Connection, new_name: Callable[[str], str]
) -> None:
    table = odps.create_table(new_name("many_blobs"), "id bigint, content blob")
    table.write(pa.table({"id": range(600), "content": [b"%d" % n for n in range(600)]}))
    name = table.name.table
    cut = [
        odps_nb.spark.read(spark, odps, name),
        odps_nb.spark.read(spark, odps, name, columns=["content", "id"], where="id >= 0"),
        table.read().to_spark(spark),
        odps_nb.spark.sql(spark, odps, f"select id, content from {name} where id < 900"),
    ]
    assert [frame.rdd.getNumPartitions() for frame in cut] == [3, 3, 3, 3]
    for frame in cut:
        assert sorted(row.id for row in frame.select("id").collect()) == list(range(600))
    whole = [
        odps_nb.spark.read(spark, odps, name, columns=["id"]),
        odps_nb.spark.read(spark, odps, name, where="id >= 0", columns=["id"]),
        odps_nb.spark.read(spark, odps, name, split_bytes=2**30),
    ]
    assert [frame.rdd.getNumPartitions() for frame in whole] == [1, 1, 1]
    assert odps_nb.spark.read(spark, odps, name, splits=2).rdd.getNumPartitions() == 2


@pytest.mark.spark
@pytest.mark.storage_api("its requests")
def test_the_number_of_tasks_depends_on_cores_and_a_minimum_of_rows(
    spark: SparkSession, odps: Connection, new_name: Callable[[str], str]
) -> None:
    """The session has two cores."""
    made = odps.create_table(new_name("many"), "id bigint", partitioned_by="p string")
    rows = TASK_ROWS * 5 // 2
    parts = [f"p{number % 8}" for number in range(rows)]
    made.write(pa.table({"id": range(rows), "p": parts}), progress=False)
    options = ClientOptions(transfer="tunnel")
    by_tunnel = dataclasses.replace(odps.profile, client_options=options)
    odps_nb.spark.register(spark, odps)

    def tasks(profile: Profile = odps.profile, **asked: Any) -> int:
        frame = odps_nb.spark.read(spark, profile, made.name, **asked)
        return frame.rdd.getNumPartitions()

    assert tasks() == tasks(limit=2 * TASK_ROWS) == 2
    assert made.read().to_spark(spark).rdd.getNumPartitions() == 2
    assert spark.read.format("odps").load(str(made.name)).rdd.getNumPartitions() == 2
    assert tasks(limit=10) == tasks(limit=2 * TASK_ROWS - 1) == tasks(partitions="p=p1") == 1
    assert tasks(splits=1) == tasks(split_bytes=2**40) == 1
    assert tasks(splits=5, partitions="p=p1") == 5
    assert tasks(by_tunnel, limit=TASK_ROWS) == 2  # rows of eight partitions need eight requests
    assert tasks(by_tunnel, partitions=["p=p1", "p=p2"]) == 1
    assert odps_nb.spark.read(spark, odps, made.name).distinct().count() == rows


@pytest.mark.spark
def test_a_missing_table_or_column_fails_immediately_without_java_frames(
    spark: SparkSession, odps: Connection
) -> None:
    with pytest.raises(NotFoundError) as caught:
        odps_nb.spark.read(spark, odps, "order")
    assert caught.value.hint == "did you mean orders?"
    with pytest.raises(NotFoundError, match="amont") as caught:
        odps_nb.spark.read(spark, odps, "orders", columns=["id", "amont"])
    assert "did you mean 'amount'" in str(caught.value.hint)
    assert "java" not in str(caught.value).lower()
    with pytest.raises(ArgumentError, match="day"):
        odps_nb.spark.read(spark, odps, "orders", partitions="day=1")
    with pytest.raises(ArgumentError, match="columns is empty"):
        odps_nb.spark.read(spark, odps, "orders", columns=[])
    with pytest.raises(ArgumentError, match="limit"):
        odps_nb.spark.read(spark, odps, "orders", limit=-1)


@pytest.mark.storage_api("its requests")
@pytest.mark.spark
def test_an_expired_session_raises_an_error_and_is_never_reopened(
    spark: SparkSession, odps: Connection
) -> None:
    scan = odps.table("types_all").read()
    gone = dataclasses.replace(scan._opened(), session_id="gone")
    frame = frames.session_dataframe(spark, odps._storage, gone, scan._plan)
    with pytest.raises(Exception, match="read the table again") as caught:
        frame.count()
    error = from_spark(caught.value)
    assert isinstance(error, SessionExpiredError)
    assert "types_all" in " ".join(error.notes)
    assert "java" not in str(caught.value).lower()


@given(st.integers(1, 10**7), st.integers(1, 300))
def test_splits_of_equal_size_are_pickled_as_their_count_and_size(rows: int, count: int) -> None:
    splits = plan_ranges(rows, count)
    kept = SplitList.of(splits)
    assert not kept.others
    assert [kept[number] for number in range(len(kept))] == list(splits)


@given(
    st.lists(st.builds(RowRangeSplit, st.integers(0, 99), st.integers(1, 99)), max_size=5)
    | st.lists(st.builds(IndexSplit, st.integers(0, 9)), max_size=5)
)
def test_splits_of_different_sizes_are_pickled_as_a_list(splits: list[Any]) -> None:
    kept = SplitList.of(splits)
    assert [kept[number] for number in range(len(kept))] == splits


def test_a_hundred_thousand_splits_take_few_bytes_in_a_task(profile: Profile) -> None:
    import pickle

    splits = plan_ranges(10**9, 100_000)
    assert len(pickle.dumps(SplitList.of(splits))) < 200
