"""Caches the names for completion, and refreshes them in a thread.

A lookup returns the names known so far; only for names that were never asked for it waits, at most
``patience`` seconds.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence

from odps_nb.errors import OdpsNbError
from odps_nb.lifetime import renew_after_fork

TIME_TO_LIVE = 60.0
MAX_NAMES = 20_000
_PATIENCE = 0.2

Lookup = Callable[[str, str], Sequence[str]]
"""Returns ``"tables"`` (of ``""``), or the ``"columns"`` or ``"partitions"`` of a table."""
_Key = tuple[str, str]


class NameCache:
    """Names of tables, columns and partitions; fetched again after ``ttl`` seconds."""

    def __init__(
        self,
        fetch: Lookup,
        *,
        ttl: float = TIME_TO_LIVE,
        patience: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch, self._ttl, self._clock, self._patience = fetch, ttl, clock, patience
        self._answers: set[_Key] = set()
        self._waited: set[_Key] = set()
        self._known: dict[_Key, tuple[str, ...]] = {}
        self._asked: dict[_Key, float] = {}
        self._closed = False
        self._after_fork()
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Start a new thread when needed: threads do not survive a fork."""
        self._answered = threading.Condition()
        self._wanted: queue.SimpleQueue[_Key | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def look_up(self, kind: str, of: str = "") -> tuple[str, ...]:
        """Return the names known now; see `Lookup`."""
        key = (kind, of)
        with self._answered:
            self._ask(key)
            if self._patience and not self._closed and key not in self._waited:
                self._waited.add(key)  # once: a service that hangs must not hold up every Tab
                self._answered.wait_for(lambda: key in self._answers, self._patience)
            return self._known.get(key, ())

    def prefetch(self) -> None:
        """Ask for the table names, without waiting for them."""
        with self._answered:
            self._ask(("tables", ""))

    def known(self, kind: str, of: str) -> tuple[str, ...] | None:
        """Return names younger than ``ttl``, waiting for those being fetched, else ``None``."""
        key = (kind, of)
        with self._answered:
            asked = self._asked.get(key)
            if asked is None or self._clock() - asked >= self._ttl:
                return None
            self._answered.wait_for(lambda: key in self._answers, self._patience)
            return self._known.get(key)

    def remember(self, kind: str, of: str, names: Sequence[str]) -> None:
        """Take over names that someone else asked for."""
        with self._answered:
            self._asked[kind, of] = self._clock()
            self._put((kind, of), names)

    def close(self) -> None:
        """Stop the thread, after its present request if it waits for one. Idempotent."""
        with self._answered:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._wanted.put(None)
            thread.join(_PATIENCE)

    def _put(self, key: _Key, names: Sequence[str] | None) -> None:
        if names is not None:
            self._known[key] = tuple(names[:MAX_NAMES])
        self._answers.add(key)
        self._answered.notify_all()

    def _ask(self, key: _Key) -> None:
        """Let the thread ask if that was never done or long ago; called under the lock."""
        now = self._clock()
        asked = self._asked.get(key)
        if self._closed or (asked is not None and now - asked < self._ttl):
            return
        self._asked[key] = now
        self._wanted.put(key)
        if self._thread is None:
            self._thread = threading.Thread(target=self._refresh, name="odps-nb-names", daemon=True)
            self._thread.start()

    def _refresh(self) -> None:
        while (key := self._wanted.get()) is not None:
            try:
                found = self._fetch(*key)
            except OdpsNbError:
                found = None  # completion has nothing to say then; a command would show the error
            with self._answered:
                self._put(key, found)
