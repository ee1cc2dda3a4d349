"""SQL instances: waiting, stopping, failures, and reading their rows after a broken connection."""

from __future__ import annotations

import threading
from uuid import UUID

import pyarrow as pa
import pytest

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.client.read.requests import InstanceRows
from odps_nb.client.sql.cost import check_cost, estimate_sql
from odps_nb.client.sql.csv_result import parse_csv
from odps_nb.client.sql.query import cancel_sql, fetch_status, run_sql, submit_sql, wait_sql
from odps_nb.client.sql.result import ResultSession, iter_result, open_result
from odps_nb.errors import (
    CancelledError,
    ConflictError,
    FramingError,
    NotFoundError,
    QueryError,
    RequestTimeoutError,
    ServiceError,
    SessionExpiredError,
    TransportError,
    TruncatedError,
    explain,
)
from odps_nb.http.retry import RetryPolicy
from odps_nb.terms import SessionStatus
from odps_nb.wire.calls import InstanceSessionAnswer, decode_request
from odps_nb.wire.control import (
    SQL_TASK,
    InstanceResult,
    InstanceStatus,
    SubmittedInstance,
    TaskResult,
    TaskState,
)
from tests.support.sockets.scripted import (
    SCHEMA,
    ControlService,
    cut,
    fail,
    give,
    hang_up,
    ids,
    ipc,
    numbers,
    raw,
    stall,
    wire_of,
)

RUNNING = give(InstanceStatus(status="Running"))
OVER = give(InstanceStatus(status="Terminated"))


def ended(status: str):
    return give(InstanceStatus(status="Terminated", tasks=(TaskState(status=status),)))


def submitted(result: InstanceResult | None = None):
    body, headers = SubmittedInstance(instance_id="i1", result=result).encode(location="http://x")
    return lambda line, seen: line.answer(body, 201, **headers)


def result(text: str, status: str = ""):
    return InstanceResult(tasks=(TaskResult(status=status, text=text),))


def test_a_call_waits_until_the_query_has_succeeded():
    script = {
        "SubmitSql": [submitted()],
        "GetInstance": [RUNNING, RUNNING, OVER],
        "GetTaskStatus": [ended("Success")],
    }
    tracker = ProgressTracker("sql", "q")
    with ControlService(**script) as service, service.client() as storage:
        instance = run_sql(storage, "select 1", settings={"a": "b"}, tracker=tracker)
    assert (instance.instance_id, instance.title) == ("i1", "select 1")
    assert len(service.calls["GetInstance"]) == 3
    asked = service.calls["SubmitSql"][0]
    assert (asked.sql, asked.settings, asked.name) == ("select 1;", {"a": "b"}, "AnonymousSQLTask")
    assert asked.unique_id
    assert tracker.snapshot().phase is Phase.RUNNING


def test_a_response_with_the_result_needs_no_further_request():
    with ControlService(SubmitSql=[submitted(result("x", "Success"))]) as service:
        run_sql(service.storage, "create table t (a bigint)")
    assert list(service.calls) == ["SubmitSql"]


def test_a_query_in_a_schema_sends_the_schema():
    with (
        ControlService(SubmitSql=[submitted()]) as service,
        service.client(profile={"schema": "s1"}) as storage,
    ):
        submit_sql(storage, "select 1")
    assert service.calls["SubmitSql"][0].settings["odps.default.schema"] == "s1"


@pytest.mark.parametrize(
    "lost",
    [
        hang_up,
        cut(b"<Instance></Instance>", 9),
        raw(b"<Instance", 200, Location="http://x/i1"),
        raw(b"", 201),
        raw(b"<html>a page</html>", 502),
        fail(500, "InternalServerError"),
        fail(503, "ServiceUnavailable"),
        fail(429, "FlowExceeded"),
        fail(408, "RequestTimeout"),
        fail(400, "InvalidArgument", "ODPS-0123: OTSTimeout, get partition failed"),
        fail(409, "Conflict", "try later", **{"Retry-After": "2"}),
    ],
)
def test_a_lost_response_causes_a_retry_with_the_same_text_and_guid(lost):
    """Evidence 163: two jobs with one Guid are one instance, so the statement runs once."""
    with ControlService(SubmitSql=[lost, lost, submitted()]) as service:
        instance = submit_sql(service.storage, "insert into t select 1", settings={"a": "b"})
    assert instance.instance_id == "i1"
    first, *others = service.calls["SubmitSql"]
    assert others == [first, first]
    assert first.unique_id


