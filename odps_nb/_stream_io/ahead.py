"""Prefetches one result in a helper thread (face).

While the user works on one result the next is computed; not more than one. The thread ends
with the last result, with an error, or when its owner is closed or garbage-collected. It waits for
its user without a limit, and for nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from odps_nb.lifetime import Home, end_at_exit, start_thread

__all__ = ["OneAhead"]

T = TypeVar("T")

_LOOK = 0.1  # seconds between checks while waiting, so that an interrupt is noticed
_JOIN = 5.0


class OneAhead(Generic[T]):
    """Calls ``step`` one result ahead until it returns ``None`` or raises.

    Parameters
    ----------
    step
        Makes the next result; called from the helper thread only.
    stop
        Makes a step that waits end soon; may be called from any thread.
    """

    def __init__(self, step: Callable[[], T | None], stop: Callable[[], None]) -> None:
        self._step, self._stop = step, stop
        self._changed = threading.Condition()
        self._ready: list[T | None] = []  # at most one
        self._error: BaseException | None = None
        self._over = False
        self._thread: threading.Thread | None = None
        self._home = Home()
        end_at_exit(self)

    def take(self) -> T | None:
        """Return the next result, or raise the error that the step raised for it."""
        self._home.require("this stream")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="odps_nb-ahead", daemon=True)
            start_thread(self._thread)
        with self._changed:
            while not (self._ready or self._error or self._over):
                self._changed.wait(_LOOK)
            if self._ready:
                self._changed.notify_all()
                return self._ready.pop()
            if self._error is not None:
                raise self._error
            return None

    def close(self) -> None:
        """End the thread, interrupting its step if necessary. Idempotent."""
        if not self._home.is_here:
            return  # there is no such thread in a forked child
        self.end()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN)

    def end(self) -> None:
        """Tell the thread to end; does not wait."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            self._stop()

    def _run(self) -> None:
        while self._wanted():
            try:
                result = self._step()
            except BaseException as error:  # noqa: BLE001  handed to the user, whatever it is
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._ready.append(result)
                self._changed.notify_all()
            if result is None:
                return

    def _wanted(self) -> bool:
        with self._changed:
            while self._ready and not self._over:
                self._changed.wait()
            return not self._over
