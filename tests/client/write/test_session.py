"""Rows are committed once, all of them, or not at all; whatever happens to requests and answers."""

from __future__ import annotations

import itertools
import pickle
import threading

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.write.parts import iter_parts
from odps_nb.client.write.session import (
    StreamReceipt,
    WriteSessionRef,
    abort_write,
    commit_write,
    open_write_session,
    open_write_stream,
)
from odps_nb.errors import (
    AccessDeniedError,
    BrokenStreamError,
    CancelledError,
    ConflictError,
    ConversionError,
    InvalidRequestError,
    OdpsNbError,
    RequestTimeoutError,
    ServerFaultError,
    StateError,
    ThrottledError,
)
from odps_nb.http.retry import RetryPolicy
from odps_nb.terms import Compression, PartitionSpec
from tests.support.sockets.ledger import Ledger
from tests.support.sockets.scripted import TABLE, numbers

ROWS = 100
PARTS = ["drop", "lost", "503", "503 after", "429", "half", "rubbish", "500"]


def batches(start: int = 0, stop: int = ROWS, step: int = 10) -> list[pa.RecordBatch]:
    return numbers(start, stop).to_batches(max_chunksize=step)


def write(service: Ledger, *, tracker=None, compression=Compression.NONE, **facts):
    facts.setdefault("retry", RetryPolicy(spread=0.0))
    with (
        service.client(**facts) as storage,
        open_write_session(storage, TABLE, part_bytes=240, tracker=tracker) as session,
    ):
        with session.open_stream() as stream:
            written = stream.write(batches(), compression)
        session.commit()
        return written


@pytest.mark.parametrize("compression", list(Compression))
def test_rows_are_written_in_parts_and_committed_once(compression):
    tracker = ProgressTracker("write", "t")
    with Ledger() as service:
        assert write(service, tracker=tracker, compression=compression) == ROWS
    assert service.committed == list(range(ROWS))
    writes = service.calls["WriteRows"]
    assert [call.count for call in writes] == [30, 30, 30, 10]
    assert [call.row_offset for call in writes] == [0, 30, 60, 90]
    assert {call.access_token for call in writes} == {"at-0"}
    assert service.calls["CommitWriteSession"][0].streams == (("0", 1),)
    shown = tracker.snapshot()
    assert (shown.rows, shown.phase, shown.session_id) == (ROWS, Phase.COMMITTING, "ws")
    assert shown.complete_bytes == shown.decoded_bytes == 800
    assert shown.verified_bytes == 0
    assert shown.splits[0].done


@pytest.mark.parametrize("fault", PARTS)
def test_one_fault_in_an_upload_doubles_and_loses_nothing(fault):
    for place in range(4):
        with Ledger() as service:
            service.faults["WriteRows"].extend([""] * place + [fault])
            assert write(service) == ROWS
            assert service.committed == list(range(ROWS))


@settings(max_examples=60)
@given(faults=st.lists(st.sampled_from(["", *PARTS]), max_size=12))
def test_any_faults_in_uploads_double_and_lose_nothing(faults):
    with Ledger() as service:
        service.faults["WriteRows"].extend(faults)
        write(service, retry=RetryPolicy(max_attempts=20, deadline=1e9))
        assert service.committed == list(range(ROWS))


@settings(max_examples=80)
@given(
    faults=st.dictionaries(
        st.sampled_from(
            [
                "CreateWriteSession",
                "CreateWriteStream",
                "WriteRows",
                "GetWriteStream",
                "CloseWriteStream",
                "CommitWriteSession",
                "GetWriteSession",
                "AbortWriteSession",
            ]
        ),
        st.lists(st.sampled_from(["", *PARTS[:5], "400", "403"]), max_size=4),
        max_size=4,
    )
)
def test_a_write_commits_everything_once_or_raises_and_commits_nothing(faults):
    with Ledger() as service:
        for name, some in faults.items():
            service.faults[name].extend(some)
        try:
            write(service, retry=RetryPolicy(max_attempts=4, spread=0.0))
        except OdpsNbError as error:
            in_doubt = any("unknown" in note for note in error.notes)
            assert service.committed is None or in_doubt
        else:
            assert service.committed == list(range(ROWS))


