"""A listener of a read, for tests of the events that it receives."""

from __future__ import annotations


class Watcher:
    """A listener that records its calls."""

    def __init__(self):
        self.last = None
        self.tracker = None

    def start(self, tracker):
        self.tracker = tracker

    def stop(self, snapshot):
        self.last = snapshot
