"""Fixtures shared by all tests: an embedded service with samples, and ways to connect to it."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.support.gate import (  # noqa: F401  # hooks
    pytest_collection_finish,
    pytest_collection_modifyitems,
    pytest_configure,
    pytest_runtest_setup,
    pytest_runtest_teardown,
    pytest_sessionfinish,
    pytest_terminal_summary,
    pytest_xdist_make_scheduler,
)
from tests.support.interrupting import interrupts_repeated
from tests.support.named import NewName
from tests.support.pages import SETTINGS

if TYPE_CHECKING:
    import trustme
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.client.auth.profile import Profile
    from odps_nb.local.server.launch import LocalService
    from tests.support.service.services import Pool

pytest_plugins = ("tests.support.service.services",)

# Two shared cores make single examples slow at times, which is not a defect of the tested code.
# `make test` uses the same examples each time, half of the usual number. `make explore` draws new
# ones; add each failing example as an @example.
_slow = [HealthCheck.too_slow]
settings.register_profile(
    "gate",
    max_examples=50,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=_slow,
)
settings.register_profile("explore", deadline=None, suppress_health_check=_slow, print_blob=True)
if os.environ.get("ODPS_NB_EXPLORE"):
    settings.load_profile("explore")
else:
    settings.load_profile("gate")
    # Hypothesis also draws constants from our loaded modules. In a worker of xdist, these depend on
    # the previous tests.
    if hasattr(providers, "_get_local_constants"):
        nothing = providers.Constants()
        providers._get_local_constants = lambda: nothing


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """Restore the default action of Ctrl-C, which background jobs (`&`) inherit as ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def repeated_interrupts() -> Iterator[None]:
    """Send SIGINT again whenever Python has dropped the KeyboardInterrupt of a signal."""
    with interrupts_repeated():
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_resource_tracker() -> Iterator[None]:
    """End the helper process of multiprocessing, which would outlive the tests."""
    yield
    if (tracker := sys.modules.get("multiprocessing.resource_tracker")) is not None:
        tracker._resource_tracker._stop()


@pytest.fixture(scope="session", autouse=True)
def _private_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Isolate the tests from the user's settings and Jupyter, and from the size of the disk."""
    from odps_nb.client import blob_cache

    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blob_cache, "SPARE", 0)
        for name in [name for name in os.environ if name.startswith(SETTINGS)]:
            patch.delenv(name)
        for source in ("CLI_PROFILE", "ECS_METADATA"):
            patch.setenv(f"ALIBABA_CLOUD_{source}_DISABLED", "true")
        patch.setenv("XDG_CONFIG_HOME", str(home / "config"))
        patch.setenv("ODPS_NB_CACHE_DIR", str(home / "cache"))
        patch.setenv("IPYTHONDIR", str(home / "ipython"))
        # Kernels communicate over files in this folder, whose paths are limited to about a hundred
        # characters: see lab.py.
        runtime = tempfile.mkdtemp(prefix="jp")
        patch.setenv("JUPYTER_RUNTIME_DIR", runtime)
        startup = home / "ipython" / "profile_default" / "startup"
        startup.mkdir(parents=True)
        shutil.copy(Path(__file__).parents[1] / "tools" / "kernel_startup.py", startup)
        yield
        shutil.rmtree(runtime, ignore_errors=True)


@pytest.fixture(scope="session")
def service(service_pool: Pool) -> LocalService:
    """One embedded service with sample tables, shared by the whole run."""
    return service_pool.get()


@pytest.fixture(scope="session")
def empty_service(service_pool: Pool) -> LocalService:
    """One embedded service without samples, for tests that create tables with unique names."""
    return service_pool.get(samples=False)


@pytest.fixture(scope="session")
def profile(service: LocalService) -> Profile:
    """The profile that connects to `service`."""
    from odps_nb.client.auth.profile import Profile
    from tests.support.service.connecting import account_of

    return Profile(**account_of(service))


@pytest.fixture(scope="session")
def odps(service: LocalService) -> Iterator[Connection]:
    """A connection to `service`."""
    from tests.support.service.connecting import connected

    with connected(service) as connection:
        yield connection


@pytest.fixture(scope="session")
def wide(service_pool: Pool) -> Iterator[Connection]:
    """A connection to a service that returns all times that fit into 64 bits in nanoseconds."""
    from tests.support.service.connecting import connected

    options = ("--form", "nanosecond_status=none")
    with connected(service_pool.get(samples=False, options=options)) as connection:
        yield connection


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder to which this run's Spark session writes its event log."""
    return tmp_path_factory.mktemp("event-log")


@pytest.fixture(scope="session")
def spark_said(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file with the stderr of the JVM and the Python processes of this run's Spark session."""
    return tmp_path_factory.mktemp("spark") / "stderr"


@pytest.fixture(scope="session")
def spark_session(event_log: Path, spark_said: Path, _private_home: None) -> Iterator[SparkSession]:
    """The Spark session of the run; ``local[2, 2]`` retries a failed task once."""
    import odps_nb.spark

    ours = os.dup(2)
    with spark_said.open("wb") as file:
        os.dup2(file.fileno(), 2)
    started = odps_nb.spark.session(
        "local[2, 2]",
        **{
            "spark.driver.memory": "1g",
            "spark.eventLog.enabled": True,
            "spark.eventLog.compress": False,  # a test reads the log as text
            "spark.eventLog.dir": event_log.as_uri(),
            "spark.sql.shuffle.partitions": 3,
            "spark.ui.enabled": True,  # a test searches the UI for keys
            "spark.ui.port": 0,
            "spark.sql.ui.retainedExecutions": 60,  # one page of the UI lists them all
            "spark.sql.warehouse.dir": str(event_log.parent / "warehouse"),
        },
    )
    os.dup2(ours, 2)
    os.close(ours)
    gateway = started.sparkContext._gateway
    yield started
    started.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # otherwise the JVM would end only with this process
    gateway.proc.wait()


_numbers = itertools.count()


@pytest.fixture
def new_name() -> NewName:
    """Return table names that no other test of this run uses."""
    return lambda stem="t": f"{stem}_{next(_numbers)}_{os.getpid()}"


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """Signs certificates for servers of these tests; not trusted by default."""
    import trustme

    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    """The authority, trusted by this test as the documentation describes."""
    bundle = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(bundle))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
    return authority


@pytest.fixture(scope="session")
def repo() -> Path:
    """The root of the checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def run_older(repo: Path) -> Callable[[str, LocalService], list[dict[str, Any]]]:
    """Run a module like ``compat/older_jobs.py`` with pyodps 0.13.1; return its lines of JSON.

    Fails, instead of skipping, if that pyodps is not available.
    """
    import older_pyodps

    try:
        trouble, folder = "", older_pyodps.ensure()
    except RuntimeError as error:
        trouble = str(error)
    if trouble:
        pytest.fail(trouble, pytrace=False)

    def run(script: str, local: LocalService) -> list[dict[str, Any]]:
        where = [local.endpoint, local.project, local.access_id, local.access_key]
        command = [sys.executable, "-m", script, str(folder), *where]
        done = subprocess.run(command, cwd=repo, capture_output=True, text=True, timeout=110)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run
