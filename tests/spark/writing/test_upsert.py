"""Upserts and deletes from Spark DataFrames: one commit, with the rows of each key in one task."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import odps_nb.spark
from odps_nb.errors import ArgumentError, ConversionError
from tests.support.service.services import by_storage_api

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.access.table import Table

pytestmark = [pytest.mark.spark, pytest.mark.every_service(in_turn=True)]


@pytest.fixture
def table(odps: Connection, new_name: Callable[[str], str]) -> Table:
    name = new_name("spark_keyed")
    odps.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL, v STRING, w STRING NOT NULL, PRIMARY KEY (id))"
        " PARTITIONED BY (ds STRING)"
        " TBLPROPERTIES ('transactional'='true', 'acid.cdc.mode.enable'='true')"
    )
    return odps.table(name)


def rows(table: Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.read().to_arrow().to_pylist())


def test_data_frames_are_upserted_and_their_keys_deleted(spark: SparkSession, table: Table) -> None:
    numbers = spark.range(0, 100, 1, 4).selectExpr(
        "id", "cast(id as string) v", "'w' w", "if(id % 2 = 0, 'even', 'odd') ds"
    )
    first = table.upsert(numbers)
    assert (first.rows, first.verb) == (100, "upserted")
    assert len(rows(table)) == 100
    before = table.read().latest_version
    gone = table.delete(numbers.where("id >= 4"))
    assert (gone.rows, gone.verb) == (96, "deleted")
    if by_storage_api():  # other services report no version
        assert table.read().latest_version == before + 1
    table.delete(spark.range(2), partition="ds=odd")  # 0 is in another partition
    mixed = spark.sql(
        "select 2L id, 'new' v, 'w' w, false gone union all select 0L, null, '', true"
    )
    table.upsert(mixed, partition="ds=even", deleted="gone")
    assert rows(table) == [(2, "new", "w", "even"), (3, "3", "w", "odd")]


def test_each_micro_batch_of_a_stream_is_upserted(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    (tmp_path / "arriving").mkdir()
    for time, ids in enumerate([(1, 2), (2, 3)], 1):
        file = tmp_path / "arriving" / f"{time}.json"
        file.write_text("\n".join(f'{{"id": {one}, "v": "{time}", "w": "w"}}' for one in ids))
        os.utime(file, (time, time))  # Spark reads the oldest file first
    reader = spark.readStream.schema("id bigint, v string, w string")
    arriving = reader.option("maxFilesPerTrigger", 1).json(str(tmp_path / "arriving"))

    def upsert(batch: DataFrame, _: int) -> None:
        table.upsert(batch, partition="ds=x", progress=False)

    writer = arriving.writeStream.foreachBatch(upsert).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.awaitTermination()
    assert rows(table) == [(1, "1", "w", "x"), (2, "2", "w", "x"), (3, "2", "w", "x")]


def test_rows_of_one_key_are_written_by_one_task(spark: SparkSession, table: Table) -> None:
    repeated = spark.range(0, 4000, 1, 8).selectExpr("id % 5 id", "cast(id as string) v", "'w' w")
    receipt = table.upsert(repeated, partition="ds=x")
    assert receipt.rows == 4000
    found = rows(table)
    assert [row[0] for row in found] == [0, 1, 2, 3, 4]
    assert all(int(str(row[1])) % 5 == row[0] for row in found)
    table.upsert(spark.sql("select id, 'kept' w from range(3)"), partition="ds=x", partial=True)
    assert [row[:2] for row in rows(table)] == [row[:2] for row in found]
    assert [row[2] for row in rows(table)][:3] == ["kept"] * 3


@pytest.mark.nightly
@pytest.mark.storage_api("versions")
def test_tasks_read_the_changes_of_versions(
    spark: SparkSession, odps: Connection, table: Table
) -> None:
    table.upsert(spark.range(0, 10).selectExpr("id", "'a' v", "'w' w"), partition="ds=x")
    table.delete([3], partition="ds=x")
    odps_nb.spark.register(spark, odps)
    name, columns, changes = str(table.name), ["id", "ds"], {"since": 2, "changes": True}
    source = spark.read.format("odps").options(columns="id, ds", **changes)
    for frame in (
        table.read(columns, **changes).to_spark(spark),
        odps_nb.spark.read(spark, odps, name, columns=columns, **changes),
        source.load(name),
    ):
        changed = [row.asDict() for row in frame.collect()]
        assert changed == [{"id": 3, "ds": "x", "_change": "delete"}]
    assert source.option("until", 2).load(name).collect() == []
    with pytest.raises(Exception, match="must be a version number or a time"):
        source.option("until", "soon").load(name).collect()
    everything = table.read(since=0, changes=True).to_spark(spark)
    assert everything.columns == ["id", "v", "w", "ds", "_change"]
    assert everything.where("_change = 'insert'").count() == 10
    assert table.read(since=0).to_spark(spark).filter("true").count() == 9


def test_a_failed_upsert_leaves_the_table_unchanged(
    spark: SparkSession, odps: Connection, table: Table, new_name: Callable[[str], str]
) -> None:
    with pytest.raises(ConversionError, match="nope"):
        table.upsert(spark.sql("select 1L id, 'w' w, 1 nope, 'x' ds"))
    with pytest.raises(ConversionError, match="nope"):
        table.upsert(spark.sql("select 1L id, 1 nope, 'x' ds"), partial=True)
    with pytest.raises(ConversionError):
        table.upsert(spark.sql("select if(id = 7, null, id) id, 'w' w, 'x' ds from range(9)"))
    assert rows(table) == []
    plain = odps.create_table(new_name("plain"), "id bigint")
    with pytest.raises(ArgumentError, match="no primary key"):
        plain.delete(spark.range(2))


def test_columns_are_matched_without_case_even_if_spark_distinguishes_case(
    spark: SparkSession, odps: Connection, new_name: Callable[[str], str]
) -> None:
    table = odps.create_table(
        new_name("cased"),
        "id bigint not null, s string",
        primary_key="id",
        partitioned_by="ds string",
    )
    spark.conf.set("spark.sql.caseSensitive", True)
    try:
        for s in ("old", "new"):
            table.upsert(spark.sql(f"select 1L ID, '{s}' S, 'a' DS"), progress=False)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert table.read().to_arrow().to_pylist() == [{"id": 1, "s": "new", "ds": "a"}]
