"""A storage peer with scripted responses per action, over the raw sockets of ``peers``."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa

from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.options import ClientOptions
from odps_nb.http.retry import RetryPolicy
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import Split, TableName, Transfer
from odps_nb.wire.calls import ReadRows, WireRequest, decode_request, encode_error_json
from odps_nb.wire.control import decode_control
from tests.support import arrow_bodies
from tests.support.sockets.peers import Line, Peer, Seen

TABLE = TableName(project="p", table="t")
Step = Callable[[Line, Seen], None]
SCHEMA = TableSchema(columns=(Column(name="id", type=PrimitiveType(TypeCode.BIGINT)),))


def wire_of(seen: Seen) -> WireRequest:
    parts = urlsplit(seen.target)
    return WireRequest(
        method=seen.method,
        path=parts.path,
        params=tuple(parse_qsl(parts.query, keep_blank_values=True)),
        headers=tuple(seen.headers.items()),
        body=seen.body,
    )


def asked_split(seen: Seen) -> Split:
    """Return the rows that one ReadRows requests; ``calls`` may include other connections."""
    request = decode_request(wire_of(seen))
    assert isinstance(request, ReadRows)
    return request.split


class Service(Peer):
    """Responds to each action with the next step of its script; the last step is repeated."""

    has_control = False

    def __init__(self, **steps: list[Step]) -> None:
        self._steps = {action: deque(some) for action, some in steps.items()}
        self.calls: dict[str, list] = defaultdict(list)
        self._stack = ExitStack()
        super().__init__(self._talk)

    @cached_property
    def storage(self) -> StorageClient:
        """A client with the usual settings, which is closed with this service."""
        return self._stack.enter_context(self.client())

    def close(self) -> None:
        self._stack.close()
        super().close()

    def _talk(self, line: Line) -> None:
        while (seen := line.head()) is not None:
            line.drain(seen)
            wire = wire_of(seen)
            if wire.path.startswith("/api/storage/"):
                request = decode_request(wire)
            elif self.has_control:
                request = decode_control(replace(wire, path=wire.path.removeprefix("/api")))
            else:
                line.answer(b"", 404)
                continue
            name = type(request).__name__
            self.calls[name].append(request)
            steps = self._steps[name]
            step = steps.popleft() if len(steps) > 1 else steps[0]
            step(line, seen)

    def client(self, **facts) -> StorageClient:
        profile = Profile(
            endpoint=self.url + "/api",
            tunnel_endpoint=self.url,
            project="p",
            access_id="me",
            access_key="secret-key",
            **facts.pop("profile", {}),
        )
        self.slept: list[float] = []
        options = ClientOptions(read_timeout=facts.pop("read_timeout", 5.0))
        facts = {"sleep": self.slept.append, "options": options, **facts}
        storage = StorageClient(profile, retry=facts.pop("retry", RetryPolicy(spread=0.0)), **facts)
        storage.transfer.accept(Transfer.STORAGE)  # otherwise, the client checks some refusals
        return storage


class ControlService(Service):
    """Also responds to REST requests."""

    has_control = True


def give(answer) -> Step:
    """Respond with a value of ``wire.calls``."""
    body, headers = answer.encode()
    return lambda line, seen: line.answer(body, **headers)


def raw(body: bytes, status: int = 200, **headers: str) -> Step:
    return lambda line, seen: line.answer(body, status, **headers)


def fail(status: int, code: str, message: str = "no", **headers: str) -> Step:
    body = encode_error_json(code, message, "req-1")
    return lambda line, seen: line.answer(body, status, **headers)


def hang_up(line: Line, seen: Seen) -> None:
    """Close without a response."""
    line.reset()
    raise ConnectionError


def stall(line: Line, seen: Seen) -> None:
    line.peer.release.wait(20)
    raise ConnectionError


def cut(body: bytes, at: int, *, chunked: bool = False) -> Step:
    """Send the first ``at`` bytes of a body that is declared longer, then close."""

    def step(line: Line, seen: Seen) -> None:
        if chunked:
            line.chunked(*([body[:at]] if at else []), end=False)
        else:
            line.send(line.headline(**{"Content-Length": str(len(body))}) + body[:at])
        raise ConnectionError

    return step


def ipc(table: pa.Table, *, rows: int = 10, compression: str | None = None) -> bytes:
    """Return an Arrow stream with several batches."""
    return arrow_bodies.ipc(table, rows=rows, compression=compression)


def numbers(start: int, stop: int) -> pa.Table:
    return pa.table({"id": pa.array(range(start, stop), pa.int64())})


def ids(batches) -> list[int]:
    return [value for batch in batches for value in batch.column(0).to_pylist()]
