"""Redraws progress in a thread at a steady rate; workers never wait for it."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable

from odps_nb.lifetime import Home

# Jupyter Server drops messages beyond 1000/s in all; five a second look alive and cost nothing.
MAX_HZ = 5.0
# What ends sooner than this (seconds) was not worth a card.
SHOW_AFTER = 0.3


class Flusher:
    """A thread that waits ``delay`` seconds, calls ``draw`` ``hz`` times a second, then ``last``.

    ``last`` runs in the same thread, and only if ``draw`` ran before. The thread has the context
    variables of the thread that created it: ipykernel keeps there which cell an output belongs to.
    """

    def __init__(
        self,
        draw: Callable[[], None],
        last: Callable[[], None],
        *,
        hz: float = MAX_HZ,
        delay: float = SHOW_AFTER,
    ) -> None:
        self._draw, self._last = draw, last
        self._interval = 1 / min(max(hz, 0.1), MAX_HZ)
        self._delay = delay
        self._stopped = threading.Event()
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=lambda: context.run(self._run), name="odps-nb-flusher", daemon=True
        )
        self._home = Home()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Call ``last`` if anything was drawn, and join the thread. Idempotent."""
        if not self._home.is_here:
            return  # the parent draws
        self._stopped.set()
        # An interrupt while joining leaves the thread to end by itself: it still draws the end.
        self._thread.join()

    def _run(self) -> None:
        if self._stopped.wait(self._delay):
            return
        self._draw()
        while not self._stopped.wait(self._interval):
            self._draw()
        self._last()
