"""Progress of real tasks: row counts as tasks finish, exact totals, and stopping the job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest

import odps_nb
import odps_nb.spark
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker, silent
from odps_nb.errors import CancelledError
from odps_nb.spark.progress import actions
from odps_nb.spark.progress.counting import COUNTERS, Activity, Part, TaskCounter, counted
from odps_nb.spark.progress.runs import _Run, runs_of
from odps_nb.spark.versions import pyspark_version
from tests.support.spark.watched import (
    MIDDLE,
    ROWS,
    Action,
    Listener,
    established,
    gated,
    injected,
    misbehave,
    status_stopped_at_first_task,
    wait_for_connections,
    wait_until_injected,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.local.server.launch import LocalService

pytestmark = pytest.mark.spark


class Stoppable(Listener):
    """A display with a stop button, as a connection creates one for each action."""

    def __init__(self) -> None:
        super().__init__()
        self.cancels: list[Callable[[], None]] = []

    def __call__(self, *, on_cancel: Callable[[], None] | None = None) -> Stoppable:
        self.cancels += [] if on_cancel is None else [on_cancel]
        return self


@pytest.fixture
def stoppable(monkeypatch: pytest.MonkeyPatch) -> Stoppable:
    """The display that is created for each action."""
    made = Stoppable()
    monkeypatch.setattr("odps_nb.access.progress.default_listener", made)
    return made


def test_row_counts_grow_with_each_finished_task_and_the_totals_are_exact(
    spark: SparkSession, slow: Connection, numbers: str, listener: Listener, gate: Path
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=4, progress=listener)
    action = Action(gated(frame, gate, free=2).count)
    seen = listener.wait_until(lambda snapshot: snapshot.tasks == 2)
    assert action.is_alive()
    assert (seen.phase, seen.rows, seen.rows_total) == (Phase.READING, ROWS // 2, ROWS)
    assert (seen.tasks_total, seen.fraction) == (4, 0.5)
    gate.touch()
    assert action.result() == ROWS
    end = listener.wait_end()
    assert (end.phase, end.rows, end.fraction) == (Phase.DONE, ROWS, 1.0)
    assert (end.tasks, end.tasks_total) == (4, 4)
    assert end.complete_bytes == end.decoded_bytes == 8 * ROWS
    assert end.verified_bytes == 0
    assert end.wire_bytes > end.decoded_bytes
    assert (end.retries, end.resumes, end.message) == (0, 0, "")
    assert end.session_id
    assert end.request_ids


@pytest.mark.parametrize("by_format", [False, True])
def test_a_run_is_shown_before_its_first_task_has_finished(
    spark: SparkSession,
    slow: Connection,
    numbers: str,
    listener: Listener,
    gate: Path,
    *,
    by_format: bool,
) -> None:
    if by_format:
        odps_nb.spark.register(spark, slow, progress=listener)
        frame = spark.read.format("odps").option("splits", 2).load(numbers)
        odps_nb.spark.register(spark)
    else:
        frame = odps_nb.spark.read(spark, slow, numbers, splits=2, progress=listener)
    action = Action(gated(frame, gate).count)
    seen = listener.wait_until(lambda snapshot: snapshot.tasks_total == 2)
    assert action.is_alive()
    assert (seen.phase, seen.title) == (Phase.READING, f"local.{numbers}")
    assert (seen.tasks, seen.rows, seen.rows_total) == (0, 0, ROWS)
    assert seen.session_id
    gate.touch()
    assert action.result() == ROWS
    assert listener.wait_end().rows == ROWS
    assert len(listener.trackers) == 1


@pytest.fixture
def far(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that cannot report their start, as on executors on other machines."""
    starts = runs_of(spark.sparkContext)._starts
    monkeypatch.setattr(starts, "address", starts.address._replace(host="elsewhere"))


@pytest.mark.usefixtures("far")
def test_without_reports_of_starts_a_run_is_shown_when_its_first_task_has_finished(
    spark: SparkSession, slow: Connection, numbers: str, listener: Listener, gate: Path
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=2, progress=listener)
    action = Action(gated(frame, gate).count)
    while not spark.sparkContext.statusTracker().getActiveJobsIds():
        pass
    assert listener.trackers == []
    gate.touch()
    assert action.result() == ROWS
    assert listener.wait_end().rows == ROWS


