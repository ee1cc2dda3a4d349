"""The embedded service responds as recorded in reports of the probe.

Each file in ``recorded`` is the ``probe.json`` of a run of ``odps-nb probe``. The test repeats its
questions and requires the same observations. A report from a real account in this folder becomes a
test of the embedded service. To record the embedded service again::

    odps-nb probe --local --out tests/evidence/recorded/new

and move ``new/probe.json`` over ``recorded/embedded.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odps_nb.client.auth.profile import Profile
from odps_nb.local.server.launch import LocalService
from odps_nb.probe.command import FORMAT
from odps_nb.probe.running import Prober, choose
from odps_nb.terms import TableName
from tests.support.service.connecting import keys_of

REPORTS = sorted((Path(__file__).parent / "recorded").glob("*.json"))
CASES = [
    pytest.param(one, id=f"{path.stem}-{one['id']}")
    for path in REPORTS
    for one in json.loads(path.read_text("utf-8"))["findings"]
    if one["seen"] is not None
]


@pytest.fixture(scope="module")
def prober(empty_service: LocalService) -> Iterator[Prober]:
    profile = Profile(**keys_of(empty_service))
    scratch = TableName(project=empty_service.project, table="replayed")
    with Prober(profile, scratch=scratch) as prober:
        yield prober


def test_reports_have_the_expected_format() -> None:
    assert REPORTS
    assert {json.loads(path.read_text("utf-8"))["format"] for path in REPORTS} == {FORMAT}


@pytest.mark.gate(25)
@pytest.mark.parametrize("recorded", CASES)
def test_the_embedded_service_gives_the_recorded_observations(
    prober: Prober, recorded: dict[str, Any]
) -> None:
    (question,) = choose([recorded["id"]])
    (found,) = prober.ask([question])
    assert json.loads(json.dumps(found.seen)) == recorded["seen"], found.verdict
