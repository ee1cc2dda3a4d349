"""Reads and writes of Spark through a service that fails in several ways."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import odps_nb.spark
from odps_nb import ClientOptions
from odps_nb.errors import RequestTimeoutError, ServerFaultError, SessionExpiredError
from odps_nb.spark.tasks.errors import from_spark
from odps_nb.wire.calls import WireRequest
from tests.support.service.services import by_storage_api
from tests.support.spark.services import of_commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

pytestmark = [pytest.mark.spark, pytest.mark.every_service(in_turn=True)]

ROWS = 20_000
Ask = Callable[..., None]


@pytest.fixture(scope="module")
def faulty(slow: Connection) -> Connection:
    """A connection to a service that fails on request."""
    return slow


@pytest.fixture
def ask(faulty: Connection) -> Iterator[Ask]:
    """Apply fault rules until the test ends."""

    def put(*rules: dict[str, Any]) -> None:
        body = json.dumps({"rules": rules}).encode()
        faulty._storage.rest(WireRequest(method="PUT", path="/misbehaviour", body=body))

    yield put
    faulty._storage.rest(WireRequest(method="DELETE", path="/misbehaviour"))


def _injected(faulty: Connection) -> list[int]:
    _, body = faulty._storage.rest(WireRequest(method="GET", path="/misbehaviour"))
    return [rule["injected"] for rule in json.loads(body)["rules"]]


@pytest.fixture
def table(faulty: Connection, new_name: Callable[[str], str]) -> str:
    """A table with twenty thousand numbers."""
    name = new_name("moody")
    faulty.create_table(name, "id bigint").write(pa.table({"id": range(ROWS)}))
    return name


def _total(spark: SparkSession, odps: Connection, name: str) -> tuple[int, int]:
    frame = odps_nb.spark.read(spark, odps, name, splits=2)
    row = frame.selectExpr("count(*)", "count(distinct id)").collect()[0]
    return row[0], row[1]


def test_truncated_and_throttled_reads_resume_without_losing_a_row(
    spark: SparkSession, faulty: Connection, table: str, ask: Ask
) -> None:
    ask(
        {"action": "TableRead", "fault": "cut", "at": 5000, "times": 3},
        {"action": "TableRead", "fault": "status", "status": 429, "retry_after": 0.05, "times": 2},
        {"action": "TableRead", "fault": "close", "times": 1},
    )
    assert _total(spark, faulty, table) == (ROWS, ROWS)
    assert _injected(faulty) == [3, 2, 1]


@pytest.mark.nightly
def test_an_expired_session_stops_the_job_with_a_hint(
    spark: SparkSession, faulty: Connection, table: str, ask: Ask
) -> None:
    frame = odps_nb.spark.read(spark, faulty, table, splits=2)
    ask({"action": "TableRead", "fault": "expire"})
    with pytest.raises(Exception, match="read the table again") as caught:
        frame.filter("true").count()
    assert isinstance(from_spark(caught.value), SessionExpiredError)
    assert "java" not in str(caught.value).lower()


def test_lost_responses_to_uploads_and_the_commit_repeat_no_rows(
    spark: SparkSession, faulty: Connection, table: str, ask: Ask
) -> None:
    ask(
        {"action": "TableWrite", "fault": "close", "times": 2},
        {"action": "TableCreateWriteStream", "fault": "close"},
        {"action": "TableCloseWriteStream", "fault": "status", "status": 503},
        of_commit(faulty, by_storage_api(), fault="close"),
    )
    receipt = odps_nb.spark.write(spark.range(ROWS, ROWS + 1000, 1, 2), faulty, table)
    assert receipt.rows == 1000
    assert _injected(faulty) == [2, 1, 1, 1]
    assert _total(spark, faulty, table) == (ROWS + 1000, ROWS + 1000)


def test_a_permanently_refused_commit_leaves_no_rows(
    spark: SparkSession, faulty: Connection, table: str, ask: Ask
) -> None:
    soon = odps_nb.connect(faulty.profile, client_options=ClientOptions(retries=2))
    ask(of_commit(faulty, by_storage_api(), fault="status", status=500, times=0))
    with soon, pytest.raises(ServerFaultError) as caught:
        odps_nb.spark.write(spark.range(ROWS, ROWS + 10), soon, table)
    if by_storage_api():
        assert not caught.value.in_doubt
        assert caught.value.notes[-1] == "the write was aborted; none of its rows are in the table"
        assert _injected(faulty) == [3]
    else:  # the client cannot ask whether its statement runs
        assert caught.value.in_doubt
        assert caught.value.notes[-1].endswith("was not aborted")
    ask()
    assert _total(spark, faulty, table) == (ROWS, ROWS)


def test_the_data_source_recovers_from_the_same_faults(
    spark: SparkSession, faulty: Connection, table: str, ask: Ask
) -> None:
    odps_nb.spark.register(spark)
    given = odps_nb.spark.options(faulty)
    ask(
        {"action": "TableRead", "fault": "cut", "at": 5000},
        of_commit(faulty, by_storage_api(), fault="close"),
        {"action": "TableWrite", "fault": "close"},
    )
    more = spark.range(ROWS, ROWS + 10, 1, 1)
    more.write.format("odps").options(**given).mode("append").save(table)
    frame = spark.read.format("odps").options(**given).load(table)
    assert frame.selectExpr("count(distinct id)", "count(id)").collect()[0][:] == (
        ROWS + 10,
        ROWS + 10,
    )
    assert _injected(faulty) == [1, 1, 1]


@pytest.mark.nightly
def test_a_task_uses_the_time_outs_of_the_driver(
    spark: SparkSession, faulty: Connection, table: str, ask: Ask
) -> None:
    def connected(**options: float) -> Connection:
        return odps_nb.connect(faulty.profile, client_options=ClientOptions(**options))

    ask({"action": "TableRead", "fault": "stall", "at": 5000})
    with connected(read_timeout=0.5) as soon:
        assert _total(spark, soon, table) == (ROWS, ROWS)
    assert _injected(faulty) == [1]
    ask({"action": "TableRead", "fault": "stall", "at": 5000, "times": 0})
    with (
        connected(read_timeout=0.5, retries=0) as once,
        pytest.raises(Exception, match=r"silent for 0\.5 s") as caught,
    ):
        _total(spark, once, table)
    assert isinstance(from_spark(caught.value), RequestTimeoutError)
