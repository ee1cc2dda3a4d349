"""`RemoteJobs`: shows the progress of Spark Connect operations, and interrupts them.

A client of Connect sees operations, no jobs: each has the tags of the thread that started it, and
while it runs the server tells how many of its tasks are done. An operation that is interrupted
ends its jobs, and Spark kills the Python workers of their tasks, which closes their connections.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from odps_nb.client.calls.progress import ProgressTracker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["RemoteJobs"]

_AGAIN = 0.25

_log = logging.getLogger("odps_nb")


class RemoteJobs:
    """The operations that one thread starts inside of `tagged`."""

    def __init__(self, spark: SparkSession, tag: str, tracker: ProgressTracker) -> None:
        self._spark, self._tag, self._tracker = spark, tag, tracker
        self._thread = threading.get_ident()
        self._ended = threading.Event()
        self._tasks: dict[str, tuple[int, int]] = {}

    @contextlib.contextmanager
    def tagged(self) -> Iterator[None]:
        """Give the operations of this thread the tag, and their tasks to the tracker."""
        self._spark.addTag(self._tag)
        self._spark.registerProgressHandler(self._told)  # type: ignore[arg-type]  # takes any callable
        try:
            yield
            if self._tasks:  # what ended between two looks of the server was not told
                total = sum(count for _, count in self._tasks.values())
                self._tracker.count_tasks(total, total)
        finally:
            self._ended.set()
            with contextlib.suppress(ValueError):  # clearProgressHandlers was called meanwhile
                self._spark.removeProgressHandler(self._told)  # type: ignore[arg-type]
            self._spark.removeTag(self._tag)

    def stop(self) -> None:
        """Interrupt what runs, and what begins until `tagged` is left; returns at once."""
        threading.Thread(target=self._stop, name="odps-nb-interrupt", daemon=True).start()

    def _stop(self) -> None:
        from pyspark.errors import PySparkException

        try:
            while True:  # an operation may have been on its way to the server
                self._spark.interruptTag(self._tag)
                if self._ended.wait(_AGAIN):
                    return
        except (PySparkException, ValueError, OSError) as error:  # a session that was stopped
            _log.debug("nothing is left to interrupt: %s", error)

    def _told(
        self,
        stages: Sequence[Any] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,  # noqa: FBT001
    ) -> None:
        # The handlers of a session hear of every operation, in the thread that waits for it.
        if not stages or threading.get_ident() != self._thread:
            return
        self._tasks[operation_id or ""] = (
            sum(stage.num_completed_tasks for stage in stages),
            sum(stage.num_tasks for stage in stages),
        )
        finished, total = (sum(counts) for counts in zip(*self._tasks.values(), strict=True))
        self._tracker.count_tasks(finished, total)
