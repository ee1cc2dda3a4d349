"""Redraws progress in a thread at a steady rate; workers never wait for it."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

from odps_nb.client.calls.progress import ProgressSnapshot, ProgressTracker
from odps_nb.lifetime import Home
from odps_nb.notebook.progress.operations import record

# Jupyter Server drops messages beyond 1000/s in all; five a second look alive and cost nothing.
MAX_HZ = 5.0
# What ends sooner than this (seconds) was not worth a card.
SHOW_AFTER = 0.3


class Flusher:
    """A progress listener that draws one operation; subclasses say how.

    It draws after ``delay`` seconds, then ``hz`` times a second. ``on_cancel`` cancels the
    operation, for ``%odps cancel``.
    """

    def __init__(
        self, *, delay: float, hz: float = MAX_HZ, on_cancel: Callable[[], None] | None = None
    ) -> None:
        self._delay, self._interval = delay, 1 / min(max(hz, 0.1), MAX_HZ)
        self._on_cancel = on_cancel
        self._final: ProgressSnapshot | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._home = Home()

    def start(self, tracker: ProgressTracker) -> None:
        """List the operation in ``%odps status``, and start to draw it."""
        record(tracker, cancel=self._on_cancel)
        if not self._is_shown():
            return
        context = contextvars.copy_context()  # ipykernel keeps there which cell this belongs to
        self._thread = threading.Thread(
            target=lambda: context.run(self._run, tracker), name="odps-nb-flusher", daemon=True
        )
        self._thread.start()

    def stop(self, snapshot: ProgressSnapshot) -> None:
        """Draw the end if anything was drawn, and join the thread. Idempotent."""
        self._final = snapshot
        if self._thread is None or not self._home.is_here:
            return  # in a forked child the parent draws
        self._stopped.set()
        # After an interrupt while joining, the thread still draws the end.
        self._thread.join()

    def _run(self, tracker: ProgressTracker) -> None:
        if self._stopped.wait(self._delay):
            return
        self._draw(tracker.snapshot())
        while not self._stopped.wait(self._interval):
            self._draw(tracker.snapshot())
        if self._final is not None:
            self._draw_end(self._final)

    def _is_shown(self) -> bool:
        return True

    def _draw(self, snapshot: ProgressSnapshot) -> None:
        raise NotImplementedError

    def _draw_end(self, snapshot: ProgressSnapshot) -> None:
        self._draw(snapshot)
