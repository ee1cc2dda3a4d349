"""Waits for sockets in short slices, so that Ctrl-C and `Abort` always take effect.

A signal that arrives just before a thread sleeps in the kernel does not wake the thread. On some
systems, signals never wake it. This module also aborts exchanges and limits the kernel's receive
buffer.
"""

from __future__ import annotations

import contextlib
import errno
import io
import math
import os
import socket
import sys
import threading
import time
from typing import IO, Any

from urllib3.util.wait import wait_for_socket

from odps_nb.lifetime import renew_after_fork

SLICE = 0.1
"""Maximum seconds to sleep at a time."""

_SO_BUF_LOCK = 72 if sys.platform == "linux" else None  # since Linux 5.15; absent from `socket`

_UNDER_WAY = {errno.EINPROGRESS, errno.EWOULDBLOCK, getattr(errno, "WSAEWOULDBLOCK", -1)}


class SilentError(TimeoutError):
    """The peer neither sent nor accepted any bytes for ``seconds``."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"silent for {seconds:g} s")
        self.seconds: float = seconds


class TooSlowError(TimeoutError):
    """The time limit has passed, although bytes are still arriving."""


def wait_until_ready(
    sock: socket.socket, timeout: float | None, *, read: bool = False, write: bool = False
) -> None:
    """Wait until the socket is readable or writable; raise `SilentError` after ``timeout`` s."""
    seconds = math.inf if timeout is None else timeout
    deadline = time.monotonic() + seconds
    while not wait_for_socket(sock, read=read, write=write, timeout=_slice(deadline)):
        if time.monotonic() >= deadline:
            raise SilentError(seconds)


def connect(sock: socket.socket, address: Any, timeout: float | None) -> None:
    """Connect, or raise `OSError`; ``timeout`` also applies to later operations on the socket."""
    sock.settimeout(0.0)
    code = sock.connect_ex(address)
    if code in _UNDER_WAY:
        wait_until_ready(sock, timeout, write=True)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
    sock.settimeout(timeout)


class SlicedReader(io.RawIOBase):
    """A raw socket reader that waits in slices, up to the socket's time-out.

    ``deadline``, a value of ``time.monotonic()``, limits all reads together. ``hold``, a file
    object of the socket, keeps the descriptor open if http.client releases the socket before the
    body ends; it is closed with this reader.
    """

    deadline: float | None = None
    _hold: IO[bytes] | None = None  # a default for `close` after an interrupted `__init__`

    def __init__(self, sock: socket.socket, ahead: bytes = b"", *, hold: IO[bytes]) -> None:
        super().__init__()
        self._hold = hold
        self._sock = sock
        self._ahead = ahead  # bytes received before this reader existed
        self.received: int = 0
        self._timeout = sock.gettimeout()
        sock.settimeout(SLICE if self._timeout is None else min(SLICE, self._timeout))

    def readable(self) -> bool:
        """Return ``True``."""
        return True

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._sock.fileno()

    def readinto(self, buffer: Any) -> int:
        """Receive into ``buffer``; return the number of bytes, 0 at the end of the connection."""
        if self._ahead:
            count = min(len(buffer), len(self._ahead))
            buffer[:count], self._ahead = self._ahead[:count], self._ahead[count:]
            self.received += count
            return count
        count = self._receive(buffer)
        self.received += count
        return count

    def _receive(self, buffer: Any) -> int:
        began = time.monotonic()
        while True:
            self._require_time()
            try:
                return self._sock.recv_into(buffer)
            except TimeoutError:
                if self._timeout is not None and time.monotonic() >= began + self._timeout:
                    raise SilentError(self._timeout) from None

    def _require_time(self) -> None:
        if self.deadline is None or time.monotonic() < self.deadline:
            return
        if not self.received and self._timeout is not None:
            raise SilentError(self._timeout)
        raise TooSlowError("the response took longer than the total time allowed")

    def close(self) -> None:
        """Release the socket. Idempotent."""
        if not self.closed and self._hold is not None:
            self._hold.close()
        super().close()


def bound_receiving(sock: socket.socket, size: int) -> None:
    """Limit the kernel's receive buffer to about ``size`` bytes (twice that on Linux).

    Call it after connecting (otherwise the limit cannot be removed) and before sending the request
    (otherwise the peer may already be allowed to send more).
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


def receives_more(sock: socket.socket, size: int) -> bool:
    """Return whether the kernel's receive buffer is larger than `bound_receiving` would make it."""
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) > 2 * size


def unbound_receiving(sock: socket.socket) -> None:
    """Let the receive buffer grow again, if the operating system supports that.

    With the limit, a connection with 40 ms latency receives only a few megabytes a second.
    """
    with contextlib.suppress(OSError):  # an older Linux kernel, or a closed connection
        if _SO_BUF_LOCK is not None:
            sock.setsockopt(socket.SOL_SOCKET, _SO_BUF_LOCK, 0)


def _slice(deadline: float) -> float:
    return max(0.0, min(SLICE, deadline - time.monotonic()))


class Abort:
    """Stops one exchange: `stop` shuts down the attached socket, or one attached later.

    It holds a duplicate of the descriptor, because TLS replaces the socket object during the
    handshake. Shutting down the duplicate shuts down the connection itself.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._duplicate: socket.socket | None = None
        self.stopped: bool = False
        """Whether `stop` was called, which causes the errors that follow."""
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Close the duplicate without a shutdown, which would end the parent's exchange."""
        self._lock = threading.Lock()
        self.detach()

    def attach(self, sock: socket.socket) -> None:
        """Register the socket for `stop`; shut it down at once if `stop` was called before."""
        # A shutdown does not need the address family, which TLS inside TLS cannot report.
        duplicate = socket.fromfd(sock.fileno(), socket.AF_INET, socket.SOCK_STREAM)
        with self._lock:
            self._duplicate, old = duplicate, self._duplicate
            if self.stopped:
                _shut(duplicate)
        if old is not None:
            old.close()

    def detach(self) -> None:
        """Release the socket, which the caller then closes or returns to a pool. Idempotent."""
        with self._lock:
            duplicate, self._duplicate = self._duplicate, None
        if duplicate is not None:
            duplicate.close()

    def receive_freely(self) -> None:
        """Remove the limit on the socket's receive buffer."""
        with self._lock:
            if self._duplicate is not None:
                unbound_receiving(self._duplicate)

    def stop(self) -> None:
        """Shut down the attached socket, or the next one attached. Thread-safe and idempotent."""
        with self._lock:
            self.stopped = True
            if self._duplicate is not None:
                _shut(self._duplicate)


def _shut(sock: socket.socket) -> None:
    # The socket may already be disconnected, which is fine.
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
