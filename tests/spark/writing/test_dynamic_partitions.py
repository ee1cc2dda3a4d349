"""Writes with partitions from the rows: the rows are grouped, sorted, and limited."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import odps_nb.spark
from odps_nb.client.write.operations import StreamReceipt
from odps_nb.client.write.session import open_write_session
from odps_nb.errors import ArgumentError
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.tasks.errors import from_spark
from odps_nb.spark.writing import dataframe as writer
from odps_nb.spark.writing import task as writing_task
from odps_nb.spark.writing.dataframe import write_target
from odps_nb.spark.writing.task import WriteTask, Written, check_written, write_partition
from odps_nb.terms import SessionStatus, TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.every_service(in_turn=True)

Names = Callable[[str], str]


@pytest.fixture
def by_day(odps: Connection, new_name: Names) -> str:
    name = new_name("by_day")
    odps.create_table(name, "id bigint", partitioned_by="ds string, hour bigint")
    return name


def _days(spark: SparkSession, rows: int, days: int) -> DataFrame:
    """Rows of all days in each of five tasks, unsorted."""
    frame = spark.range(0, rows, 1, 5)
    return frame.selectExpr("id", f"concat('d', id * 7 % {days}) ds", "id % 2 hour")


def _write(road: str, frame: DataFrame, odps: Connection, name: str, most: int) -> None:
    if road == "write":
        odps_nb.spark.write(frame, odps, name, max_partitions=most)
        return
    odps_nb.spark.register(frame.sparkSession)
    made = frame.write.format("odps").options(**odps_nb.spark.options(odps))
    made.option("max_partitions", most).mode("append").save(name)


def _rows(odps: Connection, name: str) -> int:
    return odps.table(name).read().to_arrow().num_rows


@pytest.mark.spark
def test_each_task_writes_complete_partitions_in_order(
    spark: SparkSession, odps: Connection, by_day: str
) -> None:
    target, _ = write_target(odps._storage, odps.profile.table(by_day), None, overwrite=False)
    arranged = writer._arranged(_days(spark, 1000, 20), target, None, 64)
    seen = arranged.selectExpr("spark_partition_id() task", "ds", "hour").collect()
    tasks: dict[tuple[str, int], set[int]] = {}
    for row in seen:
        tasks.setdefault((row.ds, row.hour), set()).add(row.task)
    assert len(tasks) == 20
    assert {len(found) for found in tasks.values()} == {1}
    keys = [(row.task, row.ds, row.hour) for row in seen]
    assert keys == sorted(keys)


@pytest.mark.nightly
@pytest.mark.spark
def test_one_write_can_contain_the_maximum_number_of_partitions(
    spark: SparkSession, odps: Connection, by_day: str
) -> None:
    receipt = odps_nb.spark.write(_days(spark, 2048, 512), odps, by_day)
    assert receipt.rows == 2048 == _rows(odps, by_day)
    assert len(odps.table(by_day).partitions()) == 512


@pytest.mark.gate(1)
@pytest.mark.spark
@pytest.mark.parametrize("road", ["write", "format"])
def test_a_write_with_too_many_partitions_is_refused_and_no_row_is_written(
    spark: SparkSession, odps: Connection, by_day: str, road: str
) -> None:
    frame = _days(spark, 60, 6)
    with pytest.raises(Exception, match="more than 5 partitions of") as caught:
        _write(road, frame.coalesce(1), odps, by_day, 5)  # the failure also ends the worker
    error = from_spark(caught.value) if road == "format" else caught.value
    assert isinstance(error, ArgumentError)
    assert "max_partitions" in str(error.hint)
    assert "ds=d0,hour=0" in str(error)
    assert odps.table(by_day).partitions() == []
    _write(road, frame, odps, by_day, 6)
    assert _rows(odps, by_day) == 60


@pytest.mark.spark
def test_the_partition_limit_applies_to_all_tasks_together(
    spark: SparkSession, odps: Connection, by_day: str
) -> None:
    # Each task stays within the limit, but all of them together do not.
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    try:
        with pytest.raises(ArgumentError, match="more than 12 partitions") as caught:
            odps_nb.spark.write(_days(spark, 300, 20), odps, by_day, max_partitions=12)
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
    assert any("aborted" in note for note in caught.value.notes)
    assert odps.table(by_day).partitions() == []


def test_a_task_stops_at_the_first_excess_partition(odps: Connection, by_day: str) -> None:
    target, _ = write_target(odps._storage, odps.profile.table(by_day), "ds=x", overwrite=False)
    session = open_write_session(odps._storage, target.table, partition=target.fixed, shared=True)
    task = WriteTask(
        profile=TaskProfile.of(odps._storage),
        session=session.ref,
        target=target,
        max_partitions=3,
    )
    taken = []

    def batches():
        for hour in range(10):
            taken.append(hour)
            yield pa.RecordBatch.from_pydict({"id": pa.array([1, 2]), "hour": pa.array([hour] * 2)})

    with pytest.raises(ArgumentError, match="ds=x,hour=0"):
        write_partition(task, batches(), "000000-1")
    assert taken[-1] == 3
    session.abort()


@pytest.mark.storage_api("its requests")
@pytest.mark.spark
def test_the_number_of_tasks_is_limited_to_the_streams_of_a_session(
    spark: SparkSession, odps: Connection, new_name: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = new_name("lanes")
    odps.create_table(name, "id bigint")
    monkeypatch.setattr(writer, "MAX_STREAMS", 3)
    assert odps_nb.spark.write(spark.range(0, 100, 1, 8), odps, name).streams == 3
    assert odps_nb.spark.write(spark.range(0, 100, 1, 2), odps, name).streams == 2
    assert sorted(odps.table(name).read().to_arrow().column("id").to_pylist()) == sorted(
        [*range(100)] * 2
    )


@pytest.mark.spark
def test_a_write_with_too_many_streams_is_not_committed(
    spark: SparkSession, odps: Connection, by_day: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing_task, "MAX_STREAMS", 2)
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    try:
        with pytest.raises(ArgumentError, match=r"3 tasks wrote to .* limited to 2 streams"):
            odps_nb.spark.write(_days(spark, 300, 20), odps, by_day)
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
    assert odps.table(by_day).partitions() == []


def _written(number: int, *partitions: str) -> Written:
    stream = StreamReceipt(stream_id=str(number), version=1, rows=1, size=1)
    return Written(stream=stream, partitions=partitions)


def test_the_limits_of_streams_and_partitions_apply_to_all_tasks_together() -> None:
    table = TableName(project="p", table="t")
    full = [_written(n, f"ds={n % 512}", "ds=0") for n in range(20_000)]
    check_written(table, full)
    with pytest.raises(ArgumentError, match="512 partitions of p") as caught:
        check_written(table, [*full[:-1], _written(0, "ds=another")])
    assert caught.value.code == "TooManyPartitions"
    with pytest.raises(ArgumentError, match="20001 tasks") as caught:
        check_written(table, [*full, _written(0)])
    assert caught.value.code == "TooManyStreams"


@pytest.mark.storage_api("its requests")
def test_a_session_that_is_refused_by_the_data_source_is_aborted(
    odps: Connection, by_day: str
) -> None:
    from pyspark.sql.types import LongType, StringType, StructType

    from odps_nb.client.write.stream import WriteStream
    from odps_nb.spark.source.data_source import OdpsWriter, _Message
    from odps_nb.spark.source.options import WriteSettings
    from odps_nb.wire.calls import GetWriteSession

    settings = WriteSettings.of(
        {**odps_nb.spark.options(odps), "table": by_day, "max_partitions": "1"}
    )
    schema = StructType().add("id", LongType()).add("ds", StringType()).add("hour", LongType())
    made = OdpsWriter(settings, schema, overwrite=False)
    opened = [WriteStream(odps._storage, made._task.session, str(n)) for n in range(2)]
    streams = [stream.start().close() for stream in opened]
    messages = [
        _Message(Written(stream=stream, partitions=(f"ds={n}",)))
        for n, stream in enumerate(streams)
    ]
    with pytest.raises(ArgumentError, match="more than 1 partitions"):
        made.commit(messages)
    state = odps._storage.call(
        GetWriteSession(table=made._task.session.table, session_id=made._task.session.session_id)
    )
    assert state.status not in (SessionStatus.NORMAL.value, SessionStatus.COMMITTED.value)
