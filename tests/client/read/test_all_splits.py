"""All splits of a session return each of its rows once, in order if requested."""

from __future__ import annotations

import itertools
import threading

import pytest

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.read.plan import ReadSession
from odps_nb.client.read.preview import fetch_preview
from odps_nb.client.read.resume import rows_of
from odps_nb.client.read.splits import iter_batches, iter_split
from odps_nb.errors import (
    ArgumentError,
    CancelledError,
    LimitExceededError,
    NotFoundError,
    TruncatedError,
)
from odps_nb.terms import IndexSplit
from odps_nb.wire.calls import Preview
from tests.support.sockets.read_sessions import ROWS, SESSION, cut_rows, serve_rows, wanted
from tests.support.sockets.scripted import (
    SCHEMA,
    TABLE,
    Service,
    asked_split,
    cut,
    fail,
    hang_up,
    ids,
    ipc,
    numbers,
    raw,
)
from tests.support.threads import running


def test_concurrent_splits_return_every_row_in_order():
    tracker = ProgressTracker("read", "t")
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        assert ids(iter_batches(storage, SESSION, tracker=tracker)) == list(range(ROWS))
    shown = tracker.snapshot()
    assert (shown.rows, shown.phase) == (ROWS, Phase.READING)


def test_unordered_concurrent_splits_return_every_row_once():
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        got = ids(iter_batches(storage, SESSION, ordered=False))
    assert sorted(got) == list(range(ROWS))


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize("read_ahead", [1, 10**9])
def test_broken_splits_of_a_concurrent_read_resume(workers, read_ahead):
    steps = [cut_rows(0.5), hang_up, fail(503, "ServiceUnavailable"), cut_rows(0.9), serve_rows]
    with Service(ReadRows=steps) as service, service.client() as storage:
        batches = iter_batches(storage, SESSION, workers=workers, read_ahead=read_ahead)
        assert ids(batches) == list(range(ROWS))


@pytest.mark.parametrize("ordered", [True, False])
def test_a_failing_split_ends_the_read_with_an_error(ordered):
    def step(line, seen) -> None:
        split = asked_split(seen)
        if split.offset == 50:
            fail(404, "NoSuchObject", "gone")(line, seen)
        else:
            serve_rows(line, seen)

    with Service(ReadRows=[step]) as service, pytest.raises(NotFoundError) as caught:
        list(iter_batches(service.storage, SESSION, ordered=ordered, workers=1))
    assert "rows 50…75 of p.t" in caught.value.notes[0]


def test_a_limit_ends_the_read_early_and_closes_all_connections():
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        assert ids(iter_batches(storage, SESSION, limit=13)) == list(range(13))
        assert ids(iter_batches(storage, SESSION, limit=0)) == []


def test_the_rows_of_all_splits_are_counted():
    lying = ReadSession(
        table=TABLE, session_id="s", schema=SCHEMA, splits=(IndexSplit(0),), row_count=26
    )
    with (
        Service(ReadRows=[serve_rows]) as service,
        pytest.raises(TruncatedError, match=r"25 rows of .* arrived"),
    ):
        list(iter_batches(service.storage, lying))


@pytest.mark.parametrize("workers", [1, 4])
def test_cancelling_stops_every_split_immediately(workers):
    token = CancelToken()
    started = threading.Semaphore(0)

    def begin_then_stall(line, seen) -> None:
        body = ipc(wanted(line))
        line.send(line.headline(**{"Content-Length": str(len(body))}) + body[:200])
        started.release()
        assert line.wait_closed()

    with (
        Service(ReadRows=[begin_then_stall]) as service,
        service.client(read_timeout=60.0) as storage,
    ):

        def cancel() -> None:
            for _ in range(workers):
                started.acquire(timeout=10)
            token.cancel()

        canceller = threading.Thread(target=cancel)
        canceller.start()
        with pytest.raises(CancelledError):
            list(iter_batches(storage, SESSION, workers=workers, cancel=token))
        canceller.join(10)


