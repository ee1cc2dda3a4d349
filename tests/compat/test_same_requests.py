"""The stock client and ours send the same requests for the same job, versions 2 and 3.

The tests compare method, path, parameters and their order, relevant headers, and body.
`Job.explanation` and ``docs/results/requests.md`` list the intended differences.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odps_nb.local.server.launch import start
from tests.support.compat.record_requests import PAGE, Outcome, page_of, run_jobs
from tests.support.compat.same_jobs import JOBS, Job

pytestmark = [
    pytest.mark.compat,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, int], Outcome]:
    with start(samples=False) as service:
        found = run_jobs(service)
    return {(one.job.name, one.version): one for one in found}


@pytest.mark.gate(4)
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
def test_both_clients_send_the_same_requests_for_a_job(
    outcomes: dict[tuple[str, int], Outcome], job: Job, version: int
) -> None:
    outcome = outcomes[job.name, version]
    strip = job.strip.get(version, lambda sent: sent)
    assert outcome.theirs
    assert [strip(one) for one in outcome.ours] == outcome.theirs


@pytest.mark.parametrize("job", [job for job in JOBS if job.strip], ids=lambda job: job.name)
def test_explained_differences_exist(outcomes: dict[tuple[str, int], Outcome], job: Job) -> None:
    assert job.explanation
    for version in job.strip:
        outcome = outcomes[job.name, version]
        assert outcome.ours != outcome.theirs


def test_every_action_of_the_storage_api_was_compared(
    outcomes: dict[tuple[str, int], Outcome],
) -> None:
    from odps_nb.wire.calls import REQUESTS

    compared = {sent.action for outcome in outcomes.values() for sent in outcome.ours}
    assert compared == {kind.ACTION for kind in REQUESTS}


def test_the_comparison_detects_a_difference(outcomes: dict[tuple[str, int], Outcome]) -> None:
    plain = outcomes["session with defaults", 2].ours[0]
    filtered = outcomes["session with columns, partition and filter", 2].ours[0]
    assert plain != filtered
    assert plain != outcomes["session with defaults", 3].ours[0]


def test_recorded_bodies_equal_the_protocol_page(outcomes: dict[tuple[str, int], Outcome]) -> None:
    body = outcomes["session with defaults", 2].ours[0].body
    assert isinstance(body, str)
    assert json.loads(body)["SplitOptions"]["SplitNumber"] == 268435456


def test_the_page_in_the_docs_equals_the_recorded_requests(
    outcomes: dict[tuple[str, int], Outcome],
) -> None:
    """Regenerate it with ``python -m tests.support.compat.record_requests``."""
    written = Path(PAGE).read_text(encoding="utf-8")
    assert written == page_of(list(outcomes.values()))
