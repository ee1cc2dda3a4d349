"""Adapts how many jobs run concurrently: as many as requested, fewer while the service answers 429.

Each refusal (429) takes a lane away; enough items without a refusal restore one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

ITEMS_PER_LANE = 8
"""Items without a refusal that restore a lane."""


class AdaptiveConcurrency:
    """A number of lanes between one and ``most``; thread-safe.

    It only limits when a job may begin: a running one is never stopped.

    Parameters
    ----------
    most
        How many there are at the beginning, and at any time at most.
    tell
        Called with a line of text when lanes are taken away or restored.

    Examples
    --------
    >>> concurrency = AdaptiveConcurrency(4)
    >>> concurrency.refused()
    >>> concurrency.refused()
    >>> concurrency.lanes
    2
    >>> for _ in range(ITEMS_PER_LANE):
    ...     concurrency.record()
    >>> concurrency.lanes
    3
    """

    def __init__(self, most: int, *, tell: Callable[[str], None] = lambda line: None) -> None:
        self._lock = threading.Lock()
        self._most = self._lanes = max(1, most)
        self._tell = tell
        self._items = 0
        self._since = 0  # items since lanes changed
        self._starving = False

    @property
    def lanes(self) -> int:
        """How many jobs may run now."""
        return self._lanes

    @property
    def most(self) -> int:
        """How many jobs may run at any time."""
        return self._most

    @property
    def items(self) -> int:
        """How many items arrived so far, of all jobs."""
        return self._items

    @property
    def starving(self) -> bool:
        """Whether a job was refused and no item of any job has arrived since."""
        return self._starving

    def refused(self) -> None:
        """Take a lane away: the service refused a request."""
        with self._lock:
            self._starving, self._since = True, 0
            self._change(self._lanes - 1, "the service answers 429 (too many requests)")

    def record(self) -> None:
        """Count an item; enough of them without a refusal restore a lane."""
        with self._lock:
            self._items += 1
            self._since += 1
            self._starving = False
            if self._since >= ITEMS_PER_LANE and self._lanes < self._most:
                self._since = 0
                self._change(self._lanes + 1, "no throttling recently")

    def _change(self, lanes: int, why: str) -> None:
        lanes, before = max(1, min(self._most, lanes)), self._lanes
        if lanes != before:
            self._lanes = lanes
            self._tell(f"{lanes} at a time instead of {before}: {why}")
