"""Feeds damaged Arrow streams to everything that takes one, in processes that may die.

``.venv/bin/python fuzz/mutate_streams.py --count 20000 --seed 1``. Seeds are whole streams of all
types and compressions; an input is one of them after a few mutations, the same for the same seed
and number. The invariant: a reader gives rows, all of whose values can be looked at, or one of our
errors. A signal, another error, or memory beyond the limit is a finding: its input is left in
``build/fuzz/``, and the run fails. Bodies travel over a socket to the readers that take an answer.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import http.server
import random
import resource
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from struct import pack, pack_into
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.client.read.arrow_body import RowStream
from odps_nb.client.read.stream_schema import find_columns
from odps_nb.convert.pandas_frame import to_pandas
from odps_nb.convert.references import present_batch
from odps_nb.errors import InvalidRequestError, ProtocolError
from odps_nb.http.transport import HttpRequest, RequestsTransport
from odps_nb.local.routes.tunnel_arrow import decode_arrow
from odps_nb.local.writing.coerce import coerce_batch, match_columns
from odps_nb.local.writing.ingest import read_body
from odps_nb.schema import TableSchema
from odps_nb.stream_io import ArrowReader, StreamReader
from odps_nb.wire._ipc_message import parse_message
from odps_nb.wire.arrow_stream import END_MARKER, EndMarkerCheck
from odps_nb.wire.codings import encoder
from odps_nb.wire.crc32c import crc32c
from odps_nb.wire.type_text import parse_columns

WORK = Path(__file__).parent.parent / "build" / "fuzz"
CHILD_INPUTS = 2000
MEMORY = 3 << 30
"""Bytes of address space that a child gets on top of what it has after its imports."""
CHILD_SECONDS = 600
BODY = 1 << 20
HOSTILE = (0, 1, -1, 2, 7, 255, 1 << 20, (1 << 31) - 1, -(1 << 31), (1 << 40), (1 << 63) - 1)

COLUMNS = parse_columns(
    "i bigint, j int, b boolean, f double, s string, v varchar(40), raw binary, d date, "
    "dt datetime, ts timestamp, ntz timestamp_ntz, dec decimal(10,2), wide decimal(50,5), "
    "photo blob, tags array<string>, m map<string,bigint>, r struct<a:bigint,b:string>, "
    "deep array<map<string,array<struct<x:decimal(10,2),y:array<string>>>>>"
)


def _python_rows(count: int) -> list[dict[str, Any]]:
    moment = datetime.datetime(2024, 2, 29, 12, 30, 1, 1000)
    rows = []
    for n in range(count):
        inner = {"x": None, "y": [None, f"ü{n}"]}
        rows.append(
            {
                "i": n, "j": -n, "b": n % 2 == 0, "f": n / 3, "s": f"text {n}" * (n % 4),
                "v": "é" * (n % 5), "raw": bytes([n, 255]), "d": moment.date(), "dt": moment,
                "ts": moment, "ntz": moment, "dec": None, "wide": None, "photo": b"cmVm",
                "tags": [f"t{k}" for k in range(n % 3)], "m": [(f"k{n}", n)],
                "r": {"a": n, "b": "x" * n}, "deep": [[("k", [inner] * (n % 2))]],
            }
        )  # fmt: skip
        if n % 5 == 3:
            rows[-1] = dict.fromkeys(rows[-1])
    return rows


def _session_batch(count: int) -> pa.RecordBatch:
    from odps_nb.convert.arrow_schema import arrow_schema

    schema = arrow_schema(COLUMNS, for_write=True)
    return pa.RecordBatch.from_pylist(_python_rows(count), schema=schema)


def _exotic_batch(shift: int) -> pa.RecordBatch:
    """What only readers that know no session take: layouts that Arrow has and services do not."""
    texts = pa.array(["aa", None, "bb", "aa", f"only {shift}"])
    entries = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.int64())])
    return pa.record_batch(
        {
            "dictionary": texts.dictionary_encode(),
            "view": texts.cast(pa.string_view()),
            "runs": pa.RunEndEncodedArray.from_arrays([2, 5], ["x", "y"]),
            "nothing": pa.nulls(5),
            "large": texts.cast(pa.large_string()),
            "lists": pa.array([[1], None, [2, 3], [], [4]], pa.large_list(pa.int16())),
            "views": pa.array([[1], None, [2, 3], [], [4]], pa.list_view(pa.int16())),
            "fixed": pa.array([[1, 2]] * 5, pa.list_(pa.int8(), 2)),
            "seconds": pa.array([1, 2, None, 4, 5], pa.time32("s")),
            "span": pa.array([1, 2, None, 4, 5], pa.duration("us")),
            "either": pa.UnionArray.from_sparse(
                pa.array([0, 1, 0, 1, 0], pa.int8()), [pa.array(range(5)), texts]
            ),
            "dense": pa.UnionArray.from_dense(
                pa.array([0, 1, 0, 1, 0], pa.int8()),
                pa.array([0, 0, 1, 1, 2], pa.int32()),
                [pa.array(range(5)), texts],
            ),
            "pairs": pa.array([[{"key": "k", "value": 1}]] * 5, pa.list_(entries)),
            "nested": pa.array([{"d": "x"}] * 5, pa.struct([("d", pa.string())])),
            "json": pa.array(["{}"] * 5, pa.json_()) if hasattr(pa, "json_") else texts,
        }
    )


def _ipc(batches: Sequence[pa.RecordBatch], compression: str | None, *, deltas: bool) -> bytes:
    options = pa.ipc.IpcWriteOptions(compression=compression, emit_dictionary_deltas=deltas)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write(batch)
    return sink.getvalue().to_pybytes()


def seeds() -> list[bytes]:
    """Return whole streams, the same ones each time."""
    session = [_session_batch(13), _session_batch(0), _session_batch(4)]
    exotic = [_exotic_batch(0), _exotic_batch(1)]
    return [
        _ipc(batches, compression, deltas=True)
        for batches in (session, session[:1], exotic)
        for compression in (None, "zstd", "lz4")
    ]


# -- mutations ----------------------------------------------------------------------------------


def messages(stream: bytes) -> list[tuple[int, int, int]]:
    """Return where messages begin, where their bodies begin, and where they end."""
    found, at = [], 0
    while stream[at : at + 8] != END_MARKER:
        size = int.from_bytes(stream[at + 4 : at + 8], "little")
        body = at + 8 + size
        end = body + parse_message(stream[at + 8 : body]).body_length
        found.append((at, body, end))
        at = end
    return found


class Mutator:
    """Makes inputs; one of a number is always the same."""

    def __init__(self, seed: int) -> None:
        self._seed, self._seeds = seed, seeds()
        self._parts = [messages(stream) for stream in self._seeds]

    def make(self, number: int) -> bytes:
        """Return the input of a number; the first ones are the whole streams themselves."""
        if number < len(self._seeds):
            return self._seeds[number]
        choose = random.Random(f"{self._seed}:{number}")
        index = choose.randrange(len(self._seeds))
        data = bytearray(self._seeds[index])
        for _ in range(choose.choice((1, 1, 1, 2, 3, 6))):
            kind = choose.choice(self._KINDS)
            data = bytearray(kind(self, data, self._parts[index], choose)) or bytearray(4)
        return bytes(data)

    def _place(self, data: bytearray, parts: list[tuple[int, int, int]], choose: Any) -> int:
        """Choose a byte: as often of metadata as of bodies, which are longer."""
        start, body, end = choose.choice(parts)
        low, high = (start, body) if choose.random() < 0.6 or body == end else (body, end)
        return min(choose.randrange(low, high), len(data) - 1)

    def _flip(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        data[self._place(data, parts, choose)] ^= 1 << choose.randrange(8)
        return data

    def _number(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        """Put a hostile number in the place of another, where numbers are."""
        size = choose.choice((4, 8))
        at = self._place(data, parts, choose) // size * size
        if at + size <= len(data):
            old = int.from_bytes(data[at : at + size], "little", signed=True)
            value = choose.choice((*HOSTILE, old + 1, old - 1, -old, old * 2, len(data)))
            pack_into("<q" if size == 8 else "<I", data, at, _fitted(value, size))
        return data

    def _cut(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        at = choose.randrange(len(data))
        return data[:at] + (END_MARKER if choose.random() < 0.5 else b"")

    def _remove(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        at = self._place(data, parts, choose)
        del data[at : at + choose.choice((1, 4, 8, 16))]
        return data

    def _insert(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        at = self._place(data, parts, choose)
        data[at:at] = choose.randbytes(choose.choice((1, 4, 8)))
        return data

    def _splice(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        """Put a message of any stream in front of one of this: a batch of another schema."""
        other = choose.randrange(len(self._seeds))
        start, _, end = choose.choice(self._parts[other])
        at = choose.choice(parts)[0]
        return data[:at] + self._seeds[other][start:end] + data[at:]

    def _swap_schema(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        """Let the batches of a stream come under the schema of another."""
        other = choose.randrange(len(self._seeds))
        end = self._parts[other][0][2]
        return self._seeds[other][:end] + data[parts[0][2] :]

    def _repeat(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        start, _, end = choose.choice(parts)
        return data[:end] + data[start:end] * choose.choice((1, 2, 50)) + data[end:]

    def _drop(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        start, _, end = choose.choice(parts)
        return data[:start] + data[end:]

    def _promise(self, data: bytearray, parts: Any, choose: Any) -> bytearray:
        """Let the first bytes of a buffer promise another size of it."""
        start, body, end = choose.choice(parts)
        if body == end or end > len(data):
            return data
        try:
            promises = parse_message(bytes(data[start + 8 : body])).promises
        except ProtocolError:
            return data
        if promises:
            at = body + choose.choice(promises)
            value = choose.choice((*HOSTILE, 1 << 28, 1 << 33))
            if at + 8 <= len(data):
                pack_into("<q", data, at, value)
        return data

    _KINDS = (
        *(_flip, _flip, _flip, _number, _number, _number, _number, _cut, _remove, _insert),
        *(_splice, _swap_schema, _repeat, _drop, _promise),
    )


def _fitted(value: int, size: int) -> int:
    return value & 0xFFFFFFFF if size == 4 else max(-(1 << 63), min((1 << 63) - 1, value))


# -- readers ------------------------------------------------------------------------------------


class Bodies:
    """A server on loopback that answers with the body it was given last."""

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
                """Say nothing."""

        self.body = b""
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._url = f"http://127.0.0.1:{self._server.server_port}/"
        self._transport = RequestsTransport()

    def answer(self, body: bytes) -> Any:
        """Return the answer with this body, over a real connection."""
        self.body = body
        return self._transport.send(HttpRequest(method="GET", url=self._url, read_timeout=30.0))


class Readers:
    """Everything that takes an Arrow stream from outside."""

    def __init__(self, folder: Path) -> None:
        self._bodies, self._file = Bodies(), folder / "body"
        self._schema = TableSchema(columns=COLUMNS)
        self._columns = tuple(COLUMNS)

    def row_stream(self, data: bytes) -> None:
        """Rows of a split, preview or query, of which no schema is known."""
        with RowStream(self._bodies.answer(data)) as stream:
            for batch in iter(stream.next, None):
                look(batch)

    def session_rows(self, data: bytes) -> None:
        """The same held against the schema of its session, as an analyst gets them."""
        with RowStream(self._bodies.answer(data)) as stream:
            places = find_columns(stream.schema, self._columns)
            for batch in iter(stream.next, None):
                shown = present_batch(batch.select(list(places)), self._schema)
                look(shown)
                to_pandas([shown], schema=shown.schema)

    def coded_rows(self, data: bytes) -> None:
        """The same inside of a content coding."""
        coder = encoder("zstd")
        self.row_stream(coder.feed(data) + coder.finish())

    def arrow_reader(self, data: bytes) -> None:
        """The public reader."""
        with ArrowReader(StreamReader(self._bodies.answer(data))) as reader:
            for batch in reader:
                look(batch)

    def end_marker(self, data: bytes) -> None:
        """The check alone, cut into pieces."""
        check = EndMarkerCheck()
        for at in range(0, len(data), 61):
            check.feed(data[at : at + 61])
        check.require()

    def uploaded(self, data: bytes) -> None:
        """What somebody writes to the embedded service."""
        self._file.write_bytes(data)
        matches = None
        for batch in read_body(self._file):
            matches = matches or match_columns(batch.schema, self._columns)
            look(coerce_batch(batch, self._columns, matches, blobs=lambda array: array))

    def tunnelled(self, data: bytes) -> None:
        """What somebody writes through the tunnel: batches only, under the table's schema."""
        first = next(iter(messages_or_none(data)), None)
        rows = data if first is None else data[first[2] :]
        rows = rows.removesuffix(END_MARKER)
        body = pack(">I", 1 << 20) + rows + pack(">I", crc32c(rows))
        for batch in decode_arrow(_session_batch(0).schema, memoryview(body)):
            look(batch)

    def all(self) -> list[Callable[[bytes], None]]:
        """Return each."""
        return [
            *(self.row_stream, self.session_rows, self.coded_rows, self.arrow_reader),
            *(self.end_marker, self.uploaded, self.tunnelled),
        ]


