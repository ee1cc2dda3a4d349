"""A reverse proxy on loopback that records requests and responses.

Supports HTTP/1.1 with keep-alive and chunked bodies; forwards everything unchanged, so signatures
stay valid (the host is not signed). Standard library only.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

__all__ = ["Answer", "Request", "ReverseProxy"]

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "te", "upgrade"}
SECONDS = 60.0
"""How long the service may take to go on with an answer."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request; the path begins with ``/``, header names are in lower case.

    `target` is path and query as they were sent.
    """

    method: str
    target: str
    path: str
    params: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The response to a request, its body without HTTP framing; header names are in lower case."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)


class ReverseProxy(ThreadingHTTPServer):
    """Forwards requests to ``http://host:port`` while `running`; subclasses inspect them.

    `before_request` and `after_answer` are called by the threads of the connections.
    """

    daemon_threads = True

    def __init__(self, target: str) -> None:
        url = urlsplit(target)
        self.target = (url.hostname or "", url.port or 80)
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def base(self) -> str:
        """The address of this proxy for clients."""
        return f"http://127.0.0.1:{self.server_port}"

    def before_request(self, request: Request) -> None:
        """Run before a request is forwarded."""

    def after_answer(self, request: Request, answer: Answer) -> None:
        """Run before a response is returned."""

    def changed(self, request: Request, answer: Answer) -> bytes:
        """Return the body to send back; by default the received one."""
        return answer.body

    def altered(self, request: Request, answer: Answer) -> Answer:
        """Return the response to send back; its headers are always the received ones."""
        return replace(answer, body=self.changed(request, answer))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Serve until the block ends; then close the socket."""
        thread = threading.Thread(target=self.serve_forever, args=(0.05,), name="reverse-proxy")
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: ReverseProxy

    def handle_any(self) -> None:
        url = urlsplit(self.path)
        request = Request(
            method=self.command,
            target=self.path,
            path=url.path,
            params=tuple(parse_qsl(url.query, keep_blank_values=True)),
            headers=_lower(self.headers.items()),
            body=b"".join(self._body()),
        )
        self.server.before_request(request)
        # Closed here, because a client may leave before this thread has connected, and then nothing
        # else would close the connection.
        with closing(http.client.HTTPConnection(*self.server.target, timeout=SECONDS)) as onward:
            self._pass_on(request.body, onward)
            found = onward.getresponse()
            headers = found.getheaders()
            answer = Answer(status=found.status, headers=_lower(headers), body=found.read())
        self.server.after_answer(request, answer)
        answer = self.server.altered(request, answer)
        self.send_response_only(answer.status)
        for name, value in headers:
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        with suppress(ConnectionError):  # a client may leave early
            self.wfile.write(answer.body)

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
        """Log nothing, because subclasses see every request."""


def _lower(headers: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name.lower(), value) for name, value in headers)
