"""Ends threads at interpreter exit, and resets locks and sockets in a forked child.

A thread inside Arrow at interpreter exit aborts the process, and two processes that read one socket
get each other's answers. Objects with threads, sockets or locks register here; they are held
weakly.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from typing import Generic, Protocol, TypeVar
from weakref import ref

from odps_nb.errors import OdpsNbError, StateError

__all__ = ["Ending", "Home", "Renewed", "end_at_exit", "renew_after_fork", "start_thread"]

EXIT_PATIENCE = 10.0
"""Seconds that interpreter exit waits for threads; each checks far more often whether to end."""

T = TypeVar("T")

_log = logging.getLogger("odps_nb")


class Renewed(Protocol):
    """An object whose locks and sockets a forked child must not use."""

    def after_fork(self) -> None:
        """Create new locks, and drop sockets and threads; runs first of all in the child."""


class Ending(Protocol):
    """An object with threads or processes that have to be ended."""

    def end(self) -> None:
        """Begin to stop, for good, without joining threads. Idempotent."""


class Home:
    """Remembers the process that made an object, to detect forked children."""

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is the process that made the object, and not a forked child."""
        return self._pid == os.getpid()

    def require(self, what: str) -> None:
        """Raise where this is a forked child.

        Raises
        ------
        StateError
            ``what`` was begun by the parent, which goes on with it.
        """
        if not self.is_here:
            raise StateError(
                f"{what} was started before the process forked, and belongs to the parent",
                hint="start it again in the child: connections and tables can be used there",
            )


class _Living(Generic[T]):
    """A set of weak references to objects, by identity.

    Each operation on its dictionary is atomic, and needs no lock that a thread could hold while the
    process forks.
    """

    def __init__(self) -> None:
        self._refs: dict[int, ref[T]] = {}

    def add(self, one: T) -> None:
        key, refs = id(one), self._refs
        refs[key] = ref(one, lambda _: refs.pop(key, None))

    def all(self) -> list[T]:
        return [one for each in list(self._refs.values()) if (one := each()) is not None]

    def clear(self) -> None:
        self._refs.clear()


_RENEWED: _Living[Renewed] = _Living()
_ENDING: _Living[Ending] = _Living()
_THREADS: _Living[threading.Thread] = _Living()


def renew_after_fork(one: Renewed) -> None:
    """Call ``one.after_fork()`` in each forked child, as long as ``one`` lives."""
    _RENEWED.add(one)


def end_at_exit(one: Ending) -> None:
    """Call ``one.end()`` at interpreter exit, if ``one`` still lives."""
    _ENDING.add(one)


def start_thread(thread: threading.Thread) -> None:
    """Start a thread that interpreter exit waits for; the caller must provide for its end."""
    _THREADS.add(thread)
    thread.start()


def _in_child() -> None:
    _ENDING.clear()  # those belong to the parent; what the child uses registers again
    _THREADS.clear()
    for one in _RENEWED.all():
        one.after_fork()


def _at_exit() -> None:
    for one in _ENDING.all():
        try:
            one.end()
        except (OdpsNbError, StateError) as error:
            _log.warning("at the end of the process: %s", error)
    deadline = time.monotonic() + EXIT_PATIENCE
    for thread in _THREADS.all():
        if thread.is_alive():
            thread.join(max(0.0, deadline - time.monotonic()))


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_in_child)
