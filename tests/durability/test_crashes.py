"""Kills and losses of power after each call of the service on its folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.durability.jobs import JOBS, Job
from tests.durability.page import note
from tests.durability.recorded import Recorder
from tests.durability.runs import record, try_crashes

NAMES = [job.name for job in JOBS]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder in memory where there is one: nothing that is tried there has to last."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as found:
        yield Path(found)


def chosen(*names: str) -> list[Job]:
    return [JOBS[NAMES.index(name)] for name in names]


@pytest.mark.nightly  # minutes
@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_no_crash_loses_what_was_answered_or_shows_a_half(place: Path, power: bool) -> None:
    recording = record(Recorder(place), JOBS)
    crashes = recording.crashes(power=power, thorough=True)
    tried, wrong = try_crashes(crashes, place / "crashed")
    assert not wrong, "\n".join(wrong[:20])
    assert set(tried) >= set(NAMES)
    note("power loss" if power else "SIGKILL", tried)


def test_an_append_survives_the_loss_of_all_that_was_not_synced(place: Path) -> None:
    recording = record(Recorder(place), chosen("create a table", "append"))
    crashes = recording.crashes(power=True, thorough=False, only="append")
    tried, wrong = try_crashes(crashes, place / "crashed")
    assert not wrong, "\n".join(wrong[:20])
    assert tried["append"] >= 10
