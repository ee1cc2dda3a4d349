"""Makes the peers of ``tests/http`` importable, and proves that no test leaves a thread behind."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "http"))
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = [t for t in threading.enumerate() if t not in before and t.name.startswith("odps_nb")]
    assert left == []
