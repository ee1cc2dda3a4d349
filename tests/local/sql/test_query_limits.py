"""Resource limits of a query: memory and time are bounded, and the service keeps running."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
import requests

from odps_nb.errors import QueryError
from odps_nb.local.server.launch import LocalService, start
from odps_nb.local.sql.queries import QueryLimits, QueryRunner
from odps_nb.terms import SplitMode
from odps_nb.wire import control
from odps_nb.wire.signing import Credentials, sign
from tests.support.service.peer import Peer

MIB = 1 << 20
MEMORY = 256
LONG = "SELECT count(*) FROM (SELECT explode(sequence(1, 1000000)) AS a) x CROSS JOIN \
(SELECT explode(sequence(1, 1000000)) AS b) y"
UNSTOPPABLE = "SELECT length(lpad('x', 2000000000, 'yz'))"
TOO_LARGE = [
    UNSTOPPABLE,
    "SELECT wm_concat('', s) FROM (SELECT repeat('x', 1000000) s, explode(sequence(1, 3000)) i) t",
    "SELECT size(sequence(1, 800000000))",
    "INSERT INTO kept SELECT repeat('x', 2000000000)",
    "CREATE TABLE never AS SELECT repeat('x', 2000000000) AS s",
]
#: Other functions whose results are too large.
MORE_TOO_LARGE = [
    "SELECT repeat('x', 2000000000)",
    "SELECT repeat('x', 100000000)",
    "SELECT rpad('x', 2000000000, 'yz')",
    "SELECT replace(repeat('a', 100000000), 'a', 'bbbbbbbbbbbbbbbbbbbb')",
    "SELECT collect_list(a) FROM (SELECT explode(sequence(1, 400000000)) AS a) x",
    "SELECT length(concat(s,s,s,s,s,s,s,s)) FROM (SELECT repeat('x', 100000000) s) t",
]
LARGE = [*TOO_LARGE, *(pytest.param(one, marks=pytest.mark.nightly) for one in MORE_TOO_LARGE)]


@pytest.fixture(scope="module")
def bounded() -> Iterator[LocalService]:
    options = ("--query-memory", str(MEMORY), "--query-seconds", "20")
    with start(samples=False, options=options) as running:
        Peer(running).sql("CREATE TABLE kept (s string);")
        yield running


@pytest.mark.gate(1)
@pytest.mark.parametrize("text", LARGE, ids=lambda text: text[:40])
def test_a_query_that_needs_too_much_memory_does_not_affect_others(
    bounded: LocalService, text: str
) -> None:
    peer = Peer(bounded)
    with pytest.raises(
        QueryError,
        match=r"^ODPS-0121095: (the query exceeded its memory limit|a value is out of range)",
    ):
        peer.sql(f"{text};")
    assert psutil.Process(bounded.pid).memory_info().rss < 2 * MEMORY * MIB
    assert peer.query("SELECT count(*) AS n FROM kept;").to_pylist() == [{"n": 0}]


@pytest.mark.nightly
def test_a_large_result_is_returned_in_small_parts(bounded: LocalService) -> None:
    """The result has more bytes than a query may use, and is sent while the query runs."""
    peer = Peer(bounded)
    peer.sql(
        "CREATE TABLE wide AS SELECT i, repeat('x', 20000) AS s"
        " FROM (SELECT explode(sequence(1, 20000)) AS i) t;"
    )
    found = peer.open_read("wide", split_mode=SplitMode.ROW_OFFSET)
    assert found.record_count == 20_000
    assert psutil.Process(bounded.pid).memory_info().rss < MEMORY * MIB


@pytest.fixture(scope="module")
def hurried() -> Iterator[LocalService]:
    """A service with a short time limit for queries, whose keys come from the environment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ODPS_NB_LOCAL_ACCESS_ID", "me")
        patch.setenv("ODPS_NB_LOCAL_ACCESS_KEY", "my-secret")
        running = start(samples=False, options=("--query-seconds", "1"))
    with running:
        yield running


def test_a_query_that_takes_too_long_is_ended_with_the_reason(hurried: LocalService) -> None:
    peer = Peer(hurried)
    with pytest.raises(QueryError, match=r"limit of 1 seconds"):
        peer.sql(f"{LONG};")
    assert peer.query("SELECT 1 AS a;").to_pylist() == [{"a": 1}]
    assert len(psutil.Process(hurried.pid).children()) == 1


def test_the_process_of_a_query_has_no_keys_of_the_service(hurried: LocalService) -> None:
    assert (hurried.access_id, hurried.access_key) == ("me", "my-secret")
    assert Peer(hurried).query("SELECT 1 AS a;").to_pylist() == [{"a": 1}]
    (query,) = wait_for_children(hurried.pid)
    assert not [name for name in query.environ() if name.startswith(("ODPS_", "HOME"))]
    assert "my-secret" not in " ".join(query.cmdline())


