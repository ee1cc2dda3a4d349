"""Values are returned as written, including nanoseconds that only some services return."""

from __future__ import annotations

import pytest

from odps_nb import Connection


@pytest.fixture(scope="session")
def odps(wide: Connection) -> Connection:
    """A connection to a service that returns all times that fit into 64 bits in nanoseconds."""
    return wide
