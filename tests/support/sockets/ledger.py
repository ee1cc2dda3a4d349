"""A peer that records the rows and commits of a write session, and injects faults."""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque

import pyarrow as pa

from odps_nb.terms import BlobReference, Compression
from odps_nb.wire.calls import (
    EmptyAnswer,
    WriteBlobAnswer,
    WriteRowsAnswer,
    WriteSchemaAnswer,
    WriteSessionAnswer,
    WriteSessionStateAnswer,
    WriteStreamAnswer,
    decode_request,
    encode_error_json,
)
from odps_nb.wire.calls.core import content_coding
from odps_nb.wire.codings import decoder
from odps_nb.wire.frames import BlobData, BlobEnd, BlobStart, FrameDecoder
from odps_nb.wire.schema_json import WriteSchema
from tests.support.sockets.peers import Line, Seen
from tests.support.sockets.scripted import SCHEMA, Service, wire_of

ACTIONS = (
    "CreateWriteSession",
    "GetWriteSession",
    "CommitWriteSession",
    "AbortWriteSession",
    "GetWriteSchema",
    "CreateWriteStream",
    "GetWriteStream",
    "CloseWriteStream",
    "WriteRows",
    "WriteBlob",
    "WriteBlobBatch",
)
SEMANTIC = WriteSchema(schema=SCHEMA, column_ids={"id": 0, "b": 1})


class Refused(Exception):
    def __init__(self, status: int, code: str) -> None:
        self.status, self.code = status, code


