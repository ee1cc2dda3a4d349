"""Sends damaged requests to the embedded service, among right ones that keep its state alive.

``.venv/bin/python fuzz/mutate_requests.py --count 20000 --seed 1``. Jobs of our client and of the
stock pyodps run through a proxy on loopback, which sends damaged copies of each request before the
request itself. The invariant: the service answers each with a document or with rows, never with
500, and goes on. A finding is an answer of 500, none within a minute, a traceback in the log of the
service, a service that has ended, and an error of our client that is none of ours; its request is
left in ``build/fuzz/``, and the run fails.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

ROOT = Path(__file__).parent.parent
WORK = ROOT / "build" / "fuzz"
COPIES = 12  # damaged ones for each request of a job
SECONDS = 60.0
MOST_OF_A_BODY = 1 << 20
TOKEN = "a bearer token"

TEXTS = (
    *("", "0", "-1", "1", "9" * 18, "9" * 19, "9" * 400, "1e9", "null", "true", "NaN", " ", "\0"),
    *("..", "../../etc", "%", "%00", "é", "\u202e", "a" * 5000, "a=b", "a,b", "(0,1)", "(1,0)"),
    *("(0,999999999999999999)", "zstd", "Batch", "BatchCompatible", "*", "'", "`", ";", "/", "\n"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, 10**400, 0.5, 1e308),
    *("", "x", "0", "-1", "9" * 30, "\ud800", "a" * 5000, [], {}, [[]], [None], [{}], {"a": {}}),
)
HEADERS = (
    *("content-type", "content-encoding", "accept-encoding", "content-md5", "if-match", "range"),
    *("x-odps-max-storage-route-token", "x-odps-max-storage-write-access-token", "expect"),
    *("x-odps-user-agent", "user-agent", "date", "accept", "cookie"),
)
CODINGS = ("zstd", "x-lz4-frame", "deflate", "gzip", "identity", "x", "", "zstd, deflate")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request; the path begins with ``/``."""

    method: str
    path: str
    params: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    body: bytes


# -- damage -------------------------------------------------------------------------------------


def damaged(request: Request, choose: random.Random) -> Request:
    """Return a request that is almost right."""
    for _ in range(choose.choice((1, 1, 1, 2, 4))):
        ways = [_param, _param, _header, _method, _path]
        if request.body:
            ways += [_body, _body, _document, _document, _document]
        request = choose.choice(ways)(request, choose)
    return request


def _param(request: Request, choose: random.Random) -> Request:
    params = list(request.params)
    if not params or choose.random() < 0.1:
        params.append((choose.choice(("partition", "Action", "curr_schema", "x")), _text(choose)))
        return replace(request, params=tuple(params))
    at = choose.randrange(len(params))
    name, value = params[at]
    way = choose.random()
    if way < 0.15:
        del params[at]
    elif way < 0.25:
        params.insert(at, (name, _text(choose)))
    elif way < 0.35:
        params[at] = (choose.choice((name.lower(), name.upper(), _text(choose))), value)
    elif way < 0.45:
        params[at] = (name, choose.choice(params)[1])
    elif way < 0.6:
        params[at] = (name, _bent(value, choose))
    else:
        params[at] = (name, _text(choose))
    return replace(request, params=tuple(params))


def _text(choose: random.Random) -> str:
    return choose.choice(TEXTS)


def _bent(text: str, choose: random.Random) -> str:
    at = choose.randrange(len(text) + 1)
    return text[:at] + choose.choice((_text(choose), text, "")) + text[at + 1 :]


def _header(request: Request, choose: random.Random) -> Request:
    name = choose.choice(HEADERS)
    value = choose.choice(CODINGS) if "encoding" in name else _text(choose)
    kept = tuple(pair for pair in request.headers if pair[0] != name)
    value = "".join(c for c in value if " " <= c <= "~")  # what a header can carry
    return replace(request, headers=(*kept, (name, value)))


def _method(request: Request, choose: random.Random) -> Request:
    return replace(request, method=choose.choice(("GET", "POST", "PUT", "DELETE", "HEAD", "PATCH")))


def _path(request: Request, choose: random.Random) -> Request:
    parts = request.path.split("/")
    at = choose.randrange(1, len(parts)) if len(parts) > 1 else 0
    parts[at] = choose.choice((_text(choose), _bent(parts[at], choose), "tables", "instances"))
    return replace(request, path="/" + "/".join(parts).lstrip("/"))


