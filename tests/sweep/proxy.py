"""A proxy that breaks the N-th exchange in one way at one position, and maybe a later exchange."""

from __future__ import annotations

import itertools
import re
import socket
import threading
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa

from odps_nb.wire.calls import ROUTE_TOKEN, encode_error_json
from odps_nb.wire.tunnel.chunks import CHECK_BYTES, CHUNK_SIZE, SIZE_BYTES
from tests.support.interrupting import interrupt
from tests.support.sockets.peers import Line, Peer, Seen
from tests.sweep.surroundings import Surroundings

_ARROW = b"\xff\xff\xff\xff"
_CHUNKS = CHUNK_SIZE.to_bytes(SIZE_BYTES, "big")  # the tunnel's stream, with its own checksums
_PAGE = b"<html><body><h1>502 Bad Gateway</h1></body></html>"
_TOKEN_LINE = re.compile(rb"(?i)^%b: [^\r]*\r\n" % ROUTE_TOKEN.encode(), re.MULTILINE)
_TUNNEL_PARAMS = ("downloads", "downloadid", "data", "uploads", "uploadid", "blockid")
_QUERY = re.compile(rb"<Query>(?:<!\[CDATA\[)?\s*(\w+ \w+)")
_FRAMING = re.compile(rb"(?im)^(content-length|transfer-encoding|connection): [^\r]*\r\n")


