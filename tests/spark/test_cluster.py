"""A standalone cluster from the pip package: executors die, attempts run twice, drivers are killed.

Its executors have a separate environment, into which odps_nb was installed as
``docs/howto/spark-on-a-cluster.md`` says. The address of its master is not 127.0.0.1, because a
session with that address gets the settings of this machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest

import odps_nb
from odps_nb.access.java import find_java
from odps_nb.spark.writing.task import MAX_TUNNEL_STREAMS
from tests.support.service.services import by_storage_api
from tests.support.spark.services import misbehaving, of_commit

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

HOME = Path(pyspark.__file__).parent
READY = 120.0
#: With PySpark 4.0, a task costs several times as much as with 4.3: a test may take ten minutes.
pytestmark = pytest.mark.timeout(1300)
COUNT = 40_000
SPLITS_EACH, EXECUTORS = 100, 3
CLUSTER = {"spark.executor.memory": "512m", "spark.executor.cores": "1"}
#: Attempts that hang are run a second time, on the other host, as soon as half of them are done.
SPECULATION = {
    **CLUSTER,
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.minTaskRuntime": "500ms",
}


@dataclass(frozen=True)
class Cluster:
    """A cluster's address, and the environment of its executors (``None``: that of the tests)."""

    master: str
    environment: Path | None = None


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
    env.pop("PYTHONPATH", None)  # executors would inherit it
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
    child = subprocess.Popen(
        command,
        env=env,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
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
        child.terminate()  # a worker ends its executors
        try:
            child.wait(READY)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        watcher.join()
        assert child.stderr is not None
        child.stderr.close()


PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")


@pytest.fixture(scope="module")
def wheel(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    wheels = tmp_path_factory.mktemp("wheels")
    build = ("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(repo))
    subprocess.run([*PIP, *build], check=True)
    (made,) = wheels.iterdir()
    return made


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the packages of the tests, in place of a package index."""
    return _environment(tmp_path_factory.mktemp("bare") / "environment")


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment into which pip has installed the wheel of this checkout."""
    home = _environment(tmp_path_factory.mktemp("executors") / "environment")
    install = ("--python", str(home), "install", "--no-index", "--no-deps", str(wheel))
    subprocess.run([*PIP, *install], check=True)
    return home


def _environment(home: Path) -> Path:
    venv.create(home, symlinks=True)
    # Python ignores .pth files in folders that a .pth file adds, so no editable odps_nb is found.
    others = sysconfig.get_path("purelib")
    (_packages(home) / "others.pth").write_text(others + "\n")
    return home


def _packages(home: Path) -> Path:
    return Path(sysconfig.get_path("purelib", vars={"base": str(home)}))


@pytest.fixture(scope="module")
def cluster(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers, for three executors of one core.

    The workers use two names of this host, because speculative copies run on another host.
    """
    folder = tmp_path_factory.mktemp("cluster")
    with contextlib.ExitStack() as running:
        started = running.enter_context(
            _daemon(
                *("master.Master", "--host", "127.0.0.2", "--port", "0", "--webui-port", "0"),
                ready=r"Starting Spark master at (spark://\S+)",
                folder=folder,
            )
        )
        for host, cores in (("127.0.0.1", EXECUTORS - 1), ("localhost", 1)):
            running.enter_context(
                _daemon(
                    *("worker.Worker", "--host", host, "--webui-port", "0"),
                    *("--cores", str(cores), "--memory", f"{cores * 700}m"),
                    *("--work-dir", str(folder / host), started.group(1)),
                    ready="Successfully registered with master",
                    folder=folder,
                )
            )
        yield Cluster(started.group(1), environment)


@pytest.fixture
def broken() -> Iterator[Connection]:
    """A connection to the test's own service, which fails on request."""
    with misbehaving() as connection:
        yield connection


def _run(
    acts: list[str], cluster: Cluster, odps: Connection, marks: Path, **conf: str
) -> subprocess.CompletedProcess[str]:
    """Run the jobs in a separate process."""
    given = odps.profile.as_options()
    given.pop("name", None)
    # Java ignores TMPDIR
    conf["spark.executor.extraJavaOptions"] = f"-Djava.io.tmpdir={tempfile.gettempdir()}"
    document = {
        "acts": acts,
        "master": cluster.master,
        "conf": conf,
        "marks": str(marks),
        "commit": of_commit(odps, by_storage_api()),
        "tasks": _tasks(),
        "connection": {**given, "api_version": odps.profile.api_version},
    }
    env = dict(os.environ)
    if cluster.environment is not None:  # a killed driver leaves files behind
        options = os.environ.get("SPARK_SUBMIT_OPTS", "")
        env |= {
            "PYSPARK_PYTHON": str(cluster.environment / "bin" / "python"),
            "SPARK_LOCAL_DIRS": str(marks),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": f"{options} -Djava.io.tmpdir={marks}",
        }
    return subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__).with_name("cluster_job.py"))],
        input=json.dumps(document),  # an argument would show the key to every process
        capture_output=True,
        text=True,
        timeout=560,
        env=env,
        cwd=marks,
    )


