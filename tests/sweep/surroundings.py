"""The machine of a client during one run: its clock, its waits, and its temporary faults."""

from __future__ import annotations

import dataclasses
import resource
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.options import ClientOptions

if TYPE_CHECKING:
    from tests.sweep.proxy import BreaksOne

JUMP = 26 * 3600.0
MOMENT = 0.25  # seconds that a client requests to wait before a fault of the machine ends
FILE_BYTES = 16


class Surroundings:
    """A context manager in which new clients skip their waits and are affected by these faults.

    A fault ends when the client has requested `MOMENT` seconds of waiting, and at the end.
    ``silence``: seconds that a client waits for the next bytes; ``None``: the default.
    ``options``: the clients' other options.
    """

    def __init__(self, silence: float | None = None, options: ClientOptions | None = None) -> None:
        self._silence, self._options = silence, options or ClientOptions()
        self._waited = self._jump = 0.0
        self._over: Any = None
        self._lock = threading.Lock()
        self._patch = pytest.MonkeyPatch()

    def begin(self, fault: str, proxy: BreaksOne) -> None:
        """Start a fault; it ends when clients have waited long enough between their attempts."""
        with self._lock:
            self._begin(fault, proxy)

    def _begin(self, fault: str, proxy: BreaksOne) -> None:
        self._waited = 0.0
        if fault == "refused":
            proxy.stop_listening()
            self._over = proxy.listen_again
        elif fault == "no names":
            self._names(gone=True)
            self._over = lambda: self._names(gone=False)
        elif fault == "no descriptors":
            self._limit(resource.RLIMIT_NOFILE, 3)
        elif fault == "disk full":
            self._limit(resource.RLIMIT_FSIZE, FILE_BYTES)
        elif fault in ("clock forward", "clock back"):
            self._jump = JUMP if fault == "clock forward" else -JUMP

    def wait(self, seconds: float) -> None:
        """Replaces the clients' sleep function."""
        self._waited += seconds
        if self._waited >= MOMENT:
            self.mend()

    def mend(self) -> None:
        """End the fault of the machine, if there is one."""
        with self._lock:
            over, self._over = self._over, None
        if over is not None:
            over()

    def clock(self) -> float:
        """Replaces the clients' time of day."""
        return time.time() + self._jump

    def __enter__(self) -> Surroundings:
        self._looked_up = socket.getaddrinfo
        usual = dict(StorageClient.__init__.__kwdefaults__)
        changed: dict[str, Any] = {"sleep": self.wait, "clock": self.clock}
        if self._silence is not None:
            changed["options"] = dataclasses.replace(self._options, read_timeout=self._silence)
        self._patch.setattr(StorageClient.__init__, "__kwdefaults__", {**usual, **changed})
        return self

    def __exit__(self, *_: object) -> None:
        self.mend()
        self._patch.undo()

    def _names(self, *, gone: bool) -> None:
        def lookup(*_: object, **__: object) -> None:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

        self._patch.setattr(socket, "getaddrinfo", lookup if gone else self._looked_up)

    def _limit(self, what: int, soft: int) -> None:
        before = resource.getrlimit(what)
        resource.setrlimit(what, (soft, before[1]))
        self._over = lambda: resource.setrlimit(what, before)
