"""The service answers requests of real clients as it did when the clients ran.

`python -m tests.support.clients` records them; ``tests/versions`` runs the clients themselves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from odps_nb.local.server.launch import LocalService, start
from tests.support.clients.replaying import Replay

CLIENTS = sorted((Path(__file__).parent / "clients").glob("*.jsonl"))


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    with start(samples=False) as found:
        yield found


def test_every_client_has_recorded_requests() -> None:
    assert CLIENTS


@pytest.mark.parametrize("path", CLIENTS, ids=[path.stem for path in CLIENTS])
def test_recorded_requests_get_the_recorded_responses(service: LocalService, path: Path) -> None:
    replay = Replay(service)
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        expected, found = replay.send(json.loads(line))
        assert found == expected, f"{path.name}, line {number}"
