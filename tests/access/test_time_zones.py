"""A connection has a time zone, which every read, write and query uses."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Iterator
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest

import odps_nb
from odps_nb.access.connection import Connection
from odps_nb.client.auth.profile import Profile
from odps_nb.errors import ArgumentError, ConfigError, ConflictError, ConversionError

ZONE = "Asia/Shanghai"
CLOCK = dt.datetime(2024, 1, 31, 10)
MOMENT = dt.datetime(2024, 1, 31, 2)
AWARE = CLOCK.replace(tzinfo=ZoneInfo(ZONE))


@pytest.fixture(scope="module")
def zoned(profile: Profile) -> Iterator[Connection]:
    with odps_nb.connect(profile, timezone=ZONE) as connection:
        yield connection


def test_a_time_zone_is_set_like_other_settings(tmp_path, profile):
    file = tmp_path / "profiles.toml"
    file.write_text(f'[work]\nendpoint = "http://h/api"\nproject = "p"\ntimezone = "{ZONE}"\n')
    keys = {"access_id": "i", "access_key": "k"}
    stored = Profile.resolve("work", environ={"ODPS_NB_PROFILES": str(file)}, **keys)
    assert stored.timezone == ZONE
    named = {"ODPS_TIMEZONE": "UTC", "ODPS_NB_PROFILES": str(tmp_path / "none")}
    settings = {"endpoint": "http://h/api", "project": "p"}
    assert Profile.resolve(environ=named, **settings, **keys).timezone == "UTC"
    # Spark tasks receive it with the other settings
    assert Profile.from_options(stored.as_options()) == stored
    assert stored.as_settings()["timezone"] == ZONE
    assert f"timezone={ZONE!r}" in repr(stored)
    assert profile.timezone is None


@pytest.mark.parametrize("name", ["Mars/Base", "../etc/passwd", "+08:00", "Shanghai"])
def test_an_unknown_time_zone_is_refused_immediately(profile, name):
    with pytest.raises(ConfigError, match="there is no time zone") as caught:
        odps_nb.connect(profile, timezone=name)
    assert caught.value.option == "timezone"
    assert "Asia/Shanghai" in (caught.value.hint or "")


def test_every_form_of_a_read_has_the_time_zone(zoned, new_name):
    table = zoned.create_table(new_name("roads"), "t timestamp, n timestamp_ntz")
    table.write(pd.DataFrame({"t": [CLOCK], "n": [CLOCK]}))
    scan = table.read()
    expected = pa.schema({"t": pa.timestamp("ns", ZONE), "n": pa.timestamp("ns")})
    assert scan.arrow_schema == scan.to_arrow().schema == expected
    assert next(scan.batches()).schema == scan.reader().schema == expected
    assert pa.table(scan).schema == expected
    assert pa.table(zoned.sql(f"select * from {table.name.table}")).schema == expected
    empty = table.read(where="t < '2000-01-01 00:00:00'")
    assert empty.to_arrow().schema == expected
    assert empty.to_pandas().dtypes.equals(scan.to_pandas().dtypes)
    nothing = zoned.sql(f"select * from {table.name.table} where n is null")
    assert nothing.to_arrow().schema == expected
    assert nothing.first(3).to_pandas().dtypes.equals(scan.to_pandas().dtypes)
    assert table.head().dtypes.equals(scan.to_pandas().dtypes)


def test_times_that_were_read_can_be_written_unchanged(zoned, odps, new_name):
    table = zoned.create_table(new_name("back"), "d datetime, t timestamp, n timestamp_ntz")
    table.write(pd.DataFrame({"d": [CLOCK], "t": [CLOCK], "n": [CLOCK]}))
    for data in (table.read().to_pandas(), table.read().to_arrow(), table.read()):
        for connection in (zoned, odps):
            copy = connection.create_table(new_name("copy"), table.schema)
            copy.write(data)
            assert zoned.table(copy.name).read().to_arrow().equals(table.read().to_arrow())


@pytest.mark.storage_api("far times")
def test_days_of_the_years_1_and_9999_are_read_in_the_zone(zoned, odps, new_name):
    table = zoned.create_table(new_name("far"), "t timestamp")
    last = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
    table.write(pd.DataFrame({"t": pd.Series([last, CLOCK], dtype=object)}))
    got = table.read(where="t > '9999-12-31 23:59:59'", timestamp_unit="us").to_arrow()["t"]
    assert got.type == pa.timestamp("us", ZONE)
    assert got.to_pylist() == [last.replace(tzinfo=ZoneInfo(ZONE))]
    frame = table.read(timestamp_unit="us").to_pandas()
    assert str(frame["t"].dtype) == f"datetime64[us, {ZONE}]"
    assert f"{last}+08:00" in repr(frame)
    plain = odps.table(table.name).read(timestamp_unit="us").to_arrow()["t"].to_pylist()
    assert plain == [last - dt.timedelta(hours=8), MOMENT]


@pytest.mark.storage_api("blobs")
def test_times_in_rows_with_blobs_are_interpreted_in_the_time_zone(zoned, odps, new_name):
    columns = "d datetime, pages array<struct<at:timestamp,wall:timestamp_ntz,image:blob>>"
    table = zoned.create_table(new_name("pages"), columns)
    for at in (CLOCK, AWARE):
        page = {"at": at, "wall": CLOCK, "image": io.BytesIO(b"picture")}
        table.write(pd.DataFrame({"d": [at], "pages": pd.Series([[page]], dtype=object)}))
    rows = zoned.table(table.name).read().to_arrow().to_pylist()
    assert [row["d"] for row in rows] == [AWARE] * 2
    for row in rows:
        (page,) = row["pages"]
        assert (page["at"], page["wall"]) == (AWARE, CLOCK)
        assert zoned.blob(page["image"]).bytes() == b"picture"
    plain = odps.table(table.name).read().to_arrow().to_pylist()
    assert [row["pages"][0]["at"] for row in plain] == [MOMENT] * 2


def test_a_nonexistent_local_time_is_an_error_that_names_its_row(profile, new_name):
    with odps_nb.connect(profile, timezone="America/Los_Angeles") as odps:
        table = odps.create_table(new_name("gap"), "t datetime")
        fine = pa.record_batch([pa.array([CLOCK] * 3, pa.timestamp("us"))], names=["t"])
        gap = [dt.datetime(2024, 3, 10, 2, 30)]
        batches = [fine, pa.record_batch([pa.array(gap, pa.timestamp("us"))], names=["t"])]
        with pytest.raises(ConversionError, match="clocks were set forward") as caught:
            table.write(pa.RecordBatchReader.from_batches(fine.schema, batches))
        assert (caught.value.column, caught.value.row) == ("t", 3)
        assert table.read().to_arrow().num_rows == 0


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        ("timestamp", "timestamp_ntz", CLOCK),
        ("timestamp_ntz", "datetime", CLOCK),
        ("array<timestamp>", "array<timestamp_ntz>", [CLOCK]),
    ],
)
def test_times_of_a_changed_table_are_not_shifted(zoned, new_name, before, after, value):
    table = zoned.create_table(new_name("changed"), f"t {before}")
    assert table.schema.names == ("t",)
    zoned.drop_table(table.name)
    zoned.create_table(table.name, f"t {after}")
    for write in (table.write, table.open_write().write):
        with pytest.raises(ConflictError, match=r"the column 't' of .* is now") as caught:
            write([{"t": value}])
        assert caught.value.hint == "call table.reload(), and write again"
    assert table.reload().write([{"t": value}]).rows == 1
    assert table.read().to_arrow()["t"].null_count == 0
    zoned.drop_table(table.name)


def test_sql_runs_in_the_zone_of_the_connection(zoned, odps, new_name):
    name = new_name("asked")
    table = zoned.create_table(name, "t timestamp, n timestamp_ntz")
    table.write(pd.DataFrame({"t": [CLOCK], "n": [CLOCK]}))
    count = f"select count(*) as n from {name} where t = "

    def row_count(connection: Connection, text: str, **more: object) -> int:
        return int(connection.sql(count + text, **more).to_pandas()["n"][0])

    for text in ("timestamp '2024-01-31 10:00:00'", "cast('2024-01-31 10:00:00' as datetime)"):
        assert (row_count(zoned, text), row_count(odps, text)) == (1, 0)
        setting = {"odps.sql.timezone": "UTC"}
        assert row_count(zoned, text, settings=setting) == 0
    assert row_count(zoned, ":t", params={"t": AWARE}) == 1
    assert row_count(zoned, ":t", params={"t": CLOCK}) == 1
    assert row_count(zoned, ":t", params={"t": AWARE}, settings={"odps.sql.timezone": "UTC"}) == 1
    assert row_count(odps, ":t", params={"t": AWARE}, settings={"odps.sql.timezone": ZONE}) == 1
    with pytest.raises(ArgumentError, match="time zone"):
        odps.sql(count + ":t", params={"t": AWARE})
    zoned.sql(f"insert into {name} select timestamp '2024-07-01 10:00:00', n from {name}").wait()
    wanted = table.read(["n"], where="t = '2024-07-01 10:00:00'").to_arrow()
    assert wanted["n"].to_pylist() == [CLOCK]


def test_a_zone_unknown_to_the_embedded_service_is_refused(odps):
    with pytest.raises(odps_nb.errors.OdpsNbError, match="no time zone 'Mars/Base'"):
        odps.sql("select 1 as a", settings={"odps.sql.timezone": "Mars/Base"}).to_arrow()
