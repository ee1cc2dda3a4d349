"""Runs an operation in the background (``--bg``) and returns a future-like handle."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

from odps_nb.errors import CancelledError, StateError
from odps_nb.lifetime import Home, end_at_exit, start_thread

# Seconds between polls by the main thread; short, so that an interrupt is handled promptly.
_POLL = 0.1


class BackgroundResult:
    """A handle to ``work``, which runs in a thread; call `result` or ``await`` the handle.

    ``cancel`` makes ``work`` raise `CancelledError` soon; it may be called from any thread.
    """

    def __init__(self, title: str, work: Callable[[], Any], *, cancel: Callable[[], None]) -> None:
        self._title, self._cancel = title, cancel
        self._future: Future[Any] = Future()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(work,), name="odps-nb-background", daemon=True
        )
        self._home = Home()
        end_at_exit(self)
        start_thread(self._thread)

    def done(self) -> bool:
        """Whether the work has ended, with a result or an error."""
        return self._future.done()

    def cancel(self) -> None:
        """Cancel the work without waiting; `result` then raises `CancelledError`. Idempotent."""
        self._stopping.set()
        self._cancel()

    def end(self) -> None:
        """Cancel the work; called when the interpreter exits."""
        if not self.done():
            self.cancel()

    def result(self, timeout: float | None = None) -> Any:
        """Wait until the work has ended, and return the result.

        Parameters
        ----------
        timeout
            Maximum seconds to wait; ``None``: no limit.

        Raises
        ------
        StateError
            If the work is still running after ``timeout`` seconds.
        OdpsNbError
            The error that ended the work.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _POLL if deadline is None else min(_POLL, deadline - time.monotonic())
            self._thread.join(max(0.0, left))
            if self._future.done():
                return self._future.result()
            self._home.require(self._title)
            if self._stopping.is_set():
                self._cancel()  # cancel again, because the work may have missed the first call
            if deadline is not None and time.monotonic() >= deadline:
                raise StateError(
                    f"{self._title} is still running", hint="wait longer, or stop it with .cancel()"
                )

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self._future).__await__()

    def __repr__(self) -> str:
        if not self._future.done():
            return f"<{self._title}: running>"
        how, error = "done", self._future.exception()
        if error is not None:
            failed = f"failed, {type(error).__name__}"
            how = "cancelled" if isinstance(error, CancelledError) else failed
        return f"<{self._title}: {how}>"

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            if self._stopping.is_set():
                raise CancelledError(f"{self._title} was cancelled before it began")
            value = work()
        except BaseException as error:  # noqa: BLE001  # result() raises it in the caller's thread
            self._future.set_exception(error)
        else:
            self._future.set_result(value)