def _body(request: Request, choose: random.Random) -> Request:
    raw = bytearray(request.body)
    at = choose.randrange(len(raw))
    way = choose.random()
    if way < 0.4:
        raw[at] ^= 1 << choose.randrange(8)
    elif way < 0.55:
        del raw[at:]
    elif way < 0.7:
        raw[at:at] = choose.randbytes(choose.choice((1, 4, 8, 100)))
    elif way < 0.85:
        raw[at : at + 8] = choose.choice((bytes(8), b"\xff" * 8, b"\xff\xff\xff\x7f" + bytes(4)))
    else:
        raw += raw[at:]
    return replace(request, body=bytes(raw[:MOST_OF_A_BODY]))


def _document(request: Request, choose: random.Random) -> Request:
    """Change a member of a JSON body, or a piece of a text between signs."""
    try:
        found = json.loads(request.body)
    except ValueError:
        return _in_text(request, choose)
    places = list(_places(found)) if isinstance(found, dict | list) else []
    if not places:
        return replace(request, body=json.dumps(choose.choice(VALUES)).encode())
    home, key = choose.choice(places)
    way = choose.random()
    if way < 0.15:
        del home[key]
    elif way < 0.3 and isinstance(home[key], str):
        home[key] = _bent(home[key], choose)
    elif way < 0.4:
        home[key] = choose.choice([place[0][place[1]] for place in places])
    elif way < 0.5:
        home[key] = [home[key]] * choose.choice((2, 1000))
    else:
        home[key] = choose.choice(VALUES)
    with suppress(RecursionError, ValueError):  # it may hold itself by now
        return replace(request, body=json.dumps(found).encode()[:MOST_OF_A_BODY])
    return request


def _places(found: Any) -> Iterator[tuple[Any, Any]]:
    keys: Any = range(len(found)) if isinstance(found, list) else found
    for key in list(keys):
        yield found, key
        if isinstance(found[key], dict | list):
            yield from _places(found[key])


def _in_text(request: Request, choose: random.Random) -> Request:
    try:
        words = request.body.decode("utf-8").replace("<", " <").split(" ")
    except ValueError:
        return _body(request, choose)
    at, other = choose.randrange(len(words)), choose.choice(words)
    words[at] = choose.choice((other, "", _text(choose), _bent(words[at], choose)))
    return replace(request, body=" ".join(words).encode("utf-8", "replace")[:MOST_OF_A_BODY])


# -- the proxy ----------------------------------------------------------------------------------


