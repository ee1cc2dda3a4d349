"""How many jobs run side by side: as many as pay, fewer where a service refuses.

Refusals take lanes back, items that come give them again. Beyond the lanes that it begins with,
a pace climbs: lanes are added while the bytes of a window come faster for it, and the last ones
are taken back where they brought nothing. The clock is an argument. Knows no jobs and no rows.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

__all__ = ["Pace"]

ITEMS_PER_LANE = 8
"""Items without a refusal that give a lane again."""
WINDOW = 0.5
"""Seconds that a window of measuring lasts at least."""
WINDOW_ITEMS = 2
"""Items per lane that a window has at least: they come in bursts."""
STEP = 2
"""A try adds one lane for so many that there are, so that what it brings can be measured."""
SHARE = 3
"""A try has paid if it brought one part in so many of what its lanes could have brought."""
FIRST_REST, LONGEST_REST = 8, 64
"""Windows without a try after one that brought nothing; the rest doubles each time."""


class Pace:
    """A number of lanes between one and ``most``; thread-safe.

    It only says when a job may begin: one that runs is never stopped.

    Parameters
    ----------
    lanes
        How many there are at the beginning, all at once.
    most
        How many there may be if more are faster; ``lanes`` if ``None``, and nothing is measured.
    clock
        Seconds of a clock that never goes back.
    tell
        Called with a line for people when lanes are added or taken back.

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

    def __init__(
        self,
        lanes: int,
        *,
        most: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._lock = threading.Lock()
        self._first = self._lanes = max(1, lanes)
        self._most = self._first if most is None else max(self._first, most)
        self._tell = tell
        self._window = _Window(clock)
        self._settling = False  # lanes have just changed: the running window is of both
        self._before: tuple[int, float] | None = None  # lanes and bytes a second before a try
        self._rest, self._next_rest = 0, FIRST_REST  # windows without a try
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
        """How many items came so far, of all jobs."""
        return self._items

    @property
    def starving(self) -> bool:
        """Whether somebody was refused and no item came since, of any job."""
        return self._starving

    def refused(self) -> None:
        """Take a lane back: the service said that it is too much."""
        with self._lock:
            self._starving, self._since = True, 0
            self._before = None
            self._rest_long()
            self._change(self._lanes - 1, "the service refuses so many")

    def came(self, size: int = 0) -> None:
        """Count an item of so many bytes.

        Enough of them without a refusal give a lane again, up to the number at the beginning.
        """
        with self._lock:
            self._items += 1
            self._since += 1
            self._starving = False
            if self._since >= ITEMS_PER_LANE and self._lanes < self._first:
                self._since = 0
                self._change(self._lanes + 1, "nothing was refused lately")
            elif self._first <= self._lanes and self._first < self._most:
                self._measure(size)

    def disturbed(self) -> None:
        """Forget what is being measured: something else than the lanes decides how fast it is.

        The consumer does, or there are fewer jobs left than lanes.
        """
        with self._lock:
            self._window.restart()

    def _measure(self, size: int) -> None:
        if self._settling:
            rate = self._window.came(size, items=self._lanes, seconds=0.0)
            self._settling = rate is None
        else:
            rate = self._window.came(size, items=WINDOW_ITEMS * self._lanes, seconds=WINDOW)
            if rate is not None:
                self._judge(rate)

    def _judge(self, rate: float) -> None:
        """Decide after a whole window: go on adding, take back, or leave it."""
        if self._before is not None:
            lanes, slower = self._before
            self._before = None
            if rate < slower * (1 + (self._lanes - lanes) / lanes / SHARE):
                self._rest_long()
                self._change(lanes, "more were no faster")
                return
            self._next_rest = FIRST_REST
        if self._rest:
            self._rest -= 1
        elif self._lanes < self._most:
            self._before = (self._lanes, rate)
            self._change(self._lanes + max(1, self._lanes // STEP), "more may be faster")

    def _rest_long(self) -> None:
        self._rest, self._next_rest = self._next_rest, min(LONGEST_REST, 2 * self._next_rest)

    def _change(self, lanes: int, why: str) -> None:
        lanes, before = max(1, min(self._most, lanes)), self._lanes
        self._window.restart()
        if lanes != before:
            self._lanes, self._settling = lanes, True
            self._tell(f"{lanes} at a time instead of {before}: {why}")


class _Window:
    """Bytes a second between the first and the last item of a stretch of time."""

    __slots__ = ("_began", "_bytes", "_clock", "_items")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """Begin anew with the next item."""
        self._began: float | None = None
        self._bytes = self._items = 0

    def came(self, size: int, *, items: int, seconds: float) -> float | None:
        """Count an item; return bytes a second once the window is long enough, and begin anew."""
        now = self._clock()
        if self._began is None:
            self._began = now  # this item's bytes came before the window began
            return None
        self._bytes, self._items = self._bytes + size, self._items + 1
        lasted = now - self._began
        if lasted < seconds or self._items < items:
            return None
        rate = self._bytes / lasted if lasted else math.inf
        self._began, self._bytes, self._items = now, 0, 0
        return rate