def messages_or_none(data: bytes) -> list[tuple[int, int, int]]:
    """Return the first message, if it is one."""
    try:
        size = int.from_bytes(data[4:8], "little")
        end = 8 + size + parse_message(data[8 : 8 + size]).body_length
    except ProtocolError:
        return []
    return [(0, 8 + size, end)] if end <= len(data) else []


def look(batch: pa.RecordBatch) -> None:
    """Look at every value as Python, pandas and text do."""
    for column in batch.columns:
        repr(column)
        for value in column:
            try:
                value.as_py()
            except (OverflowError, ValueError):
                # Arrow's times go on where Python's end; their bits are values like any other.
                if not has_times(column.type):
                    raise
    with contextlib.suppress(*_PANDAS_LACKS):
        batch.to_pandas()


# Layouts, times and repeated names of which pandas has no form.
_PANDAS_LACKS = (pa.ArrowException, OverflowError, ValueError, TypeError, KeyError)


def has_times(kind: pa.DataType) -> bool:
    """Whether a time hides in the type; Python's end with the year 9999."""
    if isinstance(kind, pa.BaseExtensionType):
        return has_times(kind.storage_type)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return has_times(kind.value_type)
    if pt.is_nested(kind):
        return any(has_times(kind.field(n).type) for n in range(kind.num_fields))
    return bool(pt.is_temporal(kind))


