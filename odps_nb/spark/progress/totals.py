"""What the reports of one action add up to.

A *source* is what can be read or written again and again: a DataFrame of a table, a `blob_map`,
a write. A *run* is one action over it, with one tracker. What counts for a part (a split, a
stream) are the figures of one attempt:

- of the first that proved its part whole, whatever comes later;
- while there is none, of the attempt that has got furthest (rows, then blobs, then bytes).

So a task that is tried again, and its speculative twin, count once, and rows never go back.
Spark may read a source twice in one action (a sort looks at it first): a part that is read by
another task of another partition or stage begins another *pass*, and is counted again, since it
is read again. Knows neither sockets nor Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from odps_nb.access.faces import MakesListener
from odps_nb.client.calls.progress import Phase, ProgressListener, ProgressTracker
from odps_nb.spark.progress.messages import Figures, Hello, Report
from odps_nb.spark.progress.planner_messages import Plan
from odps_nb.spark.reading.split_list import SplitList
from odps_nb.terms import RowRangeSplit, Split

__all__ = ["MAX_LABELS", "Run", "Source"]

#: Parts that are told one by one; of more than that, neighbours are told together.
MAX_LABELS = 512
#: Parts of a run that are counted at all.
MAX_PARTS = 1 << 17


class _Splits(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, number: int) -> Split: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # two reads of one table are two
class Source:
    """What runs are about; ``parts`` are its splits, where they are known before it runs.

    What ``commits`` has one run, which ends when its commit has.
    """

    operation: str
    title: str
    phase: Phase
    parts: _Splits | Sequence[Split] = ()
    rows_total: int | None = None
    session_id: str | None = None
    listener: MakesListener | None = field(default=None, repr=False)
    commits: bool = False

    def planned(self, plan: Plan) -> Source:
        """Return the source of a plan, told to the same listener."""
        parts: SplitList | tuple[()] = ()
        if 0 < plan.parts <= MAX_PARTS:
            parts = SplitList(plan.parts, plan.rows if plan.ranges else None)
        return Source(
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
        """Make the tracker of a run, and its listener, which was not started yet."""
        assert self.listener is not None  # without one, a source reports into a given tracker
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
    figures: Figures = field(default_factory=Figures)
    event: str = ""
    request: str = ""


class Run:
    """One action over one source, or over all sources of a watched action.

    Parameters
    ----------
    several
        Whether parts of several sources come here: their labels then begin with the table.
    """

    def __init__(self, tracker: ProgressTracker, *, several: bool = False) -> None:
        self.tracker: ProgressTracker = tracker
        self._several = several
        self.stages: set[int] = set()
        self._parts: dict[tuple[Source, _Reader], _Part] = {}
        self._passes: dict[Source, list[set[int]]] = {}
        self._open_of: dict[str, int] = {}
        self._rows_total: int | None = 0

    def opened(self, source: Source, hello: Hello) -> bool:
        """Take note of an attempt; whether its part is one that can be."""
        if not source.has(hello.part) or len(self._parts) >= MAX_PARTS:
            return False
        self.stages.add(hello.stage)
        reader = (source, (hello.stage, hello.partition, hello.part))
        if reader not in self._parts:
            self._parts[reader] = _Part(self._claim(source, hello.part))
        return True

    def reported(self, source: Source, hello: Hello, report: Report) -> None:
        """Take the figures of an attempt, if they are the ones that count."""
        part = self._parts[source, (hello.stage, hello.partition, hello.part)]
        new, old = report.figures, part.figures
        if part.attempt not in (_NOBODY, hello.attempt) and not _counts_before(new, old):
            return
        part.attempt, part.figures = hello.attempt, new
        self.tracker.add(
            split=part.label,
            rows=new.rows - old.rows,
            items=new.items - old.items,
            wire_bytes=new.wire_bytes - old.wire_bytes,
            decoded_bytes=new.decoded_bytes - old.decoded_bytes,
            complete_bytes=new.complete_bytes - old.complete_bytes,
            verified_bytes=new.verified_bytes - old.verified_bytes,
            retries=new.retries - old.retries,
            resumes=new.resumes - old.resumes,
        )
        if report.request != part.request:
            part.request = report.request
            self.tracker.request(report.request)
        if report.event != part.event:
            part.event = report.event
            self.tracker.noted(report.event)
        if new.done and not old.done:
            self._done(part.label)

    @property
    def parts_done(self) -> int:
        """Parts that an attempt has proved whole."""
        return sum(part.figures.done for part in self._parts.values())

    @property
    def parts_planned(self) -> int:
        """Parts that the action would read if it wants all."""
        return sum(
            max(len(source.parts) * len(passes), sum(map(len, passes)))
            for source, passes in self._passes.items()
        )

    # -- passes and labels --------------------------------------------------------------------

    def _claim(self, source: Source, number: int) -> str:
        """Find the pass that this part belongs to, and its label there."""
        passes = self._passes.setdefault(source, [])
        free = (i for i, claimed in enumerate(passes) if number not in claimed)
        index = next(free, len(passes))
        if index == len(passes):
            passes.append(set())
            self._plan(source, index)
        passes[index].add(number)
        label = self._label(source, index, number)
        if not len(source.parts):
            self._plan_part(label, None)
        return label

    def _plan(self, source: Source, index: int) -> None:
        total = source.rows_total
        known = self._rows_total is not None and total is not None
        self._rows_total = (self._rows_total or 0) + (total or 0) if known else None
        self.tracker.plan(session_id=source.session_id, rows_total=self._rows_total)
        for number in range(len(source.parts)):
            split = source.parts[number]
            rows = split.count if isinstance(split, RowRangeSplit) else None
            if len(source.parts) > MAX_LABELS:
                rows = None  # of several splits under one label, how many are done is said
            self._plan_part(self._label(source, index, number), rows)

    def _plan_part(self, label: str, rows: int | None) -> None:
        self._open_of[label] = self._open_of.get(label, 0) + 1
        self.tracker.plan_split(label, rows=rows)

    def _label(self, source: Source, index: int, number: int) -> str:
        words = [source.title] if self._several else []
        count = len(source.parts)
        if count > MAX_LABELS:
            low, high = (-(-count * n // MAX_LABELS) for n in _group(number, count))
            words.append(f"splits {low + 1} to {high} of {count}")
        else:
            words.append(str(source.parts[number]) if count else f"task {number}")
        return " ".join(words) + (f", pass {index + 1}" if index else "")

    def _done(self, label: str) -> None:
        self._open_of[label] -= 1
        if not self._open_of[label]:
            self.tracker.split_done(label)


def _group(number: int, count: int) -> tuple[int, int]:
    index = number * MAX_LABELS // count
    return index, index + 1


def _counts_before(new: Figures, old: Figures) -> bool:
    if old.done:
        return False
    return _reached(new) > _reached(old)


def _reached(figures: Figures) -> tuple[bool, int, int, int]:
    return figures.done, figures.rows, figures.items, figures.decoded_bytes
