"""Remembers running and finished operations, for ``%odps status`` and ``%odps cancel``."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.lifetime import renew_after_fork
from odps_nb.notebook.display.listing import Listing
from odps_nb.notebook.magics.options import loaded_magics
from odps_nb.notebook.progress import words

MAX_OPERATIONS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation, and its number for ``%odps cancel``."""

    number: int
    tracker: ProgressTracker
    cancel: Callable[[], None] | None = field(default=None, repr=False)


class Operations:
    """The last `MAX_OPERATIONS` operations of this kernel; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[Operation] = deque(maxlen=MAX_OPERATIONS)
        self._count = 0
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Start with an empty list: operations belong to the parent process."""
        self._lock = threading.Lock()
        self._kept.clear()

    def add(
        self, tracker: ProgressTracker, *, cancel: Callable[[], None] | None = None
    ) -> Operation:
        """Remember an operation; the oldest is forgotten beyond `MAX_OPERATIONS`."""
        with self._lock:
            self._count += 1
            operation = Operation(number=self._count, tracker=tracker, cancel=cancel)
            self._kept.append(operation)
            return operation

    def find(self, number: int) -> Operation | None:
        """Return the operation of that number, or ``None``."""
        return next((one for one in self.all() if one.number == number), None)

    def all(self) -> tuple[Operation, ...]:
        """Return the remembered operations, oldest first."""
        with self._lock:
            return tuple(self._kept)

    def listing(self) -> Listing:
        """Return the operations as a table."""
        rows = []
        for one in self.all():
            snapshot = one.tracker.snapshot()
            rows.append(
                (
                    one.number,
                    f"{snapshot.operation} {snapshot.title}",
                    words.ending(snapshot),
                    " · ".join(words.amounts(snapshot)),
                    " · ".join(words.ids(snapshot, last=1)),
                )
            )
        return Listing(
            headers=("id", "operation", "state", "amount", "ids"),
            rows=tuple(rows),
            empty="no operations yet",
        )


def record(tracker: ProgressTracker, *, cancel: Callable[[], None] | None = None) -> None:
    """Add an operation to the list of the loaded magics; does nothing if none are loaded."""
    magics = loaded_magics()
    if magics is not None:
        magics.operations.add(tracker, cancel=cancel)
