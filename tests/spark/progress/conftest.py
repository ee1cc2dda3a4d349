"""A coordinator without a Spark, whose jobs run for as long as a test says."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from odps_nb.spark.progress.coordinator import ProgressCoordinator
from tests.support.spark.coordinators import Listener, SomeJobs


@pytest.fixture
def jobs() -> SomeJobs:
    return SomeJobs()


@pytest.fixture
def coordinator(jobs: SomeJobs) -> Iterator[ProgressCoordinator]:
    before = set(threading.enumerate())  # a Spark of other tests may have a coordinator, too
    made = ProgressCoordinator(jobs)
    yield made
    made.close()
    left = {thread.name for thread in threading.enumerate() if thread not in before}
    assert "odps-nb-reports" not in left


@pytest.fixture
def listener() -> Listener:
    return Listener()
