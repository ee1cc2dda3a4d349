"""A separate service, and a prober that uses it over real sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odps_nb.client.auth.profile import Profile
from odps_nb.local.server.launch import LocalService, start


@pytest.fixture(scope="session")
def embedded() -> Iterator[LocalService]:
    with start(samples=True) as running:
        yield running


@pytest.fixture
def profile(embedded: LocalService) -> Profile:
    return Profile(
        endpoint=embedded.endpoint,
        project=embedded.project,
        access_id=embedded.access_id,
        access_key=embedded.access_key,
    )
