"""Values come back as they were written, also the nanoseconds that only some services give."""

from __future__ import annotations

import pytest

from odps_nb import Connection


@pytest.fixture(scope="session")
def odps(wide: Connection) -> Connection:
    """A connection to a service that gives all times in nanoseconds that 64 bits hold."""
    return wide
