"""One split returns every row once and in order, despite any fault."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pyarrow as pa
import pytest

from odps_nb.client.calls.progress import ProgressTracker
from odps_nb.client.read.plan import ReadSession
from odps_nb.client.read.splits import iter_split
from odps_nb.errors import FramingError, ServiceError, SessionExpiredError, TruncatedError
from odps_nb.http.retry import RetryPolicy
from odps_nb.schema import TableSchema
from odps_nb.terms import IndexSplit, RowRangeSplit
from odps_nb.wire.type_text import parse_columns
from tests.support.sockets.read_sessions import ANSWER, SESSION, cut_rows, serve_rows, wanted
from tests.support.sockets.scripted import (
    SCHEMA,
    TABLE,
    Service,
    cut,
    fail,
    give,
    hang_up,
    ids,
    ipc,
    numbers,
    raw,
    stall,
)

MIDDLE = RowRangeSplit(20, 60)


def split_of(*steps, split=MIDDLE, **facts):
    facts.setdefault("tracker", ProgressTracker("read", "t"))
    policy = facts.pop("retry", RetryPolicy(spread=0.0))
    with (
        Service(ReadRows=list(steps)) as service,
        service.client(retry=policy, read_timeout=facts.pop("timeout", 5.0)) as storage,
    ):
        return ids(iter_split(storage, SESSION, split, **facts)), service, facts["tracker"]


def test_a_split_is_read_completely():
    got, service, tracker = split_of(serve_rows)
    assert got == list(range(20, 80))
    request = service.calls["ReadRows"][0]
    assert (request.route_token, request.session_id) == ("rt", "s")
    shown = tracker.snapshot()
    assert shown.rows == 60
    assert shown.complete_bytes == shown.decoded_bytes == 480
    assert shown.verified_bytes == 0
    assert shown.wire_bytes > 480
    assert (shown.retries, shown.resumes) == (0, 0)


@pytest.mark.parametrize("split", [RowRangeSplit(20, 60), IndexSplit(1)])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_broken_stream_resumes_at_the_exact_row(split, chunked):
    expected = list(range(20, 80)) if isinstance(split, RowRangeSplit) else list(range(25, 50))
    steps = [cut_rows(share, chunked=chunked) for share in (0.3, 0.7, 0.0, 0.99, 0.5)]
    got, service, tracker = split_of(*steps, serve_rows, split=split)
    assert got == expected
    assert len(service.calls["ReadRows"]) >= 4
    places = [
        request.skip_rows if isinstance(request.split, IndexSplit) else request.split.offset
        for request in service.calls["ReadRows"]
    ]
    assert places == sorted(places)
    assert tracker.snapshot().rows == len(expected)
    assert tracker.snapshot().resumes > 0
    assert any("resuming at row" in event for event in tracker.snapshot().events)


def test_truncation_near_every_message_boundary_is_recovered():
    body = ipc(numbers(20, 80))
    marks = [at for at in range(len(body)) if body[at : at + 4] == b"\xff\xff\xff\xff"]
    for mark in marks:
        for at in (mark - 1, mark, mark + 1, mark + 4, mark + 8):
            if 0 <= at < len(body):
                got, _, _ = split_of(cut(body, at), serve_rows)
                assert got == list(range(20, 80)), at


@pytest.mark.parametrize(
    "trouble",
    [
        hang_up,
        fail(503, "ServiceUnavailable"),
        fail(429, "FlowExceeded", **{"Retry-After": "1"}),
        raw(b"not arrow at all"),
        raw(b""),
    ],
    ids=["hang up", "503", "429", "invalid bytes", "empty"],
)
def test_a_failure_before_the_first_row_is_retried(trouble):
    got, _, tracker = split_of(trouble, trouble, serve_rows)
    assert got == list(range(20, 80))
    assert tracker.snapshot().retries == 2


def test_a_read_resumes_after_silence_in_the_middle():
    def half_then_stall(line, seen) -> None:
        body = ipc(wanted(line))
        line.send(line.headline(**{"Content-Length": str(len(body))}) + body[: len(body) // 2])
        stall(line, seen)

    got, _, tracker = split_of(half_then_stall, serve_rows, timeout=0.2)
    assert got == list(range(20, 80))
    assert tracker.snapshot().resumes == 1


@pytest.mark.parametrize("chunked", [False, True])
def test_bytes_of_an_incomplete_batch_are_counted(chunked):
    """A large batch on a slow network: no row can be counted yet, but bytes arrive."""
    table = pa.table({"id": pa.array(range(60), pa.int64()), "s": ["x" * 80_000] * 60})
    body = ipc(table, rows=60)
    sent, go_on = threading.Event(), threading.Event()

    def half_then_wait(line, seen) -> None:
        half = len(body) // 2
        if chunked:
            line.chunked(body[:half], end=False)
        else:
            line.send(line.headline(**{"Content-Length": str(len(body))}) + body[:half])
        sent.set()
        go_on.wait(20)
        rest = body[half:]
        line.send(b"%x\r\n%s\r\n0\r\n\r\n" % (len(rest), rest) if chunked else rest)

    tracker = ProgressTracker("read", "t")
    session = replace(SESSION, schema=TableSchema(columns=parse_columns("id bigint, s string")))
    with (
        Service(ReadRows=[half_then_wait]) as service,
        service.client(read_timeout=60.0) as storage,
    ):
        split = RowRangeSplit(0, 60)
        rows: list[int] = []
        reading = threading.Thread(
            target=lambda: rows.extend(
                batch.num_rows for batch in iter_split(storage, session, split, tracker=tracker)
            )
        )
        reading.start()
        assert sent.wait(20)
        until = time.monotonic() + 20
        while (seen := tracker.snapshot()).wire_bytes < len(body) // 3:
            assert time.monotonic() < until, seen
        assert (seen.rows, seen.decoded_bytes) == (0, 0)
        assert seen.wire_bytes <= len(body) // 2 + 64  # cut at the ends of chunks
        go_on.set()
        reading.join(20)
    assert rows == [60]
    assert tracker.snapshot().wire_bytes == len(body)


def test_a_complete_stream_with_too_few_rows_is_resumed_and_then_fails():
    short = raw(ipc(numbers(20, 30)))
    nothing = raw(ipc(numbers(0, 0)))
    got, _, _ = split_of(short, serve_rows)
    assert got == list(range(20, 80))
    with pytest.raises(TruncatedError) as caught:
        split_of(short, nothing, retry=RetryPolicy(max_attempts=3))
    assert (caught.value.expected, caught.value.actual) == (60, 10)
    assert caught.value.request_id == "req-1"
    assert "rows 20…80 of p.t at the service" in caught.value.notes[0]
    assert ", 3 attempts" in caught.value.notes[0]


def test_a_stream_with_too_many_rows_raises_an_error():
    with pytest.raises(FramingError, match="61 rows arrived, but 60 were requested"):
        split_of(raw(ipc(numbers(20, 81), rows=61)), retry=RetryPolicy(max_attempts=1))


def test_a_split_that_fails_without_progress_raises_an_error():
    with pytest.raises(ServiceError):
        split_of(fail(500, "InternalServerError"), retry=RetryPolicy(max_attempts=3))


def test_received_rows_restart_the_retry_deadline():
    steps = [hang_up, cut_rows(0.6), hang_up, cut_rows(0.6), hang_up]
    got, service, _ = split_of(*steps, serve_rows, retry=RetryPolicy(max_attempts=3))
    assert got == list(range(20, 80))
    assert len(service.calls["ReadRows"]) == 6


@pytest.mark.parametrize("code", ["NoSuchSession", "SessionExpired"])
def test_a_read_of_an_expired_session_does_not_continue_in_another_session(code):
    """Evidence 175: an expired session reports EXPIRED or causes an error."""
    with pytest.raises(SessionExpiredError) as caught:
        split_of(cut_rows(0.5), fail(404, code))
    assert caught.value.request_id == "req-1"


def test_a_schema_that_changes_during_a_read_raises_an_error():
    required = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    other = numbers(40, 80).cast(required)
    with pytest.raises(FramingError, match="the columns differ between two streams"):
        split_of(cut_rows(0.5), raw(ipc(other)), retry=RetryPolicy(max_attempts=2))


def test_rows_can_be_skipped_and_columns_chosen():
    got, service, _ = split_of(serve_rows, skip_rows=5, columns=("ID",))
    assert got == list(range(25, 80))
    assert service.calls["ReadRows"][0].data_columns == ("ID",)


def test_an_empty_split_needs_no_request():
    got, service, _ = split_of(serve_rows, split=RowRangeSplit(5, 0))
    assert got == []
    assert service.seen == []


def test_closing_the_iterator_of_a_split_closes_its_connection():
    gone = threading.Event()

    def endless(line, seen) -> None:
        line.send(line.headline(**{"Content-Length": "99999999"}) + ipc(numbers(0, 60))[:-8])
        if line.wait_closed():
            gone.set()

    with Service(ReadRows=[endless]) as service, service.client() as storage:
        batches = iter_split(storage, SESSION, RowRangeSplit(0, 60))
        assert ids([next(batches)]) == list(range(10))
        batches.close()
        assert gone.wait(10)


def test_a_session_near_its_end_is_refreshed():
    near = ReadSession(
        table=TABLE, session_id="s", schema=SCHEMA, splits=(), expires_at=1_000_000_030.0
    )
    with (
        Service(ReadRows=[serve_rows], GetReadSession=[give(ANSWER)]) as service,
        service.client(clock=lambda: 1_000_000_000.0) as storage,
    ):
        assert ids(iter_split(storage, near, RowRangeSplit(0, 3))) == [0, 1, 2]
    assert service.calls["GetReadSession"][0].refresh
