"""Model checking: our own code in every order of events that could lose or duplicate rows.

`SCENARIOS` within their bounds: no history ends with a wrong result. Removing any safeguard yields
a history that does, which is replayed on the embedded service row for row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pytest

from odps_nb.access.connection import Connection
from odps_nb.client.write import session as write_session
from odps_nb.client.write.stream import WriteStream
from odps_nb.spark.source import stream_writer
from tests.model import scenarios
from tests.model.client import ModelLog
from tests.model.explorer import Bounds, History, explore
from tests.model.replay import replay, values_of
from tests.model.scenarios import SCENARIOS, Scenario

GATE = (Bounds(lost=1, switches=0), Bounds(lost=0, crashes=1, switches=1))


def wrong(scenario: Scenario, bounds: Bounds) -> Iterator[tuple[History, str]]:
    """Yield the histories with a wrong result, each with what is wrong."""
    for history in explore(bounds, scenario.prepare):
        if verdict := scenario.verdict(history):
            yield history, verdict


def told(history: History, verdict: str) -> str:
    return "\n  ".join([verdict, *history.story])


@pytest.mark.gate(2)
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_one_thing_that_goes_wrong_doubles_and_loses_nothing(scenario: Scenario) -> None:
    for bounds in GATE:
        found = next(wrong(scenario, bounds), None)
        assert found is None, told(*found)


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_no_history_within_the_bounds_ends_wrong(scenario: Scenario, record_property: Any) -> None:
    count = 0
    for history in explore(scenario.bounds, scenario.prepare):
        count += 1
        verdict = scenario.verdict(history)
        assert not verdict, told(history, verdict)
    record_property("histories", count)


# -- without a safeguard --------------------------------------------------------------------------


def no_names(*_: Any) -> tuple[()]:
    return ()


def only_names(storage: Any, session: Any, streams: Any) -> tuple[tuple[str, int], ...]:
    return tuple((one.stream_id, one.version) for one in streams)


def sent_again(stream: WriteStream, error: Any, first: int, end: int, attempts: Any) -> None:
    attempts.again(error, idempotent=True)


def no_longer_in_doubt(session: Any, error: Any) -> bool:
    error.in_doubt = False
    return False


def replaced(log: ModelLog, batch: int, intent: Any, **_: Any) -> None:
    log._step("notes its commit", lambda: log._kept.update({(batch, "json"): intent.encode()}))


#: Each safeguard: its location, its replacement, and the scenario that fails without it.
SAFEGUARDS: dict[str, tuple[Any, str, Any, str]] = {
    "a commit names its streams": (
        write_session,
        "named_streams",
        no_names,
        "attempts of a task",
    ),
    "a commit of nothing names an empty stream": (
        write_session,
        "named_streams",
        only_names,
        "nothing counted",
    ),
    "each attempt has a stream of its own": (
        scenarios,
        "attempt_name",
        lambda number: "000000",
        "attempts of a task",
    ),
    "uploads carry the offset of their rows": (
        WriteStream,
        "is_exactly_once",
        False,
        "one writer",
    ),
    "what stays unknown is said to be": (
        write_session.WriteSession,
        "_is_done_after_all",
        no_longer_in_doubt,
        "one writer",
    ),
    "a note replaces no other": (
        ModelLog,
        "note",
        replaced,
        "two drivers",
    ),
    "a commit is noted before it is asked for": (
        ModelLog,
        "note",
        lambda *_, **__: None,
        "micro-batch",
    ),
    "a noted commit is repeated, not written again": (
        stream_writer,
        "_finished",
        lambda *_: False,
        "micro-batch",
    ),
}


@pytest.fixture
def counterexample(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[History, str]]:
    def find(safeguard: str) -> tuple[History, str]:
        place, name, instead, scenario = SAFEGUARDS[safeguard]
        with monkeypatch.context() as patch:
            patch.setattr(place, name, instead)
            if place is WriteStream:
                patch.setattr(place, "_look_up", sent_again)
            one = SCENARIOS[scenario]
            found = next(chain.from_iterable(wrong(one, b) for b in (*GATE, one.bounds)), None)
        assert found is not None, f"nothing goes wrong without: {safeguard}"
        return found

    return find


@pytest.mark.gate(3)
@pytest.mark.parametrize("safeguard", SAFEGUARDS)
def test_without_a_safeguard_a_history_ends_wrong_here_and_on_the_service(
    safeguard: str,
    counterexample: Callable[[str], tuple[History, str]],
    odps: Connection,
    new_name: Callable[[str], str],
) -> None:
    history, verdict = counterexample(safeguard)
    table = odps.create_table(new_name("model"), "id bigint").name
    assert replay(history, odps._storage, table) == [], told(history, verdict)
    assert values_of(odps._storage, table) == history.service.table


# -- the model itself -----------------------------------------------------------------------------


@pytest.mark.gate(1)
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_the_service_answers_as_its_model(
    scenario: Scenario, odps: Connection, new_name: Callable[[str], str]
) -> None:
    histories = list(explore(GATE[0], scenario.prepare))
    for history in histories[:: max(1, len(histories) // 6)]:
        table = odps.create_table(new_name("model"), "id bigint").name
        assert replay(history, odps._storage, table) == [], "\n".join(history.story)
        assert values_of(odps._storage, table) == history.service.table
