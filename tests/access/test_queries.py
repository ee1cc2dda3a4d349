"""`Connection.queries`: what it stores about each statement, and what it drops."""

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
def fresh(service):
    with connected(service) as found:
        yield found


def test_each_statement_is_remembered_newest_first_with_its_outcome(fresh):
    assert fresh.queries() == ()
    assert repr(fresh.queries()) == "no queries yet"
    counted = fresh.sql(DAYS, settings={"odps.sql.allow.fullscan": "true"})
    with pytest.raises(NotFoundError):
        fresh.sql("select * from no_such_table")
    failed, first = fresh.queries()
    assert (failed.sql, failed.state) == ("select * from no_such_table", "failed")
    assert (first.sql, first.state, first.rows, first.received) == (DAYS, "success", None, 0)
    assert first.seconds >= 0
    assert first.started.utcoffset() is not None
    counted.to_arrow()
    assert first.rows == 3
    assert first.received > 0
    assert first.run().to_arrow().equals(counted.to_arrow())
    assert [one.sql for one in fresh.queries()] == [DAYS, failed.sql, DAYS]
    assert fresh.queries()[0].settings == first.settings


def test_the_outcome_of_a_statement_is_recorded_by_the_waiting_call(fresh):
    started = fresh.sql(DAYS, wait=False)
    (query,) = fresh.queries()
    assert (query.state, query.seconds) == ("sent", None)
    started.first(1).wait()
    assert query.state == "success"
    slow = fresh.sql(SLOW, wait=False)
    with pytest.raises(RequestTimeoutError):
        slow.wait(timeout=0)
    assert fresh.queries()[0].state == "sent"  # it still runs
    slow.cancel()
    with pytest.raises(CancelledError):
        slow.wait()
    assert fresh.queries()[0].state == "cancelled"
    with pytest.raises(RequestTimeoutError):
        fresh.sql(SLOW, timeout=0)
    assert fresh.queries()[0].state == "cancelled"


def test_jobs_of_an_explorer_are_listed_separately(fresh):
    fresh.sql(DAYS)
    for _ in range(2):
        SqlJob().run(fresh, "select 1 as x", shown=TextOptions())
    assert [one.mine for one in fresh.queries()] == [False, False, True]
    (mine,) = fresh.queries(mine=True)
    assert mine.sql == DAYS
    assert "odps.queries()[N]" in repr(fresh.queries())
    assert "odps.queries(mine=True)[N]" in repr(fresh.queries(mine=True))


@pytest.mark.nightly
def test_only_the_last_statements_are_kept(fresh):
    for n in range(MAX_QUERIES + 3):
        fresh.sql(f"select {n} as n", wait=False)
    found = fresh.queries()
    assert len(found) == MAX_QUERIES
    assert (found[0].sql, found[-1].sql) == ("select 102 as n", "select 3 as n")


def test_the_table_shows_text_and_no_key(fresh):
    fresh.sql("select '<b>\u202e' as x,\n" + "1 as y" + " " * 300 + "from (select 1) t")
    shown = fresh.queries()._repr_mimebundle_()
    assert "<b>" not in shown["text/html"]
    for text in (*shown.values(), repr(fresh.queries()), repr(fresh.queries()[0])):
        assert "\u202e" not in text
        assert str(fresh.profile.access_key) not in text
    assert "odps.queries(mine=True)[N].run() runs statement N again" in shown["text/plain"]


def test_the_list_of_queries_is_not_sent_to_another_process(fresh):
    result = pickle.loads(pickle.dumps(fresh.sql("select 1 as one")))
    assert result.to_arrow().to_pylist() == [{"one": 1}]
    (query,) = fresh.queries()
    assert query.received == 0  # another process might have read it
    assert copy.copy(fresh).queries() == fresh.queries()
