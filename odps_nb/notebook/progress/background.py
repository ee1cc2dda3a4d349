"""An operation that goes on after its cell: ``--bg``.

The handle is what a person keeps: `result`, `done`, `cancel`, or ``await`` it. Its card was put
into the cell that started it and goes on there.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

from odps_nb.errors import CancelledError, StateError
from odps_nb.lifetime import Home, end_at_exit, start_thread

__all__ = ["BackgroundResult"]

# The main thread waits in short waits, or an interrupt would have to wait for the result.
_POLL = 0.1


class BackgroundResult:
    """The result of ``work`` to come.

    Parameters
    ----------
    title
        What runs, for the repr.
    work
        Called once, in a thread of its own.
    cancel
        Makes ``work`` end soon with `CancelledError`; callable from any thread.
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
        """Whether it ended, well or not."""
        return self._future.done()

    def cancel(self) -> None:
        """Stop it; `result` raises `CancelledError` then. Does not wait. Idempotent."""
        self._stopping.set()
        self._cancel()

    def end(self) -> None:
        """Stop it: what the end of the interpreter calls."""
        if not self.done():
            self.cancel()

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the end and return the result.

        Parameters
        ----------
        timeout
            Seconds to wait, ``None`` for ever.

        Raises
        ------
        StateError
            It still runs after ``timeout`` seconds.
        OdpsNbError
            What stopped the operation.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _POLL if deadline is None else min(_POLL, deadline - time.monotonic())
            self._thread.join(max(0.0, left))
            if self._future.done():
                return self._future.result()
            self._home.require(self._title)
            if self._stopping.is_set():
                self._cancel()  # again: the first call may have come before the work could hear it
            if deadline is not None and time.monotonic() >= deadline:
                raise StateError(
                    f"{self._title} still runs", hint="wait longer, or stop it with .cancel()"
                )

    def __await__(self) -> Generator[Any, None, Any]:
        return asyncio.wrap_future(self._future).__await__()

    def __repr__(self) -> str:
        if not self._future.done():
            return f"<{self._title}: running>"
        error = self._future.exception()
        if error is None:
            return f"<{self._title}: done>"
        how = (
            "cancelled" if isinstance(error, CancelledError) else f"failed, {type(error).__name__}"
        )
        return f"<{self._title}: {how}>"

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            if self._stopping.is_set():
                raise CancelledError(f"{self._title} was stopped before it began")
            value = work()
        except BaseException as error:  # noqa: BLE001  # a thread has no caller: result() raises it
            self._future.set_exception(error)
        else:
            self._future.set_result(value)
