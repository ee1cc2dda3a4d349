"""Work beside the main thread, in lanes: in each only what was asked for last goes on."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import OdpsNbError, explain, visible
from odps_nb.lifetime import start_thread

MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading a message of the browser raises that is not as our script sends it."""

Work = Callable[[CancelToken], None]


def problem_message(lane: str, error: BaseException | str) -> dict[str, Any]:
    """Return what went wrong, in words, as a message to the browser."""
    text = str(error)
    if isinstance(error, OdpsNbError):
        text = " ".join(explain(error))
    return {"kind": "problem", "lane": lane, "text": visible(text)[:1000]}


class Lanes:
    """Runs work in threads; new work in a lane cancels what runs there.

    Parameters
    ----------
    tell_error
        Told the lane and the error that ended its work, unless newer work has begun there. It is
        called in the thread of the work.
    tell_end
        Told each lane whose last work has ended.
    """

    def __init__(
        self,
        *,
        tell_error: Callable[[str, BaseException], None],
        tell_end: Callable[[str], None],
    ) -> None:
        self._tell_error, self._tell_end = tell_error, tell_end
        self._lock = threading.Lock()
        self._tokens: dict[str, CancelToken] = {}
        self._closed = False

    def run(self, lane: str, work: Work) -> None:
        """Start work, in place of what runs in the lane."""
        token = CancelToken()
        with self._lock:
            if self._closed:
                return
            before, self._tokens[lane] = self._tokens.get(lane), token
        if before is not None:
            before.cancel()
        context = contextvars.copy_context()  # ipykernel keeps there which cell this belongs to
        thread = threading.Thread(
            target=lambda: context.run(self._work, lane, work, token),
            name=f"odps-nb-{lane}",
            daemon=True,
        )
        start_thread(thread)

    def cancel(self, lane: str) -> None:
        """Cancel what runs in a lane."""
        with self._lock:
            token = self._tokens.get(lane)
        if token is not None:
            token.cancel()

    def close(self) -> None:
        """Cancel all work, for good. Idempotent."""
        with self._lock:
            self._closed, tokens = True, list(self._tokens.values())
        for token in tokens:
            token.cancel()

    def _work(self, lane: str, work: Work, token: CancelToken) -> None:
        error: BaseException | None = None
        try:
            token.check()
            work(token)
        except Exception as found:  # noqa: BLE001  # a thread has no caller: the view tells it
            error = found
        with self._lock:
            is_last = self._tokens.get(lane) is token and not self._closed
            if is_last:
                del self._tokens[lane]
        if is_last and error is not None:
            self._tell_error(lane, error)
        if is_last:
            self._tell_end(lane)
