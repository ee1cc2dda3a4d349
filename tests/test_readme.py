"""The examples of the README work: its Python blocks run in order, unchanged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import odps_nb

SETTINGS = ("endpoint", "tunnel_endpoint", "project", "access_id", "access_key")


@pytest.fixture
def blocks(repo: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (repo / "README.md").read_text("utf-8"), re.DOTALL)


@pytest.fixture
def environment(service, odps, monkeypatch):
    """The environment that the README assumes. Its tables are dropped afterwards."""
    for name in SETTINGS:
        monkeypatch.setenv(f"ODPS_{name.upper()}", getattr(service, name))
    connect = odps_nb.connect  # the running service: starting a second one is slow
    monkeypatch.setattr(
        odps_nb, "connect", lambda place: connect(None if place == "local" else place)
    )
    yield
    for name in ("report", "status_counts"):
        odps.drop_table(name, if_exists=True)


def test_the_examples_of_reading_and_writing_work_as_shown(blocks, environment):
    names: dict[str, object] = {}
    assert len(blocks) == 5
    for block in blocks[:3]:
        exec(block, names)
    assert names["receipt"].rows == names["df"]["status"].nunique()
    assert names["channels"] == 3
    assert len(names["names"]) == 5
    exec(blocks[4], names)
    assert len(names["sums"].fetchall()) == 5
    assert names["mean"].item() > 1
    assert names["frame"]["amount"].mean().compute() > 1
    names["odps"].close()


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_spark_examples_work_as_shown(blocks, environment, tmp_path, monkeypatch, spark_session):
    monkeypatch.chdir(tmp_path)

    names: dict[str, object] = {}
    exec(blocks[0], names)
    try:
        exec(blocks[3], names)
        assert names["sizes"].count() > 30
        assert names["odps"].table("status_counts").read().to_arrow().num_rows > 1
    finally:
        names["odps"].close()
