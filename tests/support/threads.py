"""Threads that run."""

from __future__ import annotations

import threading


def running() -> list[threading.Thread]:
    """Return the threads that are alive.

    ``threading.enumerate`` also names one whose ``start`` was interrupted before it was launched:
    CPython keeps it on its list for ever, though it never runs.
    """
    return [thread for thread in threading.enumerate() if thread.is_alive()]
