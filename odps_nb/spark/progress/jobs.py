"""Asks Spark about the jobs of a run: which are active, how they ended; cancels them.

The `statusTracker` lags by moments. Every question has an answer after Spark was stopped, too:
nothing is active then.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Collection, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["Jobs", "Outcome"]

_T = TypeVar("_T")


class Outcome(Enum):
    """How the jobs of a run ended, as far as Spark says."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class Jobs:
    """The jobs of one SparkContext; holds the context weakly."""

    def __init__(self, context: SparkContext) -> None:
        self._context = weakref.ref(context)

    @property
    def stopped(self) -> bool:
        """Whether the context is gone; costs no request."""
        context = self._context()
        return context is None or getattr(context, "_jsc", None) is None

    def active_stages(self) -> frozenset[int]:
        """Return the stages that run now."""
        return self._ask(
            lambda context: frozenset(context.statusTracker().getActiveStageIds()), frozenset()
        )

    def active_jobs(self, known: Collection[int] = ()) -> dict[int, frozenset[int]]:
        """Return the stages of the jobs that run now, those already known left out."""

        def ask(context: SparkContext) -> dict[int, frozenset[int]]:
            tracker = context.statusTracker()
            found = {}
            for job in tracker.getActiveJobsIds():
                if job not in known and (info := tracker.getJobInfo(job)) is not None:
                    found[job] = frozenset(info.stageIds)
            return found

        return self._ask(ask, {})

    def outcome(self, jobs: Collection[int], stages: Collection[int]) -> Outcome:
        """Return how these jobs ended; one that did not succeed decides."""

        def ask(context: SparkContext) -> Outcome:
            tracker = context.statusTracker()
            infos = [tracker.getJobInfo(job) for job in jobs]
            states = {info.status for info in infos if info is not None}
            if "FAILED" in states:
                cancelled = any(_was_cancelled(context, stage) for stage in stages)
                return Outcome.CANCELLED if cancelled else Outcome.FAILED
            return Outcome.SUCCEEDED if states == {"SUCCEEDED"} else Outcome.UNKNOWN

        return self._ask(ask, Outcome.UNKNOWN)

    def executing(self, execution: str) -> bool:
        """Return whether a query of Spark SQL runs, by its id; false if Spark does not say.

        A query that Spark does not list yet has just begun.
        """

        def ask(context: SparkContext) -> bool:
            from pyspark.sql import SparkSession

            # Nothing public tells it; all sessions of a context have one store.
            session: Any = SparkSession._instantiatedSession
            found = session._jsparkSession.sharedState().statusStore().execution(int(execution))
            return not (found.isDefined() and found.get().completionTime().isDefined())

        return self._ask(ask, False) if execution else False

    def query(self, execution: str) -> Any:
        """Return Spark's object for a query of Spark SQL that runs now; ``None`` if it is none.

        Its plan can be asked for (`optimized_plan`) also when it has ended.
        """

        def ask(context: SparkContext) -> Any:
            # Nothing public finds it by its id; this is what Spark's own listeners use.
            name = "org.apache.spark.sql.execution.SQLExecution"
            return getattr(context._jvm, name).getQueryExecution(int(execution))

        return self._ask(ask, None) if execution else None

    def optimized_plan(self, query: Any) -> str:
        """Return the optimized plan of a `query` as JSON; empty if Spark does not tell."""
        return self._ask(lambda _: str(query.optimizedPlan().toJSON()), "")

    def cancel_stages(self, stages: Collection[int]) -> None:
        """Cancel every job that needs one of these stages."""

        def ask(context: SparkContext) -> None:
            scala: Any = context._jsc.sc()  # Python has no name for it; Java's is public
            for stage in stages:
                scala.cancelStage(stage)

        self._ask(ask, None)

    def cancel_tag(self, tag: str) -> None:
        """Cancel every job with this tag."""
        self._ask(lambda context: context.cancelJobsWithTag(tag), None)

    @contextlib.contextmanager
    def tagged(self, tag: str) -> Iterator[None]:
        """Give the jobs that this thread starts a tag."""
        self._ask(lambda context: context.addJobTag(tag), None)
        try:
            yield
        finally:
            self._ask(lambda context: context.removeJobTag(tag), None)

    def _ask(self, question: Callable[[SparkContext], _T], otherwise: _T) -> _T:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # ships no types

        context = self._context()
        if context is None or self.stopped:
            return otherwise
        try:
            return question(context)
        except (Py4JError, OSError, AttributeError, TypeError, ValueError):  # stopped in between
            return otherwise


def _was_cancelled(context: SparkContext, stage: int) -> bool:
    # Nothing public tells a job that was cancelled from one that failed.
    from py4j.protocol import Py4JError

    try:
        scala: Any = context._jsc.sc()
        reason = scala.statusStore().lastStageAttempt(stage).failureReason()
    except Py4JError:
        return False
    return "cancel" in str(reason).lower()
