"""A lower size limit for large blobs, which tests can reach."""

import pytest

from odps_nb.wire import _frame_parts


@pytest.fixture
def little_retained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat blobs of 1000 bytes or more as large."""
    monkeypatch.setattr(_frame_parts, "RETAINED_BYTES", 1000)
