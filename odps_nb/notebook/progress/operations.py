"""The settings of ``%config OdpsMagics``, and the operations that ``%odps status`` lists."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.lifetime import renew_after_fork
from odps_nb.notebook.display.listing import Listing
from odps_nb.notebook.progress import words

if TYPE_CHECKING:
    from odps_nb.notebook.magics.magics import OdpsMagics

MAX_OPERATIONS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The settings; ``max_output_bytes`` limits one output."""

    result_type: str = "pandas"
    limit: int | None = None
    ask_above: int | None = 256 * 1024 * 1024
    progress: str = "auto"
    refresh_hz: float = 5.0
    max_output_bytes: int = 2 * 1024 * 1024
    preview_rows: int = 10


def loaded_magics() -> OdpsMagics | None:
    """Return the magics of the running IPython, or ``None`` outside of it or before load_ext."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        return None
    return shell.magics_manager.registry.get("OdpsMagics")  # type: ignore[no-any-return]


def current_options() -> Options:
    """Return the present settings; the defaults if the magics are not loaded."""
    magics = loaded_magics()
    return Options() if magics is None else magics.options()


def record(tracker: ProgressTracker, *, cancel: Callable[[], None] | None = None) -> None:
    """Add an operation to the list of the loaded magics, if they are loaded."""
    magics = loaded_magics()
    if magics is not None:
        magics.operations.add(tracker, cancel=cancel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation, and its number for ``%odps cancel``."""

    number: int
    tracker: ProgressTracker
    cancel: Callable[[], None] | None = field(default=None, repr=False)


class Operations:
    """The last `MAX_OPERATIONS` operations of this kernel; every method is atomic."""

    def __init__(self) -> None:
        self._kept: deque[Operation] = deque(maxlen=MAX_OPERATIONS)
        self._numbers = itertools.count(1)
        renew_after_fork(self)

    def _after_fork(self) -> None:
        self._kept.clear()  # they belong to the parent process

    def add(self, tracker: ProgressTracker, *, cancel: Callable[[], None] | None = None) -> None:
        """Add an operation; the oldest is forgotten beyond `MAX_OPERATIONS`."""
        number = next(self._numbers)
        self._kept.append(Operation(number=number, tracker=tracker, cancel=cancel))

    def all(self) -> tuple[Operation, ...]:
        """Return the operations, oldest first."""
        return tuple(self._kept.copy())

    def find(self, number: int) -> Operation | None:
        """Return the operation of that number, or ``None``."""
        return next((one for one in self.all() if one.number == number), None)

    def listing(self) -> Listing:
        """Return the operations as a table."""
        return Listing(
            headers=("id", "operation", "state", "amount", "ids"),
            rows=tuple((one.number, *_facts(one.tracker)) for one in self.all()),
            empty="no operations yet",
        )


def _facts(tracker: ProgressTracker) -> tuple[str, ...]:
    now = tracker.snapshot()
    amounts, ids = " · ".join(words.amounts(now)), " · ".join(words.ids(now, last=1))
    return f"{now.operation} {now.title}", words.ending(now), amounts, ids
