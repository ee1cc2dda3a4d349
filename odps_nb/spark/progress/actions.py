"""Creates counters for reads, writes and blob maps; shows and interrupts their Spark actions.

Tags the jobs of a thread, in classic and Connect sessions, so that they can be interrupted, and
describes them in the Spark UI unless the user does. With Connect, which has neither accumulators
nor descriptions, only the number of tasks is shown.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from odps_nb.access.progress import listener_of
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Progress, ProgressTracker, silent
from odps_nb.errors import CancelledError, visible
from odps_nb.spark.launch.connect import is_connect
from odps_nb.spark.progress.counting import TAG, Activity, TaskCounter
from odps_nb.spark.progress.runs import runs_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.client.auth.profile import Profile

_AGAIN = 0.25
_DESCRIPTION = "spark.job.description"

_log = logging.getLogger("odps_nb")


def counter_of(spark: SparkSession, activity: Activity, progress: Progress) -> TaskCounter | None:
    """Return the counter for the tasks of an activity; ``None`` if no progress is shown."""
    if is_connect(spark) or listener_of(progress) is silent:
        return None
    return runs_of(spark.sparkContext).counter(activity, partial(listener_of, progress))


@contextlib.contextmanager
def watched(
    spark: SparkSession,
    tracker: ProgressTracker,
    *,
    cancel: CancelToken | None = None,
    activity: Activity | None = None,
    seen: bool = True,
) -> Iterator[TaskCounter | None]:
    """Run a Spark action with progress; an interrupt or `cancel` stops the jobs of this thread.

    With ``activity``, `tracker` receives only the counts of that activity. Without it, `tracker`
    receives the counts of all DataFrames of `odps_nb.spark` that the action reads. If ``seen`` is
    false, nothing is counted.
    """
    cancel = CancelToken() if cancel is None else cancel
    cancel.check()
    tracker.count_tasks(0, 0)  # no counts arrive before the first task ends; that is not a stall
    tag = f"{TAG}{secrets.token_hex(8)}"
    operation = _Operation(spark, tag, tracker)
    with contextlib.ExitStack() as stack:
        counter: TaskCounter | None = None
        if seen and not is_connect(spark):
            runs = runs_of(spark.sparkContext)
            counter = stack.enter_context(runs.watched(tracker, tag, activity))
        stack.enter_context(operation.tagged())
        cancel.watch(operation)
        try:
            yield counter
        except BaseException as error:
            # After an error, the operation has ended; after an interrupt, it may still be starting
            # up.
            if not isinstance(error, Exception):
                operation.stop()
            if cancel.cancelled:
                raise CancelledError("stopped on request") from None
            raise


class _Operation:
    """The Spark jobs that one thread starts inside `tagged`."""

    def __init__(self, spark: SparkSession, tag: str, tracker: ProgressTracker) -> None:
        self._spark, self._tag, self._tracker = spark, tag, tracker
        # In a classic session, a session tag is visible only to the thread that has set it; a job
        # tag of the context is visible to all threads.
        context: Any = None if is_connect(spark) else spark.sparkContext
        self._context = context
        self._add = spark.addTag if context is None else context.addJobTag
        self._remove = spark.removeTag if context is None else context.removeJobTag
        self._interrupt = spark.interruptTag if context is None else context.cancelJobsWithTag
        self._thread = threading.get_ident()
        self._ended = threading.Event()
        self._tasks: dict[str, tuple[int, int]] = {}

    @contextlib.contextmanager
    def tagged(self) -> Iterator[None]:
        self._add(self._tag)
        handler: Any = self._count
        if is_connect(self._spark):
            self._spark.registerProgressHandler(handler)
        try:
            with self._described():
                yield
            if self._tasks:  # include the tasks that ended after the last report
                total = sum(count for _, count in self._tasks.values())
                self._tracker.count_tasks(total, total)
        finally:
            self._ended.set()
            if is_connect(self._spark):
                with contextlib.suppress(ValueError):  # the user called clearProgressHandlers
                    self._spark.removeProgressHandler(handler)
            self._remove(self._tag)

    @contextlib.contextmanager
    def _described(self) -> Iterator[None]:
        if self._context is None or self._context.getLocalProperty(_DESCRIPTION):
            yield
            return
        now = self._tracker.snapshot()
        self._context.setJobDescription(visible(f"odps_nb {now.operation} {now.title}"))
        try:
            yield
        finally:
            self._context.setLocalProperty(_DESCRIPTION, None)

    def stop(self) -> None:
        """Interrupt the running jobs and any that start before `tagged` exits; does not block."""
        threading.Thread(target=self._stop, name="odps-nb-interrupt", daemon=True).start()

    def _stop(self) -> None:
        from pyspark.errors import PySparkException

        try:
            while True:  # repeat: an interrupt misses an operation that is just starting
                self._interrupt(self._tag)
                if self._ended.wait(_AGAIN):
                    return
        except (PySparkException, ValueError, OSError) as error:  # the session was stopped
            _log.debug("nothing is left to interrupt: %s", error)

    def _count(
        self,
        stages: Sequence[Any] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,  # noqa: FBT001
    ) -> None:
        # Spark calls the handler for every operation of the session, in the thread that waits for
        # the operation. Ignore the operations of other threads.
        if not stages or threading.get_ident() != self._thread:
            return
        self._tasks[operation_id or ""] = (
            sum(stage.num_completed_tasks for stage in stages),
            sum(stage.num_tasks for stage in stages),
        )
        finished, total = (sum(counts) for counts in zip(*self._tasks.values(), strict=True))
        self._tracker.count_tasks(finished, total)


def token_of(odps: Connection | Profile | str | None) -> CancelToken:
    """Return a new cancel token; `Connection.cancel` cancels it if ``odps`` is a connection."""
    from odps_nb.access.connection import Connection

    return odps._storage.operation() if isinstance(odps, Connection) else CancelToken()
