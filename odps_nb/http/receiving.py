"""How much a socket may receive that nobody has asked for yet.

A kernel takes what a peer sends until its buffer is full, and lets that buffer grow to megabytes.
Who reads only the head of a body bounds it, and lifts the bound when all is wanted after all.
"""

from __future__ import annotations

import contextlib
import socket
import sys

_SO_BUF_LOCK = (
    72 if sys.platform == "linux" else None
)  # since Linux 5.15; Python has no name for it
_RECEIVE_LOCK = 2


def bound_receiving(sock: socket.socket, size: int) -> None:
    """Let the kernel hold about ``size`` bytes (Linux: twice that, its own records included).

    Call it when connected and before the request: earlier, the connection could never receive
    faster again; later, the peer may have been promised more.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


def is_bounded(sock: socket.socket) -> bool:
    """Whether `bound_receiving` holds; false where the system does not tell."""
    with contextlib.suppress(OSError):
        if _SO_BUF_LOCK is not None:
            return bool(sock.getsockopt(socket.SOL_SOCKET, _SO_BUF_LOCK) & _RECEIVE_LOCK)
    return False


def receives_more(sock: socket.socket, size: int) -> bool:
    """Whether the kernel may hold more than `bound_receiving` would let it."""
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) > 2 * size


def unbound_receiving(sock: socket.socket) -> None:
    """Lift the bound, so that the buffer grows with the line again, where the system can do that.

    Under the bound, a line of 40 ms brings a few megabytes a second.
    """
    with contextlib.suppress(OSError):  # an older Linux, or the peer has gone
        if _SO_BUF_LOCK is not None:
            sock.setsockopt(socket.SOL_SOCKET, _SO_BUF_LOCK, 0)
