"""A new table from a Spark DataFrame, by function and by ``format("odps")``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

import odps_nb.spark
from odps_nb.errors import ArgumentError, ConversionError
from odps_nb.spark.tasks.types import spark_schema
from odps_nb.spark.writing.checks import table_columns
from odps_nb.wire.type_text import format_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

Names = Callable[[str], str]


def types(odps: Connection, name: str) -> list[tuple[str, str]]:
    return [(column.name, format_type(column.type)) for column in odps.table(name).schema]


def test_columns_read_from_a_table_keep_their_types_in_a_new_table(odps: Connection) -> None:
    for name in ("types_all", "media", "documents"):
        schema = odps.table(name).schema
        found = table_columns(spark_schema(schema.columns))
        for before, after in zip(schema.columns, found.columns, strict=True):
            plain = dataclasses.replace(before, comment="", nullable=True)
            assert spark_schema([after]) == spark_schema([plain])


@pytest.mark.spark
def test_writing_a_data_frame_can_create_its_table(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    names = [new_name("spark") for _ in range(3)]
    frame = spark.range(10).select("id", F.concat(F.lit("d"), F.col("id") % 2).alias("ds"))
    assert odps.table(names[0]).write(frame, create=True, partitioned_by="ds").rows == 10
    odps_nb.spark.write(frame, odps, names[1], create=True, partitioned_by=["ds"])
    odps.create_table(names[2], frame.schema, partitioned_by="ds")
    assert types(odps, names[0]) == types(odps, names[1]) == types(odps, names[2])
    assert types(odps, names[0]) == [("id", "bigint"), ("ds", "string")]
    rows = [odps.table(name).read().row_count for name in names]
    assert rows == [10, 10, 0]
    with pytest.raises(ArgumentError, match="partitioned by ds"):
        odps_nb.spark.write(frame, odps, names[0], create=True, partitioned_by="id")
    with pytest.raises(ArgumentError, match="is bigint, but types says int"):
        odps_nb.spark.write(frame, odps, names[0], create=True, types={"id": "int"})
    with pytest.raises(ConversionError, match="no column 'note'") as unknown:
        odps_nb.spark.write(frame.withColumn("note", F.lit(1.5)), odps, names[0])
    assert "table.add_columns('note double')" in unknown.value.hint
    for write in (
        lambda name: odps_nb.spark.write(frame, odps, name, create=True, types={"id": "int"}),
        lambda name: odps.table(name).write(frame, create=True, types={"ID": "int"}),
    ):
        typed = new_name("spark")
        write(typed)
        assert types(odps, typed) == [("id", "int"), ("ds", "string")]


@pytest.mark.spark
def test_a_failed_job_leaves_no_table(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    name = new_name("failed")
    odps_nb.spark.register(spark, odps)
    bad = spark.range(3).select(F.raise_error(F.lit("no such row")).cast("string").alias("s"))
    with pytest.raises(Exception, match="no such row"):
        odps.table(name).write(bad, create=True)
    assert not odps.table(name).exists()
    writer = bad.write.format("odps").option("table", name).option("create", True)
    with pytest.raises(Exception, match="no such row"):
        writer.mode("append").save()
    assert not odps.table(name).exists()
    with pytest.raises(ConversionError, match="interval"):
        odps.create_table(name, spark.sql("select make_interval(1) as length"))
    nothing = odps.create_table(name, spark.sql("select null as nothing"))
    assert types(odps, name) == [("nothing", "string")]
    assert nothing.read().to_arrow().to_pylist() == [{"nothing": None}]


@pytest.mark.parametrize("value", ["array()", "map()", "struct(array() as a)"])
def test_a_list_without_an_element_type_is_refused_by_name(
    spark: SparkSession, odps: Connection, new_name: Names, value: str
) -> None:
    name = new_name("untyped")
    with pytest.raises(ConversionError, match=r"column 'x': Spark cannot send .*void"):
        odps_nb.spark.write(spark.sql(f"select {value} as x"), odps, name, create=True)
    assert not odps.table(name).exists()


@pytest.mark.nightly
@pytest.mark.spark
def test_the_data_source_can_create_the_table(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    name = new_name("format")
    odps_nb.spark.register(spark, odps)
    frame = spark.range(4).select("id", F.lit("x").alias("ds"))
    writer = frame.write.format("odps").option("table", name)
    with pytest.raises(Exception, match=r'create_table.*\.option\("create", True\)'):
        writer.mode("append").save()
    writer = writer.option("create", True).option("partitioned_by", "ds")
    writer.mode("append").save()
    writer.mode("append").save()
    assert types(odps, name) == [("id", "bigint"), ("ds", "string")]
    assert odps.table(name).read().row_count == 8


@pytest.mark.storage_api("blobs")
@pytest.mark.spark
def test_a_struct_of_blob_content_becomes_a_blob(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    name = new_name("blobs")
    content = F.struct(
        F.encode(F.lit("hello"), "utf-8").alias("data"),
        F.lit("text/plain").alias("mime_type"),
        F.lit("a.txt").alias("file_name"),
    )
    frame = spark.range(1).select("id", content.alias("content"))
    odps_nb.spark.write(frame, odps, name, create=True)
    assert types(odps, name) == [("id", "bigint"), ("content", "blob")]
    (blob,) = odps.table(name).blobs("content")
    assert (blob.bytes(), blob.file_name) == (b"hello", "a.txt")


MONTHS = [
    ("interval '5' month", 5),
    ("interval '2' year", 24),
    ("interval '-1-2' year to month", -14),
    ("array(interval '5' month, null)", [5, None]),
    ("struct(interval '5' month as m, 1 as n)", {"m": 5, "n": 1}),
    ("map('k', interval '1' year)", [("k", 12)]),
]


@pytest.mark.spark
def test_year_month_intervals_of_any_unit_and_depth_become_months(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    name = new_name("months")
    columns = ", ".join(f"{text} as c{place}" for place, (text, _) in enumerate(MONTHS))
    odps_nb.spark.write(spark.sql(f"select {columns}"), odps, name, create=True)
    assert all("INTERVAL_YEAR_MONTH" in repr(one.type) for one in odps.table(name).schema)
    assert list(odps.table(name).read().to_arrow().to_pylist()[0].values()) == [
        value for _, value in MONTHS
    ]
