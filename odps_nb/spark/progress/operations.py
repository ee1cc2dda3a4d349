"""`Operation`: what the hub knows of one run that goes on."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from odps_nb.spark.progress.planner_messages import State
from odps_nb.spark.progress.server import Channel
from odps_nb.spark.progress.totals import Run

__all__ = ["Operation", "OperationKey"]

_QUIET = 0.4
_HANGING = 1.5
# From the last word of a task until a commit begins, or the write is given up; and from there.
_UNDECIDED = 15.0
_COMMITTING = 600.0

OperationKey = tuple[str, ...]


@dataclass(slots=True, eq=False)
class Operation:
    """A run with what is needed to see it end.

    ``ours`` says that the hub made its tracker, and so ends it; a watched action ends its own,
    and has a ``tag`` on all its jobs. One that ``commits`` is over when its ``state`` is.
    """

    key: OperationKey
    run: Run
    ours: bool
    cell: int = 0
    tag: str = ""
    commits: bool = False
    state: State | None = None
    channels: set[Channel] = field(default_factory=set)
    jobs: set[int] = field(default_factory=set)
    last_seen: float = 0.0
    last_heard: float = 0.0
    ended_at: float | None = None
    cancelled: bool = False

    def heard(self) -> None:
        """Take note that a task of it said something."""
        self.last_seen = self.last_heard = time.monotonic()

    @property
    def patience(self) -> float:
        """Seconds of quiet after which it is over."""
        if self.state is not None:
            return _COMMITTING
        if self.commits and not self.cancelled:
            return _UNDECIDED
        return _HANGING if self.channels else _QUIET

    def clock(self) -> float:
        """The time, which stands still once nothing happens any more."""
        return time.monotonic() if self.ended_at is None else self.ended_at