def test_a_time_out_causes_a_retry_of_the_same_job():
    """Evidence 163: a request that times out is also a lost response."""
    with (
        ControlService(SubmitSql=[stall, submitted()]) as service,
        service.client(read_timeout=0.1) as storage,
    ):
        assert submit_sql(storage, "select 1").instance_id == "i1"
    first, second = service.calls["SubmitSql"]
    assert first == second


def test_each_submission_is_a_separate_job():
    """Evidence 163: a statement that the caller runs again is executed again."""
    with ControlService(SubmitSql=[submitted()]) as service, service.client() as storage:
        for _ in range(3):
            submit_sql(storage, "insert into t select 1")
    guids = [UUID(call.unique_id) for call in service.calls["SubmitSql"]]
    assert len(set(guids)) == 3
    assert {guid.version for guid in guids} == {4}


NOT_SENT = fail(429, "FlowExceeded")  # the service rejects the request without starting it


@pytest.mark.parametrize(
    ("script", "in_doubt"),
    [
        ([hang_up], True),
        ([hang_up, NOT_SENT], True),
        ([hang_up, fail(403, "NoPermission")], True),
        ([NOT_SENT], False),
        ([fail(403, "NoPermission")], False),
        ([fail(409, "Conflict")], False),
        ([hang_up, fail(400, "ParseError", "ODPS-0130161: nope")], False),
        ([hang_up, raw(b"<html>Bad Request</html>", 400)], True),
    ],
)
def test_a_statement_is_in_doubt_only_if_an_attempt_may_have_run(script, in_doubt):
    """A rejected text stays rejected; a permission or quota may have changed in the meantime."""
    with (
        ControlService(SubmitSql=script) as service,
        service.client(retry=RetryPolicy(max_attempts=3)) as storage,
        pytest.raises((TransportError, ServiceError)) as caught,
    ):
        submit_sql(storage, "insert into t select 1")
    assert caught.value.in_doubt is in_doubt
    assert ("before you repeat it" in explain(caught.value)[-1]) is in_doubt


@pytest.mark.parametrize("before", [[], [hang_up]])
def test_a_failure_is_reported_by_the_first_or_the_repeated_request(before):
    """Evidence 163: the response to the second request is that of the first instance."""
    failed = submitted(result("ODPS-0130161: Parse exception", "Failed"))
    with (
        ControlService(SubmitSql=[*before, failed]) as service,
        pytest.raises(QueryError, match="Parse exception") as caught,
    ):
        submit_sql(service.storage, "selec")
    assert not caught.value.in_doubt


def test_a_cancel_between_two_requests_reports_that_the_statement_may_run():
    token = CancelToken()
    with (
        ControlService(SubmitSql=[fail(500, "InternalServerError")]) as service,
        service.client(sleep=lambda _: token.cancel()) as storage,
        pytest.raises(CancelledError) as caught,
    ):
        submit_sql(storage, "insert into t select 1", cancel=token)
    assert len(service.calls["SubmitSql"]) == 1
    assert caught.value.in_doubt


def test_an_interrupted_wait_stops_the_query_and_names_the_instance():
    with (
        ControlService(
            SubmitSql=[submitted()], GetInstance=[hang_up], CancelInstance=[hang_up]
        ) as service,
        service.client(retry=RetryPolicy(max_attempts=2)) as storage,
        pytest.raises(TransportError) as caught,
    ):
        run_sql(storage, "insert into t select 1")
    assert caught.value.in_doubt
    assert "instance i1 was started" in caught.value.notes[-1]
    assert "CancelInstance" in service.calls


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        ("ODPS-0130161:[1,8] Parse exception - nope", QueryError, "ParseError"),
        ("ODPS-0130131:[1,15] Table not found - t", NotFoundError, "NoSuchTable"),
        ("ODPS-0110061: Table or view already exists", ConflictError, "TableAlreadyExists"),
    ],
)
def test_a_failure_has_the_message_of_the_service(text, kind, code):
    script = {
        "SubmitSql": [submitted()],
        "GetInstance": [OVER],
        "GetTaskStatus": [ended("Failed")],
        "GetInstanceResult": [give(result(text, "Failed"))],
    }
    with ControlService(**script) as service, pytest.raises(kind) as caught:
        run_sql(service.storage, "select nope")
    assert caught.value.message == text
    assert caught.value.code == code
    assert caught.value.hint
    assert "instance i1" in caught.value.notes


