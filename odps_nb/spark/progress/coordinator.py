"""From reports to cards: which run a report belongs to, when a run is over, an end to it.

One hub for each SparkContext, with one listening port; `attach` makes it. A run
begins with the first report of an action and is over when none of its stages is active and none
of its tasks is connected. Spark says that late by moments, and a query may rest between two of
its jobs: so a run that nobody waits for ends after a short quiet, at the end of a notebook's cell
at once. What is reported after the end is late, and refused. A save of a data source ends when
the process that commits it says so.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from odps_nb.access.faces import AfterCell
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.errors import CancelledError
from odps_nb.lifetime import Home
from odps_nb.spark.progress.jobs import Jobs, Outcome
from odps_nb.spark.progress.messages import Report, ReportTo
from odps_nb.spark.progress.operations import Operation, OperationKey
from odps_nb.spark.progress.planner_messages import Plan, State
from odps_nb.spark.progress.server import Channel, ReportServer
from odps_nb.spark.progress.totals import Run, Source

__all__ = ["Hub"]

#: Sources whose reports find somebody; the oldest is forgotten.
MAX_SOURCES = 256
MAX_LATE = 1024

_POLL = 0.2
_IDLE = 1.0
_SETTLE = 1.0

_log = logging.getLogger("odps_nb")


class Hub:
    """What receives the reports of one SparkContext; thread-safe."""

    def __init__(self, jobs: Jobs, *, host: str = "127.0.0.1") -> None:
        self.jobs = jobs
        self._server = ReportServer(self, host=host)
        self._address: tuple[str, int] | None = None
        self._changed = threading.Condition(threading.RLock())
        self._home = Home()
        self._sources: OrderedDict[int, Source] = OrderedDict()
        self._planned: OrderedDict[int, Source] = OrderedDict()  # of those; Spark plans often
        self._operations: dict[OperationKey, Operation] = {}
        self._ending: set[Operation] = set()  # over, and not shown as such yet
        self._of: dict[Channel, Operation] = {}
        self._late: OrderedDict[tuple[OperationKey, int], None] = OrderedDict()
        self._doomed: frozenset[int] = frozenset()
        self._count = self._cells = 0
        self._polled = 0.0
        self._detach: Callable[[], None] | None = None

    @property
    def operations(self) -> tuple[Operation, ...]:
        """The runs that go on."""
        with self._changed:
            return tuple(self._operations.values())

    @property
    def token(self) -> str:
        """What proves that a report is of our tasks; a secret."""
        return self._server.token

    # -- what may report ----------------------------------------------------------------------

    def add(self, source: Source) -> ReportTo:
        """Return where the tasks of a source report; opens the port at the first call."""
        with self._changed:
            host, port = self._start()
            return ReportTo(host, port, self._server.token, self._keep(source, self._sources))

    def _keep(self, source: Source, among: OrderedDict[int, Source]) -> int:
        self._count += 1
        among[self._count] = source
        while len(among) > MAX_SOURCES:
            among.popitem(last=False)
        return self._count

    def _source(self, number: int) -> Source | None:
        return self._sources.get(number) or self._planned.get(number)

    def _start(self) -> tuple[str, int]:
        if self._address is None:
            self._address = self._server.start()
        return self._address

    def follow(self, after_cell: AfterCell) -> None:
        """Hear of the ends of a notebook's cells; once is enough."""
        with self._changed:
            if self._detach is None:
                self._detach = after_cell(self.settle)

    def remove(self, to: ReportTo | None) -> None:
        """Forget a source; what it still reports is refused."""
        with self._changed:
            if to is not None:
                self._sources.pop(to.source, None)

    def adopt(self, tracker: ProgressTracker, *, tag: str, to: ReportTo | None) -> Operation:
        """Let the reports to an address, or of all jobs with a tag, go to a given tracker."""
        key = ("tag", tag) if to is None else _of_source(to.source)
        with self._changed:
            self._start()
            run = Run(tracker, several=to is None)
            operation = Operation(key=key, run=run, ours=False, cell=self._cells, tag=tag)
            self._operations[key] = operation
            return operation

    # -- the server's calls -------------------------------------------------------------------

    def opened(self, channel: Channel) -> bool:
        """Find or begin the run of an attempt; refuse one that comes late."""
        hello = channel.hello
        assert hello is not None  # that is what the server calls us for
        with self._changed:
            source = self._source(hello.source)
            if source is None or not source.has(hello.part):
                return False
            if hello.stage in self._doomed:
                self.jobs.cancel_stages([hello.stage])
                channel.stop()
                return True  # it hears that best over a connection that stays; nobody counts it
            operation = self._find(channel, source)
            if operation is None or not operation.run.opened(source, hello):
                return False
            operation.channels.add(channel)
            operation.heard()
            self._of[channel] = operation
            if operation.cancelled:
                channel.stop()
            return True

    def reported(self, channel: Channel, report: Report) -> None:
        """Count what an attempt says."""
        hello = channel.hello
        assert hello is not None
        with self._changed:
            source = self._source(hello.source)
            operation = self._of.get(channel)
            if source is not None and operation is not None:
                operation.run.reported(source, hello, report)
                operation.heard()

    def closed(self, channel: Channel) -> None:
        """Take note that an attempt has gone."""
        with self._changed:
            operation = self._of.pop(channel, None)
            if operation is not None:
                operation.channels.discard(channel)
                operation.heard()
                self._changed.notify_all()

    def said(self, said: Plan | State) -> int:
        """Make a source of a plan; let a write be where it says it is."""
        with self._changed:
            if isinstance(said, Plan):
                known = self._sources.get(said.source)
                if known is None:
                    return 0
                self._sources.move_to_end(said.source)
                return self._keep(known.planned(said), self._planned)
            operation = self._operations.get(_of_source(said.source))
            if operation is None or not operation.commits:
                return 0  # nothing was written, or it has ended
            operation.state = said
            operation.heard()
        if said.phase.is_final:
            self._end(operation)
        else:
            operation.run.tracker.phase(said.phase)
        return said.source

    def tick(self) -> float:
        """Look after the runs that go on; return when to look again."""
        now = time.monotonic()
        if self.jobs.stopped:
            self.close()
            return 0.0
        with self._changed:
            running = list(self._operations.values())
        if not running:
            return _IDLE
        if now - self._polled >= _POLL:
            self._polled = now
            self._look_after(running, now)
        return _POLL

    # -- beginning ----------------------------------------------------------------------------

    def _find(self, channel: Channel, source: Source) -> Operation | None:
        hello = channel.hello
        assert hello is not None
        # A job that is no query of Spark SQL has no number; its stage is as good.
        action = hello.execution or f"stage {hello.stage}"
        own: OperationKey = ("action", str(hello.source), action)
        whole = _of_source(hello.source)
        for key in (*(("tag", tag) for tag in hello.tags), whole, own):
            if (key, hello.stage) in self._late:
                return None
            if key in self._operations:
                return self._operations[key]
        if source.listener is None:
            return None
        return self._begin(whole if source.commits else own, source)

    def _begin(self, key: OperationKey, source: Source) -> Operation | None:
        def cancel() -> None:
            self.cancel(operation)

        def clock() -> float:
            return operation.clock() if operation else time.monotonic()

        operation: Operation | None = None
        tracker, listener = source.tracker(clock=clock, on_cancel=cancel)
        operation = Operation(
            key=key, run=Run(tracker), ours=True, cell=self._cells, commits=source.commits
        )
        try:
            listener.start(tracker)
        except Exception:  # noqa: BLE001  # a person's listener must not end this thread
            _log.warning("the progress of %s is not shown", source.title, exc_info=True)
            return None
        tracker.phase(source.phase)
        self._operations[key] = operation
        self._polled = 0.0  # its job is known best while it runs
        return operation

    # -- the end ------------------------------------------------------------------------------

    def cancel(self, operation: Operation | None) -> None:
        """Stop a run: its tasks close their connections, its jobs end. Idempotent."""
        if operation is None:
            return
        with self._changed:
            operation.cancelled = True
            channels, stages = list(operation.channels), set(operation.run.stages)
        # The jobs first, or Spark would begin the tasks again that say they were stopped.
        self.jobs.cancel_stages(stages)
        if operation.tag:
            self.jobs.cancel_tag(operation.tag)
        for channel in channels:
            channel.stop()

    def settle(self, error: BaseException | None = None) -> None:
        """End what is over, now: a cell has ended, with that error if any.

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
            for one in waiting:
                if one.channels or one.run.stages & active:
                    continue
                if one.state is None and (one.cancelled or not one.commits):
                    self._end(one)
            with self._changed:
                if self._of_cell(cell):
                    self._changed.wait(0.02)

    def _of_cell(self, cell: int) -> list[Operation]:
        with self._changed:
            found = (*self._operations.values(), *self._ending)
            return [one for one in found if one.ours and one.cell == cell]

    def _interrupt(self) -> None:
        with self._changed:
            # A watched action sees the interrupt itself, unless it runs in another thread.
            here = self._of_cell(self._cells)
            known = {stage for one in self._operations.values() for stage in one.run.stages}
        for one in here:
            self.cancel(one)
        # A job whose tasks have not said hello yet is cancelled when they do.
        self._doomed = self.jobs.active_stages() - known

    def release(self, operation: Operation) -> None:
        """Wait a moment for the last words of a watched action, and take no more."""
        with self._changed:
            self._changed.wait_for(lambda: not operation.channels, _SETTLE)
            self._forget(operation)

    def _look_after(self, running: list[Operation], now: float) -> None:
        active = self.jobs.active_stages()
        for one in running:
            mine = one.run.stages & active
            found = self.jobs.active_jobs(known=one.jobs) if mine else {}
            one.jobs.update(job for job, stages in found.items() if stages & one.run.stages)
            if one.cancelled and (mine or one.tag):  # another job may have begun meanwhile
                self.cancel(one)
            if mine:
                one.last_seen = now
                continue
            quiet = now - one.last_seen
            if one.ours and quiet >= one.patience:
                self._end(one)

    def _end(self, operation: Operation) -> None:
        run = operation.run
        with self._changed:
            if self._operations.get(operation.key) is not operation:
                return
            operation.ended_at = operation.last_heard
            self._forget(operation)
            self._ending.add(operation)
        phase, message = self._how(operation)
        run.tracker.finish(phase, message=message)
        with self._changed:
            self._ending.discard(operation)
            self._changed.notify_all()

    def _how(self, operation: Operation) -> tuple[Phase, str]:
        run, state = operation.run, operation.state
        if state is not None and state.phase is Phase.DONE:
            run.tracker.correct_rows(state.rows)
            return Phase.DONE, ""  # whatever was asked meanwhile: the rows are there
        if operation.cancelled:
            return Phase.CANCELLED, ""
        if state is not None and state.phase is Phase.FAILED:
            return Phase.FAILED, state.message
        done, planned = run.parts_done, run.parts_planned
        if done >= planned and not operation.commits:
            return Phase.DONE, ""
        if self.jobs.stopped:
            return Phase.CANCELLED, "Spark was stopped"
        outcome = self.jobs.outcome(operation.jobs, run.stages)
        if outcome is Outcome.CANCELLED:
            return Phase.CANCELLED, ""
        if outcome is Outcome.FAILED or operation.commits:
            return Phase.FAILED, "the Spark job failed; its error says why"
        return (
            Phase.DONE,
            f"{done} of {planned} parts were read to the end, the rest was not wanted",
        )

    def _forget(self, operation: Operation) -> None:
        if self._operations.get(operation.key) is operation:
            del self._operations[operation.key]
        for stage in operation.run.stages:
            self._late[operation.key, stage] = None
        while len(self._late) > MAX_LATE:
            self._late.popitem(last=False)

    def close(self) -> None:
        """End all runs, the port and the thread. Idempotent; a forked child ends nothing."""
        if not self._home.is_here:
            return
        with self._changed:
            detach, self._detach = self._detach, None
            running = list(self._operations.values())
            self._sources.clear()
            self._planned.clear()
        if detach is not None:
            detach()
        for one in running:
            if one.ours:
                self._end(one)
        self._server.close()


def _of_source(number: int) -> OperationKey:
    """Return the key of a run that has a source for itself."""
    return "source", str(number)
