"""Rows are uploaded once, whatever happens to the requests."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.write.operations import iter_parts
from odps_nb.errors import (
    AccessDeniedError,
    BrokenStreamError,
    ConflictError,
    ConversionError,
    InvalidRequestError,
    OdpsNbError,
    ThrottledError,
)
from odps_nb.http.retry import RetryPolicy
from odps_nb.terms import Compression
from odps_nb.wire.calls import WriteRowsAnswer
from tests.support.sockets.ledger import Ledger
from tests.support.sockets.scripted import numbers
from tests.support.sockets.writes import ROWS, write

PARTS = ["drop", "lost", "503", "503 after", "429", "half", "rubbish", "500"]


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


@pytest.mark.gate(4)
@pytest.mark.parametrize("fault", PARTS)
def test_a_single_fault_in_an_upload_repeats_and_loses_no_rows(fault):
    for place in range(4):
        with Ledger() as service:
            service.faults["WriteRows"].extend([""] * place + [fault])
            assert write(service) == ROWS
            assert service.committed == list(range(ROWS))


@settings(max_examples=25)
@given(faults=st.lists(st.sampled_from(["", *PARTS]), max_size=12))
def test_any_faults_in_uploads_repeat_and_lose_no_rows(faults):
    with Ledger() as service:
        service.faults["WriteRows"].extend(faults)
        write(service, retry=RetryPolicy(max_attempts=20, deadline=1e9))
        assert service.committed == list(range(ROWS))


@settings(max_examples=40)
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


def test_after_an_upload_without_a_response_the_offset_is_fetched():
    with Ledger() as service:
        service.faults["WriteRows"].append("stall")
        assert write(service, read_timeout=0.2) == ROWS
        assert service.committed == list(range(ROWS))
        assert len(service.calls["WriteRows"]) == 4
        assert len(service.calls["GetWriteStream"]) == 1


def test_a_lost_response_is_reported_and_the_new_token_is_used():
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
    assert "the response was lost, but the rows arrived" in tracker.snapshot().events[0]


def test_without_offsets_the_row_count_of_the_server_is_used():
    with Ledger(exactly_once=False) as service:
        service.faults["WriteRows"].append("lost")
        assert write(service) == ROWS
        assert service.committed == list(range(ROWS))
        assert {call.row_offset for call in service.calls["WriteRows"]} == {None}


@pytest.mark.parametrize("fault", ["drop", "half", "503"])
def test_without_offsets_no_rows_are_sent_twice(fault):
    with Ledger(exactly_once=False) as service:
        service.faults["WriteRows"].append(fault)
        with pytest.raises(OdpsNbError) as caught:
            write(service)
        assert len(service.calls["WriteRows"]) == 1
        assert service.status == "ABORTED"
    assert "these rows may have arrived, so they are not sent again" in caught.value.notes
    assert "the write was aborted; none of its rows are in the table" in caught.value.notes


def test_without_offset_and_row_count_a_lost_response_ends_the_write_with_an_error():
    with Ledger(counts=False) as service:
        service.faults["WriteRows"].append("drop")
        with pytest.raises(BrokenStreamError) as caught:
            write(service)
    assert "does not report whether the rows arrived" in caught.value.notes[0]


def test_rows_of_another_writer_in_the_stream_raise_a_conflict_error():
    with Ledger() as service:
        service.faults["WriteRows"].append("drop")
        original = service._GetWriteStream

        def intruded(request, seen):
            service.rows["0"] += range(1000, 1050)
            return original(request, seen)

        service._GetWriteStream = intruded
        with pytest.raises(ConflictError, match="the server has 50 rows"):
            write(service)


def test_a_response_that_counts_other_rows_is_a_conflict():
    with Ledger() as service:
        service._WriteRows = lambda request, seen: WriteRowsAnswer(row_offset=7)
        with pytest.raises(ConflictError, match="the server counts 7 rows"):
            write(service)
        assert service.status == "ABORTED"


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
    assert "TableWrite of 30 rows, starting at row 0, into stream 0 of p.t" in caught.value.notes[0]
    assert caught.value.notes[-1] == "the write was aborted; none of its rows are in the table"


THROTTLED = ["WriteRows", "CloseWriteStream", "CommitWriteSession"]


@pytest.mark.parametrize("name", THROTTLED)
def test_a_throttled_write_retries_until_the_deadline(name):
    """Evidence 161: 429 can also occur in the middle of a write."""
    with Ledger() as service:
        service.faults[name].extend(["429"] * 9)
        assert write(service, retry=RetryPolicy(max_attempts=3)) == ROWS
        assert service.committed == list(range(ROWS))


@pytest.mark.parametrize("name", THROTTLED)
def test_throttling_beyond_the_deadline_aborts_the_write(name):
    slept: list[float] = []
    with Ledger() as service:
        service.faults[name].extend(["429"] * 99)
        with pytest.raises(ThrottledError):
            write(
                service,
                retry=RetryPolicy(max_attempts=3, deadline=60.0),
                sleep=slept.append,
                monotonic=lambda: sum(slept),
            )
        assert service.status == "ABORTED"
    assert 30 < sum(slept) <= 60


# -- parts ------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(sizes=st.lists(st.integers(0, 60), max_size=12), max_bytes=st.integers(8, 300))
def test_parts_have_a_maximum_size_and_contain_all_rows(sizes, max_bytes):
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
    with pytest.raises(ConversionError, match="2 columns, but the first batch has 1"):
        list(iter_parts([*first.to_batches(), *wider.to_batches()]))
