"""A clock that a test advances."""

from __future__ import annotations


class Clock:
    """Returns the seconds that it holds; waits only advance it."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)
