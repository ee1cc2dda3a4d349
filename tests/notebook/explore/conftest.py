"""A profile in these tests is not limited in time."""

import pytest


@pytest.fixture(autouse=True)
def no_time_limit(monkeypatch):
    """Let a profile read as many rows as it needs, even on a busy machine."""
    monkeypatch.setattr("odps_nb.notebook.explore.profiles.sampling.SAMPLE_SECONDS", 60)
