"""Whole histories from seeds: simulated reads and writes end correctly, whatever happens.

``make simulate SEEDS=…`` runs more of them, or repeats one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from odps_nb.client.parallel.fan_out import _Round
from odps_nb.client.read import requests, splits
from odps_nb.client.read.keepalive import SessionKeeper
from odps_nb.client.read.resume import ResumableRowStream
from odps_nb.http.retry import RetryPolicy
from odps_nb.wire.arrow_stream import EndMarkerCheck
from tests.model.test_commit_protocol import SAFEGUARDS as OF_COMMITS
from tests.model.test_commit_protocol import removed
from tests.simulation.plan import KINDS, Fault, Plan, shrunk
from tests.simulation.scenarios import run_plan, story, verdict
from tests.simulation.world import World

GATE = range(400)
NIGHTLY = range(100_000, 150_000)


def is_wrong(plan: Plan) -> bool:
    return bool(verdict(run_plan(plan)))


def story_of(plan: Plan) -> str:
    return story(run_plan(shrunk(plan, is_wrong)))


@pytest.fixture(scope="module")
def worlds() -> list[World]:
    return [run_plan(Plan.of(seed)) for seed in GATE]


def test_no_history_of_the_gate_has_a_wrong_result(worlds: list[World]) -> None:
    wrong = next((world.plan for world in worlds if verdict(world)), None)
    assert wrong is None, story_of(wrong)


@pytest.mark.nightly
def test_no_history_of_many_has_a_wrong_result() -> None:
    wrong = next((plan for plan in map(Plan.of, NIGHTLY) if is_wrong(plan)), None)
    assert wrong is None, story_of(wrong)


def test_a_seed_repeats_the_same_history(worlds: list[World]) -> None:
    for world in worlds[:60]:
        again = run_plan(Plan.of(world.plan.seed))
        assert "\n".join(again.story).encode() == "\n".join(world.story).encode()


def test_every_fault_and_outcome_occurs(worlds: list[World]) -> None:
    assert {kind for world in worlds for kind in world.injected} == set(KINDS)
    assert any("keeper: GetReadSession" in line for world in worlds for line in world.story)
    ends = {type(world.actors[0].error).__name__ for world in worlds}
    assert {"NoneType", "Crash", "SessionExpiredError"} <= ends


def test_a_slow_consumer_does_not_use_up_attempts() -> None:
    # Seed 20023: a stream that broke while the consumer was busy for two minutes was not retried,
    # because the retry deadline was counted from its last row.
    plan = replace(
        Plan.of(20_023, "read"),
        **{"splits": 1, "workers": 1, "limit": None, "tries": 7, "pause": 150.0, "delays": {}},
        faults={1: Fault("cut", 0.9)},
    )
    world = run_plan(plan)
    assert world.injected == ["cut"]
    assert verdict(world) == ""


# -- removed safeguards --------------------------------------------------------------------------


def nothing(*_: Any, **__: Any) -> None:
    """Do nothing."""


def from_the_beginning(*given: Any) -> Any:
    return _FROM_ROW(*given[:-1], 0)


def uncounted(*given: Any, **named: Any) -> Any:
    return _DELIVERED(*given, **{**named, "rows": None})


def within_budget(work: Any, number: int, lane: Any, size: int) -> Any:
    return not work._waiting or work._waiting + size <= min(work._max_waiting, work._left)


_FROM_ROW = requests._from_row
_DELIVERED = splits.delivered

#: The removed safeguards as (place, name, replacement), several if one backs up another.
OF_READS: dict[str, list[tuple[Any, str, Any]]] = {
    "what failed is tried again": [(RetryPolicy, "decide", nothing)],
    "a broken stream resumes at the next row": [(requests, "_from_row", from_the_beginning)],
    "a session is refreshed": [
        (SessionKeeper, "keep", nothing),
        (SessionKeeper, "keep_aside", nothing),
    ],
    "rows are counted, and an end is marked": [
        (ResumableRowStream, "_require_end", nothing),
        (EndMarkerCheck, "require", nothing),
        (splits, "delivered", uncounted),
    ],
    "the lane that is read may always put one more": [(_Round, "_has_room", within_budget)],
    "who waits for a place asks again": [(_Round, "_start_one", nothing)],
}


@contextmanager
def without(places: list[tuple[Any, str, Any]]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for place, name, instead in places:
            patch.setattr(place, name, instead)
        yield


def first_wrong(scenario: str) -> Plan:
    """Return the first plan of a scenario that ends with a wrong result."""
    plans = (Plan.of(seed, scenario) for seed in range(10_000))
    return next(plan for plan in plans if is_wrong(plan))


@pytest.mark.gate(2)
@pytest.mark.parametrize("safeguard", OF_READS)
def test_a_read_without_a_safeguard_is_detected(safeguard: str) -> None:
    with without(OF_READS[safeguard]):
        plan = first_wrong("read")
        assert len(shrunk(plan, is_wrong).faults) <= 1, story_of(plan)
    assert not is_wrong(plan)


@pytest.mark.gate(3)
@pytest.mark.parametrize("safeguard", OF_COMMITS)
def test_a_write_without_a_safeguard_is_detected(safeguard: str) -> None:
    with without(removed(safeguard)):
        plan = first_wrong(OF_COMMITS[safeguard][3])
        assert len(shrunk(plan, is_wrong).faults) <= 3, story_of(plan)
    assert not is_wrong(plan)
