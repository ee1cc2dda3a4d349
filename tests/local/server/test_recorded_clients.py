"""The service answers requests of real clients as it did when the clients ran.

`python -m tests.support.clients` records them; ``tests/versions`` runs the clients themselves.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odps_nb.local.server.launch import LocalService
from tests.support.clients.replaying import Replay

CLIENTS = sorted((Path(__file__).parent / "clients").glob("*.jsonl"))


def test_clients_are_recorded() -> None:
    assert CLIENTS


@pytest.mark.parametrize("path", CLIENTS, ids=[path.stem for path in CLIENTS])
def test_recorded_requests_have_the_recorded_answers(bare: LocalService, path: Path) -> None:
    replay = Replay(bare)
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        expected, found = replay.send(json.loads(line))
        assert found == expected, f"{path.name}, line {number}"
