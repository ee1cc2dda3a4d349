"""Send damaged requests to the embedded service, mixed with valid ones that maintain its state.

``.venv/bin/python fuzz/mutate_requests.py --count 20000 --seed 1`` runs jobs of our client and of
the stock pyodps through a proxy on loopback, which sends damaged copies of each request before the
request itself. The invariant: the service responds to each with a document or rows, never with 500,
and keeps running. The run fails if it finds a 5xx or malformed response, no response within a
minute, a traceback in the service's log, a service that has ended, or an untyped error in our
client. The request is saved in ``build/fuzz/``.
"""

from __future__ import annotations

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
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from budget import Budget, read

sys.path.insert(0, str(Path(__file__).parent.parent))  # a script has only its folder on the path
from fuzz.request_damage import damaged
from tests.support.reverse_proxy import SECONDS, Request, ReverseProxy

ROOT = Path(__file__).parent.parent
WORK = ROOT / "build" / "fuzz"
COPIES = 12  # damaged copies of each request of a job
TOKEN = "a bearer token"


# -- the proxy ----------------------------------------------------------------------------------


class Findings:
    """The outcomes of the damaged requests; thread-safe."""

    def __init__(self, seed: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self.found: list[str] = []
        self.count = 0
        self._seed = seed
        self._lock = threading.Lock()

    def chooser(self) -> random.Random:
        """Return the random generator for the next damaged request."""
        with self._lock:
            self.count += 1
            return random.Random(f"{self._seed}:{self.count}")

    def add(self, outcome: str) -> None:
        """Count an outcome."""
        with self._lock:
            self.outcomes[outcome] += 1

    def report(self, what: str, request: Request | None = None) -> None:
        """Store a finding and its request."""
        with self._lock:
            self.found.append(what)
            if request is not None:
                WORK.mkdir(parents=True, exist_ok=True)
                path = WORK / f"requests-crash-{self._seed}-{len(self.found)}"
                path.write_text(f"{what}\n{request!r}\n", encoding="utf-8", errors="replace")


class Proxy(ReverseProxy):
    """A proxy that sends damaged copies of each request before it forwards the request."""

    def __init__(self, target: str, findings: Findings) -> None:
        self.findings = findings
        self.is_over = False
        super().__init__(target)

    def before_request(self, request: Request) -> None:
        """Send damaged copies of a request and check the responses."""
        for _ in range(0 if self.is_over else COPIES):
            copy = damaged(request, self.findings.chooser())
            try:
                status, answer = self.send(copy)
            except http.client.IncompleteRead:
                self.findings.add("broken off")  # if this is a fault, the service has logged it
            except (TimeoutError, OSError, http.client.HTTPException) as error:
                self.findings.report(f"{type(error).__name__}: {error}", copy)
            else:
                self.findings.add(str(status))
                if status >= 500:
                    self.findings.report(f"{status}: {answer[:300]!r}", copy)

    def send(self, request: Request) -> tuple[int, bytes]:
        """Send a request with a token instead of its signature."""
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


# -- jobs ---------------------------------------------------------------------------------------


@contextmanager
def served(folder: Path) -> Iterator[tuple[dict[str, Any], Any]]:
    """Run the embedded service; yield the facts that it prints at startup, and its process."""
    keys = folder / "keys.json"
    keys.touch(0o600)
    keys.write_text(json.dumps({"keys": {"me": "secret"}, "bearer_tokens": {TOKEN: "me"}}))
    command = [sys.executable, "-m", "odps_nb.local.server.serve", "--json"]
    command += ["--with-parent", str(os.getpid())]
    command += ["--root", str(folder / "service"), "--credentials", str(keys)]
    command += ["--query-seconds", "10", "--query-memory", "1024"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        )
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline()), process
        finally:
            process.terminate()
            process.wait(60)
            process.stdout.close()


def connected(facts: dict[str, Any], proxy: Proxy) -> tuple[Any, Any]:
    """Return our connection and pyodps' entry object, both through the proxy."""
    from odps import ODPS

    import odps_nb

    base = proxy.base
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
    """Yield the jobs of one round, which use the tables of this round."""
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


def play(facts: dict[str, Any], proxy: Proxy, budget: Budget, process: Any) -> None:
    """Repeat the jobs until enough damaged requests have been sent."""
    from odps_nb.errors import OdpsNbError, ProtocolError, StateError

    findings = proxy.findings
    ours, theirs = connected(facts, proxy)
    turn = 0
    while not budget.is_spent(findings.count) and process.poll() is None:
        for number, job in enumerate(jobs(ours, theirs, turn)):
            if budget.is_spent(findings.count):
                break
            try:
                job()
            except (OdpsNbError, StateError) as error:
                findings.add(f"job: {type(error).__name__}")
                if isinstance(error, ProtocolError):
                    findings.report(f"job {number}: an invalid response: {error}")
            except Exception as error:  # noqa: BLE001 - pyodps may raise its own errors
                findings.add(f"job: {type(error).__module__}.{type(error).__name__}")
                if not type(error).__module__.startswith(("odps.", "requests")):
                    findings.report(f"job {number}: {type(error).__name__}: {error}")
        turn += 1
    proxy.is_over = True
    ours.close()


def main() -> int:
    """Run from the command line."""
    budget, seed = read(__doc__.partition("\n")[0], 2000)
    findings = Findings(seed)
    with tempfile.TemporaryDirectory(prefix="odps-nb-fuzz-") as folder:
        with served(Path(folder)) as (facts, process):
            proxy = Proxy(facts["endpoint"], findings)
            with proxy.running():
                play(facts, proxy, budget, process)
            if process.poll() is not None:
                findings.report(f"the service has ended: {process.returncode}")
        log = (Path(folder) / "log").read_text("utf-8", "replace")
    if "Traceback" in log:
        at = log.index("Traceback")
        findings.report(f"in the service's log: {log[at : at + 3000]}")
    for what, many in sorted(findings.outcomes.items()):
        print(f"{what:42} {many:>8}")
    for found in findings.found[:20]:
        print(f"FOUND {found}")
    print(f"{findings.count} damaged requests, {len(findings.found)} findings")
    return min(1, len(findings.found))


if __name__ == "__main__":
    sys.exit(main())
