"""The session helper: settings as values, and the resulting session."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import odps_nb.spark
from odps_nb.errors import ConfigError, MissingDependencyError
from odps_nb.spark.launch import worker_daemon
from odps_nb.spark.launch.session_factory import (
    REDACTION,
    defaults,
    local_zone,
    machine_memory,
)
from odps_nb.spark.versions import pyspark_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.client.calls.progress import ProgressSnapshot, ProgressTracker

DAEMON = "odps_nb.spark.launch.worker_daemon"


WITHOUT_PYSPARK = """
import sys
sys.modules["pyspark"] = None
import odps_nb.spark
for name in odps_nb.spark.__all__:
    try:
        getattr(odps_nb.spark, name)
    except odps_nb.errors.MissingDependencyError as error:
        print(name, error.extra)
"""


def test_a_function_whose_module_needs_pyspark_names_the_extra() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_PYSPARK], capture_output=True, text=True)
    assert not done.stderr
    assert done.stdout.splitlines() == ["write spark"]


def test_a_missing_pyspark_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingDependencyError, match="not installed") as caught:
        odps_nb.spark.session()
    assert caught.value.extra == "spark"
    assert "odps-nb[spark]" in str(caught.value.hint)


def test_an_old_pyspark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.4.4")
    with pytest.raises(MissingDependencyError, match=r"3\.4\.4 is too old"):
        pyspark_version()


@pytest.mark.parametrize("master", ["local", "local[*]", "local-cluster[2,1,1024]"])
def test_local_masters_bind_to_loopback(master: str) -> None:
    settings = defaults(master)
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"


def test_a_session_on_a_remote_cluster_keeps_its_addresses_and_memory() -> None:
    settings = defaults("spark://10.0.0.7:7077")
    ours = {"spark.driver.host", "spark.driver.bindAddress", "spark.driver.memory"}
    assert not {*ours, "spark.ui.enabled"} & {*settings}


@pytest.mark.parametrize(
    "master", ["yarn", "k8s://https://10.0.0.7:6443", "spark://localhost:7077"]
)
def test_the_ui_of_a_cluster_is_not_disabled(master: str) -> None:
    assert "spark.ui.enabled" not in defaults(master)


def test_the_heap_leaves_memory_free_on_small_and_large_machines() -> None:
    heap = defaults("local[*]")["spark.driver.memory"]
    assert 1024 <= int(heap.removesuffix("m")) <= 8192


def test_a_memory_limit_of_a_container_is_respected(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text("1000000\n")
    assert machine_memory((str(limit),)) == 1_000_000
    limit.write_text("max\n")
    assert (machine_memory((str(limit),)) or 2_000_000) > 1_000_000


@pytest.mark.parametrize(
    "name",
    [
        "odps.access_key",
        "odps.access_id",
        "ODPS_ACCESS_KEY",
        "sts_token",
        "bearer",
        "spark.x.accessKey",
        "password",
    ],
)
def test_spark_redacts_the_option_names_of_odps_nb(name: str) -> None:
    assert re.search(REDACTION, name)


def test_the_time_zone_is_that_of_tz_or_of_the_localtime_link(tmp_path: Path) -> None:
    link = tmp_path / "localtime"
    link.symlink_to("/usr/share/zoneinfo/Asia/Shanghai")
    assert local_zone({"TZ": ":Europe/Berlin"}, link) == "Europe/Berlin"
    assert local_zone({}, link) == "Asia/Shanghai"


def test_an_invalid_spark_setting_is_refused_before_java_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Another test of this run may hold the session; here there is none.
    monkeypatch.setattr("odps_nb.spark.launch.session_factory._running", lambda: None)
    with pytest.raises(ConfigError, match="'memory'"):
        odps_nb.spark.session(memory="2g")


class RecordingListener:
    """A progress listener that records its calls."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str]] = []

    def start(self, tracker: ProgressTracker) -> None:
        self.stop(tracker.snapshot())

    def stop(self, snapshot: ProgressSnapshot) -> None:
        self.told.append((snapshot.operation, snapshot.title, snapshot.phase.value))


