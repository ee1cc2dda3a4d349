"""A standalone cluster from the pip package: executors die, attempts run twice, rows stay exact."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

import pyspark
import pytest

from odps_nb.spark.java import find_java

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

HOME = Path(pyspark.__file__).parent
READY = 60.0


@contextlib.contextmanager
def _daemon(kind: str, *arguments: str, ready: str, folder: Path) -> Iterator[re.Match[str]]:
    """Start a master or worker; gives the line in which it says that it is ready."""
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
    """A master and two workers of one core; on two names of this host, or no copy would run."""
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


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_rows_stay_exact_when_executors_are_killed_and_tasks_run_twice(
    master: str, odps: Connection, tmp_path: Path
) -> None:
    given = {"master": master, "marks": str(tmp_path), "connection": odps.profile.as_options()}
    given["connection"]["api_version"] = odps.profile.api_version
    given["connection"].pop("name", None)
    script = Path(__file__).with_name("cluster_job.py")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        input=json.dumps(given),  # an argument would show the key to every process
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "read": [40_000, 40_000],
        "written": 40_000,
        "speculated": 40_000,
    }
    # All three things did happen.
    assert {path.name for path in tmp_path.iterdir()} >= {"read", "write", "speculation"}
    for name in ("killed", "speculated"):
        ids = odps.table(name).read().to_arrow().column("id").to_pylist()
        assert sorted(ids) == list(range(40_000))
