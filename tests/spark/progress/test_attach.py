"""Progress of real tasks: figures while they run, exact totals, a cancel that reaches the reads."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import odps_nb
import odps_nb.spark
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker, silent
from odps_nb.errors import CancelledError
from odps_nb.spark.progress import attach
from tests.support.spark.watched import (
    MIDDLE,
    ROWS,
    Action,
    Listener,
    established,
    gated,
    misbehave,
    struck,
    wait_for_connections,
    wait_until_struck,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.local.server.launch import LocalService

pytestmark = pytest.mark.spark


def test_figures_arrive_while_the_job_runs_and_the_totals_are_exact(
    spark: SparkSession, slow: Connection, numbers: str, listener: Listener, gate: Path
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=4, progress=listener)
    action = Action(gated(frame, gate).count)
    seen = listener.wait_until(lambda snapshot: snapshot.rows > 0 and snapshot.wire_bytes > 0)
    assert action.is_alive()
    assert seen.phase is Phase.READING
    assert seen.rows_total == ROWS
    assert len(seen.splits) == 4
    assert seen.rows < ROWS  # two tasks at a time: the others have not begun
    gate.touch()
    assert action.result() == ROWS
    end = listener.wait_end()
    assert (end.phase, end.rows, end.fraction) == (Phase.DONE, ROWS, 1.0)
    assert [(split.rows, split.done) for split in end.splits] == [(ROWS // 4, True)] * 4
    assert end.complete_bytes == end.decoded_bytes == 8 * ROWS
    assert end.verified_bytes == 0
    assert end.wire_bytes > end.decoded_bytes
    assert (end.retries, end.resumes, end.message) == (0, 0, "")
    assert end.session_id
    assert end.request_ids


def test_two_actions_are_two_runs_and_each_starts_from_nothing(
    spark: SparkSession, slow: Connection, numbers: str, listener: Listener
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=2, progress=listener)
    assert frame.filter("true").count() == frame.filter("id >= 0").count() == ROWS
    assert (listener.wait_end(1).rows, listener.wait_end(2).rows) == (ROWS, ROWS)
    assert len(listener.trackers) == 2


def test_a_task_that_fails_and_is_tried_again_is_not_counted_twice(
    spark: SparkSession, slow: Connection, numbers: str, listener: Listener, tmp_path: Path
) -> None:
    mark = str(tmp_path / "failed")

    def fail_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        yield from batches
        if not os.path.exists(mark):  # noqa: PTH110  # after all rows of the first attempt
            os.mkdir(mark)  # noqa: PTH102
            raise RuntimeError("once")

    frame = odps_nb.spark.read(spark, slow, numbers, splits=1, progress=listener)
    assert frame.mapInArrow(fail_once, frame.schema).count() == ROWS
    end = listener.wait_end()
    assert Path(mark).exists()
    assert (end.phase, end.rows, end.decoded_bytes) == (Phase.DONE, ROWS, 8 * ROWS)
    assert len(listener.trackers) == 1


@pytest.mark.parametrize("action", ["limit", "head"])
def test_a_run_that_wants_few_rows_ends_and_says_so(
    spark: SparkSession, slow: Connection, numbers: str, listener: Listener, action: str
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=4, progress=listener)
    assert len(frame.limit(1).collect() if action == "limit" else frame.head(1)) == 1
    end = listener.wait_end()
    assert end.phase is Phase.DONE
    assert 0 < end.rows < ROWS
    assert end.message.endswith("parts were read to the end; no more was needed")


def test_what_is_read_twice_counts_twice(
    spark: SparkSession, slow: Connection, numbers: str, listener: Listener
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=2, progress=listener)
    assert frame.union(frame).count() == 2 * ROWS
    end = listener.wait_end()
    assert (end.phase, end.rows, end.rows_total) == (Phase.DONE, 2 * ROWS, 2 * ROWS)


def test_a_job_that_fails_ends_its_run_as_failed(
    spark: SparkSession, slow: Connection, numbers: str, listener: Listener
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=4, progress=listener)
    with pytest.raises(Exception, match="no luck"):
        frame.selectExpr("raise_error('no luck')").collect()
    assert listener.wait_end().phase is Phase.FAILED


def test_retries_and_resumes_are_told(
    spark: SparkSession, slow: Connection, numbers: str, listener: Listener
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=1, progress=listener)
    # Of this session only: tasks of a job that failed in the test before may still be reading.
    session = odps_nb.spark.facts(frame).session_id
    misbehave(
        slow,
        {"action": "TableRead", "session": session, "fault": "close"},
        {"action": "TableRead", "session": session, "fault": "cut", "at": MIDDLE},
    )
    assert frame.filter("true").count() == ROWS
    assert struck(slow) == [1, 1]
    end = listener.wait_end()
    # The cut is resumed where it found rows to resume at, else it is one more retry.
    assert (end.rows, end.retries + end.resumes) == (ROWS, 2)
    assert end.retries >= 1
    assert end.events


def test_blobs_and_writes_are_told(
    spark: SparkSession,
    odps: Connection,
    listener: Listener,
    new_name: Callable[[str], str],
) -> None:
    media = odps_nb.spark.read(spark, odps, "media", columns=["id", "content"], progress=silent)
    sizes = odps_nb.spark.blob_map(
        media, "content", lambda blob: (len(blob.data),), "size int", odps=odps, progress=listener
    )
    found = [row.size for row in sizes.collect() if row.size is not None]
    end = listener.wait_end()
    assert (end.operation, end.items, end.decoded_bytes) == ("blobs", len(found), sum(found))
    assert (end.phase, end.rows) == (Phase.DONE, 0)

    name = new_name("told")
    odps.create_table(name, "id bigint")
    writing = Listener()
    receipt = odps_nb.spark.write(spark.range(0, 5000, 1, 3), odps, name, progress=writing)
    end = writing.wait_end()
    assert (end.operation, end.phase, end.rows) == ("write", Phase.DONE, 5000)
    assert end.decoded_bytes == receipt.bytes
    assert [split.done for split in end.splits] == [True] * 3
    assert end.session_id == receipt.session_id
    assert len(writing.trackers) == 1


def test_a_cancelled_read_ends_the_job_and_every_connection(
    spark: SparkSession,
    slow: Connection,
    slow_service: LocalService,
    numbers: str,
    listener: Listener,
    stall: Callable[..., None],
) -> None:
    before = established(slow_service)
    frame = odps_nb.spark.read(spark, slow, numbers, splits=2, progress=listener)
    stall("TableRead", at=MIDDLE)
    action = Action(frame.filter("true").count)
    # both tasks wait for the service in the middle of their rows
    listener.wait_until(lambda snapshot: all(split.rows for split in snapshot.splits))
    wait_for_connections(slow_service, lambda count: count >= before + 2)
    coordinator = attach.coordinator_of(spark)
    assert coordinator is not None
    (operation,) = coordinator.runs
    coordinator.cancel(operation)
    with pytest.raises(Exception, match="cancel"):
        action.result()
    took = wait_for_connections(slow_service, lambda count: count <= before)
    assert took < 10  # a fraction of a second; on a shared machine it proves that nobody waits
    end = listener.wait_end()
    assert end.phase is Phase.CANCELLED
    assert 0 < end.rows < ROWS
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []


def test_an_interrupt_in_a_watched_action_cancels_it(
    spark: SparkSession,
    slow: Connection,
    slow_service: LocalService,
    numbers: str,
    stall: Callable[..., None],
) -> None:
    before = established(slow_service)
    frame = odps_nb.spark.read(spark, slow, numbers, splits=2, progress=Listener())
    stall("TableRead", at=MIDDLE)
    listener = Listener()
    job: list[Action] = []

    def interrupted() -> None:
        with (
            ProgressTracker("spark", "count", listener=listener) as tracker,
            attach.watched(spark, tracker),
        ):
            tag = next(iter(spark.sparkContext.getJobTags()))

            def count() -> int:
                spark.sparkContext.addJobTag(tag)
                return frame.filter("true").count()

            job.append(Action(count))
            listener.wait_until(lambda snapshot: snapshot.rows > 0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(Exception, match="cancel"):
        job[0].result()
    wait_for_connections(slow_service, lambda count: count <= before)
    assert listener.wait_end().phase is Phase.CANCELLED
    assert list(spark.sparkContext.getJobTags()) == []


def test_a_watched_action_is_cancelled_by_its_token(
    spark: SparkSession, slow: Connection, numbers: str, stall: Callable[..., None]
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=2, progress=Listener())
    stall("TableRead", at=MIDDLE)
    listener, token = Listener(), CancelToken()

    def count() -> int:
        with (
            ProgressTracker("spark", "count", listener=listener) as tracker,
            attach.watched(spark, tracker, cancel=token),
        ):
            return frame.filter("true").count()

    action = Action(count)
    seen = listener.wait_until(lambda snapshot: snapshot.rows > 0)
    assert seen.splits[0].label.startswith("local.numbers rows 0")
    token.cancel()
    with pytest.raises(CancelledError):
        action.result()
    assert listener.wait_end().phase is Phase.CANCELLED
    with pytest.raises(CancelledError):  # a token that is used up starts nothing
        count()


def test_a_watched_action_is_cancelled_where_no_task_can_report(
    spark: SparkSession,
    slow: Connection,
    numbers: str,
    stall: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading = Listener()
    frame = odps_nb.spark.read(spark, slow, numbers, splits=2, progress=reading)
    stall("TableRead", at=MIDDLE)
    monkeypatch.setattr(attach, "coordinator_of", lambda _: None)
    token = CancelToken()

    def count() -> int:
        tracker = ProgressTracker("spark", "count")
        with attach.watched(spark, tracker, cancel=token):
            return frame.filter("true").count()

    action = Action(count)
    reading.wait_until(lambda snapshot: snapshot.rows > 0)
    token.cancel()
    with pytest.raises(CancelledError):
        action.result()
    assert reading.wait_end().phase is Phase.CANCELLED  # nobody but Spark could say so


def test_a_cancelled_write_is_aborted(
    spark: SparkSession,
    slow: Connection,
    slow_service: LocalService,
    new_name: Callable[[str], str],
    stall: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, listener, before = new_name("unwritten"), Listener(), established(slow_service)
    slow.create_table(name, "id bigint")
    stall("TableWrite")
    cancels: list[Callable[[], None]] = []

    def lent(*, on_cancel: Callable[[], None] | None = None) -> Listener:
        cancels.append(on_cancel or (lambda: None))
        return listener

    monkeypatch.setattr("odps_nb.access.progress.default_listener", lent)
    action = Action(lambda: odps_nb.spark.write(spark.range(0, 100, 1, 2), slow, name))
    listener.wait_until(lambda snapshot: len(snapshot.splits) == 2)
    cancels[0]()
    with pytest.raises(CancelledError):
        action.result()
    wait_for_connections(slow_service, lambda count: count <= before + 1)
    end = listener.wait_end()
    assert (end.phase, end.rows) == (Phase.CANCELLED, 0)
    assert slow.table(name).read().row_count == 0


def test_a_connection_that_cancels_stops_what_spark_runs_for_it(
    spark: SparkSession,
    slow: Connection,
    numbers: str,
    new_name: Callable[[str], str],
    stall: Callable[..., None],
) -> None:
    name = new_name("unwritten")
    slow.create_table(name, "id bigint")
    query = odps_nb.spark.explain_sql(spark, slow, f"select sum(id) from {numbers}")
    for call, work in (
        ("TableRead", query.to_arrow),  # nobody looks at it: a test is no terminal
        ("TableWrite", lambda: odps_nb.spark.write(spark.range(100), slow, name)),
    ):
        stall(call)
        action = Action(work)
        wait_until_struck(slow)
        slow.cancel()
        with pytest.raises(CancelledError):
            action.result()
    assert slow.table(name).read().row_count == 0


def test_silence_costs_nothing(
    spark: SparkSession, slow: Connection, numbers: str, connections: Callable[[], list[Any]]
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=2, progress=silent)
    by_default = odps_nb.spark.read(spark, slow, numbers, splits=2)  # a test is no terminal
    coordinator = attach.coordinator_of(spark)
    assert coordinator is not None
    assert frame.filter("true").count() == by_default.filter("true").count() == ROWS
    assert coordinator.runs == ()


def test_the_token_is_in_no_plan_setting_or_event_log(
    spark: SparkSession, slow: Connection, numbers: str, listener: Listener, event_log: Path
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=2, progress=listener)
    coordinator = attach.coordinator_of(spark)
    assert coordinator is not None
    token = coordinator.token
    assert len(token) == 32
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        frame.explain(extended=True)
    assert frame.filter("true").count() == ROWS
    assert listener.wait_end().rows == ROWS  # the token was used
    logged = [path.read_text() for path in event_log.rglob("*") if path.is_file()]
    assert any("SparkListenerJobEnd" in one for one in logged)
    settings = [f"{key}={value}" for key, value in spark.sparkContext.getConf().getAll()]
    for one in (text.getvalue(), *logged, *settings, repr(coordinator), repr(coordinator.__dict__)):
        assert token not in one


def test_no_port_is_opened_for_executors_elsewhere_unless_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Elsewhere:
        master = "spark://10.0.0.7:7077"

        def getConf(self) -> Any:
            return {"spark.driver.host": "10.0.0.5"}

    assert attach.host_of(Elsewhere()) is None  # type: ignore[arg-type]  # what is asked of it
    monkeypatch.setenv("ODPS_NB_SPARK_REPORTS", "driver")
    assert attach.host_of(Elsewhere()) == "10.0.0.5"  # type: ignore[arg-type]