def test_progress_of_a_session_start_begins_before_the_search_for_java(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard = RecordingListener()
    monkeypatch.setattr("odps_nb.spark.launch.session_factory._running", lambda: None)

    def no_java() -> None:
        assert heard.told == [("start", "Spark", "creating session")]
        raise MissingDependencyError("no Java")

    monkeypatch.setattr("odps_nb.spark.launch.session_factory.find_java", no_java)
    with pytest.raises(MissingDependencyError):
        odps_nb.spark.session(progress=heard)
    assert heard.told[1:] == [("start", "Spark", "failed")]


@pytest.mark.spark
def test_a_local_session_creates_no_folder_near_the_notebook(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("odps_nb.spark.launch.session_factory._running", lambda: None)
    given: list[str] = []

    def made(_: object, ours: dict[str, str], chosen: dict[str, str], *, quiet: bool) -> None:
        given.append({**ours, **chosen}["spark.sql.warehouse.dir"])

    monkeypatch.setattr("odps_nb.spark.launch.session_factory._made", made)
    odps_nb.spark.session("local[2]")
    odps_nb.spark.session("local[2]", spark_sql_warehouse_dir="kept")
    made_folder, kept = given
    assert Path(made_folder).parent == Path(tempfile.gettempdir())
    Path(made_folder).rmdir()  # created by this process; the JVM removes it
    assert kept == "kept"


def test_a_job_of_spark_submit_keeps_its_master_and_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("odps_nb.spark.launch.session_factory._running", lambda: None)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    given: list[tuple[dict[str, str], dict[str, str]]] = []

    def made(_: object, ours: dict[str, str], chosen: dict[str, str], *, quiet: bool) -> None:
        given.append((ours, chosen))

    monkeypatch.setattr("odps_nb.spark.launch.session_factory._made", made)
    odps_nb.spark.session(spark_sql_shuffle_partitions=7)
    assert given == [({}, {"spark.sql.shuffle.partitions": "7"})]


@pytest.mark.spark
def test_the_session_has_the_default_settings_of_odps_nb(spark_session: SparkSession) -> None:
    assert spark_session.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark_session.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark_session.conf.get("spark.sql.session.timeZone") is not None
    assert defaults("local[2]")["spark.ui.enabled"] == "false"  # the tests' session enables it
    assert spark_session.sparkContext.pythonExec == sys.executable


@pytest.mark.spark
def test_workers_run_the_python_of_this_process(spark: SparkSession) -> None:
    def whoami(batches: object) -> object:
        import sys

        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"python": [sys.executable]})

    rows = spark.range(1).coalesce(1).mapInArrow(whoami, "python string").collect()
    assert [row.python for row in rows] == [sys.executable]


@pytest.mark.spark
def test_an_active_session_is_reused_unchanged(spark: SparkSession) -> None:
    before = dict(spark.sparkContext.getConf().getAll())
    again = odps_nb.spark.session("local[7]", spark_sql_shuffle_partitions=99)
    assert again is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    assert dict(spark.sparkContext.getConf().getAll()) == before


@pytest.mark.nightly  # a separate daemon imports everything; this affects only speed
@pytest.mark.spark
def test_a_worker_starts_with_all_modules_that_tasks_of_odps_nb_need(
    spark: SparkSession,
    odps: Connection,
    new_name: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def loaded(batches: object) -> object:
        import sys

        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"name": sorted(sys.modules)})

    def modules() -> set[str]:
        found = spark.range(0, 2, 1, 2).mapInArrow(loaded, "name string").collect()
        return {row.name for row in found}

    # workers with a different environment have a separate daemon, which no test has used
    monkeypatch.setitem(spark.sparkContext.environment, "ODPS_NB_TEST", "a new daemon")
    first = modules()
    assert {*worker_daemon.modules()} < first
    name = new_name("warm")
    odps.create_table(name, "id bigint")
    odps_nb.spark.write(spark.range(8), odps, name)
    assert odps_nb.spark.read(spark, odps, name).filter("true").count() == 8
    assert {name for name in modules() - first if name.startswith("odps_nb")} == set()


@pytest.mark.parametrize("installed", [True, False])
def test_workers_import_pyspark_from_installed_files_if_they_match_the_archive(
    tmp_path: Path, *, installed: bool
) -> None:
    import pyspark

    home = Path(pyspark.__file__).parent
    folder = home / "python" / "lib"
    if not installed:
        folder = Path(shutil.copytree(folder, tmp_path / "pyspark" / "python" / "lib"))
    archives = [str(one) for one in (*folder.glob("*.zip"), *home.glob("jars/spark-core_*.jar"))]
    assert len(archives) == 3
    program = (
        "import sys, zipimport\n"
        "from odps_nb.spark.launch import worker_daemon\n"
        "worker_daemon.leave_archives()\n"
        "import py4j, pyspark.worker\n"
        "archives = [f for f in sys.path_importer_cache.values()"
        " if isinstance(f, zipimport.zipimporter) and 'spark' in f.archive]\n"
        "print(pyspark.__file__, bool(archives))"
    )
    path = os.pathsep.join([*archives, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    where = pyspark.__file__ if installed else str(folder / "pyspark.zip/pyspark/__init__.py")
    assert done.stdout.split() == [where, str(not installed)]


def test_workers_without_odps_nb_keep_the_default_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> object:
        raise metadata.PackageNotFoundError(name)

    setting = "spark.python.daemon.module"
    assert defaults("local[2]")[setting] == DAEMON
    assert setting not in defaults("spark://elsewhere:7077")
    monkeypatch.setattr(metadata, "distribution", none)
    assert setting not in defaults("local[2]")
