"""`Connection.queries` lists the latest statements with their outcome."""

import copy
import pickle

import pytest

from odps_nb.access.connection import MAX_QUERIES
from odps_nb.access.paging.sql_job import SqlJob
from odps_nb.errors import CancelledError, NotFoundError, RequestTimeoutError
from odps_nb.terms import TextOptions
from tests.support.service.connecting import connected

SLOW = "select count(*) as n from orders a join orders b on a.status = b.status"
DAYS = "select ds, count(*) as n from orders group by ds order by ds limit 3"


@pytest.fixture
def odps_alone(service):
    with connected(service) as found:
        yield found


def test_statements_are_listed_newest_first_with_their_outcome(odps_alone):
    assert odps_alone.queries() == ()
    assert repr(odps_alone.queries()) == "no queries yet"
    counted = odps_alone.sql(DAYS, settings={"odps.sql.allow.fullscan": "true"})
    with pytest.raises(NotFoundError):
        odps_alone.sql("select * from no_such_table")
    failed, first = odps_alone.queries()
    assert (failed.sql, failed.state) == ("select * from no_such_table", "failed")
    assert (first.sql, first.state, first.rows, first.received) == (DAYS, "success", None, 0)
    assert first.seconds >= 0
    assert first.started.utcoffset() is not None
    counted.to_arrow()
    assert first.rows == 3
    assert first.received > 0
    assert first.run().to_arrow().equals(counted.to_arrow())
    assert [one.sql for one in odps_alone.queries()] == [DAYS, failed.sql, DAYS]
    assert odps_alone.queries()[0].settings == first.settings


def test_the_outcome_of_a_statement_is_recorded_by_the_waiting_call(odps_alone):
    started = odps_alone.sql(DAYS, wait=False)
    (query,) = odps_alone.queries()
    assert (query.state, query.seconds) == ("sent", None)
    started.first(1).wait()
    assert query.state == "success"
    slow = odps_alone.sql(SLOW, wait=False)
    with pytest.raises(RequestTimeoutError):
        slow.wait(timeout=0)
    assert odps_alone.queries()[0].state == "sent"  # the statement still runs
    slow.cancel()
    with pytest.raises(CancelledError):
        slow.wait()
    assert odps_alone.queries()[0].state == "cancelled"
    with pytest.raises(RequestTimeoutError):
        odps_alone.sql(SLOW, timeout=0)
    assert odps_alone.queries()[0].state == "cancelled"


def test_jobs_of_an_explorer_are_listed_separately(odps_alone):
    odps_alone.sql(DAYS)
    for _ in range(2):
        SqlJob().run(odps_alone, "select 1 as x", shown=TextOptions())
    assert [one.mine for one in odps_alone.queries()] == [False, False, True]
    (mine,) = odps_alone.queries(mine=True)
    assert mine.sql == DAYS
    assert "odps.queries(" not in repr(odps_alone.queries())  # a later list has other numbers


@pytest.mark.nightly
def test_only_the_latest_statements_are_listed(odps_alone):
    for n in range(MAX_QUERIES + 3):
        odps_alone.sql(f"select {n} as n", wait=False)
    found = odps_alone.queries()
    assert len(found) == MAX_QUERIES
    assert (found[0].sql, found[-1].sql) == ("select 102 as n", "select 3 as n")


def test_the_table_of_queries_shows_text_and_no_key(odps_alone):
    odps_alone.sql("select '<b>\u202e' as x,\n" + "1 as y" + " " * 300 + "from (select 1) t")
    shown = odps_alone.queries()._repr_mimebundle_()
    assert "<b>" not in shown["text/html"]
    for text in (*shown.values(), repr(odps_alone.queries()), repr(odps_alone.queries()[0])):
        assert "\u202e" not in text
        assert str(odps_alone.profile.access_key) not in text
    assert "assign this list to q, and q[N].run() runs statement N again" in shown["text/plain"]


def test_a_pickled_result_does_not_contain_the_list_of_queries(odps_alone):
    result = pickle.loads(pickle.dumps(odps_alone.sql("select 1 as one")))
    assert result.to_arrow().to_pylist() == [{"one": 1}]
    (query,) = odps_alone.queries()
    assert query.received == 0  # read by a copy
    assert copy.copy(odps_alone).queries() == odps_alone.queries()
