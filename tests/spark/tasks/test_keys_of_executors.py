"""Executors with their own keys: nothing that is pickled for a task contains a key."""

from __future__ import annotations

import json
import os
import pickle
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import odps_nb
import odps_nb.spark
from odps_nb.errors import ConfigError
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.tasks.errors import from_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

NAME = "on_executors"


@pytest.fixture
def program_runs(tmp_path: Path) -> Path:
    """A file to which each run of the credential process adds a line."""
    return tmp_path / "asked"


@pytest.fixture
def named(
    odps: Connection, program_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Connection]:
    """A connection with a profile whose program prints keys; executors see the same files."""
    known = odps.profile
    keys = {"AccessKeyId": known.access_id, "AccessKeySecret": known.access_key}
    script = tmp_path / "keys.py"
    script.write_text(
        "import os\n"
        f"with open({str(program_runs)!r}, 'a') as file:\n"
        "    file.write(f'{os.getppid()}\\n')\n"
        f"print({json.dumps(json.dumps(keys))})\n"
    )
    script.chmod(0o600)
    profiles = Path(os.environ["XDG_CONFIG_HOME"]) / "odps_nb" / "profiles.toml"
    profiles.parent.mkdir(parents=True, exist_ok=True)
    assert not profiles.exists()
    profiles.write_text(
        f"[{NAME}]\n"
        f"endpoint = '{known.endpoint}'\n"
        f"project = '{known.project}'\n"
        f"credential_process = '''{shlex.join([sys.executable, str(script)])}'''\n"
    )
    profiles.chmod(0o600)
    monkeypatch.setenv("ODPS_NB_SPARK_KEYS", "executor")
    try:
        with odps_nb.connect(NAME) as connection:
            yield connection
    finally:
        profiles.unlink()


def test_a_pickled_task_contains_no_key(odps: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    with_keys = pickle.dumps(TaskProfile.of(odps._storage))
    monkeypatch.setenv("ODPS_NB_SPARK_KEYS", "executor")
    task = TaskProfile.of(odps._storage)
    for secret in (odps.profile.access_id, odps.profile.access_key):
        assert str(secret).encode() in with_keys
        assert str(secret).encode() not in pickle.dumps(task)
    for name, value in (("ID", odps.profile.access_id), ("KEY", odps.profile.access_key)):
        monkeypatch.setenv(f"ODPS_ACCESS_{name}", str(value))
    found = pickle.loads(pickle.dumps(task)).profile
    assert (found.access_key, found.endpoint) == (odps.profile.access_key, odps.profile.endpoint)
    assert found.tunnel_endpoint == odps._storage.tunnel_endpoint


@pytest.mark.spark
def test_tasks_read_and_write_with_their_own_keys(
    spark: SparkSession, named: Connection, program_runs: Path, new_name: Callable[[str], str]
) -> None:
    name = new_name("found")
    named.create_table(name, "id bigint")
    odps_nb.spark.write(spark.range(0, 1000, 1, 4), named, name)
    frame = odps_nb.spark.read(spark, named, name, splits=8)
    assert [frame.filter("true").count(), frame.filter("true").count()] == [1000, 1000]
    odps_nb.spark.register(spark, named)
    assert spark.read.format("odps").load(name).count() == 1000
    processes = program_runs.read_text().split()
    assert str(os.getpid()) in processes
    tasks = 4 + 8 + 8 + 1
    assert 1 < len(processes) < tasks  # a worker that runs many tasks runs the program once


@pytest.mark.spark
def test_without_keys_the_error_of_a_task_names_the_missing_setting_and_the_reason(
    spark: SparkSession, odps: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODPS_NB_SPARK_KEYS", "executor")
    frame = odps_nb.spark.read(spark, odps, "media", columns=["id"])
    with pytest.raises(Exception, match="access_key") as caught:
        frame.filter("true").count()
    ours = from_spark(caught.value)
    assert isinstance(ours, ConfigError)
    assert any("ODPS_NB_SPARK_KEYS=executor" in note for note in ours.notes)
    assert "ODPS_ACCESS_KEY" in str(ours.hint)
