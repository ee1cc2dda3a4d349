"""Rows of a query arrive in parts, and the transfer stops on close."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pyarrow as pa
import pytest

import odps_nb
from odps_nb import Connection, Result
from odps_nb.access.paging.browsing import rows_of
from odps_nb.errors import ArgumentError
from tests.support.service.services import using
from tests.support.spark.services import misbehaving
from tests.support.spark.watched import injected, misbehave
from tests.support.threads import running

pytestmark = pytest.mark.every_service(in_turn=True)

ALL = "select id, ds from orders where ds = '2024-01-01'"


@pytest.fixture(scope="module")
def result(odps: Connection) -> Result:
    return odps.sql(ALL, progress=False)


@pytest.fixture(scope="module")
def rows(result: Result) -> pa.Table:
    return result.to_arrow(progress=False)


def test_a_result_has_the_same_rows_in_every_form(result: Result, rows: pa.Table) -> None:
    assert rows.num_rows == result.row_count > 100_000
    with result.reader(progress=False) as reader:
        assert reader.schema == result.arrow_schema
        assert reader.read_all().equals(rows)
    assert pa.table(result).equals(rows)
    assert pa.Table.from_batches(result.batches(progress=False)).equals(rows)
    assert len(result.to_pandas(progress=False)) == rows.num_rows


@pytest.mark.parametrize("workers", [1, 3])
def test_parts_are_in_order_with_any_number_of_workers(
    result: Result, rows: pa.Table, workers: int
) -> None:
    batches = result.batches(workers=workers, read_ahead=1 << 16, progress=False)
    assert pa.Table.from_batches(batches).equals(rows)


def test_a_query_result_is_displayed_with_the_title_of_the_query(odps: Connection) -> None:
    query = (
        "select 'a long literal that does not fit' as a, 'another one that is just as long' as b"
    )
    title = rows_of(odps.sql(query, progress=False)).title
    assert title == "select 'a long literal that does not fit' as a, …"


def test_fewer_than_one_worker_is_refused(result: Result) -> None:
    with pytest.raises(ArgumentError, match="workers is 0"):
        next(result.batches(workers=0))


def test_the_first_batch_is_returned_before_the_rest_arrives(odps: Connection) -> None:
    """A reader that is closed early cancels the transfer, and its threads end."""
    threads = {*running()}
    with odps_nb.connect(odps.profile) as connection:
        result = connection.sql(ALL, progress=False)
        batches = result.batches(read_ahead=1, progress=False)
        assert 0 < next(batches).num_rows < result.row_count
        batches.close()
        with result.reader(progress=False) as reader:
            assert 0 < reader.read_next_batch().num_rows < result.row_count
        del reader
        gc.collect()
    assert {*running()} <= threads


def test_a_result_without_rows_has_columns(odps: Connection) -> None:
    nothing = odps.sql("select id from orders where id < 0", progress=False)
    assert list(nothing.to_pandas(progress=False).columns) == ["id"]
    with nothing.reader(progress=False) as reader:
        assert reader.schema.names == ["id"]
        assert reader.read_all().num_rows == 0


def test_a_consumer_of_the_c_stream_can_stop_early(odps: Connection) -> None:
    first = odps.sql(ALL, progress=False).first(5)
    stream: Iterator[pa.RecordBatch] = pa.RecordBatchReader.from_stream(first)
    assert sum(batch.num_rows for batch in stream) == 5


STATEMENTS = {
    "show tables": "orders",
    "show partitions orders": "ds=2024-01-02",
    "show create table orders": "PARTITIONED BY",
    "desc orders": "customer",
    "explain select id from orders": "id",
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_result_of_a_statement_that_is_not_a_query_is_text(
    odps: Connection, statement: str
) -> None:
    result = odps.sql(statement, progress=False)
    cells = [text for row in result.to_arrow().to_pylist() for text in row.values()]
    assert any(STATEMENTS[statement] in text for text in cells)
    assert result.row_count == len(result.to_pandas()) == result.first(1000).to_arrow().num_rows


def test_a_statement_that_defines_a_table_has_no_result(odps: Connection) -> None:
    assert odps.sql("create table if not exists orders (id bigint)").to_pandas().shape == (0, 0)


def test_a_statement_is_shown_with_every_character_of_its_comments() -> None:
    with using("tunnel"), misbehaving() as odps:
        comment = "a\u2028b\u0085c"
        odps.create_table("told", f"id bigint comment '{comment}'")
        lines = odps.sql("show create table told").to_arrow()["result"].to_pylist()
        assert f"  `id` bigint comment '{comment}'" in lines
        assert lines[-1].endswith(";")


@pytest.mark.parametrize("sql", ["show tables", "-- all\n/* of\nthem */ SHOW tables"])
def test_an_older_tunnel_is_not_asked_for_the_result_of_a_statement(sql: str) -> None:
    """It would fail with status 500 (pyodps)."""
    with using("tunnel"), misbehaving() as odps:
        odps.create_table("listed", "id bigint")
        fault = {"fault": "status", "code": "InternalServerError", "times": 0}
        misbehave(odps, {"action": "/projects/", **fault})
        assert odps.sql(sql).to_arrow().to_pylist() == [{"result": "listed"}]
        assert injected(odps) == [0]


def test_any_number_of_comments_may_precede_a_query_by_the_tunnel() -> None:
    with using("tunnel"), misbehaving() as odps:
        query = "/* a */ " * 99 + "select 1 as a"
        assert odps.sql(query).to_arrow().to_pylist() == [{"a": 1}]
