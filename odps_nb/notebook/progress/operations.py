"""Operations: settings, the list for ``%odps status``, and threads that display progress."""

from __future__ import annotations

import contextvars
import itertools
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from odps_nb.client.calls.progress import ProgressSnapshot, ProgressTracker
from odps_nb.lifetime import Home, renew_after_fork
from odps_nb.notebook.display.listing import Listing
from odps_nb.notebook.progress import words

if TYPE_CHECKING:
    from odps_nb.notebook.magics.magics import OdpsMagics

MAX_OPERATIONS = 50
# Five updates per second look smooth and are far below Jupyter Server's limit of 1000 messages/s.
MAX_HZ = 5.0
# Operations shorter than this (seconds) show no card.
SHOW_AFTER = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The current settings; ``max_output_bytes`` limits the output of one cell."""

    result_type: str = "pandas"
    limit: int | None = None
    confirm_above: int | None = 256 * 1024 * 1024
    sql_max_bytes: int | None = None
    progress: str = "auto"
    refresh_hz: float = 5.0
    max_output_bytes: int = 2 * 1024 * 1024
    preview_rows: int = 10


def loaded_magics() -> OdpsMagics | None:
    """Return the loaded magics, or ``None`` outside IPython or before ``%load_ext``."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        return None
    return shell.magics_manager.registry.get("OdpsMagics")  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation with its number for ``%odps cancel``."""

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
        self._kept.clear()  # the operations run in the parent process

    def add(self, tracker: ProgressTracker, *, cancel: Callable[[], None] | None = None) -> None:
        """Add an operation, and drop the oldest beyond `MAX_OPERATIONS`."""
        number = next(self._numbers)
        self._kept.append(Operation(number=number, tracker=tracker, cancel=cancel))

    def all(self) -> tuple[Operation, ...]:
        """Return the operations, oldest first."""
        return tuple(self._kept.copy())

    def find(self, number: int) -> Operation | None:
        """Return the operation with this number, or ``None``."""
        return next((operation for operation in self.all() if operation.number == number), None)

    def listing(self) -> Listing:
        """Return the operations as a table."""
        return Listing(
            headers=("id", "operation", "state", "amount", "ids"),
            rows=tuple((operation.number, *_facts(operation.tracker)) for operation in self.all()),
            empty="no operations yet",
        )


def _facts(tracker: ProgressTracker) -> tuple[str, ...]:
    now = tracker.snapshot()
    amounts, ids = " · ".join(words.amounts(now)), " · ".join(words.ids(now, last=1))
    return f"{now.operation} {now.title}", words.ending(now), amounts, ids


class Flusher(ABC):
    """A progress listener that draws one operation; subclasses implement the drawing.

    It first draws when the operation has run for ``delay`` seconds, then at the rate in ``options``
    (default: ``%config OdpsMagics``). ``%odps cancel`` calls ``on_cancel``.
    """

    def __init__(
        self,
        *,
        options: Options | None = None,
        delay: float = SHOW_AFTER,
        on_cancel: Callable[[], None] | None = None,
    ) -> None:
        magics = loaded_magics()
        options = options or (Options() if magics is None else magics.options())
        self._mode, self._interval = options.progress, 1 / min(max(options.refresh_hz, 0.1), MAX_HZ)
        self._delay, self._on_cancel = delay, on_cancel
        self._final: ProgressSnapshot | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._home = Home()

    def start(self, tracker: ProgressTracker) -> None:
        """List the operation in ``%odps status``, and start drawing it."""
        if (magics := loaded_magics()) is not None:
            magics.operations.add(tracker, cancel=self._on_cancel)
        if not self._is_shown():
            return
        context = contextvars.copy_context()  # ipykernel stores the current cell in it
        self._thread = self._new_thread(
            target=lambda: context.run(self._run, tracker), name="odps-nb-flusher", daemon=True
        )
        self._thread.start()

    def stop(self, snapshot: ProgressSnapshot) -> None:
        """Draw the final state if anything was drawn, and join the thread. Idempotent."""
        self._final = snapshot
        if self._thread is None or not self._home.is_here:
            return  # the thread was not started, or it runs in the parent of this forked process
        self._stopped.set()
        # Even if an interrupt ends the join, the thread still draws the final state.
        self._thread.join()

    def _run(self, tracker: ProgressTracker) -> None:
        # A Spark action is known only when its first task has finished, so it may end at once.
        left = max(0.0, self._delay - tracker.snapshot().elapsed)
        if self._stopped.wait(left) and tracker.snapshot().elapsed < self._delay:
            return
        self._draw(tracker.snapshot())
        while not self._stopped.wait(self._interval):
            self._draw(tracker.snapshot())
        if self._final is not None:
            self._draw_end(self._final)

    def _new_thread(self, **options: Any) -> threading.Thread:
        return threading.Thread(**options)

    def _is_shown(self) -> bool:
        return self._mode != "none"

    @abstractmethod
    def _draw(self, snapshot: ProgressSnapshot) -> None:
        """Draw the operation while it runs."""

    def _draw_end(self, snapshot: ProgressSnapshot) -> None:
        self._draw(snapshot)