def test_silence_after_an_upload_is_looked_up():
    with Ledger() as service:
        service.faults["WriteRows"].append("stall")
        assert write(service, read_timeout=0.2) == ROWS
        assert service.committed == list(range(ROWS))
        assert len(service.calls["WriteRows"]) == 4
        assert len(service.calls["GetWriteStream"]) == 1


def test_a_lost_answer_is_told_and_the_new_token_is_used():
    tracker = ProgressTracker("write", "t")
    with Ledger() as service:
        service.faults["WriteRows"].append("lost")
        write(service, tracker=tracker)
        assert [call.access_token for call in service.calls["WriteRows"]] == [
            "at-0",
            "at-1",
            "at-1",
            "at-1",
        ]
    assert "the answer was lost, the rows are there" in tracker.snapshot().events[0]


def test_without_offsets_a_lost_answer_that_counts_is_believed():
    with Ledger(exactly_once=False) as service:
        service.faults["WriteRows"].append("lost")
        assert write(service) == ROWS
        assert service.committed == list(range(ROWS))
        assert {call.row_offset for call in service.calls["WriteRows"]} == {None}


@pytest.mark.parametrize("fault", ["drop", "half", "503"])
def test_without_offsets_nothing_is_sent_twice(fault):
    with Ledger(exactly_once=False) as service:
        service.faults["WriteRows"].append(fault)
        with pytest.raises(OdpsNbError) as caught:
            write(service)
        assert len(service.calls["WriteRows"]) == 1
        assert service.status == "ABORTED"
    assert "whether these rows arrive is unknown, so they are not sent again" in caught.value.notes
    assert "the write was aborted; nothing of it is in the table" in caught.value.notes


def test_a_server_that_does_not_count_ends_the_write():
    with Ledger(counts=False) as service:
        service.faults["WriteRows"].append("drop")
        with pytest.raises(BrokenStreamError) as caught:
            write(service)
    assert "does not say whether the rows arrived" in caught.value.notes[0]


def test_another_writer_in_the_stream_is_a_conflict():
    with Ledger() as service:
        service.faults["WriteRows"].append("drop")
        original = service._GetWriteStream

        def intruded(request, seen):
            service.rows["0"] += range(1000, 1050)
            return original(request, seen)

        service._GetWriteStream = intruded
        with pytest.raises(ConflictError, match="the server has 50 rows"):
            write(service)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("400", InvalidRequestError), ("403", AccessDeniedError), ("409", ConflictError)],
)
def test_a_refused_upload_aborts_the_session(fault, kind):
    with Ledger() as service:
        service.faults["WriteRows"].append(fault)
        with pytest.raises(kind) as caught:
            write(service)
        assert service.status == "ABORTED"
    assert "TableWrite of 30 rows from row 0 on into stream 0 of p.t" in caught.value.notes[0]
    assert caught.value.notes[-1] == "the write was aborted; nothing of it is in the table"


def test_throttling_without_end_aborts():
    with Ledger() as service:
        service.faults["WriteRows"].extend(["429"] * 9)
        with pytest.raises(ThrottledError):
            write(service, retry=RetryPolicy(max_attempts=3))
        assert service.status == "ABORTED"


# -- commits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["drop", "lost", "503", "503 after", "429", "rubbish"])
def test_a_commit_without_an_answer_is_looked_up(fault):
    with Ledger() as service:
        service.faults["CommitWriteSession"].append(fault)
        write(service)
        assert service.committed == list(range(ROWS))
        lost = fault in ("lost", "503 after", "rubbish")
        assert len(service.calls["CommitWriteSession"]) == (1 if lost else 2)
        assert "AbortWriteSession" not in service.log


def test_a_commit_whose_fate_cannot_be_asked_says_so():
    with Ledger() as service:
        service.faults["CommitWriteSession"].append("lost")
        service.faults["GetWriteSession"].extend(["500"] * 9)
        with pytest.raises(BrokenStreamError) as caught:
            write(service, retry=RetryPolicy(max_attempts=2))
        assert service.committed == list(range(ROWS))
    assert caught.value.in_doubt
    assert pickle.loads(pickle.dumps(caught.value)).in_doubt
    notes = " ".join(caught.value.notes)
    assert "whether it was committed is unknown" in notes
    assert "the session was over before it could be aborted" in notes


