"""The resources that all jobs of the sweep use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odps_nb.access.connection import Connection
from odps_nb.client.auth.profile import Profile
from tests.sweep.jobs import World


@pytest.fixture(scope="module")
def world(profile: Profile, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Their own tables and files, accessed without faults."""
    with Connection(profile) as steady:
        made = World(steady, tmp_path_factory.mktemp("sweep"))
        made.furnish()
        yield made
