"""Proves that no test here leaves a thread behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Count what the long form of the chaos tests comes to, in the process that shows it."""
    if "ODPS_NB_CHAOS" in os.environ and not hasattr(config, "workerinput"):
        from tests.support.sockets.chaos_tally import ChaosTally

        config.pluginmanager.register(ChaosTally(), "chaos_tally")


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [t for t in threading.enumerate() if t not in before and t.name.startswith("odps_nb")]
    assert left == []
