"""Read sessions: how they are opened, polled, refreshed and divided into splits."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from odps_nb.client.read.plan import ReadPlan, ReadSession
from odps_nb.client.read.session import plan_ranges
from odps_nb.client.read.splits import iter_split
from odps_nb.client.reading import open_read_session
from odps_nb.errors import (
    ArgumentError,
    RequestTimeoutError,
    ServerFaultError,
    ServiceError,
    SessionExpiredError,
    TruncatedError,
)
from odps_nb.filters.row_filter import RowFilter
from odps_nb.http.retry import RetryPolicy
from odps_nb.schema import Column, PrimitiveType, TableSchema, TypeCode
from odps_nb.terms import IndexSplit, PartitionSpec, RowRangeSplit, SessionStatus, SplitMode
from odps_nb.wire.calls import ReadSessionAnswer
from tests.support.sockets.read_sessions import ANSWER, SESSION
from tests.support.sockets.scripted import SCHEMA, TABLE, Service, fail, give, ipc, numbers, raw


def opened(*answers: ReadSessionAnswer, **plan) -> tuple[ReadSession, Service]:
    with Service(
        CreateReadSession=[give(answer) for answer in answers],
        GetReadSession=[give(answer) for answer in answers[1:]] or [give(ANSWER)],
    ) as service:
        return open_read_session(service.storage, ReadPlan(table=TABLE, **plan)), service


def test_without_a_filter_rows_are_counted_and_divided_into_ranges():
    session, service = opened(ANSWER)
    request = service.calls["CreateReadSession"][0]
    assert request.split_mode is SplitMode.ROW_OFFSET
    assert session.splits == tuple(RowRangeSplit(at, 25) for at in (0, 25, 50, 75))
    assert (session.row_count, session.route_token, session.filter) == (100, "rt", None)
    assert session.schema.names == SCHEMA.names


def test_with_a_filter_the_service_divides_the_rows():
    answer = ReadSessionAnswer(session_id="s", splits_count=3, schema=SCHEMA)
    session, service = opened(answer, where="id > 3", schema=SCHEMA, split_bytes=10 * 2**20)
    (request,) = service.calls["CreateReadSession"]
    assert (request.split_mode, request.split_number) == (SplitMode.SIZE, 10 * 2**20)
    assert (request.filter_predicate, request.filter_fallback) == ("id > 3", True)
    assert session.splits == (IndexSplit(0), IndexSplit(1), IndexSplit(2))
    assert session.row_count is None
    assert session.filter.columns == ("id",)


def test_a_filter_over_an_unknown_table_requests_its_columns_first():
    _, service = opened(ANSWER, ReadSessionAnswer(session_id="s", schema=SCHEMA), where="id > 3")
    first, second = service.calls["CreateReadSession"]
    assert (first.filter_predicate, first.split_mode) == ("", SplitMode.ROW_OFFSET)
    assert (second.filter_predicate, second.split_mode) == ("id > 3", SplitMode.SIZE)


@pytest.mark.parametrize("asked", [{"splits": 4}, {"split_bytes": 2**20}])
def test_small_filtered_splits_are_row_ranges(asked):
    session, service = opened(ANSWER, where="id > 3", schema=SCHEMA, **asked)
    (request,) = service.calls["CreateReadSession"]
    assert request.split_mode is SplitMode.ROW_OFFSET
    assert sum(split.count for split in session.splits) == session.stored_rows == 100
    assert session.row_count is None


def test_a_filter_that_cannot_be_pushed_down_reads_row_ranges():
    session, service = opened(ANSWER, where="id + 0 > 3", schema=SCHEMA)
    (request,) = service.calls["CreateReadSession"]
    assert (request.split_mode, request.filter_predicate) == (SplitMode.ROW_OFFSET, "")
    assert not session.prunes
    assert session.row_count is None


def test_missing_rows_are_detected_before_filtering():
    session = replace(SESSION, filter=RowFilter.parse("id + 0 >= 0", SCHEMA))
    with (
        Service(ReadRows=[raw(ipc(numbers(0, 10)))]) as service,
        service.client(retry=RetryPolicy(max_attempts=1)) as storage,
        pytest.raises(TruncatedError),
    ):
        list(iter_split(storage, session, RowRangeSplit(0, 25)))


def test_a_table_that_can_only_be_split_by_rows_is_filtered_in_row_ranges():
    with Service(CreateReadSession=[fail(400, "InvalidParameter"), give(ANSWER)]) as service:
        plan = ReadPlan(table=TABLE, where="id > 3", schema=SCHEMA)
        session = open_read_session(service.storage, plan)
        by_size, by_rows = service.calls["CreateReadSession"]
    assert (by_size.split_mode, by_rows.split_mode) == (SplitMode.SIZE, SplitMode.ROW_OFFSET)
    assert by_rows.filter_predicate == "id > 3"
    assert (session.row_count, session.stored_rows) == (None, 100)


def test_a_limit_of_a_filtered_read_applies_after_the_filter():
    session, _ = opened(ANSWER, where="id > 3", schema=SCHEMA, splits=4, limit=3)
    assert sum(split.count for split in session.splits) == 100


def test_columns_that_only_the_filter_needs_are_read_and_not_returned():
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
        ({"limit": 500}, [25] * 4),
    ],
)
def test_splits_have_the_requested_number_or_size(plan, lengths):
    session, _ = opened(ANSWER, **plan)
    assert [split.count for split in session.splits] == lengths
    assert session.row_count == sum(lengths)


def test_a_table_without_a_row_count_is_split_by_the_service():
    uncounted = ReadSessionAnswer(session_id="s", split_mode=SplitMode.ROW_OFFSET, schema=SCHEMA)
    by_size = ReadSessionAnswer(session_id="s2", splits_count=2, schema=SCHEMA)
    session, _ = opened(uncounted, by_size)
    assert (session.session_id, session.splits) == ("s2", (IndexSplit(0), IndexSplit(1)))


def test_a_read_waits_for_a_session_in_preparation():
    init = ReadSessionAnswer(session_id="s", status=SessionStatus.INIT, route_token="rt0")
    ready = ReadSessionAnswer(
        session_id="s", split_mode=SplitMode.ROW_OFFSET, record_count=1, schema=SCHEMA
    )
    session, service = opened(init, init, init, ready)
    assert session.row_count == 1
    assert session.route_token == "rt0"
    assert len(service.slept) == 3


def test_waiting_for_a_session_ends_after_an_hour():
    """evidence 211: Java's withSessionReadyTimeout is 3600 s by default (storage-api/read.md)."""
    init = ReadSessionAnswer(session_id="s", status=SessionStatus.INIT)
    with (
        Service(CreateReadSession=[give(init)], GetReadSession=[give(init)]) as service,
        pytest.raises(RequestTimeoutError, match="not ready after 36"),
    ):
        open_read_session(service.storage, ReadPlan(table=TABLE))
    assert 3600 <= sum(service.slept) < 3610


