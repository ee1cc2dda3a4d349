"""Maps task reports to runs of Spark actions, detects their end, and cancels them.

One coordinator for each SparkContext, with one listening port; `attach` makes it. A run begins
with the first report of an action and is over when none of its stages is active and none of its
tasks is connected. Spark says that late by moments, and a query may rest between two of its jobs:
so a run that nobody waits for ends after a short quiet, at the end of a notebook's cell at once.
What is reported after the end is late, and refused. A save of a data source ends when the process
that commits it says so.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from odps_nb.access.progress import after_cell
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.errors import CancelledError
from odps_nb.lifetime import Home
from odps_nb.spark.advice.words import advice_on
from odps_nb.spark.progress.jobs import Jobs, Outcome
from odps_nb.spark.progress.messages import Hello, PlanEvent, Report, ReportTo, WriteEvent
from odps_nb.spark.progress.server import Channel, ReportServer
from odps_nb.spark.progress.totals import Run, RunKey, Totals, TrackedActivity

__all__ = ["ProgressCoordinator"]

#: Works that are known; the least recently used one is forgotten.
MAX_ACTIVITIES = 1024
MAX_LATE = 1024
#: Seconds that a read takes at least to be advised on: to look at a plan takes up to 0.1 s.
WORTH_ADVICE = 0.5

_POLL = 0.2
_IDLE = 1.0
_SETTLE = 1.0

_log = logging.getLogger("odps_nb")


class _Attempt(NamedTuple):
    run: Run
    activity: TrackedActivity
    hello: Hello


class ProgressCoordinator:
    """Receives the reports of one SparkContext; thread-safe."""

    def __init__(self, jobs: Jobs, *, host: str = "127.0.0.1") -> None:
        self.jobs = jobs
        self._server = ReportServer(self, host=host)
        self._changed = threading.Condition(threading.RLock())
        self._home = Home()
        self._activities: OrderedDict[int, TrackedActivity] = OrderedDict()
        self._runs: dict[RunKey, Run] = {}
        self._ending: set[Run] = set()  # over, and not shown as such yet
        self._attempts: dict[Channel, _Attempt] = {}
        self._late: OrderedDict[tuple[RunKey, int], None] = OrderedDict()
        self._doomed: frozenset[int] = frozenset()
        self._count = self._cells = 0
        self._polled = 0.0
        self._detach: Callable[[], None] | None = None

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs that have not ended."""
        with self._changed:
            return tuple(self._runs.values())

    @property
    def token(self) -> str:
        """The secret that proves that a report is from our tasks."""
        return self._server.token

    # -- what may report ----------------------------------------------------------------------

    def register(self, activity: TrackedActivity) -> ReportTo:
        """Return where the tasks of an activity report; opens the port at the first call."""
        with self._changed:
            return ReportTo(*self._server.start(), self._server.token, self._keep(activity))

    def unregister(self, to: ReportTo | None) -> None:
        """Forget an activity; what it still reports is refused."""
        with self._changed:
            if to is not None:
                self._activities.pop(to.activity, None)

    def _keep(self, activity: TrackedActivity) -> int:
        self._count += 1
        self._activities[self._count] = activity
        while len(self._activities) > MAX_ACTIVITIES:
            self._activities.popitem(last=False)
        return self._count

    def _activity(self, number: int) -> TrackedActivity | None:
        if number in self._activities:
            self._activities.move_to_end(number)
        return self._activities.get(number)

    def watch_cells(self) -> None:
        """Settle at the end of each notebook cell; later calls change nothing."""
        with self._changed:
            if self._detach is None:
                self._detach = after_cell(self.settle)

    def adopt(self, tracker: ProgressTracker, *, tag: str, to: ReportTo | None) -> Run:
        """Send the reports to an address, or of all jobs with a tag, to a given tracker."""
        key = ("tag", tag) if to is None else _of_activity(to.activity)
        with self._changed:
            self._server.start()
            totals = Totals(tracker, several=to is None)
            run = Run(key=key, totals=totals, owned=False, cell=self._cells, tag=tag)
            self._runs[key] = run
            return run

    # -- the server's calls -------------------------------------------------------------------

    def on_hello(self, channel: Channel, hello: Hello) -> bool:
        """Find or begin the run of an attempt; refuse one that comes late."""
        with self._changed:
            activity = self._activity(hello.activity)
            if activity is None or not activity.has(hello.part):
                return False
            if hello.stage in self._doomed:
                self.jobs.cancel_stages([hello.stage])
                channel.stop()
                return True  # it hears that best over a connection that stays; nobody counts it
            run = self._find(hello, activity)
            if run is None or not run.totals.open(activity, hello):
                return False
            self._attempts[channel] = _Attempt(run, activity, hello)
            run.channels.add(channel)
            run.touch()
            if run.cancelled:
                channel.stop()
            return True

    def on_report(self, channel: Channel, report: Report) -> None:
        """Add up what an attempt reports."""
        with self._changed:
            attempt = self._attempts.get(channel)
            if attempt is not None:
                attempt.run.totals.add(attempt.activity, attempt.hello, report)
                attempt.run.touch()

    def on_close(self, channel: Channel) -> None:
        """Record that an attempt has disconnected."""
        with self._changed:
            attempt = self._attempts.pop(channel, None)
            if attempt is not None:
                attempt.run.channels.discard(channel)
                attempt.run.touch()
                self._changed.notify_all()

    def on_planner_event(self, event: PlanEvent | WriteEvent) -> int:
        """Register a planned activity, or record a commit; return its activity's number, or 0."""
        with self._changed:
            if isinstance(event, PlanEvent):
                session = self._activity(event.activity)
                if session is None or session.operation:
                    return 0
                return self._keep(session.planned(event))
            run = self._runs.get(_of_activity(event.activity))
            if run is None or not run.commits:
                return 0  # nothing was written, or it has ended
            run.commit = event
            run.touch()
        if event.phase.is_final:
            self._end(run)
        else:
            run.totals.tracker.phase(event.phase)
        return event.activity

    def on_tick(self) -> float:
        """Check the running runs for their end; return the seconds until the next look."""
        now = time.monotonic()
        if self.jobs.stopped:
            self.close()
            return 0.0
        running = self.runs
        if not running:
            return _IDLE
        if now - self._polled >= _POLL:
            self._polled = now
            self._look_after(running, now)
        return _POLL

    # -- beginning ----------------------------------------------------------------------------

    def _find(self, hello: Hello, activity: TrackedActivity) -> Run | None:
        # A job that is no query of Spark SQL has no number; its stage is as good.
        action = hello.execution or f"stage {hello.stage}"
        own: RunKey = ("action", str(hello.activity), action)
        whole = _of_activity(hello.activity)
        for key in (*(("tag", tag) for tag in hello.tags), whole, own):
            if (key, hello.stage) in self._late:
                return None
            if key in self._runs:
                return self._runs[key]
        if activity.listener is None:
            return None
        return self._begin(whole if activity.commits else own, activity, hello.execution)

    def _begin(self, key: RunKey, activity: TrackedActivity, execution: str) -> Run | None:
        def cancel() -> None:
            self.cancel(run)

        def clock() -> float:
            return run.clock() if run else time.monotonic()

        run: Run | None = None
        tracker, listener = activity.tracker(clock=clock, on_cancel=cancel)
        run = Run(
            key=key,
            totals=Totals(tracker),
            owned=True,
            cell=self._cells,
            execution=execution,
            query=self.jobs.query(execution) if activity.asked is not None else None,
            asked=activity.asked,
            commits=activity.commits,
        )
        try:
            listener.start(tracker)
        except Exception:  # noqa: BLE001  # a person's listener must not end this thread
            _log.warning("the progress of %s is not shown", activity.title, exc_info=True)
            return None
        tracker.phase(activity.phase)
        self._runs[key] = run
        self._polled = 0.0  # its job is known best while it runs
        return run

    # -- the end ------------------------------------------------------------------------------

    def cancel(self, run: Run | None) -> None:
        """Stop a run: its tasks close their connections, its jobs end. Idempotent."""
        if run is None:
            return
        with self._changed:
            run.cancelled = True
            channels, stages = list(run.channels), set(run.totals.stages)
        # The jobs first, or Spark would begin the tasks again that say they were stopped.
        self.jobs.cancel_stages(stages)
        if run.tag:
            self.jobs.cancel_tag(run.tag)
        for channel in channels:
            channel.stop()

    def settle(self, error: BaseException | None = None) -> None:
        """End the runs that are over, at the end of a cell (with its error, if any).

        What commits says itself when it is over, unless it was cancelled before.
        An interrupt of the cell cancels the runs that began in it.
        """
        if isinstance(error, (KeyboardInterrupt, CancelledError)):
            self._interrupt()
        with self._changed:
            cell, self._cells = self._cells, self._cells + 1
        deadline = time.monotonic() + _SETTLE
        while (waiting := self._of_cell(cell)) and time.monotonic() < deadline:
            active = self.jobs.active_stages()
            for run in waiting:
                if run.channels or run.totals.stages & active:
                    continue
                if run.commit is None and (run.cancelled or not run.commits):
                    self._end(run)
            with self._changed:
                if self._of_cell(cell):
                    self._changed.wait(0.02)

    def _of_cell(self, cell: int) -> list[Run]:
        with self._changed:
            found = (*self._runs.values(), *self._ending)
            return [run for run in found if run.owned and run.cell == cell]

    def _interrupt(self) -> None:
        with self._changed:
            # A watched action sees the interrupt itself, unless it runs in another thread.
            here = self._of_cell(self._cells)
            known = {stage for run in self._runs.values() for stage in run.totals.stages}
        for run in here:
            self.cancel(run)
        # A job whose tasks have not said hello yet is cancelled when they do.
        self._doomed = self.jobs.active_stages() - known

    def release(self, run: Run) -> None:
        """Wait a moment for the last reports of a watched action, and take no more."""
        with self._changed:
            self._changed.wait_for(lambda: not run.channels, _SETTLE)
            self._forget(run)

    def _look_after(self, running: tuple[Run, ...], now: float) -> None:
        active = self.jobs.active_stages()
        for run in running:
            mine = run.totals.stages & active
            found = self.jobs.active_jobs(known=run.jobs) if mine else {}
            run.jobs.update(job for job, stages in found.items() if stages & run.totals.stages)
            if run.cancelled and (mine or run.tag):  # another job may have begun meanwhile
                self.cancel(run)
            if mine:
                run.last_seen = now
            elif run.owned and now - run.last_seen >= run.patience and not self._may_commit(run):
                self._end(run)

    def _may_commit(self, run: Run) -> bool:
        # Spark starts the process that commits when all tasks are done: that can take long.
        return run.commits and not run.cancelled and self.jobs.executing(run.execution)

    def _end(self, run: Run) -> None:
        with self._changed:
            if self._runs.get(run.key) is not run:
                return
            run.ended_at = run.last_report
            self._forget(run)
            self._ending.add(run)
        phase, message = self._how(run)
        if phase is Phase.DONE:
            message = "; ".join(filter(None, (message, self._advice(run))))
        run.totals.tracker.finish(phase, message=message)
        with self._changed:
            self._ending.discard(run)
            self._changed.notify_all()

    def _how(self, run: Run) -> tuple[Phase, str]:
        totals, commit = run.totals, run.commit
        if commit is not None and commit.phase is Phase.DONE:
            totals.tracker.correct_rows(commit.rows)
            return Phase.DONE, ""  # whatever was asked meanwhile: the rows are there
        if run.cancelled:
            return Phase.CANCELLED, ""
        if commit is not None and commit.phase is Phase.FAILED:
            return Phase.FAILED, commit.message
        done, planned = totals.parts_done, totals.parts_planned
        if done >= planned and not run.commits:
            return Phase.DONE, ""
        if self.jobs.stopped:
            return Phase.CANCELLED, "Spark was stopped"
        outcome = self.jobs.outcome(run.jobs, totals.stages)
        if outcome is Outcome.CANCELLED:
            return Phase.CANCELLED, ""
        if outcome is Outcome.FAILED or run.commits:
            return Phase.FAILED, "the Spark job failed; its error says why"
        return Phase.DONE, f"{done} of {planned} parts were read to the end; no more was needed"

    def _advice(self, run: Run) -> str:
        """Say what a read that took its time could have left out; empty if nothing is known."""
        elapsed = (run.ended_at or run.last_report) - run.began
        if run.asked is None or run.query is None or elapsed < WORTH_ADVICE:
            return ""
        try:
            plan = self.jobs.optimized_plan(run.query)
            return advice_on(plan, run.asked) if plan else ""
        except Exception:  # noqa: BLE001  # what nobody asked for must not end this thread
            _log.debug("the plan of a read of Spark is not understood", exc_info=True)
            return ""

    def _forget(self, run: Run) -> None:
        if self._runs.get(run.key) is run:
            del self._runs[run.key]
        for channel in run.channels:
            self._attempts.pop(channel, None)
        for stage in run.totals.stages:
            self._late[run.key, stage] = None
        while len(self._late) > MAX_LATE:
            self._late.popitem(last=False)

    def close(self) -> None:
        """End all runs, the port and the thread. Idempotent; a forked child ends nothing."""
        if not self._home.is_here:
            return
        with self._changed:
            detach, self._detach = self._detach, None
            running = self.runs
            self._activities.clear()
        if detach is not None:
            detach()
        for run in running:
            if run.owned:
                self._end(run)
        self._server.close()


def _of_activity(number: int) -> RunKey:
    """Return the key of a run that has an activity for itself."""
    return "activity", str(number)
