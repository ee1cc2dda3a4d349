"""Injects faults into responses for tests: cut, stall, corrupt, refuse, expire, close.

The service must be started with ``--misbehave``. ``PUT /api/misbehaviour`` sets the rules as
JSON, ``GET`` returns them with their counters, and ``DELETE`` removes them::

    {"rules": [
        {"action": "TableRead", "skip": 1, "times": 2, "fault": "cut", "at": 5000},
        {"action": "*", "fault": "status", "status": 429, "retry_after": 0.1},
        {"action": "/api/projects/p/tables/new", "fault": "status", "code": "NoSuchTable"},
        {"action": "TableCommitWriteSession", "fault": "close"}]}

``action`` is a Storage API action, ``*``, or a path prefix (``/api/projects``). An action that
reads rows, writes rows, or opens or closes a stream also matches the equivalent requests of the
tunnel and of version 1. With ``session``, only requests of that read or write session match. A rule
ignores the first ``skip`` matching requests and applies to the next ``times`` ones (default: 1; 0
for all). ``code`` and ``message`` replace those of the error; the status of a known ``code`` is set
automatically.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from threading import Lock
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from odps_nb.local import errors
from odps_nb.local.routes.asgi_io import drain
from odps_nb.local.routes.surface import error_document
from odps_nb.local.service import Service
from odps_nb.wire.calls import REQUEST_ID, STATUS_OF_CODE

FAULTS = ("cut", "stall", "corrupt", "status", "expire", "close")
MAX_RULES = 1000
_LOOK = 0.1  # seconds between checks that a stalled response's client is still connected


@dataclass(slots=True, kw_only=True)
class Rule:
    """A rule and its counters. ``at`` is an offset in the body; a stall lasts ``seconds``."""

    action: str
    fault: str
    session: str = ""
    skip: int = 0
    times: int = 1
    at: int = 0
    seconds: float = 1.0
    status: int = 503
    code: str = ""
    message: str = "the service injected a fault"
    retry_after: float | None = None
    matched: int = 0
    injected: int = 0


@dataclass(slots=True)
class FaultRules:
    """The active rules; initially empty."""

    rules: list[Rule] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def load(self, document: bytes) -> None:
        """Replace all rules, or raise 400 if the new ones are invalid."""
        try:
            content = json.loads(document or b"{}")
            rules = [_rule(entry) for entry in content.get("rules", [])][:MAX_RULES]
        except (ValueError, TypeError, AttributeError) as error:
            raise errors.invalid(f"the rules are invalid: {error}") from None
        with self._lock:
            self.rules = rules

    def dump(self) -> bytes:
        """Return the rules and their counters as JSON."""
        with self._lock:
            return json.dumps({"rules": [asdict(rule) for rule in self.rules]}).encode()

    def choose(self, action: str, path: str, session: str = "") -> Rule | None:
        """Return the rule for this request, or ``None``, and update the counters."""
        with self._lock:
            for rule in self.rules:
                beginning = rule.action.startswith("/") and path.startswith(rule.action)
                if rule.action not in ("*", action) and not beginning:
                    continue
                if rule.session not in ("", session):
                    continue
                rule.matched += 1
                if rule.matched <= rule.skip or 0 < rule.times <= rule.injected:
                    continue
                rule.injected += 1
                return rule
        return None


def _rule(entry: dict[str, Any]) -> Rule:
    known = {key: value for key, value in entry.items() if key not in ("matched", "injected")}
    rule = Rule(**known)
    if rule.fault not in FAULTS:
        raise ValueError(f"{rule.fault!r} is not one of {', '.join(FAULTS)}")
    return rule


class FaultyApp:
    """Wraps the application and injects faults according to the rules."""

    def __init__(self, app: ASGIApp, service: Service, rules: FaultRules) -> None:
        self._app, self._service, self._rules = app, service, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; if a rule matches, inject its fault."""
        if scope["type"] != "http" or scope["path"] == "/api/misbehaviour":
            await self._app(scope, receive, send)
            return
        query = scope["query_string"].decode("latin-1")
        params = dict(parse_qsl(query, keep_blank_values=True))
        action = params.get("Action", "")
        session = next((params[name] for name in _SESSIONS if name in params), "")
        rule = self._rules.choose(action or _same_action(scope, params), scope["path"], session)
        if rule is None:
            await self._app(scope, receive, send)
        elif rule.fault == "status":
            await drain(Request(scope, receive))
            await _refusal(rule, xml=not action)(scope, receive, send)
        elif rule.fault == "close":
            await self._app(_watched(scope), receive, _nowhere)
            _abort(scope)
        else:
            if rule.fault == "expire":
                self._service.read_sessions.expire(session)
            await self._app(_watched(scope), receive, _Spoiled(rule, scope, send).send)


