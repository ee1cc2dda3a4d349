"""Threads that run."""

from __future__ import annotations

import threading
from collections.abc import Callable

from odps_nb.errors import CancelledError


def running() -> list[threading.Thread]:
    """Return the threads that are alive.

    ``threading.enumerate`` also names one whose ``start`` was interrupted before it was launched:
    CPython keeps it on its list for ever, though it never runs.
    """
    return [thread for thread in threading.enumerate() if thread.is_alive()]


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
    while thread.is_alive():  # it may not have begun yet
        stop()
        thread.join(0.05)
    return ends[0]