class Ledger(Service):
    """Serves one session; ``faults[request name]`` lists the faults, one entry per request.

    drop: disconnect before executing · lost: execute, then disconnect · 429/503/500: reject before
    executing · 503 after: execute, then respond with 503 · half: execute half of the rows, then
    disconnect · rubbish: execute, then respond with invalid JSON · stall: execute, then stay silent
    """

    def __init__(self, *, exactly_once: bool = True, counts: bool = True) -> None:
        self.exactly_once, self.counts = exactly_once, counts
        self.faults: dict[str, deque[str]] = defaultdict(deque)
        self.rows: dict[str, list[int]] = {}
        self.closed: set[tuple[str, int]] = set()
        self.token = 0
        self.status = "NORMAL"
        self.committed: list[int] | None = None
        self.blobs: list[tuple[bytes, str | None, str | None]] = []
        self.partial = 0
        self.log: list[str] = []
        super().__init__(**{action: [self._act] for action in ACTIONS})

    def _act(self, line: Line, seen: Seen) -> None:
        if not seen.whole:
            raise ConnectionError  # a request with a truncated body is ignored
        request = decode_request(wire_of(seen))
        name = type(request).__name__
        self.log.append(name)
        fault = self.faults[name].popleft() if self.faults[name] else ""
        if fault == "drop":
            line.reset()
            raise ConnectionError
        if fault.isdigit():
            line.answer(encode_error_json("Trouble", "refused", "req-1"), int(fault))
            return
        self.partial = 2 if fault == "half" else 1
        try:
            answer = getattr(self, "_" + name)(request, seen)
        except Refused as refused:
            line.answer(encode_error_json(refused.code, "no", "req-1"), refused.status)
            return
        self._answer(line, answer, fault)

    def _answer(self, line: Line, answer, fault: str) -> None:
        if fault in ("lost", "half"):
            line.reset()
            raise ConnectionError
        if fault == "stall":
            line.wait_closed(20)
            raise ConnectionError
        if fault == "503 after":
            line.answer(encode_error_json("ServiceUnavailable", "later", "req-1"), 503)
        elif fault == "rubbish":
            line.answer(b"<p>rubbish")
        else:
            body, headers = answer.encode()
            line.answer(body, **headers)

    # -- sessions -----------------------------------------------------------------------------

    def _CreateWriteSession(self, request, seen):
        return WriteSessionAnswer(session_id="ws", route_token="rt")

    def _GetWriteSession(self, request, seen):
        return WriteSessionStateAnswer(status=self.status)

    def _GetWriteSchema(self, request, seen):
        return WriteSchemaAnswer(schema=SEMANTIC)

    def _CommitWriteSession(self, request, seen):
        if self.status == "ABORTED":
            raise Refused(409, "InvalidState")
        if self.status == "NORMAL":
            assert set(request.streams) <= self.closed
            self.committed = [row for one, _ in request.streams for row in self.rows[one]]
            self.status = "COMMITTED"
        return EmptyAnswer()

    def _AbortWriteSession(self, request, seen):
        if self.status == "COMMITTED":
            raise Refused(409, "InvalidState")
        self.status = "ABORTED"
        return EmptyAnswer()

    # -- streams ------------------------------------------------------------------------------

    def _CreateWriteStream(self, request, seen):
        assert request.route_token == "rt"
        self.rows[request.stream_id] = []
        token = "at-0" if self.exactly_once else None
        return WriteStreamAnswer(
            schema=SEMANTIC, table_id="7", schema_version="3", access_token=token
        )

    def _GetWriteStream(self, request, seen):
        rows = len(self.rows[request.stream_id])
        if request.exactly_once:
            self.token += 1
            return WriteStreamAnswer(
                schema=SEMANTIC,
                row_offset=rows if self.counts else None,
                access_token=f"at-{self.token}",
            )
        return WriteStreamAnswer(schema=SEMANTIC, record_count=rows if self.counts else None)

    def _CloseWriteStream(self, request, seen):
        self.closed.add((request.stream_id, request.stream_version))
        return EmptyAnswer()

    def _WriteRows(self, request, seen):
        assert (request.table_id, request.schema_version) == ("7", "3")
        with pa.ipc.open_stream(seen.body) as reader:
            new = reader.read_all().column(0).to_pylist()
        assert len(new) == request.count
        rows = self.rows[request.stream_id]
        if not self.exactly_once:
            rows += new[: len(new) // self.partial]
            return WriteRowsAnswer()
        if request.access_token != f"at-{self.token}":
            raise Refused(403, "NoPermission")
        if request.row_offset == len(rows):
            rows += new[: len(new) // self.partial]
        elif request.row_offset + request.count > len(rows):
            raise Refused(409, "RowOffsetConflict")
        return WriteRowsAnswer(row_offset=len(rows))

    # -- blobs --------------------------------------------------------------------------------

    def _body(self, seen: Seen) -> bytes:
        coding = content_coding(seen.headers)
        undo = decoder(Compression.NONE if coding is None else coding)
        return undo.feed(seen.body) + undo.feed_eof()

    def _WriteBlob(self, request, seen):
        data = self._body(seen)
        self.blobs.append((data, None, None))
        return WriteBlobAnswer(
            references=(self.reference(len(self.blobs) - 1),),
            size=len(data),
            md5=hashlib.md5(data).hexdigest(),
        )

    def _WriteBlobBatch(self, request, seen):
        frames = FrameDecoder(None)
        first, data, start = len(self.blobs), b"", None
        for event in frames.feed(self._body(seen)) + frames.feed_eof():
            if isinstance(event, BlobStart):
                start, data = event, b""
                assert event.header["ColumnIndex"] == 1
                assert event.header["PartitionValues"] == ["ds=x"]
            elif isinstance(event, BlobData):
                data += event.data
            elif isinstance(event, BlobEnd):
                assert event.verified
                self.blobs.append((data, start.content_type, start.custom_file_name))
        return WriteBlobAnswer(
            references=tuple(self.reference(n) for n in range(first, len(self.blobs))),
            size=sum(len(blob) for blob, _, _ in self.blobs[first:]),
            batch=True,
        )

    @staticmethod
    def reference(n: int) -> BlobReference:
        return BlobReference.from_raw(f"ref-{n}".encode())
