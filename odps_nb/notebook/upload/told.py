"""Tells the browser how far the writing of the chosen files is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odps_nb.client.calls.progress import ProgressSnapshot, ProgressTracker
from odps_nb.notebook.magics.status import record
from odps_nb.notebook.progress import words
from odps_nb.notebook.progress.flusher import Flusher

__all__ = ["Told", "told_progress"]


def told_progress(now: ProgressSnapshot) -> dict[str, Any]:
    """Return the message of a moment: words, share, files that arrived, the one on its way."""
    moving = now.moving[0] if now.moving else None
    return {
        "kind": "busy",
        "text": " · ".join([words.ending(now), *words.figures(now)]),
        "share": now.fraction,
        "done": now.items,
        "moving": None if moving is None else [moving.name, moving.sent],
    }


class Told:
    """A listener that tells a few times a second, and lists the write in ``%odps status``."""

    def __init__(
        self, tell: Callable[[ProgressSnapshot], None], cancel: Callable[[], None]
    ) -> None:
        self._tell, self._cancel = tell, cancel
        self._tracker: ProgressTracker | None = None
        self._flusher: Flusher | None = None

    def start(self, tracker: ProgressTracker) -> None:
        """Start to tell."""
        self._tracker = tracker
        record(tracker, cancel=self._cancel)
        self._flusher = Flusher(self._now, lambda: None, delay=0.0)
        self._flusher.start()

    def stop(self, snapshot: ProgressSnapshot) -> None:
        """Tell no more."""
        if self._flusher is not None:
            self._flusher.stop()

    def _now(self) -> None:
        if self._tracker is not None:
            self._tell(self._tracker.snapshot())
