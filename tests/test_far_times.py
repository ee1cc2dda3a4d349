"""TIMESTAMPs that cannot be read in nanoseconds, such as the 9999-12-31 of a ``valid to``."""

from __future__ import annotations

import datetime as dt

import pandas as pd
import pyarrow as pa
import pytest

from odps_nb import Connection
from odps_nb.errors import ArgumentError, ConversionError, InvalidRequestError, OdpsNbWarning
from odps_nb.notebook.explore.exports import write_file
from odps_nb.schema import PrimitiveType, TypeCode
from tests.support.service.connecting import connected

FAR = [
    dt.datetime(1, 1, 1),
    dt.datetime(1677, 9, 21, 0, 12, 43, 145224),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
    None,
]
MOST = 2**31 * 10**9 - 1  # 2038-01-19T03:14:07.999999999
FINE = pa.array([0, 1, MOST, None], pa.timestamp("ns"))
WARNED = r"are read in microseconds, .*RuntimeTimestamp data overflow.*timestamp_unit='us'"
TYPES = ["timestamp", "timestamp_ntz"]


def far(unit: str = "us") -> pa.Table:
    return pa.table({"id": range(4), "t": pa.array(FAR, pa.timestamp(unit))})


def frames() -> dict[str, pd.DataFrame]:
    ids = {"id": range(4)}
    return {
        "datetime64[us]": pd.DataFrame(ids | {"t": pd.array(FAR, "datetime64[us]")}),
        "objects": pd.DataFrame(ids | {"t": pd.Series(FAR, dtype=object)}),
        "arrow": pd.DataFrame(ids | {"t": pd.Series(FAR, dtype=pd.ArrowDtype(pa.timestamp("us")))}),
    }


@pytest.fixture(params=TYPES)
def table(request, odps, new_name):
    return odps.create_table(new_name("far"), f"id bigint, t {request.param}")


@pytest.mark.storage_api("far times")
@pytest.mark.parametrize("kind", frames())
def test_a_data_frame_with_the_year_9999_is_written_and_read(table, kind):
    """Evidence 180: the service accepts writes in microseconds."""
    table.write(frames()[kind])
    with pytest.warns(OdpsNbWarning, match=WARNED):
        got = table.read().to_pandas()
    assert got["t"].dtype == "datetime64[us]"
    assert [None if pd.isna(t) else t.to_pydatetime() for t in got["t"]] == FAR


def test_nanoseconds_stay_exact_in_their_range(table):
    table.write(pa.table({"id": range(4), "t": FINE}))
    got = table.read().to_arrow()["t"]
    assert got.type == pa.timestamp("ns")
    assert got.cast(pa.int64()).to_pylist() == FINE.cast(pa.int64()).to_pylist()
    assert table.read().to_pandas()["t"].astype("int64").iloc[2] == MOST


def test_all_64_bit_nanoseconds_are_written(wide: Connection, new_name):
    """The rows are read from a service that returns all nanoseconds."""
    table = wide.create_table(new_name("fine"), "t timestamp")
    ends = pa.array([-(2**63) + 1, -1, 2**63 - 1, None], pa.timestamp("ns"))
    table.write(pa.table({"t": ends}))
    got = table.read().to_arrow()["t"]
    assert got.cast(pa.int64()).to_pylist() == ends.cast(pa.int64()).to_pylist()


@pytest.mark.storage_api("far times")
def test_nanoseconds_next_to_far_times_are_truncated_with_a_warning(table):
    table.write(pa.table({"id": range(4), "t": FINE}))
    table.write(far())
    with pytest.warns(OdpsNbWarning, match="Digits below a microsecond are truncated"):
        got = table.read().to_arrow()["t"].to_pylist()
    assert got == table.read(timestamp_unit="us").to_arrow()["t"].to_pylist()
    assert got.count(None) == 2
    assert set(FAR) <= set(got)
    with pytest.raises(InvalidRequestError, match="RuntimeTimestamp data overflow") as caught:
        table.read(timestamp_unit="ns").to_arrow()
    assert "timestamp_unit='us'" in caught.value.hint
    assert caught.value.code == "ODPS-0422214"
    with pytest.raises(ArgumentError, match="timestamp_unit"):
        table.read(timestamp_unit="ms")


def test_a_column_with_far_times_and_nanoseconds_is_refused(table):
    mixed = pd.DataFrame({"id": [1, 2], "t": pd.Series([pd.Timestamp(1), FAR[2]], dtype=object)})
    with pytest.raises(ConversionError) as caught:
        table.write(mixed)
    assert caught.value.column == "t"
    assert "it is more precise than a microsecond" in str(caught.value)
    assert table.read().to_arrow().num_rows == 0


def test_nested_nanoseconds_next_to_far_years_are_refused(odps, new_name):
    table = odps.create_table(new_name("inner"), "a array<timestamp>")
    with pytest.raises(ConversionError, match="it is more precise than a microsecond"):
        table.write(pd.DataFrame({"a": [[pd.Timestamp(1)], [FAR[2]]]}))


