"""Notices for how long counters have not changed."""

from __future__ import annotations

__all__ = ["STALL", "Pauses"]

STALL = 3.0
"""Seconds without a row or byte that count as a pause."""


class Pauses:
    """Measures pauses between the moments at which it is shown the counters.

    Examples
    --------
    >>> pauses = Pauses(now=0.0)
    >>> [pauses.quiet(("reading", rows), at) for rows, at in ((1, 1.0), (1, 6.0), (2, 6.5))]
    [0.0, 5.0, 0.0]
    >>> pauses.stalled
    5.5
    """

    def __init__(self, now: float) -> None:
        self._seen: tuple[object, ...] = ()
        self._since = now
        self.stalled: float = 0.0
        """Seconds of all pauses of at least `STALL` that are over."""

    def quiet(self, counts: tuple[object, ...], now: float) -> float:
        """Return seconds since ``counts`` changed; a change of the first one begins anew."""
        pause = now - self._since
        if counts == self._seen:
            return pause
        if pause >= STALL and counts[:1] == self._seen[:1]:
            self.stalled += pause
        self._seen, self._since = counts, now
        return 0.0
