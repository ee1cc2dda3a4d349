"""An operation's progress at one moment: phase, counters, splits, and items being sent."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

STALL = 3.0
"""Minimum seconds without a new row or byte that are treated as a pause."""


class Pauses:
    """Measures pauses: periods in which the counts passed to `quiet` do not change.

    Examples
    --------
    >>> pauses = Pauses(now=0.0)
    >>> [pauses.quiet(("reading", rows), at) for rows, at in ((1, 1.0), (1, 6.0), (2, 6.5))]
    [0.0, 5.0, 0.0]
    >>> pauses.stalled
    5.5
    """

    def __init__(self, now: float) -> None:
        self._seen: tuple[object, ...] = ()
        self._since = now
        self.stalled: float = 0.0
        """Total seconds of finished pauses that lasted at least `STALL`."""

    def quiet(self, counts: tuple[object, ...], now: float) -> float:
        """Return seconds since ``counts`` changed; `stalled` excludes a phase's last pause."""
        pause = now - self._since
        if counts == self._seen:
            return pause
        if pause >= STALL and counts[:1] == self._seen[:1]:
            self.stalled += pause
        self._seen, self._since = counts, now
        return 0.0


class Phase(str, Enum):
    """The phase of an operation; the value is the text that users see."""

    CREATING = "creating session"
    READING = "reading"
    WRITING = "writing"
    UPLOADING = "uploading blobs"
    FETCHING = "fetching blobs"
    RUNNING = "running query"
    CONVERTING = "converting"
    COMMITTING = "committing"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        """Whether the operation has ended."""
        return self in (Phase.DONE, Phase.CANCELLED, Phase.FAILED)


MOVING = (Phase.READING, Phase.WRITING, Phase.UPLOADING, Phase.FETCHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitProgress:
    """One split or write stream; ``rows_total`` is ``None`` if the server does not report it."""

    label: str
    rows: int = 0
    rows_total: int | None = None
    wire_bytes: int = 0
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemProgress:
    """A file or other item being sent, with its ``size`` and the bytes ``sent`` so far."""

    name: str
    size: int
    sent: int = 0


@dataclass(slots=True)
class Sending:
    """Bytes sent by one request; ``name``, ``size`` and ``sent`` describe the current item."""

    wire_bytes: int = 0
    payload: int = 0
    name: str = ""
    size: int = 0
    sent: int = 0

    def begin(self, name: str | None, size: int) -> None:
        """Start counting the next item."""
        self.name, self.size, self.sent = name or "", size, 0

    def add(self, payload: int) -> None:
        """Count ``payload`` more bytes of the current item."""
        self.sent += payload
        self.payload += payload

    def item(self) -> ItemProgress:
        """Return the item being sent."""
        return ItemProgress(name=self.name, size=self.size, sent=self.sent)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressSnapshot:
    """All counters at one moment; sizes are in bytes, times in seconds.

    Rows have no checksum, so ``complete_bytes`` counts the bytes of Arrow streams that had an end
    marker and the expected number of rows. ``verified_bytes`` counts payload with matching
    checksums (a blob's CRC32C). ``tasks`` are another engine's tasks. ``item_bytes`` counts the
    uploaded bytes of blobs, out of ``bytes_total``; ``moving`` lists the files being uploaded.
    ``events`` are lines about retries and about the transfer service, if it is not the Storage API:
    the first line and the latest.
    """

    operation: str  # "read" | "write" | "blobs" | "sql"
    title: str
    phase: Phase
    rows: int = 0
    rows_total: int | None = None
    items: int = 0
    items_total: int | None = None
    item_bytes: int = 0
    bytes_total: int | None = None
    moving: tuple[ItemProgress, ...] = ()
    tasks: int = 0
    tasks_total: int | None = None
    wire_bytes: int = 0
    decoded_bytes: int = 0
    complete_bytes: int = 0
    verified_bytes: int = 0
    splits: tuple[SplitProgress, ...] = ()
    retries: int = 0
    resumes: int = 0
    elapsed: float = 0.0
    quiet: float = 0.0
    """Seconds since the last row or byte; 0 if none is expected or only tasks are counted."""
    stalled: float = 0.0
    """Total seconds of earlier pauses that lasted at least `STALL`."""
    started_at: float = 0.0
    """Start time, in seconds since the epoch."""
    session_id: str | None = None
    request_ids: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    message: str = ""
    error: str = ""
    """Type of the error that the caller receives; ``message`` is its text."""

    @property
    def fraction(self) -> float | None:
        """Fraction done, in [0, 1]; ``None`` if unknown.

        Based on the first of these totals that is known: item bytes, rows, items, splits, tasks.
        """
        for count, total in (
            (self.item_bytes, self.bytes_total),
            (self.rows, self.rows_total),
            (self.items, self.items_total),
            (sum(s.done for s in self.splits), len(self.splits)),
            (self.tasks, self.tasks_total),
        ):
            if total:
                return min(1.0, count / total)
        return None

    @property
    def eta(self) -> float | None:
        """Estimated seconds left at the average rate, excluding pauses; ``None`` if unknown."""
        share = self.fraction
        if not share or share < 0.01 or self.phase.is_final or self.quiet >= STALL:
            return None
        return (self.elapsed - self.stalled) * (1 - share) / share
