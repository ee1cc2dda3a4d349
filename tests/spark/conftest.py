"""The run's Spark session for tests, and a service that stalls for its tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import odps_nb
import odps_nb.spark
from odps_nb.errors import MissingDependencyError
from odps_nb.spark.versions import DATA_SOURCES, pyspark_version
from tests.support.service.connecting import connected
from tests.support.spark.watched import ROWS, Listener, misbehave, stalled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.local.server.launch import LocalService


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow pyspark's warnings about pandas 3, in the tests of this folder only.

    pyspark 4.0 and 4.1 leave a socket of `collect` to the garbage collector.
    """
    here = Path(__file__).parent
    said = ["ignore:PySpark does not yet fully support pandas"]
    if pyspark_version() < (4, 2):
        said.append("ignore:unclosed <socket:ResourceWarning")
    if pyspark_version() < (4, 0):
        said.append("ignore:distutils Version classes are deprecated:DeprecationWarning")
    for item in items:
        if here in item.path.parents:
            for warning in said:
                item.add_marker(pytest.mark.filterwarnings(warning))


# With PySpark 3.5, modules about data sources and Connect are not collected. A test is expected to
# fail if it raises our error for this version, or needs a module that this version lacks.
# `test_versions` lists the functions that may raise the error.
_MISSING = ("pyspark.logger", "pyspark.sql.datasource")
_NEEDING = ["source/*", "progress/test_format.py", "test_connect.py"]
collect_ignore_glob = _NEEDING if pyspark_version() < DATA_SOURCES else []


def _expecting_the_error_of_3_5() -> Generator[None, object, object]:
    try:
        return (yield)
    except (MissingDependencyError, ModuleNotFoundError) as error:
        said = "needs PySpark 4.0 or newer" in str(error) or getattr(error, "name", "") in _MISSING
        if pyspark_version() < DATA_SOURCES and said:
            pytest.xfail(str(error).partition("\n")[0])
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, object, object]:
    return (yield from _expecting_the_error_of_3_5())


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    return (yield from _expecting_the_error_of_3_5())


@pytest.fixture
def spark(spark_session: SparkSession) -> Iterator[SparkSession]:
    """The session in UTC; a test may change its zone."""
    spark_session.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark_session
    spark_session.conf.set("spark.sql.session.timeZone", "UTC")


_watched: list[Any] | None = None


def _note_connection(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and _watched is not None:
        _watched.append(arguments[1])


sys.addaudithook(_note_connection)


@pytest.fixture
def connections() -> Iterator[Callable[[], list[Any]]]:
    """Return the addresses to which this process, the driver, has connected since the last call."""
    global _watched
    _watched = []

    def take() -> list[Any]:
        global _watched
        seen, _watched = _watched or [], []
        return seen

    yield take
    _watched = None


# -- progress: a service that stalls, and a listener -------------------------------------------


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture(scope="session")
def slow_service(services: str, _private_home: None) -> Iterator[LocalService]:
    """A service that stalls on request."""
    from odps_nb.local.server.launch import start

    with start(samples=False, options=("--misbehave",)) as service:
        yield service


@pytest.fixture(scope="session")
def slow(slow_service: LocalService) -> Iterator[Connection]:
    with connected(slow_service) as connection:
        yield connection


@pytest.fixture(scope="session")
def numbers(spark_session: SparkSession, slow: Connection) -> str:
    """A table with `ROWS` numbers."""
    slow.create_table("numbers", "id bigint")
    odps_nb.spark.write(spark_session.range(0, ROWS, 1, 2), slow, "numbers")
    return "numbers"


@pytest.fixture
def stall(slow: Connection) -> Iterator[Callable[..., None]]:
    """Let calls of an action stall for longer than any test waits."""

    yield lambda action, at=0: misbehave(slow, stalled(action, at))
    misbehave(slow)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """A file that tasks wait for; the end of the test creates it if necessary."""
    yield tmp_path / "gate"
    (tmp_path / "gate").touch()
