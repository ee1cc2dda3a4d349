"""Messages of pyspark that repeat known facts are hidden."""

from __future__ import annotations

import contextlib
import io
import logging
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from odps_nb.spark.launch._quiet import be_quiet, without_refused_settings
from tests.support.spark.watched import WITHIN

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def _refused(name: str, code: str = "CANNOT_MODIFY_CONFIG") -> str:
    """The text of `pyspark.sql.connect.conf` in 4.3."""
    return (
        f"Failed to set {name} to Some(some\n(?i)value) due to [{code}] Cannot modify the value of "
        f"the Spark config: \"{name}\".\nSee also 'https://spark.apache.org'. SQLSTATE: 46110"
    )


def test_warnings_about_refused_settings_are_hidden_only_for_settings_of_odps_nb() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with without_refused_settings(["spark.ui.enabled", "spark.driver.host"]):
            warnings.warn(_refused("spark.ui.enabled"), stacklevel=1)
            warnings.warn(
                _refused("spark.driver.host", "CANNOT_MODIFY_STATIC_CONFIG"), stacklevel=1
            )
            warnings.warn(_refused("spark.eventLog.dir"), stacklevel=1)
            warnings.warn(_refused("spark.ui.enabled", "INVALID_CONF_VALUE"), stacklevel=1)
            warnings.warn("Failed to set spark.ui.enabled", stacklevel=1)
        warnings.warn(_refused("spark.ui.enabled"), stacklevel=1)
    assert [str(one.message).partition("]")[0].partition(" due")[0] for one in seen] == [
        "Failed to set spark.eventLog.dir to Some(some\n(?i)value)",
        "Failed to set spark.ui.enabled to Some(some\n(?i)value)",
        "Failed to set spark.ui.enabled",
        "Failed to set spark.ui.enabled to Some(some\n(?i)value)",
    ]


IDLE = """\
Traceback (most recent call last):
  File "/lib/pyspark/python/lib/pyspark.zip/pyspark/daemon.py", line 264, in manager
    code = worker(sock, authenticated)
  File "/lib/pyspark/python/lib/pyspark.zip/pyspark/daemon.py", line 95, in worker
BrokenPipeError: [Errno 32] Broken pipe
"""
OTHERS = [
    IDLE.replace("BrokenPipeError: [Errno 32] Broken pipe", "RuntimeError: unknown module"),
    IDLE.replace("/pyspark/daemon.py", "/work.py", 1),
    IDLE.replace("Traceback (most recent call last):", "Traceback of Java:"),
    "BrokenPipeError: [Errno 32] Broken pipe\n",
    "Traceback (most recent call last):\nBrokenPipeError: [Errno 32] Broken pipe\n",
]
PRINTED = (
    "WARNING: Using incubator modules: jdk.incubator.vector\nError: no room\n"
    + IDLE
    + "".join(line * 2 for line in IDLE.splitlines(keepends=True))
    + "".join(OTHERS)
    + "Traceback (most recent call last):\n  last line"
)
KEPT = "Error: no room\n" + "".join(OTHERS) + "Traceback (most recent call last):\n  last line"

CHILD = f"import os; os.write(2, {PRINTED.encode()!r})"
PARENT = f"""
import subprocess, sys, threading
from odps_nb.spark.launch._quiet import without_harmless_lines

with without_harmless_lines():
    child = subprocess.Popen([sys.executable, "-c", {CHILD!r}])
child.wait()
for thread in threading.enumerate():
    if thread.name == "spark-stderr":
        thread.join(30)
        assert not thread.is_alive()
print("then ours", file=sys.stderr)
"""


def test_only_the_notice_of_java_and_the_errors_of_idle_processes_are_dropped() -> None:
    done = subprocess.run([sys.executable, "-c", PARENT], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, f"{KEPT}then ours\n")


def test_a_process_without_stderr_can_start_a_session() -> None:
    parent = "import os\nos.close(2)\n" + PARENT.replace("file=sys.stderr", "file=sys.stdout")
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "then ours\n")


class Session:
    """A session that can be stopped without ending the Spark session of the other tests."""

    stopped = False

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def quiet() -> Iterator[Session]:
    made = Session()
    be_quiet(made)  # type: ignore[arg-type]
    yield made
    if not made.stopped:
        made.stop()


def test_stopping_the_session_restores_warnings_and_logs() -> None:
    from pyspark.logger import PySparkLogger

    (handler,) = PySparkLogger.getLogger("SQLQueryContextLogger").handlers[:1]
    with warnings.catch_warnings():
        filters, level = list(warnings.filters), handler.level
        session = Session()
        be_quiet(session)  # type: ignore[arg-type]
        assert list(warnings.filters[:-1]) == filters
        assert handler.level > logging.CRITICAL
        session.stop()
        assert (list(warnings.filters), handler.level) == (filters, level)
        assert session.stopped


@pytest.mark.spark
def test_a_failed_query_raises_and_prints_no_json(
    spark: SparkSession, quiet: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.errors import PySparkException
    from pyspark.logger import PySparkLogger
    from pyspark.sql import functions as F

    printed, asked = io.StringIO(), io.StringIO()
    own = logging.StreamHandler(asked)
    logs = [
        PySparkLogger.getLogger(name)
        for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
    ]
    for log in logs:
        monkeypatch.setattr(log.handlers[0], "stream", printed)
        log.addHandler(own)
    try:
        with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
            spark.sql("select 1 / 0 as x").collect()
        with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
            spark.range(1).select(F.lit(1) / F.col("id")).collect()
    finally:
        for log in logs:
            log.removeHandler(own)
    assert printed.getvalue() == ""
    assert asked.getvalue().count('"DIVIDE_BY_ZERO"') == 2  # shown if requested


@pytest.mark.spark
def test_a_worker_that_spark_stops_prints_no_traceback(
    spark: SparkSession, spark_said: Path
) -> None:
    def many(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        import pyarrow as pa

        for _ in range(2000):
            yield pa.RecordBatch.from_pydict({"a": pa.array([os.getpid()] * 10_000, pa.int64())})

    def say(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os

        os.write(2, b"a word at the end\n")  # after all output of this daemon's workers
        yield from batches

    before = spark_said.stat().st_size
    rows = spark.range(1).mapInArrow(many, "a bigint").limit(3).collect()
    assert len(rows) == 3
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(rows[0].a).wait(WITHIN)  # Spark ended the worker early
    spark.range(1).coalesce(1).mapInArrow(say, "id bigint").collect()
    deadline = time.monotonic() + WITHIN
    while b"a word at the end" not in (said := spark_said.read_bytes()[before:]):
        assert time.monotonic() < deadline, said
        time.sleep(0.01)
    assert b"BrokenPipeError" not in said
