"""A proxy in front of the service that changes some responses, to simulate another service."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

import requests

#: Action (empty: not of the Storage API), HTTP status and body -> status and body to return.
Change = Callable[[str, int, bytes], tuple[int, bytes]]
_OF_THIS_HOP = {"connection", "content-length", "host", "transfer-encoding", "accept-encoding"}


class Altering:
    """Forwards requests to ``target`` inside a ``with`` block; ``url`` is its address."""

    def __init__(self, target: str, change: Change) -> None:
        session = requests.Session()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._forward(b"")

            def do_POST(self) -> None:
                self._forward(self._body())

            do_PUT = do_POST

            def _body(self) -> bytes:
                if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)

            def _forward(self, body: bytes) -> None:
                headers = {k: v for k, v in self.headers.items() if k.lower() not in _OF_THIS_HOP}
                headers["Accept-Encoding"] = self.headers.get("Accept-Encoding", "identity")
                answer = session.request(
                    self.command, target + self.path, data=body, headers=headers, timeout=60
                )
                action = parse_qs(urlsplit(self.path).query).get("Action", [""])[0]
                status, content = change(action, answer.status_code, answer.content)
                self.send_response_only(status)
                for key, value in answer.headers.items():
                    if key.lower() not in _OF_THIS_HOP:
                        self.send_header(key, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Print nothing."""

        self._session = session
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Altering:
        self._thread.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._session.close()
