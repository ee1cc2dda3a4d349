"""Interrupts of the main thread that are not lost.

Python drops an exception that is raised in a finalizer, in a weak reference's callback or in a
garbage collector callback, and reports it to `sys.unraisablehook`. If it is the KeyboardInterrupt
of a SIGINT, a user would press Ctrl-C again, so these tests send SIGINT again.
"""

from __future__ import annotations

import queue
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def interrupt() -> None:
    """Send SIGINT to the main thread."""
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


@contextmanager
def interrupts_repeated() -> Iterator[None]:
    """Send SIGINT again whenever Python drops a KeyboardInterrupt.

    No signal is sent after the block, but the end of the block may raise KeyboardInterrupt.
    """
    dropped = queue.SimpleQueue[bool]()  # a finalizer may call `put`
    report = sys.unraisablehook

    def note(found: sys.UnraisableHookArgs) -> None:
        if found.exc_type is KeyboardInterrupt:
            dropped.put(True)
        else:
            report(found)

    def repeat() -> None:
        while dropped.get():
            interrupt()

    thread = threading.Thread(target=repeat, name="repeats interrupts", daemon=True)
    thread.start()
    sys.unraisablehook = note
    try:
        yield
        dropped.put(False)
        thread.join()
    finally:
        dropped.put(False)
        sys.unraisablehook = report
