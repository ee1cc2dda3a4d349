"""A recording reverse proxy on the loopback: what clients really send, next to each other.

Speaks HTTP/1.1 with keep-alive and chunked bodies; passes everything on unchanged, so that
signatures stay valid (the host is not signed). Standard library only.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

__all__ = ["Recorded", "Recorder", "recording"]

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "te", "upgrade"}
PIECE = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One request and its answer; header names in lower case, bodies without HTTP framing."""

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
        """The answer as a JSON object; empty if it is none."""
        try:
            found = json.loads(self.answer)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def handle_any(self) -> None:
        body = b"".join(self._body())
        # Closed here: a client that leaves early may leave while this thread has yet to connect,
        # and nobody else would know of the connection then.
        with closing(http.client.HTTPConnection(*self.server.target, timeout=60)) as onward:
            self._pass_on(body, onward)
            answer = onward.getresponse()
            content = answer.read()
        url = urlsplit(self.path)
        self.server.recorder.add(
            Recorded(
                method=self.command,
                path=url.path,
                params=tuple(parse_qsl(url.query, keep_blank_values=True)),
                headers={name.lower(): value for name, value in self.headers.items()},
                body=body,
                status=answer.status,
                answer_headers={name.lower(): value for name, value in answer.getheaders()},
                answer=content,
            )
        )
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with suppress(ConnectionError):  # a client may leave early
            self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any

    def _body(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            yield self.rfile.read(int(self.headers.get("Content-Length", 0)))
            return
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers

    def _pass_on(self, body: bytes, onward: http.client.HTTPConnection) -> None:
        onward.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in HOP_BY_HOP:
                onward.putheader(name, value)
        onward.putheader("Content-Length", str(len(body)))
        onward.endheaders(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: what happened is in the recorder."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target: tuple[str, int], recorder: Recorder) -> None:
        self.target, self.recorder = target, recorder
        super().__init__(("127.0.0.1", 0), _Handler)


class Recorder:
    """What was recorded so far; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: list[Recorded] = []
        self.base = ""

    @property
    def endpoint(self) -> str:
        """Where clients find the control plane."""
        return f"{self.base}/api"

    def add(self, request: Recorded) -> None:
        """Keep one request."""
        with self._lock:
            self._requests.append(request)

    def take(self) -> list[Recorded]:
        """Return what was recorded since the last call, in the order of the answers."""
        with self._lock:
            taken, self._requests = self._requests, []
            return taken


@contextmanager
def recording(target: str) -> Iterator[Recorder]:
    """Run a recorder in front of ``http://host:port`` until the block is left."""
    recorder = Recorder()
    url = urlsplit(target)
    server = _Server((url.hostname or "", url.port or 80), recorder)
    recorder.base = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, name="recorder")
    thread.start()
    try:
        yield recorder
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
