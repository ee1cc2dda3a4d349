"""The zones of the connection and of Spark's session: instants stay the same with any zones."""

from __future__ import annotations

import datetime as dt

import pandas as pd
import pyarrow as pa
import pytest

import odps_nb
import odps_nb.spark

UTC = dt.UTC
CLOCK = dt.datetime(2024, 1, 31, 10)
COLUMNS = "id bigint, d datetime, t timestamp, n timestamp_ntz"
SESSION = "spark.sql.session.timeZone"


@pytest.fixture(scope="module")
def zoned(profile):
    with odps_nb.connect(profile, timezone="Asia/Shanghai") as connection:
        yield connection


@pytest.fixture
def table(zoned, new_name):
    made = zoned.create_table(new_name("zones"), COLUMNS)
    made.write(pd.DataFrame({"id": [1], "d": [CLOCK], "t": [CLOCK], "n": [CLOCK]}))
    return made


def row(frame) -> tuple[object, ...]:
    """Return the instants as seconds since the epoch, and the local time as text."""
    text = ["unix_micros(cast(d as timestamp)) as d", "unix_micros(t) as t"]
    return tuple(frame.selectExpr(*text, "cast(n as string) as n").collect()[0])


MOMENT = int((CLOCK - dt.timedelta(hours=8)).replace(tzinfo=UTC).timestamp()) * 10**6
EXPECTED = (MOMENT, MOMENT, "2024-01-31 10:00:00")


@pytest.mark.nightly
@pytest.mark.parametrize("session", ["UTC", "Asia/Shanghai", "America/Los_Angeles"])
def test_a_row_has_the_same_instants_in_every_session_zone(spark, zoned, table, session):
    spark.conf.set(SESSION, session)
    name = table.name.table
    frame = odps_nb.spark.read(spark, zoned, name)
    kinds = [field.dataType.simpleString() for field in frame.schema.fields]
    assert kinds == ["bigint", "timestamp", "timestamp", "timestamp_ntz"]
    assert row(frame) == row(table.read().to_spark(spark)) == EXPECTED
    result = zoned.sql(f"select * from {name}").to_spark(spark)
    assert [field.dataType.simpleString() for field in result.schema.fields] == kinds
    assert row(result) == EXPECTED
    # the copy: Spark sends instants in its own zone, and local times unchanged
    copy = zoned.create_table(f"{name}_{session.replace('/', '_')}", COLUMNS)
    odps_nb.spark.write(frame, zoned, copy.name)
    assert copy.read().to_arrow().equals(table.read().to_arrow())


@pytest.mark.nightly
def test_times_in_a_condition_are_in_the_zone_of_the_connection(spark, zoned, odps, table):
    spark.conf.set(SESSION, "America/Los_Angeles")
    name, where = table.name.table, "t = '2024-01-31 10:00:00'"
    assert odps_nb.spark.read(spark, zoned, name, where=where).count() == 1
    assert odps_nb.spark.read(spark, odps, name, where=where).count() == 0
    reader = spark.read.format("odps").options(**odps_nb.spark.options(zoned))
    odps_nb.spark.register(spark)
    assert reader.option("table", name).option("where", where).load().count() == 1


def test_a_local_time_from_spark_is_stored_as_an_instant_in_the_zone_of_the_connection(
    spark, zoned, odps, new_name
):
    frame = spark.sql("select timestamp_ntz '2024-01-31 10:00:00' as t")
    for connection, hours in ((zoned, 8), (odps, 0)):
        table = connection.create_table(new_name("walls"), "t timestamp")
        odps_nb.spark.write(frame, connection, table.name)
        odps_nb.spark.register(spark, connection)
        frame.write.format("odps").mode("append").save(table.name.table)
        got = odps.table(table.name).read().to_arrow()["t"].cast(pa.timestamp("us")).to_pylist()
        assert got == [CLOCK - dt.timedelta(hours=hours)] * 2


def test_a_spark_query_returns_times_in_the_zone_of_the_connection(spark, zoned, odps, table):
    spark.conf.set(SESSION, "America/Los_Angeles")
    text = f"select d, n from {table.name.table}"
    found = odps_nb.spark.explain_sql(spark, zoned, text).to_pandas()
    assert str(found["d"].dt.tz) == "Asia/Shanghai"
    assert found["d"].dt.tz_localize(None)[0] == found["n"][0] == CLOCK
    plain = odps_nb.spark.explain_sql(spark, odps, text).to_pandas()
    assert plain["d"][0] == CLOCK - dt.timedelta(hours=8)


def test_an_unknown_time_zone_is_reported(spark, profile, table):
    options = odps_nb.spark.options(profile) | {"timezone": "Mars/Base", "table": str(table.name)}
    odps_nb.spark.register(spark)
    with pytest.raises(Exception, match="there is no time zone 'Mars/Base'"):
        spark.read.format("odps").options(**options).load()


def test_a_result_of_sql_has_the_types_and_values_of_a_read(spark, odps, new_name):
    spark.conf.set(SESSION, "America/Los_Angeles")
    columns = (
        "a tinyint, b float, c decimal(18,2), d date, e array<timestamp>, f map<string,datetime>, "
        "g struct<n:datetime,t:timestamp>, h interval_day_time, i binary, j timestamp, k json"
    )
    table = odps.create_table(new_name("wide"), columns)
    gap = dt.datetime(2024, 3, 10, 2, 30)  # this local time does not exist in the session's zone
    fine = pd.Timestamp("2024-01-31 10:00:00.123456")
    values = [1, 0.5, 1, CLOCK.date(), [gap, None], {"k": gap}, {"n": gap, "t": gap}]
    values += [dt.timedelta(1), b"\0", fine, "{}"]
    pairs = zip("abcdefghijk", values, strict=True)
    table.write(pd.DataFrame({name: pd.Series([one, None], dtype=object) for name, one in pairs}))
    result = odps.sql(f"select * from {table.name.table}").to_spark(spark)
    read = table.read().to_spark(spark)
    assert result.schema.simpleString() == read.schema.simpleString()
    shown = [f"cast({name} as string) as {name}" for name in "acdefghjk"]
    assert result.selectExpr(*shown).collect() == read.selectExpr(*shown).collect()
    assert odps.sql(f"select * from {table.name.table} where a > 5").to_spark(spark).count() == 0