@pytest.mark.parametrize(
    ("status", "kind"),
    [(SessionStatus.CRITICAL, ServiceError), (SessionStatus.EXPIRED, SessionExpiredError)],
)
def test_a_failed_session_reports_the_reason(status, kind):
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


OTS = "OTSTimeout: table meta"


@pytest.mark.parametrize(
    "failed",
    [
        fail(400, "InvalidArgument", OTS),
        fail(503, "ServiceUnavailable", OTS),
        give(ReadSessionAnswer(session_id="s", status=SessionStatus.CRITICAL, message=OTS)),
    ],
    ids=["400", "503", "as a status"],
)
def test_a_session_whose_metadata_timed_out_is_created_again(failed):
    """Evidence 162: the error is recognised by the word, whatever its status (Spark connector)."""
    steps = [failed, failed, give(ANSWER)]
    with Service(CreateReadSession=steps) as service, service.client() as storage:
        session = open_read_session(storage, ReadPlan(table=TABLE))
        assert session.row_count == 100
        assert len(service.calls["CreateReadSession"]) == 3
        assert len(service.slept) == 2
    with (
        Service(CreateReadSession=[failed]) as service,
        service.client(retry=RetryPolicy(max_attempts=3)) as storage,
        pytest.raises(ServerFaultError, match="OTSTimeout"),
    ):
        open_read_session(storage, ReadPlan(table=TABLE))
    assert len(service.calls["CreateReadSession"]) == 3


