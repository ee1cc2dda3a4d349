"""Known problems of Spark with tables from other sources, which odps_nb avoids in every version.

Each test is a problem that users have reported (wrong rows without an error, or a driver that ran
out of memory). Most of them apply to both `odps_nb.spark.read` and ``format("odps")``.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import odps_nb.spark
from odps_nb.errors import ConfigError
from odps_nb.spark.reading.statistics import LARGEST, split_rows
from odps_nb.spark.versions import pyspark_version
from tests.support.spark.services import explained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection

Names = Callable[[str], str]
Load = Callable[..., "DataFrame"]
pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _no_views(spark: SparkSession) -> Iterator[None]:
    """Leave no view in the session that other tests use."""
    yield
    for view in spark.catalog.listTables():
        if view.isTemporary:
            spark.catalog.dropTempView(view.name)


@pytest.fixture(params=["read", "format"])
def road(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def load(road: str, spark: SparkSession, odps: Connection) -> Load:
    """Load a table in one of the two ways, with the columns in this order."""
    if road == "format":
        odps_nb.spark.register(spark, odps)

    def by_read(name: str, *columns: str) -> DataFrame:
        return odps_nb.spark.read(spark, odps, name, columns=columns or None)

    def by_format(name: str, *columns: str) -> DataFrame:
        frame = spark.read.format("odps").load(name)
        if not columns:
            return frame
        kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        asked = ", ".join(f"{column} {kinds[column]}" for column in columns)
        return spark.read.format("odps").schema(asked).load(name)

    return by_read if road == "read" else by_format


# -- all ways to use one load() --------------------------------------------------------------------


@pytest.mark.nightly
def test_data_frames_derived_from_the_same_load_return_their_own_rows(
    spark: SparkSession, load: Load, odps: Connection, new_name: Names
) -> None:
    name = new_name("ten")
    odps.create_table(name, "a bigint, b bigint")
    odps_nb.spark.write(spark.range(10).selectExpr("id a", "id * 10 b"), odps, name)
    frame = load(name)
    assert frame.filter("a = 1").count() == 1
    assert frame.filter("true").count() == 10  # not the rows of the previous filter
    one, two = frame.filter("a = 1"), frame.filter("a = 2")
    assert sorted(tuple(row) for row in one.union(two).collect()) == [(1, 10), (2, 20)]
    pairs = one.alias("x").join(two.alias("y")).selectExpr("x.a", "y.a", "x.b", "y.b")
    assert [tuple(row) for row in pairs.collect()] == [(1, 2, 10, 20)]
    assert frame.filter("a > 3").exceptAll(frame.filter("a > 4")).collect()[0].a == 4
    frame.createOrReplaceTempView(f"{name}_view")
    both = spark.sql(
        f"select b from {name}_view where a = 3 union all select a from {name}_view where b = 40"
    )
    assert sorted(row[0] for row in both.collect()) == [4, 30]
    inside = f"select count(*) from {name}_view where a in (select a from {name}_view where b < 30)"
    assert spark.sql(inside).collect()[0][0] == 3
    assert spark.sql(f"select count(*) from {name}_view").collect()[0][0] == 10


def test_sql_views_return_their_own_rows_and_contain_no_key(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    name = new_name("using")
    odps.create_table(name, "a bigint")
    odps_nb.spark.write(spark.range(10).selectExpr("id a"), odps, name)
    odps_nb.spark.register(spark, odps)
    spark.sql(f"create temporary view {name} using odps options (table '{name}')")
    one = f"select a from {name} where a = "
    assert sorted(row.a for row in spark.sql(f"{one} 1 union all {one} 2").collect()) == [1, 2]
    assert spark.sql(f"select count(*) from {name}").collect()[0][0] == 10


def test_a_table_of_the_catalog_is_refused_when_created(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    """Spark does not pass the table's options to its reader (seen in 4.3)."""
    odps_nb.spark.register(spark, odps)
    name = new_name("catalogued")
    with pytest.raises(Exception, match="drops its options"):
        spark.sql(f"create table {name} using odps options (table 'media')")
    assert not spark.catalog.tableExists(name)


# -- batches for Spark ---------------------------------------------------------------------------


@pytest.mark.gate(1)
def test_columns_of_the_same_type_are_not_swapped(
    spark: SparkSession, load: Load, odps: Connection, new_name: Names
) -> None:
    name = new_name("swap")
    odps.create_table(name, "a bigint, b bigint", partitioned_by="p string, q string")
    rows = spark.sql("select 1L a, 2L b, 'p' p, 'q' q")
    odps_nb.spark.write(rows.select("q", "b", "p", "a"), odps, name)
    for columns in (("b", "a"), ("q", "a", "p", "b"), ("p", "q")):
        (row,) = load(name, *columns).collect()
        expected = {"a": 1, "b": 2, "p": "p", "q": "q"}
        assert row.asDict() == {column: expected[column] for column in columns}


