"""A connection whose requests are recorded on their way to the service."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import odps_nb
from odps_nb import Connection
from tests.support.compat.recorder import Recorder, recording
from tests.support.forking import Forking


@pytest.fixture(scope="session")
def forking() -> Iterator[Forking]:
    """Runs scripts in separate processes."""
    with Forking() as forking:
        yield forking


@pytest.fixture
def recorder(odps: Connection) -> Iterator[Recorder]:
    """The requests that a proxy in front of the service has recorded."""
    with recording(odps.profile.tunnel_endpoint) as found:
        yield found


@pytest.fixture
def watched(odps: Connection, recorder: Recorder) -> Iterator[Connection]:
    """A connection whose requests are recorded."""
    with odps_nb.connect(
        odps.profile, endpoint=recorder.endpoint, tunnel_endpoint=recorder.base
    ) as found:
        yield found
