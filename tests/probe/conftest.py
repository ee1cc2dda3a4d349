"""A separate service, and a probe that uses it over real sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odps_nb.client.auth.profile import Profile
from odps_nb.local.server.launch import LocalService, start
from tests.support.service.connecting import keys_of


@pytest.fixture(scope="session")
def embedded() -> Iterator[LocalService]:
    with start(samples=True) as running:
        yield running


@pytest.fixture
def profile(embedded: LocalService) -> Profile:
    return Profile(**keys_of(embedded))
