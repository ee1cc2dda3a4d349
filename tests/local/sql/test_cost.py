"""Estimates of SQL jobs: partition pruning and complexity."""

from __future__ import annotations

import pytest

from odps_nb.access.connection import Connection
from odps_nb.errors import NotFoundError, QueryError

DAYS = ("2024-01-01", "2024-01-02", "2024-01-03")


@pytest.fixture(scope="module")
def sizes(odps: Connection) -> dict[str, int]:
    """Bytes of some partitions, each from a separate estimate."""
    text = "select * from orders where ds = '{}'"
    return {day: odps.sql_cost(text.format(day)).input_bytes or 0 for day in DAYS}


def test_a_query_reads_complete_partitions(odps: Connection, sizes: dict[str, int]) -> None:
    whole = odps.sql_cost("select id from orders").input_bytes
    assert whole == odps.table("orders").info.size
    assert 0 < sum(sizes.values()) < whole


@pytest.mark.parametrize(
    ("where", "days"),
    [
        ("ds in ('2024-01-01', '2024-01-03')", "13"),
        ("ds between '2024-01-01' and '2024-01-02' and id > 0", "12"),
        ("o.ds < '2024-01-04' and not ds = '2024-01-02'", "13"),
        ("ds <= '2024-01-03' and (ds = '2024-01-01' or ds > '2024-01-02')", "13"),
        ("ds = '2024-01-01' and ds = '2024-01-02'", ""),
    ],
)
def test_conditions_on_partition_columns_prune_partitions(
    odps: Connection, sizes: dict[str, int], where: str, days: str
) -> None:
    cost = odps.sql_cost(f"select id from orders o where {where}")
    assert cost.input_bytes == sum(sizes[f"2024-01-0{day}"] for day in days)


@pytest.mark.parametrize(
    "where", ["ds = '2024-01-01' or id = 1", "ds = note", "upper(ds) = lower(ds)", "id = 1"]
)
def test_unknown_conditions_prune_no_partition(odps: Connection, where: str) -> None:
    whole = odps.sql_cost("select id from orders").input_bytes
    assert odps.sql_cost(f"select id from orders where {where}").input_bytes == whole


def test_each_side_of_a_join_has_its_own_conditions(
    odps: Connection, sizes: dict[str, int]
) -> None:
    text = """select a.id from orders a join orders b on a.id = b.id
        where a.ds = '2024-01-01' and b.ds = '2024-01-03'"""
    assert odps.sql_cost(text).input_bytes == sizes["2024-01-01"] + sizes["2024-01-03"]


@pytest.mark.parametrize(
    ("text", "complexity"),
    [
        ("select 1", 1.0),
        ("select distinct status from orders order by status", 1.0),
        ("select distinct status from orders group by status order by status", 1.5),
        (" union all ".join(["select distinct status from orders"] * 6), 2.0),
        (" union all ".join(["select distinct status from orders"] * 19), 4.0),
    ],
)
def test_complexity_depends_on_the_number_of_keywords(
    odps: Connection, text: str, complexity: float
) -> None:
    assert odps.sql_cost(text).complexity == complexity


def test_an_estimate_resolves_names_and_runs_nothing(odps: Connection) -> None:
    assert odps.sql_cost("drop table orders").input_bytes == 0
    source = "with o as (select * from orders where ds = '2024-01-01') select * from o"
    made = odps.sql_cost(f"create table never_made as {source}")
    assert made.input_bytes == odps.sql_cost(source).input_bytes
    assert not odps.table("never_made").exists()
    assert odps.table("orders").exists()
    with pytest.raises(NotFoundError):
        odps.sql_cost("select * from no_such_table")
    with pytest.raises(QueryError):
        odps.sql_cost("select id frm orders")
    found = odps.sql_cost("select * from orders where ds in (:days)", params={"days": ["x"]})
    assert found.input_bytes == 0