# -- children -----------------------------------------------------------------------------------


def child(seed: int, start: int, stop: int) -> None:
    """Try the inputs of some numbers; say each number before, and what became of it after."""
    WORK.mkdir(parents=True, exist_ok=True)
    folder = WORK / f"streams-{seed}-{start}"
    folder.mkdir(exist_ok=True)
    mutator, readers = Mutator(seed), Readers(folder).all()
    for reader in readers:  # whatever is imported when it is used
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
            except (ProtocolError, InvalidRequestError) as error:
                print(type(error).__name__, flush=True)
            except BaseException as error:  # noqa: BLE001 - any other is what is looked for
                print(f"! {type(error).__name__}: {' '.join(str(error).split())[:200]}", flush=True)
            else:
                print("rows", flush=True)
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}", flush=True)


class Tally:
    """What became of all inputs."""

    def __init__(self, seed: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self.findings: list[str] = []
        self.peak = 0
        self._seed = seed

    def run(self, start: int, stop: int) -> None:
        """Try inputs in children, a new one after each that died."""
        while start < stop:
            end = min(stop, start + CHILD_INPUTS)
            command = [sys.executable, __file__, "--child", *map(str, (self._seed, start, end))]
            done = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_SECONDS)
            lines = done.stdout.splitlines()
            for line in lines:
                self._take(line)
            if done.returncode == 0:
                start = end
                continue
            died = lines[-1] if lines and lines[-1].split()[0].isdigit() else f"{start} start"
            number = int(died.split()[0])
            self._found(number, f"exit {done.returncode} in {died}: {done.stderr[-300:]}")
            start = number + 1

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
        """Tell it, for people."""
        for what, count in sorted(self.outcomes.items()):
            yield f"{what:42} {count:>8}"
        yield f"peak of a child: {self.peak} MiB"
        yield from (f"FOUND {finding}" for finding in self.findings[:20])


def main() -> int:
    """Run from the command line."""
    if sys.argv[1:2] == ["--child"]:
        child(*map(int, sys.argv[2:5]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=2000, help="inputs, each to every reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    options = parser.parse_args()
    tally = Tally(options.seed)
    tally.run(options.first, options.first + options.count)
    print("\n".join(tally.lines()))
    print(f"{options.count} inputs, {len(tally.findings)} findings")
    return min(1, len(tally.findings))


if __name__ == "__main__":
    sys.exit(main())
