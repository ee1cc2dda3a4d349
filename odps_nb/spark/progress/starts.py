"""Tells the driver that a task has started, if the task runs on the driver's machine.

An accumulator reaches the driver only after its task has finished, which may take minutes.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import threading
from collections.abc import Callable
from typing import NamedTuple

_LARGEST = 1 << 16


class StartsAddress(NamedTuple):
    """The address at which the driver receives datagrams, each beginning with ``token``."""

    host: str
    port: int
    token: bytes

    def send(self, message: bytes) -> None:
        """Send a message to the driver; it is lost if the driver is on another machine, or busy."""
        if self.host != socket.gethostname():
            return
        with contextlib.suppress(OSError), socket.socket(type=socket.SOCK_DGRAM) as sender:
            sender.sendto(self.token + message, ("127.0.0.1", self.port))


class Starts:
    """Receives datagrams on the loopback interface, in a thread, and passes them to ``receive``."""

    def __init__(self, receive: Callable[[bytes], None]) -> None:
        receiver = socket.socket(type=socket.SOCK_DGRAM)
        receiver.bind(("127.0.0.1", 0))
        token = secrets.token_bytes(16)
        self.address = StartsAddress(socket.gethostname(), receiver.getsockname()[1], token)
        threading.Thread(
            target=_receive,
            args=(receiver, token, receive),
            name="odps-nb-spark-starts",
            daemon=True,
        ).start()

    def close(self) -> None:
        """End the thread and close its socket. Idempotent."""
        self.address.send(b"")


def _receive(receiver: socket.socket, token: bytes, receive: Callable[[bytes], None]) -> None:
    with receiver:
        while True:
            message = receiver.recv(_LARGEST)
            if not hmac.compare_digest(message[: len(token)], token):
                continue
            if len(message) == len(token):
                return
            receive(message[len(token) :])