def test_a_session_that_fails_for_another_reason_is_not_created_again():
    """Evidence 162: a table name may contain the word."""
    reason = "ODPS-0130131:Table not found - p.otstimeout_log"
    failed = give(ReadSessionAnswer(session_id="s", status=SessionStatus.CRITICAL, message=reason))
    with Service(CreateReadSession=[failed]) as service, service.client() as storage:
        with pytest.raises(ServiceError, match="otstimeout_log"):
            open_read_session(storage, ReadPlan(table=TABLE))
        assert len(service.calls["CreateReadSession"]) == 1


def test_a_request_that_is_moved_to_another_server_is_retried_at_the_same_address():
    """Evidence 179: status 308 means a reassigned slot; the stock client retries the request."""
    headers = {"odps-tunnel-routed-server": "10.0.0.7", "Location": "http://127.0.0.1:1/"}
    steps = [raw(b"", 308, **headers), give(ANSWER)]
    with Service(CreateReadSession=steps) as service, service.client() as storage:
        assert open_read_session(storage, ReadPlan(table=TABLE)).row_count == 100
        assert len(service.calls["CreateReadSession"]) == 2


def test_partition_columns_are_determined_by_a_request():
    session, service = opened(PARTED, columns=("DS", "note"))
    first, second = service.calls["CreateReadSession"]
    assert (first.data_columns, first.partition_columns) == ((), ())
    assert (second.data_columns, second.partition_columns) == (("note",), ("ds",))
    assert session.schema.names == ("note", "ds")


def test_known_partition_columns_save_a_request():
    session, service = opened(PARTED, columns=("ds", "id"), partition_columns=("ds",))
    (request,) = service.calls["CreateReadSession"]
    assert (request.data_columns, request.partition_columns) == (("id",), ("ds",))
    assert session.schema.names == ("id", "ds")


def test_reading_only_partition_columns_does_not_transfer_all_data():
    session, service = opened(PARTED, columns=("ds",))
    assert service.calls["CreateReadSession"][-1].data_columns == ("id",)
    assert session.schema.names == session.columns == ("ds",)


def test_an_unknown_column_lists_those_that_exist():
    with pytest.raises(ArgumentError, match="no column 'nope'") as caught:
        opened(PARTED, columns=("nope",))
    assert caught.value.hint.startswith("use its columns: id, note, ds (")


def test_partitions_are_sent_in_the_request():
    spec = PartitionSpec.of("ds=x,h=1")
    _, service = opened(ANSWER, partitions=(spec,))
    assert service.calls["CreateReadSession"][0].partitions == (spec,)


@pytest.mark.parametrize(
    "plan", [{"splits": 0}, {"split_bytes": -1}, {"limit": -1}, {"max_batch_rows": 20_001}]
)
def test_contradictory_read_options_are_refused(plan):
    with pytest.raises(ArgumentError):
        ReadPlan(table=TABLE, **plan)


def test_a_session_survives_pickling():
    assert pickle.loads(pickle.dumps(SESSION)) == SESSION
    assert repr(SESSION) == "ReadSession(p.t, 's', 4 splits, rows=100, columns=1)"


def test_no_split_is_empty():
    assert [split.count for split in plan_ranges(3, 10)] == [1, 1, 1]
    assert plan_ranges(0, 10) == ()


@pytest.mark.parametrize("size", [-1, 0, 1, None])
def test_a_wrong_estimate_of_the_size_loses_no_rows(size):
    session, _ = opened(replace(ANSWER, estimated_size=size))
    assert sum(split.count for split in session.splits) == session.row_count == 100


def test_a_hundred_thousand_splits_are_planned():
    splits = plan_ranges(10**9 + 7, 100_000)
    assert len(splits) == 100_000
    assert sum(split.count for split in splits) == 10**9 + 7
