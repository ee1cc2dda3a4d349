"""Proves that no test here leaves a thread behind."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.threads import running


def pytest_configure(config: pytest.Config) -> None:
    """Count what the long form of the chaos tests comes to, in the process that shows it."""
    if "ODPS_NB_CHAOS" in os.environ and not hasattr(config, "workerinput"):
        from tests.support.sockets.chaos_tally import ChaosTally

        config.pluginmanager.register(ChaosTally(), "chaos_tally")


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(running())
    yield
    left = [t for t in running() if t not in before and t.name.startswith("odps_nb")]
    assert left == []
