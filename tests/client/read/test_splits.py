"""A read gives every row of one snapshot once and in order, whatever happens on the way."""

from __future__ import annotations

import itertools
import pickle
import threading
import time
from dataclasses import replace

import pyarrow as pa
import pytest

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.read.preview import fetch_preview
from odps_nb.client.read.resume import rows_of
from odps_nb.client.read.splits import (
    ReadPlan,
    ReadSession,
    iter_batches,
    iter_split,
    open_read_session,
    plan_ranges,
)
from odps_nb.errors import (
    ArgumentError,
    CancelledError,
    FramingError,
    LimitExceededError,
    NotFoundError,
    ServiceError,
    SessionExpiredError,
    TruncatedError,
)
from odps_nb.filters.row_filter import RowFilter
from odps_nb.http.retry import RetryPolicy
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import IndexSplit, PartitionSpec, RowRangeSplit, SessionStatus, SplitMode
from odps_nb.wire.calls import Preview, ReadRows, ReadSessionAnswer
from odps_nb.wire.type_text import parse_columns
from tests.support.sockets.scripted import (
    SCHEMA,
    TABLE,
    Service,
    asked_split,
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
from tests.support.threads import running

ROWS = 100
SESSION = ReadSession(
    table=TABLE,
    session_id="s",
    schema=SCHEMA,
    splits=plan_ranges(ROWS, 4),
    row_count=ROWS,
    route_token="rt",
)
ANSWER = ReadSessionAnswer(
    session_id="s",
    split_mode=SplitMode.ROW_OFFSET,
    record_count=ROWS,
    schema=SCHEMA,
    estimated_size=4 * 64 * 2**20,
    route_token="rt",
)


def serve_rows(line, seen) -> None:
    """Answer any TableRead with the rows that it asks for."""
    line.answer(ipc(wanted(line)))


def wanted(line):
    request: ReadRows = line.peer.calls["ReadRows"][-1]
    split = request.split
    if isinstance(split, IndexSplit):
        return numbers(split.index * 25 + request.skip_rows, split.index * 25 + 25)
    return numbers(split.offset + request.skip_rows, split.offset + split.count)


def cut_rows(share: float, *, chunked: bool = False):
    def step(line, seen) -> None:
        body = ipc(wanted(line))
        cut(body, int(len(body) * share), chunked=chunked)(line, seen)

    return step


# -- sessions ---------------------------------------------------------------------------------


def opened(*answers: ReadSessionAnswer, **plan) -> tuple[ReadSession, Service]:
    with (
        Service(
            CreateReadSession=[give(answer) for answer in answers],
            GetReadSession=[give(answer) for answer in answers[1:]] or [give(ANSWER)],
        ) as service,
        service.client() as storage,
    ):
        return open_read_session(storage, ReadPlan(table=TABLE, **plan)), service


def test_without_a_filter_rows_are_counted_and_cut_into_ranges():
    session, service = opened(ANSWER)
    request = service.calls["CreateReadSession"][0]
    assert request.split_mode is SplitMode.ROW_OFFSET
    assert session.splits == tuple(RowRangeSplit(at, 25) for at in (0, 25, 50, 75))
    assert (session.row_count, session.route_token, session.filter) == (100, "rt", None)
    assert session.schema.names == SCHEMA.names


def test_with_a_filter_the_service_cuts():
    answer = ReadSessionAnswer(session_id="s", splits_count=3, schema=SCHEMA)
    session, service = opened(answer, where="id > 3", schema=SCHEMA, split_bytes=10 * 2**20)
    (request,) = service.calls["CreateReadSession"]
    assert (request.split_mode, request.split_number) == (SplitMode.SIZE, 10 * 2**20)
    assert (request.filter_predicate, request.filter_fallback) == ("id > 3", True)
    assert session.splits == (IndexSplit(0), IndexSplit(1), IndexSplit(2))
    assert session.row_count is None
    assert session.filter.columns == ("id",)


def test_a_filter_over_an_unknown_table_asks_for_its_columns_first():
    _, service = opened(ANSWER, ReadSessionAnswer(session_id="s", schema=SCHEMA), where="id > 3")
    first, second = service.calls["CreateReadSession"]
    assert (first.filter_predicate, first.split_mode) == ("", SplitMode.ROW_OFFSET)
    assert (second.filter_predicate, second.split_mode) == ("id > 3", SplitMode.SIZE)


@pytest.mark.parametrize("asked", [{"splits": 4}, {"split_bytes": 2**20}])
def test_filtered_splits_that_are_finer_than_the_service_cuts_are_ranges(asked):
    session, service = opened(ANSWER, where="id > 3", schema=SCHEMA, **asked)
    (request,) = service.calls["CreateReadSession"]
    assert request.split_mode is SplitMode.ROW_OFFSET
    assert sum(split.count for split in session.splits) == session.stored_rows == 100
    assert session.row_count is None


def test_a_filter_that_nothing_is_sent_of_reads_counted_ranges():
    session, service = opened(ANSWER, where="id + 0 > 3", schema=SCHEMA)
    (request,) = service.calls["CreateReadSession"]
    assert (request.split_mode, request.filter_predicate) == (SplitMode.ROW_OFFSET, "")
    assert not session.prunes
    assert session.row_count is None


def test_rows_that_are_missing_before_the_filter_are_missed():
    session = replace(SESSION, filter=RowFilter.parse("id + 0 >= 0", SCHEMA))
    with (
        Service(ReadRows=[raw(ipc(numbers(0, 10)))]) as service,
        service.client(retry=RetryPolicy(max_attempts=1)) as storage,
        pytest.raises(TruncatedError),
    ):
        list(iter_split(storage, session, RowRangeSplit(0, 25)))


def test_a_table_that_takes_ranges_only_is_filtered_by_them():
    with (
        Service(CreateReadSession=[fail(400, "InvalidParameter"), give(ANSWER)]) as service,
        service.client() as storage,
    ):
        plan = ReadPlan(table=TABLE, where="id > 3", schema=SCHEMA)
        session = open_read_session(storage, plan)
        by_size, by_rows = service.calls["CreateReadSession"]
    assert (by_size.split_mode, by_rows.split_mode) == (SplitMode.SIZE, SplitMode.ROW_OFFSET)
    assert by_rows.filter_predicate == "id > 3"
    assert (session.row_count, session.stored_rows) == (None, 100)


def test_a_limit_of_a_filtered_read_leaves_no_rows_unread():
    session, _ = opened(ANSWER, where="id > 3", schema=SCHEMA, splits=4, limit=3)
    assert sum(split.count for split in session.splits) == 100


def test_columns_that_only_the_filter_needs_come_along_hidden():
    session, service = opened(
        PARTED, where="note = 'x' and ds > '1'", schema=PARTS, columns=("id",), splits=1
    )
    (request,) = service.calls["CreateReadSession"]
    assert (request.data_columns, request.partition_columns) == (("id", "note"), ("ds",))
    assert session.schema.names == session.columns == ("id",)
    assert [column.name for column in session.hidden] == ["note", "ds"]


@pytest.mark.parametrize(
    ("plan", "lengths"),
    [
        ({"splits": 3}, [33, 33, 34]),
        ({"splits": 1000}, [1] * 100),
        ({"split_bytes": 128 * 2**20}, [50, 50]),
        ({"limit": 10}, [10]),
        ({"limit": 0}, []),
        ({"limit": 50, "splits": 2}, [25, 25]),
    ],
)
def test_splits_are_cut_as_wished(plan, lengths):
    session, _ = opened(ANSWER, **plan)
    assert [split.count for split in session.splits] == lengths
    assert session.row_count == sum(lengths)


def test_an_uncounted_table_is_cut_by_the_service():
    uncounted = ReadSessionAnswer(session_id="s", split_mode=SplitMode.ROW_OFFSET, schema=SCHEMA)
    by_size = ReadSessionAnswer(session_id="s2", splits_count=2, schema=SCHEMA)
    session, _ = opened(uncounted, by_size)
    assert (session.session_id, session.splits) == ("s2", (IndexSplit(0), IndexSplit(1)))


def test_a_session_that_is_being_prepared_is_waited_for():
    init = ReadSessionAnswer(session_id="s", status=SessionStatus.INIT, route_token="rt0")
    ready = ReadSessionAnswer(
        session_id="s", split_mode=SplitMode.ROW_OFFSET, record_count=1, schema=SCHEMA
    )
    session, service = opened(init, init, init, ready)
    assert session.row_count == 1
    assert session.route_token == "rt0"
    assert len(service.slept) == 3


@pytest.mark.parametrize(
    ("status", "kind"),
    [(SessionStatus.CRITICAL, ServiceError), (SessionStatus.EXPIRED, SessionExpiredError)],
)
def test_a_session_that_failed_says_why(status, kind):
    with pytest.raises(kind, match="disk on fire"):
        opened(ReadSessionAnswer(session_id="s", status=status, message="disk on fire"))


PARTS = TableSchema(
    columns=(
        Column(name="id", type=PrimitiveType(TypeCode.BIGINT)),
        Column(name="note", type=PrimitiveType(TypeCode.STRING)),
    ),
    partition_columns=(Column(name="ds", type=PrimitiveType(TypeCode.STRING)),),
)
PARTED = ReadSessionAnswer(
    session_id="s", split_mode=SplitMode.ROW_OFFSET, record_count=0, schema=PARTS
)


def test_columns_are_told_apart_by_asking():
    session, service = opened(PARTED, columns=("DS", "note"))
    first, second = service.calls["CreateReadSession"]
    assert (first.data_columns, first.partition_columns) == ((), ())
    assert (second.data_columns, second.partition_columns) == (("note",), ("ds",))
    assert session.schema.names == ("note", "ds")


def test_columns_told_apart_by_the_caller_cost_one_request():
    session, service = opened(PARTED, columns=("ds", "id"), partition_columns=("ds",))
    (request,) = service.calls["CreateReadSession"]
    assert (request.data_columns, request.partition_columns) == (("id",), ("ds",))
    assert session.schema.names == ("id", "ds")


def test_partition_columns_alone_do_not_bring_all_data():
    session, service = opened(PARTED, columns=("ds",))
    assert service.calls["CreateReadSession"][-1].data_columns == ("id",)
    assert session.schema.names == session.columns == ("ds",)


def test_an_unknown_column_lists_those_that_exist():
    with pytest.raises(ArgumentError, match="no column 'nope'") as caught:
        opened(PARTED, columns=("nope",))
    assert caught.value.hint == "its columns are id, note, ds"


def test_partitions_are_asked_for():
    spec = PartitionSpec.of("ds=x,h=1")
    _, service = opened(ANSWER, partitions=(spec,))
    assert service.calls["CreateReadSession"][0].partitions == (spec,)


@pytest.mark.parametrize(
    "plan", [{"splits": 0}, {"split_bytes": -1}, {"limit": -1}, {"max_batch_rows": 20_001}]
)
def test_an_impossible_plan_is_refused(plan):
    with pytest.raises(ArgumentError):
        ReadPlan(table=TABLE, **plan)


def test_a_session_is_a_value_that_may_be_pickled():
    assert pickle.loads(pickle.dumps(SESSION)) == SESSION
    assert repr(SESSION) == "ReadSession(p.t, 's', 4 splits, rows=100, columns=1)"


def test_many_splits_are_planned_at_once():
    splits = plan_ranges(10**9 + 7, 100_000)
    assert len(splits) == 100_000
    assert sum(split.count for split in splits) == 10**9 + 7


# -- one split --------------------------------------------------------------------------------


MIDDLE = RowRangeSplit(20, 60)


def split_of(*steps, split=MIDDLE, **facts):
    facts.setdefault("tracker", ProgressTracker("read", "t"))
    policy = facts.pop("retry", RetryPolicy(spread=0.0))
    with (
        Service(ReadRows=list(steps)) as service,
        service.client(retry=policy, read_timeout=facts.pop("timeout", 5.0)) as storage,
    ):
        return ids(iter_split(storage, SESSION, split, **facts)), service, facts["tracker"]


def test_a_split_is_read_whole():
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
def test_a_broken_stream_goes_on_at_the_exact_row(split, chunked):
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


def test_a_cut_at_every_message_boundary_and_beside_it_is_mended():
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
    ids=["hang up", "503", "429", "rubbish", "empty"],
)
def test_trouble_before_the_first_row_is_a_retry(trouble):
    got, _, tracker = split_of(trouble, trouble, serve_rows)
    assert got == list(range(20, 80))
    assert tracker.snapshot().retries == 2


