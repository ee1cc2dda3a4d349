"""Many concurrent clients of one service: 64 connections read, 16 write, and no error is accepted.

``python -m benchmarks.bench_load [SECONDS]``. Every client has its own connection and does not
retry, so that every error of the service is detected. Readers read splits, filtered rows and blobs
and check the data; each writer overwrites its own table, including a blob, and reads it back. The
resident memory of the service is sampled during the run and must not grow. Clients and service
share the machine's cores, so the figures include the work of both. Linux only.
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import requests

from benchmarks._measure import header, judged, summary
from odps_nb.local.server.launch import LocalService, start
from odps_nb.terms import BlobReference, IndexSplit, RowRangeSplit, Split, SplitMode, TableName
from odps_nb.wire import calls, control
from odps_nb.wire.frames import BlobData
from odps_nb.wire.layers import BlobBodyDecoder
from odps_nb.wire.signing import Credentials, sign

READERS, WRITERS = 64, 16
SECONDS = 20.0
SAMPLE_EVERY = 0.25
WARM_UP = 0.2  # the initial share of the run in which memory is not compared
GROWTH = 1.15  # maximum ratio of the memory at the end to that in the middle
SLACK = 48 << 20  # additional tolerance in bytes for allocators
MIB = 1 << 20
ROWS = pa.table({"id": pa.array(range(20_000)), "note": [f"note {i:060d}" for i in range(20_000)]})
SOME = ROWS.slice(0, 2_000)
BLOB = bytes(range(256)) * 1024


@dataclass
class Client:
    """One connection; counts requests and bytes."""

    service: LocalService
    session: requests.Session = field(default_factory=requests.Session)
    requests: int = 0
    bytes: int = 0

    def send(self, wire: calls.WireRequest, body: bytes | None = None) -> requests.Response:
        """Send a request and return the complete response; raise errors of the service."""
        service, data = self.service, wire.body if body is None else body
        rest = not wire.path.startswith("/api/")
        endpoint = service.endpoint if rest else service.tunnel_endpoint
        credentials = Credentials(access_id=service.access_id, access_key=service.access_key)
        url, headers = wire.url(endpoint), {**dict(wire.headers), "Accept-Encoding": "identity"}
        headers |= sign(
            wire.method, url, headers, endpoint=endpoint, credentials=credentials, now=time.time()
        )
        response = self.session.request(wire.method, url, headers=headers, data=data, timeout=60)
        self.requests += 1
        self.bytes += len(data or b"") + len(response.content)
        if response.status_code >= 300:
            raise calls.decode_error(response.status_code, dict(response.headers), response.content)
        return response

    def call(self, request: Any, body: bytes | None = None) -> Any:
        """Send a request value; return the response value."""
        response = self.send(request.encode(2), body)
        return request.decode_answer(response.content, dict(response.headers))

    def sql(self, text: str) -> None:
        """Run a statement to its end."""
        submit = control.SubmitSql(
            project=self.service.project, sql=text, settings=control.BLOB_TABLE_SETTINGS
        )
        response = self.send(submit.encode())
        instance = submit.decode_answer(response.content, dict(response.headers)).instance_id
        status = control.GetTaskStatus(project=self.service.project, instance_id=instance)
        while True:
            answer = self.send(status.encode())
            found = status.decode_answer(answer.content, dict(answer.headers))
            if found.is_over:
                break
            time.sleep(0.02)
        require(found.tasks[0].status, "Success")

    def table(self, name: str) -> TableName:
        """Return the full name."""
        return TableName(project=self.service.project, table=name)

    def rows(self, name: str, **options: Any) -> pa.Table:
        """Read a table as one split."""
        request = calls.CreateReadSession(table=self.table(name), **options)
        session = self.call(request)
        split: Split = IndexSplit(0)
        if request.split_mode is SplitMode.ROW_OFFSET:
            split = RowRangeSplit(0, session.record_count or 0)
        read = calls.ReadRows(table=self.table(name), session_id=session.session_id, split=split)
        return pa.ipc.open_stream(self.send(read.encode(2)).content).read_all()

    def blob(self, reference: BlobReference) -> bytes:
        """Read a blob, verified."""
        response = self.send(calls.ReadBlobs(references=(reference,)).encode(2))
        decoder = BlobBodyDecoder(response.headers.get("Content-Encoding"), 1)
        events = [*decoder.feed(response.content), *decoder.feed_eof()]
        return b"".join(bytes(e.data) for e in events if isinstance(e, BlobData))

    def overwrite(self, name: str, rows: pa.Table) -> BlobReference:
        """Replace the rows of a table, with a new blob in each; return its reference."""
        table = self.table(name)
        made = calls.CreateWriteSession(table=table, overwrite=True)
        lane = {
            "table": table,
            "session_id": self.call(made).session_id,
            "stream_id": "0",
            "stream_version": 1,
        }
        self.call(calls.CreateWriteStream(**lane, exactly_once=False))
        reference = self.call(calls.WriteBlob(**lane, column_id=3), BLOB).references[0]
        column = pa.array([reference.raw] * rows.num_rows, pa.binary())
        body = ipc_bytes(rows.append_column("content", column))
        self.call(calls.WriteRows(**lane, count=rows.num_rows), body)
        self.call(calls.CloseWriteStream(**lane))
        self.call(
            calls.CommitWriteSession(
                table=table, session_id=lane["session_id"], streams=(("0", 1),)
            )
        )
        return reference


def ipc_bytes(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def require(found: object, expected: object) -> None:
    """Stop this client unless both values are equal."""
    if found != expected:
        raise AssertionError(f"found {str(found)[:100]}, expected {str(expected)[:100]}")


# -- work of the clients --------------------------------------------------------------------------


def read_once(client: Client, turn: int, blob: BlobReference) -> None:
    """Do one read, whose kind depends on the turn."""
    if turn % 4 == 0:
        kept = client.rows("shared", filter_predicate="id % 10 = 3")
        require(kept.column("id").to_pylist(), list(range(3, 20_000, 10)))
    elif turn % 4 == 1:
        require(client.blob(blob) == BLOB, True)
    else:
        require(client.rows("shared").equals(ROWS), True)


def write_once(client: Client, turn: int, name: str) -> None:
    """Replace the rows of this client's table and read them back."""
    rows = SOME.slice(0, 1_000 + turn % 1_000)
    reference = client.overwrite(name, rows)
    found = client.rows(name, split_mode=SplitMode.ROW_OFFSET)  # needed for BLOB columns
    require(found.select(["id", "note"]).equals(rows), True)
    require(client.blob(reference) == BLOB, True)
    if turn % 32 == 31:
        client.sql(f"SELECT count(*) FROM {name};")


