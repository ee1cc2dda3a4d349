"""Sends the counters of a running task to the driver, and hears whether it says stop.

`reported` gives a task a tracker whose listener is a thread of its own: it looks at the counters
four times a second, sends what has changed, and hears when the driver says stop. So the work
itself only adds to counters, also while it waits for the service, and a driver that cannot be
reached costs it nothing. Runs on executors.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterator
from typing import NamedTuple

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import ProgressSnapshot, ProgressTracker
from odps_nb.spark.progress.messages import COUNTERS, STOP, Hello, Report, ReportTo, encode

__all__ = ["TaskReporter", "Watch", "reported"]

_EVERY = 0.25
_CONNECT = 1.0
_SEND = 0.2
# What the last line may cost a task: it is on its way in a millisecond, or it is not worth more.
_LAST = 0.5

_log = logging.getLogger("odps_nb")


class Watch(NamedTuple):
    """Tracker and cancel token of a task's work; ``None`` where nobody listens."""

    tracker: ProgressTracker | None = None
    cancel: CancelToken | None = None


@contextlib.contextmanager
def reported(
    to: ReportTo | None, *, operation: str, title: str, part: int | None = None
) -> Iterator[Watch]:
    """Report the work on one part while inside; the last counters are sent at the end.

    Parameters
    ----------
    to
        ``None`` where nobody wants to know.
    part
        Number of the split; by default that of Spark's partition.
    """
    if to is None:
        yield Watch()
        return
    hello = _hello(to, part)
    reporter = TaskReporter(to, hello)
    with ProgressTracker(operation, title, listener=reporter) as tracker:
        yield Watch(tracker, reporter.cancel)


def _hello(to: ReportTo, part: int | None) -> Hello:
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:  # a test, or a task's function called by hand
        return Hello(activity=to.activity, partition=part or 0, part=part or 0)
    tags = context.getLocalProperty("spark.job.tags") or ""
    return Hello(
        activity=to.activity,
        execution=context.getLocalProperty("spark.sql.execution.id") or "",
        tags=tuple(tag for tag in tags.split(",") if tag.startswith("odps-nb-")),
        stage=context.stageId(),
        partition=context.partitionId(),
        attempt=context.taskAttemptId(),
        part=context.partitionId() if part is None else part,
    )


class TaskReporter:
    """A listener that reports to the driver; `cancel` is cancelled when the driver says stop."""

    def __init__(self, to: ReportTo, hello: Hello) -> None:
        self._to, self._hello = to, hello
        self.cancel: CancelToken = CancelToken()
        self._ended = threading.Event()
        self._final: ProgressSnapshot | None = None
        self._thread: threading.Thread | None = None

    def start(self, tracker: ProgressTracker) -> None:
        """Begin to report; returns at once."""
        self._thread = threading.Thread(
            target=self._run, args=(tracker,), name="odps-nb-reporter", daemon=True
        )
        self._thread.start()

    def stop(self, snapshot: ProgressSnapshot) -> None:
        """Send the last counters, if that is quick."""
        self._final = snapshot
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_LAST)

    def _run(self, tracker: ProgressTracker) -> None:
        try:
            with socket.create_connection((self._to.host, self._to.port), _CONNECT) as link:
                link.settimeout(_SEND)
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                link.sendall(encode(self._hello, self._to.token))
                self._report(link, tracker)
        except OSError as error:
            _log.debug("progress of %r is not reported any more: %s", self._hello, error)

    def _report(self, link: socket.socket, tracker: ProgressTracker) -> None:
        told = None
        while True:
            ended = self._ended.is_set()
            report = _report_of(self._final if ended and self._final else tracker.snapshot())
            if report != told:
                link.sendall(encode(report))
                told = report
            if ended:
                return
            self._ended.wait(_EVERY)
            if not self.cancel.cancelled and _says_stop(link):
                self.cancel.cancel()


def _says_stop(link: socket.socket) -> bool:
    """Whether the driver said stop; a lost connection is no reason to stop."""
    link.setblocking(False)
    try:
        return link.recv(len(STOP)) == STOP
    except BlockingIOError:
        return False
    finally:
        link.settimeout(_SEND)


def _report_of(snapshot: ProgressSnapshot) -> Report:
    splits = snapshot.splits
    return Report(
        **{name: getattr(snapshot, name) for name in COUNTERS},
        done=bool(splits) and all(split.done for split in splits),
        event=snapshot.events[-1] if snapshot.events else "",
        request=snapshot.request_ids[-1] if snapshot.request_ids else "",
    )
