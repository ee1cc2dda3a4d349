"""The stock client, connected to an embedded service without samples."""

from __future__ import annotations

import time

import pytest
from odps import ODPS

from odps_nb.local.server.launch import LocalService
from tests.support.compat.stock import stock_client


@pytest.fixture(scope="module")
def entry(empty_service: LocalService) -> ODPS:
    return stock_client(empty_service)


@pytest.fixture
def name() -> str:
    """The name of a table that does not exist."""
    return f"c{time.time_ns()}"