def _submit(
    cluster: Cluster, odps: Connection, job: Path, python: str, *options: str
) -> subprocess.CompletedProcess[str]:
    """Run a job with spark-submit; ``python`` is that of the executors."""
    profile = odps.profile.as_options()
    names = ("endpoint", "tunnel_endpoint", "project", "access_id", "access_key")
    env = {
        **os.environ,
        **{f"ODPS_{name.upper()}": profile[name] for name in names},
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": python,
        "PYTHONPATH": str(Path(odps_nb.__file__).parents[1]),  # only for the driver
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    conf = [f"--conf={name}={value}" for name, value in CLUSTER.items()]
    command = [str(HOME / "bin" / "spark-submit"), "--master", cluster.master, *conf, *options]
    return subprocess.run(
        [*command, str(job)], capture_output=True, text=True, timeout=600, env=env, cwd=job.parent
    )


def _tasks() -> int:
    """Return the number of tasks of a long job, each of which writes a stream."""
    return 2_000 if by_storage_api() else MAX_TUNNEL_STREAMS


def _results_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the results of each job."""
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _ids(odps: Connection, name: str) -> list[int]:
    return sorted(odps.table(name).read().to_arrow().column("id").to_pylist())


@pytest.mark.spark
@pytest.mark.nightly  # two minutes
def test_on_a_standalone_cluster_rows_stay_exact_when_attempts_die_or_run_twice(
    cluster: Cluster, broken: Connection, tmp_path: Path
) -> None:
    acts = ["installed", "killed_in_a_read", "killed_in_a_write"]
    acts += ["speculated_write", "speculated_read"]
    told = _results_of(_run(acts, cluster, broken, tmp_path, **SPECULATION))
    assert cluster.environment is not None
    assert told == {
        "installed": [EXECUTORS, [str(_packages(cluster.environment) / "odps_nb/__init__.py")]],
        "killed_in_a_read": [COUNT, COUNT],
        "killed_in_a_write": COUNT,
        "speculated_write": COUNT,
        "speculated_read": [COUNT, COUNT, 1, True],
    }
    assert {path.name for path in tmp_path.iterdir()} >= {"r", "w", "s"}  # the faults did occur
    for name in ("killed", "speculated"):
        assert _ids(broken, name) == list(range(COUNT))


@pytest.mark.spark
@pytest.mark.nightly  # four minutes
def test_a_job_of_many_tasks_whose_driver_is_killed_changes_nothing_and_can_be_run_again(
    cluster: Cluster, broken: Connection, tmp_path: Path
) -> None:
    killed = _run(["driver_killed"], cluster, broken, tmp_path, **CLUSTER)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    assert _ids(broken, "days") == [-1]
    again = _run(["run_again"], cluster, broken, tmp_path, **CLUSTER)
    assert _results_of(again) == {"run_again": [10 * _tasks(), _tasks()]}
    assert _ids(broken, "days") == list(range(10 * _tasks()))


@pytest.mark.spark
@pytest.mark.storage_api("versions")
@pytest.mark.nightly  # two minutes
def test_a_stream_whose_driver_is_killed_repeats_only_its_uncommitted_micro_batch(
    cluster: Cluster, broken: Connection, tmp_path: Path
) -> None:
    part = 10 * SPLITS_EACH
    killed = _run(["stream_killed"], cluster, broken, tmp_path, **CLUSTER)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    assert _ids(broken, "arriving") == list(range(3 * part))
    assert _ids(broken, "copied") == list(range(2 * part))
    resumed = _run(["stream_resumed"], cluster, broken, tmp_path, **CLUSTER)
    assert _results_of(resumed) == {"stream_resumed": [[part, part], 2 * SPLITS_EACH]}
    assert _ids(broken, "copied") == list(range(4 * part))


@pytest.mark.spark
@pytest.mark.nightly  # two minutes
def test_on_a_local_cluster_rows_stay_exact_when_executors_die_tasks_fail_and_commits_raise(
    broken: Connection, tmp_path: Path
) -> None:
    acts = ["both_killed_in_a_read", "both_killed_in_a_write", "failed_first"]
    acts += ["lost_commit", "refused_commit"]
    told = _results_of(_run(acts, Cluster("local-cluster[2,1,1024]"), broken, tmp_path))
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


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("way", ["archives", "zip", "none"])
def test_the_job_of_the_page_runs_on_executors_that_receive_the_package(
    cluster: Cluster,
    broken: Connection,
    environment: Path,
    bare: Path,
    wheel: Path,
    repo: Path,
    tmp_path: Path,
    way: str,
) -> None:
    page = (repo / "docs" / "spark-clusters.md").read_text("utf-8")
    job = tmp_path / "job.py"
    job.write_text(page.partition("```python\n")[2].partition("```")[0])
    broken.create_table("orders", "status string, quantity bigint", partitioned_by="ds string")
    rows = pa.table({"status": ["paid", "open", "paid"], "quantity": [9, 10, 8]})
    broken.table("orders").write(rows, partition="ds=2024-01-01", progress=False)
    python, options = str(bare / "bin" / "python"), []
    if way == "archives":
        shutil.make_archive(str(tmp_path / "environment"), "gztar", environment)
        python, options = (
            "./environment/bin/python",
            ["--archives", "environment.tar.gz#environment"],
        )
    elif way == "zip":
        shutil.copy(wheel, tmp_path / "odps_nb.zip")
        options = ["--py-files", "odps_nb.zip"]
    done = _submit(cluster, broken, job, python, *options)
    assert "Connected to Spark cluster with app ID" in done.stderr, done.stderr[-3000:]
    if way == "none":
        assert "MissingDependencyError" in done.stderr, done.stderr[-3000:]
        assert f"pip install odps-nb=={odps_nb.__version__}" in done.stderr
        return
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "2 rows"
    assert broken.table("busy").read().row_count == 2
