"""Checks that no test in this folder leaves a thread behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.threads import running


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(running())
    yield
    left = [t for t in running() if t not in before and t.name.startswith("odps_nb")]
    assert left == []