@dataclass(frozen=True)
class Answer:
    """A response of the service: its headers without framing, and its body without chunks."""

    head: bytes
    body: bytes
    chunked: bool

    @classmethod
    def parse(cls, raw: bytes) -> Answer:
        head, _, body = raw.partition(b"\r\n\r\n")
        head += b"\r\n"
        chunked = b"transfer-encoding: chunked" in head.lower()
        return cls(_FRAMING.sub(b"", head), _joined(body) if chunked else body, chunked)

    def encode(self, body: bytes | None = None) -> bytes:
        """Return the response as HTTP bytes, with another body if given, of the right length."""
        body = self.body if body is None else body
        if not self.chunked:
            return self.head + b"content-length: %d\r\n\r\n" % len(body) + body
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in _pieces(body))
        return self.head + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"

    def places(self) -> list[int]:
        """Return the positions at which a body may end early: between and inside its parts."""
        ends = [0, *_part_ends(self.body), len(self.body)]
        inside = [(a + b) // 2 for a, b in itertools.pairwise(ends)]
        return sorted({*ends, *inside, len(self.body) - 1} - {len(self.body), -1})

    def checked_bytes(self) -> list[int]:
        """Return positions at which damage is detected: not inside values without a checksum.

        The Storage API has checksums for blobs, the tunnel for all rows.
        """
        if self.body.startswith(_CHUNKS):
            ends = [SIZE_BYTES, *_part_ends(self.body)]
            inside = [(a + b) // 2 for a, b in itertools.pairwise(ends)]
            return sorted({0, SIZE_BYTES - 2, *ends[:-1], *inside, *(at - 1 for at in ends)})
        if self.body.startswith(_ARROW):
            starts = [0, *_message_ends(self.body)]
            return [at + byte for at in starts if at < len(self.body) for byte in (0, 4)]
        return sorted({0, len(self.body) // 2, len(self.body) - 1}) if self.body else []


class BreaksOne(Peer):
    """Forwards exchanges to ``target``, and breaks number ``number`` (from 0) with ``fault``.

    ``injected``: whether the fault occurred. ``broken``: the request that it affected.
    ``document``: whether the response was a document. ``places``: the number of positions at which
    it can break; ``place`` selects one.

    Faults of this machine (no names, no descriptors, a full disk) last until the client has waited
    a moment.

    Instead of a number, the name of an action may be given: its first request is broken. ``then``
    is a second fault and the number of its exchange; ``injected_again`` and ``broken_again`` belong
    to it. With ``place`` -1, a response breaks in its middle.
    """

    def __init__(
        self,
        target: str,
        fault: str,
        number: int | str,
        place: int = -1,
        around: Surroundings | None = None,
        *,
        then: tuple[str, int] | None = None,
    ) -> None:
        parts = urlsplit(target)
        self._target = (parts.hostname, parts.port)
        self._strikes: dict[int | str, str] = {number: fault}
        self._strikes |= {then[1]: then[0]} if then else {}
        self._number, self._place, self._around = number, place, around or Surroundings()
        self._lock, self._count = threading.Lock(), 0
        self.injected, self.broken, self.document, self.places = False, "", False, 1
        self.injected_again, self.broken_again = False, ""
        super().__init__(self._talk)

    def _talk(self, line: Line) -> None:
        while (seen := line.head()) is not None:
            with self._lock:
                at: int | str = self._count if self._count in self._strikes else _name(seen)
                fault = self._strikes.pop(at, None)
                self._count += 1
            if fault and at == self._number:
                self.injected, self.broken = True, _name(seen)
            elif fault:
                self.injected_again, self.broken_again = True, _name(seen)
            if fault == "reset inside":
                line.reset()
                return
            if fault == "silent inside":
                line.wait_closed(reads=False)
                return
            line.drain(seen)
            if not seen.whole:
                return
            if fault and at == self._number:
                self.broken += _statement(seen)
            if not fault:
                line.send(self._asked(seen).encode())
            elif not self._break(line, seen, fault):
                return

    def _break(self, line: Line, seen: Seen, fault: str) -> bool:
        """Send a wrong response to one request; return whether the connection stays open."""
        if fault in REFUSALS:
            status, headers, body = REFUSALS[fault]
            if fault == "500 after":
                self._asked(seen)
            line.answer(body, status, **headers)
            return True
        if fault in ("reset before", "refused", "no names", "no descriptors"):
            line.reset()
            self._around.begin(fault, self)
            return False
        if fault == "silent before":
            line.wait_closed()
            return False
        if fault == "interrupt before":
            interrupt()
            line.wait_closed()
            return False
        if fault in ("clock forward", "clock back", "disk full"):
            self._around.begin(fault, self)
            line.send(self._asked(seen).encode())
            return True
        if fault == "expired":
            line.answer(encode_error_json("NoSuchSession", "it has expired", "sweep"), 404)
            return True
        answer = self._asked(seen)
        if fault == "twice":
            answer = self._asked(seen)
        return self._spoil(line, answer, fault)

    def _spoil(self, line: Line, answer: Answer, fault: str) -> bool:
        self.document = not answer.chunked
        if fault == "reset after":
            line.reset()
            return False
        if fault == "silent after":
            line.wait_closed()
            return False
        if fault == "interrupt after":
            interrupt()
            line.wait_closed()
            return False
        if fault == "no token":
            answer = Answer(_TOKEN_LINE.sub(b"", answer.head), answer.body, answer.chunked)
        elif fault == "flipped":
            return self._flip(line, answer)
        elif fault == "shortened":
            places = answer.places()
            self.places = max(1, len(places))
            if places:
                line.send(answer.encode(answer.body[: places[self._place]]))
                return True
        elif fault in ("cut", "stalled"):
            return self._cut(line, answer, stalled=fault == "stalled")
        line.send(answer.encode())
        return True

    def _flip(self, line: Line, answer: Answer) -> bool:
        checked_bytes = answer.checked_bytes()
        self.places = max(1, len(checked_bytes))
        body = bytearray(answer.body)
        if checked_bytes:
            body[checked_bytes[self._place]] ^= 0x80
        line.send(answer.encode(bytes(body)))
        return True

    def _cut(self, line: Line, answer: Answer, *, stalled: bool) -> bool:
        whole = answer.encode()
        end = (
            len(whole) - len(answer.encode(b"")) + 1
        )  # inexact for chunked bodies, because chunk headers are counted too
        body = whole.index(b"\r\n\r\n") + 4
        places = [10, body, *(body + at for at in answer.places())]
        if stalled:
            places = [10, body + end // 2]
        places = sorted({min(at, len(whole) - 1) for at in places})
        self.places = len(places)
        line.send(whole[: places[self._place if self._place >= 0 else len(places) // 2]])
        if stalled:
            line.wait_closed()
        return False

    def _asked(self, seen: Seen) -> Answer:
        headers = {**seen.headers, "connection": "close", "content-length": str(len(seen.body))}
        headers.pop("transfer-encoding", None)
        head = [f"{seen.method} {seen.target} HTTP/1.1"]
        head += [f"{name}: {value}" for name, value in headers.items()]
        with socket.socket() as service:
            service.connect(self._target)
            service.sendall("\r\n".join([*head, "", ""]).encode() + seen.body)
            raw = b"".join(iter(lambda: service.recv(1 << 20), b""))
        return Answer.parse(raw)

    # -- the server refuses connections for a moment --------------------------------------------

    def stop_listening(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(10)

    def listen_again(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()


#: Responses in place of the service's: status, headers, body.
REFUSALS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "429": (429, {}, encode_error_json("FlowExceeded", "too many requests", "sweep")),
    "429 later": (
        429,
        {"Retry-After": "3"},
        encode_error_json("FlowExceeded", "too many requests", "sweep"),
    ),
    "500": (500, {}, encode_error_json("InternalServerError", "a bad moment", "sweep")),
    "500 after": (500, {}, encode_error_json("InternalServerError", "a bad moment", "sweep")),
    "502 page": (502, {"Content-Type": "text/html"}, _PAGE),
    "503": (503, {}, encode_error_json("ServiceUnavailable", "a bad moment", "sweep")),
    "507": (507, {}, encode_error_json("InsufficientStorage", "the disk is full", "sweep")),
}


def _name(seen: Seen) -> str:
    parts = urlsplit(seen.target)
    params = parse_qs(parts.query, keep_blank_values=True)
    of_tunnel = [name for name in _TUNNEL_PARAMS if name in params]
    action = params.get("Action", [""])[0]
    return action or " ".join([seen.method, parts.path, *of_tunnel])


def _statement(seen: Seen) -> str:
    """Return the first words of the SQL statement that a request submits."""
    found = _QUERY.search(seen.body)
    return f" ({found[1].decode()})" if found else ""


def _joined(body: bytes) -> bytes:
    found, at = [], 0
    while at < len(body):
        line = body.index(b"\r\n", at)
        size = int(body[at:line], 16)
        found.append(body[line + 2 : line + 2 + size])
        at = line + 2 + size + 2
        if not size:
            break
    return b"".join(found)


def _part_ends(body: bytes) -> list[int]:
    """Return the ends of the messages of an Arrow stream, or of the chunks of a tunnel stream."""
    if body.startswith(_CHUNKS):
        whole = range(SIZE_BYTES, len(body), CHUNK_SIZE + CHECK_BYTES)
        return [*whole[1:], len(body)]
    return _message_ends(body)


def _message_ends(body: bytes) -> list[int]:
    """Return the ends of the messages of an Arrow stream; empty if it is none."""
    if not body.startswith(_ARROW):
        return []
    reader, ends = pa.BufferReader(body), []
    while True:
        try:
            pa.ipc.read_message(reader)
        except (EOFError, pa.ArrowInvalid):
            return ends
        ends.append(reader.tell())


def _pieces(body: bytes) -> list[bytes]:
    ends = [0, *_part_ends(body), len(body)]
    return [body[a:b] for a, b in itertools.pairwise(ends) if b > a]


__all__ = ["REFUSALS", "Answer", "BreaksOne"]
