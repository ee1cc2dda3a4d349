"""Histories of a simulated world: none ends wrong, and without a safeguard one does, soon.

``ODPS_NB_SIMULATE`` names how many seeds the nightly test plays. A failing seed is shrunk and told.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest

from odps_nb.client.read import resume, splits
from odps_nb.client.write import session as write_session
from odps_nb.client.write.stream import WriteStream
from odps_nb.errors import OdpsNbError
from odps_nb.spark.source import stream_writer
from odps_nb.wire.arrow_stream import EndMarkerCheck
from tests.model.client import ModelLog
from tests.model.test_commit_protocol import no_longer_in_doubt, sent_again
from tests.simulation.scenarios import SCENARIOS, History, simulate
from tests.simulation.shrinking import fewest, first_failure, plan_of, shrunk, story
from tests.simulation.world import FAULTS, Plan, greenlets_for_threads

GATE = 120
NIGHTLY = int(os.environ.get("ODPS_NB_SIMULATE", "100000"))


@pytest.fixture(autouse=True)
def greenlets(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.CRITICAL)
    with greenlets_for_threads():
        yield


def require_none(seeds: range) -> None:
    found = first_failure(map(plan_of, seeds))
    assert found is None, f"seed {found.plan}\n{story(shrunk(found))}"


def test_no_history_ends_wrong_and_every_fault_is_met() -> None:
    met = set()
    for seed in range(GATE):
        history = simulate(plan_of(seed))
        assert not history.verdict, f"seed {seed}\n{story(shrunk(history))}"
        met |= {line.partition("<-- ")[2] for line in history.log}
    assert set(FAULTS) - met == set()


@pytest.mark.nightly  # ten minutes; the gate plays the first seeds
@pytest.mark.timeout(3600)
def test_no_history_of_many_ends_wrong() -> None:
    require_none(range(NIGHTLY))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_seed_plays_the_same_history_again(scenario: str) -> None:
    for seed in range(8):
        assert simulate(Plan.of(scenario, seed)) == simulate(Plan.of(scenario, seed))


def test_what_is_not_needed_is_left_out() -> None:
    assert fewest(tuple(range(20)), lambda some: {3, 11} <= set(some)) == (3, 11)


# -- without a safeguard --------------------------------------------------------------------------


def from_the_start(request: Any, keeper: Any, cancel: Any, session: Any, row: int) -> Any:
    return request


#: Where each safeguard stands, what is there instead, and the scenario that breaks,
#: with its first seed that finds it.
SAFEGUARDS: dict[str, tuple[list[tuple[Any, str, Any]], str, int]] = {
    "uploads carry the offset of their rows": (
        [(WriteStream, "is_exactly_once", False), (WriteStream, "_look_up", sent_again)],
        "write",
        0,
    ),
    "what stays unknown is said to be": (
        [(write_session.WriteSession, "_is_done_after_all", no_longer_in_doubt)],
        "write",
        73,
    ),
    "a lost answer may mean that it was done": (
        [(write_session, "may_have_been_done", lambda error: False)],
        "write",
        73,
    ),
    "a commit is noted before it is asked for": (
        [(ModelLog, "note", lambda *_, **__: None)],
        "micro-batch",
        173,
    ),
    "a noted commit is repeated, not written again": (
        [(stream_writer, "_finished", lambda *_: False)],
        "micro-batch",
        173,
    ),
    "a broken stream resumes at its row": (
        [(splits, "_read_from", from_the_start)],
        "read",
        21,
    ),
    "a stream ends with its marker": (
        [(EndMarkerCheck, "require", lambda *_, **__: None)],
        "read",
        21,
    ),
    "a broken read is not its end": (
        [(resume.ResumableRowStream, "_next", lambda rows: ended_by_an_error(rows))],
        "read",
        5,
    ),
}


def ended_by_an_error(rows: Any) -> Any:
    try:
        return rows._advance()
    except OdpsNbError:
        return None


def found_without(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, History]:
    changes, scenario, known = SAFEGUARDS[name]
    for place, attribute, instead in changes:
        monkeypatch.setattr(place, attribute, instead)
    for seed in itertools.chain([known], range(3000)):
        history = simulate(Plan.of(scenario, seed))
        if history.verdict:
            return seed, shrunk(history)
    raise AssertionError(f"nothing goes wrong without: {name}")


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_without_a_safeguard_a_seed_ends_wrong(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seed, history = found_without(name, monkeypatch)
    print(f"\nwithout: {name}; found by seed {seed}\n{story(history)}")
    assert len(history.plan.faults) <= 4, story(history)
    monkeypatch.undo()
    assert simulate(history.plan).verdict == ""
