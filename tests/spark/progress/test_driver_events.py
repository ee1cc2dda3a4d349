"""What Spark's planner processes send to the driver: plans, and how a write ended."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from odps_nb.client.calls.progress import Phase
from odps_nb.client.read.splits import ReadSession
from odps_nb.client.write.session import WriteSessionRef
from odps_nb.errors import ConflictError
from odps_nb.schema import TableSchema
from odps_nb.spark.progress import totals
from odps_nb.spark.progress.driver_events import (
    announce_read,
    announce_write,
    report_abandoned,
    reported_commit,
)
from odps_nb.spark.progress.jobs import Outcome
from odps_nb.spark.progress.messages import ReportTo
from odps_nb.spark.progress.totals import TrackedActivity
from odps_nb.spark.reading.split_list import SplitList
from odps_nb.terms import TableName
from tests.support.spark.coordinators import Listener, SomeJobs, connected, figures, hello_line
from tests.support.spark.watched import WITHIN

if TYPE_CHECKING:
    from odps_nb.spark.progress.coordinator import ProgressCoordinator

TABLE = TableName(project="p", table="t")
SESSION = ReadSession(
    session_id="s", table=TABLE, schema=TableSchema(columns=()), splits=(), row_count=400
)
FOUR = SplitList(4, 400)


@pytest.fixture
def root(coordinator: ProgressCoordinator, listener: Listener) -> ReportTo:
    """Where planners of a session speak."""
    whole = TrackedActivity(operation="", title="", phase=Phase.CREATING, listener=listener)
    return coordinator.register(whole)


def read_of(root: ReportTo) -> ReportTo:
    to = announce_read(root, SESSION, FOUR)
    assert to is not None
    return to


def write_of(root: ReportTo) -> ReportTo:
    to = announce_write(root, WriteSessionRef(table=TABLE, session_id="w"))
    assert to is not None
    return to


def written(to: ReportTo, listener: Listener, *parts: int) -> None:
    """Let tasks write ten rows each, to their end."""
    for part in parts:
        with connected(to, hello_line(to, part), figures(10, done=True)) as link:
            link.shutdown(socket.SHUT_WR)
            link.recv(1)
    assert len(listener.trackers) == 1


def test_a_planned_read_has_its_table_rows_and_splits(
    coordinator: ProgressCoordinator, root: ReportTo, listener: Listener
) -> None:
    to = read_of(root)
    assert to.activity != root.activity
    with connected(to, hello_line(to, 3), figures(100, done=True)):
        pass
    end = listener.wait_end()
    assert (end.operation, end.title, end.session_id) == ("read", "p.t", "s")
    assert (end.rows, end.rows_total, len(end.splits)) == (100, 400, 4)
    assert [split.rows_total for split in end.splits] == [100] * 4


def test_the_splits_of_a_server_are_counted_and_too_many_are_not(
    coordinator: ProgressCoordinator, root: ReportTo, listener: Listener
) -> None:
    for count, shown in ((2, 2), (1 << 18, 1)):
        to = announce_read(root, SESSION, SplitList(count))
        assert to is not None
        with connected(to, hello_line(to, 1), figures(9, done=True)):
            pass
        assert len(listener.wait_end(len(listener.trackers) or 1).splits) == shown
        listener.ends.clear()
        listener.trackers.clear()


def test_a_plan_needs_a_session_that_is_known(
    coordinator: ProgressCoordinator, root: ReportTo
) -> None:
    stranger = ReportTo(root.host, root.port, root.token, 99)
    assert announce_read(stranger, SESSION, FOUR) is None
    assert announce_write(stranger, WriteSessionRef(table=TABLE, session_id="w")) is None
    liar = ReportTo(root.host, root.port, "0" * 32, root.activity)
    assert announce_read(liar, SESSION, FOUR) is None
    # what was planned plans nothing itself
    assert announce_read(read_of(root), SESSION, FOUR) is None


def test_a_session_is_still_known_after_very_many_plans(
    coordinator: ProgressCoordinator, root: ReportTo
) -> None:
    numbers = {read_of(root).activity for _ in range(300)}
    assert len(numbers) == 300


def test_nobody_asked_and_nobody_there_is_no_trouble() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    for to in (None, ReportTo("127.0.0.1", port, "0" * 32, 1)):
        assert announce_read(to, SESSION, FOUR) is None
        assert announce_write(to, WriteSessionRef(table=TABLE, session_id="w")) is None
        report_abandoned(to)
        with reported_commit(to, rows=1):
            pass


def test_a_write_ends_with_its_commit_and_not_with_its_tasks(
    coordinator: ProgressCoordinator, root: ReportTo, listener: Listener
) -> None:
    to = write_of(root)
    written(to, listener, 0, 1)
    coordinator.settle()  # a cell has ended; the write may go on in a thread
    assert listener.ends == []
    with reported_commit(to, rows=15):
        (tracker,) = listener.trackers
        assert tracker.snapshot().phase is Phase.COMMITTING
        coordinator.settle(KeyboardInterrupt())  # too late
        assert listener.ends == []
    end = listener.wait_end()
    assert (end.operation, end.phase, end.rows) == ("write", Phase.DONE, 15)
    assert coordinator.runs == ()


def test_a_commit_that_raises_is_a_write_that_failed(
    coordinator: ProgressCoordinator, root: ReportTo, listener: Listener
) -> None:
    to = write_of(root)
    written(to, listener, 0)
    with pytest.raises(ConflictError), reported_commit(to, rows=10):
        raise ConflictError("taken")
    end = listener.wait_end()
    assert (end.phase, end.message) == (Phase.FAILED, "ConflictError: taken")
    report_abandoned(to)  # Spark's abort follows, and changes nothing
    assert len(listener.ends) == 1


@pytest.mark.parametrize(
    ("outcome", "phase"),
    [
        (Outcome.FAILED, Phase.FAILED),
        (Outcome.UNKNOWN, Phase.FAILED),
        (Outcome.CANCELLED, Phase.CANCELLED),
    ],
)
def test_a_write_that_is_given_up_ends_as_its_jobs_did(
    coordinator: ProgressCoordinator,
    jobs: SomeJobs,
    root: ReportTo,
    listener: Listener,
    outcome: Outcome,
    phase: Phase,
) -> None:
    to = write_of(root)
    written(to, listener, 0)
    jobs.ended = outcome
    report_abandoned(to)
    assert listener.wait_end().phase is phase


def test_a_write_that_was_cancelled_before_its_commit_is_over_with_the_cell(
    coordinator: ProgressCoordinator, root: ReportTo, listener: Listener
) -> None:
    to = write_of(root)
    written(to, listener, 0)
    coordinator.settle(KeyboardInterrupt())
    assert listener.ends[0].phase is Phase.CANCELLED


def test_a_write_of_which_nothing_more_is_heard_ends_in_the_end(
    coordinator: ProgressCoordinator,
    root: ReportTo,
    listener: Listener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(totals, "_UNDECIDED", 0.1)
    written(write_of(root), listener, 0)
    end = listener.wait_end()
    assert (end.phase, end.rows) == (Phase.FAILED, 10)


def test_a_write_whose_query_still_runs_waits_for_its_commit_however_late(
    coordinator: ProgressCoordinator,
    jobs: SomeJobs,
    root: ReportTo,
    listener: Listener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(totals, "_UNDECIDED", 0.0)
    to = write_of(root)
    jobs.running.add("1")
    written(to, listener, 0)
    assert all(jobs.asked.acquire(timeout=WITHIN) for _ in range(3))
    assert listener.ends == []
    with reported_commit(to, rows=10):
        pass
    end = listener.wait_end()
    assert (end.phase, end.rows) == (Phase.DONE, 10)


def test_a_commit_without_rows_is_nothing_to_show(
    coordinator: ProgressCoordinator, root: ReportTo, listener: Listener
) -> None:
    with reported_commit(write_of(root), rows=0):
        pass
    assert listener.trackers == []
