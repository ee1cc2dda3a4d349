"""Stops an exchange from another thread: shutting its socket down wakes a waiting ``recv``."""

from __future__ import annotations

import contextlib
import socket
import threading

from odps_nb.http.waiting import unbound_receiving
from odps_nb.lifetime import renew_after_fork


class Abort:
    """Stops one exchange: `stop` shuts down the socket that it uses now or later.

    It holds a duplicate of the descriptor, since TLS swaps the socket object during the
    handshake; shutting down the duplicate shuts down the connection itself.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._twin: socket.socket | None = None
        self.stopped: bool = False
        """Whether `stop` was called; errors after that are caused by it."""
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Forget the parent's socket: shutting it down would end the parent's exchange."""
        self._lock = threading.Lock()
        self.detach()

    def attach(self, sock: socket.socket) -> None:
        """Register the socket for `stop`; shut it down at once if `stop` came first."""
        # A shutdown asks for no family; what speaks TLS inside of TLS could not tell it.
        twin = socket.fromfd(sock.fileno(), socket.AF_INET, socket.SOCK_STREAM)
        with self._lock:
            self._twin, old = twin, self._twin
            if self.stopped:
                _shut(twin)
        if old is not None:
            old.close()

    def detach(self) -> None:
        """Forget the socket: it goes back to a pool, or is closed. Idempotent."""
        with self._lock:
            twin, self._twin = self._twin, None
        if twin is not None:
            twin.close()

    def receive_freely(self) -> None:
        """Let the kernel receive ahead on the socket as much as it likes."""
        with self._lock:
            if self._twin is not None:
                unbound_receiving(self._twin)

    def stop(self) -> None:
        """Shut the socket down and remember it. Safe from any thread, idempotent."""
        with self._lock:
            self.stopped = True
            if self._twin is not None:
                _shut(self._twin)


def _shut(sock: socket.socket) -> None:
    # Not connected any more is what we want, however it came about.
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
