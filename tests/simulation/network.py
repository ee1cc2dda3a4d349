"""The transport of a simulated world: the client's requests, decoded, at a service in memory.

It stands where `RequestsTransport` stands, so that signing, retries, decoding and checks are the
client's own. Write sessions are those of `tests.model.service`, which is played against the
embedded service; read sessions are here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from random import Random
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa

from odps_nb.errors import (
    BrokenStreamError,
    CancelledError,
    ConnectError,
    RequestTimeoutError,
    ServiceError,
)
from odps_nb.http.transport import HttpRequest
from odps_nb.local import faults
from odps_nb.terms import IndexSplit, SplitMode
from odps_nb.wire import calls
from tests.model.client import _values
from tests.model.explorer import shown
from tests.model.service import SCHEMA, Rows, Service
from tests.simulation.world import World

__all__ = ["SPLITS", "Network", "SimulatedService"]

SPLITS = 3
LIFE = 300.0  # seconds of a read session
MARK = b"\xff\xff\xff\xff"


@dataclass
class SimulatedService(Service):
    """The write sessions of the model, and read sessions that expire."""

    world: Any = None
    reads: dict[str, tuple[tuple[int, ...], float]] = field(default_factory=dict)

    def answer(self, request: Any) -> Any:
        if isinstance(request, calls.CreateReadSession):
            name = f"r{len(self.reads)}"
            self.reads[name] = (tuple(self.table), self.world.now + LIFE)
            return self._about(name)
        if isinstance(request, calls.GetReadSession):
            values, _ = self._read(request.session_id)
            if request.refresh:
                self.reads[request.session_id] = (values, self.world.now + LIFE)
            return self._about(request.session_id)
        if isinstance(request, calls.ReadRows):
            return self._rows(request)
        return super().answer(request)

    def expire(self) -> None:
        self.reads = {name: (values, 0.0) for name, (values, _) in self.reads.items()}

    def _read(self, name: str) -> tuple[tuple[int, ...], float]:
        if name not in self.reads or self.reads[name][1] <= self.world.now:
            raise faults.expired(name)
        return self.reads[name]

    def _about(self, name: str) -> calls.ReadSessionAnswer:
        values, expires = self.reads[name]
        return calls.ReadSessionAnswer(
            session_id=name,
            split_mode=SplitMode.ROW_OFFSET,
            record_count=len(values),
            schema=SCHEMA,
            expires_at=1.7e9 + expires,
        )

    def _rows(self, request: calls.ReadRows) -> bytes:
        values, split = self._read(request.session_id)[0], request.split
        if isinstance(split, IndexSplit):
            size = len(values) // SPLITS
            values = values[split.index * size : (split.index + 1) * size]
        else:
            values = values[split.offset : split.offset + split.count]
        return _stream(values[request.skip_rows :], request.max_batch_rows)


@cache
def _stream(values: tuple[int, ...], rows: int) -> bytes:
    table, sink = pa.table({"id": pa.array(values, pa.int64())}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return bytes(sink.getvalue())


class Response:
    """What the client uses of an `HttpResponse`; ``breaks``: after the body, instead of its end."""

    early = False
    is_delimited = True

    def __init__(self, request: HttpRequest, status: int, body: bytes, *, breaks: bool) -> None:
        self.url, self.status, self.headers = request.url, status, {"x-odps-request-id": "q"}
        self.request_id, self.length, self.wire_bytes = "q", len(body), 0
        self._body, self._breaks, self._request = body, breaks, request
        self.closed = False

    @property
    def arrived(self) -> int:
        return self.wire_bytes

    def read1(self, n: int = 1 << 18) -> bytes:
        if self._request.abort.stopped:
            raise CancelledError("stopped")
        data = self._body[self.wire_bytes : self.wire_bytes + n]
        self.wire_bytes += len(data)
        if len(data) < n and self._breaks:
            raise BrokenStreamError("the connection broke", request_sent=True)
        return data

    def read(self, n: int = -1) -> bytes:
        return self.read1(len(self._body) + 1 if n < 0 else n)

    def readinto(self, buffer: Any) -> int:
        data = self.read1(len(buffer))
        memoryview(buffer).cast("B")[: len(data)] = data
        return len(data)

    def chunks(self, size: int = 1 << 18) -> Iterator[bytes]:
        while data := self.read1(size):
            yield data

    def end_in_time(self) -> None:
        return

    receive_freely = end_in_time

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> Response:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Network:
    """A `Transport`: one exchange after another, with the faults and delays of the plan."""

    def __init__(self, world: World, service: SimulatedService) -> None:
        self.world, self.service = world, service
        self._faults, self._delays = dict(world.plan.faults), dict(world.plan.delays)
        self._count = 0

    def close(self) -> None:
        return

    def send(self, request: HttpRequest) -> Any:
        """Exchange; raises what `RequestsTransport` raises."""
        body = request.body
        if body is not None and not isinstance(body, bytes):
            body = b"".join(body)
        number, self._count = self._count, self._count + 1
        call = _decoded(request, body)
        fault = self._faults.get(number, "")
        self.world.sleep(self._delays.get(number, 0.02))
        chance = Random(f"{self.world.plan.seed} {number}") if fault else None
        if request.abort.stopped:
            raise CancelledError("stopped")
        self.world.tell(f"{shown_short(call)}{f'   <-- {fault}' if fault else ''}")
        return self._exchange(request, call, fault, chance)

    def _exchange(self, request: HttpRequest, call: Any, fault: str, chance: Any) -> Any:
        world = self.world
        if fault == "refused":
            raise ConnectError("refused", request_sent=False)
        if fault in ("429", "500", "503"):
            return Response(request, int(fault), _error("Busy", "busy"), breaks=False)
        self._disturb(call, fault, chance)
        if fault == "stalled":
            world.sleep(request.read_timeout)
            raise RequestTimeoutError("nothing came", request_sent=True)
        if fault in ("reset", "late"):
            raise BrokenStreamError("no answer", request_sent=True)
        status, answer = self._arrive(call)
        if fault == "lost":
            raise BrokenStreamError("no answer", request_sent=True)
        if fault == "500 though done":
            return Response(request, 500, _error("Busy", "busy"), breaks=False)
        return Response(request, status, _damaged(answer, fault), breaks=fault == "cut")

    def _disturb(self, call: Any, fault: str, chance: Any) -> None:
        """Do what a fault does beside the exchange itself."""
        world = self.world
        if fault == "clock":
            world.skew += chance.choice((-4000.0, 200.0, 4000.0))
        elif fault == "expired":
            self.service.expire()
        elif fault == "restart" and world.plan.scenario == "micro-batch":
            if chance.random() < 0.5:
                self._arrive(call)
            else:
                world.later(chance.uniform(0, 60), lambda: self._arrive(call, late=True))
            world.restart()
            world.sleep(0)
        elif fault in ("late", "stalled", "twice"):
            world.later(chance.uniform(0, 60), lambda: self._arrive(call, late=True))

    def _arrive(self, call: Any, *, late: bool = False) -> tuple[int, bytes]:
        try:
            answer = self.service.answer(call)
        except ServiceError as error:
            self.world.tell(f"  {'late, ' * late}refused: {error.code}: {shown_short(call)}")
            return error.status or 400, _error(error.code or "", error.message)
        if late:
            self.world.tell(f"  arrives late: {shown_short(call)}")
        return 200, answer if isinstance(answer, bytes) else answer.encode()[0]


def shown_short(call: Any) -> str:
    extra = ""
    if isinstance(call, calls.ReadRows):
        extra = f" {call.split}" + (f" from row {call.skip_rows}" if call.skip_rows else "")
    return f"{shown(call)}{extra}"


def _error(code: str, message: str) -> bytes:
    return json.dumps({"Code": code, "Message": message}).encode()


def _damaged(body: bytes, fault: str) -> bytes:
    """Cut before the last message of a stream, or flip a bit that no checksum need tell."""
    last = body.rfind(MARK, 1, -8) if body.startswith(MARK) else len(body) // 2
    if fault in ("cut", "short"):
        return body[: max(0, last)]
    if fault == "flipped" and body:
        place = max(0, last)
        return body[:place] + bytes([body[place] ^ 0x80]) + body[place + 1 :]
    return body


@lru_cache(4096)
def _parts(url: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    parts = urlsplit(url)
    return parts.path, tuple(parse_qsl(parts.query, keep_blank_values=True))


def _decoded(request: HttpRequest, body: bytes | None) -> Any:
    path, params = _parts(request.url)
    wire = calls.WireRequest(
        method=request.method,
        path=path,
        params=params,
        headers=tuple(request.headers.items()),
        body=body,
    )
    call: Any = calls.decode_request(wire)
    return Rows(call, _values(body or b"")) if isinstance(call, calls.WriteRows) else call
