"""Several streams of one write session, in one process and in other processes."""

from __future__ import annotations

import pickle
import threading

import pytest

from odps_nb.client.write.operations import StreamReceipt, WriteSessionRef
from odps_nb.client.write.session import (
    commit_write,
    fetch_write_state,
    open_write_session,
    resume_write_session,
)
from odps_nb.client.write.stream import WriteStream
from odps_nb.errors import ConflictError, InvalidRequestError, RequestTimeoutError, StateError
from odps_nb.http.retry import RetryPolicy
from odps_nb.terms import PartitionSpec
from tests.support.sockets.ledger import Ledger
from tests.support.sockets.scripted import TABLE, numbers
from tests.support.sockets.writes import ROWS, batches, write


def test_streams_are_written_concurrently():
    with Ledger() as service, open_write_session(service.storage, TABLE, part_bytes=80) as session:
        streams = [session.open_stream(str(n)) for n in range(4)]

        def fill(stream, n) -> None:
            stream.write(batches(n * 25, n * 25 + 25, 5))
            stream.close()

        threads = [threading.Thread(target=fill, args=(s, n)) for n, s in enumerate(streams)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        session.commit()
    assert service.committed == list(range(ROWS))


def test_handles_and_receipts_can_be_sent_between_processes():
    with Ledger() as service, service.client() as storage:
        session = open_write_session(storage, TABLE, partition=PartitionSpec.of("ds=x"))
        ref = pickle.loads(pickle.dumps(session.ref))
        assert ref == session.ref
        receipts = []
        for n in range(2):
            with WriteStream(storage, ref, f"task-{n}", 3).start() as stream:
                stream.write(batches(n * 50, n * 50 + 50))
            receipts.append(pickle.loads(pickle.dumps(stream.close())))
        assert receipts[1] == StreamReceipt(stream_id="task-1", version=3, rows=50, size=400)
        commit_write(storage, ref, receipts)
    assert service.committed == list(range(ROWS))
    assert service.calls["CommitWriteSession"][0].streams == (("task-0", 3), ("task-1", 3))


def test_a_commit_is_refused_while_a_stream_is_open():
    with Ledger() as service, open_write_session(service.storage, TABLE) as session:
        stream = session.open_stream()
        stream.write(batches())
        with pytest.raises(StateError, match="still open"):
            session.commit()
        stream.close()
        session.commit()
        for call in (session.commit, session.open_stream, lambda: stream.write([])):
            with pytest.raises(StateError):
                call()
        session.abort()
    assert service.committed == list(range(ROWS))


def test_a_stream_that_failed_cannot_be_committed():
    with Ledger() as service, service.client() as storage:
        service.faults["WriteRows"].append("400")
        session = open_write_session(storage, TABLE)
        stream = session.open_stream()
        with pytest.raises(InvalidRequestError):
            stream.write(batches())
        for call in (stream.close, session.commit, lambda: stream.write([])):
            with pytest.raises(StateError):
                call()
        session.abort()
        session.abort()
    assert service.log.count("AbortWriteSession") == 1


def test_a_stream_with_an_unknown_number_of_rows_is_not_resumed():
    with Ledger(counts=False) as service, service.client() as storage:
        session = open_write_session(storage, TABLE)
        session.open_stream()
        with pytest.raises(ConflictError, match="does not report how many rows"):
            session.open_stream(resume=True)


@pytest.mark.parametrize("call", [resume_write_session, fetch_write_state])
@pytest.mark.parametrize("session", ["tunnel:1", "v1:1"])
def test_a_session_of_blocks_cannot_be_used_elsewhere(call, session):
    with (
        Ledger() as service,
        service.client() as storage,
        pytest.raises(StateError, match="only by the object that opened it"),
    ):
        call(storage, WriteSessionRef(table=TABLE, session_id=session))
    assert not service.log


def test_a_commit_without_rows_adds_no_rows():
    with Ledger() as service, open_write_session(service.storage, TABLE, overwrite=True) as session:
        with session.open_stream() as stream:
            assert stream.write([]) == 0
            assert stream.write(numbers(0, 0).to_batches()) == 0
        session.commit()
    assert service.committed == []
    assert service.calls["WriteRows"] == []
    assert service.calls["CreateWriteSession"][0].overwrite is True


def test_the_schema_is_requested_at_most_once():
    with Ledger() as service, service.client() as storage:
        session = open_write_session(storage, TABLE)
        assert session.write_schema.column_ids == {"id": 0}
        assert session.write_schema is session.write_schema
        assert len(service.calls["GetWriteSchema"]) == 1
        other = open_write_session(storage, TABLE)
        other.open_stream()
        assert other.write_schema.schema.names == ("id",)
        assert len(service.calls["GetWriteSchema"]) == 1


def test_no_repr_shows_a_secret():
    with Ledger() as service, service.client() as storage:
        session = open_write_session(storage, TABLE)
        stream = session.open_stream()
        assert repr(session) == "<WriteSession p.t ws open>"
        assert repr(stream) == "<WriteStream 0 version 1, 0 rows, open>"


def test_a_silent_server_raises_a_timeout_and_nothing_is_committed():
    with Ledger() as service:
        service.faults["CreateWriteStream"].extend(["stall"] * 3)
        with pytest.raises(RequestTimeoutError):
            write(service, read_timeout=0.1, retry=RetryPolicy(max_attempts=2))
        assert service.committed is None
