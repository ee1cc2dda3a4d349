"""Queries that projects reject by default (``docs/protocol.md`` section 8.6, with the sources)."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pytest

from odps_nb.access.connection import Connection
from odps_nb.access.paging.browsing import rows_of
from odps_nb.errors import QueryError
from odps_nb.local.server.launch import start
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.view import RowView
from tests.support.service.connecting import connected

FULL, ORDERED = "is full scan with all partitions", "ORDER BY must be used with a LIMIT clause"
FREE = {"odps.sql.allow.fullscan": "true", "odps.sql.validate.orderby.limit": "false"}


@pytest.fixture(scope="module")
def strict() -> Iterator[Connection]:
    """A service that rejects them, with a partitioned table, a view of it and a plain table."""
    with (
        start(samples=False, options=("--strict-sql",)) as service,
        connected(service) as odps,
    ):
        rows = pd.DataFrame({"id": [3, 1, 2], "ds": ["a", "b", "b"]})
        odps.create_table("parts", rows, partitioned_by="ds")
        odps.create_table("plain", rows)
        odps.sql("create view seen as select id from parts", settings=FREE)
        yield odps


@pytest.mark.gate(2)
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select * from parts", FULL),
        ("select * from parts where id = 1", FULL),
        ("select p.id from parts p join plain q on p.id = q.id where q.ds = 'a'", FULL),
        ("select id from plain where id in (select id from parts)", FULL),
        ("insert into plain select * from parts where id > 9", FULL),
        ("select id from seen", FULL),
        ("select id from plain order by id", ORDERED),
        ("select * from (select id from plain order by id) t limit 1", ORDERED),
        ("select id from plain union all select id from plain order by id", ORDERED),
    ],
)
def test_a_query_is_refused_and_the_error_names_the_setting_that_allows_it(
    strict: Connection, query: str, said: str
) -> None:
    with pytest.raises(QueryError, match=said) as caught:
        strict.sql(query)
    (setting,) = (key for key in FREE if key in str(caught.value.hint))
    assert FREE[setting] in str(caught.value.hint)
    strict.sql(query, settings={setting: FREE[setting]})
    strict.sql(f"set {setting}={FREE[setting]};\n{query}")


def test_a_setting_of_the_job_rejects_them_on_every_service(odps: Connection) -> None:
    for query, setting, said in (
        ("select id from orders", "odps.sql.allow.fullscan=false", FULL),
        ("select 1 as n order by n", "odps.sql.validate.orderby.limit=true", ORDERED),
    ):
        with pytest.raises(QueryError, match=said):
            odps.sql(f"set {setting}; {query}")


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("select id from parts where ds = 'b' and id > 1", [2]),
        ("select p.id from parts p where p.ds is not null order by id limit 9", [1, 2, 3]),
        ("with p as (select * from parts where ds = 'a') select id from p", [3]),
        ("select row_number() over (order by id) id from plain where ds = 'b'", [1, 2]),
    ],
)
def test_a_query_with_partitions_or_a_limit_is_run(
    strict: Connection, query: str, ids: list[int]
) -> None:
    assert sorted(strict.sql(query).to_pandas()["id"]) == ids


def test_whole_tables_can_still_be_read_and_sorted(strict: Connection) -> None:
    table = strict.table("parts")
    assert sorted(table.read().to_pandas()["id"]) == [1, 2, 3]
    view = RowView(rows_of(table.read()))
    view.choose(Choice(order=(("id", True),)))
    assert [int(text) for text in view.page(0).columns[0]] == [3, 2, 1]
    found = eval(view.code, {"odps": strict})  # noqa: S307  the code that it offers to copy
    assert found.to_pandas()["id"].to_list() == [3, 2, 1]
