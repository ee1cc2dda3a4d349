"""`start` for the suites of clients, which can record the requests of the clients.

If the environment variable `VARIABLE` names a file, a proxy in front of the service appends each
request and its response to this file, as a line of JSON.
"""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from odps_nb.local.server import launch
from tests.support.reverse_proxy import Answer, Request, ReverseProxy

VARIABLE = "RECORD_REQUESTS"


@contextmanager
def start(**options: Any) -> Iterator[launch.LocalService]:
    """Start a service as `launch.start` does, and record its requests if `VARIABLE` is set."""
    with launch.start(**options) as service:
        if VARIABLE not in os.environ:
            yield service
            return
        recorder = _Recorder(service.tunnel_endpoint, Path(os.environ[VARIABLE]))
        with recorder.running():
            rest = service.endpoint.removeprefix(service.tunnel_endpoint)
            yield replace(service, endpoint=recorder.base + rest, tunnel_endpoint=recorder.base)


class _Recorder(ReverseProxy):
    def __init__(self, target: str, path: Path) -> None:
        super().__init__(target)
        self._path = path
        self._lock = threading.Lock()

    def after_answer(self, request: Request, answer: Answer) -> None:
        line = {
            "method": request.method,
            "target": request.target,
            "headers": dict(request.headers),
            "body": base64.b64encode(request.body).decode(),
            "status": answer.status,
            "answer_headers": dict(answer.headers),
            "answer": base64.b64encode(answer.body).decode(),
        }
        with self._lock, self._path.open("a") as file:
            print(json.dumps(line), file=file)