@pytest.mark.gate(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_processes_of_queries_end_with_the_service(number: signal.Signals) -> None:
    with start(samples=False) as service:
        root = Path(str(service.temporary_root))
        assert root.is_dir()
        for count, text in enumerate((LONG, UNSTOPPABLE), 1):
            submit = control.SubmitSql(project=service.project, sql=f"{text};")
            Peer(service).ok(submit.encode())
            queries = wait_for_children(service.pid, count)
            assert len(queries) == count
        while (spent := queries[0].cpu_times()).user + spent.system < 1:
            time.sleep(0.01)  # starting takes half of this time, so the process is computing now
        os.kill(service.pid, number)
        _, alive = psutil.wait_procs(queries, timeout=30)
        assert not alive
        psutil.wait_procs([psutil.Process(service.pid)] if service.is_running else [], timeout=30)
        assert not service.is_running
    assert not root.exists()


@pytest.mark.nightly
def test_many_concurrent_queries_use_few_processes(bounded: LocalService) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def ask(number: int) -> pa.Table:
        return Peer(bounded).query(f"SELECT {number} AS a;")

    with ThreadPoolExecutor(8) as pool:
        found = [table.to_pylist() for table in pool.map(ask, range(24))]
    assert found == [[{"a": number}] for number in range(24)]
    assert len(psutil.Process(bounded.pid).children()) <= 4


def test_a_process_that_was_ended_while_it_waited_is_replaced(bounded: LocalService) -> None:
    peer = Peer(bounded)
    peer.sql("SELECT 1;")
    waiting = psutil.Process(bounded.pid).children()
    for process in waiting:
        process.kill()
    psutil.wait_procs(waiting, timeout=0.5)  # children of the service may stay zombies
    assert peer.query("SELECT 2 AS a;").to_pylist() == [{"a": 2}]


def wait_for_children(pid: int, count: int = 1) -> list[psutil.Process]:
    """Wait until the service has started that many processes for queries."""
    end = time.monotonic() + 20
    while len(found := psutil.Process(pid).children()) < count and time.monotonic() < end:
        time.sleep(0.01)
    return found


def test_a_service_that_cannot_stop_is_killed(tmp_path: Path) -> None:
    """A thread that never returns stands for any bug that blocks the service."""
    kept = tmp_path / "temporary"
    kept.mkdir()
    program = (
        "import pathlib, threading; from odps_nb.local.server.serve import end_hard\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        f"end_hard(threading.Event(), 0.2, pathlib.Path({str(kept)!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 3
    assert "did not stop within" in done.stderr
    assert not kept.exists()


@pytest.mark.nightly
def test_a_hanging_request_does_not_prevent_the_stop(root: Path) -> None:
    """The worker thread of a request waits forever; SIGTERM still ends the service; rows stay."""
    program = (
        "import sys, threading; from odps_nb.local.server import serve\n"
        "from odps_nb.local.store.catalog import Catalog\n"
        "serve.GRACE, serve.HARD_AFTER = 0.3, 0.2\n"
        "Catalog.schemas = lambda *_: threading.Event().wait()\n"
        f"sys.exit(serve.main(['--json', '--no-samples', '--root', {str(root)!r}]))"
    )
    service = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert service.stdout is not None
    facts = json.loads(service.stdout.readline())
    own = Credentials(access_id=facts["access_id"], access_key=facts["access_key"])
    url = f"{facts['endpoint']}/projects/local/schemas"
    signed = sign("GET", url, {}, endpoint=facts["endpoint"], credentials=own, now=time.time())
    with pytest.raises(requests.exceptions.ReadTimeout):
        requests.get(url, headers=signed, timeout=0.5)
    service.terminate()
    _, errors = service.communicate(timeout=30)
    assert service.returncode == 3
    assert "did not stop within" in errors
    with start(root, samples=False) as again:
        assert Peer(again).query("SELECT 1 AS a;").to_pylist() == [{"a": 1}]


def test_idle_processes_end_and_the_next_query_has_a_new_one(tmp_path: Path) -> None:
    queries = QueryRunner(tmp_path, QueryLimits(), idle_seconds=0.1)
    before = set(psutil.Process().children())
    try:
        for _ in range(2):
            with queries.run({}, ValueError) as run:
                assert run.describe("select 1 as a").columns == ("a",)
                process = (set(psutil.Process().children()) - before).pop()
            process.wait(60)
    finally:
        queries.close()


def test_a_process_is_reused_after_a_failed_query_but_not_after_an_abandoned_one(
    tmp_path: Path,
) -> None:
    queries = QueryRunner(tmp_path, QueryLimits())
    before = set(psutil.Process().children())

    def process(sql: str, *, whole: bool = True) -> psutil.Process:
        with contextlib.suppress(ValueError), queries.run({}, ValueError) as run:
            rows = run.batches(sql)
            found = list(rows) if whole else [next(rows)]
            assert found[0].to_pydict() == {"a": [1]}
        return (set(psutil.Process().children()) - before or {psutil.Process()}).pop()

    try:
        first = process("select 1 as a")
        for failing in ("select nope", "select cast('x' as integer)", "select error('x')"):
            assert process(failing) == first
        assert process("select 1 as a") == first
        process("select 1 as a", whole=False)
        assert process("select 1 as a") != first
    finally:
        queries.close()