@pytest.mark.parametrize(
    "value", ["it already exists", "partition p not found", "ORDER BY must be used with a LIMIT"]
)
def test_a_value_in_a_message_is_not_read_as_the_cause(value):
    script = {
        "SubmitSql": [submitted()],
        "GetInstance": [OVER],
        "GetTaskStatus": [ended("Failed")],
        "GetInstanceResult": [give(result(f"ODPS-0121095: cannot convert '{value}'", "Failed"))],
    }
    with ControlService(**script) as service, pytest.raises(QueryError) as caught:
        run_sql(service.storage, "select nope")
    assert caught.value.hint is None


def test_the_error_of_a_refused_statement_shows_its_position():
    refused = fail(400, "ODPS-0130161", "ODPS-0130161:[2,3] Parse exception - invalid token")
    with ControlService(SubmitSql=[refused]) as service, pytest.raises(ServiceError) as caught:
        submit_sql(service.storage, "select *\n  frm orders")
    assert caught.value.excerpt == "    frm orders\n    ^"


def test_a_query_that_another_client_stopped_raises_an_error():
    script = {
        "SubmitSql": [submitted()],
        "GetInstance": [OVER],
        "GetTaskStatus": [ended("Cancelled")],
        "GetInstanceResult": [give(result(""))],
    }
    with ControlService(**script) as service, pytest.raises(QueryError, match="Cancelled"):
        run_sql(service.storage, "select 1")


@pytest.mark.parametrize(
    ("status", "tasks", "expected"),
    [
        ("Running", ["Success"], "running"),  # the task has ended, the instance has not
        ("Running", ["Failed"], "running"),
        ("Running", [], "running"),
        ("Running", ["Waiting"], "waiting"),
        ("Suspended", ["Success"], "suspended"),
        ("Terminated", ["Success"], "success"),
        ("Terminated", ["Success", "Failed"], "failed"),
    ],
)
def test_a_job_has_ended_only_if_its_instance_has(status, tasks, expected):
    state = InstanceStatus(status=status, tasks=tuple(TaskState(status=one) for one in tasks))
    with ControlService(SubmitSql=[submitted()], GetTaskStatus=[give(state)]) as service:
        instance = submit_sql(service.storage, "select 1")
        assert fetch_status(service.storage, instance) == expected


def test_a_timeout_ends_the_wait_but_not_the_query():
    now = iter(range(100))
    with (
        ControlService(SubmitSql=[submitted()], GetInstance=[RUNNING]) as service,
        service.client(monotonic=lambda: float(next(now))) as storage,
    ):
        instance = submit_sql(storage, "select 1")
        with pytest.raises(RequestTimeoutError, match="still running after 3 s"):
            wait_sql(storage, instance, timeout=3)
    assert "CancelInstance" not in service.calls


def test_a_cancelled_token_ends_the_wait():
    token = CancelToken()

    def then_cancel(line, seen):
        RUNNING(line, seen)
        token.cancel()

    with (
        ControlService(SubmitSql=[submitted()], GetInstance=[then_cancel]) as service,
        pytest.raises(CancelledError),
    ):
        wait_sql(service.storage, submit_sql(service.storage, "select 1"), cancel=token)


def test_a_query_that_times_out_in_run_sql_is_cancelled():
    script = {
        "SubmitSql": [submitted()],
        "GetInstance": [RUNNING],
        "CancelInstance": [raw(b"")],
    }
    with (
        ControlService(**script) as service,
        pytest.raises(RequestTimeoutError, match=r"within 0\.01 s and was cancelled") as caught,
    ):
        run_sql(service.storage, "select 1", timeout=0.01)
    assert service.calls["CancelInstance"][0].instance_id == "i1"
    assert caught.value.hint.startswith("pass a longer timeout=")
    assert caught.value.notes[-1].startswith("if instance i1 writes data")


def test_if_a_query_cannot_be_stopped_the_error_of_the_wait_is_still_raised(caplog):
    script = {
        "SubmitSql": [submitted()],
        "GetInstance": [RUNNING],
        "CancelInstance": [fail(403, "NoPermission")],
    }
    with (
        ControlService(**script) as service,
        pytest.raises(RequestTimeoutError, match="could not be cancelled: it may still be running"),
    ):
        run_sql(service.storage, "select 1", timeout=0.01)
    assert any("could not be stopped" in one for one in caplog.messages)


def test_cancelling_a_query_sends_one_request():
    script = {"SubmitSql": [submitted()], "CancelInstance": [raw(b"")]}
    with ControlService(**script) as service, service.client() as storage:
        cancel_sql(storage, submit_sql(storage, "select 1"))
    assert len(service.calls["CancelInstance"]) == 1


