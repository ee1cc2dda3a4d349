"""Facts in the stock client's live tests outside of maxstorage: tunnel, results, instances.

Source: aliyun/aliyun-odps-python-sdk, ``odps/tunnel/tests``, ``odps/models/tests``, and the code of
the stock client if no test shows a rule.
"""

from __future__ import annotations

import csv
import io
import json
import time
from datetime import UTC, datetime, timedelta

import pandas as pd
import pyarrow as pa
import pytest
from odps import ODPS, errors
from odps.models import Instance, Project, Table
from odps.tunnel import InstanceTunnel, TableTunnel

from odps_nb.local.server.launch import LocalService
from tests.support.compat.stock import STOCK, stock_client

pytestmark = STOCK


@pytest.fixture(scope="module")
def entry(empty_service: LocalService) -> ODPS:
    return stock_client(empty_service)


@pytest.fixture(scope="module")
def parts(entry: ODPS) -> Table:
    """A table with two partition levels, one partition with rows."""
    table = entry.create_table(f"p{time.time_ns()}", ("id bigint, note string", "ds string, h int"))
    with table.open_writer("ds=a,h=7", create_partition=True) as writer:
        writer.write([[1, "x"], [2, None]])
    return table


# -- downloads of partitions ------------------------------------------------------------------


def test_records_of_a_partition_end_with_its_partition_values(parts: Table) -> None:
    """Evidence 165: test_read_write_partition_table, test_simple_record_read_write_table"""
    with parts.open_reader("ds=a,h=7") as reader:
        assert [record.values for record in reader] == [[1, "x", "a", "7"], [2, None, "a", "7"]]
        assert [column.name for column in reader.schema.columns] == ["id", "note", "ds", "h"]
    with parts.open_reader("ds=a,h=7", append_partitions=False, reopen=True) as reader:
        assert [record.values for record in reader] == [[1, "x"], [2, None]]
    with parts.open_reader("ds=a,h=7", reopen=True) as reader:
        assert reader.to_pandas()["h"].tolist() == ["7", "7"]


def test_data_and_partition_columns_of_a_partition_can_be_selected(parts: Table) -> None:
    """Evidence 165: test_partition_download_with_specified_columns"""
    session = TableTunnel(parts.odps).create_download_session(parts, partition_spec="ds=a,h=7")
    with session.open_record_reader(0, 2, columns=["note", "ds"]) as reader:
        assert [record.values for record in reader] == [["x", "a"], [None, "a"]]
    with session.open_arrow_reader(0, 2, columns=["h", "id"]) as reader:
        assert reader.read().to_pydict() == {"h": [7, 7], "id": [1, 2]}
    with session.open_arrow_reader(0, 2, append_partitions=True) as reader:
        assert reader.read().column_names == ["id", "note", "ds", "h"]
    with session.open_arrow_reader(0, 2) as reader:
        assert reader.read().column_names == ["id", "note"]


def test_a_session_returns_the_partition_columns_in_every_document(parts: Table) -> None:
    """Evidence 165: the schema of a session is the same in each of its documents."""
    tunnel = TableTunnel(parts.odps)
    made = tunnel.create_download_session(parts, partition_spec="ds=a,h=7")
    again = tunnel.create_download_session(parts, partition_spec="ds=a,h=7", download_id=made.id)
    assert [c.name for c in again.schema.partitions] == ["ds", "h"]
    assert made.count == again.count == 2


@pytest.mark.parametrize("spec", [None, "ds=a"])
def test_a_download_names_one_partition(parts: Table, spec: str | None) -> None:
    """Evidence 165; vendor's manual, *Common error codes for Tunnel*: MissingPartitionSpec"""
    with pytest.raises(errors.ODPSError) as caught:
        TableTunnel(parts.odps).create_download_session(parts, partition_spec=spec)
    assert caught.value.code == "MissingPartitionSpec"


# -- results of SQL ---------------------------------------------------------------------------

TIMES = """
select cast('2026-05-11 12:34:53.123421123' as timestamp) as t,
       cast('1969-12-31 23:59:59.999999999' as timestamp_ntz) as n,
       cast('2026-05-11 12:34:53' as datetime) as d,
       array(cast('2026-05-11 12:34:53.123421123' as timestamp)) as a,
       named_struct('t', cast('1960-01-01 00:00:00.5' as timestamp)) as s
union all select null, null, null, null, null
"""


