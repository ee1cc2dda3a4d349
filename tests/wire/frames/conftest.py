"""A size from which blobs are large that tests can reach."""

import pytest

from odps_nb.wire import _frame_parts


@pytest.fixture
def little_retained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let blobs be large at 1000 bytes already."""
    monkeypatch.setattr(_frame_parts, "RETAINED_BYTES", 1000)
