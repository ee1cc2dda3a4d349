"""The listener of reports over real sockets: what is counted, what is refused, how it ends."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.errors import CancelledError
from odps_nb.spark.progress import server as reports
from odps_nb.spark.progress.coordinator import ProgressCoordinator
from odps_nb.spark.progress.jobs import Outcome
from odps_nb.spark.progress.messages import MAX_LINE, STOP, ReportTo, encode
from odps_nb.spark.progress.task_client import TaskReporter
from tests.support.spark.coordinators import (
    Listener,
    SomeJobs,
    connected,
    figures,
    hello,
    hello_line,
    is_refused,
    read_activity,
)
from tests.support.spark.watched import WITHIN


def test_a_run_begins_with_a_report_and_ends_when_its_stage_and_tasks_have(
    coordinator: ProgressCoordinator, jobs: SomeJobs, listener: Listener
) -> None:
    to = coordinator.register(read_activity(listener))
    assert to.host == "127.0.0.1"
    jobs.active = {5}
    for part in (0, 1):
        with connected(to, hello_line(to, part), figures(10, done=True)):
            pass
    coordinator.settle()
    assert listener.ends == []  # the stage goes on
    jobs.active = set()
    end = listener.wait_end()
    assert (end.phase, end.rows, end.message) == (Phase.DONE, 20, "")
    assert len(listener.trackers) == 1


def test_the_end_of_a_cell_ends_what_is_over_at_once(
    coordinator: ProgressCoordinator, listener: Listener
) -> None:
    to = coordinator.register(read_activity(listener))
    with connected(to, hello_line(to), figures(10)) as link:
        link.shutdown(socket.SHUT_WR)
        assert is_refused(link)  # it has been read to its end
    coordinator.settle()
    (end,) = listener.ends
    assert (end.phase, end.rows) == (Phase.DONE, 10)
    assert end.message == "0 of 2 parts were read to the end; no more was needed"


@pytest.mark.parametrize(
    ("ended", "phase"),
    [(Outcome.FAILED, Phase.FAILED), (Outcome.CANCELLED, Phase.CANCELLED)],
)
def test_a_job_that_failed_or_was_cancelled_says_so(
    coordinator: ProgressCoordinator,
    jobs: SomeJobs,
    listener: Listener,
    ended: Outcome,
    phase: Phase,
) -> None:
    to, jobs.ended = coordinator.register(read_activity(listener)), ended
    with connected(to, hello_line(to), figures(10)):
        pass
    assert listener.wait_end().phase is phase


def test_what_comes_late_is_refused_and_another_stage_is_another_run(
    coordinator: ProgressCoordinator, listener: Listener
) -> None:
    to = coordinator.register(read_activity(listener))
    with connected(to, hello_line(to), figures(10, done=True)):
        pass
    listener.wait_end()
    with connected(to, hello_line(to, 1), figures(99)) as link:
        assert is_refused(link)
    assert len(listener.trackers) == 1
    with connected(to, hello_line(to, stage=6), figures(7)):
        pass
    assert listener.wait_end(2).rows == 7


@pytest.mark.parametrize(
    "lines",
    [
        lambda to: [encode(hello(to), "0" * 32), figures(9)],
        lambda to: [b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"],
        lambda to: [b"x" * MAX_LINE],
        lambda to: [hello_line(ReportTo(to.host, to.port, to.token, 77))],
        lambda to: [hello_line(to, 2)],
        lambda to: [figures(9)],
    ],
    ids=["another token", "http", "no line", "no such activity", "no such split", "no hello"],
)
def test_what_is_no_report_of_ours_is_refused_and_counted_nowhere(
    coordinator: ProgressCoordinator,
    listener: Listener,
    lines: Callable[[ReportTo], list[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reports, "HELLO_WITHIN", 600.0)  # refused for what it is, not for its time
    to = coordinator.register(read_activity(listener))
    with connected(to, *lines(to)) as link:
        assert is_refused(link)
    with connected(to, hello_line(to), figures(3)):
        pass
    assert listener.wait_end().rows == 3
    assert len(listener.trackers) == 1


def test_lines_are_the_same_however_the_bytes_are_cut(
    coordinator: ProgressCoordinator, listener: Listener
) -> None:
    to = coordinator.register(read_activity(listener))
    lines = b"".join((hello_line(to), figures(3), figures(8), figures(20, done=True)))
    for size in (1, 7, len(lines) - 1):
        with connected(to) as link:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for start in range(0, len(lines), size):
                link.sendall(lines[start : start + size])
            link.shutdown(socket.SHUT_WR)
            assert is_refused(link)  # all was read
        coordinator.settle()
        end = listener.ends.pop()
        assert (end.rows, end.splits[0].done) == (20, True)
        to = coordinator.register(read_activity(listener))
        lines = lines.replace(lines.split(b"\n")[0] + b"\n", hello_line(to))


@pytest.mark.parametrize("line", [b"{}\n", b"\xff\n", b"y" * 2 * MAX_LINE])
def test_garbage_after_good_reports_ends_the_connection_and_keeps_what_was_told(
    coordinator: ProgressCoordinator, listener: Listener, line: bytes
) -> None:
    to = coordinator.register(read_activity(listener))
    with connected(to, hello_line(to), figures(3), line, figures(50)) as link:
        assert is_refused(link)
    assert listener.wait_end().rows == 3


def test_connections_are_bounded(
    coordinator: ProgressCoordinator, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "MAX_CONNECTIONS", 1)
    to = coordinator.register(read_activity(listener))
    with connected(to, hello_line(to), figures(3)):
        with listener.changed:
            assert listener.changed.wait_for(lambda: listener.trackers, WITHIN)
        with connected(to) as second:
            assert is_refused(second)


def test_who_never_says_hello_is_let_go(
    coordinator: ProgressCoordinator, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "HELLO_WITHIN", 0.0)
    with connected(coordinator.register(read_activity(listener))) as link:
        assert is_refused(link)


def test_a_cancelled_run_stops_its_jobs_and_tells_its_tasks(
    coordinator: ProgressCoordinator, jobs: SomeJobs, listener: Listener
) -> None:
    to, jobs.active = coordinator.register(read_activity(listener)), {5}
    with connected(to, hello_line(to), figures(3)) as link:
        with listener.changed:
            assert listener.changed.wait_for(lambda: listener.trackers, WITHIN)
        assert listener.on_cancel is not None
        listener.on_cancel()
        assert link.recv(10) == STOP
        assert jobs.cancelled == [5]
        # a task that begins now hears it, too
        with connected(to, hello_line(to, 1)) as late:
            assert late.recv(10) == STOP
    assert listener.wait_end().phase is Phase.CANCELLED


@pytest.mark.parametrize("error", [KeyboardInterrupt(), CancelledError("stopped")])
def test_an_interrupt_of_the_cell_cancels_its_run_and_what_has_not_begun_to_report(
    coordinator: ProgressCoordinator, jobs: SomeJobs, listener: Listener, error: BaseException
) -> None:
    to, jobs.active = coordinator.register(read_activity(listener)), {5, 8}
    reporter = TaskReporter(to, hello(to))
    tracker = ProgressTracker("read", "t", listener=reporter)
    with tracker:
        tracker.add(rows=4)
        with listener.changed:
            assert listener.changed.wait_for(lambda: listener.trackers, WITHIN)
        coordinator.settle(error)
        while not reporter.cancel.wait(0.1):
            pass
    end = listener.wait_end()
    assert (end.phase, jobs.cancelled) == (Phase.CANCELLED, [5])
    with connected(to, hello_line(to, stage=8)) as link:
        assert link.recv(10) == STOP
    assert jobs.cancelled == [5, 8]
    assert len(listener.trackers) == 1


def test_an_interrupt_leaves_alone_what_an_earlier_cell_began(
    coordinator: ProgressCoordinator, jobs: SomeJobs, listener: Listener
) -> None:
    to, jobs.active = coordinator.register(read_activity(listener)), {5}
    with connected(to, hello_line(to)):
        with listener.changed:
            assert listener.changed.wait_for(lambda: listener.trackers, WITHIN)
        coordinator.settle()
        coordinator.settle(KeyboardInterrupt())
        assert jobs.cancelled == []


def test_a_watched_action_gets_the_reports_of_its_jobs_and_ends_its_tracker_itself(
    coordinator: ProgressCoordinator, jobs: SomeJobs, listener: Listener
) -> None:
    to, tag = coordinator.register(read_activity(listener)), "odps-nb-1"
    with ProgressTracker("spark", "query") as tracker:
        run = coordinator.adopt(tracker, tag=tag, to=None)
        mine = hello(to, tags=("odps-nb-0", tag))
        with connected(to, encode(mine, to.token), figures(4, done=True)) as link:
            link.shutdown(socket.SHUT_WR)
            assert is_refused(link)
        coordinator.release(run)
        assert tracker.snapshot().rows == 4
        assert not tracker.snapshot().phase.is_final
        with connected(to, encode(mine, to.token), figures(9)) as link:
            assert is_refused(link)
    assert listener.trackers == []


def test_a_listener_that_fails_ends_no_thread(
    coordinator: ProgressCoordinator, listener: Listener
) -> None:
    def broken(*, on_cancel: object = None) -> Listener:
        raise_at_start = Listener()
        raise_at_start.trackers = None  # type: ignore[assignment]  # start() fails on it
        return raise_at_start

    to = coordinator.register(read_activity(broken))  # type: ignore[arg-type]  # it is one
    with connected(to, hello_line(to)) as link:
        assert is_refused(link)
    good = coordinator.register(read_activity(listener))
    with connected(good, hello_line(good), figures(1)):
        pass
    assert listener.wait_end().rows == 1


def test_the_thread_and_the_port_end_with_spark(
    coordinator: ProgressCoordinator, jobs: SomeJobs, listener: Listener
) -> None:
    to, jobs.active = coordinator.register(read_activity(listener)), {5}
    with connected(to, hello_line(to), figures(3)) as link:
        with listener.changed:
            assert listener.changed.wait_for(lambda: listener.trackers, WITHIN)
        jobs.gone = True
        assert is_refused(link)
    end = listener.wait_end()
    assert (end.phase, end.rows, end.message) == (Phase.CANCELLED, 3, "Spark was stopped")
    with pytest.raises(OSError):  # noqa: PT011  # each system has another one
        socket.create_connection((to.host, to.port), 1).recv(1)


def test_a_task_whose_driver_is_gone_activities_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    to = ReportTo("127.0.0.1", port, "0" * 32, 1)
    with ProgressTracker("read", "t", listener=TaskReporter(to, hello(to))) as tracker:
        tracker.add(rows=1)
    assert tracker.snapshot().phase is Phase.DONE
