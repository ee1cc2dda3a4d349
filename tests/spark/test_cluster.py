"""A standalone cluster from the pip package: executors die, attempts run twice, rows stay exact."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from odps_nb.access.java import find_java
from tests.support.spark.services import misbehaving

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

HOME = Path(pyspark.__file__).parent
READY = 120.0


@contextlib.contextmanager
def _daemon(kind: str, *arguments: str, ready: str, folder: Path) -> Iterator[re.Match[str]]:
    """Start a master or worker; return the line with which it reports that it is ready."""
    env = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
    child = subprocess.Popen(
        command, env=env, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    found: Queue[re.Match[str] | None] = Queue()

    def watch() -> None:
        assert child.stderr is not None
        for line in child.stderr:
            if match := re.search(ready, line):
                found.put(match)
        found.put(None)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        match = found.get(timeout=READY)
        assert match is not None, f"{kind} ended before it was ready"
        yield match
    finally:
        child.terminate()
        child.wait()
        watcher.join()
        assert child.stderr is not None
        child.stderr.close()


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """A master and two workers with one core each, on two host names, which copies need."""
    with contextlib.ExitStack() as cluster:
        started = cluster.enter_context(
            _daemon(
                *("master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
                ready=r"Starting Spark master at (spark://\S+)",
                folder=tmp_path,
            )
        )
        for host in ("127.0.0.1", "localhost"):
            cluster.enter_context(
                _daemon(
                    *("worker.Worker", "--host", host, "--webui-port", "0", "--cores", "1"),
                    *("--memory", "700m", "--work-dir", str(tmp_path / host), started.group(1)),
                    ready="Successfully registered with master",
                    folder=tmp_path,
                )
            )
        yield started.group(1)


COUNT = 40_000
#: Attempts that hang are started again on the other host as soon as half of the tasks are done.
SPECULATION = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.minTaskRuntime": "500ms",
}


@pytest.fixture
def broken() -> Iterator[Connection]:
    """A connection to the test's own service, which misbehaves on request."""
    with misbehaving() as connection:
        yield connection


def _act(
    acts: list[str], master: str, odps: Connection, marks: Path, **conf: str
) -> dict[str, Any]:
    """Run the jobs in a separate process; return their results."""
    given = odps.profile.as_options()
    given.pop("name", None)
    # Java ignores TMPDIR
    conf["spark.executor.extraJavaOptions"] = f"-Djava.io.tmpdir={tempfile.gettempdir()}"
    document = {
        "acts": acts,
        "master": master,
        "conf": conf,
        "marks": str(marks),
        "connection": {**given, "api_version": odps.profile.api_version},
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__).with_name("cluster_job.py"))],
        input=json.dumps(document),  # an argument would show the key to every process
        capture_output=True,
        text=True,
        timeout=560,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _ids(odps: Connection, name: str) -> list[int]:
    return sorted(odps.table(name).read().to_arrow().column("id").to_pylist())


@pytest.mark.spark
@pytest.mark.nightly  # two minutes
def test_on_a_standalone_cluster_rows_stay_exact_when_attempts_die_or_run_twice(
    master: str, broken: Connection, tmp_path: Path
) -> None:
    acts = ["killed_in_a_read", "killed_in_a_write", "speculated_write", "speculated_read"]
    told = _act(acts, master, broken, tmp_path, **SPECULATION)
    assert told == {
        "killed_in_a_read": [COUNT, COUNT],
        "killed_in_a_write": COUNT,
        "speculated_write": COUNT,
        "speculated_read": [COUNT, COUNT, 1, True],
    }
    assert {path.name for path in tmp_path.iterdir()} >= {"r", "w", "s"}  # they did happen
    for name in ("killed", "speculated"):
        assert _ids(broken, name) == list(range(COUNT))


@pytest.mark.spark
@pytest.mark.nightly  # two minutes
def test_on_a_local_cluster_rows_stay_exact_when_executors_die_tasks_fail_and_commits_raise(
    broken: Connection, tmp_path: Path
) -> None:
    acts = ["both_killed_in_a_read", "both_killed_in_a_write", "failed_first"]
    acts += ["lost_commit", "refused_commit"]
    told = _act(acts, "local-cluster[2,1,1024]", broken, tmp_path)
    assert told == {
        "both_killed_in_a_read": [COUNT, COUNT],
        "both_killed_in_a_write": COUNT,
        "failed_first": [COUNT, COUNT, COUNT, 6],
        "lost_commit": [COUNT, 1],
        "refused_commit": ["AccessDeniedError", "AccessDeniedError"],
    }
    for name in ("both_killed", "failed", "failed_format"):
        assert _ids(broken, name) == list(range(COUNT))
    assert _ids(broken, "lost") == list(range(2 * COUNT))
    assert _ids(broken, "refused") == []
