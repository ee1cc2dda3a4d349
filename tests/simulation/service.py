"""The service of a world: the write sessions of tests/model, and read sessions that expire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from odps_nb.errors import BrokenStreamError, RequestTimeoutError, SessionExpiredError
from odps_nb.terms import RowRangeSplit, SplitMode
from odps_nb.wire import calls
from tests.model.service import SCHEMA, Service, Session
from tests.simulation.plan import Fault

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["EXPIRY", "READ_TIMEOUT", "ROWS", "Body", "Tables"]

ROWS = 12
EXPIRY = 180.0
READ_TIMEOUT = 30.0


class Tables(Service):
    """A table to write, and one with `ROWS` rows to read, each containing its position."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self._gone: set[str] = set()  # write sessions that were deleted
        self._reads: dict[str, float] = {}  # the expiry of each read session

    def answer(self, request: Any) -> Any:
        """Execute a request; rejections are raised as the client sees them."""
        if isinstance(request, calls.ReadRows):
            self._require(request.session_id)
            assert isinstance(request.split, RowRangeSplit)
            return rows(request.split.offset, request.split.count, request.max_batch_rows)
        if isinstance(request, calls.GetReadSession):
            self._require(request.session_id)
            if request.refresh:
                self._reads[request.session_id] = self._now() + EXPIRY
            return self._about(request.session_id)
        if isinstance(request, calls.CreateReadSession):
            name = f"r{len(self._reads)}"
            self._reads[name] = self._now() + EXPIRY
            return self._about(name)
        return super().answer(request)

    def forget(self, session_id: str) -> None:
        """End a session before its expiry."""
        self._gone.add(session_id)
        self.others.gone.add(session_id)
        if session_id in self._reads:
            self._reads[session_id] = self._now()

    def _session(self, session_id: str) -> Session:
        return super()._session("" if session_id in self._gone else session_id)

    def _require(self, session_id: str) -> None:
        if self._reads.get(session_id, 0.0) <= self._now():
            raise SessionExpiredError("expired", status=404, code="NoSuchSession")

    def _about(self, session_id: str) -> calls.ReadSessionAnswer:
        return calls.ReadSessionAnswer(
            session_id=session_id,
            split_mode=SplitMode.ROW_OFFSET,
            record_count=ROWS,
            schema=SCHEMA,
            expires_at=self._reads[session_id],
        )


@cache
def rows(offset: int, count: int, batch_rows: int) -> tuple[bytes, tuple[int, ...]]:
    """Return the Arrow stream of some rows, and the start of each message."""
    sink, end = pa.BufferOutputStream(), offset + count
    schema = pa.schema([("id", pa.int64())])
    begins = [0]
    with pa.ipc.new_stream(sink, schema) as writer:
        for low in range(offset, end, batch_rows):
            begins.append(sink.tell())
            values = pa.array(range(low, min(end, low + batch_rows)), pa.int64())
            writer.write_batch(pa.record_batch([values], schema=schema))
        begins.append(sink.tell())
    return sink.getvalue().to_pybytes(), tuple(begins)


class Body:
    """The body of a response: its second half arrives later, and it may be damaged."""

    headers: Mapping[str, str] = {}
    request_id = None
    arriving = 0  # progress is not tested here

    def __init__(
        self, world: World, stream: tuple[bytes, tuple[int, ...]], damage: Fault | None
    ) -> None:
        data, begins = stream
        self._world, self._at, self._half = world, 0, len(data) // 2
        self._kind = damage.kind if damage else ""
        self._end = end = int(damage.place * len(data)) if damage else len(data)
        if self._kind == "short" and damage:  # between messages; Arrow detects other truncations
            self._end = begins[int(damage.place * len(begins))]
        if self._kind == "flip":
            data, self._end = data[:end] + bytes([data[end] ^ 16]) + data[end + 1 :], len(data)
        self._data = data

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer`` unless the body ends; return the number of bytes."""
        at, end = self._at, min(self._at + len(buffer), self._end)
        if at <= self._half < end:
            self._world.sleep(self._world.delay())
        if end - at < len(buffer):
            if self._kind == "cut":
                raise BrokenStreamError("the connection broke", request_sent=True)
            if self._kind == "stalled":
                self._world.sleep(READ_TIMEOUT)
                raise RequestTimeoutError("the peer sends nothing", request_sent=True)
        buffer[: end - at] = self._data[at:end]
        self._at = end
        return end - at

    def new_wire_bytes(self) -> int:
        """Return the byte counts for the progress."""
        return 0

    def read(self, n: int) -> bytes:
        """Return ``n`` bytes, fewer only at the end."""
        buffer = bytearray(n)
        return bytes(buffer[: self.readinto(buffer)])

    def read1(self) -> bytes:
        """Return the bytes that have arrived; empty at the end."""
        return self.read(256)

    def close(self) -> None:
        """Free the connection."""
