"""Feed damaged Arrow streams to every reader, in child processes that may crash.

``.venv/bin/python fuzz/mutate_streams.py --count 20000 --seed 1``. The seeds are valid streams with
all types and compressions. An input is a seed after a few mutations and depends only on the seed
and its number. The invariant: a reader returns rows, all of whose values can be read, or raises a
typed error. After a signal, another error, or excessive memory use, the input is saved in
``build/fuzz/`` and the run fails. Readers of responses receive the bodies over a socket.
"""

from __future__ import annotations

import contextlib
import http.server
import resource
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import pack
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
from budget import Budget, read
from stream_damage import COLUMNS, Mutator, session_batch

from odps_nb.arrow.text import as_bytes
from odps_nb.client.read.arrow_body import RowStream
from odps_nb.client.read.stream_schema import find_columns
from odps_nb.convert.pandas_frame import to_pandas
from odps_nb.convert.references import present_batch
from odps_nb.errors import ConversionError, InvalidRequestError, ProtocolError
from odps_nb.http.transport import HttpRequest, RequestsTransport
from odps_nb.local.routes.tunnel_arrow import decode_arrow
from odps_nb.local.writing.coerce import coerce_batch, match_columns
from odps_nb.local.writing.ingest import read_body
from odps_nb.schema import TableSchema
from odps_nb.stream_io import ArrowReader, StreamReader
from odps_nb.terms import TextMode
from odps_nb.wire._ipc_message import parse_message
from odps_nb.wire.arrow_stream import END_MARKER, EndMarkerCheck
from odps_nb.wire.codings import encoder
from odps_nb.wire.crc32c import crc32c

WORK = Path(__file__).parent.parent / "build" / "fuzz"
CHILD_INPUTS = 500
MEMORY = 3 << 30
"""Bytes of address space that a child may use in addition to the space used by its imports."""
CHILD_SECONDS = 600
BODY = 1 << 20
HOSTILE = (0, 1, -1, 2, 7, 255, 1 << 20, (1 << 31) - 1, -(1 << 31), (1 << 40), (1 << 63) - 1)


# -- readers ------------------------------------------------------------------------------------


class Bodies:
    """A server on loopback that responds with the most recently assigned body."""

    def __init__(self) -> None:
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(owner.body)))
                self.end_headers()
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(owner.body)

            def log_message(self, *_: object) -> None:
                """Do not log."""

        self.body = b""
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._url = f"http://127.0.0.1:{self._server.server_port}/"
        self._transport = RequestsTransport()

    def answer(self, body: bytes) -> Any:
        """Return the response with this body, received over a real connection."""
        self.body = body
        return self._transport.send(HttpRequest(method="GET", url=self._url, read_timeout=30.0))


class Readers:
    """All functions that accept untrusted Arrow streams."""

    def __init__(self, folder: Path) -> None:
        self._bodies, self._file = Bodies(), folder / "body"
        self._schema = TableSchema(columns=COLUMNS)
        self._columns = tuple(COLUMNS)

    def row_stream(self, data: bytes) -> None:
        """Read the rows of a split, preview or query without a known schema."""
        with RowStream(self._bodies.answer(data)) as stream:
            for batch in iter(stream.next, None):
                convert_all(batch)

    def session_rows(self, data: bytes) -> None:
        """Read rows and convert them with the schema of the session, as for a user."""
        with RowStream(self._bodies.answer(data)) as stream:
            places = find_columns(stream.schema, self._columns)
            for batch in iter(stream.next, None):
                shown = present_batch(batch.select(list(places)), self._schema)
                convert_all(shown)
                to_pandas([shown], schema=shown.schema)

    def replaced_rows(self, data: bytes) -> None:
        """Read rows, with U+FFFD in place of invalid UTF-8."""
        with RowStream(self._bodies.answer(data), text=TextMode.REPLACE) as stream:
            for batch in iter(stream.next, None):
                convert_all(batch)

    def rows_as_bytes(self, data: bytes) -> None:
        """Read rows with all text as bytes."""
        with RowStream(self._bodies.answer(data), text=TextMode.BINARY) as stream:
            for batch in iter(stream.next, None):
                convert_all(batch)

    def coded_rows(self, data: bytes) -> None:
        """Read rows with a content coding."""
        coder = encoder("zstd")
        self.row_stream(coder.feed(data) + coder.finish())

    def arrow_reader(self, data: bytes) -> None:
        """Read with the public reader."""
        with ArrowReader(StreamReader(self._bodies.answer(data))) as reader:
            for batch in reader:
                convert_all(batch)

    def end_marker(self, data: bytes) -> None:
        """Feed the stream in pieces to the end marker check alone."""
        check = EndMarkerCheck()
        for at in range(0, len(data), 61):
            check.feed(data[at : at + 61])
        check.require()

    def uploaded(self, data: bytes) -> None:
        """Decode the stream as an upload to the embedded service."""
        self._file.write_bytes(data)
        matches = None
        for batch in read_body(self._file):
            matches = matches or match_columns(batch.schema, self._columns)
            stored = coerce_batch(batch, self._columns, matches, blobs=lambda array: array)
            arrays = [array.view(as_bytes(array.type)) for array in stored.columns]
            convert_all(
                pa.record_batch(arrays, names=stored.schema.names)
            )  # a STRING may have any bytes

    def tunnelled(self, data: bytes) -> None:
        """Decode the stream as a tunnel upload, which contains only batches and no schema."""
        first = next(iter(messages_or_none(data)), None)
        rows = data if first is None else data[first[2] :]
        rows = rows.removesuffix(END_MARKER)
        body = pack(">I", 1 << 20) + rows + pack(">I", crc32c(rows))
        for batch in decode_arrow(session_batch(0).schema, memoryview(body)):
            convert_all(batch)

    def all(self) -> list[Callable[[bytes], None]]:
        """Return all readers."""
        return [
            *(self.row_stream, self.session_rows, self.coded_rows, self.arrow_reader),
            *(self.replaced_rows, self.rows_as_bytes),
            *(self.end_marker, self.uploaded, self.tunnelled),
        ]


