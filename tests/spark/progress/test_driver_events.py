"""What Spark's own processes tell the driver of a data source: plans, and states of a write."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.client.calls.progress import Phase
from odps_nb.client.read.splits import ReadSession
from odps_nb.client.write.session import WriteSessionRef
from odps_nb.errors import ConflictError, FramingError
from odps_nb.schema import TableSchema
from odps_nb.spark.progress import operations
from odps_nb.spark.progress.driver_events import ended, planned_read, planned_write, told_commit
from odps_nb.spark.progress.jobs import Outcome
from odps_nb.spark.progress.messages import MAX_LINE, ReportTo, encode_hello, is_hello
from odps_nb.spark.progress.planner_messages import (
    Plan,
    State,
    decode_answer,
    decode_said,
    encode_answer,
    encode_said,
)
from odps_nb.spark.progress.totals import Source
from odps_nb.spark.reading.split_list import SplitList
from odps_nb.terms import TableName
from tests.support.spark.hubs import Listener, SomeJobs, connected, figures, hello

if TYPE_CHECKING:
    from odps_nb.spark.progress.coordinator import Hub

TOKEN = "5a" * 16
TO = ReportTo("127.0.0.1", 1234, TOKEN, 3)
PLAN = Plan(source=3, operation="read", title="p.t", session="s", parts=4, ranges=True, rows=400)
TABLE = TableName(project="p", table="t")
SESSION = ReadSession(
    session_id="s", table=TABLE, schema=TableSchema(columns=()), splits=(), row_count=400
)
FOUR = SplitList(4, 400)

counts = st.integers(0, 2**62 - 1)
plans = st.builds(
    Plan,
    source=counts,
    operation=st.sampled_from(["read", "write"]),
    title=st.text(max_size=150),
    session=st.text(max_size=150),
    parts=counts,
    ranges=st.booleans(),
    rows=st.none() | counts,
)
phases = st.sampled_from([Phase.COMMITTING, Phase.DONE, Phase.CANCELLED, Phase.FAILED])
states = st.builds(State, source=counts, phase=phases, rows=counts, message=st.text(max_size=150))


# -- lines ------------------------------------------------------------------------------------


@given(plans | states)
def test_what_is_said_comes_back_and_fits_a_line(said: Plan | State) -> None:
    line = encode_said(TO, said)
    assert len(line) <= MAX_LINE
    assert not is_hello(line, TOKEN)
    assert decode_said(line.rstrip(b"\n")) == said


def test_long_texts_are_cut() -> None:
    said = State(source=1, phase=Phase.FAILED, message="\N{GRINNING FACE}" * 5000)
    line = encode_said(TO, said)
    assert len(line) <= MAX_LINE
    found = decode_said(line)
    assert isinstance(found, State)
    assert 0 < len(found.message) < 5000


@pytest.mark.parametrize(
    ("said", "name", "value"),
    [
        (PLAN, "operation", "drop"),
        (PLAN, "say", "more"),
        (PLAN, "parts", -1),
        (PLAN, "rows", "400"),
        (PLAN, "title", None),
        (State(source=1, phase=Phase.DONE), "phase", "reading"),
        (State(source=1, phase=Phase.DONE), "rows", 1.5),
    ],
)
def test_what_makes_no_sense_is_refused(said: Plan | State, name: str, value: object) -> None:
    told = json.loads(encode_said(TO, said))
    with pytest.raises(FramingError):
        decode_said(json.dumps({**told, name: value}).encode())


@given(st.binary(max_size=200))
def test_any_bytes_are_our_error(line: bytes) -> None:
    for decode in (decode_said, decode_answer, lambda one: is_hello(one, TOKEN)):
        with pytest.raises(FramingError):
            decode(line)


def test_an_answer_is_a_source() -> None:
    assert decode_answer(encode_answer(7)) == 7


# -- over a socket ----------------------------------------------------------------------------


@pytest.fixture
def root(hub: Hub, listener: Listener) -> ReportTo:
    """Where planners of a session speak."""
    whole = Source(operation="", title="", phase=Phase.CREATING, listener=listener)
    return hub.add(whole)


def read_of(root: ReportTo) -> ReportTo:
    to = planned_read(root, SESSION, FOUR)
    assert to is not None
    return to


def write_of(root: ReportTo) -> ReportTo:
    to = planned_write(root, WriteSessionRef(table=TABLE, session_id="w"))
    assert to is not None
    return to


def written(to: ReportTo, listener: Listener, *parts: int) -> None:
    """Let tasks write ten rows each, to their end."""
    for part in parts:
        with connected(to, encode_hello(to, hello(to, part)), figures(10, done=True)) as link:
            link.shutdown(socket.SHUT_WR)
            link.recv(1)
    assert len(listener.trackers) == 1


def test_a_planned_read_has_its_table_rows_and_splits(
    hub: Hub, root: ReportTo, listener: Listener
) -> None:
    to = read_of(root)
    assert to.source != root.source
    with connected(to, encode_hello(to, hello(to, 3)), figures(100, done=True)):
        pass
    end = listener.wait_end()
    assert (end.operation, end.title, end.session_id) == ("read", "p.t", "s")
    assert (end.rows, end.rows_total, len(end.splits)) == (100, 400, 4)
    assert [split.rows_total for split in end.splits] == [100] * 4


def test_the_splits_of_a_server_are_counted_and_too_many_are_not(
    hub: Hub, root: ReportTo, listener: Listener
) -> None:
    for count, shown in ((2, 2), (1 << 18, 1)):
        to = planned_read(root, SESSION, SplitList(count))
        assert to is not None
        with connected(to, encode_hello(to, hello(to, 1)), figures(9, done=True)):
            pass
        assert len(listener.wait_end(len(listener.trackers) or 1).splits) == shown
        listener.ends.clear()
        listener.trackers.clear()


def test_a_plan_needs_a_session_that_is_known(hub: Hub, root: ReportTo) -> None:
    stranger = ReportTo(root.host, root.port, root.token, 99)
    assert planned_read(stranger, SESSION, FOUR) is None
    assert planned_write(stranger, WriteSessionRef(table=TABLE, session_id="w")) is None
    liar = ReportTo(root.host, root.port, "0" * 32, root.source)
    assert planned_read(liar, SESSION, FOUR) is None
    # what was planned plans nothing itself
    assert planned_read(read_of(root), SESSION, FOUR) is None


def test_a_session_is_still_known_after_very_many_plans(hub: Hub, root: ReportTo) -> None:
    numbers = {read_of(root).source for _ in range(300)}
    assert len(numbers) == 300


def test_nobody_asked_and_nobody_there_is_no_trouble() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    for to in (None, ReportTo("127.0.0.1", port, "0" * 32, 1)):
        assert planned_read(to, SESSION, FOUR) is None
        assert planned_write(to, WriteSessionRef(table=TABLE, session_id="w")) is None
        ended(to)
        with told_commit(to, rows=1):
            pass


def test_a_write_ends_with_its_commit_and_not_with_its_tasks(
    hub: Hub, root: ReportTo, listener: Listener
) -> None:
    to = write_of(root)
    written(to, listener, 0, 1)
    hub.settle()  # a cell has ended; the write may go on in a thread
    assert listener.ends == []
    with told_commit(to, rows=15):
        (tracker,) = listener.trackers
        assert tracker.snapshot().phase is Phase.COMMITTING
        hub.settle(KeyboardInterrupt())  # too late
        assert listener.ends == []
    end = listener.wait_end()
    assert (end.operation, end.phase, end.rows) == ("write", Phase.DONE, 15)
    assert hub.operations == ()


def test_a_commit_that_raises_is_a_write_that_failed(
    hub: Hub, root: ReportTo, listener: Listener
) -> None:
    to = write_of(root)
    written(to, listener, 0)
    with pytest.raises(ConflictError), told_commit(to, rows=10):
        raise ConflictError("taken")
    end = listener.wait_end()
    assert (end.phase, end.message) == (Phase.FAILED, "ConflictError: taken")
    ended(to)  # Spark's abort follows, and changes nothing
    assert len(listener.ends) == 1


@pytest.mark.parametrize(
    ("outcome", "phase"),
    [
        (Outcome.FAILED, Phase.FAILED),
        (Outcome.UNKNOWN, Phase.FAILED),
        (Outcome.CANCELLED, Phase.CANCELLED),
    ],
)
def test_a_write_that_is_given_up_ends_as_its_jobs_did(
    hub: Hub, jobs: SomeJobs, root: ReportTo, listener: Listener, outcome: Outcome, phase: Phase
) -> None:
    to = write_of(root)
    written(to, listener, 0)
    jobs.ended = outcome
    ended(to)
    assert listener.wait_end().phase is phase


def test_a_write_that_was_cancelled_before_its_commit_is_over_with_the_cell(
    hub: Hub, root: ReportTo, listener: Listener
) -> None:
    to = write_of(root)
    written(to, listener, 0)
    hub.settle(KeyboardInterrupt())
    assert listener.ends[0].phase is Phase.CANCELLED


def test_a_write_of_which_nothing_more_is_heard_ends_in_the_end(
    hub: Hub, root: ReportTo, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "_UNDECIDED", 0.1)
    written(write_of(root), listener, 0)
    end = listener.wait_end()
    assert (end.phase, end.rows) == (Phase.FAILED, 10)


def test_a_commit_without_rows_is_nothing_to_show(
    hub: Hub, root: ReportTo, listener: Listener
) -> None:
    with told_commit(write_of(root), rows=0):
        pass
    assert listener.trackers == []
