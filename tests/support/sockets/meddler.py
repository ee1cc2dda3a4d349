"""A proxy that meddles: it stands before the real service and breaks exchanges by a seed.

Every fault is one that a network or a tired server makes; what gets through is the service's own
answer. Chance is drawn per request (what it asks for, and the how-manieth of its kind it is), so
that the same seed breaks the same exchanges however threads are scheduled.
"""

from __future__ import annotations

import random
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlsplit

from odps_nb.wire.calls import ROUTE_TOKEN, encode_error_json
from tests.support.sockets.peers import Line, Peer, Seen

FAULTS = (
    "drop",  # hang up before the service hears of it
    "lost",  # the service acts, the client hears nothing
    "cut",  # the answer ends after any byte of it
    "stall",  # the answer stops after any byte of it, and the connection stays
    "corrupt",  # a byte of the answer arrives damaged, where a protocol can see it
    "429",
    "5xx",
    "5xx after",  # the service acts, the client hears that it failed
    "slow",  # the answer comes in small pieces
    "drip",  # it comes in drops, and takes longer than one may stay silent
)
SESSION_FAULTS = (
    "expire",  # the session of the request is over, now and for all that follow
    "no token",  # the answer comes without its route token
)
COMMIT_LOST = "commit lost"  # the service commits, the client hears nothing or nonsense
ALL_FAULTS = (*FAULTS, *SESSION_FAULTS, COMMIT_LOST)

_SCARCE = {"stall": 2, "drip": 1}  # per run: they take their time
_DROPS, _DROP_SECONDS = 60, 0.012
_NAMING = ("Action", "Index", "Offset", "Count", "StreamId", "RowOffset")
_CHUNK_LINE = re.compile(rb"\r\n([0-9a-fA-F]+)\r\n")
_TOKEN_LINE = re.compile(rb"(?i)^%b: [^\r]*\r\n" % ROUTE_TOKEN.encode(), re.MULTILINE)


class Meddler(Peer):
    """Forwards whole requests to ``target``; breaks a ``share`` of the exchanges."""

    def __init__(
        self, target: str, *, seed: int, share: float, faults: Sequence[str] = FAULTS
    ) -> None:
        parts = urlsplit(target)
        self._place = (parts.hostname, parts.port)
        self._seed, self._share, self._faults = seed, share, tuple(faults)
        self._known = threading.Lock()
        self._asked: Counter[str] = Counter()
        self._over: set[str] = set()  # sessions that have expired
        self.struck: Counter[str] = Counter()
        super().__init__(self._talk)

    def _talk(self, line: Line) -> None:
        while (seen := line.head()) is not None:
            line.drain(seen)
            if not seen.whole:
                return
            params = dict(parse_qsl(urlsplit(seen.target).query))
            fault, chance = self._choose(params, seen)
            if not self._exchange(line, seen, params, fault, chance):
                return

    def _choose(self, params: dict[str, str], seen: Seen) -> tuple[str, random.Random]:
        name = " ".join(params.get(key, "") for key in _NAMING) + f" {len(seen.body)}"
        with self._known:
            self._asked[name] += 1
            chance = random.Random(f"{self._seed} {name} {self._asked[name]}")
            fault = chance.choice(self._faults) if chance.random() < self._share else ""
            if fault == COMMIT_LOST:
                commits = params.get("Action") == "TableCommitWriteSession"
                fault = chance.choice(["lost", "cut", "stall", "5xx after"]) if commits else ""
                self.struck[COMMIT_LOST] += commits
            elif fault in SESSION_FAULTS and "SessionId" not in params:
                fault = ""
            if self.struck[fault] >= _SCARCE.get(fault, 1 << 30):
                fault = ""
            if fault == "expire":
                self._over.add(params["SessionId"])
            if fault:
                self.struck[fault] += 1
        return fault, chance

    def _exchange(
        self, line: Line, seen: Seen, params: dict[str, str], fault: str, chance: random.Random
    ) -> bool:
        """Let one request through, or not; return whether the connection lives on."""
        if fault == "drop":
            line.reset()
            return False
        if params.get("SessionId") in self._over:
            line.answer(encode_error_json("NoSuchSession", "it has expired", "meddler"), 404)
            return True
        if fault == "429":
            later = chance.choice([{}, {"Retry-After": "0.01"}, {"Retry-After": "0"}])
            line.answer(encode_error_json("Meddled", "meddled with", "meddler"), 429, **later)
            return True
        if fault == "5xx":
            return _fail(line, chance)
        answer = self._forward(seen)
        if fault == "lost":
            line.reset()
            return False
        if fault == "5xx after":
            return _fail(line, chance)
        return _send(line, answer, fault, chance, rows=params.get("Action") == "TableRead")

    def _forward(self, seen: Seen) -> bytes:
        headers = {**seen.headers, "connection": "close", "content-length": str(len(seen.body))}
        headers.pop("transfer-encoding", None)
        head = [f"{seen.method} {seen.target} HTTP/1.1"]
        head += [f"{name}: {value}" for name, value in headers.items()]
        with socket.create_connection(self._place) as service:
            service.sendall("\r\n".join([*head, "", ""]).encode() + seen.body)
            parts = []
            while data := service.recv(1 << 20):
                parts.append(data)
        # The service closes its own connection; ours to the client stays.
        return b"".join(parts).replace(b"connection: close\r\n", b"", 1)


def _fail(line: Line, chance: random.Random) -> bool:
    page = chance.choice([encode_error_json("Meddled", "meddled with", "meddler"), b"<html>", b""])
    line.answer(page, chance.choice([500, 502, 503, 504]))
    return True


def _send(line: Line, answer: bytes, fault: str, chance: random.Random, *, rows: bool) -> bool:
    if fault in ("cut", "stall"):
        line.send(answer[: chance.randrange(len(answer))])
        if fault == "stall":
            line.wait_closed(20.0)
        return False
    if fault == "corrupt":
        answer = _damaged(answer, chance, rows=rows)
    elif fault == "no token":
        answer = _TOKEN_LINE.sub(b"", answer, count=1)
    pieces = {"slow": 50, "drip": _DROPS}.get(fault, 1)
    step = max(1, len(answer) // pieces)
    for at in range(0, len(answer), step):
        line.send(answer[at : at + step])
        if fault == "drip":
            time.sleep(_DROP_SECONDS)
    return True


def _damaged(answer: bytes, chance: random.Random, *, rows: bool) -> bytes:
    """Damage a byte where somebody can see it.

    Blobs have checksums: any bit of the body will do. JSON has none; a byte that is no UTF-8 is
    seen. Rows have none either (a bit in them nobody can see): there the framing is hit.
    """
    start = answer.index(b"\r\n\r\n") + 4
    if start == len(answer):
        return answer
    damaged = bytearray(answer)
    if rows and (lines := [m.start(1) for m in _CHUNK_LINE.finditer(answer, start - 2)]):
        damaged[lines[chance.randrange(len(lines))]] ^= 0x80
    elif answer[start : start + 1] == b"{":
        damaged[chance.randrange(start, len(answer))] ^= 0x80
    elif not rows:
        damaged[chance.randrange(start, len(answer))] ^= 1 << chance.randrange(8)
    return bytes(damaged)
