"""The columns that a query reads according to its plan, without Spark or a service."""

from __future__ import annotations

import pytest

from tests.support.spark.plans import ALL, B, reads


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("select id from a", "id"),
        ("select ID, `Status` from a where N > 1", "id n status"),
        ("select count(*) from a", "gift"),
        ("select ds, count(*) from a group by ds", "gift ds"),
        ("select st.x from a", "st"),
        ("select a.st.x from a", "st"),
        ("select sum(case when gift then n end) from a order by due", "n due gift"),
        ("select row_number() over (partition by status order by id) from a", "id status"),
        ("select tag from a lateral view explode(tags) t as tag", "tags"),
        ("select 'status', id /* weight */ from a -- amount", "id"),
        ("select * from a", ALL),
        ("select a.* from a", ALL),
        ("select struct(*) from a", ALL),
        ("select count(distinct *) from a", ALL),
        ("select to_json(struct(a.*)) from a", ALL),
        ("select * except (n) from a", ALL),
        ("select z from a as t(z, b, c, d, e, f, g, h, i, j, k, l, m)", ALL),
        ("select * from a pivot (sum(n) for status in ('x'))", ALL),
        ("select id from a pivot (sum(n) for status in ('x'))", ALL),
        ("select id from (select * from a)", "id"),
        ("select id from (select distinct * from a)", ALL),
        ("select id from (select * from a union all select * from a)", ALL),
        ("with t as (select * from a) select n from t", "n"),
        ("with t as (select * from a) select * from t", ALL),
        ("with t as (select * from a), u as (select * from t) select n from u", "n"),
        ("with t as (select * from a), u as (select * from t) select * from u", ALL),
        ("with t(z, y) as (select * from a) select z from t", ALL),
        ("select 1 where exists (select * from a where n = 1)", "n"),
        ("select 1 where 1 in (select * from a)", ALL),
        ("select t.st.* from a t", "st"),
        ("from a select n", "n"),
        ("from a |> where n = 1 |> select id", ALL),
        ("select n from a where (select max(weight) from a z) = 1", "n weight"),
    ],
)
def test_only_columns_that_the_query_may_use_are_read(text, columns):
    wanted = tuple(columns.split()) if isinstance(columns, str) else columns
    for read in reads(text):
        assert read.columns == wanted


@pytest.mark.parametrize(
    "inner",
    [
        "select * from a group by all",
        "select * from a group by 1, 2",
        "select * from a group by id",
        "select * from a having true",
        "select * from a order by all limit 5",
        "select * from a order by all desc",
        "select * from a order by 2 desc limit 5",
        "select * from a order by id, 3",
        "select * from a order by (2)",
        "select * from a sort by 2",
        "select * from a distribute by 1",
        "select * from a cluster by 1",
        "select distinct * from a",
        "select * except (id) from a",
        "select a.* except (id) from a",
        "select count(*, n) from a",
        "select count(a.*) from a",
        "select count(distinct *) from a",
        "select hash(*) from a",
        "select x.* from a, lateral (select a.*) x",
        "select x.s from a, lateral (select struct(a.*) as s) x",
        "select x.* from a, lateral (select *) x",
        "select (select to_json(struct(a.*)) from b limit 1) from a",
        "(select * from a) order by 2 limit 5",
        "select * from a join b on a.id = b.id pivot (sum(b.x) for n in (1))",
        "select * from a unpivot (v for k in (id, n))",
        "select transform(*) using 'cat' as (x) from a",
        "select * from a version as of 1",
        "select * from a union by name select * from a",
        "select id from a fetch first 5 rows only",
        "from a |> where n = 1",
    ],
)
def test_a_query_that_depends_on_unnamed_columns_reads_all_of_them(inner):
    for text in (inner, f"select count(*) from ({inner}) x"):
        read = next(one for one in reads(text) if one.table.table == "a")
        assert read.columns == ALL, text


@pytest.mark.parametrize(
    "text",
    [
        "select n from (select * from a order by id, upper(status) limit 5)",
        "select n from (select *, id from a where status = 'x')",
        "select n from (select * from a) order by 1",
        "select id, n, status from a order by all",
        "select n, status, count(id) from a group by all",
        "select n from (select * from a) where exists (select * from b where id = status)",
        "select n, id, status from a tablesample (5 rows)",
        "select max(n) over (order by id) from a qualify count(status) over () = 1",
    ],
)
def test_a_query_that_names_its_columns_reads_only_the_named_columns(text):
    assert set(reads(text)[0].columns) <= {"id", "n", "status"}


def test_a_star_of_one_table_does_not_select_columns_of_the_other():
    a, b = reads("select b.*, a.n from a join b on a.id = b.id")
    assert a.columns == ("id", "n")
    assert b.columns == B.names


def test_a_natural_join_needs_every_column_of_both_tables():
    assert [one.columns for one in reads("select x from a natural join b")] == [ALL, B.names]


def test_counting_rows_reads_the_cheapest_column():
    assert [one.columns for one in reads("select count(*) from c")] == [("y",)]
