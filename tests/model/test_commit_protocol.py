"""Model checking: our own code in every order of events that could lose or duplicate rows.

No history of `SCENARIOS` within their bounds ends with a wrong result. If any one safeguard is
removed, some history ends with a wrong result, and a replay on the embedded service gives the same
rows.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from itertools import chain, zip_longest
from types import SimpleNamespace
from typing import Any

import pytest

from odps_nb.access.connection import Connection
from odps_nb.client.write import blocks, direct, staging
from odps_nb.client.write import session as write_session
from odps_nb.client.write.stream import WriteStream
from odps_nb.spark.source import stream_writer
from odps_nb.wire.tunnel.calls import GetUpload, OpenUpload, TableOf
from tests.model import scenarios
from tests.model.client import ModelLog
from tests.model.explorer import Bounds, History, explore
from tests.model.replay import replay, values_of
from tests.model.scenarios import SCENARIOS, Scenario
from tests.model.tunnel import EVERYTHING
from tests.support.named import NewName

AT_ONCE = {name: one for name, one in SCENARIOS.items() if not one.timed}
GATE = (Bounds(lost=1, switches=0), Bounds(lost=0, crashes=1, switches=1))


def wrong(scenario: Scenario, bounds: Bounds) -> Iterator[tuple[History, str]]:
    """Yield the histories with a wrong result, each with its description."""
    for history in explore(bounds, scenario.prepare):
        if verdict := scenario.verdict(history):
            yield history, verdict


def first_wrong(scenario: Scenario) -> tuple[History, str] | None:
    """Return a wrong history; several processes explore the bounds concurrently."""
    bounds = (*GATE, scenario.bounds)
    explored = (explore(one, scenario.prepare) for one in bounds)
    for history in chain.from_iterable(zip_longest(*explored)):
        if history is not None and (verdict := scenario.verdict(history)):
            return history, verdict
    return None


def describe(history: History, verdict: str) -> str:
    return "\n  ".join([verdict, *history.story])


@pytest.mark.gate(2)
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_one_fault_repeats_and_loses_no_rows(scenario: Scenario) -> None:
    for bounds in GATE:
        found = next(wrong(scenario, bounds), None)
        assert found is None, describe(*found)


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_no_history_within_the_bounds_has_a_wrong_result(
    scenario: Scenario, record_property: Any
) -> None:
    count = 0
    for history in explore(scenario.bounds, scenario.prepare):
        count += 1
        verdict = scenario.verdict(history)
        assert not verdict, describe(history, verdict)
    record_property("histories", count)


# -- removed safeguards --------------------------------------------------------------------------


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


def all_streams(*given: Any) -> str:
    return re.sub("where .*;", f"where {EVERYTHING};", _STATEMENT(*given))


def numbered_again(stream: blocks.TunnelStream, number: int, *given: Any) -> None:
    _SEND_BLOCK(stream, stream._numbers.next(stream._session.table), *given)


def only_named(session: Any, streams: Any) -> list[Any]:
    names = set(streams)
    return [one for one in session._made if (one.stream_id, one.version) in names]


def added_to(of: TableOf, **_: Any) -> OpenUpload:
    return OpenUpload(of=of)


def whatever_is_there(storage: Any, upload: Any, _: Any, **more: Any) -> None:
    state = storage.call(GetUpload(of=upload.of, upload_id=upload.upload_id))
    blocks.commit_upload(storage, upload, state.blocks, **more)


_STATEMENT, _SEND_BLOCK = staging._statement, blocks.TunnelStream._send_block
_ANY_ID = SimpleNamespace(uuid4=uuid.uuid4, uuid5=lambda *_: uuid.uuid4())

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
        write_session.StorageWriteSession,
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
    "a block keeps its number": (
        blocks.TunnelStream,
        "_send_block",
        numbered_again,
        "tunnel",
    ),
    "the blocks of an upload are compared": (
        direct,
        "commit_upload",
        whatever_is_there,
        "second version",
    ),
    "what stays unknown by the tunnel is said to be": (
        write_session.WriteSession,
        "_is_done_after_all",
        no_longer_in_doubt,
        "tunnel",
    ),
    "what stays unknown by version 1 is said to be": (
        write_session.WriteSession,
        "_is_done_after_all",
        no_longer_in_doubt,
        "version 1",
    ),
    "what stays unknown of a statement is said to be": (
        write_session.WriteSession,
        "_is_done_after_all",
        no_longer_in_doubt,
        "hasty staging",
    ),
    "a statement names its streams": (
        staging,
        "_statement",
        all_streams,
        "staged attempts",
    ),
    "each attempt has a partition of its own": (
        scenarios,
        "attempt_name",
        lambda number: "000000",
        "staged attempts",
    ),
    "a statement has the id of its commit": (
        staging,
        "uuid",
        _ANY_ID,
        "staged micro-batch",
    ),
    "a statement is noted before it is submitted": (
        ModelLog,
        "note",
        lambda *_, **__: None,
        "staged micro-batch",
    ),
    "a noted statement is repeated, not written again": (
        stream_writer,
        "_finished",
        lambda *_: False,
        "staged micro-batch",
    ),
    "a note of a statement replaces no other": (
        ModelLog,
        "note",
        replaced,
        "two staged drivers",
    ),
}


#: Safeguards that back up another safeguard, and are removed together with it.
BACKED_UP: dict[str, list[tuple[Any, str, Any]]] = {
    "uploads carry the offset of their rows": [(WriteStream, "_look_up", sent_again)],
    "the blocks of an upload are compared": [(direct.UploadWriteSession, "_chosen", only_named)],
    "each attempt has a partition of its own": [(staging, "OpenUpload", added_to)],
}


def removed(safeguard: str) -> list[tuple[Any, str, Any]]:
    """Return the attributes to replace as (object, name, replacement)."""
    return [SAFEGUARDS[safeguard][:3], *BACKED_UP.get(safeguard, [])]


@pytest.fixture
def counterexample(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[History, str]]:
    def find(safeguard: str) -> tuple[History, str]:
        with monkeypatch.context() as patch:
            for place, name, instead in removed(safeguard):
                patch.setattr(place, name, instead)
            found = first_wrong(SCENARIOS[SAFEGUARDS[safeguard][3]])
        assert found is not None, f"no wrong result without: {safeguard}"
        return found

    return find


@pytest.mark.gate(3)
@pytest.mark.parametrize("safeguard", SAFEGUARDS)
def test_without_any_one_safeguard_a_history_has_a_wrong_result_in_the_model_and_the_service(
    safeguard: str,
    counterexample: Callable[[str], tuple[History, str]],
    odps: Connection,
    new_name: NewName,
) -> None:
    history, verdict = counterexample(safeguard)
    table = odps.create_table(new_name("model"), "id bigint").name
    assert replay(history, odps._storage, table) == [], describe(history, verdict)
    assert values_of(odps._storage, table) == sorted(history.service.table)


# -- the model itself -----------------------------------------------------------------------------


@pytest.mark.gate(1)
@pytest.mark.parametrize("scenario", AT_ONCE.values(), ids=AT_ONCE)
def test_the_service_responds_like_the_model(
    scenario: Scenario, odps: Connection, new_name: NewName
) -> None:
    histories = list(explore(GATE[0], scenario.prepare))
    for history in histories[:: max(1, len(histories) // 6)]:
        table = odps.create_table(new_name("model"), "id bigint").name
        assert replay(history, odps._storage, table) == [], "\n".join(history.story)
        assert values_of(odps._storage, table) == sorted(history.service.table)