_SESSIONS = ("SessionId", "session_id", "downloadid")
#: Actions by the method and a parameter of the tunnel's requests; the first match applies.
_OF_TUNNEL = {
    ("GET", "data"): "TableRead",
    ("PUT", "blockid"): "TableWrite",
    ("POST", "uploads"): "TableCreateWriteStream",
    ("POST", "uploadid"): "TableCloseWriteStream",
}


def _same_action(scope: Scope, params: Mapping[str, str]) -> str:
    """Return the equivalent action of the Storage API; empty if there is none."""
    method, path = scope["method"], scope["path"]
    if path.startswith("/api/storage/v1/"):
        write = "TableWrite" if "/sessions/" in path else "TableRead"
        return write if path.endswith("/data") else ""
    if path.startswith("/api/"):
        return ""
    names = (name for (verb, key), name in _OF_TUNNEL.items() if verb == method and key in params)
    return next(names, "")


def _watched(scope: Scope) -> Scope:
    """Return the scope with direct socket writes disabled, so that ``send`` sees the body."""
    return {**scope, "state": {**scope["state"], "direct": False}}


class _Spoiled:
    """Forwards messages, and injects the fault when the body reaches the rule's offset."""

    def __init__(self, rule: Rule, scope: Scope, send: Send) -> None:
        self._rule, self._scope, self._send = rule, scope, send
        self._sent, self._done = 0, False

    async def send(self, message: Message) -> None:
        """Send one message, or inject the fault at the rule's offset."""
        rule = self._rule
        if message["type"] == "http.response.start":
            await self._send(message)
            return
        body = bytes(message.get("body", b""))
        reached = not self._done and rule.at < self._sent + len(body)
        ends = not message.get("more_body", False)
        if rule.fault == "cut" and (reached or (ends and not self._done)):
            self._done = True
            head = body[: max(0, rule.at - self._sent)]
            await self._send({**message, "body": head, "more_body": True})
            # allow time for the written bytes to be sent before closing the connection
            await asyncio.sleep(0.05)
            _abort(self._scope)
            return
        if reached and rule.fault == "stall":
            self._done = True
            await self._stall()
        if reached and rule.fault == "corrupt":
            self._done = True
            index = rule.at - self._sent
            body = body[:index] + bytes([body[index] ^ 0x55]) + body[index + 1 :]
        self._sent += len(body)
        await self._send({**message, "body": body})

    async def _stall(self) -> None:
        """Stall for ``seconds``; to free memory, stop earlier if the client disconnects."""
        transport = self._scope["state"]["connection"].transport
        clock = asyncio.get_running_loop().time
        end = clock() + self._rule.seconds
        while clock() < end and not transport.is_closing():
            await asyncio.sleep(min(_LOOK, max(0, end - clock())))


async def _nowhere(message: Message) -> None:
    """Discard a message."""


def _refusal(rule: Rule, *, xml: bool) -> Response:
    status = STATUS_OF_CODE.get(rule.code, rule.status)
    code = rule.code or next((c for c, s in STATUS_OF_CODE.items() if s == status), "Unknown")
    response = error_document(status, code, rule.message, "MISBEHAVIOUR", xml=xml)
    response.headers[REQUEST_ID] = "MISBEHAVIOUR"
    if rule.retry_after is not None:
        response.headers["retry-after"] = str(rule.retry_after)
    return response


def _abort(scope: Scope) -> None:
    """Close the connection without a response, as a crash would."""
    scope["state"]["connection"].transport.abort()
