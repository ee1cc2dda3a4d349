"""Fixtures of the explorer's tests."""

import pytest


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A profile reads all the rows it needs, however busy the machine is."""
    monkeypatch.setattr("odps_nb.notebook.explore.profiles.sampling.SAMPLE_SECONDS", 60)
