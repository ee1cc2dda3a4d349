"""Keeps a read session alive while it is read (``docs/protocol.md`` section 3.2).

Write sessions are not kept alive: the protocol does not say when they expire or how to extend them.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from odps_nb.client.calls.cancel import SHORT_WAIT, CancelToken
from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.calls.version_1 import OverVersion1
from odps_nb.client.read.plan import ReadSession
from odps_nb.client.read.session import ready_session
from odps_nb.errors import CancelledError, FramingError, OdpsNbError, StateError
from odps_nb.http.retry import RetryPolicy
from odps_nb.lifetime import start_thread
from odps_nb.terms import Transfer
from odps_nb.wire.calls import GetReadSession, ReadSessionAnswer

REFRESH_BEFORE = 60.0
ASK_AGAIN_AFTER = 10.0
# A refresh must not delay rows, so it has one attempt and is retried later. In the last minute
# before expiry, there may be no time for that, so it has up to three attempts.
_ONCE = RetryPolicy(max_attempts=1)
_IN_THE_LAST_MINUTE = RetryPolicy(max_attempts=3, connect_attempts=3, deadline=20.0)
_TIMEOUT = 10.0

_log = logging.getLogger("odps_nb")


class SessionKeeper:
    """Refreshes a session before it expires; shared by all its readers.

    A refresh is due when half of the remaining time has passed, and at the latest a minute before
    expiry. The other half is left for processing a batch. Thread-safe; no thread waits for
    another thread's refresh. Call `close` after `keep_aside`.
    """

    def __init__(
        self,
        storage: StorageClient,
        session: ReadSession,
        *,
        tracker: ProgressTracker | None,
        cancel: CancelToken | None = None,
    ) -> None:
        self._storage, self._session, self._tracker = storage, session, tracker
        self._refreshing = threading.Lock()
        self._over = CancelToken(parent=cancel)
        self._aside: threading.Thread | None = None
        self.route_token: str | None = session.route_token
        """The session's latest route token."""
        self._expires_at = session.expires_at
        self._due = _time_for(session.expires_at, now=storage.now())

    def keep(self, cancel: CancelToken | None) -> None:
        """Refresh the session if a refresh is due.

        A failed refresh is logged and retried later. Reads of an expired session raise an error.
        """
        if self._is_due() and self._refreshing.acquire(blocking=False):
            try:
                self._refresh(cancel)
            finally:
                self._refreshing.release()

    def keep_aside(self) -> None:
        """Refresh like `keep`, but in another thread, so that the caller can continue reading."""
        if self._is_due() and self._refreshing.acquire(blocking=False):
            self._aside = threading.Thread(
                target=self._refresh_aside, name="odps_nb-keeper", daemon=True
            )
            try:
                start_thread(self._aside)
            except RuntimeError as error:  # too many threads exist; the next call retries
                self._refreshing.release()
                _log.warning("session %s was not refreshed: %s", self._session.session_id, error)

    def close(self) -> None:
        """Stop a refresh that is running in a separate thread. Idempotent."""
        self._over.cancel()
        thread = self._aside
        while thread is not None and thread.is_alive():
            thread.join(SHORT_WAIT)

    def _refresh_aside(self) -> None:
        try:
            with suppress(CancelledError, StateError):  # the read or the client was closed
                self._refresh(self._over)
        finally:
            self._refreshing.release()

    def _is_due(self) -> bool:
        return self._due is not None and self._storage.now() >= self._due

    def _refresh(self, cancel: CancelToken | None) -> None:
        asked_at = self._storage.now()
        self._due = soon = asked_at + ASK_AGAIN_AFTER
        try:
            answer = self._ask(cancel)
        except CancelledError:
            raise
        except OdpsNbError as error:
            _log.warning("session %s was not refreshed: %s", self._session.session_id, error)
            return
        self.route_token = answer.route_token or self.route_token
        self._expires_at = answer.expires_at
        later = _time_for(answer.expires_at, now=asked_at)
        self._due = None if later is None else max(soon, later)

    def _ask(self, cancel: CancelToken | None) -> ReadSessionAnswer:
        session, ends = self._session, self._expires_at
        is_late = ends is not None and self._storage.now() >= ends - REFRESH_BEFORE
        request = GetReadSession(table=session.table, session_id=session.server_id, refresh=True)
        answer = self._storage.call(
            OverVersion1(request) if session.transfer is Transfer.STORAGE_V1 else request,
            tracker=self._tracker,
            cancel=cancel,
            retry=_IN_THE_LAST_MINUTE if is_late else _ONCE,
            read_timeout=min(_TIMEOUT, self._storage.options.read_timeout),
        )
        if answer.session_id != session.server_id:
            raise FramingError(f"the response is for another session, {answer.session_id!r}")
        return ready_session(self._storage, answer, session.table)


def _time_for(expires_at: float | None, *, now: float) -> float | None:
    if expires_at is None:
        return None
    return min(expires_at - REFRESH_BEFORE, (now + expires_at) / 2)