def test_only_the_conflict_of_an_ended_query_is_no_error_of_a_cancellation():
    refused = [fail(409, "InvalidStateSetting"), fail(409, "AnotherConflict")]
    script = {"SubmitSql": [submitted()], "CancelInstance": refused}
    with ControlService(**script) as service, service.client() as storage:
        instance = submit_sql(storage, "select 1")
        cancel_sql(storage, instance)
        with pytest.raises(ConflictError, match="AnotherConflict"):
            cancel_sql(storage, instance)


def test_the_title_of_a_query_is_one_short_line():
    with ControlService(SubmitSql=[submitted()]) as service, service.client() as storage:
        instance = submit_sql(storage, "select\n  1,\n" + "  2,\n" * 100)
    assert "\n" not in instance.title
    assert len(instance.title) == 80
    assert "select" not in repr(instance)


# -- rows ---------------------------------------------------------------------------------------


def session(rows: int) -> ResultSession:
    return ResultSession(
        instance_id="i1",
        schema=SCHEMA,
        row_count=rows,
        source=InstanceRows(project="p", instance_id="i1", session_id="d1", task=SQL_TASK),
    )


def test_opening_a_result_waits_until_it_is_ready():
    answer = InstanceSessionAnswer(download_id="d1", record_count=3, schema=SCHEMA)
    first = InstanceSessionAnswer(download_id="d1", status=SessionStatus.INIT)
    script = {
        "SubmitSql": [submitted()],
        "CreateInstanceReadSession": [give(first)],
        "GetInstanceReadSession": [give(first), give(answer)],
    }
    with ControlService(**script) as service, service.client() as storage:
        opened = open_result(storage, submit_sql(storage, "select 1"))
    assert (opened.session_id, opened.row_count, opened.schema.names) == ("d1", 3, ("id",))
    assert len(service.calls["GetInstanceReadSession"]) == 2


def test_a_deleted_result_raises_an_error():
    answer = InstanceSessionAnswer(download_id="d1", status=SessionStatus.EXPIRED)
    script = {"SubmitSql": [submitted()], "CreateInstanceReadSession": [give(answer)]}
    with (
        ControlService(**script) as service,
        pytest.raises((QueryError, SessionExpiredError), match="EXPIRED"),
    ):
        open_result(service.storage, submit_sql(service.storage, "select 1"))


def test_an_expired_result_is_not_found():
    script = {
        "SubmitSql": [submitted()],
        "CreateInstanceReadSession": [fail(404, "NoSuchInstance", "no such instance")],
    }
    with ControlService(**script) as service, pytest.raises(NotFoundError) as gone:
        open_result(service.storage, submit_sql(service.storage, "select 1"))
    assert "run the query again" in gone.value.hint
    assert "result of instance i1" in gone.value.__notes__


@pytest.mark.parametrize("text", ['"a"\n"1', '"a","b"\n"1","x\n', '"a"\n"1"x"\n'])
def test_a_text_result_that_is_not_whole_raises_an_error(text):
    with pytest.raises(FramingError, match="the last cell has no end"):
        parse_csv(text)


def test_an_estimate_without_a_task_raises_an_error():
    script = {
        "SubmitSql": [submitted()],
        "GetInstance": [OVER],
        "GetTaskStatus": [ended("Success")],
        "GetInstanceResult": [give(InstanceResult(tasks=()))],
    }
    with ControlService(**script) as service, pytest.raises(FramingError, match="no estimate"):
        estimate_sql(service.storage, "select 1")


def test_a_statement_that_reads_no_table_is_not_estimated():
    with ControlService() as service:
        check_cost(service.storage, "drop table t", 1)
    assert not service.calls


def test_rows_are_returned_in_order_and_counted():
    tracker = ProgressTracker("sql", "q")
    script = {"ReadInstance": [raw(ipc(numbers(0, 25)))]}
    with ControlService(**script) as service, service.client() as storage:
        batches = list(iter_result(storage, session(25), tracker=tracker))
    assert ids(batches) == list(range(25))
    asked = service.calls["ReadInstance"][0]
    assert (asked.offset, asked.count, asked.session_id) == (0, 25, "d1")
    seen = tracker.snapshot()
    assert seen.rows == 25
    assert seen.complete_bytes == seen.decoded_bytes > 0
    assert seen.verified_bytes == 0


