"""Limits the number of connections, and the time that a client takes to send a request head.

A request head must arrive in time, counted from its first byte (the first head: from the
connection). When there are too many connections, the one that has been idle longest is closed; if
none is idle, the new one is refused.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["KEEP_ALIVE", "Connection"]

KEEP_ALIVE = 120
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: 0\r\n\r\n"
)


class Connection(H11Protocol):
    """An HTTP connection with limits; available to the application in ``scope["state"]``."""

    head_seconds = 10.0
    most = 512

    def __init__(
        self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: Any = None
    ) -> None:
        state = {**app_state, "connection": self, "direct": True}
        super().__init__(config, server_state, state, _loop)
        self._deadline: asyncio.TimerHandle | None = None
        self._waits_since = 0.0

    def connection_made(self, transport: Any) -> None:
        """Accept a new connection, if there is room."""
        if len(self.connections) >= self._room() and not _make_room(self.connections):
            transport.write(_REFUSAL)
            transport.close()
        super().connection_made(transport)
        self._await_head(self.head_seconds)

    def data_received(self, data: bytes) -> None:
        """Receive bytes; starts the deadline of a head at its first byte."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request, which may have begun already."""
        self._waits_since = self.loop.time()
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the deadline."""
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def waits(self) -> bool:
        """Whether no request is being read or answered."""
        return self.conn.their_state is h11.IDLE and self.conn.our_state is h11.IDLE

    @property
    def waits_since(self) -> float:
        """When this connection was last active, by the clock of its event loop."""
        return self._waits_since

    def _room(self) -> int:
        """Return the limit of connections: half of the files that this process may open."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return min(self.most, soft // 2) if soft > 0 else self.most

    def _look(self) -> None:
        """Start or stop the deadline, depending on the bytes received so far."""
        if not self.waits:
            self._stop_waiting()
        elif self._deadline is None and self.conn.trailing_data[0]:
            self._await_head(self.head_seconds)
        elif self._deadline is None and self.timeout_keep_alive_task is None:
            self._await_head(KEEP_ALIVE)  # the rest of a body came after its answer

    def _await_head(self, seconds: float) -> None:
        self._stop_waiting()
        self._waits_since = self.loop.time()
        self._deadline = self.loop.call_later(seconds, self._too_late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self.transport.abort()


def _make_room(connections: set[Any]) -> bool:
    """Close the connection that has been idle longest; return whether there was one."""
    waiting = [one for one in connections if one.waits]
    if not waiting:
        return False
    longest = min(waiting, key=lambda one: one.waits_since)
    connections.discard(longest)  # it says so itself only in the next turn of the loop
    longest.transport.abort()
    return True
