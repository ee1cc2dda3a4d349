"""A write is committed completely, or raises an error and commits nothing."""

from __future__ import annotations

import pickle
import threading

import pytest

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.write.operations import WriteSessionRef
from odps_nb.client.write.session import abort_write, open_write_session
from odps_nb.errors import (
    BrokenStreamError,
    CancelledError,
    InvalidRequestError,
    ServerFaultError,
    explain,
)
from odps_nb.http.retry import RetryPolicy
from tests.support.sockets.ledger import Ledger
from tests.support.sockets.scripted import TABLE
from tests.support.sockets.writes import ROWS, batches, write


@pytest.mark.parametrize("fault", ["drop", "lost", "503", "503 after", "429", "rubbish"])
def test_the_outcome_of_a_commit_without_a_response_is_looked_up(fault):
    with Ledger() as service:
        service.faults["CommitWriteSession"].append(fault)
        write(service)
        assert service.committed == list(range(ROWS))
        lost = fault in ("lost", "503 after", "rubbish")
        assert len(service.calls["CommitWriteSession"]) == (1 if lost else 2)
        assert "AbortWriteSession" not in service.log


def test_an_unknown_outcome_of_a_commit_is_reported():
    with Ledger() as service:
        service.faults["CommitWriteSession"].append("lost")
        service.faults["GetWriteSession"].extend(["500"] * 9)
        with pytest.raises(BrokenStreamError) as caught:
            write(service, retry=RetryPolicy(max_attempts=2))
        assert service.committed == list(range(ROWS))
    assert caught.value.in_doubt
    assert pickle.loads(pickle.dumps(caught.value)).in_doubt
    notes = " ".join(caught.value.notes)
    assert "the outcome of the commit is unknown" in notes
    assert "the session had ended before it could be aborted" in notes
    to_do = (
        "to do: check whether the commit or statement has succeeded before you repeat it; then "
        "try again"
    )
    assert explain(caught.value)[-1] == caught.value.__notes__[-1] == to_do


def test_a_commit_in_doubt_succeeds_if_the_abort_finds_the_session_committed():
    with Ledger() as service:
        service.faults["CommitWriteSession"].append("lost")
        service.faults["GetWriteSession"].extend(["500"] * 2)
        write(service, retry=RetryPolicy(max_attempts=2))
        assert service.committed == list(range(ROWS))
        assert service.log[-2:] == ["AbortWriteSession", "GetWriteSession"]


def test_a_commit_in_doubt_fails_if_the_session_was_aborted_first():
    with Ledger() as service:
        service.faults["CommitWriteSession"].append("drop")
        service.faults["GetWriteSession"].extend(["500"] * 2)
        with pytest.raises(BrokenStreamError) as caught:
            write(service, retry=RetryPolicy(max_attempts=2))
        assert (service.committed, service.status) == (None, "ABORTED")
    assert not caught.value.in_doubt
    assert caught.value.notes[-1] == "the write was aborted; none of its rows are in the table"


def test_a_refused_commit_raises_an_error_and_aborts_the_session():
    with Ledger() as service:
        service.faults["CommitWriteSession"].append("400")
        with pytest.raises(InvalidRequestError):
            write(service)
        assert (service.committed, service.status) == (None, "ABORTED")


def test_leaving_the_block_without_a_commit_aborts_the_session():
    with (
        Ledger() as service,
        open_write_session(service.storage, TABLE) as session,
        session.open_stream() as stream,
    ):
        stream.write(batches())
    assert (service.committed, service.status) == (None, "ABORTED")
    assert "aborted" in repr(session)


@pytest.mark.parametrize("when", ["interrupt", "rows", "commit"])
def test_an_interrupt_or_a_cancellation_aborts_the_write(when):
    token = CancelToken()

    def rows():
        yield from batches(0, 50)
        if when == "interrupt":
            raise KeyboardInterrupt
        if when == "rows":
            token.cancel()
        yield from batches(50, 100)

    def run(storage):
        with open_write_session(storage, TABLE, part_bytes=240, cancel=token) as session:
            with session.open_stream() as stream:
                stream.write(rows())
            token.cancel()
            session.commit()

    kind = KeyboardInterrupt if when == "interrupt" else CancelledError
    with Ledger() as service, pytest.raises(kind) as caught:
        run(service.storage)
    assert (service.committed, service.status) == (None, "ABORTED")
    if kind is CancelledError:
        assert caught.value.notes[-1] == "the write was aborted; none of its rows are in the table"


def test_cancelling_wakes_an_upload_that_waits_for_its_response():
    token = CancelToken()
    left = threading.Event()

    def cancel(line, seen) -> None:
        token.cancel()
        if line.wait_closed(20):  # a third of the client's time-out
            left.set()

    def run(storage):
        with open_write_session(storage, TABLE, cancel=token) as session:
            session.open_stream().write(batches())

    with Ledger() as service, service.client(read_timeout=60.0) as storage:
        service._steps["WriteRows"][0] = cancel
        with pytest.raises(CancelledError):
            run(storage)
        assert left.wait(30)
    assert (service.committed, service.status) == (None, "ABORTED")


def test_a_failed_abort_is_noted_in_the_error():
    with Ledger() as service:
        service.faults["WriteRows"].append("400")
        service.faults["AbortWriteSession"].extend(["500"] * 9)
        with pytest.raises(InvalidRequestError) as caught:
            write(service)
    assert "could not be aborted and will expire" in caught.value.notes[-1]


def test_a_failing_server_does_not_delay_an_abort():
    with Ledger() as service:
        service.faults["AbortWriteSession"].extend(["500"] * 9)
        with service.client() as storage, pytest.raises(ServerFaultError):
            abort_write(storage, WriteSessionRef(table=TABLE, session_id="ws", route_token="rt"))
        assert len(service.calls["AbortWriteSession"]) == 2