@pytest.mark.storage_api("far times")
def test_a_stream_may_need_microseconds_only_in_later_rows(table):
    near = pa.table({"id": [7], "t": pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us"))})
    batches = [*near.to_batches(), *far().to_batches(), *near.to_batches()]
    table.write(pa.RecordBatchReader.from_batches(near.schema, batches))
    got = table.read(timestamp_unit="us").to_arrow()
    assert sorted(got["id"].to_pylist()) == [0, 1, 2, 3, 7, 7]
    assert set(FAR) <= set(got["t"].to_pylist())


@pytest.mark.storage_api("far times")
def test_only_selected_columns_determine_the_unit(odps, new_name):
    name = new_name("parts")
    table = odps.create_table(name, "id bigint, t timestamp", partitioned_by="p string")
    table.write(far(), partition="p=far")
    table.write(pa.table({"id": range(4), "t": FINE}), partition="p=fine")
    assert table.read(partitions="p=fine").to_arrow()["t"].type == pa.timestamp("ns")
    with pytest.warns(OdpsNbWarning, match=WARNED):
        got = table.read(partitions="p=far").to_arrow()
    assert got["t"].type == pa.timestamp("us")
    assert table.read(["id"]).to_arrow().num_rows == 8


@pytest.mark.storage_api("far times")
def test_nested_times_are_written_and_read(odps, new_name):
    table = odps.create_table(
        new_name("nested"), "a array<timestamp>, s struct<t:timestamp>, m map<string,timestamp>"
    )
    rows = [{"a": FAR, "s": {"t": FAR[2]}, "m": [("k", FAR[0])]}]
    table.write(pd.DataFrame(rows))
    with pytest.warns(OdpsNbWarning, match=WARNED):
        assert table.read().to_arrow().to_pylist() == rows
    got = table.read(timestamp_unit="us").to_pandas()
    assert list(got["a"][0]) == FAR


def test_an_empty_read_has_the_requested_unit(odps, new_name):
    table = odps.create_table(new_name("none"), "t timestamp")
    assert table.read().to_arrow().schema.field("t").type == pa.timestamp("ns")
    assert table.read(timestamp_unit="us").to_arrow().schema.field("t").type == pa.timestamp("us")


@pytest.mark.storage_api("far times")
def test_rows_of_a_primary_key_table_keep_far_times(odps, new_name):
    name = new_name("keyed")
    odps.sql(f"create table {name} (id bigint not null, t timestamp, primary key (id))").wait()
    table = odps.table(name)
    table.write(far())
    table.write(far().slice(2, 1).set_column(0, "id", pa.array([0])))
    with pytest.warns(OdpsNbWarning, match=WARNED):
        got = {row["id"]: row["t"] for row in table.read().to_arrow().to_pylist()}
    assert got == {0: FAR[2], 1: FAR[1], 2: FAR[2], 3: None}


@pytest.mark.storage_api("its requests")
def test_sql_reads_and_writes_far_times(odps, new_name):
    name = new_name("sql")
    table = odps.create_table(name, "id bigint, t timestamp")
    table.write(far())
    found = odps.sql(f"select t from {name} where id = 2").to_arrow()
    assert found["t"].to_pylist() == [FAR[2]]
    odps.sql(f"insert into {name} select 9, timestamp '9999-12-31 23:59:59.999999'").wait()
    with pytest.warns(OdpsNbWarning, match=WARNED):
        got = table.read(where="id = 9").to_arrow()
    assert got["t"].to_pylist() == [FAR[2]]
    assert table.schema.find("t").type == PrimitiveType(TypeCode.TIMESTAMP)


@pytest.mark.storage_api("far times")
def test_local_times_after_the_year_9999_are_shown_exported_and_drawn(service, odps, new_name):
    """UTC times of the last day of 9999, often used for "never", are in 10000 in Shanghai."""
    name, kind = new_name("sentinel"), pa.timestamp("ms", "UTC")
    never = pa.array([dt.datetime(9999, 12, 31, 23, tzinfo=dt.UTC)] * 2, kind)
    lists = pa.ListArray.from_arrays([0, 1, 2], never)
    columns = "id bigint, ends array<datetime>, never datetime"
    odps.create_table(name, columns).write(
        pa.table({"id": [1, 2], "ends": lists, "never": pa.array([0, never[0].value], kind)})
    )
    with connected(service, timezone="Asia/Shanghai") as shanghai:
        rows = shanghai.table(name).read()
        with pytest.raises(ConversionError, match="local time outside the years 1 to 9999"):
            rows.to_pandas()
        view = rows.explore().view
        assert "10000-01-01 07:00" in view.cell(0, 1)[0]
        for kind in ("csv", "xlsx", "parquet"):
            assert write_file(view.selected(), kind, bytearray().extend).rows == 2
        assert len(rows.chart("never", step="year").to_pandas()) == 2
        points = rows.chart("never", "id", kind="scatter")
        assert points.to_pandas()["never"].astype("int64").tolist() == [0, never[0].value * 1000]
        assert points._repr_html_()
        with pytest.raises(ArgumentError, match="local times after the year 9999"):
            rows.chart("id", color="never")