def test_a_commit_in_doubt_is_a_success_when_the_abort_finds_it_done():
    with Ledger() as service:
        service.faults["CommitWriteSession"].append("lost")
        service.faults["GetWriteSession"].extend(["500"] * 2)
        write(service, retry=RetryPolicy(max_attempts=2))
        assert service.committed == list(range(ROWS))
        assert service.log[-2:] == ["AbortWriteSession", "GetWriteSession"]


def test_a_commit_in_doubt_is_no_longer_when_the_abort_came_first():
    with Ledger() as service:
        service.faults["CommitWriteSession"].append("drop")
        service.faults["GetWriteSession"].extend(["500"] * 2)
        with pytest.raises(BrokenStreamError) as caught:
            write(service, retry=RetryPolicy(max_attempts=2))
        assert (service.committed, service.status) == (None, "ABORTED")
    assert not caught.value.in_doubt
    assert caught.value.notes[-1] == "the write was aborted; nothing of it is in the table"


def test_a_commit_that_was_refused_is_an_error_and_aborts():
    with Ledger() as service:
        service.faults["CommitWriteSession"].append("400")
        with pytest.raises(InvalidRequestError):
            write(service)
        assert (service.committed, service.status) == (None, "ABORTED")


def test_a_session_left_without_a_commit_is_aborted():
    with (
        Ledger() as service,
        service.client() as storage,
        open_write_session(storage, TABLE) as session,
        session.open_stream() as stream,
    ):
        stream.write(batches())
    assert (service.committed, service.status) == (None, "ABORTED")
    assert "aborted" in repr(session)


def test_an_interrupt_aborts():
    def interrupted():
        yield from batches(0, 50)
        raise KeyboardInterrupt

    def run(storage):
        with open_write_session(storage, TABLE) as session:
            with session.open_stream() as stream:
                stream.write(interrupted())
            session.commit()

    with Ledger() as service, service.client() as storage, pytest.raises(KeyboardInterrupt):
        run(storage)
    assert (service.committed, service.status) == (None, "ABORTED")


def test_cancelling_stops_an_upload_and_aborts():
    token = CancelToken()

    def cancelled():
        yield from batches(0, 50)
        token.cancel()
        yield from batches(50, 100)

    def run(storage):
        with open_write_session(storage, TABLE, part_bytes=240, cancel=token) as session:
            with session.open_stream() as stream:
                stream.write(cancelled())
            session.commit()

    with Ledger() as service, service.client() as storage, pytest.raises(CancelledError) as caught:
        run(storage)
    assert (service.committed, service.status) == (None, "ABORTED")
    assert caught.value.notes[-1] == "the write was aborted; nothing of it is in the table"


def test_cancelling_wakes_an_upload_that_waits_for_its_answer():
    token = CancelToken()
    left = threading.Event()

    def cancel(line, seen) -> None:
        token.cancel()
        if line.wait_closed(20):  # a third of the time after which the client would give up
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


def test_a_cancelled_write_is_not_committed():
    token = CancelToken()

    def run(storage):
        with open_write_session(storage, TABLE, cancel=token) as session:
            with session.open_stream() as stream:
                stream.write(batches())
            token.cancel()
            session.commit()

    with Ledger() as service, service.client() as storage, pytest.raises(CancelledError):
        run(storage)
    assert (service.committed, service.status) == (None, "ABORTED")


def test_a_failed_abort_is_a_note():
    with Ledger() as service:
        service.faults["WriteRows"].append("400")
        service.faults["AbortWriteSession"].extend(["500"] * 9)
        with pytest.raises(InvalidRequestError) as caught:
            write(service)
    assert "could not be aborted and will expire" in caught.value.notes[-1]


def test_a_failing_server_does_not_hold_up_an_abort():
    with Ledger() as service:
        service.faults["AbortWriteSession"].extend(["500"] * 9)
        with service.client() as storage, pytest.raises(ServerFaultError):
            abort_write(storage, WriteSessionRef(table=TABLE, session_id="ws", route_token="rt"))
        assert len(service.calls["AbortWriteSession"]) == 2


