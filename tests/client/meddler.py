"""A proxy that meddles: it stands before the real service and breaks exchanges by a seed.

Every fault is one that a network or a tired server makes; what gets through is the service's own
answer. The same seed breaks the same exchanges of the same run.
"""

from __future__ import annotations

import random
import socket
from urllib.parse import urlsplit

from peers import Line, Peer

from odps_nb.wire.calls import encode_error_json

FAULTS = (
    "drop",  # hang up before the service hears of it
    "lost",  # the service acts, the client hears nothing
    "cut",  # the answer ends somewhere inside
    "429",
    "503",
    "503 after",  # the service acts, the client hears 503
    "slow",  # the answer comes in small pieces
)


class Meddler(Peer):
    """Forwards whole requests to ``target``; breaks a ``share`` of the exchanges."""

    def __init__(self, target: str, *, seed: int, share: float, flip: bool = False) -> None:
        parts = urlsplit(target)
        self._place = (parts.hostname, parts.port)
        self._random = random.Random(seed)
        self._share, self._flip = share, flip
        self.done: list[str] = []
        super().__init__(self._talk)

    def _talk(self, line: Line) -> None:
        while (seen := line.head()) is not None:
            line.drain(seen)
            if not seen.whole:
                return
            broken = self._random.random() < self._share
            faults = (*FAULTS, "flip") if self._flip else FAULTS
            fault = self._random.choice(faults) if broken else ""
            self.done.append(fault)
            if not self._exchange(line, seen, fault):
                return

    def _exchange(self, line: Line, seen, fault: str) -> bool:
        if fault == "drop":
            line.reset()
            return False
        if fault in ("429", "503"):
            line.answer(encode_error_json("Meddled", "meddled with", "meddler"), int(fault))
            return True
        answer = self._forward(seen)
        if fault == "lost":
            line.reset()
            return False
        if fault == "503 after":
            line.answer(encode_error_json("Meddled", "meddled with", "meddler"), 503)
            return True
        if fault == "cut":
            line.send(answer[: self._random.randrange(len(answer))])
            return False
        if fault == "flip":
            answer = self._flipped(answer)
        step = max(1, len(answer) // 50) if fault == "slow" else 1 << 20
        for at in range(0, len(answer), step):
            line.send(answer[at : at + step])
        return True

    def _flipped(self, answer: bytes) -> bytes:
        start = answer.index(b"\r\n\r\n") + 4
        if start == len(answer):
            return answer
        damaged = bytearray(answer)
        damaged[self._random.randrange(start, len(answer))] ^= 1 << self._random.randrange(8)
        return bytes(damaged)

    def _forward(self, seen) -> bytes:
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
