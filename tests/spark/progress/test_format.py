"""Progress of ``format("odps")``: row counts of tasks, commits in Spark's processes, cancelling."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import odps_nb.spark
from odps_nb.client.calls.progress import Phase, silent
from odps_nb.spark.progress.runs import runs_of
from odps_nb.spark.source.data_source import connected
from odps_nb.spark.source.registering import source_counter
from odps_nb.spark.versions import pyspark_version
from tests.support.spark.watched import (
    ROWS,
    Action,
    Listener,
    gated,
    misbehave,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.spark


@pytest.fixture
def registered(spark: SparkSession, slow: Connection, listener: Listener) -> Iterator[SparkSession]:
    """A session whose data source reports to the listener."""
    odps_nb.spark.register(spark, slow, progress=listener)
    yield spark
    odps_nb.spark.register(spark)


def test_a_loaded_table_shows_its_tasks_and_rows_while_it_is_read(
    registered: SparkSession, numbers: str, listener: Listener, gate: Path
) -> None:
    frame = registered.read.format("odps").option("splits", 4).load(numbers)
    action = Action(gated(frame, gate, free=2).count)
    seen = listener.wait_until(lambda snapshot: snapshot.tasks == 2)
    assert action.is_alive()
    assert (seen.operation, seen.title, seen.phase) == ("read", "local.numbers", Phase.READING)
    assert (seen.rows, seen.rows_total, seen.tasks_total) == (ROWS // 2, ROWS, 4)
    gate.touch()
    assert action.result() == ROWS
    end = listener.wait_end()
    assert (end.phase, end.rows, end.fraction) == (Phase.DONE, ROWS, 1.0)
    assert (end.tasks, end.tasks_total) == (4, 4)
    assert end.complete_bytes == end.decoded_bytes == 8 * ROWS
    assert end.verified_bytes == 0
    assert end.session_id
    assert end.request_ids


@pytest.mark.nightly
def test_two_tables_of_one_action_are_two_runs(
    registered: SparkSession, numbers: str, listener: Listener
) -> None:
    some, others = (registered.read.format("odps").load(numbers) for _ in range(2))
    assert some.filter("id < 10").union(others.filter("id < 5")).count() == 15
    ends = [listener.wait_end(1), listener.wait_end(2)]
    assert [(end.phase, end.rows) for end in ends] == [(Phase.DONE, ROWS)] * 2
    assert len({end.session_id for end in ends}) == 2


@pytest.mark.storage_api("its requests")
@pytest.mark.nightly
def test_retries_of_a_loaded_table_are_reported(
    registered: SparkSession, slow: Connection, numbers: str, listener: Listener
) -> None:
    frame = registered.read.format("odps").option("splits", 1).load(numbers)
    assert frame.count() == ROWS
    session = listener.wait_end(1).session_id
    kept = pyspark_version() >= (4, 1)  # before 4.1, Spark plans a DataFrame again for each action
    only = {"session": session} if kept else {}
    misbehave(slow, {"action": "TableRead", "fault": "close", **only})
    assert frame.count() == ROWS
    end = listener.wait_end(2)
    assert (end.session_id == session) is kept
    assert (end.rows, end.retries) == (ROWS, 1)
    assert end.events


@pytest.mark.nightly  # cancelling is the same for every action, see test_actions.py
def test_a_cancelled_read_of_a_loaded_table_ends_the_job(
    registered: SparkSession, numbers: str, listener: Listener, gate: Path
) -> None:
    frame = registered.read.format("odps").option("splits", 4).load(numbers)
    action = Action(gated(frame, gate, free=2).count)
    listener.wait_until(lambda snapshot: snapshot.tasks == 2)
    runs_of(registered.sparkContext).end_cell(KeyboardInterrupt())
    with pytest.raises(Exception, match="cancel"):
        action.result()
    end = listener.wait_end()
    assert (end.phase, end.rows) == (Phase.CANCELLED, ROWS // 2)


def test_a_write_is_displayed_until_its_commit(
    registered: SparkSession,
    slow: Connection,
    listener: Listener,
    new_name: Callable[[str], str],
) -> None:
    name = new_name("saved")
    slow.create_table(name, "id bigint")
    registered.range(0, 5000, 1, 3).write.format("odps").mode("append").save(name)
    end = listener.wait_end()
    assert (end.operation, end.title) == ("write", f"local.{name}")
    assert (end.phase, end.rows, end.message) == (Phase.DONE, 5000, "")
    assert (end.tasks, end.tasks_total) == (3, 3)
    assert end.wire_bytes > 8 * 5000
    assert end.session_id
    assert slow.table(name).read().row_count == 5000
    registered.range(0).write.format("odps").mode("append").save(name)
    assert len(listener.trackers) == 1  # no progress is shown for a write without rows


@pytest.mark.storage_api("its requests")
@pytest.mark.nightly
def test_a_failed_commit_is_reported_as_a_failed_write(
    registered: SparkSession,
    slow: Connection,
    listener: Listener,
    new_name: Callable[[str], str],
) -> None:
    name = new_name("refused")
    slow.create_table(name, "id bigint")
    misbehave(
        slow, {"action": "TableCommitWriteSession", "fault": "status", "status": 400, "times": 0}
    )
    with pytest.raises(Exception, match="commit"):
        registered.range(0, 100, 1, 2).write.format("odps").mode("append").save(name)
    misbehave(slow)
    end = listener.wait_end()
    assert (end.phase, end.tasks) == (Phase.FAILED, 2)
    assert "see its error" in end.message


def test_a_save_whose_tasks_fail_is_reported_as_a_failed_write(
    registered: SparkSession, slow: Connection, listener: Listener, new_name: Callable[[str], str]
) -> None:
    name = new_name("broken")
    slow.create_table(name, "id bigint")
    rows = registered.range(0, 40_000, 1, 4).selectExpr(
        "if(id = 39999, raise_error('no luck'), id) id"
    )
    with pytest.raises(Exception, match="no luck"):
        rows.write.format("odps").mode("append").save(name)
    assert listener.wait_end().phase is Phase.FAILED
    assert slow.table(name).read().row_count == 0


def test_disabled_progress_displays_nothing(
    spark: SparkSession, numbers: str, slow: Connection
) -> None:
    assert source_counter(spark, silent) is None
    reader = connected(slow.profile, None, 1)({"table": numbers}).reader(spark.range(0).schema)
    assert b"accumulator" not in pickle.dumps(reader)


def test_the_data_source_does_not_count_rows_of_streaming_queries(
    registered: SparkSession, slow: Connection, numbers: str, listener: Listener, tmp_path: Path
) -> None:
    counter = source_counter(registered, listener)
    assert counter is not None
    schema = registered.range(0).schema
    given = {"table": numbers, "checkpointLocation": str(tmp_path)}
    source = connected(slow.profile, counter, 1)
    follows = source({"table": numbers}).streamReader(schema)
    writes = source(given).streamWriter(schema, overwrite=False)
    for one in (follows, writes):
        assert b"accumulator" not in pickle.dumps(one)
    assert b"accumulator" in pickle.dumps(source({"table": numbers}).reader(schema))
