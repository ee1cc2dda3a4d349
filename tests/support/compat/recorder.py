"""A recording reverse proxy on loopback, to compare the requests that clients really send."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.reverse_proxy import Answer, Request, ReverseProxy

__all__ = ["Recorded", "Recorder", "recording"]


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One request and its response; header names in lower case, bodies without HTTP framing."""

    method: str
    path: str
    params: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    body: bytes
    status: int
    answer_headers: dict[str, str]
    answer: bytes = field(repr=False)

    @property
    def action(self) -> str | None:
        """The ``Action`` of a Storage API request."""
        return dict(self.params).get("Action")

    @property
    def answer_json(self) -> dict[str, Any]:
        """The response as a JSON object; empty if it is not JSON."""
        try:
            found = json.loads(self.answer)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


class Recorder(ReverseProxy):
    """The exchanges recorded so far; thread-safe."""

    def __init__(self, target: str) -> None:
        self._lock = threading.Lock()
        self._requests: list[Recorded] = []
        super().__init__(target)

    @property
    def endpoint(self) -> str:
        """The control-plane address for clients."""
        return f"{self.base}/api"

    def after_answer(self, request: Request, answer: Answer) -> None:
        """Record one request and its response."""
        one = Recorded(
            method=request.method,
            path=request.path,
            params=request.params,
            headers=dict(request.headers),
            body=request.body,
            status=answer.status,
            answer_headers=dict(answer.headers),
            answer=answer.body,
        )
        with self._lock:
            self._requests.append(one)

    def take(self) -> list[Recorded]:
        """Return the exchanges since the last call, in the order of the responses."""
        with self._lock:
            taken, self._requests = self._requests, []
            return taken


@contextmanager
def recording(target: str) -> Iterator[Recorder]:
    """Run a recorder in front of ``http://host:port`` until the block ends."""
    recorder = Recorder(target)
    with recorder.running():
        yield recorder
