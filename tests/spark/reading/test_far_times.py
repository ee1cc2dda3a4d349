"""TIMESTAMPs beyond nanoseconds, through Spark, which uses microseconds."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import odps_nb.spark

FAR = [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None]


def shown(frame) -> str:
    """Return the time as Spark writes it; Python's range ends a day earlier in some zones."""
    return frame.selectExpr("cast(t as string) as t").collect()[0].t


@pytest.mark.storage_api("resumable writes")
@pytest.mark.gate(1)
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_the_year_9999_is_written_and_read_by_spark(spark, odps, new_name, kind):
    first = odps.create_table(new_name("far"), f"id bigint, t {kind}")
    second = odps.create_table(new_name("back"), f"id bigint, t {kind}")
    rows = pa.table({"id": range(3), "t": pa.array(FAR, pa.timestamp("us"))})
    first.write(rows)
    frame = odps_nb.spark.read(spark, odps, first.name.table)
    odps_nb.spark.write(frame, odps, second.name.table)
    got = second.read(timestamp_unit="us").to_arrow().sort_by("id")
    assert got["t"].to_pylist() == FAR
    frame = odps_nb.spark.read(spark, odps, first.name.table, where="id = 1")
    assert shown(frame).startswith("9999-12-31 23:59:59")


@pytest.mark.storage_api("far times")
def test_spark_sql_reads_the_year_9999(spark, odps, new_name):
    name = new_name("far_sql")
    table = odps.create_table(name, "id bigint, t timestamp")
    table.write(pa.table({"id": range(3), "t": pa.array(FAR, pa.timestamp("us"))}))
    found = odps_nb.spark.sql(spark, odps, f"select max(t) as t from {name}")
    assert shown(found).startswith("9999-12-31 23:59:59")


@pytest.mark.storage_api("far times")
def test_a_read_is_opened_in_microseconds_for_spark(spark, odps, new_name):
    """Evidence 152: tasks share one session, so they cannot restart the read."""
    table = odps.create_table(new_name("scan"), "id bigint, t timestamp")
    table.write(pa.table({"id": range(3), "t": pa.array(FAR, pa.timestamp("us"))}))
    scan = table.read()
    found = scan.to_spark(spark).selectExpr("id", "cast(t as string) as t").collect()
    assert {row.id for row in found if row.t is None} == {2}
    assert any(row.t.startswith("9999-12-31 23:59:59") for row in found if row.t)
    assert scan.to_arrow()["t"].to_pylist() == FAR
