"""A connection reports the service that transfers its rows."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from odps_nb.access.connection import Connection
from tests.support.service.connecting import connected
from tests.support.service.services import ALL, Pool

CASES = [("tunnel", "tunnel"), ("storage-v1,tunnel", "Storage API v1")]


@pytest.fixture
def account(service_pool: Pool) -> Iterator[Callable[..., Connection]]:
    """Return a function that connects to an account with these transfer services."""
    with ExitStack() as stack:

        def connect(names: str, **more: str) -> Connection:
            service = service_pool.get(options=("--services", names))
            return stack.enter_context(connected(service, **more))

        yield connect


def read(odps: Connection) -> int:
    return (
        odps.table("orders").read(["id"], partitions="ds=2024-01-01", limit=3).to_arrow().num_rows
    )


@pytest.mark.parametrize(("names", "used"), CASES)
def test_after_the_first_read_the_service_is_known_and_the_reason_logged_once(
    account: Callable[..., Connection], caplog: pytest.LogCaptureFixture, names: str, used: str
) -> None:
    odps = account(names)
    before = repr(odps)
    assert odps.transfer == "Storage API"
    assert " rows by " not in before
    with caplog.at_level(logging.INFO, logger="odps_nb"):
        assert (read(odps), read(odps)) == (3, 3)
    assert odps.transfer == used
    assert repr(odps) == before.replace(">", f", rows by the {used}>")
    lines = [line for line in caplog.messages if "transferred by" in line]
    assert len(lines) == 1
    assert re.match(f"rows are transferred by the {used}, because ", lines[0])
    assert odps.profile.access_key not in caplog.text + repr(odps)
    odps.close()
    assert repr(odps).endswith(f", rows by the {used} (closed)>")
    assert odps.transfer == used


def test_a_chosen_service_is_known_before_the_first_request(
    account: Callable[..., Connection],
) -> None:
    odps = account(ALL, transfer="tunnel")
    assert odps.transfer == "tunnel"
    assert repr(odps).endswith(", rows by the tunnel>")
    assert (read(odps), odps.transfer) == (3, "tunnel")
    odps = account(ALL, transfer="storage")
    assert (read(odps), odps.transfer) == (3, "Storage API")
    assert " rows by " not in repr(odps)