def test_closing_the_iterator_ends_threads_and_connections():
    with (
        Service(ReadRows=[serve_rows]) as service,
        service.client(read_timeout=60.0) as storage,
    ):
        batches = iter_batches(storage, SESSION, read_ahead=1)
        assert ids([next(batches)]) == list(range(10))
        batches.close()
        assert [t.name for t in running() if t.name.startswith("odps_nb")] == []


@pytest.mark.parametrize("workers", [1, 4])
def test_a_read_beyond_max_bytes_stops_before_the_excess_batch(workers):
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        whole = list(iter_batches(storage, SESSION))
        size = sum(batch.nbytes for batch in whole)
        enough = iter_batches(storage, SESSION, workers=workers, max_bytes=size)
        assert ids(enough) == list(range(ROWS))
        got = []
        with pytest.raises(LimitExceededError, match="need more") as caught:
            got.extend(iter_batches(storage, SESSION, workers=workers, max_bytes=size - 1))
        assert (caught.value.limit, caught.value.actual) == (size - 1, size)
        assert ids(got) == list(range(ROWS - whole[-1].num_rows))
    assert [t.name for t in running() if t.name.startswith("odps_nb-worker")] == []


def test_a_row_limit_can_keep_a_read_within_its_maximum_bytes():
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        first = next(iter(iter_batches(storage, SESSION)))
        batches = iter_batches(
            storage, SESSION, limit=first.num_rows, max_bytes=first.nbytes, workers=4
        )
        assert ids(batches) == list(range(first.num_rows))


@pytest.mark.parametrize(
    ("asked", "batch"),
    [({}, 16 * 2**20), ({"max_bytes": 2**23}, 2**20), ({"read_ahead": 1}, 2**20)],
)
def test_the_requested_batch_size_depends_on_the_byte_budget(asked, batch):
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        assert ids(iter_batches(storage, SESSION, workers=4, **asked)) == list(range(ROWS))
    assert {call.max_batch_raw_size for call in service.calls["ReadRows"]} == {batch}


@pytest.mark.parametrize(
    ("asked", "sent"),
    [(0, 0), (1, 2**20), (2**20, 2**20), (2**28, 2**28), (2**28 + 1, 2**28)],
)
def test_the_requested_batch_size_is_within_the_limits_of_the_service(asked, sent):
    """evidence 30, 31 (C++ client: TestReadOptionsMaxBatchRows, TestReadOptionsMaxBatchRawSize)"""
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        split = SESSION.splits[0]
        batches = iter_split(
            storage, SESSION, split, max_batch_bytes=asked, max_batch_rows=20_000 + asked
        )
        assert sum(batch.num_rows for batch in batches) == rows_of(split)
    [call] = service.calls["ReadRows"]
    assert (call.max_batch_rows, call.max_batch_raw_size) == (20_000, sent)


def test_a_truncated_preview_is_requested_again():
    body = ipc(numbers(0, 5))
    with Service(Preview=[cut(body, len(body) - 9), raw(body)]) as service:
        table = fetch_preview(service.storage, Preview(table=TABLE, limit=5))
    assert table.column(0).to_pylist() == [0, 1, 2, 3, 4]


def test_a_preview_always_states_the_number_of_rows():
    """evidence 140 (C++ client: TestAllPartitions): without a limit, the row count is unknown"""
    with Service() as service, service.client() as storage:
        with pytest.raises(ArgumentError, match="needs a limit"):
            fetch_preview(storage, Preview(table=TABLE))
        assert service.seen == []


@pytest.mark.parametrize("taken", [1, 2])
def test_a_tracker_ends_with_the_number_of_returned_rows(taken):
    tracker = ProgressTracker("read", "t")
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        batches = iter_batches(storage, SESSION, limit=13, workers=3, tracker=tracker)
        rows = sum(batch.num_rows for batch in itertools.islice(batches, taken))
        batches.close()
    seen = tracker.snapshot()
    assert seen.rows == rows
    assert seen.decoded_bytes >= 8 * rows  # the bytes received are counted


def test_rows_beyond_max_bytes_are_not_counted():
    tracker = ProgressTracker("read", "t")
    with Service(ReadRows=[serve_rows]) as service, pytest.raises(LimitExceededError):
        list(iter_batches(service.storage, SESSION, max_bytes=1, tracker=tracker))
    assert tracker.snapshot().rows == 0
