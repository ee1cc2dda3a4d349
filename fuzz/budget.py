"""Limits how long a mutation fuzzer runs: to a number of inputs or a number of seconds."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Budget:
    """A limit of ``count`` inputs or ``seconds``, whichever comes first; ``None``: no limit."""

    count: int | None
    seconds: float | None = None
    _began: float = field(default_factory=time.monotonic, init=False)

    def is_spent(self, done: int) -> bool:
        """Return whether the limit is reached after ``done`` inputs."""
        if self.seconds is not None and time.monotonic() - self._began >= self.seconds:
            return True
        return self.count is not None and done >= self.count

    def slice(self, start: int, size: int) -> int:
        """Return the end of a slice of at most ``size`` inputs."""
        return min(self.count or sys.maxsize, start + size)


def read(description: str, default: int) -> tuple[Budget, int]:
    """Read ``--count``, ``--seconds`` and ``--seed`` from the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--count", type=int, help=f"inputs; {default} without --seconds")
    parser.add_argument("--seconds", type=float, help="start no new input after this time")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.count is None and options.seconds is None:
        options.count = default
    return Budget(options.count, options.seconds), options.seed