def test_silence_in_the_middle_is_mended():
    def half_then_stall(line, seen) -> None:
        body = ipc(wanted(line))
        line.send(line.headline(**{"Content-Length": str(len(body))}) + body[: len(body) // 2])
        stall(line, seen)

    got, _, tracker = split_of(half_then_stall, serve_rows, timeout=0.2)
    assert got == list(range(20, 80))
    assert tracker.snapshot().resumes == 1


@pytest.mark.parametrize("chunked", [False, True])
def test_bytes_of_a_batch_that_is_not_whole_are_seen(chunked):
    """A large batch on a slow network: nothing can be counted yet, and still it moves."""
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
        assert seen.wire_bytes <= len(body) // 2 + 64  # the borders of chunks
        go_on.set()
        reading.join(20)
    assert rows == [60]
    assert tracker.snapshot().wire_bytes == len(body)


def test_a_whole_stream_with_too_few_rows_goes_on_and_then_gives_up():
    short = raw(ipc(numbers(20, 30)))
    nothing = raw(ipc(numbers(0, 0)))
    got, _, _ = split_of(short, serve_rows)
    assert got == list(range(20, 80))
    with pytest.raises(TruncatedError) as caught:
        split_of(short, nothing, retry=RetryPolicy(max_attempts=3))
    assert (caught.value.expected, caught.value.actual) == (60, 10)
    assert caught.value.request_id == "req-1"
    assert "rows 20…80 of p.t, 3 tries" in caught.value.notes[0]


def test_a_stream_with_too_many_rows_is_an_error():
    with pytest.raises(FramingError, match="61 rows came where 60 were asked for"):
        split_of(raw(ipc(numbers(20, 81), rows=61)), retry=RetryPolicy(max_attempts=1))


def test_failures_without_progress_end():
    with pytest.raises(ServiceError):
        split_of(fail(500, "InternalServerError"), retry=RetryPolicy(max_attempts=3))


def test_progress_renews_the_patience():
    steps = [hang_up, cut_rows(0.6), hang_up, cut_rows(0.6), hang_up]
    got, service, _ = split_of(*steps, serve_rows, retry=RetryPolicy(max_attempts=3))
    assert got == list(range(20, 80))
    assert len(service.calls["ReadRows"]) == 6


@pytest.mark.parametrize("code", ["NoSuchSession", "SessionExpired"])
def test_an_expired_session_is_never_continued_on_another_one(code):
    with pytest.raises(SessionExpiredError) as caught:
        split_of(cut_rows(0.5), fail(404, code))
    assert caught.value.request_id == "req-1"


def test_a_schema_that_changes_on_the_way_is_an_error():
    required = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    other = numbers(40, 80).cast(required)
    with pytest.raises(FramingError, match="columns changed"):
        split_of(cut_rows(0.5), raw(ipc(other)), retry=RetryPolicy(max_attempts=2))


def test_rows_can_be_skipped_and_columns_chosen():
    got, service, _ = split_of(serve_rows, skip_rows=5, columns=("ID",))
    assert got == list(range(25, 80))
    assert service.calls["ReadRows"][0].data_columns == ("ID",)


def test_an_empty_split_needs_no_request():
    got, service, _ = split_of(serve_rows, split=RowRangeSplit(5, 0))
    assert got == []
    assert service.seen == []


def test_leaving_a_split_early_closes_its_connection():
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


# -- all splits -------------------------------------------------------------------------------


def test_splits_side_by_side_give_every_row_in_order():
    tracker = ProgressTracker("read", "t")
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        assert ids(iter_batches(storage, SESSION, tracker=tracker)) == list(range(ROWS))
    shown = tracker.snapshot()
    assert (shown.rows, shown.phase) == (ROWS, Phase.READING)


def test_splits_side_by_side_without_order_give_every_row_once():
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        got = ids(iter_batches(storage, SESSION, ordered=False))
    assert sorted(got) == list(range(ROWS))


@pytest.mark.parametrize("workers", [1, 2, 8])
@pytest.mark.parametrize("read_ahead", [1, 10**9])
def test_broken_splits_side_by_side_are_mended(workers, read_ahead):
    steps = [cut_rows(0.5), hang_up, fail(503, "ServiceUnavailable"), cut_rows(0.9), serve_rows]
    with Service(ReadRows=steps) as service, service.client() as storage:
        batches = iter_batches(storage, SESSION, workers=workers, read_ahead=read_ahead)
        assert ids(batches) == list(range(ROWS))


@pytest.mark.parametrize("ordered", [True, False])
def test_one_failing_split_fails_the_read(ordered):
    def step(line, seen) -> None:
        split = asked_split(seen)
        if split.offset == 50:
            fail(404, "NoSuchObject", "gone")(line, seen)
        else:
            serve_rows(line, seen)

    with (
        Service(ReadRows=[step]) as service,
        service.client() as storage,
        pytest.raises(NotFoundError) as caught,
    ):
        list(iter_batches(storage, SESSION, ordered=ordered, workers=1))
    assert "rows 50…75 of p.t" in caught.value.notes[0]


def test_a_limit_stops_early_and_closes_everything():
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        assert ids(iter_batches(storage, SESSION, limit=13)) == list(range(13))
        assert ids(iter_batches(storage, SESSION, limit=0)) == []


def test_the_rows_of_all_splits_are_counted():
    lying = ReadSession(
        table=TABLE, session_id="s", schema=SCHEMA, splits=(IndexSplit(0),), row_count=26
    )
    with (
        Service(ReadRows=[serve_rows]) as service,
        service.client() as storage,
        pytest.raises(TruncatedError, match=r"25 rows of .* arrived"),
    ):
        list(iter_batches(storage, lying))


@pytest.mark.parametrize("workers", [1, 4])
def test_cancelling_wakes_every_split_at_once(workers):
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


def test_leaving_the_iterator_ends_threads_and_connections():
    with (
        Service(ReadRows=[serve_rows]) as service,
        service.client(read_timeout=60.0) as storage,
    ):
        batches = iter_batches(storage, SESSION, read_ahead=1)
        assert ids([next(batches)]) == list(range(10))
        batches.close()
        assert [t.name for t in running() if t.name.startswith("odps_nb")] == []


@pytest.mark.parametrize("workers", [1, 4])
def test_a_read_beyond_its_bytes_stops_before_the_batch_that_is_too_much(workers):
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


def test_a_limit_of_rows_may_keep_a_read_within_its_bytes():
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
def test_batches_are_asked_for_as_small_as_the_bytes_held_need(asked, batch):
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        assert ids(iter_batches(storage, SESSION, workers=4, **asked)) == list(range(ROWS))
    assert {call.max_batch_raw_size for call in service.calls["ReadRows"]} == {batch}


@pytest.mark.parametrize(
    ("asked", "sent"),
    [(0, 0), (1, 2**20), (2**20, 2**20), (2**28, 2**28), (2**28 + 1, 2**28)],
)
def test_a_batch_is_asked_for_only_in_bounds_that_the_service_takes(asked, sent):
    """evidence 30, 31 (C++ client: TestReadOptionsMaxBatchRows, TestReadOptionsMaxBatchRawSize)"""
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        split = SESSION.splits[0]
        batches = iter_split(
            storage, SESSION, split, max_batch_bytes=asked, max_batch_rows=20_000 + asked
        )
        assert sum(batch.num_rows for batch in batches) == rows_of(split)
    [call] = service.calls["ReadRows"]
    assert (call.max_batch_rows, call.max_batch_raw_size) == (20_000, sent)


def test_a_preview_is_read_whole_or_again():
    body = ipc(numbers(0, 5))
    with (
        Service(Preview=[cut(body, len(body) - 9), raw(body)]) as service,
        service.client() as storage,
    ):
        table = fetch_preview(storage, Preview(table=TABLE, limit=5))
    assert table.column(0).to_pylist() == [0, 1, 2, 3, 4]


def test_a_preview_always_says_how_many_rows():
    """evidence 140 (C++ client: TestAllPartitions): what comes without a limit nobody knows"""
    with Service() as service, service.client() as storage:
        with pytest.raises(ArgumentError, match="has no limit"):
            fetch_preview(storage, Preview(table=TABLE))
        assert service.seen == []


@pytest.mark.parametrize("taken", [1, 2])
def test_a_tracker_ends_with_the_rows_that_were_handed_over(taken):
    tracker = ProgressTracker("read", "t")
    with Service(ReadRows=[serve_rows]) as service, service.client() as storage:
        batches = iter_batches(storage, SESSION, limit=13, workers=3, tracker=tracker)
        rows = sum(batch.num_rows for batch in itertools.islice(batches, taken))
        batches.close()
    seen = tracker.snapshot()
    assert seen.rows == rows
    assert seen.decoded_bytes >= 8 * rows  # bytes are those that came


def test_rows_that_are_refused_for_their_size_are_not_counted():
    tracker = ProgressTracker("read", "t")
    with (
        Service(ReadRows=[serve_rows]) as service,
        service.client() as storage,
        pytest.raises(LimitExceededError),
    ):
        list(iter_batches(storage, SESSION, max_bytes=1, tracker=tracker))
    assert tracker.snapshot().rows == 0