def test_a_broken_stream_resumes_at_the_row_where_it_stopped():
    whole = ipc(numbers(0, 25))
    script = {"ReadInstance": [cut(whole, len(whole) - 60), raw(ipc(numbers(20, 25)))]}
    with ControlService(**script) as service, service.client() as storage:
        assert ids(iter_result(storage, session(25))) == list(range(25))
    first, second = service.calls["ReadInstance"]
    assert (first.offset, first.count) == (0, 25)
    assert (second.offset, second.count) == (20, 5)


def test_rows_that_are_missing_raise_an_error():
    script = {"ReadInstance": [raw(ipc(numbers(0, 20))), raw(ipc(numbers(20, 20)))]}
    with ControlService(**script) as service, pytest.raises(TruncatedError):
        list(iter_result(service.storage, session(25)))


def test_a_limited_read_requests_no_further_rows():
    script = {"ReadInstance": [raw(ipc(numbers(0, 5)))]}
    with ControlService(**script) as service, service.client() as storage:
        assert ids(iter_result(storage, session(25), limit=5)) == [0, 1, 2, 3, 4]
    assert service.calls["ReadInstance"][0].count == 5


def test_reading_an_empty_result_sends_no_request():
    with ControlService() as service, service.client() as storage:
        assert (
            pa.Table.from_batches(
                list(iter_result(storage, session(0))), schema=pa.schema([])
            ).num_rows
            == 0
        )
    assert not service.calls


# -- large results ------------------------------------------------------------------------------


def page_of(seen) -> tuple[int, int]:
    asked = decode_request(wire_of(seen))
    return asked.offset, asked.offset + asked.count


def serve_page(line, seen) -> None:
    line.answer(ipc(numbers(*page_of(seen))))


def pages(service) -> list[tuple[int, int]]:
    return sorted((call.offset, call.count) for call in service.calls["ReadInstance"])


def test_pages_of_a_large_result_are_read_concurrently_and_in_order():
    together = threading.Barrier(4, timeout=20)

    def step(line, seen) -> None:
        together.wait()  # no page is served before all four are requested
        serve_page(line, seen)

    tracker = ProgressTracker("sql", "q")
    with ControlService(ReadInstance=[step]) as service, service.client() as storage:
        got = ids(iter_result(storage, session(103), page_rows=30, tracker=tracker))
    assert got == list(range(103))
    assert pages(service) == [(0, 25), (25, 26), (51, 26), (77, 26)]
    seen = tracker.snapshot()
    assert seen.rows == 103
    assert [(one.label, one.rows, one.done) for one in seen.splits] == [
        ("rows 0…25", 25, True),
        ("rows 25…51", 26, True),
        ("rows 51…77", 26, True),
        ("rows 77…103", 26, True),
    ]


def test_a_page_whose_stream_breaks_resumes_at_the_row_where_it_stopped():
    broken = threading.Event()

    def step(line, seen) -> None:
        low, high = page_of(seen)
        if low != 50 or broken.is_set():
            serve_page(line, seen)
            return
        broken.set()
        whole = ipc(numbers(low, high), rows=10)
        cut(whole, len(whole) - 60)(line, seen)

    with ControlService(ReadInstance=[step]) as service, service.client() as storage:
        assert ids(iter_result(storage, session(200), page_rows=50)) == list(range(200))
    assert pages(service) == [(0, 50), (50, 50), (90, 10), (100, 50), (150, 50)]


def test_a_limited_read_of_a_large_result_requests_no_further_pages():
    with ControlService(ReadInstance=[serve_page]) as service, service.client() as storage:
        assert ids(iter_result(storage, session(200), limit=55, page_rows=50)) == list(range(55))
    assert pages(service) == [(0, 27), (27, 28)]


def test_closing_a_large_result_stops_its_requests():
    tracker = ProgressTracker("sql", "q")
    with ControlService(ReadInstance=[serve_page]) as service, service.client() as storage:
        batches = iter_result(
            storage, session(2000), page_rows=50, workers=2, read_ahead=1, tracker=tracker
        )
        assert ids([next(batches)]) == list(range(10))
        batches.close()
    assert len(service.calls["ReadInstance"]) <= 2
    assert tracker.snapshot().rows == 10


def test_a_result_of_one_page_is_one_request():
    with ControlService(ReadInstance=[serve_page]) as service, service.client() as storage:
        assert ids(iter_result(storage, session(1000), page_rows=1000)) == list(range(1000))
    assert pages(service) == [(0, 1000)]
