"""Progress as values: counters that workers add to, snapshots that listeners poll.

Displays nothing. Workers only add to a `ProgressTracker`; a `ProgressListener` polls
`ProgressTracker.snapshot` at its own pace, so that ten thousand batches cost ten thousand
additions and not ten thousand messages.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

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

MAX_REQUEST_IDS = 4
MAX_EVENTS = 20


class ProgressListener(Protocol):
    """Shows progress. Both methods are called in the thread that runs the operation.

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
        """Start showing; poll ``tracker.snapshot()`` at any pace, from any thread."""

    def stop(self, snapshot: ProgressSnapshot) -> None:
        """Show the end; ``snapshot.phase`` is final. Must not raise."""


class _Silent:
    def start(self, tracker: ProgressTracker) -> None:
        """Do nothing."""

    def stop(self, snapshot: ProgressSnapshot) -> None:
        """Do nothing."""


silent: ProgressListener = _Silent()

Progress = ProgressListener | bool | None
"""Values of ``progress=``: a listener, ``False`` for silence, otherwise the default."""


@dataclass(slots=True)
class _Counts:
    rows: int = 0
    items: int = 0
    item_bytes: int = 0
    wire_bytes: int = 0
    decoded_bytes: int = 0
    complete_bytes: int = 0
    verified_bytes: int = 0
    retries: int = 0
    resumes: int = 0
    splits: dict[str, SplitProgress] = field(default_factory=dict)
    """Immutable values, so that a snapshot of many splits is cheap."""


