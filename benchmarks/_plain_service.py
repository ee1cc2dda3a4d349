"""A minimal Storage API service: it sends prepared bytes and discards received ones.

It runs in a separate process and shows the cost of a client with a service that costs almost
nothing. It checks no signature and stores nothing. `running` starts it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa

from odps_nb.client.read.session import plan_ranges
from odps_nb.schema import TableSchema
from odps_nb.terms import RowRangeSplit, SplitMode, TableName
from odps_nb.wire import calls
from odps_nb.wire.blocks import encode_blocks
from odps_nb.wire.control import TableInfo
from odps_nb.wire.frames import FrameHeader, encode_frame
from odps_nb.wire.schema_json import WriteSchema

BATCH_ROWS = 32_768
BLOB = b"*" * 1_000_000  # the blob that every reference resolves to


@contextlib.contextmanager
def running(
    schema: TableSchema, batches: Iterable[pa.RecordBatch], folder: Path, *, splits: int = 4
) -> Iterator[str]:
    """Prepare the responses for the rows, and serve them; yield the address.

    ``splits`` must be the number that the reader requests, because responses are prepared.
    """
    folder.mkdir()
    table = pa.Table.from_batches(batches)
    for split in plan_ranges(table.num_rows, splits):
        with pa.OSFile(str(folder / _name(split)), "wb") as file:
            part = table.slice(split.offset, split.count).combine_chunks()
            with pa.ipc.new_stream(file, part.schema) as writer:
                writer.write_table(part, max_chunksize=BATCH_ROWS)
    (folder / "about").write_bytes(pickle.dumps((schema, table.num_rows)))
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks._plain_service", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        yield f"http://127.0.0.1:{child.stdout.readline().strip()}"
    finally:
        child.terminate()
        child.wait()
        shutil.rmtree(folder)


def _name(split: RowRangeSplit) -> str:
    return f"{split.offset}-{split.count}.arrow"


@functools.cache
def blob_body(count: int) -> bytes:
    """Return the response for a number of references (two or more)."""
    header = FrameHeader(content_type="application/octet-stream")
    return encode_blocks(encode_frame(BLOB, header) * count)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder: Path
    schema: TableSchema
    rows: int
    tokens = itertools.count()

    def do_GET(self) -> None:
        """Respond to every request about tables with the one table."""
        name = TableName(project="local", table="bench")
        self._answer(*TableInfo(name=name, schema=self.schema).encode())

    def do_POST(self) -> None:
        """Respond to a call."""
        params = tuple(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        action = dict(params).get("Action")
        if action == calls.WriteRows.ACTION:
            self._swallow()
            count, offset = (int(dict(params).get(key, 0)) for key in ("Count", "RowOffset"))
            self._answer(*calls.WriteRowsAnswer(row_offset=offset + count).encode())
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = tuple(self.headers.items())
        request = calls.decode_request(
            calls.WireRequest(
                method="POST",
                path=urlsplit(self.path).path,
                params=params,
                headers=headers,
                body=body,
            )
        )
        if isinstance(request, calls.ReadRows):
            self._send_ready(request.split)
        elif isinstance(request, calls.ReadBlobs):
            self._answer(blob_body(len(request.references)), {})
        else:
            self._answer(*self._value(request).encode())

    do_PUT = do_POST

    def _value(self, request: Any) -> Any:
        if isinstance(request, calls.CreateReadSession):
            return calls.ReadSessionAnswer(
                session_id="ready",
                split_mode=SplitMode.ROW_OFFSET,
                record_count=self.rows,
                schema=self.schema,
            )
        if isinstance(request, calls.CreateWriteSession):
            return calls.WriteSessionAnswer(session_id="gone")
        if isinstance(request, (calls.CreateWriteStream, calls.GetWriteStream)):
            schema = WriteSchema.of(self.schema)
            return calls.WriteStreamAnswer(schema=schema, access_token=f"t{next(self.tokens)}")
        return calls.EmptyAnswer()

    def _send_ready(self, split: RowRangeSplit) -> None:
        path = self.folder / _name(split)
        self.send_response(200)
        self.send_header("Content-Length", str(path.stat().st_size))
        self.end_headers()
        self.wfile.flush()
        with path.open("rb") as file:
            self.connection.sendfile(file)

    def _swallow(self) -> None:
        """Read a chunked body and discard it."""
        buffer = memoryview(bytearray(1 << 20))
        while size := int(self.rfile.readline().split(b";")[0], 16):
            while size:
                size -= self.rfile.readinto(buffer[:size])
            self.rfile.readline()
        self.rfile.readline()

    def _answer(self, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def main() -> None:
    """Serve a folder that `running` created until the parent ends."""
    folder = Path(sys.argv[1])
    _Handler.folder = folder
    # written by the parent process
    _Handler.schema, _Handler.rows = pickle.loads((folder / "about").read_bytes())  # noqa: S301
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.handle_error = lambda *_: None  # ignore clients that disconnect
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