class Load:
    """Runs clients until the time is over or one of them fails."""

    def __init__(self, service: LocalService, seconds: float) -> None:
        self.service, self.seconds = service, seconds
        self.clients: dict[str, list[Client]] = {"read": [], "write": []}
        self.errors: list[str] = []
        self._end = threading.Event()

    def run(self, blob: BlobReference) -> list[int]:
        """Run all clients; return the samples of the service's memory."""
        threads = [
            *(
                self._thread("read", lambda c, turn: read_once(c, turn, blob))
                for _ in range(READERS)
            ),
            *(
                self._thread("write", lambda c, turn, i=i: write_once(c, turn, f"own_{i}"))
                for i in range(WRITERS)
            ),
        ]
        samples, began = [], time.monotonic()
        for thread in threads:
            thread.start()
        while time.monotonic() - began < self.seconds and not self._end.wait(SAMPLE_EVERY):
            samples.append(resident(self.service.pid))
        self._end.set()
        for thread in threads:
            thread.join()
        self.seconds = time.monotonic() - began
        return samples

    def _thread(self, kind: str, work: Callable[[Client, int], None]) -> threading.Thread:
        client = Client(self.service)
        self.clients[kind].append(client)

        def repeat() -> None:
            turn = len(self.clients["read"])
            try:
                while not self._end.is_set():
                    work(client, turn)
                    turn += 1
            except Exception:  # noqa: BLE001 - this run must detect any failure
                self.errors.append(traceback.format_exc(limit=4))
                self._end.set()
            finally:
                client.session.close()

        return threading.Thread(target=repeat)


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * 4096


# -- the run ----------------------------------------------------------------------------------


def bench(seconds: float) -> int:
    """Run the load once; return the number of errors."""
    header(f"{READERS} connections read, {WRITERS} write, for {seconds:g} s")
    # filtered exactly, so that the resulting rows are known
    with start(samples=False, options=("--filter-block-rows", "1")) as service:
        maker = Client(service)
        maker.sql("CREATE TABLE shared (id bigint, note string);")
        listed = ", ".join(f"'{k}'='{v}'" for k, v in control.BLOB_TABLE_PROPERTIES.items())
        definition = f"(id bigint, note string, content blob) TBLPROPERTIES ({listed})"
        for name in ["blobs", *(f"own_{i}" for i in range(WRITERS))]:
            maker.sql(f"CREATE TABLE {name} {definition};")
        blob = maker.overwrite("blobs", SOME)
        fill(maker)
        load = Load(service, seconds)
        samples = load.run(blob)
        show(load, samples)
        return len(load.errors)


def fill(client: Client) -> None:
    """Write the rows of the shared table."""
    table = client.table("shared")
    session = client.call(calls.CreateWriteSession(table=table)).session_id
    lane = {"table": table, "session_id": session, "stream_id": "0", "stream_version": 1}
    client.call(calls.CreateWriteStream(**lane, exactly_once=False))
    client.call(calls.WriteRows(**lane, count=ROWS.num_rows), ipc_bytes(ROWS))
    client.call(calls.CloseWriteStream(**lane))
    client.call(calls.CommitWriteSession(table=table, session_id=session, streams=(("0", 1),)))


def show(load: Load, samples: list[int]) -> None:
    """Print the work per second, and the memory of the service."""
    for kind, clients in load.clients.items():
        sent, moved = sum(c.requests for c in clients), sum(c.bytes for c in clients)
        print(
            f"  {kind:<8}{len(clients):4} connections {sent / load.seconds:10,.0f} requests/s"
            f" {moved / load.seconds / 1e6:10.1f} MB/s"
        )
    warm = samples[int(len(samples) * WARM_UP) :]
    third = max(1, len(warm) // 3)
    parts = [warm[:third], warm[third : 2 * third], warm[2 * third :] or warm[-1:]]
    first, middle, last = (statistics.median(part) for part in parts)
    text = " → ".join(f"{value / MIB:.0f}" for value in (first, middle, last))
    met = judged(f"memory of the service: {text} MiB", last <= middle * GROWTH + SLACK)
    print(f"  memory of the service {text} MiB (peak {max(samples) / MIB:.0f})   {met} (flat)")
    print(f"  {len(load.errors)} errors in {load.seconds:.0f} s")
    for error in load.errors[:3]:
        print(error)


def main() -> int:
    """Run the benchmark; the exit status is 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=SECONDS)
    errors = bench(parser.parse_args().seconds)
    summary()
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
