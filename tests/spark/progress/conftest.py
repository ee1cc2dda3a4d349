"""A hub without a Spark, whose jobs run for as long as a test says."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from odps_nb.spark.progress.coordinator import Hub
from tests.support.spark.hubs import Listener, SomeJobs


@pytest.fixture
def jobs() -> SomeJobs:
    return SomeJobs()


@pytest.fixture
def hub(jobs: SomeJobs) -> Iterator[Hub]:
    before = set(threading.enumerate())  # a Spark of other tests may have a hub, too
    made = Hub(jobs)
    yield made
    made.close()
    left = {thread.name for thread in threading.enumerate() if thread not in before}
    assert "odps-nb-reports" not in left


@pytest.fixture
def listener() -> Listener:
    return Listener()
