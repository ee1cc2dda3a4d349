"""Cancels work from another thread by stopping everything registered with a token."""

from __future__ import annotations

import threading
from typing import Protocol

from odps_nb.errors import CancelledError
from odps_nb.lifetime import Living, renew_after_fork

SHORT_WAIT = 0.1
"""Maximum seconds between two checks for cancellation."""


class Stoppable(Protocol):
    """Interface of work that can be stopped from any thread, even repeatedly."""

    def stop(self) -> None:
        """Stop the work and wake its waiting threads."""


class CancelToken:
    """Token that permanently cancels the work registered with it; thread-safe.

    Cancelling ``parent`` also cancels this token, but not vice versa.

    Examples
    --------
    >>> token = CancelToken()
    >>> child = CancelToken(parent=token)
    >>> token.cancel()
    >>> child.cancelled
    True
    """

    def __init__(self, parent: CancelToken | None = None) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._watched: Living[Stoppable] = Living()
        self._parent = parent  # keeps the parent alive as long as its children
        if parent is not None:
            parent.watch(self)
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Clear the registered work, which belongs to the parent process."""
        was_cancelled = self.cancelled
        self._event, self._lock = threading.Event(), threading.Lock()
        self._watched = Living()
        if was_cancelled:
            self._event.set()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called on this token or on its parent."""
        return self._event.is_set()

    def cancel(self) -> None:
        """Stop everything registered with this token. Idempotent."""
        with self._lock:
            self._event.set()
            watched = self._watched.all()
            self._watched.clear()
        for stoppable in watched:
            stoppable.stop()

    stop = cancel  # a parent token calls it by this name

    def check(self) -> None:
        """Raise `CancelledError` if the token is cancelled."""
        if self.cancelled:
            raise CancelledError("stopped on request")

    def wait(self, seconds: float) -> bool:
        """Wait ``seconds``, or until cancelled; return whether the token is cancelled."""
        return self._event.wait(seconds)

    def watch(self, one: Stoppable) -> None:
        """Call ``one.stop()`` when this token is cancelled; ``one`` is held weakly."""
        with self._lock:
            if not self.cancelled:
                self._watched.add(one)
                return
        one.stop()
