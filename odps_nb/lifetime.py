"""What ends with the process, and what a forked child must leave alone.

A thread inside Arrow while the interpreter ends aborts the process, and a socket that two
processes read gives each the other's answers. Whoever has threads, sockets or locks says so
here; all is held weakly. Knows none of them.
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
"""Seconds that the end of the process waits for threads; all of them look up far more often."""

T = TypeVar("T")

_log = logging.getLogger("odps_nb")


class Renewed(Protocol):
    """Something whose locks and sockets a forked child must not use."""

    def after_fork(self) -> None:
        """Take new locks, and forget sockets and threads; runs in the child, before all else."""


class Ending(Protocol):
    """Something that works in threads, or has begun what must be ended."""

    def end(self) -> None:
        """Stop soon, for good; threads need not be joined. Idempotent."""


class Home:
    """Remembers the process that made something, and says whether this is it."""

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this process is the one that made it, no forked child."""
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
                f"{what} was begun before the process forked, and belongs to the parent",
                hint="begin it anew in the child: connections and tables can be used there",
            )


class _Living(Generic[T]):
    """Objects as long as they live, each for itself however equal they are.

    All that is done to the dictionary is one step for other threads, and needs no lock that a
    thread could hold while the process forks.
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
    """Have ``after_fork`` called in each forked child, as long as ``one`` lives."""
    _RENEWED.add(one)


def end_at_exit(one: Ending) -> None:
    """Have ``end`` called when the interpreter ends, if ``one`` lives then."""
    _ENDING.add(one)


def start_thread(thread: threading.Thread) -> None:
    """Start a thread that the end of the interpreter waits for; something must end it."""
    _THREADS.add(thread)
    thread.start()


def _in_child() -> None:
    _ENDING.clear()  # the parent's business; what is of use here adds itself again
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
