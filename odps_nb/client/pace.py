"""How many jobs may run side by side where a service refuses for haste (floor 3).

Clockless: refusals take lanes back, items that come give them again. Knows no jobs and no rows.
"""

from __future__ import annotations

import threading

__all__ = ["Pace"]

ITEMS_PER_LANE = 8


class Pace:
    """A number of lanes between one and ``most``; thread-safe.

    It only says when a job may begin: one that runs is never stopped.

    Examples
    --------
    >>> pace = Pace(4)
    >>> pace.refused()
    >>> pace.refused()
    >>> pace.lanes
    2
    >>> for _ in range(ITEMS_PER_LANE):
    ...     pace.came()
    >>> pace.lanes
    3
    """

    def __init__(self, most: int) -> None:
        self._lock = threading.Lock()
        self._most = self._lanes = max(1, most)
        self._items = 0
        self._since = 0  # items since lanes changed

    @property
    def lanes(self) -> int:
        """How many jobs may run now."""
        return self._lanes

    @property
    def items(self) -> int:
        """How many items came so far, of all jobs."""
        return self._items

    def refused(self) -> None:
        """Take a lane back: the service said that it is too much."""
        with self._lock:
            self._lanes = max(1, self._lanes - 1)
            self._since = 0

    def came(self) -> None:
        """Count an item; enough of them without a refusal give a lane again."""
        with self._lock:
            self._items += 1
            self._since += 1
            if self._since >= ITEMS_PER_LANE:
                self._lanes, self._since = min(self._most, self._lanes + 1), 0
