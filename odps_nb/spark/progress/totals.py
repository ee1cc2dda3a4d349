"""Adds up the reports of one Spark action, and keeps what its end depends on.

An *activity* is a read of a DataFrame, a `blob_map` or a write; Spark may perform one many times.
A *run* is one Spark action over it, with one tracker. For each part (a split, a stream) the
counters of one attempt count:

- of the first that proved its part whole, whatever comes later;
- while there is none, of the attempt that has got furthest (rows, then blobs, then bytes).

So a task that is tried again, and its speculative twin, count once, and rows never go back.
Spark may perform an activity twice in one action (a sort samples it first): a part that is read
by a task of another partition or stage begins another *pass*, and is counted again, since it is
read again. Knows neither sockets nor Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from odps_nb.access.progress import MakesListener
from odps_nb.client.calls.progress import Phase, ProgressListener, ProgressTracker
from odps_nb.spark.progress.messages import COUNTERS, Hello, PlanEvent, Report, WriteEvent
from odps_nb.spark.reading.split_list import SplitList
from odps_nb.terms import RowRangeSplit, Split

if TYPE_CHECKING:
    from odps_nb.spark.advice.words import Asked
    from odps_nb.spark.progress.server import Channel

__all__ = ["MAX_LABELS", "Run", "RunKey", "Totals", "TrackedActivity"]

#: Parts that are told one by one; of more than that, neighbours are told together.
MAX_LABELS = 512
#: Parts of a run that are counted at all.
MAX_PARTS = 1 << 17

_QUIET = 0.4
_HANGING = 1.5
# From the last word of a task until a commit begins, or the write is given up; and from there.
_UNDECIDED = 15.0
_COMMITTING = 600.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # two reads of one table are two
class TrackedActivity:
    """A read, write or `blob_map`; ``parts`` are its splits, where they are known before it runs.

    One that ``commits`` has one run, which ends when its commit has. ``asked`` is what a read
    asked for, where advice on it helps. One without an ``operation`` stands for a whole session, in
    which planners plan others.
    """

    operation: str
    title: str
    phase: Phase
    parts: SplitList | Sequence[Split] = ()
    rows_total: int | None = None
    session_id: str | None = None
    listener: MakesListener | None = field(default=None, repr=False)
    commits: bool = False
    asked: Asked | None = None

    def planned(self, plan: PlanEvent) -> TrackedActivity:
        """Return the activity of a plan, shown by the same listener."""
        parts: SplitList | tuple[()] = ()
        if 0 < plan.parts <= MAX_PARTS:
            parts = SplitList(plan.parts, plan.rows if plan.ranges else None)
        return TrackedActivity(
            operation=plan.operation,
            title=plan.title,
            phase=Phase.READING if plan.operation == "read" else Phase.WRITING,
            parts=parts,
            rows_total=plan.rows,
            session_id=plan.session,
            listener=self.listener,
            commits=plan.operation == "write",
        )

    def has(self, part: int) -> bool:
        """Whether there is a part of that number."""
        return part < (len(self.parts) or MAX_PARTS)

    def tracker(
        self, *, clock: Callable[[], float], on_cancel: Callable[[], None]
    ) -> tuple[ProgressTracker, ProgressListener]:
        """Make the tracker of a run and its listener, not yet started."""
        assert self.listener is not None  # without one, an activity reports into a given tracker
        listener = self.listener(on_cancel=on_cancel)
        return ProgressTracker(self.operation, self.title, listener=listener, clock=clock), listener


#: Who reads a part: stage, partition and the part's number. An attempt that is made again has
#: the same three.
_Reader = tuple[int, int, int]
_NOBODY = -1


@dataclass(slots=True)
class _Part:
    label: str
    attempt: int = _NOBODY
    last: Report = field(default_factory=Report)


class Totals:
    """Adds up the attempts that count in one run, in its tracker.

    Parameters
    ----------
    several
        Whether parts of several activities come here: their labels then begin with the table.
    """

    def __init__(self, tracker: ProgressTracker, *, several: bool = False) -> None:
        self.tracker: ProgressTracker = tracker
        self._several = several
        self.stages: set[int] = set()
        self._parts: dict[tuple[TrackedActivity, _Reader], _Part] = {}
        self._passes: dict[TrackedActivity, list[set[int]]] = {}
        self._open_of: dict[str, int] = {}
        self._rows_total: int | None = 0

    def open(self, activity: TrackedActivity, hello: Hello) -> bool:
        """Take note of an attempt; return whether its part is a valid one."""
        if not activity.has(hello.part) or len(self._parts) >= MAX_PARTS:
            return False
        self.stages.add(hello.stage)
        reader = (activity, (hello.stage, hello.partition, hello.part))
        if reader not in self._parts:
            self._parts[reader] = _Part(self._claim(activity, hello.part))
        return True

    def add(self, activity: TrackedActivity, hello: Hello, report: Report) -> None:
        """Take the counters of an attempt, if it is the one that counts for its part."""
        part = self._parts[activity, (hello.stage, hello.partition, hello.part)]
        last = part.last
        if part.attempt not in (_NOBODY, hello.attempt) and not _counts_before(report, last):
            return
        part.attempt, part.last = hello.attempt, report
        more = {name: getattr(report, name) - getattr(last, name) for name in COUNTERS}
        self.tracker.add(split=part.label, **more)
        if report.request != last.request:
            self.tracker.request(report.request)
        if report.event != last.event:
            self.tracker.noted(report.event)
        if report.done and not last.done:
            self._done(part.label)

    @property
    def parts_done(self) -> int:
        """How many parts an attempt has proved whole."""
        return sum(part.last.done for part in self._parts.values())

    @property
    def parts_planned(self) -> int:
        """How many parts the action has if it reads all of them."""
        return sum(
            max(len(activity.parts) * len(passes), sum(map(len, passes)))
            for activity, passes in self._passes.items()
        )

    # -- passes and labels --------------------------------------------------------------------

    def _claim(self, activity: TrackedActivity, number: int) -> str:
        """Assign a part to a pass; return its label there."""
        passes = self._passes.setdefault(activity, [])
        free = (i for i, claimed in enumerate(passes) if number not in claimed)
        index = next(free, len(passes))
        if index == len(passes):
            passes.append(set())
            self._plan(activity, index)
        passes[index].add(number)
        label = self._label(activity, index, number)
        if not len(activity.parts):
            self._plan_part(label, None)
        return label

    def _plan(self, activity: TrackedActivity, index: int) -> None:
        total = activity.rows_total
        known = self._rows_total is not None and total is not None
        self._rows_total = (self._rows_total or 0) + (total or 0) if known else None
        self.tracker.plan(session_id=activity.session_id, rows_total=self._rows_total)
        for number in range(len(activity.parts)):
            split = activity.parts[number]
            rows = split.count if isinstance(split, RowRangeSplit) else None
            if len(activity.parts) > MAX_LABELS:
                rows = None  # of several splits under one label, how many are done is said
            self._plan_part(self._label(activity, index, number), rows)

    def _plan_part(self, label: str, rows: int | None) -> None:
        self._open_of[label] = self._open_of.get(label, 0) + 1
        self.tracker.plan_split(label, rows=rows)

    def _label(self, activity: TrackedActivity, index: int, number: int) -> str:
        words = [activity.title] if self._several else []
        count = len(activity.parts)
        if count > MAX_LABELS:
            group = number * MAX_LABELS // count
            low, high = (-(-count * n // MAX_LABELS) for n in (group, group + 1))
            words.append(f"splits {low + 1} to {high} of {count}")
        else:
            words.append(str(activity.parts[number]) if count else f"task {number}")
        return " ".join(words) + (f", pass {index + 1}" if index else "")

    def _done(self, label: str) -> None:
        self._open_of[label] -= 1
        if not self._open_of[label]:
            self.tracker.split_done(label)


RunKey = tuple[str, ...]


@dataclass(slots=True, eq=False)
class Run:
    """A running Spark action, and what its end depends on.

    ``owned`` says that the coordinator made its tracker, and so ends it; a watched action ends
    its own, and has a ``tag`` on all its jobs. One that ``commits`` is over when ``commit`` is.
    ``query`` is Spark's object for its query, where there may be advice on what it ``asked`` for.
    """

    key: RunKey
    totals: Totals
    owned: bool
    cell: int
    tag: str = ""
    execution: str = ""
    query: Any = None
    asked: Asked | None = None
    commits: bool = False
    commit: WriteEvent | None = None
    channels: set[Channel] = field(default_factory=set)
    jobs: set[int] = field(default_factory=set)
    last_seen: float = 0.0
    last_report: float = 0.0
    began: float = field(default_factory=time.monotonic)
    ended_at: float | None = None
    cancelled: bool = False

    def touch(self) -> None:
        """Record that one of its tasks has just reported."""
        self.last_seen = self.last_report = time.monotonic()

    @property
    def patience(self) -> float:
        """Seconds of quiet after which it is over."""
        if self.commit is not None:
            return _COMMITTING
        if self.commits and not self.cancelled:
            return _UNDECIDED
        return _HANGING if self.channels else _QUIET

    def clock(self) -> float:
        """The time, which stands still once the run has ended."""
        return time.monotonic() if self.ended_at is None else self.ended_at


def _counts_before(new: Report, old: Report) -> bool:
    return not old.done and _reached(new) > _reached(old)


def _reached(report: Report) -> tuple[bool, int, int, int]:
    return report.done, report.rows, report.items, report.decoded_bytes