def test_arrow_rows_of_an_instance_have_timestamps_as_structs(entry: ODPS) -> None:
    """Evidence 166: test_instance_tunnel_arrow_timestamp; ``timestamp_as_struct`` of the client"""
    with entry.execute_sql(TIMES).open_reader(tunnel=True, arrow=True) as reader:
        rows = reader.read_all().sort_by("d").to_pylist()
    late = pd.Timestamp("2026-05-11 12:34:53.123421123")
    assert rows[0]["t"].tz_localize(None) == late
    assert rows[0]["n"] == pd.Timestamp("1969-12-31 23:59:59.999999999")
    assert [one.tz_localize(None) for one in rows[0]["a"]] == [late]
    assert rows[0]["s"]["t"].tz_localize(None) == pd.Timestamp("1960-01-01 00:00:00.5")
    assert rows[0]["d"].replace(tzinfo=None) == datetime(2026, 5, 11, 12, 34, 53)
    assert set(rows[1].values()) == {None}


def test_times_beyond_nanoseconds_are_sent_in_results(entry: ODPS) -> None:
    """Evidence 166: the struct contains seconds, so the range of TIMESTAMP fits."""
    late, other = "cast('9999-12-31 23:59:59.5' as timestamp)", "timestamp'2020-01-01 00:00:00.25'"
    sql = f"select {late} as t, 1 as i, {other} as u, map('k', array({other})) as m"
    session = InstanceTunnel(entry).create_download_session(entry.execute_sql(sql))
    with session.open_arrow_reader(0, 1) as reader:
        batch = reader._read_next_raw_batch()
    seconds = int(datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp())
    assert batch.column(0).to_pylist() == [{"sec": seconds, "nano": 500_000_000}]
    with session.open_arrow_reader(0, 1, columns=["i"]) as reader:
        assert reader.read().to_pydict() == {"i": [1]}
    near = pd.Timestamp("2020-01-01 00:00:00.25")
    with session.open_arrow_reader(0, 1, columns=["u"]) as reader:
        assert reader.read()["u"].to_pylist()[0].tz_localize(None) == near
    with session.open_record_reader(0, 1, columns=["u", "m"]) as reader:
        assert [record.values for record in reader] == [[near, {"k": [near]}]]


def test_durations_are_written_and_read_as_structs(entry: ODPS) -> None:
    """Evidence 166: INTERVAL_DAY_TIME has the same form (``odps/tunnel/io/types.py``)."""
    table = entry.create_table(f"i{time.time_ns()}", "id bigint, i interval_day_time")
    kind = pa.struct([("sec", pa.int64()), ("nano", pa.int32())])
    values = [{"sec": 1048576, "nano": 428571428}, {"sec": -2, "nano": 999_999_999}, None]
    batch = pa.record_batch({"id": pa.array([1, 2, 3]), "i": pa.array(values, kind)})
    with table.open_writer(arrow=True) as writer:
        writer.write(batch)
    with table.open_reader(arrow=True) as reader:
        assert reader.read_all()["i"].to_pylist() == values
    whole = [pd.Timedelta(seconds=1048576, nanoseconds=428571428), pd.Timedelta(-1_000_000_001)]
    with table.open_reader(reopen=True) as reader:
        assert [record["i"] for record in reader][:2] == whole


def test_an_upload_may_be_compressed_with_lz4(entry: ODPS) -> None:
    """``x-odps-lz4-frame`` is LZ4 (test_upload_and_download_with_compress)."""
    table = entry.create_table(f"z{time.time_ns()}", "id bigint")
    session = TableTunnel(entry).create_upload_session(table, compress_algo="lz4")
    with session.open_arrow_writer(0, compress=True) as writer:
        writer.write(pa.record_batch({"id": pa.array(range(1000))}))
    session.commit([0])
    with table.open_reader() as reader:
        assert [record["id"] for record in reader] == list(range(1000))