def messages_or_none(data: bytes) -> list[tuple[int, int, int]]:
    """Return the position of the first message, if it is valid."""
    try:
        size = int.from_bytes(data[4:8], "little")
        end = 8 + size + parse_message(data[8 : 8 + size]).body_length
    except ProtocolError:
        return []
    return [(0, 8 + size, end)] if end <= len(data) else []


def convert_all(batch: pa.RecordBatch) -> None:
    """Convert every value to Python, pandas and text."""
    for column in batch.columns:
        repr(column)
        for value in column:
            try:
                value.as_py()
            except (OverflowError, ValueError):
                # Arrow's times have a wider range than Python's.
                if not has_times(column.type):
                    raise
    with contextlib.suppress(*_PANDAS_LACKS):
        batch.to_pandas()


# The errors for layouts, times and duplicate names that pandas does not support.
_PANDAS_LACKS = (pa.ArrowException, OverflowError, ValueError, TypeError, KeyError)


def has_times(kind: pa.DataType) -> bool:
    """Whether the type contains a time; Python's times end in the year 9999."""
    if isinstance(kind, pa.BaseExtensionType):
        return has_times(kind.storage_type)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return has_times(kind.value_type)
    if pt.is_nested(kind):
        return any(has_times(kind.field(n).type) for n in range(kind.num_fields))
    return bool(pt.is_temporal(kind))


# -- children -----------------------------------------------------------------------------------


def child(seed: int, start: int, stop: int) -> None:
    """Run a range of inputs; print each number before its run, and the outcome after it."""
    WORK.mkdir(parents=True, exist_ok=True)
    folder = WORK / f"streams-{seed}-{start}"
    folder.mkdir(exist_ok=True)
    mutator, readers = Mutator(seed), Readers(folder).all()
    for reader in readers:  # trigger all lazy imports
        with contextlib.suppress(ProtocolError, InvalidRequestError):
            reader(mutator.make(0))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for number in range(start, stop):
        data = mutator.make(number)
        for reader in readers:
            print(f"{number} {reader.__name__} ", end="", flush=True)
            try:
                reader(data)
            except (ConversionError, ProtocolError, InvalidRequestError) as error:
                print(type(error).__name__, flush=True)
            except BaseException as error:  # noqa: BLE001 - any other error is a finding
                print(f"! {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
            else:
                print("rows", flush=True)
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}", flush=True)


class Tally:
    """The outcomes of all inputs."""

    def __init__(self, seed: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self.findings: list[str] = []
        self.peak = self.count = 0
        self._seed = seed

    def run(self, budget: Budget) -> None:
        """Run the inputs in child processes; start a new one whenever one dies."""
        while not budget.is_spent(self.count):
            start, end = self.count, budget.slice(self.count, CHILD_INPUTS)
            command = [sys.executable, __file__, "--child", *map(str, (self._seed, start, end))]
            try:
                done = subprocess.run(command, capture_output=True, timeout=CHILD_SECONDS)
                said, errors = done.stdout, done.stderr
                ended = f"exit {done.returncode}" if done.returncode else ""
            except subprocess.TimeoutExpired as late:
                said, errors = late.stdout or b"", late.stderr or b""
                ended = f"still running after {CHILD_SECONDS} s"
            lines = said.decode().splitlines()
            for line in lines:
                self._take(line)
            self.count = end
            if ended:
                died = lines[-1] if lines and lines[-1].split()[0].isdigit() else f"{start} start"
                number = int(died.split()[0])
                self._found(number, f"{ended} in {died}: {errors.decode()[-300:]}")
                self.count = number + 1

    def _take(self, line: str) -> None:
        words = line.split(maxsplit=2)
        if words[0] == "peak":
            self.peak = max(self.peak, int(words[1]))
        elif len(words) == 3 and words[2].startswith("!"):
            self._found(int(words[0]), line)
        elif len(words) == 3:
            self.outcomes[f"{words[1]}: {words[2]}"] += 1

    def _found(self, number: int, what: str) -> None:
        WORK.mkdir(parents=True, exist_ok=True)
        (WORK / f"streams-crash-{self._seed}-{number}").write_bytes(
            Mutator(self._seed).make(number)
        )
        self.findings.append(what)

    def lines(self) -> Iterator[str]:
        """Yield a readable report."""
        for what, count in sorted(self.outcomes.items()):
            yield f"{what:42} {count:>8}"
        yield f"peak memory of a child process: {self.peak} MiB"
        yield from (f"FOUND {finding}" for finding in self.findings[:20])


def main() -> int:
    """Run from the command line."""
    if sys.argv[1:2] == ["--child"]:
        child(*map(int, sys.argv[2:5]))
        return 0
    budget, seed = read(__doc__.partition("\n")[0], 2000)
    tally = Tally(seed)
    tally.run(budget)
    print("\n".join(tally.lines()))
    print(f"{tally.count} inputs, {len(tally.findings)} findings")
    return min(1, len(tally.findings))


if __name__ == "__main__":
    sys.exit(main())
