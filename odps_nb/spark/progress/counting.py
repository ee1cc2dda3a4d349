"""Counts rows and bytes that a task reads, writes or fetches, in a Spark accumulator.

Spark delivers a task's counts after the task has succeeded, before the action returns. A task on
the driver's machine also reports its start (`odps_nb.spark.progress.starts`). Counters run on
executors, and in the processes in which ``format("odps")`` plans and commits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from odps_nb.client.calls.progress import Phase, ProgressSnapshot, ProgressTracker
from odps_nb.spark.progress.starts import StartsAddress

if TYPE_CHECKING:
    from pyspark.accumulators import Accumulator

#: Names of the counters that are summed over finished tasks.
COUNTERS = (
    *("rows", "items", "wire_bytes", "decoded_bytes", "complete_bytes", "verified_bytes"),
    *("retries", "resumes"),
)
#: Prefix of the job tags of this package.
TAG = "odps-nb-"
_TAG = re.compile(rf"{TAG}[0-9a-f]{{16}}")
_QUERY = re.compile(r"[^,]*-execution-root-id-\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """A read, write or `blob_map`; Spark may run it several times.

    If ``commits`` is true, the activity ends when the outcome of its commit is reported (`Ended`).
    """

    operation: Literal["read", "write", "blobs"]
    title: str
    phase: Phase
    session_id: str | None = None
    rows_total: int | None = None
    commits: bool = False
    key: str = field(default_factory=lambda: secrets.token_hex(8))


class Part(NamedTuple):
    """The counts of one finished task of an activity; without ``counts``, the task has started.

    ``query`` is Spark's tag for a query's jobs, and ``tag`` is our tag for an action; each may be
    empty. A part that is recomputed keeps its stage, partition and number.
    """

    activity: Activity
    listener: int
    query: str
    group: str | None
    tag: str
    stage: int
    partition: int
    number: int
    counts: tuple[int, ...] = ()
    request: str = ""
    event: str = ""
    elapsed: float = 0.0

    def as_json(self) -> bytes:
        """Return the part as JSON."""
        activity = dataclasses.asdict(self.activity)
        return json.dumps(self._asdict() | {"activity": activity}).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Part:
        """Return the part that `as_json` has written."""
        document = json.loads(text)
        activity = document["activity"]
        parsed = Activity(**activity | {"phase": Phase(activity["phase"])})
        return cls(**document | {"activity": parsed})


class Ended(NamedTuple):
    """The outcome of a write."""

    activity: Activity
    phase: Phase
    rows: int = 0
    message: str = ""


class Reports:
    """Merges an accumulator's values by passing them to ``receive`` in the driver.

    Implements PySpark's ``AccumulatorParam`` without importing pyspark.
    """

    def __init__(self, receive: Callable[[list[Part | Ended]], None] | None = None) -> None:
        self._receive = receive

    def __reduce__(self) -> tuple[type[Reports], tuple[()]]:
        return Reports, ()  # without `receive`: executors only collect values

    def zero(self, value: list[Part | Ended]) -> list[Part | Ended]:
        """Return an empty value."""
        return []

    def addInPlace(self, value: list[Part | Ended], more: list[Part | Ended]) -> list[Part | Ended]:
        """Merge reports: the driver passes them to ``receive``, an executor collects them."""
        if self._receive is None:
            return value + more
        self._receive(more)
        return value


@dataclass(frozen=True, slots=True)
class TaskCounter:
    """Counter for the tasks of one activity; pickled together with the function of a task.

    ``starts`` is the address to which tasks report that they have started.
    """

    reports: Accumulator[list[Part | Ended]]
    listener: int
    activity: Activity
    starts: StartsAddress | None = None

    def of(self, activity: Activity) -> TaskCounter:
        """Return a counter for another activity, shown by the same listener."""
        return dataclasses.replace(self, activity=activity)

    def ended(self, phase: Phase, *, rows: int = 0, message: str = "") -> None:
        """Report the outcome of a write."""
        self.reports.add([Ended(self.activity, phase, rows, message)])


@contextlib.contextmanager
def counted(
    counter: TaskCounter | None, *, part: int | None = None
) -> Iterator[ProgressTracker | None]:
    """Count a task's work on ``part`` (default: its Spark partition), if there is a counter."""
    if counter is None:
        yield None
        return
    begun = _part(counter, part)
    if counter.starts is not None:
        counter.starts.send(begun.as_json())
    tracker = ProgressTracker(counter.activity.operation, counter.activity.title)
    try:
        yield tracker
    except GeneratorExit:  # Spark does not need the remaining rows
        counter.reports.add([_finished(begun, tracker.snapshot())])
        raise
    counter.reports.add([_finished(begun, tracker.snapshot())])


def _finished(part: Part, done: ProgressSnapshot) -> Part:
    return part._replace(
        counts=tuple(getattr(done, name) for name in COUNTERS),
        request=done.request_ids[-1] if done.request_ids else "",
        event=done.events[-1] if done.events else "",
        elapsed=done.elapsed,
    )


def _part(counter: TaskCounter, number: int | None) -> Part:
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    local_property = context.getLocalProperty if context else lambda _: None
    tags = local_property("spark.job.tags") or ""
    ours, query = _TAG.search(tags), _QUERY.search(tags)
    partition = context.partitionId() if context else 0
    return Part(
        activity=counter.activity,
        listener=counter.listener,
        query=query.group() if query else "",
        group=local_property("spark.jobGroup.id"),
        tag=ours.group() if ours else "",
        stage=context.stageId() if context else 0,
        partition=partition,
        number=partition if number is None else number,
    )
