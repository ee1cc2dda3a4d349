"""A service with one table of any size, whose rows are generated while they are sent.

The memory benchmarks use it. `running` starts it in a separate process. It keeps one batch in
memory, however large the table is, and checks no signatures. The column ``id`` numbers the rows, so
a lost, duplicated or moved row is detected; the other columns repeat every `BATCH_ROWS` rows.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pyarrow as pa

from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import RowRangeSplit, SplitMode, TableName
from odps_nb.wire import calls
from odps_nb.wire.arrow_stream import END_MARKER
from odps_nb.wire.control import TableInfo, TenantInfo

BATCH_ROWS = 32_768
PROJECT, TABLE = "made", "rows"
_STATES = ("new", "paid", "sent", "returned")
_COLUMNS = (
    ("id", TypeCode.BIGINT),
    ("amount", TypeCode.DOUBLE),
    ("quantity", TypeCode.INT),
    ("created", TypeCode.DATETIME),
    ("status", TypeCode.STRING),
    ("note", TypeCode.STRING),
)
SCHEMA = TableSchema(
    columns=tuple(Column(name=name, type=PrimitiveType(code)) for name, code in _COLUMNS)
)


def _template() -> pa.RecordBatch:
    chance = np.random.default_rng(1)
    ids = chance.integers(0, 2**62, BATCH_ROWS)  # random, so that their position can be found
    columns = {
        "id": pa.array(ids),
        "amount": pa.array(chance.random(BATCH_ROWS)),
        "quantity": pa.array(chance.integers(0, 100, BATCH_ROWS, dtype=np.int32)),
        "created": pa.array(chance.integers(0, 2**40, BATCH_ROWS), pa.timestamp("ms")),
        "status": pa.array([_STATES[n % 4] for n in range(BATCH_ROWS)]),
        "note": pa.array([f"a note of some length, number {n:08}" for n in range(BATCH_ROWS)]),
    }
    return pa.record_batch(columns)


TEMPLATE = _template()
ROW_BYTES = TEMPLATE.nbytes / BATCH_ROWS


class Maker:
    """Generates the messages of a range of rows, one at a time."""

    def __init__(self) -> None:
        self._whole = bytearray(TEMPLATE.serialize())
        self._ids_at = self._whole.find(TEMPLATE.column("id").buffers()[1].to_pybytes())

    def messages(self, split: RowRangeSplit, max_rows: int) -> Iterator[bytes | bytearray]:
        """Yield one message per batch; the next one may overwrite it."""
        row, end = split.offset, split.offset + split.count
        while row < end:
            start = row % BATCH_ROWS
            count = min(max_rows, BATCH_ROWS - start, end - row)
            ids = np.arange(row, row + count)
            if count == BATCH_ROWS:
                place = slice(self._ids_at, self._ids_at + ids.nbytes)
                self._whole[place] = ids.tobytes()
                yield self._whole
            else:
                part = TEMPLATE.slice(start, count)
                yield part.set_column(0, "id", pa.array(ids)).serialize().to_pybytes()
            row += count


@contextlib.contextmanager
def running(rows: int) -> Iterator[str]:
    """Serve a table with a number of rows; yield the address."""
    command = [sys.executable, "-m", "benchmarks._made_rows", str(rows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield f"http://127.0.0.1:{child.stdout.readline().strip()}"
        finally:
            child.terminate()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    rows: int

    def do_GET(self) -> None:
        if "/tenants" in self.path:  # pyodps sends this request first
            self._answer(*TenantInfo().encode())
            return
        if "/tunnel" in self.path:
            self._answer(self.headers["Host"].encode(), {})
            return
        name = TableName(project=PROJECT, table=TABLE)
        self._answer(*TableInfo(name=name, schema=SCHEMA).encode())

    def do_POST(self) -> None:
        url = urlsplit(self.path)
        request = calls.decode_request(
            calls.WireRequest(
                method="POST",
                path=url.path,
                params=tuple(parse_qsl(url.query, keep_blank_values=True)),
                headers=tuple(self.headers.items()),
                body=self.rfile.read(int(self.headers.get("Content-Length", 0))),
            )
        )
        if isinstance(request, calls.ReadRows):
            self._send_rows(request)
            return
        if isinstance(request, calls.Preview):
            first = RowRangeSplit(0, min(self.rows, request.limit or self.rows))
            self._send_rows(calls.ReadRows(table=request.table, session_id="made", split=first))
            return
        answer = calls.ReadSessionAnswer(
            session_id="made",
            split_mode=SplitMode.ROW_OFFSET,
            record_count=self.rows,
            schema=SCHEMA,
            estimated_size=int(self.rows * ROW_BYTES),
        )
        self._answer(*answer.encode())

    def _send_rows(self, request: calls.ReadRows) -> None:
        most = request.max_batch_rows
        if request.max_batch_raw_size:
            most = max(1, min(most, int(request.max_batch_raw_size / ROW_BYTES)))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # a client that has read enough disconnects
            self._chunk(TEMPLATE.schema.serialize().to_pybytes())
            for message in Maker().messages(request.split, most):
                self._chunk(message)
            self._chunk(END_MARKER)
            self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes | bytearray) -> None:
        self.wfile.write(b"%x\r\n" % len(data))
        self.wfile.write(data)
        self.wfile.write(b"\r\n")

    def _answer(self, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):  # clients may disconnect early
            super().handle_error(request, client_address)


def main() -> None:
    """Serve until the parent ends the process."""
    _Handler.rows = int(sys.argv[1])
    server = _Server(("127.0.0.1", 0), _Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
