"""Tells the browser how far an operation is, in the words of the progress card."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odps_nb.client.calls.progress import ProgressSnapshot, ProgressTracker
from odps_nb.notebook.magics.status import record
from odps_nb.notebook.progress import words
from odps_nb.notebook.progress.flusher import Flusher


class Told:
    """A listener that sends messages of a lane, and lists the operation in ``%odps status``."""

    def __init__(
        self,
        send: Callable[[Mapping[str, Any]], None],
        cancel: Callable[[], None],
        *,
        lane: str = "",
    ) -> None:
        self._send, self._cancel, self._lane = send, cancel, lane
        self._tracker: ProgressTracker | None = None
        self._flusher: Flusher | None = None

    def start(self, tracker: ProgressTracker) -> None:
        """Start to send, a few times a second."""
        self._tracker = tracker
        record(tracker, cancel=self._cancel)
        self._flusher = Flusher(self._tell, lambda: None, delay=0.0)
        self._flusher.start()

    def stop(self, snapshot: ProgressSnapshot) -> None:
        """Stop sending."""
        if self._flusher is not None:
            self._flusher.stop()

    def _tell(self) -> None:
        if self._tracker is not None:
            now = self._tracker.snapshot()
            text = " · ".join([words.ending(now), *words.figures(now)])
            told = {
                "kind": "busy",
                "lane": self._lane,
                "text": f"{self._lane}: {text}" if self._lane else text,
                "share": now.fraction,
                "done": now.items,
                "moving": next(([one.name, one.sent] for one in now.moving), None),
            }
            self._send(told)