class ProgressTracker:
    """Thread-safe counters of one operation; a context manager that starts and stops a listener.

    Leaving the block normally ends in `Phase.DONE`, and so does an iteration that its reader
    leaves early, since it has what it wanted; an interrupt or `CancelledError` ends in
    `Phase.CANCELLED`, any other exception in `Phase.FAILED` with its message. ``elapsed`` are the
    seconds for which the operation has already run.

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
        self._counts = _Counts()
        self._phase = Phase.CREATING
        self._started, self._started_at = clock() - elapsed, time.time() - elapsed
        self._pauses = Pauses(self._started)
        self._ended: float | None = None
        self._rows_total: int | None = None
        self._items_total: int | None = None
        self._bytes_total: int | None = None
        self._tasks: tuple[int, int | None] = (0, None)
        self._session_id: str | None = None
        self._request_ids: deque[str] = deque(maxlen=MAX_REQUEST_IDS)
        self._events: deque[str] = deque(maxlen=MAX_EVENTS)
        self._message = self._error = self._remark = ""
        self._meters: dict[int, Callable[[], int]] = {}
        self._sending: dict[int, Sending] = {}
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Drop the listener: the parent process goes on showing this operation."""
        self._lock, self._listener = threading.Lock(), silent

    def __enter__(self) -> ProgressTracker:
        self._listener.start(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        if error is None:
            self.finish(Phase.DONE)
        elif isinstance(error, GeneratorExit):
            self.finish(Phase.DONE, message="the rest was not wanted")
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

    def plan(
        self,
        *,
        session_id: str | None = None,
        rows_total: int | None = None,
        items_total: int | None = None,
        bytes_total: int | None = None,
    ) -> None:
        """Set the totals that are known from the session; the others stay ``None``.

        ``bytes_total`` is that of the contents of all items.
        """
        with self._lock:
            self._bytes_total = bytes_total if bytes_total is not None else self._bytes_total
            self._session_id = session_id if session_id is not None else self._session_id
            self._rows_total = rows_total if rows_total is not None else self._rows_total
            self._items_total = items_total if items_total is not None else self._items_total

    def plan_split(self, label: str, *, rows: int | None = None) -> None:
        """Announce a split (or write stream) with its rows, where known."""
        with self._lock:
            one = SplitProgress(label=label, rows_total=rows)
            self._counts.splits.setdefault(label, one)

    def add(
        self,
        *,
        split: str | None = None,
        rows: int = 0,
        items: int = 0,
        item_bytes: int = 0,
        wire_bytes: int = 0,
        decoded_bytes: int = 0,
        complete_bytes: int = 0,
        verified_bytes: int = 0,
        retries: int = 0,
        resumes: int = 0,
    ) -> None:
        """Add to the counters, and to those of one split when named.

        Pass negative numbers to take back what was counted wrongly.
        """
        with self._lock:
            counts = self._counts
            counts.rows += rows
            counts.items += items
            counts.item_bytes += item_bytes
            counts.wire_bytes += wire_bytes
            counts.decoded_bytes += decoded_bytes
            counts.complete_bytes += complete_bytes
            counts.verified_bytes += verified_bytes
            counts.retries += retries
            counts.resumes += resumes
            if split is not None and (one := counts.splits.get(split)) is not None:
                counts.splits[split] = replace(
                    one, rows=one.rows + rows, wire_bytes=one.wire_bytes + wire_bytes
                )

    @contextmanager
    def metered(self, wire_bytes: Callable[[], int]) -> Iterator[None]:
        """Inside the block, snapshots include bytes that arrived and are not added yet.

        A batch is counted once it is complete, which may take a minute on a slow network; its
        bytes are visible here before that. ``wire_bytes`` must be quick, and ask no tracker.
        """
        key = id(wire_bytes)
        with self._lock:
            self._meters[key] = wire_bytes
        try:
            yield
        finally:
            with self._lock:
                del self._meters[key]

    @contextmanager
    def sending(self, one: Sending) -> Iterator[None]:
        """Inside the block, snapshots include what a request sends that is not confirmed yet."""
        with self._lock:
            self._sending[id(one)] = one
        try:
            yield
        finally:
            with self._lock:
                del self._sending[id(one)]

    @property
    def rows(self) -> int:
        """Rows counted so far."""
        with self._lock:
            return self._counts.rows

    def correct_rows(self, rows: int) -> None:
        """Set the number of rows that the caller got, where more had arrived than it needed."""
        with self._lock:
            self._counts.rows = rows

    def restarted(self, why: str) -> None:
        """Forget the rows that came, since all of them are read again; keep a line about why."""
        with self._lock:
            counts = self._counts
            counts.rows = counts.decoded_bytes = counts.complete_bytes = 0
            counts.splits.clear()
            self._events.append(why)

    def count_tasks(self, done: int, total: int) -> None:
        """Set how many tasks of another engine are done; the total may grow."""
        with self._lock:
            self._tasks = done, total

    def split_done(self, label: str, *, part: bool = False) -> None:
        """Mark a split as completely read (or written); a part counts only if it was the last."""
        with self._lock:
            one = self._counts.splits.get(label)
            if one is not None and not (part and one.rows < (one.rows_total or 0)):
                self._counts.splits[label] = replace(one, done=True)

    def noted(self, what: str) -> None:
        """Keep a line about an event that is neither a retry nor an error."""
        with self._lock:
            self._events.append(what)

    def remark(self, what: str) -> None:
        """Set what is said of the result when the operation has succeeded."""
        with self._lock:
            self._remark = what

    def retried(self, what: str) -> None:
        """Count a retry and keep its line."""
        with self._lock:
            self._counts.retries += 1
            self._events.append(what)

    def resumed(self, what: str) -> None:
        """Count a stream that was continued after a break and keep its line."""
        with self._lock:
            self._counts.resumes += 1
            self._events.append(what)

    def request(self, request_id: str | None) -> None:
        """Remember the request id of an answer (the last few are kept)."""
        if request_id:
            with self._lock:
                self._request_ids.append(request_id)

    def finish(self, phase: Phase, *, message: str = "", error: str = "") -> None:
        """End the operation once; later calls change nothing."""
        with self._lock:
            if self._ended is not None:
                return
            said = message or (self._remark if phase is Phase.DONE else "")
            self._ended, self._phase, self._message = self._clock(), phase, said
            self._error = error
        self._listener.stop(self.snapshot())

    def snapshot(self) -> ProgressSnapshot:
        """Return all counters as a value."""
        with self._lock:
            counts = self._counts
            under_way = list(self._sending.values())
            wire_bytes = counts.wire_bytes + sum(meter() for meter in self._meters.values())
            wire_bytes += sum(one.wire_bytes for one in under_way)
            now = self._ended if self._ended is not None else self._clock()
            seen = (self._phase, counts.rows, counts.items, self._tasks, wire_bytes)
            quiet = self._pauses.quiet(seen, now)
            return ProgressSnapshot(
                operation=self._operation,
                title=self._title,
                phase=self._phase,
                rows=counts.rows,
                rows_total=self._rows_total,
                items=counts.items,
                items_total=self._items_total,
                item_bytes=counts.item_bytes + sum(one.payload for one in under_way),
                bytes_total=self._bytes_total,
                moving=tuple(one.item() for one in under_way if one.name),
                tasks=self._tasks[0],
                tasks_total=self._tasks[1],
                wire_bytes=wire_bytes,
                decoded_bytes=counts.decoded_bytes,
                complete_bytes=counts.complete_bytes,
                verified_bytes=counts.verified_bytes,
                splits=tuple(counts.splits.values()),
                retries=counts.retries,
                resumes=counts.resumes,
                elapsed=now - self._started,
                quiet=quiet if self._phase in MOVING and self._tasks[1] is None else 0.0,
                stalled=self._pauses.stalled,
                started_at=self._started_at,
                session_id=self._session_id,
                request_ids=tuple(self._request_ids),
                events=tuple(self._events),
                message=self._message,
                error=self._error,
            )
