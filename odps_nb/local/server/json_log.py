"""Logs requests as JSON, one object per line: method, path, action, status, duration.

Query strings, headers and bodies are never logged, because they hold keys, tokens and signatures;
only the name of the action is taken from the query.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from odps_nb.wire.calls import REQUEST_ID

__all__ = ["JsonFormatter", "LoggedApp", "requests_log"]

requests_log = logging.getLogger("odps_nb.local.requests")
MAX_TEXT = 200


class JsonFormatter(logging.Formatter):
    """Formats each record as one JSON object; attributes of a request are separate fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line of JSON."""
        facts: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return json.dumps(facts, ensure_ascii=False, default=str)


class LoggedApp:
    """Wraps the application and logs each request when it has ended."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request and log its outcome."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        seen = _Seen(receive, send)
        began = time.perf_counter()
        try:
            await self._app(scope, seen.receive, seen.send)
        except BaseException as error:
            seen.facts["error"] = type(error).__name__
            raise
        finally:
            milliseconds = round((time.perf_counter() - began) * 1000, 1)
            facts = {**dict(_asked(scope)), **seen.facts, "milliseconds": milliseconds}
            requests_log.info("request", extra={"facts": facts})


class _Seen:
    """Counts bytes of a request and its answer; ``whole``: the answer was sent completely."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self.facts: dict[str, Any] = {
            "request_id": None,
            "status": None,
            "bytes_in": 0,
            "bytes_out": 0,
            "whole": False,
        }

    async def receive(self) -> Message:
        message = await self._receive()
        self.facts["bytes_in"] += len(message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.facts["status"] = message["status"]
            for name, value in message.get("headers", ()):
                if name.decode("latin-1").lower() == REQUEST_ID.lower():
                    self.facts["request_id"] = value.decode("latin-1")
        await self._send(message)
        if message["type"] == "http.response.body":
            self.facts["bytes_out"] += len(message.get("body", b""))
            self.facts["whole"] = not message.get("more_body", False)


def _asked(scope: Scope) -> Iterator[tuple[str, str | None]]:
    """Return method, path and action of a request."""
    yield "method", scope["method"]
    yield "path", scope["path"][:MAX_TEXT]
    query = scope["query_string"].decode("latin-1")
    action = dict(parse_qsl(query, keep_blank_values=True)).get("Action")
    yield "action", None if action is None else action[:MAX_TEXT]