# -- streams and states -----------------------------------------------------------------------


def test_streams_are_written_side_by_side():
    with (
        Ledger() as service,
        service.client() as storage,
        open_write_session(storage, TABLE, part_bytes=80) as session,
    ):
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


def test_pieces_of_a_session_travel_between_processes():
    with Ledger() as service, service.client() as storage:
        session = open_write_session(storage, TABLE, partition=PartitionSpec.of("ds=x"))
        ref = pickle.loads(pickle.dumps(session.ref))
        assert ref == session.ref
        receipts = []
        for n in range(2):
            with open_write_stream(storage, ref, f"task-{n}", 3) as stream:
                stream.write(batches(n * 50, n * 50 + 50))
            receipts.append(pickle.loads(pickle.dumps(stream.close())))
        assert receipts[1] == StreamReceipt(stream_id="task-1", version=3, rows=50, size=400)
        commit_write(storage, ref, receipts)
    assert service.committed == list(range(ROWS))
    assert service.calls["CommitWriteSession"][0].streams == (("task-0", 3), ("task-1", 3))


def test_a_commit_needs_every_stream_closed():
    with (
        Ledger() as service,
        service.client() as storage,
        open_write_session(storage, TABLE) as session,
    ):
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


def test_nothing_written_is_committed_as_nothing():
    with (
        Ledger() as service,
        service.client() as storage,
        open_write_session(storage, TABLE, overwrite=True) as session,
    ):
        with session.open_stream() as stream:
            assert stream.write([]) == 0
            assert stream.write(numbers(0, 0).to_batches()) == 0
        session.commit()
    assert service.committed == []
    assert service.calls["WriteRows"] == []
    assert service.calls["CreateWriteSession"][0].overwrite is True


def test_the_schema_is_asked_for_once_or_known_from_a_stream():
    with Ledger() as service, service.client() as storage:
        session = open_write_session(storage, TABLE)
        assert session.write_schema.column_ids == {"id": 0}
        assert session.write_schema is session.write_schema
        assert len(service.calls["GetWriteSchema"]) == 1
        other = open_write_session(storage, TABLE)
        other.open_stream()
        assert other.write_schema.schema.names == ("id",)
        assert len(service.calls["GetWriteSchema"]) == 1


def test_secrets_are_in_no_repr():
    with Ledger() as service, service.client() as storage:
        session = open_write_session(storage, TABLE)
        stream = session.open_stream()
        assert repr(session) == "<WriteSession p.t ws open>"
        assert repr(stream) == "<WriteStream 0 version 1, 0 rows, open>"


def test_silence_for_ever_is_a_timeout_and_not_a_commit():
    with Ledger() as service:
        service.faults["CreateWriteStream"].extend(["stall"] * 3)
        with pytest.raises(RequestTimeoutError):
            write(service, read_timeout=0.1, retry=RetryPolicy(max_attempts=2))
        assert service.committed is None


# -- parts ------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(sizes=st.lists(st.integers(0, 60), max_size=12), max_bytes=st.integers(8, 300))
def test_parts_are_bounded_and_lose_nothing(sizes, max_bytes):
    edges = list(itertools.accumulate(sizes, initial=0))
    source = [
        pa.record_batch({"id": pa.array(range(low, high), pa.int64())})
        for low, high in itertools.pairwise(edges)
    ]
    parts = list(iter_parts(source, max_bytes=max_bytes))
    got = [v for part in parts for batch in part.batches for v in batch.column(0).to_pylist()]
    assert got == list(range(edges[-1]))
    assert all(part.size <= max_bytes and part.rows for part in parts)
    for part in parts:
        rest = part.after(part.rows // 2)
        assert rest.rows == part.rows - part.rows // 2


def test_batches_of_different_columns_are_refused():
    first, second = numbers(0, 3), pa.table({"id": ["a", "b"]})
    with pytest.raises(ConversionError) as caught:
        list(iter_parts([*first.to_batches(), *second.to_batches()]))
    assert (caught.value.column, caught.value.source_type) == ("id", "string")
    wider = first.append_column("x", first.column(0))
    with pytest.raises(ConversionError, match="2 columns and the first has 1"):
        list(iter_parts([*first.to_batches(), *wider.to_batches()]))
