"""Cleans up at interpreter exit and after a ``fork``.

A thread that runs Arrow code at interpreter exit aborts the process, and two processes that share
a socket read each other's responses. Objects with threads, sockets or locks register here.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Generic, Protocol, TypeVar
from weakref import ref

from odps_nb.errors import OdpsNbError, StateError

EXIT_PATIENCE = 10.0
"""Maximum seconds to wait for threads at exit; they check much more often whether to stop."""

T = TypeVar("T")

_log = logging.getLogger("odps_nb")


class Renewed(Protocol):
    """Interface of objects with locks and sockets that a forked child must not use."""

    def _after_fork(self) -> None:
        """Create new locks, and drop sockets and threads; called in the child after a fork."""


class Ending(Protocol):
    """Interface of objects with running threads, or with work that must end at exit."""

    def end(self) -> None:
        """Begin to stop permanently, without joining threads. Idempotent."""


class Home:
    """The process that created an object, recorded so that a forked child can reject the object."""

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether the current process is the one that created the object."""
        return self._pid == os.getpid()

    def require(self, what: str) -> None:
        """Raise `StateError` in a forked child; ``what`` names the object."""
        if not self.is_here:
            raise StateError(
                f"{what} was created by the parent process, before the fork",
                hint="create it again in the child process; connections and tables work there",
            )


class Living(Generic[T]):
    """A weak set that compares objects by identity.

    Each operation on `_refs` is atomic. No lock is used, because a lock could be held during a
    fork.
    """

    def __init__(self) -> None:
        self._refs: dict[int, ref[T]] = {}

    def add(self, one: T) -> None:
        """Add an object, held weakly; duplicates are ignored."""
        # The callback is not a Python function: Python discards exceptions raised in a callback,
        # even the KeyboardInterrupt of a signal that arrives at that moment.
        self._refs[id(one)] = ref(one, partial(self._refs.pop, id(one)))

    def all(self) -> list[T]:
        """Return the objects that are still alive."""
        return [item for each in list(self._refs.values()) if (item := each()) is not None]

    def clear(self) -> None:
        """Remove all objects."""
        self._refs.clear()


_RENEWED: Living[Renewed] = Living()
_ENDING: Living[Ending] = Living()
_THREADS: Living[threading.Thread] = Living()


def renew_after_fork(one: Renewed) -> None:
    """Call ``one._after_fork`` in each forked child; hold ``one`` weakly."""
    _RENEWED.add(one)


def end_at_exit(one: Ending) -> None:
    """Call ``one.end`` when the interpreter exits; hold ``one`` weakly."""
    _ENDING.add(one)


def start_thread(thread: threading.Thread) -> None:
    """Start a thread that the interpreter joins at exit; the caller must ensure that it ends.

    Ctrl-C inside ``Thread.start`` would break a lock, and the thread would fail with "release
    unlocked lock" (CPython 3.11). So the interrupt is raised only after the thread has started.
    """
    _THREADS.add(thread)
    with _interrupted_later():
        thread.start()


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Delay a SIGINT in the main thread until the block has ended."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: received.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            handler(*received[0])


def _in_child() -> None:
    _ENDING.clear()  # these belong to the parent; the child's objects register again
    _THREADS.clear()
    for renewed in _RENEWED.all():
        renewed._after_fork()


def _at_exit() -> None:
    for ending in _ENDING.all():
        try:
            ending.end()
        except OdpsNbError as error:
            _log.warning("cleanup at the end of the process failed: %s", error)
    deadline = time.monotonic() + EXIT_PATIENCE
    for thread in _THREADS.all():
        if thread.is_alive():
            thread.join(max(0.0, deadline - time.monotonic()))


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_in_child)
