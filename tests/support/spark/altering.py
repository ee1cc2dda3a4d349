"""A proxy in front of the service that changes some responses, to simulate another service."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from tests.support.reverse_proxy import Answer, Request, ReverseProxy

#: Maps a response's action (empty outside of the Storage API), status and body to those to return.
Change = Callable[[str, int, bytes], tuple[int, bytes]]


class Altering(ReverseProxy):
    """Forwards requests to ``target`` inside a ``with`` block; ``url`` is its address."""

    def __init__(self, target: str, change: Change) -> None:
        super().__init__(target)
        self.url, self._change, self._running = self.base, change, ExitStack()

    def altered(self, request: Request, answer: Answer) -> Answer:
        action = dict(request.params).get("Action", "")
        status, body = self._change(action, answer.status, answer.body)
        return replace(answer, status=status, body=body)

    def __enter__(self) -> Altering:
        self._running.enter_context(self.running())
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()
