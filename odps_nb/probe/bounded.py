"""A transport that enforces the bounds of a question on requests and time.

Every request goes through it, also those of SQL and the lookup of the endpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from odps_nb.http.transport import HttpRequest, HttpResponse, Transport
from odps_nb.probe.question import CannotTell


class BoundedTransport:
    """Sends until the bound of the running question is reached, then raises `CannotTell`.

    Parameters
    ----------
    inner
        What really sends.
    clock
        Seconds, for durations.
    """

    def __init__(self, inner: Transport, clock: Callable[[], float]) -> None:
        self._inner, self._clock = inner, clock
        self._left, self._deadline = 0, 0.0
        self.sent = 0

    def begin(self, *, requests: int, seconds: float) -> None:
        """Set the bounds: requests, and seconds from now."""
        self._left, self._deadline = requests, self._clock() + seconds

    @property
    def seconds_left(self) -> float:
        """Seconds left for the running question, at least 0.1."""
        return max(0.1, self._deadline - self._clock())

    def send(self, request: HttpRequest) -> HttpResponse:
        """Send one request; waits no longer than the time left for the question."""
        if self._left <= 0:
            raise CannotTell("the bound on requests was reached")
        if self._clock() >= self._deadline:
            raise CannotTell("the bound on time was reached")
        self._left -= 1
        self.sent += 1
        left = self.seconds_left
        return self._inner.send(
            replace(
                request,
                connect_timeout=min(request.connect_timeout, left),
                read_timeout=min(request.read_timeout, left),
                send_timeout=min(request.send_timeout or left, left),
                document_timeout=min(request.document_timeout, left),
            )
        )

    def close(self) -> None:
        """Close all connections."""
        self._inner.close()