@pytest.mark.nightly
def test_two_actions_are_two_runs_and_each_starts_from_zero(
    spark: SparkSession, slow: Connection, numbers: str, listener: Listener
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=2, progress=listener)
    assert frame.filter("true").count() == frame.filter("id >= 0").count() == ROWS
    assert (listener.wait_end(1).rows, listener.wait_end(2).rows) == (ROWS, ROWS)
    assert len(listener.trackers) == 2


def test_a_retried_task_is_not_counted_twice(
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


@pytest.mark.parametrize("action", ["limit", pytest.param("head", marks=pytest.mark.nightly)])
def test_a_task_that_is_not_read_to_its_end_is_not_counted(
    spark: SparkSession, slow: Connection, numbers: str, listener: Listener, action: str
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=4, progress=listener)
    assert len(frame.limit(1).collect() if action == "limit" else frame.head(1)) == 1
    end = listener.wait_end(1)
    assert (end.phase, end.rows) == (Phase.DONE, 0)
    assert "only the first rows" in end.message
    assert frame.filter("true").count() == ROWS
    assert listener.wait_end(2).rows == ROWS
    assert len(listener.trackers) == 2


def test_rows_read_twice_count_twice(
    spark: SparkSession, slow: Connection, numbers: str, listener: Listener
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=2, progress=listener)
    assert frame.union(frame).count() == 2 * ROWS
    end = listener.wait_end()
    assert (end.phase, end.rows, end.rows_total) == (Phase.DONE, 2 * ROWS, 2 * ROWS)


@pytest.mark.nightly
def test_a_failed_job_ends_its_run_as_failed(
    spark: SparkSession, slow: Connection, numbers: str, listener: Listener
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=4, progress=listener)
    last = f"if(id = {ROWS - 1}, raise_error('no luck'), id) id"
    with pytest.raises(Exception, match="no luck"):
        frame.selectExpr(last).agg({"id": "sum"}).collect()
    end = listener.wait_end()
    assert end.phase is Phase.FAILED
    assert end.rows == ROWS * 3 // 4


@pytest.mark.storage_api("its requests")
@pytest.mark.nightly
def test_retries_and_resumes_are_reported(
    spark: SparkSession, slow: Connection, numbers: str, listener: Listener
) -> None:
    scan = slow.table(numbers).read(splits=1)
    frame = scan.to_spark(spark, progress=listener)
    # Rules for this session only: tasks of the previous test's failed job may still be reading.
    session = scan.session_id
    misbehave(
        slow,
        {"action": "TableRead", "session": session, "fault": "close"},
        {"action": "TableRead", "session": session, "fault": "cut", "at": MIDDLE},
    )
    assert frame.filter("true").count() == ROWS
    assert injected(slow) == [1, 1]
    end = listener.wait_end()
    # A cut response is resumed if rows had arrived; otherwise it counts as a retry.
    assert (end.rows, end.retries + end.resumes) == (ROWS, 2)
    assert end.retries >= 1
    assert end.events


@pytest.mark.storage_api("blobs")
def test_blobs_and_writes_are_reported(
    spark: SparkSession,
    odps: Connection,
    listener: Listener,
    new_name: Callable[[str], str],
) -> None:
    media = odps_nb.spark.read(spark, odps, "media", columns=["id", "content"], progress=silent)
    sizes = odps_nb.spark.blob_map(
        media, odps, "content", lambda blob: (len(blob.data),), "size int", progress=listener
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
    assert (end.tasks, end.tasks_total) == (3, 3)
    assert end.session_id == receipt.session_id
    assert len(writing.trackers) == 1


def test_finished_tasks_are_counted_before_the_status_of_spark_changes(
    spark: SparkSession, odps: Connection, new_name: Callable[[str], str]
) -> None:
    name, shown = new_name("behind"), Listener()
    odps.create_table(name, "id bigint")
    with status_stopped_at_first_task(spark):
        odps_nb.spark.write(spark.range(0, 5000, 1, 3), odps, name, progress=shown)
        end = shown.wait_end()
    assert (end.tasks, end.tasks_total) == (3, 3)


def test_the_stop_button_of_a_card_ends_the_job_and_every_connection(
    spark: SparkSession,
    slow: Connection,
    slow_service: LocalService,
    numbers: str,
    stoppable: Stoppable,
    gate: Path,
) -> None:
    before = established(slow_service)
    frame = odps_nb.spark.read(spark, slow, numbers, splits=4, progress=True)
    action = Action(gated(frame, gate, free=2).count)
    stoppable.wait_until(lambda snapshot: snapshot.tasks == 2)
    if pyspark_version() < (4, 0):  # Spark does not tag the jobs of a query: there is no button
        assert stoppable.cancels == []
        gate.touch()
        assert action.result() == ROWS
        return
    stoppable.cancels[0]()
    with pytest.raises(Exception, match="cancel"):
        action.result()
    wait_for_connections(slow_service, lambda count: count <= before + 2)  # those of workers
    end = stoppable.wait_end()
    assert (end.phase, end.rows) == (Phase.CANCELLED, ROWS // 2)
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []


@pytest.mark.nightly
@pytest.mark.usefixtures("far")
def test_an_interrupted_cell_cancels_its_actions_even_without_a_card(
    spark: SparkSession, slow: Connection, numbers: str, stoppable: Stoppable, gate: Path
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=4, progress=True)
    shown = Action(gated(frame, gate, free=2).count)
    stoppable.wait_until(lambda snapshot: snapshot.tasks == 2)
    first, others = gate.with_name("first"), gate.with_name("others")
    # After a cancel, Spark 4.0 may repeat a task (CancelledKeyException): any of three may finish.
    unseen = Action(gated(gated(frame, first), others, free=3).count)
    while len(spark.sparkContext.statusTracker().getActiveJobsIds()) < 2:
        pass
    runs_of(spark.sparkContext).end_cell(KeyboardInterrupt())
    with pytest.raises(Exception, match="cancel"):
        shown.result()
    assert stoppable.wait_end().phase is Phase.CANCELLED
    first.touch()
    with pytest.raises(Exception, match="cancel"):  # once its first task has finished
        unseen.result()
    assert len(stoppable.trackers) == 1


@pytest.mark.gate(1)
@pytest.mark.parametrize("reports", [False, True])
def test_an_interrupted_cell_does_not_affect_actions_of_other_cells(
    spark: SparkSession,
    slow: Connection,
    numbers: str,
    listener: Listener,
    gate: Path,
    *,
    reports: bool,
) -> None:
    """An action runs while it has an active job, even if no task of the job has reported."""
    frame = odps_nb.spark.read(spark, slow, numbers, splits=1, progress=listener)
    rest = frame if reports else spark.range(0, ROWS, 1, 1)
    later = gated(rest, gate).repartition(1)  # a separate stage; with AQE, also a separate job
    action = Action(frame.repartition(1).union(later).count)
    listener.wait_until(lambda snapshot: snapshot.rows == ROWS)
    runs = runs_of(spark.sparkContext)
    assert spark.sparkContext.statusTracker().getActiveJobsIds()
    runs.end_cell()  # the action's cell ends, and the next one is interrupted
    runs.end_cell(KeyboardInterrupt())
    assert listener.ends == [] or pyspark_version() < (4, 0)  # Spark 3.5 does not tag jobs
    gate.touch()
    assert action.result() == 2 * ROWS
    assert listener.wait_end().phase is Phase.DONE


def test_an_interrupt_cancels_a_watched_action(
    spark: SparkSession, slow: Connection, numbers: str, stall: Callable[..., None]
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=2, progress=Listener())
    stall("TableRead", at=MIDDLE)
    listener = Listener()
    job: list[Action] = []

    def interrupted() -> None:
        with (
            ProgressTracker("spark", "count", listener=listener) as tracker,
            actions.watched(spark, tracker),
        ):
            tag = next(iter(spark.sparkContext.getJobTags()))

            def count() -> int:
                spark.sparkContext.addJobTag(tag)
                return frame.filter("true").count()

            job.append(Action(count))
            wait_until_injected(slow, 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(Exception, match="cancel"):
        job[0].result()
    assert listener.wait_end().phase is Phase.CANCELLED
    assert list(spark.sparkContext.getJobTags()) == []


@pytest.mark.gate(1)
@pytest.mark.parametrize("seen", [True, False])
def test_a_watched_action_is_cancelled_by_its_token(
    spark: SparkSession, slow: Connection, numbers: str, stall: Callable[..., None], *, seen: bool
) -> None:
    frame = odps_nb.spark.read(spark, slow, numbers, splits=2, progress=Listener())
    stall("TableRead", at=MIDDLE)
    listener, token = Listener(), CancelToken()

    def count() -> int:
        with (
            ProgressTracker("spark", "count", listener=listener) as tracker,
            actions.watched(spark, tracker, cancel=token, seen=seen),
        ):
            return frame.filter("true").count()

    action = Action(count)
    wait_until_injected(slow, 2)
    token.cancel()
    with pytest.raises(CancelledError):
        action.result()
    assert listener.wait_end().phase is Phase.CANCELLED
    with pytest.raises(CancelledError):  # a cancelled token starts no action
        count()


def test_a_cancelled_write_is_aborted(
    spark: SparkSession,
    slow: Connection,
    new_name: Callable[[str], str],
    stoppable: Stoppable,
    stall: Callable[..., None],
) -> None:
    name = new_name("unwritten")
    slow.create_table(name, "id bigint")
    stall("TableWrite")
    action = Action(lambda: odps_nb.spark.write(spark.range(0, 100, 1, 2), slow, name))
    wait_until_injected(slow, 2)
    stoppable.cancels[0]()
    with pytest.raises(CancelledError):
        action.result()
    end = stoppable.wait_end()
    assert (end.phase, end.rows) == (Phase.CANCELLED, 0)
    assert slow.table(name).read().row_count == 0


def test_cancelling_a_connection_stops_its_spark_jobs(
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
        ("TableRead", query.to_arrow),  # no display, because a test is not a terminal
        ("TableWrite", lambda: odps_nb.spark.write(spark.range(100), slow, name)),
    ):
        stall(call)
        action = Action(work)
        wait_until_injected(slow)
        slow.cancel()
        with pytest.raises(CancelledError):
            action.result()
    assert slow.table(name).read().row_count == 0


@pytest.mark.nightly
def test_disabled_progress_counts_nothing(
    spark: SparkSession, slow: Connection, numbers: str
) -> None:
    for progress in (silent, False, None):  # a test is not a terminal
        assert actions.counter_of(spark, _activity(), progress) is None
    frame = odps_nb.spark.read(spark, slow, numbers, splits=2, progress=silent)
    assert frame.filter("true").count() == ROWS
    assert runs_of(spark.sparkContext)._running == []


def _activity() -> Activity:
    return Activity(operation="read", title="t", phase=Phase.READING, rows_total=30)


def _part(activity: Activity, number: int, rows: int, **other: int) -> Part:
    counts = tuple(rows if name == "rows" else 0 for name in COUNTERS)
    place = {"stage": 5, "partition": number, **other}
    return Part(
        activity=activity,
        listener=1,
        query="",
        group=None,
        tag="",
        number=number,
        counts=counts,
        request="",
        event="",
        elapsed=0.0,
        **place,
    )


def test_a_recomputed_task_counts_once_and_a_task_of_another_stage_counts_again() -> None:
    activity, tracker = _activity(), ProgressTracker("read", "t")
    run = _Run(tracker)
    run.add(_part(activity, 0, 10))
    run.add(_part(activity, 0, 10))  # its output was lost: the same task of the same stage
    run.add(_part(activity, 1, 20))
    assert (tracker.rows, tracker.snapshot().rows_total) == (30, 30)
    run.add(_part(activity, 0, 10, stage=6))  # a sort samples its input first
    run.add(_part(activity, 1, 20, stage=6))
    assert (tracker.rows, tracker.snapshot().rows_total) == (60, 60)


def test_only_successful_tasks_are_counted() -> None:
    class Values:
        added: ClassVar[list[object]] = []

        def add(self, more: list[object]) -> None:
            self.added.extend(more)

    counter: Any = TaskCounter(Values(), 1, _activity())  # type: ignore[arg-type]
    with pytest.raises(RuntimeError), counted(counter):
        raise RuntimeError
    assert Values.added == []
    with counted(counter) as tracker:
        assert tracker is not None
        tracker.add(rows=3)
    (part,) = Values.added
    assert isinstance(part, Part)
    assert dict(zip(COUNTERS, part.counts, strict=True))["rows"] == 3
