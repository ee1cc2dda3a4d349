"""Attaches DataFrames and actions to the progress coordinator of their SparkContext.

A listening port is opened on loopback, and only where driver and executors share this machine;
for any other master a person has to ask for it, since the port is open to their network then.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from odps_nb.access.progress import default_listener, listener_of
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import (
    Progress,
    ProgressListener,
    ProgressTracker,
    silent,
)
from odps_nb.errors import CancelledError
from odps_nb.spark.launch.connect import is_connect
from odps_nb.spark.launch.session_factory import is_local
from odps_nb.spark.progress.coordinator import ProgressCoordinator
from odps_nb.spark.progress.jobs import Jobs
from odps_nb.spark.progress.messages import ReportTo
from odps_nb.spark.progress.remote_jobs import RemoteJobs
from odps_nb.spark.progress.totals import TrackedActivity

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.client.auth.profile import Profile

__all__ = ["coordinator_of", "host_of", "register_activity", "token_of", "watched"]

REPORTS = "ODPS_NB_SPARK_REPORTS"
_DRIVER = "driver"

# One for each SparkContext, however many DataFrames: it cannot live in any of them, since
# what Spark derives from a DataFrame outlives it. Nothing here keeps a context alive.
_COORDINATORS: weakref.WeakKeyDictionary[SparkContext, ProgressCoordinator] = (
    weakref.WeakKeyDictionary()
)


def register_activity(
    spark: SparkSession, activity: TrackedActivity, progress: Progress
) -> ReportTo | None:
    """Return where the tasks of an activity report; ``None`` where nobody would look or hear.

    Every action over the activity then has a run of its own: `progress` is told of all of them,
    and without one each has a new listener that suits the place.
    """
    shown = listener_of(progress)
    coordinator = None if shown is silent else coordinator_of(spark)
    if coordinator is None:
        return None
    coordinator.watch_cells()

    def given(*, on_cancel: Callable[[], None] | None = None) -> ProgressListener:
        return shown

    listener = default_listener if progress is None or progress is True else given
    return coordinator.register(dataclasses.replace(activity, listener=listener))


def coordinator_of(spark: SparkSession) -> ProgressCoordinator | None:
    """Return the coordinator of a session's context; ``None`` where no task could reach it.

    That is over Spark Connect, and with a master on other machines unless the environment says
    ``ODPS_NB_SPARK_REPORTS=driver``: the port is then opened at ``spark.driver.host``.
    """
    from pyspark.sql import SparkSession as Classic

    if not isinstance(spark, Classic):
        return None
    context = spark.sparkContext
    coordinator = _COORDINATORS.get(context)
    if coordinator is None:
        host = host_of(context)
        if host is None:
            return None
        coordinator = _COORDINATORS[context] = ProgressCoordinator(Jobs(context), host=host)
        # At exit, too: a card must not stay half drawn.
        weakref.finalize(context, coordinator.close)
    return coordinator


def host_of(context: SparkContext) -> str | None:
    """Return the address on which tasks may report; ``None`` where nobody asked for one."""
    if is_local(context.master or ""):
        return "127.0.0.1"
    if os.environ.get(REPORTS) == _DRIVER:
        return context.getConf().get("spark.driver.host")
    return None


@contextlib.contextmanager
def watched(
    spark: SparkSession,
    tracker: ProgressTracker,
    *,
    cancel: CancelToken | None = None,
    activity: TrackedActivity | None = None,
    seen: bool = True,
) -> Iterator[ReportTo | None]:
    """Run a Spark action with progress, so that it can be cancelled.

    An interrupt, or `cancel`, ends the jobs that this thread has started inside and the
    connections of their tasks. What tasks report inside goes to `tracker`, which the caller ends;
    over Spark Connect that is how many of them are done.

    Parameters
    ----------
    activity
        What the action itself does, e.g. a write: only what is reported to the address given
        goes to `tracker` then, and what it reads is shown as ever. Without one, `tracker` gets
        the reads of all DataFrames of `odps_nb.spark` in the action.
    seen
        Whether anybody looks at `tracker`; no port is opened otherwise.

    Raises
    ------
    CancelledError
        `cancel` was cancelled.
    """
    cancel = CancelToken() if cancel is None else cancel
    cancel.check()
    tag = f"odps-nb-{secrets.token_hex(8)}"
    action: AbstractContextManager[ReportTo | None]
    if is_connect(spark):
        action = _remote(spark, tag, tracker, cancel)
    else:
        action = _own(
            spark, coordinator_of(spark) if seen else None, tag, tracker, cancel, activity
        )
    try:
        with action as to:
            yield to
    except BaseException:
        if cancel.cancelled:
            raise CancelledError("stopped on request") from None
        raise


@contextlib.contextmanager
def _own(
    spark: SparkSession,
    coordinator: ProgressCoordinator | None,
    tag: str,
    tracker: ProgressTracker,
    cancel: CancelToken,
    activity: TrackedActivity | None,
) -> Iterator[ReportTo | None]:
    """Watch an action of the Spark of this process."""
    jobs = Jobs(spark.sparkContext)
    stop, to = _Stop(lambda: jobs.cancel_tag(tag)), None
    with contextlib.ExitStack() as undo:
        if coordinator is not None:  # else nobody reports, and Spark's own end of a job has to do
            to = None if activity is None else coordinator.register(activity)
            run = coordinator.adopt(tracker, tag=tag, to=to)
            stop = _Stop(partial(coordinator.cancel, run))
            undo.callback(coordinator.unregister, to)
            undo.callback(coordinator.release, run)
        cancel.watch(stop)
        try:
            with jobs.tagged(tag):
                yield to
        except BaseException:
            stop.stop()
            raise


@contextlib.contextmanager
def _remote(
    spark: SparkSession, tag: str, tracker: ProgressTracker, cancel: CancelToken
) -> Iterator[None]:
    """Watch an action that goes through Spark Connect."""
    jobs = RemoteJobs(spark, tag, tracker)
    with jobs.tagged():
        cancel.watch(jobs)
        try:
            yield
        except BaseException as error:
            # After an error the operation has ended. What is interrupted may be about to begin:
            # pyspark stops what it waits for only.
            if not isinstance(error, Exception):
                jobs.stop()
            raise


def token_of(odps: Connection | Profile | str | None) -> CancelToken:
    """Return a token for work that begins now, which `Connection.cancel` cancels, too.

    Raises
    ------
    StateError
        The connection is closed.
    """
    from odps_nb.access.connection import Connection

    return odps.storage.operation() if isinstance(odps, Connection) else CancelToken()


class _Stop:
    """What a cancel token stops: the jobs of an action."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.stop = stop
