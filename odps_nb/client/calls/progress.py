"""Counts an operation's progress: workers add counts, and a listener polls snapshots."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, Protocol, TypedDict, TypeVar, Unpack, cast

from odps_nb.client.calls.snapshot import (
    MOVING,
    ItemProgress,
    Pauses,
    Phase,
    ProgressSnapshot,
    Sending,
    SplitProgress,
)
from odps_nb.errors import CancelledError
from odps_nb.lifetime import renew_after_fork

__all__ = [
    "ItemProgress",
    "Phase",
    "Progress",
    "ProgressListener",
    "ProgressSnapshot",
    "ProgressTracker",
    "Sending",
    "SplitProgress",
    "silent",
]

T = TypeVar("T")

MAX_REQUEST_IDS = 4
MAX_EVENTS = 20
"""Maximum number of events to keep: the first one, and the latest."""


class ProgressListener(Protocol):
    """Interface of objects that show progress; the operation's own thread calls both methods.

    Examples
    --------
    >>> class Counted:
    ...     def start(self, tracker):
    ...         pass
    ...
    ...     def stop(self, snapshot):
    ...         print(f"{snapshot.rows} rows, {snapshot.phase.value}")
    >>> table = odps.table("orders").read(["id"], limit=3, progress=Counted()).to_arrow()
    3 rows, done
    """

    def start(self, tracker: ProgressTracker) -> None:
        """Start the display. Poll ``tracker.snapshot()`` at any rate, from any thread."""

    def stop(self, snapshot: ProgressSnapshot) -> None:
        """Show the final state, in ``snapshot.phase``. Must not raise."""


class _Silent:
    def start(self, tracker: ProgressTracker) -> None:
        """Do nothing: this listener shows no progress."""

    def stop(self, snapshot: ProgressSnapshot) -> None:
        """Do nothing: this listener shows no progress."""


silent: ProgressListener = _Silent()

Progress = ProgressListener | bool | None
"""Values of ``progress=``: a listener, ``False`` for no display, or ``None`` for the default."""


class Counts(TypedDict, total=False):
    """Counters that `ProgressTracker.add` can increase."""

    rows: int
    items: int
    item_bytes: int
    wire_bytes: int
    decoded_bytes: int
    complete_bytes: int
    verified_bytes: int
    retries: int
    resumes: int


class Totals(TypedDict, total=False):
    """Totals for `ProgressTracker.plan`; ``bytes_total`` is the size of all items together."""

    session_id: str | None
    rows_total: int | None
    items_total: int | None
    bytes_total: int | None


class ProgressTracker:
    """Thread-safe counters of one operation; as a context manager, starts and stops a listener.

    The final phase is `Phase.DONE` after success or if an iteration is left early,
    `Phase.CANCELLED` after an interrupt or `CancelledError`, and otherwise `Phase.FAILED`.
    ``elapsed`` is the number of seconds for which the operation has already been running.

    Examples
    --------
    >>> from odps_nb.client.calls.progress import ProgressTracker
    >>> with ProgressTracker("read", "orders") as tracker:
    ...     tracker.plan_split("0", rows=10)
    ...     tracker.add(split="0", rows=10, wire_bytes=512)
    >>> tracker.snapshot().phase.value, tracker.snapshot().rows
    ('done', 10)
    """

    def __init__(
        self,
        operation: str,
        title: str,
        *,
        listener: ProgressListener = silent,
        clock: Callable[[], float] = time.monotonic,
        elapsed: float = 0.0,
    ) -> None:
        self._operation, self._title = operation, title
        self._listener, self._clock = listener, clock
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(Counts.__annotations__, 0)
        self._splits: dict[str, SplitProgress] = {}
        self._phase = Phase.CREATING
        self._started, self._started_at = clock() - elapsed, time.time() - elapsed
        self._pauses = Pauses(self._started)
        self._ended: float | None = None
        self._plan: dict[str, Any] = {}
        self._tasks: tuple[int, int | None] = (0, None)
        self._request_ids: deque[str] = deque(maxlen=MAX_REQUEST_IDS)
        self._events: list[str] = []
        self._message = self._error = self._remark = ""
        self._meters: dict[int, Callable[[], int]] = {}
        self._sending: dict[int, Sending] = {}
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Remove the listener, because the parent process still shows this operation."""
        self._lock, self._listener = threading.Lock(), silent

    def __enter__(self) -> ProgressTracker:
        self._listener.start(self)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            self.finish(Phase.DONE)
        elif isinstance(error, GeneratorExit):
            self.finish(Phase.DONE, message="stopped early by the caller")
        elif isinstance(error, (KeyboardInterrupt, CancelledError)):
            self.finish(Phase.CANCELLED)
        else:
            name = type(error).__name__
            self.finish(Phase.FAILED, message=f"{name}: {error}", error=name)

    def phase(self, phase: Phase) -> None:
        """Set the current phase."""
        with self._lock:
            if self._ended is None:
                self._phase = phase

    def plan(self, **known: Unpack[Totals]) -> None:
        """Set expected totals; totals that are never set stay ``None``."""
        with self._lock:
            self._plan |= {name: value for name, value in known.items() if value is not None}

    def plan_split(self, label: str, *, rows: int | None = None) -> None:
        """Add a split or write stream to the display; ``rows`` is its expected number of rows."""
        with self._lock:
            progress = SplitProgress(label=label, rows_total=rows)
            self._splits.setdefault(label, progress)

    def plan_splits(self, rows: Mapping[str, int | None]) -> None:
        """Replace the splits in the display by others, given as labels and expected rows."""
        with self._lock:
            self._splits = {
                label: SplitProgress(label=label, rows_total=count) for label, count in rows.items()
            }

    def add(self, *, split: str | None = None, **counts: Unpack[Counts]) -> None:
        """Add to the operation's counters, and to those of ``split`` if it is passed.

        Pass negative numbers to correct earlier counts.
        """
        with self._lock:
            for name, count in counts.items():
                self._counts[name] += cast("int", count)
            if split is not None and (progress := self._splits.get(split)) is not None:
                self._splits[split] = replace(
                    progress,
                    rows=progress.rows + counts.get("rows", 0),
                    wire_bytes=progress.wire_bytes + counts.get("wire_bytes", 0),
                )

    def metered(self, wire_bytes: Callable[[], int]) -> AbstractContextManager[None]:
        """Include received but uncounted bytes in snapshots during the block.

        A batch is counted when it is complete, which may take a minute on a slow network. Until
        then, ``wire_bytes`` returns the number of bytes received; it must be fast and must not
        use a tracker.
        """
        return self._during(self._meters, wire_bytes)

    def sending(self, one: Sending) -> AbstractContextManager[None]:
        """Include sent but unconfirmed bytes in snapshots during the block."""
        return self._during(self._sending, one)

    @contextmanager
    def _during(self, held: dict[int, T], item: T) -> Iterator[None]:
        with self._lock:
            held[id(item)] = item
        try:
            yield
        finally:
            with self._lock:
                del held[id(item)]

    @property
    def rows(self) -> int:
        """Number of rows counted so far."""
        with self._lock:
            return self._counts["rows"]

    def correct_rows(self, rows: int) -> None:
        """Set the row count to the number of rows returned, if more arrived than were needed."""
        with self._lock:
            self._counts["rows"] = rows

    def restarted(self, why: str) -> None:
        """Reset the row count, because all rows are read again; show ``why`` as an event."""
        with self._lock:
            self._counts |= {"rows": 0, "decoded_bytes": 0, "complete_bytes": 0}
            self._splits.clear()
            self._add_event(why)

    def count_tasks(self, done: int, total: int) -> None:
        """Set the numbers of finished and total tasks of another engine; the total may grow."""
        with self._lock:
            self._tasks = done, total

    def split_done(self, label: str, *, part: bool = False) -> None:
        """Mark a split as read or written; with ``part``, only if all its rows are counted."""
        with self._lock:
            progress = self._splits.get(label)
            if progress is not None and not (part and progress.rows < (progress.rows_total or 0)):
                self._splits[label] = replace(progress, done=True)

    def noted(self, what: str, **counts: Unpack[Counts]) -> None:
        """Add a line for an event, and add to counters such as ``retries``."""
        self.add(**counts)
        with self._lock:
            self._add_event(what)

    def _add_event(self, what: str) -> None:
        """Add a line; keep the first one, which may name the service that transfers the rows."""
        if len(self._events) == MAX_EVENTS:
            del self._events[1]
        self._events.append(what)

    def remark(self, what: str) -> None:
        """Add to the message to show if the operation succeeds."""
        with self._lock:
            if what not in self._remark:
                self._remark = f"{self._remark}; {what}" if self._remark else what

    def request(self, request_id: str | None) -> None:
        """Record a response's request id; only the latest few are kept."""
        if request_id:
            with self._lock:
                self._request_ids.append(request_id)

    def finish(self, phase: Phase, *, message: str = "", error: str = "") -> None:
        """End the operation; only the first call takes effect."""
        with self._lock:
            if self._ended is not None:
                return
            remark = message or (self._remark if phase is Phase.DONE else "")
            self._ended, self._phase, self._message = self._clock(), phase, remark
            self._error = error
        self._listener.stop(self.snapshot())

    def snapshot(self) -> ProgressSnapshot:
        """Return a snapshot of all counters."""
        with self._lock:
            counts: dict[str, Any] = dict(self._counts)
            under_way = list(self._sending.values())
            counts["wire_bytes"] += sum(meter() for meter in self._meters.values())
            counts["wire_bytes"] += sum(sending.wire_bytes for sending in under_way)
            counts["item_bytes"] += sum(sending.payload for sending in under_way)
            now = self._ended if self._ended is not None else self._clock()
            moved = (counts["rows"], counts["items"], self._tasks, counts["wire_bytes"])
            quiet = self._pauses.quiet((self._phase, *moved), now)
            return ProgressSnapshot(
                operation=self._operation,
                title=self._title,
                phase=self._phase,
                moving=tuple(sending.item() for sending in under_way if sending.name),
                tasks=self._tasks[0],
                tasks_total=self._tasks[1],
                splits=tuple(self._splits.values()),
                elapsed=now - self._started,
                quiet=quiet if self._phase in MOVING and self._tasks[1] is None else 0.0,
                stalled=self._pauses.stalled,
                started_at=self._started_at,
                request_ids=tuple(self._request_ids),
                events=tuple(self._events),
                message=self._message,
                error=self._error,
                **counts,
                **self._plan,
            )
