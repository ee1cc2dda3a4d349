"""A listener of an operation, for tests of the events that it receives."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odps_nb.client.calls.progress import ProgressSnapshot, ProgressTracker


class Watcher:
    """Keeps the tracker and the last snapshot."""

    tracker: ProgressTracker
    last: ProgressSnapshot

    def start(self, tracker: ProgressTracker) -> None:
        self.tracker = tracker

    def stop(self, snapshot: ProgressSnapshot) -> None:
        self.last = snapshot
