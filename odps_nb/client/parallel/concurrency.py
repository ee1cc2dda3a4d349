"""Adapts how many jobs run concurrently: fewer while the service throttles (429)."""

from __future__ import annotations

import threading
from collections.abc import Callable

ITEMS_PER_LANE = 8
"""Items without a refusal that restore a lane."""


class AdaptiveConcurrency:
    """A number of lanes between one and ``most``, the initial one; thread-safe.

    Each 429 takes a lane away; `ITEMS_PER_LANE` items without one restore it. It only limits when
    a job may begin. ``tell`` is called with a line of text at each change.

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
        self._tell = tell
        self._since = 0  # items since lanes changed
        self.most: int = max(1, most)
        self.lanes: int = self.most
        """How many jobs may run now."""
        self.items: int = 0
        """How many items of all jobs have arrived."""
        self.starving: bool = False
        """Whether a job was refused and no item of any job has arrived since."""

    def refused(self) -> None:
        """Take a lane away: the service refused a request."""
        with self._lock:
            self.starving, self._since = True, 0
            self._change(self.lanes - 1, "the service answers 429 (too many requests)")

    def record(self) -> None:
        """Count an item; enough of them without a refusal restore a lane."""
        with self._lock:
            self.items += 1
            self._since += 1
            self.starving = False
            if self._since >= ITEMS_PER_LANE and self.lanes < self.most:
                self._since = 0
                self._change(self.lanes + 1, "no throttling recently")

    def _change(self, lanes: int, why: str) -> None:
        lanes, before = max(1, min(self.most, lanes)), self.lanes
        if lanes != before:
            self.lanes = lanes
            self._tell(f"{lanes} at a time instead of {before}: {why}")