@pytest.mark.gate(1)
def test_decimals_keep_all_digits_or_raise_an_error(
    spark: SparkSession, load: Load, road: str, odps: Connection, new_name: Names
) -> None:
    name = new_name("digits")
    odps.create_table(name, "a decimal(18,4), b decimal(38,18), c decimal")
    values = [decimal.Decimal(text) for text in ("1.2345", "-0.000000000000000001", "7.5")]
    table = pa.table(
        {
            "a": pa.array(values[:1], pa.decimal128(18, 4)),
            "b": pa.array(values[1:2], pa.decimal128(38, 18)),
            "c": pa.array(values[2:], pa.decimal128(38, 18)),
        }
    )
    odps.table(name).write(table)
    assert list(load(name).collect()[0]) == values
    if road == "format":
        with pytest.raises(Exception, match=r"a is decimal\(18,4\), not decimal\(18,2\)"):
            spark.read.format("odps").schema("a decimal(18,2)").load(name).collect()
    narrow = new_name("narrow")
    odps.create_table(narrow, "a decimal(18,2)")
    with pytest.raises(Exception, match="decimal"):
        odps_nb.spark.write(load(name).select("a"), odps, narrow)
    assert odps.table(narrow).read().row_count == 0


@pytest.mark.gate(1)
def test_the_first_batch_has_the_schema_that_spark_requires(
    load: Load, odps: Connection, new_name: Names
) -> None:
    """Order, case, units and NOT NULL match, also nested; the protocol's units and names differ."""
    name = new_name("exact")
    odps.create_table(
        name,
        "Id bigint not null, At datetime, Times array<timestamp>, "
        "Pairs map<string,struct<When:datetime,Much:decimal(5,2)>>",
    )
    assert load(name).collect() == []
    table = pa.table({"id": [1], "at": pa.array([0], pa.timestamp("ms"))})
    odps.table(name).write(table)
    (row,) = load(name).collect()
    assert row.asDict()["Id"] == 1
    assert load(name).schema["Id"].nullable is False
    assert load(name, "At", "Id").columns == ["At", "Id"]


# -- sizes --------------------------------------------------------------------------------------


def test_a_large_table_is_not_broadcast_and_a_small_one_is(
    spark: SparkSession, odps: Connection
) -> None:
    """Spark assumes that a Python function returns as much data as its input, the splits."""
    large = odps_nb.spark.read(spark, odps, "orders")
    again = odps_nb.spark.read(spark, odps, "orders", columns=["id"], where="id > 0")
    small = odps_nb.spark.read(spark, odps, "media", columns=["id", "name"])
    assert "BroadcastHashJoin" not in explained(large.join(again, "id"))
    assert "BroadcastHashJoin" in explained(large.join(small, "id"))
    few = odps_nb.spark.read(spark, odps, "orders", columns=["id"], limit=1000)
    texts = odps_nb.spark.read(spark, odps, "orders", columns=["id", "status"], limit=100)
    assert "BroadcastHashJoin" in explained(large.join(few, "id"))
    assert "BroadcastHashJoin" in explained(large.join(texts, "id"))
    assert "sizeInBytes=15.6 KiB" in explained(few, mode="cost")  # 1,000 rows of two cells of 8 B
    from pyspark.sql import functions as F

    assert "BroadcastHashJoin" in explained(large.join(F.broadcast(again), "id"))


def test_the_planned_size_is_exact_without_reading_rows(spark: SparkSession) -> None:
    for count, size in ((1, 1), (3, 10_000_000), (7, LARGEST)):
        frame = split_rows(spark, count, size)
        assert sorted(row[0] for row in frame.collect()) == list(range(count))
        per_partition = frame.selectExpr("spark_partition_id() part", "split").collect()
        assert [row.part for row in per_partition] == [row.split for row in per_partition]
    assert split_rows(spark, 0, 0).collect() == []
    told = explained(split_rows(spark, 7, 400 << 20), mode="cost")
    assert "sizeInBytes=400." in told


def test_rows_are_sent_with_lz4_and_the_error_for_a_null_column_names_the_setting(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    codec, name = "spark.sql.execution.arrow.compression.codec", new_name("packed")
    spark.conf.set(codec, "lz4")  # has no effect before Spark 4.1
    try:
        rows = spark.range(9).selectExpr("id", "'x' s")
        assert odps_nb.spark.write(rows, odps, name, create=True).rows == 9
        assert odps_nb.spark.read(spark, odps, name).filter("id >= 0").count() == 9
        if pyspark_version() >= (4, 1):
            with pytest.raises(ConfigError, match="lz4") as caught:
                odps_nb.spark.write(rows.selectExpr("id", "cast(null as string) s"), odps, name)
            assert caught.value.option == codec
    finally:
        spark.conf.unset(codec)
