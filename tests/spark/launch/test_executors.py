"""Executors with a different Python, none, or one without odps_nb: the errors that users see."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import odps_nb.spark
from odps_nb.errors import ConfigError, MissingDependencyError
from odps_nb.spark.tasks.errors import from_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.spark

#: Runs this Python as Spark starts it (-m pyspark.daemon …), with a small change.
PROGRAM = """#!/bin/sh
exec {python} -c "
import runpy, sys
{change}
sys.argv = sys.argv[2:]
runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)
" "$@"
"""


@pytest.fixture
def workers(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Make the workers of later DataFrames run this Python with a change."""
    ours = spark.sparkContext.pythonExec

    def change(what: str) -> None:
        program = tmp_path / "python"
        if what:
            program.write_text(PROGRAM.format(python=sys.executable, change=what))
            program.chmod(0o755)
        spark.sparkContext.pythonExec = os.fspath(program)

    yield change
    spark.sparkContext.pythonExec = ours


#: Like a remote executor without odps_nb, on which Spark runs its own daemon.
WITHOUT_US = "sys.modules['odps_nb'] = None; sys.argv[2] = 'pyspark.daemon'"


@pytest.mark.nightly
def test_an_error_for_a_missing_package_says_where_to_install_the_package(
    spark: SparkSession,
    odps: Connection,
    new_name: Callable[[str], str],
    workers: Callable[[str], None],
) -> None:
    name = new_name("lonely")
    odps.create_table(name, "id bigint")
    workers(WITHOUT_US)
    with pytest.raises(MissingDependencyError, match="odps_nb is not installed there") as typed:
        odps_nb.spark.write(spark.range(3), odps, name)
    assert f"pip install odps-nb=={odps_nb.__version__}" in str(typed.value.hint)
    assert sys.executable in " ".join(typed.value.notes)
    assert "java" not in str(typed.value).lower()


def test_the_data_source_reports_a_package_that_executors_lack(
    spark: SparkSession, odps: Connection, tmp_path: Path
) -> None:
    # The driver has the package, and the Python that loads the reader for a task does not.
    odps_nb.spark.register(spark)
    given = {**odps_nb.spark.options(odps), "table": "orders"}
    from odps_nb.spark.source.data_source import OdpsDataSource

    source = OdpsDataSource(given)
    reader = pickle.dumps(source.reader(source.schema()))
    assert pickle.loads(reader).partitions()
    program = tmp_path / "task.py"
    lines = ["import pickle, sys", "sys.modules['odps_nb'] = None", f"pickle.loads({reader!r})"]
    program.write_text("\n".join(lines))
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    error = from_spark(RuntimeError(done.stderr))
    assert isinstance(error, MissingDependencyError), done.stderr
    assert "odps_nb is not installed there" in error.message
    assert f"pip install odps-nb=={odps_nb.__version__}" in str(error.hint)


def test_a_path_without_a_python_is_reported(
    spark: SparkSession,
    odps: Connection,
    new_name: Callable[[str], str],
    workers: Callable[[str], None],
) -> None:
    name = new_name("nowhere")
    odps.create_table(name, "id bigint")
    workers("")
    with pytest.raises(ConfigError, match="no Python at") as caught:
        odps_nb.spark.write(spark.range(3), odps, name)
    assert caught.value.option == "PYSPARK_PYTHON"
    assert odps.table(name).read().row_count == 0


def test_another_python_version_is_reported_with_both_versions() -> None:
    # The text of pyspark 4.0 to 4.3, which only a second Python would produce.
    told = (
        "An exception was thrown from the Python worker:\n  File worker.py, line 4174\n"
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in "
        "worker has different version: 3.10 than that in driver: 3.11, PySpark cannot run with "
        "different minor versions.\nPlease check environment variables PYSPARK_PYTHON"
    )
    error = from_spark(RuntimeError(told))
    assert isinstance(error, ConfigError)
    assert error.message == "the executors run Python 3.10, but the driver runs 3.11"
    assert "a Python 3.11 that every executor has" in str(error.hint)