class Findings:
    """What became of the damaged requests; thread-safe."""

    def __init__(self, seed: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self.found: list[str] = []
        self.count = 0
        self._seed = seed
        self._lock = threading.Lock()

    def chooser(self) -> random.Random:
        """Return the chance of the next damaged request."""
        with self._lock:
            self.count += 1
            return random.Random(f"{self._seed}:{self.count}")

    def add(self, outcome: str) -> None:
        """Count an outcome."""
        with self._lock:
            self.outcomes[outcome] += 1

    def report(self, what: str, request: Request | None = None) -> None:
        """Keep a finding, with its request."""
        with self._lock:
            self.found.append(what)
            if request is not None:
                WORK.mkdir(parents=True, exist_ok=True)
                path = WORK / f"requests-crash-{self._seed}-{len(self.found)}"
                path.write_text(f"{what}\n{request!r}\n", encoding="utf-8", errors="replace")


class Proxy(ThreadingHTTPServer):
    """Passes requests on, after damaged copies of each."""

    daemon_threads = True

    def __init__(self, target: str, findings: Findings) -> None:
        url = urlsplit(target)
        self.target = (url.hostname or "", url.port or 80)
        self.findings = findings
        self.is_over = False
        super().__init__(("127.0.0.1", 0), _Handler)

    def try_copies(self, request: Request) -> None:
        """Send damaged copies of a request and look at the answers."""
        for _ in range(0 if self.is_over else COPIES):
            copy = damaged(request, self.findings.chooser())
            try:
                status, answer = self.send(copy)
            except http.client.IncompleteRead:
                self.findings.add("broken off")  # told by the log of the service, if it is a fault
            except (TimeoutError, OSError, http.client.HTTPException) as error:
                self.findings.report(f"{type(error).__name__}: {error}", copy)
            else:
                self.findings.add(str(status))
                if status >= 500:
                    self.findings.report(f"{status}: {answer[:300]!r}", copy)

    def send(self, request: Request) -> tuple[int, bytes]:
        """Send a request with a token in place of its signature."""
        signed = {"authorization", "date", "connection", "content-length", "transfer-encoding"}
        target = quote(request.path, safe="/%") + (
            f"?{urlencode(request.params, errors='replace')}" if request.params else ""
        )
        with closing(http.client.HTTPConnection(*self.target, timeout=SECONDS)) as connection:
            connection.putrequest(request.method, target, skip_accept_encoding=True)
            for name, value in request.headers:
                if name not in signed and name != "host":
                    connection.putheader(name, value)
            connection.putheader("x-odps-bearer-token", TOKEN)
            connection.putheader("Content-Length", str(len(request.body)))
            connection.endheaders(request.body)
            answer = connection.getresponse()
            return answer.status, answer.read()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Proxy

    def handle_any(self) -> None:
        body = b"".join(self._body())
        url = urlsplit(self.path)
        request = Request(
            method=self.command,
            path=url.path,
            params=tuple(parse_qsl(url.query, keep_blank_values=True)),
            headers=tuple((name.lower(), value) for name, value in self.headers.items()),
            body=body,
        )
        self.server.try_copies(request)
        with closing(http.client.HTTPConnection(*self.server.target, timeout=SECONDS)) as onward:
            onward.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in request.headers:
                if name not in ("connection", "transfer-encoding", "content-length"):
                    onward.putheader(name, value)
            onward.putheader("Content-Length", str(len(body)))
            onward.endheaders(body)
            answer = onward.getresponse()
            content = answer.read()
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with suppress(ConnectionError):  # a client may leave early
            self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any

    def _body(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            yield self.rfile.read(int(self.headers.get("Content-Length", 0)))
            return
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


# -- jobs ---------------------------------------------------------------------------------------


@contextmanager
def served(folder: Path) -> Iterator[tuple[dict[str, Any], Any]]:
    """Run the embedded service; give what it announces, and its process."""
    keys = folder / "keys.json"
    keys.touch(0o600)
    keys.write_text(json.dumps({"keys": {"me": "secret"}, "bearer_tokens": {TOKEN: "me"}}))
    command = [sys.executable, "-m", "odps_nb.local.server.serve", "--json", "--with-parent"]
    command += ["--root", str(folder / "service"), "--credentials", str(keys)]
    command += ["--query-seconds", "10", "--query-memory", "1024"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline()), process
        finally:
            process.stdin.close()
            process.terminate()
            process.wait(60)
            process.stdout.close()


def connected(facts: dict[str, Any], proxy: Proxy) -> tuple[Any, Any]:
    """Return our connection and pyodps's entry, both through the proxy."""
    from odps import ODPS

    import odps_nb

    base = f"http://127.0.0.1:{proxy.server_port}"
    ours = odps_nb.connect(
        endpoint=f"{base}/api",
        tunnel_endpoint=base,
        project=facts["project"],
        access_id="me",
        access_key="secret",
        blob_cache="off",
    )
    theirs = ODPS(
        "me",
        "secret",
        project=facts["project"],
        endpoint=f"{base}/api",
        tunnel_endpoint=base,
        overwrite_global=False,
    )
    return ours, theirs


def jobs(ours: Any, theirs: Any, turn: int) -> Iterator[Callable[[], Any]]:
    """Yield pieces of work, on tables of this turn."""
    import pandas as pd

    frame = pd.DataFrame({"id": [1, 2, 3], "note": ["a", None, "ü"], "price": [0.5, None, 2.0]})
    plain, parted, keyed, media = (
        f"{name}{turn}" for name in ("plain", "parted", "keyed", "media")
    )
    fruit = "from (values (1, 'apple'), (2, 'pear')) as t (id, note)"
    yield lambda: ours.create_table(plain, "id bigint, note string, price double")
    yield lambda: ours.table(plain).write(frame)
    yield lambda: ours.table(plain).read(where="id > 1 and note is not null").to_arrow()
    yield lambda: ours.table(plain).read(columns=["id"], limit=2).to_pandas()
    yield lambda: ours.table(plain).head(2)
    yield lambda: ours.create_table(parted, "id bigint, note string", partitioned_by="ds string")
    yield lambda: ours.table(parted).write(frame[["id", "note"]], partition="ds=a")
    yield lambda: ours.table(parted).write(frame[["id", "note"]].assign(ds="b"))
    yield lambda: ours.table(parted).read(partitions="ds=a").to_pandas()
    yield lambda: list(ours.table(parted).partitions())
    yield lambda: ours.sql(
        f"create table {keyed} (id bigint not null, note string, primary key (id))"
    )
    yield lambda: ours.table(keyed).upsert(frame[["id", "note"]])
    yield lambda: ours.table(keyed).delete(frame[["id"]].head(1))
    yield lambda: ours.sql(f"select id, count(*) n from {plain} group by id").to_pandas()
    yield lambda: ours.sql(f"insert into {plain} (id, note) select id, note {fruit}")
    yield lambda: ours.sql(f"alter table {parted} add if not exists partition (ds='c')")
    yield lambda: ours.sql(f"show partitions {parted}")
    yield lambda: ours.create_table(media, "id bigint, photo blob")
    blobs = pd.DataFrame({"id": [1, 2], "photo": [b"x" * 3000, b""]})
    yield lambda: ours.table(media).write(blobs)
    yield lambda: [blob.bytes() for blob in ours.table(media).blobs("photo")]
    yield lambda: list(ours.tables())
    yield lambda: list(ours.schemas())
    yield lambda: [table.name for table in theirs.list_tables(prefix="plain")]
    yield lambda: theirs.get_table(plain).reload()
    yield lambda: theirs.write_table(plain, [[7, "x", 0.5]])
    yield lambda: theirs.write_table(plain, frame)
    yield lambda: list(theirs.read_table(plain))
    yield lambda: theirs.execute_sql(f"select * from {plain}").open_reader(tunnel=True).to_pandas()
    yield lambda: theirs.get_table(parted).create_partition("ds=d")
    for table in (plain, parted, keyed, media):
        yield lambda table=table: ours.drop_table(table)


def play(facts: dict[str, Any], proxy: Proxy, count: int, process: Any) -> None:
    """Do the jobs over and over, until so many damaged requests were sent."""
    from odps_nb.errors import OdpsNbError, ProtocolError, StateError

    findings = proxy.findings
    ours, theirs = connected(facts, proxy)
    turn = 0
    while findings.count < count and process.poll() is None:
        for number, job in enumerate(jobs(ours, theirs, turn)):
            if findings.count >= count:
                break
            try:
                job()
            except (OdpsNbError, StateError) as error:
                findings.add(f"job: {type(error).__name__}")
                if isinstance(error, ProtocolError):
                    findings.report(f"job {number}: an answer that is not right: {error}")
            except Exception as error:  # noqa: BLE001 - those of pyodps are its own
                findings.add(f"job: {type(error).__module__}.{type(error).__name__}")
                if not type(error).__module__.startswith(("odps.", "requests")):
                    findings.report(f"job {number}: {type(error).__name__}: {error}")
        turn += 1
    proxy.is_over = True
    ours.close()


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=2000, help="damaged requests")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    findings = Findings(options.seed)
    with tempfile.TemporaryDirectory(prefix="odps-nb-fuzz-") as folder:
        with (
            served(Path(folder)) as (facts, process),
            Proxy(facts["endpoint"], findings) as proxy,
        ):
            serving = threading.Thread(target=proxy.serve_forever)
            serving.start()
            try:
                play(facts, proxy, options.count, process)
                if process.poll() is not None:
                    findings.report(f"the service has ended: {process.returncode}")
            finally:
                proxy.shutdown()
                serving.join()
        log = (Path(folder) / "log").read_text("utf-8", "replace")
    if "Traceback" in log:
        at = log.index("Traceback")
        findings.report(f"in the log of the service: {log[at : at + 3000]}")
    for what, many in sorted(findings.outcomes.items()):
        print(f"{what:42} {many:>8}")
    for found in findings.found[:20]:
        print(f"FOUND {found}")
    print(f"{findings.count} damaged requests, {len(findings.found)} findings")
    return min(1, len(findings.found))


if __name__ == "__main__":
    sys.exit(main())