def test_nested_values_of_a_result_are_json(entry: ODPS) -> None:
    """Evidence 167: test_read_map_array_sql_instance"""
    instance = entry.execute_sql("select map('k', 'v') as m, array(1, null) as a, 'x' as t")
    rows = list(csv.reader(io.StringIO(instance.get_task_result())))
    assert [json.loads(cell) for cell in rows[1][:2]] == [{"k": "v"}, [1, None]]
    with instance.open_reader(tunnel=False) as reader:
        assert json.loads(reader[0][0]) == {"k": "v"}


# -- instances, projects, tables --------------------------------------------------------------


def test_instances_are_listed_by_state_owner_and_time(entry: ODPS) -> None:
    """Evidence 181: test_instances, test_list_instances_in_page, test_instance"""
    made = [entry.execute_sql(f"select {number}").id for number in range(3)]
    found = list(entry.list_instances(status="terminated", only_owner=True))
    assert [one.id for one in found][:3] == made[::-1]
    assert {one._status for one in found} == {Instance.Status.TERMINATED}
    assert {one.owner for one in found} == {entry.account.access_id}
    assert all(one._getattr("end_time") is not None for one in found)
    assert not list(entry.list_instances(status="suspended"))
    past = datetime.now() - timedelta(days=2)
    assert not list(entry.list_instances(start_time=past, end_time=past + timedelta(days=1)))
    assert len(list(entry.list_instances(start_time=past, max_items=2))) >= 3  # pages of two


def test_a_task_shows_its_progress_and_a_summary(entry: ODPS) -> None:
    """Evidence 181: test_read_sql_instance, test_task_summary_finalized_header"""
    instance = entry.execute_sql("select 1 union all select 2")
    stage = instance.get_task_progress().stages[0]
    assert (stage.total_workers, stage.terminated_workers, stage.running_workers) == (1, 1, 0)
    assert (stage.finished_percentage, stage.output_records) == (100, 2)
    summary = instance.get_task_summary(with_finalized=True)
    assert summary.finalized is True
    assert "output records: 2" in summary.summary_text


def test_documents_state_the_type_of_an_object(entry: ODPS, parts: Table) -> None:
    """Evidence 181: test_project, test_create_delete_table, test_partition"""
    project = entry.get_project()
    assert (project.type, project.state) == (Project.ProjectType.MANAGED, "AVAILABLE")
    assert entry.get_table(parts.name).type == Table.Type.MANAGED_TABLE
    partition = entry.get_table(parts.name).get_partition("ds=a,h=7")
    assert (partition.is_archived, partition.is_exstore, partition.lifecycle) == (False, False, -1)
    assert not partition.is_loaded  # the extended document lacks the basic fields
    assert partition.creation_time is not None
    assert partition.is_loaded


def test_listing_the_functions_of_a_missing_schema_raises_an_error(entry: ODPS) -> None:
    """Evidence 181: older stock clients look up a schema in this way (test_schemas)"""
    with pytest.raises(errors.NoSuchObject):
        list(entry.list_functions(schema="nowhere"))
    assert list(entry.list_functions()) == []


def test_a_partition_is_touched_and_renamed(entry: ODPS) -> None:
    """Evidence 181: test_alter_table_partition_options, test_alter_table_options"""
    table = entry.create_table(f"r{time.time_ns()}", ("id bigint", "ds string, h string"))
    for spec in ("ds=a,h=1", "ds=b,h=2"):
        entry.write_table(table, [[1]], partition=spec, create_partition=True)
    partition = table.get_partition("ds=a,h=1")
    first = (partition.last_meta_modified_time, partition.last_data_modified_time)
    partition.touch()  # tests/local/test_service_parts.py tests the times, with its own clock
    partition.reload()
    assert (partition.last_meta_modified_time, partition.last_data_modified_time) >= first
    table.touch()
    partition.change_partition_spec("ds=c,h=3")
    assert [str(one) for one in table.partitions] == ["ds='b',h='2'", "ds='c',h='3'"]
    with table.open_reader("ds=c,h=3") as reader:
        assert [record.values for record in reader] == [[1, "c", "3"]]
    with pytest.raises(errors.ODPSError, match="exists"):
        partition.change_partition_spec("ds=b,h=2")
    with pytest.raises(errors.ODPSError, match="does not exist"):
        table.change_partition_spec("ds=a,h=1", "ds=d,h=4")
    with pytest.raises(errors.ODPSError, match="h"):
        table.change_partition_spec("ds=c,h=3", "ds=d")
