"""Running threads and open sockets."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from odps_nb.errors import CancelledError


def running() -> list[threading.Thread]:
    """Return the threads that are alive.

    ``threading.enumerate`` also lists a thread whose ``start`` was interrupted before it was
    launched: CPython keeps it in its list forever, although it never runs.
    """
    return [thread for thread in threading.enumerate() if thread.is_alive()]


def wait_until(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait for other threads; fail after some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.005)


def open_sockets() -> int:
    """Return the number of sockets of this process."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found += str(entry.readlink()).startswith("socket:")
        except OSError:  # the descriptor of the listing itself
            continue
    return found


def end_when_stopped(work: Callable[[], object], stop: Callable[[], None]) -> object:
    """Run work in a thread and stop it until it ends; return its result or its CancelledError."""
    ends: list[object] = []

    def run() -> None:
        try:
            ends.append(work())
        except CancelledError as error:
            ends.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while thread.is_alive():  # the work may not have started yet
        stop()
        thread.join(0.05)
    return ends[0]
