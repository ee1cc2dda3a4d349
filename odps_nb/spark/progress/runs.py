"""Shows the progress of Spark actions on our reads, writes and blob maps, one run per action.

A run is shown when its first task has started on this machine, or finished on another one
(`odps_nb.spark.progress.counting`). Spark's ``statusTracker`` reports the number of tasks. If a
task is recomputed in the same stage, its counts are replaced. Rows read in two stages (for example,
by a sort, which samples them first) are counted twice.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from odps_nb.access.progress import MakesListener, after_cell
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.errors import CancelledError
from odps_nb.lifetime import Home
from odps_nb.spark.progress.counting import (
    COUNTERS,
    Activity,
    Ended,
    Part,
    Reports,
    TaskCounter,
)
from odps_nb.spark.progress.starts import Starts

if TYPE_CHECKING:
    from pyspark import SparkContext

#: Maximum number of listeners to keep; the oldest one is dropped.
MAX_LISTENERS = 1024
_POLL = 0.2
_QUIET = 0.4  # seconds from a run's last task to the run's end, if no stage is active
_UNLISTED = 5.0  # seconds for which a stage that Spark does not list is assumed to be new
_SETTLE = 1.0
_FAILED = "the Spark job failed; see its error"
_NOT_COUNTED = "Spark needed only the first rows, which are not counted"

_log = logging.getLogger("odps_nb")
_RUNS: weakref.WeakKeyDictionary[SparkContext, Runs] = weakref.WeakKeyDictionary()


def runs_of(context: SparkContext) -> Runs:
    """Return the `Runs` of a context, created on first use."""
    runs = _RUNS.get(context)
    if runs is None:
        runs = _RUNS[context] = Runs(context)
        weakref.finalize(context, runs.close)  # also runs at exit, so that no card stays unfinished
    return runs


def _active_jobs(context: SparkContext, query: str) -> set[int]:
    """Return the active jobs of a query; empty before Spark 4.0, which does not tag them."""
    if not query:
        return set()
    tagged = context._jsc.sc().statusTracker().getJobIdsForTag(query)  # not in PySpark
    return set(tagged).intersection(context.statusTracker().getActiveJobsIds())


@dataclass(slots=True, eq=False)
class _Run:
    """The progress of one action. If the run is not ``owned``, the caller ends the tracker."""

    tracker: ProgressTracker
    owned: bool = False
    cell: int = 0
    activity: Activity | None = None
    query: str = ""
    group: str | None = None
    #: Partitions whose tasks have finished, by stage.
    finished: defaultdict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    ended: Ended | None = None
    cancelled: bool = False
    over: bool = False
    last: float = field(default_factory=time.monotonic)
    _parts: dict[tuple[str, int, int, int], tuple[int, ...]] = field(default_factory=dict)
    _reads: Counter[tuple[str, int]] = field(default_factory=Counter)
    _times: int = 0  # the most often read part has been read this many times
    _totals: dict[str, int | None] = field(default_factory=dict)

    @property
    def stages(self) -> set[int]:
        return set(self.finished)

    @property
    def has_counts(self) -> bool:
        return bool(self._parts)

    @property
    def commits(self) -> bool:
        return self.activity is not None and self.activity.commits

    def performs(self, part: Part) -> bool:
        """Whether a part belongs to this action."""
        if self.activity is None or self.activity.key != part.activity.key:
            return False
        return self.query == part.query and (bool(part.query) or part.stage in self.stages)

    def add(self, part: Part) -> None:
        """Add a task: its counts when it has finished, or only its stage when it has started."""
        self._totals[part.activity.key] = part.activity.rows_total
        if part.counts:
            self._count(part)
        self.finished[part.stage].update([part.partition] if part.counts else [])
        self.last = time.monotonic()
        known = [total for total in self._totals.values() if total is not None]
        total = max(1, self._times) * sum(known) if len(known) == len(self._totals) else None
        self.tracker.plan(session_id=part.activity.session_id, rows_total=total)

    def _count(self, part: Part) -> None:
        """Add the counts of a finished task, or replace those of an earlier computation."""
        key = part.activity.key, part.stage, part.partition, part.number
        before = self._parts.get(key)
        old = (0,) * len(COUNTERS) if before is None else before
        changes: dict[str, Any] = {
            name: new - known for name, new, known in zip(COUNTERS, part.counts, old, strict=True)
        }
        self.tracker.add(**changes)
        self.tracker.request(part.request)
        if part.event:
            self.tracker.noted(part.event)
        self._parts[key] = part.counts
        if before is None:
            reads = part.activity.key, part.number
            self._reads[reads] += 1
            self._times = max(self._times, self._reads[reads])


class Runs:
    """The running actions of one SparkContext; thread-safe."""

    def __init__(self, context: SparkContext) -> None:
        self._context = weakref.ref(context)
        receive = weakref.WeakMethod(self._receive)

        def pass_on(more: list[Part | Ended]) -> None:
            if (take := receive()) is not None:
                take(more)

        reports: Any = Reports(pass_on)
        self._reports = context.accumulator([], reports)
        self._starts = Starts(lambda text: pass_on([Part.from_json(text)]))
        self._lock, self._home = threading.RLock(), Home()
        self._starting = threading.Lock()  # held only briefly: Spark's scheduler waits for it
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._inbox: deque[Part | Ended] = deque()
        self._listeners: dict[int, MakesListener | _Run] = {}
        self._running: list[_Run] = []
        self._past: set[int] = set()  # stages of ended runs; their starts may be reported late
        self._to_cancel: frozenset[int] = frozenset()
        self._count = self._cell = 0
        self._detach: Callable[[], None] | None = None

    def counter(self, activity: Activity, listener: MakesListener) -> TaskCounter:
        """Return the counter for an activity; ``listener`` creates a display per action."""
        with self._lock:
            if self._detach is None:
                self._detach = after_cell(self.end_cell)
            return self._counter(activity, listener)

    def _counter(self, activity: Activity, listener: MakesListener | _Run) -> TaskCounter:
        self._count += 1
        self._listeners[self._count] = listener
        while len(self._listeners) > MAX_LISTENERS:
            del self._listeners[next(iter(self._listeners))]
        return TaskCounter(self._reports, self._count, activity, self._starts.address)

    @contextlib.contextmanager
    def watched(
        self, tracker: ProgressTracker, tag: str, activity: Activity | None
    ) -> Iterator[TaskCounter | None]:
        """Pass the counts of an activity, or of all jobs with the tag, to a tracker."""
        run = _Run(tracker, query=tag if activity is None else "")
        with self._lock:
            counter = None if activity is None else self._counter(activity, run)
            self._running.append(run)
        try:
            yield counter
        finally:
            with self._lock:
                self._take()
                with contextlib.suppress(Exception):  # Spark may have been stopped
                    self._count_tasks(run)
                self._running.remove(run)
                if counter is not None:
                    del self._listeners[counter.listener]

    # -- reports ------------------------------------------------------------------------------

    def _receive(self, more: list[Part | Ended]) -> None:
        # Spark's scheduler waits for this thread, so slow work runs in another thread.
        self._inbox += more
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="odps-nb-spark-progress", daemon=True
                )
                self._thread.start()
        self._wake.set()

    def _watch(self) -> None:
        while True:
            self._wake.clear()
            with self._lock:
                self._take()
                self._look_after()
            with self._starting:
                if not self._running and not self._inbox:
                    self._thread = None
                    return
            self._wake.wait(_POLL)

    def _take(self) -> None:
        while self._inbox:
            message = self._inbox.popleft()
            if isinstance(message, Ended):
                self._end_write(message)
            elif (run := self._find(message)) is not None:
                run.add(message)

    def _end_write(self, ended: Ended) -> None:
        for run in self._running:
            if run.activity is not None and run.activity.key == ended.activity.key:
                run.ended = ended
                self._end(run)
                return

    def _find(self, part: Part) -> _Run | None:
        known = self._listeners.get(part.listener)
        if isinstance(known, _Run):
            return known
        for run in self._running:
            if part.tag and run.query == part.tag:
                return run
            if run.performs(part):
                return run
        if not part.counts and part.stage in self._past:
            return None
        if part.stage in self._to_cancel:
            self._cancel_query(part.query)
            return None
        return None if known is None else self._begin(part, known)

    def _begin(self, part: Part, listener: MakesListener) -> _Run | None:
        def stop() -> None:
            run.cancelled = True
            self._cancel_query(run.query)

        activity = part.activity
        shown = listener(on_cancel=stop if part.query else None)
        tracker = ProgressTracker(
            activity.operation, activity.title, listener=shown, elapsed=part.elapsed
        )
        run = _Run(
            tracker,
            owned=True,
            cell=self._cell,
            activity=activity,
            query=part.query,
            group=part.group,
        )
        try:
            shown.start(tracker)
        except Exception:  # noqa: BLE001  an error in a user's listener must not end this thread
            _log.warning("the progress of %s is not shown", activity.title, exc_info=True)
            return None
        tracker.phase(activity.phase)
        tracker.plan(session_id=activity.session_id)
        self._running.append(run)
        return run

    # -- the end ------------------------------------------------------------------------------

    def end_cell(self, error: BaseException | None = None) -> None:
        """End a notebook cell's runs when the cell ends; after an interrupt, cancel the runs."""
        deadline = time.monotonic() + _SETTLE
        with self._lock:
            cell, self._cell = self._cell, self._cell + 1
            self._take()
            if isinstance(error, (KeyboardInterrupt, CancelledError)):
                self._interrupt(cell)
        while True:
            with self._lock:
                self._take()
                here = [run for run in self._running if run.owned and run.cell == cell]
                for run in here:
                    may_commit = run.commits and not (run.cancelled or self._has_failed(run))
                    if not may_commit and self._has_ended(run):
                        self._end(run)
            if all(run.over for run in here) or time.monotonic() > deadline:
                return
            time.sleep(_POLL / 10)

    def _interrupt(self, cell: int) -> None:
        known = {stage for run in self._running for stage in run.stages}
        other_runs = []
        for run in self._running:
            if run.owned and run.cell == cell:
                run.cancelled = True
                self._cancel_query(run.query)
            else:
                other_runs.append(run)
        # A job without a finished task has no run yet. The job is cancelled as soon as one of its
        # tasks finishes, unless it belongs to another cell or thread.

        def planned(context: SparkContext) -> list[int]:
            tracker = context.statusTracker()
            theirs = set[int]().union(*(_active_jobs(context, run.query) for run in other_runs))
            jobs = [tracker.getJobInfo(job_id) for job_id in {*tracker.getActiveJobsIds()} - theirs]
            stages = set[int]().union(*(run.stages for run in other_runs))
            groups = [job.stageIds for job in jobs if job is not None]
            return [stage_id for group in groups if stages.isdisjoint(group) for stage_id in group]

        self._to_cancel = frozenset(self._ask(planned, [])) - known

    def _look_after(self) -> None:
        if self._is_stopped:
            for run in [run for run in self._running if run.owned]:
                self._end(run)
            return
        now = time.monotonic()
        for run in list(self._running):
            self._count_tasks(run)
            if run.owned and now - run.last >= _QUIET and self._has_ended(run):
                if run.commits and not self._has_failed(run):
                    run.tracker.phase(Phase.COMMITTING)
                else:
                    self._end(run)

    def _count_tasks(self, run: _Run) -> tuple[int, int]:
        stages = [stage for stage in self._stages(run) if stage is not None]
        # Spark updates its counts in another thread, so a finished task may be missing from them
        done = sum(
            min(max(stage.numCompletedTasks, len(run.finished[stage.stageId])), stage.numTasks)
            for stage in stages
        )
        total = sum(stage.numTasks for stage in stages)
        if total:
            run.tracker.count_tasks(done, total)
        return done, total

    def _end(self, run: _Run) -> None:
        done, total = self._count_tasks(run)
        run.over = True
        self._past |= run.stages
        self._running.remove(run)
        phase, message = self._outcome(run, done, total)
        run.tracker.finish(phase, message=message)

    def _outcome(self, run: _Run, done: int, total: int) -> tuple[Phase, str]:
        if run.ended is not None and run.ended.phase is Phase.DONE:
            run.tracker.correct_rows(run.ended.rows)
            return Phase.DONE, ""  # the rows are committed, even if a cancel was requested
        if run.cancelled:
            return Phase.CANCELLED, ""
        if run.ended is not None:
            return Phase.FAILED, run.ended.message or _FAILED
        if self._is_stopped:
            return Phase.CANCELLED, "Spark was stopped"
        if run.commits or self._has_failed(run):
            return Phase.FAILED, _FAILED
        if not run.has_counts:
            return Phase.DONE, _NOT_COUNTED
        rest = f"{done} of {total} tasks were needed" if done < total else ""
        return Phase.DONE, rest

    def close(self) -> None:
        """End all runs. Idempotent; does nothing in a forked child."""
        if not self._home.is_here:
            return
        self._starts.close()
        with self._lock:
            detach, self._detach = self._detach, None
            for run in [run for run in self._running if run.owned]:
                self._end(run)
        if detach is not None:
            detach()

    # -- queries to Spark ---------------------------------------------------------------------

    @property
    def _is_stopped(self) -> bool:
        context = self._context()
        return context is None or getattr(context, "_jsc", None) is None

    def _stages(self, run: _Run) -> list[Any]:
        stages = sorted(run.stages)
        infos = self._ask(lambda c: [c.statusTracker().getStageInfo(n) for n in stages], [])
        return list(infos)

    def _has_ended(self, run: _Run) -> bool:
        """Whether all stages of the run have ended and their counts have been received."""
        return not self._is_active(run) and not self._inbox

    def _is_active(self, run: _Run) -> bool:
        """Whether the query of the run has an active job, or a stage too new for Spark to list."""
        active = self._ask(lambda context: context.statusTracker().getActiveStageIds(), [])
        is_new = time.monotonic() - run.last < _UNLISTED and None in self._stages(run)
        if is_new or run.stages.intersection(active):
            return True
        jobs = self._ask(lambda context: _active_jobs(context, run.query), set())
        return bool(jobs)  # a later stage of the query runs; its tasks have not reported yet

    def _has_failed(self, run: _Run) -> bool:
        """Whether the newest job with a stage of the run has failed."""

        def ask(context: SparkContext) -> bool:
            tracker = context.statusTracker()
            for job in sorted(tracker.getJobIdsForGroup(run.group), reverse=True):
                info = tracker.getJobInfo(job)
                if info is not None and run.stages.intersection(info.stageIds):
                    return info.status == "FAILED"
            return False

        return bool(self._ask(ask, False))

    def _cancel_query(self, tag: str) -> None:
        if tag:
            self._ask(lambda context: context.cancelJobsWithTag(tag), None)

    def _ask(self, question: Callable[[SparkContext], Any], otherwise: Any) -> Any:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types

        context = self._context()
        if context is None or self._is_stopped:
            return otherwise
        try:
            return question(context)
        except (Py4JError, OSError, AttributeError, TypeError):  # Spark has been stopped
            return otherwise
