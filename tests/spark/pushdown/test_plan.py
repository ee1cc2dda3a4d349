"""What a query is taken to read of its tables: pure, without Spark and without a service."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

import pytest

from odps_nb.access.reading.conditions import Compare, may_be_sent, partition_value, takes_value
from odps_nb.errors import ArgumentError
from odps_nb.schema import Column, TableSchema
from odps_nb.spark.pushdown.extract import conditions_of
from odps_nb.spark.pushdown.parse import fill, parse_query, value_of_text
from odps_nb.spark.pushdown.plan import TableRead, plan_reads, with_partitions
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.type_text import parse_columns, parse_type

A = TableSchema(
    columns=parse_columns(
        "id bigint, n int, status string, amount decimal(10,2), due date, gift boolean, "
        "weight double, code char(3), made timestamp, st struct<x:int,y:string>, tags array<string>"
    ),
    partition_columns=parse_columns("ds string, hour int"),
)
B = TableSchema(columns=parse_columns("id bigint, name string, x int"))
C = TableSchema(columns=parse_columns("id bigint, price double, y int"))
SCHEMAS = {"a": A, "b": B, "c": C}


def reads(text: str, limit: int | None = None) -> list[TableRead]:
    query = parse_query(text)
    tables = {
        ref: (TableName(project="p", table=ref.alias), SCHEMAS[ref.alias.casefold()])
        for ref in query.references
    }
    return list(plan_reads(query, tables, limit=limit).values())


def sent(text: str) -> list[str]:
    """What is sent for each reference; conditions on partitions are marked."""
    return [
        "; ".join([*map(str, one.conditions), *(f"[{c}]" for c in one.partition_conditions)])
        for one in reads(text)
    ]


def only(text: str) -> str:
    (one,) = sent(text)
    return one


def spelled(short: str) -> str:
    """What ``n1; …`` stands for."""
    words = {"n1": "`n` = 1", "n2": "`n` = 2", "n?": "`n` is null", "n!": "`n` is not null"}
    return "; ".join(words.get(one, one) for one in short.split("; "))


# -- columns ----------------------------------------------------------------------------------

ALL = A.names


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
def test_columns_are_those_that_the_query_can_see(text, columns):
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
def test_what_counts_columns_that_nobody_names_reads_all_of_them(inner):
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
def test_what_names_its_columns_reads_no_other_ones(text):
    assert set(reads(text)[0].columns) <= {"id", "n", "status"}


def test_a_star_of_one_table_leaves_the_other_alone():
    a, b = reads("select b.*, a.n from a join b on a.id = b.id")
    assert a.columns == ("id", "n")
    assert b.columns == B.names


def test_a_natural_join_needs_every_column_of_both():
    assert [one.columns for one in reads("select x from a natural join b")] == [ALL, B.names]


def test_rows_are_counted_by_the_cheapest_column():
    assert [one.columns for one in reads("select count(*) from c")] == [("y",)]


# -- conditions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "condition"),
    [
        ("n = 1", "`n` = 1"),
        ("1 < n", "`n` > 1"),
        ("N <> -5", "`n` <> (-5)"),
        ("n between 1 and 3", "`n` >= 1 and `n` <= 3"),
        ("n not between 1 and 3", "not (`n` >= 1 and `n` <= 3)"),
        ("n in (1, 2)", "`n` in (1, 2)"),
        ("n not in (1, 2)", "not (`n` in (1, 2))"),
        ("status = 'paid'", "`status` = 'paid'"),
        ('status = "it\'s"', "`status` = CONCAT('it', CHR(39), 's')"),
        ("status = 'it\\'s'", "`status` = CONCAT('it', CHR(39), 's')"),
        ("status = concat('it', chr(39), 's')", "`status` = CONCAT('it', CHR(39), 's')"),
        ("status = 'grüße 👋'", "`status` = 'grüße 👋'"),
        ("status >= 'b'", "`status` >= 'b'"),
        ("status like 'p%'", "`status` like 'p%'"),
        ("status not like '%ü.*%'", "not (`status` like '%ü.*%')"),
        ("status like 'paid'", "`status` like 'paid'"),
        ("a.status is null", "`status` is null"),
        ("status is not null", "`status` is not null"),
        ("weight is null", "`weight` is null"),
        ("amount >= 12.50", "`amount` >= CAST('12.50' AS DECIMAL(4,2))"),
        ("amount = 7", "`amount` = 7"),
        ("due = date '2024-01-31'", "`due` = CAST('2024-01-31' AS DATE)"),
        ("due < cast('2024-01-31' as date)", "`due` < CAST('2024-01-31' AS DATE)"),
        ("gift", "`gift` = TRUE"),
        ("not gift", "not (`gift` = TRUE)"),
        ("gift = false", "`gift` = FALSE"),
        ("n = 1 or status = 'x' and n = 2", "`n` = 1 or (`status` = 'x' and `n` = 2)"),
        ("n = 1 and rand() < 0.5", "`n` = 1"),
        ("((n = 1) and (status = 'x'))", "`n` = 1; `status` = 'x'"),
    ],
)
def test_simple_conditions_are_sent(where, condition):
    assert only(f"select id from a where {where}") == condition


@pytest.mark.parametrize(
    "where",
    [
        "n = '1'",
        "n = 1.0",
        "n = 3000000000",
        "id = -9223372036854775808",
        "id = 1L",
        "status = 1",
        "status in ('x', null)",
        "status not in ('x', null)",
        "status = null",
        "status = 'it''s'",
        "status = 'a' 'b'",
        r"status = '\u0041'",
        r"status = 'a\nb'",
        r"status = r'a\b'",
        "status >= 'ü'",
        "status like 'p\\\\%'",
        "status like 'p%' escape '/'",
        "status like any ('p%', 'q%')",
        "status like lower('p%')",
        "status like null",
        "status like 'it\\'s%'",
        "status ilike 'p%'",
        "status rlike 'p.*'",
        "n like '1%'",
        "code like 'E%'",
        "status = upper('x')",
        "status collate utf8_lcase = 'x'",
        "upper(status) = 'X'",
        "made > timestamp '2024-01-01 00:00:00'",
        "due = date '2024-1-31'",
        "due = date '1500-01-01'",
        "amount = 1.005",
        "amount = 123456789.5",
        "amount = 1e2",
        "st.x = 1",
        "tags is null",
        "n = id",
        "n + 1 = 2",
        "n = 1 + 1",
        "n = 1 or rand() < 0.5",
        "not (n = 1 or rand() < 0.5)",
        "n <=> 1",
        "n = 1 is null",
        "n in (select x from b)",
        "n = (select max(x) from b)",
        "other = 1",
        "n = :value",
        "case when n = 1 then true end",
    ],
)
def test_everything_else_stays_with_spark(where):
    assert sent(f"select id from a where {where}")[0] == ""


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        # one reference, one scope
        ("select * from a join a as z on a.id = z.id where a.n = 1 and z.n = 2", ["n1", "n2"]),
        ("select * from a where n = 1 union all select * from a where n = 2", ["n1", "n2"]),
        ("select * from (select * from a where n = 1) where n = 2", ["n1; `n` = 2"]),
        ("with a as (select * from a where n = 1) select * from a where n = 2", ["n1; `n` = 2"]),
        ("select * from b where exists (select 1 from a where n = 1 and a.id = b.id)", ["", "n1"]),
        ("select * from a where exists (select 1 from b where a.n = 1)", ["", ""]),
        ("select sum(n) from a group by n having n = 1", [""]),
        ("select n as q from a where q = 1", [""]),
        # names
        ("select * from a z where z.n = 1", ["n1"]),
        ("select * from a z where a.n = 1", [""]),
        ("select * from p.a where p.a.n = 1", ["n1"]),
        ("select * from p.a z where p.a.n = 1", [""]),
        ("select * from a join b on a.id = b.id where n = 1", ["n1", ""]),
        ("select * from a join b on a.id = b.id where id = 1", ["", ""]),
        ("select * from a join b using (id) where id = 1", ["", ""]),
        ("select * from a natural join b where n = 1", ["", ""]),
        ("select * from a lateral view explode(tags) t as n where n = 1", [""]),
        ("select * from a lateral view explode(tags) t as u where n = 1", ["n1"]),
        ("select * from a, a where n = 1", ["", ""]),
        # inner joins
        ("select * from a join b on a.id = b.id and a.n = 1", ["n1", ""]),
        ("select * from b join a on a.id = b.id and a.n = 1", ["", "n1"]),
        ("select * from a, b where a.id = b.id and a.n = 1", ["n1", ""]),
        ("select * from a cross join b where a.n = 1", ["n1", ""]),
        # left joins
        ("select * from a left join b on a.n = 1", ["", ""]),
        ("select * from a left join b on true where a.n = 1", ["n1", ""]),
        ("select * from a left join b on true where a.n is null", ["n?", ""]),
        ("select * from b left join a on a.n = 1", ["", "n1"]),
        ("select * from b left join a on a.n is null", ["", "n?"]),
        ("select * from b left join a on true where a.n = 1", ["", "n1"]),
        ("select * from b left join a on true where a.n is null", ["", ""]),
        ("select * from b left join a on true where a.n is null or a.n = 1", ["", ""]),
        ("select * from b left join a on true where not (a.n = 1 and a.n = 2)", ["", ""]),
        ("select * from b left join a on true where a.n is not null", ["", "n!"]),
        ("select * from b left join a on true join c on a.n = 1", ["", "n1", ""]),
        ("select * from b left join a on true join c on a.n is null", ["", "", ""]),
        # right and full joins
        ("select * from a right join b on a.n = 1", ["n1", ""]),
        ("select * from a right join b on true where a.n = 1", ["n1", ""]),
        ("select * from a right join b on true where a.n is null", ["", ""]),
        ("select * from b right join a on a.n = 1", ["", ""]),
        ("select * from b right join a on true where a.n is null", ["", "n?"]),
        ("select * from b join a on a.n is null right join c on true", ["", "n?", ""]),
        ("select * from a full join b on a.n = 1", ["", ""]),
        ("select * from a full join b on true where a.n = 1", ["n1", ""]),
        ("select * from a full join b on true where a.n is null", ["", ""]),
        ("select * from b full join a on true where a.n is null", ["", ""]),
        # semi and anti joins
        ("select * from a left semi join b on a.n = 1", ["n1", ""]),
        ("select * from b left semi join a on a.n = 1", ["", "n1"]),
        ("select * from a left anti join b on a.n = 1", ["", ""]),
        ("select * from b left anti join a on a.n = 1", ["", "n1"]),
        ("select * from a left anti join b on true where n = 1", ["n1", ""]),
        ("select * from c where exists (select 1 from b semi join a where n = 1)", ["", "", ""]),
        # what is out of the ordinary
        ("select * from a tablesample (5 rows) where n = 1", [""]),
        ("select * from a pivot (sum(id) for gift in (true)) where n = 1", [""]),
        ("select * from (a join b on a.id = b.id) where n = 1", ["", ""]),
        ("select * from b left join (a join c on a.n = 1) on true", ["", "", ""]),
        ("from a |> where n = 1", [""]),
        ("select * from b, c join a on b.x = 1 and a.n = 1", ["", "", "n1"]),
    ],
)
def test_a_condition_is_sent_where_the_query_drops_the_row_anyway(text, conditions):
    assert sent(text) == list(map(spelled, conditions))


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        # subqueries
        ("select * from (select * from a) where n = 1", ["n1"]),
        ("select * from (select a.* from a) x where x.n = 1", ["n1"]),
        ("select * from ((select * from a)) x where n = 1", ["n1"]),
        ("select * from (select n as q, id as n from a) where q = 1", ["n1"]),
        ("select * from (select n as q, id as n from a) where n = 1", ["`id` = 1"]),
        ("select * from (select n + 1 as n, id from a) where n = 1", [""]),
        ("select * from (select *, id as n from a) where n = 1", [""]),
        ("select * from (select st.x as n from a) where n = 1", [""]),
        ("select * from (select * except (id) from a) where n = 1", [""]),
        ("select * from (select * from (select * from a) where n = 1) where s = 2", ["n1"]),
        ("select * from (select * from a) as x(z, n) where n = 1", [""]),
        ("select * from (select * from a) tablesample (5 rows) where n = 1", [""]),
        ("select * from (select * from a union all select * from a) where n = 1", ["n1", "n1"]),
        ("select * from b where id in (select id from (select * from a) where n = 1)", ["", "n1"]),
        # what selects let through
        ("select * from (select * from a limit 5) where n = 1", [""]),
        ("select * from (select * from a order by id) where n = 1", ["n1"]),
        ("select * from (select * from a order by id limit 5) where n = 1", [""]),
        ("select * from (select * from a offset 5) where n = 1", [""]),
        ("select * from (select distinct n, id from a) where n = 1", ["n1"]),
        ("select * from (select n, count(*) c from a group by n) where n = 1 and c = 2", ["n1"]),
        ("select * from (select n, count(*) c from a group by n having c > 1) where n = 1", ["n1"]),
        ("select * from (select n, id from a group by n, id + 1, id) where n = 1", ["n1"]),
        ("select * from (select max(n) as n from a group by id) where n = 1", [""]),
        ("select * from (select n, max(id) as id from a group by n) where id = 1", [""]),
        ("select * from (select n, count(*) from a group by all) where n = 1", [""]),
        ("select * from (select n, count(*) from a group by 1) where n = 1", [""]),
        ("select * from (select n, count(*) from a group by rollup (n, id)) where n = 1", [""]),
        ("select * from (select n, count(*) from a group by n with cube) where n = 1", [""]),
        ("select * from (select n, id from a group by n, id grouping sets (n)) where n = 1", [""]),
        ("select * from (select n, row_number() over (order by id) r from a) where n = 1", [""]),
        ("select * from (select n, sum(id) over w r from a window w as ()) where n = 1", [""]),
        ("select * from (select n from a qualify rank() over (order by id) = 1) where n = 1", [""]),
        ("select * from (select n, explode(tags) t from a) where n = 1", ["n1"]),
        ("select * from (select * from a lateral view explode(tags) t as n) where n = 1", [""]),
        ("select * from (select * from a tablesample (5 rows)) where n = 1", [""]),
        # joins inside and outside
        ("select * from (select a.n from a join b on a.id = b.id) where n = 1", ["n1", ""]),
        ("select * from (select a.n from b left join a on a.id = b.id) where n = 1", ["", "n1"]),
        ("select * from (select a.n from b left join a on a.id = b.id) where n is null", ["", ""]),
        ("select * from (select a.n, a.id from a join b using (id)) where n = 1", ["n1", ""]),
        ("select * from (select * from a join b using (id)) where id = 1", ["", ""]),
        ("select * from (select * from a natural join b) where n = 1", ["", ""]),
        ("select * from (select b.*, n from b semi join a on true) where n = 1", ["", ""]),
        ("select * from b join (select * from a) x on b.id = x.id and x.n = 1", ["", "n1"]),
        ("select * from b left join (select * from a) x on x.n = 1", ["", "n1"]),
        ("select * from b left join (select * from a) x on true where x.n = 1", ["", "n1"]),
        ("select * from b left join (select * from a) x on true where x.n is null", ["", ""]),
        ("select * from (select * from a) x left join b on x.n = 1", ["", ""]),
        ("select * from (select * from a) x, (select * from a) y where x.n = 1", ["n1", ""]),
        ("select * from (select * from a) x, b where n = 1", ["n1", ""]),
        ("select * from (select * from a) x, b where id = 1", ["", "`id` = 1"]),  # Spark refuses it
        # entries of WITH
        ("with t as (select * from a) select * from t where n = 1", ["n1"]),
        ("with t as (select * from a) select * from t z where z.n = 1", ["n1"]),
        ("with t as (select * from a) select * from t z where t.n = 1", [""]),
        ("with t(z, n) as (select n, id from a) select * from t where n = 1", [""]),
        ("with t as (select * from a), u as (select * from t) select * from u where n = 1", ["n1"]),
        ("with t as (select * from a) select * from t where n = 1 union all select * from t", [""]),
        (
            "with t as (select * from a) select * from t where n = 1 and id = 3"
            " union all select * from t where n = 2 and gift",
            ["`n` = 1 or `n` = 2"],
        ),
        (
            "with t as (select * from a) select * from t x join t y on x.id = y.id and x.n = 1"
            " where y.n = 2 and y.id = 4",
            ["`n` = 1 or `n` = 2"],
        ),
        (
            "with t as (select * from a) select * from t where ds = '1' and hour = 2",
            ["[`ds` = '1']; [`hour` = 2]"],
        ),
        (
            "with t as (select * from a) select 1 from t where n = 1 and exists (select 1 from t)",
            [""],
        ),
        ("with t as (select * from a) select /*+ broadcast(t) */ * from t where n = 1", ["n1"]),
        ("with recursive t as (select * from a) select * from t where n = 1", [""]),
        ("with t as (select * from a) select * from t tablesample (5 rows) where n = 1", [""]),
        # what the tree does not tell
        (
            "with t as (select * from a) select n from t where n = 1"
            " union all select n from f(table(t))",
            [""],
        ),
        ("select identifier('id') from a where n = 1", [""]),
    ],
)
def test_a_condition_outside_reaches_the_table_where_nothing_in_between_minds(text, conditions):
    assert sent(text) == list(map(spelled, conditions))


def test_names_that_are_hidden_from_the_words_of_a_query_are_read():
    assert reads("select identifier('id') from a")[0].columns == ALL
    odd = TableSchema(columns=parse_columns("id bigint, `a-b` int"))
    query = parse_query("select `a-b` from t")
    tables = dict.fromkeys(query.references, (TableName(project="p", table="t"), odd))
    (read,) = plan_reads(query, tables).values()
    assert "a-b" in read.columns


def test_conditions_that_would_make_a_long_request_stay_with_spark():
    many = ", ".join(map(str, range(10_000)))
    assert only(f"select id from a where n in ({many}) and status = 'x'") == "`status` = 'x'"


def test_a_long_chain_of_conditions_is_read_without_recursion():
    chain = " and ".join(f"n <> {number}" for number in range(3000))
    assert sent(f"select id from a where {chain}")[0].startswith("`n` <> 0; `n` <> 1")


# -- queries over fewer rows that give other values ------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "rand(3)",
        "rand('3')",
        "randn(1)",
        "random(2)",
        "`rand`(3)",
        "system.builtin.rand(3)",
        "monotonically_increasing_id()",
        "spark_partition_id()",
        "input_file_name()",
        "shuffle(tags)",
        "uniform(0, 1, 5)",
        "my_own(n)",
        "my_db.upper(status)",
        "`my-own`(n)",
        "sets(n)",
        "session_window(made, '1 day')",
    ],
)
def test_a_value_that_may_depend_on_the_place_of_a_row_leaves_no_row_out(call):
    for text in (
        "select * from (select *, {} as r from a) where n = 1 and ds = '20240101'",
        "select n, {} as r from a where n = 1 and ds = '20240101'",
        "select n from a where n = 1 and {} = 1",
        "select * from a join b on a.id = b.id and {} = 1 where n = 1",
        "with t as (select * from a where n = 1) select * from t order by {}",
        "select n from a where n = 1 and exists (select {} from b)",
        "select id from a where ds = '20240101' order by {} limit 5",
    ):
        for read in reads(text.format(call)):
            assert not read.conditions, text
            assert not read.partition_conditions, text
            assert read.limit is None, text


@pytest.mark.parametrize(
    "text",
    [
        "select * from a tablesample (50 percent) where n = 1",
        "select * from b tablesample (50 percent) repeatable (3) join a on true where n = 1",
        "select id from a where n = 1 -- goes on \\\n and id = 2",
    ],
)
def test_a_sample_or_a_text_of_two_meanings_leaves_no_row_out(text):
    assert all(not read.conditions for read in reads(text))


USUAL = """
cast(st as string) | n::int | due + interval 1 day | date_sub(current_date(), 7) | now()
extract(year from due) | trim(both 'x' from status) | substring(status from 1 for 2)
transform(tags, x -> concat(x, '!')) | exists(tags, x -> x = 'a') | tags[0] | st.x
case when n = 1 then 2 else 3 end | map('a', 1)['a'] | status like any ('a%', 'b%') | n div 2
sum(n) over (partition by status order by id rows between 1 preceding and current row)
count(distinct n, id) | sum(n) filter (where n > 1) | collect_list(struct(n, id)) | max(due)
percentile_cont(0.5) within group (order by n) | last_value(n) ignore nulls over (order by id)
if(n > 1, 2, 3) | date_format(due, 'yyyy-MM') | to_date(ds, 'yyyyMMdd') | datediff(due, due)
get_json_object(status, '$.a') | split(status, ',')[0] | regexp_extract(status, 'x', 1) | some(gift)
cast(n as decimal(10, 2)) | try_cast(status as int) | date_trunc('month', due) | not gift | -n
(select max(x) from b) | id in (select id from b) | from_utc_timestamp(made, 'Asia/Shanghai')
timestampdiff(day, due, due) | concat_ws(',', tags) | round(weight, 2) | n is distinct from 2
"""


@pytest.mark.parametrize("expression", [one.strip() for one in re.split(r"[|\n]", USUAL.strip())])
def test_usual_expressions_are_known(expression):
    found = reads(f"select {expression} from a where ds = '20240101' and hour = 1")
    read = next(one for one in found if one.table.table == "a")
    assert len(read.columns) < len(ALL)
    assert len(read.partition_conditions) == 2


@pytest.mark.parametrize(
    "text",
    [
        "select id from a left outer join b using (id) where ds = '1'",
        "select /*+ broadcast(b), repartition(3) */ a.id from a, b where a.id = b.id and ds = '1'",
        "select p, tag from a lateral view posexplode(tags) t as p, tag where ds = '1'",
        "select n, sum(id) from a where ds = '1' group by n, gift grouping sets ((n), ())",
        "select * from (select n, id from a where ds = '1') pivot (sum(id) for n in (1, 2))",
        "select id from a where ds = '1' union all select id from b order by 1 limit 3",
        "select id, sum(n) over w from a where ds = '1' window w as (partition by gift)",
        "select id from a where (n, id) in ((1, 2)) and ds = '1'",
        "with r as (select id, row_number() over (partition by n order by made desc) k from a"
        " where ds = '1') select id from r where k = 1 limit 10",
        "from a select id where ds = '1'",
        "select all id from a where ds = '1' order by n desc nulls last limit 3",
    ],
)
def test_usual_queries_are_known(text):
    read = reads(text)[0]
    assert len(read.columns) < len(ALL)
    assert [str(one) for one in read.partition_conditions] == ["`ds` = '1'"]


def test_names_of_columns_behind_an_alias_are_no_calls():
    text = "select * from a join values (1, 'x') as v(k, w) on a.id = v.k where n = 1"
    assert only(text) == "`n` = 1"
    assert sent("with t(z) as (select 1) select * from a where n = 1") == ["`n` = 1"]
    assert sent("with rand(z) as (select 1) select rand(3) from a where n = 1") == [""]
    assert sent("select z(3) from a lateral view explode(tags) z as y where n = 1") == [""]


def test_chance_without_a_seed_is_the_same_over_fewer_rows():
    assert only("select uuid(), * from a where n = 1 and rand() < 0.5") == "`n` = 1"


def test_a_condition_beside_qualify_is_applied_before_it():
    text = "select * from a where n = 1 qualify row_number() over (order by id) = 1"
    assert only(text) == "`n` = 1"
    assert only(f"select * from ({text.replace('n = 1 q', 'id = 2 q')}) where n = 1") == "`id` = 2"


@pytest.mark.parametrize(
    "text",
    [
        "select * from a join b on a.id = b.id pivot (sum(x) for name in ('x')) where n = 1",
        "select * from a join b pivot (sum(x) for name in ('x')) on true where n = 1",
        "select * from (select n from a having n > 0) where n = 1",
        "select * from ((select * from a) limit 5) where n = 1",
        "select * from ((select * from a) offset 5) where n = 1",
    ],
)
def test_a_condition_stays_outside_of_what_is_out_of_the_ordinary(text):
    assert sent(text)[0] == ""


# -- partitions -------------------------------------------------------------------------------

KNOWN = [
    PartitionSpec.of(f"ds={day},hour={hour}")
    for day in ("20240101", "20240102", "20240103")
    for hour in (1, 22)
]


def kept(where: str, known: list[PartitionSpec] | None = None) -> list[str] | None:
    (read,) = reads(f"select id from a where {where}")
    found = with_partitions(read, KNOWN if known is None else known).partitions
    return None if found is None else [str(spec) for spec in found]


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("ds = '20240101'", 2),
        ("ds = '20240101' and hour = 1", 1),
        ("ds > '20240101' and hour <> 1", 2),
        ("ds between '20240102' and '20240103'", 4),
        ("hour < 9", 3),  # as a number, and not as a text
        ("ds in ('20240101', '20240103')", 4),
        ("not (ds = '20240101' or hour = 1)", 2),
        ("ds like '2024%3'", 2),
        ("ds like '%02'", 2),
        ("ds not like '%01' and ds like '2%0%3'", 2),
        ("ds like '2.*'", 0),
        ("ds is null", 0),
        ("ds = 'never'", 0),
        # text that is compared with a number
        ("ds = 20240101", 2),
        ("ds >= 20240102", 4),
        ("ds in (20240101, 20240102)", 4),
        ("not ds = 20240101", 4),
    ],
)
def test_partitions_are_chosen_by_their_values(where, count):
    assert len(kept(where) or ()) == count


@pytest.mark.parametrize(
    "where", ["ds >= '2024'", "ds = 'x' or n = 1", "hour = '1'", "ds like '%\\_1'"]
)
def test_all_partitions_are_none_in_particular(where):
    (read,) = reads(f"select id from a where {where}")
    assert not read.partition_conditions or with_partitions(read, KNOWN).partitions is None


def test_a_value_that_is_not_sure_keeps_its_partition():
    odd = ["ds=__HIVE_DEFAULT_PARTITION__,hour=1", "ds=x,hour=01", "ds=020240101,hour=1"]
    known = [PartitionSpec.of(text) for text in odd]
    assert kept("ds is null", known) == ["ds=__HIVE_DEFAULT_PARTITION__,hour=1"]
    assert kept("hour = 7", known) == ["ds=x,hour=01"]
    assert len(kept("ds is not null and ds = 20240101", known) or odd) == 3
    assert kept("hour = 1", known) is None


def test_too_many_partitions_to_name_are_filtered_by_the_service():
    known = [PartitionSpec.of(f"ds={number},hour=1") for number in range(3000)]
    (read,) = reads("select id from a where ds <> '7' and hour = 1")
    read = with_partitions(read, known)
    assert read.partitions is None
    assert read.where == "(not (`ds` = '7')) and (`hour` = 1)" or read.where == (
        "(`ds` <> '7') and (`hour` = 1)"
    )
    (loose,) = reads("select id from a where ds <> 7")
    assert with_partitions(loose, known).where is None


# -- limits -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("select * from a limit 5", 5),
        ("select id as z, a.n from a limit 5", 5),
        ("select id from a where ds = '20240101' limit 5", 5),
        ("select id from a where ds = 20240101 limit 5", 5),
        ("select id from a", None),
        ("select id from a where n = 1 limit 5", None),
        ("select id from a where ds = '20240101' and n = 1 limit 5", None),
        ("select id from a where ds = '20240101' and upper(status) = 'X' limit 5", None),
        ("select id from a order by id limit 5", None),
        ("select count(*) from a limit 5", None),
        ("select explode(tags) from a limit 5", None),
        ("select distinct id from a limit 5", None),
        ("select id from a limit 5 offset 2", None),
        ("select a.id from a join b on true limit 5", None),
        ("select * from (select * from a limit 5) limit 3", None),
        ("(select * from a limit 5)", None),
        ("select id from a group by id limit 5", None),
        ("select * from a tablesample (50 percent) limit 5", None),
        ("select id from a limit 0", 0),
        ("select id from a limit 2 + 3", None),
        ("select id from a limit 1 * 5", None),
        ("select id from a limit (5)", None),
        ("select id from a limit -5", None),
        ("select id from a limit 5L", None),
        ("select id from a limit 5.0", None),
        ("select id from a limit '5'", None),
        ("select id from a limit cast(5 as int)", None),
        ("select id from a limit all", None),
        ("select id from a limit null", None),
        ("select id from a limit :n", None),
        ("select id from a limit ?", None),
        ("select id from a limit n", None),
        ("select id from a limit (select 5)", None),
        ("select id from a limit 5 percent", None),
        ("select id from a limit 2, 5", None),
        ("select id from a fetch first 5 rows only", None),
        ("select id, rand(3) from a limit 5", None),
        ("select id from a qualify count(*) over () = 1 limit 5", None),
    ],
)
def test_a_limit_is_sent_only_where_nothing_is_left_to_spark(text, limit):
    read = with_partitions(reads(text)[0], KNOWN)
    assert read.limit == limit


def test_the_smaller_limit_counts():
    assert [reads("select * from a limit 5", limit=n)[0].limit for n in (3, 9, None)] == [3, 5, 5]
    assert reads("select * from a", limit=3)[0].limit == 3
    assert reads("select * from a limit 1 + 1", limit=3)[0].limit is None


def test_a_partition_that_is_not_sure_leaves_the_limit_to_spark():
    known = [PartitionSpec.of("ds=00123,hour=1"), PartitionSpec.of("ds=5,hour=1")]
    (read,) = reads("select id from a where ds = 123 limit 5")
    assert with_partitions(read, known).limit is None


# -- text -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("select '{x}', id from a", "select '{{x}}', id from ({t0} as `a`)"),
        ("select p.a.id from p.a", "select a.id from ({t0} as `a`)"),
        ("select `P` . a.id from p.`A`", "select a.id from ({t0} as `A`)"),
        ("select '👋' from a z, b", "select '👋' from ({t0} as `a`) z, ({t1} as `b`)"),
        ("with a as (select 1) select * from a", "with a as (select 1) select * from a"),
        (
            "with a as (select * from a) select * from a",
            "with a as (select * from ({t0} as `a`)) select * from a",
        ),
        (
            "select * from (with a as (select 1) select * from A) t, a",
            "select * from (with a as (select 1) select * from A) t, ({t0} as `a`)",
        ),
        (
            "with recursive a as (select 1 union all select * from a) select * from a",
            "with recursive a as (select 1 union all select * from a) select * from a",
        ),
        ("select * from range(3), parquet.`/x`", "select * from range(3), parquet.`/x`"),
        (
            "select /*+ broadcast(b), merge(a) */ * from a, b",
            "select /*+ broadcast(b), merge(a) */ * from ({t0} as `a`), ({t1} as `b`)",
        ),
    ],
)  # fmt: skip
def test_names_are_replaced_where_they_stand(text, filled):
    query = parse_query(text)
    assert fill(query, {ref: f"t{n}" for n, ref in enumerate(query.references)}) == filled


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("  -- nothing", "empty"),
        ("insert into a select 1", "odps_nb.spark.write"),
        ("with q as (select 1) insert into a select * from q", "odps_nb.spark.write"),
        ("create table q (id int)", "%%odps sql"),
        ("drop table a", "%%odps sql"),
        ("explain select 1", "explain_sql"),
        ("table a", "select"),
        ("select 1; select 2", "one query"),
        ("select from from", "line 1, column 16"),
        ("select *\nfrom a\nwhere (n = 1", "line 3"),
        ("select 'abc", "cannot be parsed"),
    ],
)
def test_what_is_no_query_says_what_to_use(text, said):
    with pytest.raises(ArgumentError) as caught:
        parse_query(text)
    assert said in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("'a'", "a"),
        ('"it\'s"', "it's"),
        (r"'a\\b'", r"a\b"),
        (r'"\""', '"'),
        ("'a''b'", None),
        (r"'\n'", None),
        (r"'\u0041'", None),
        (r"'\%'", None),
        ("r'a'", None),
        ("'", None),
    ],
)
def test_a_literal_is_sure_only_with_escapes_that_all_versions_share(raw, value):
    assert value_of_text(raw) == value


# -- values -----------------------------------------------------------------------------------


def column(kind: str) -> Column:
    return Column(name="c", type=parse_type(kind))


@pytest.mark.parametrize(
    ("kind", "value", "taken"),
    [
        ("tinyint", 127, True),
        ("tinyint", 128, False),
        ("bigint", 2**63 - 1, True),
        ("bigint", True, False),
        ("boolean", True, True),
        ("boolean", 1, False),
        ("decimal(5,2)", Decimal("999.99"), True),
        ("decimal(5,2)", Decimal("1000"), False),
        ("decimal(5,2)", Decimal("0.001"), False),
        ("decimal(5,2)", True, False),
        ("decimal", Decimal("1"), False),
        ("decimal(40,2)", Decimal("1"), False),
        ("string", "a\tb", False),
        ("string", "a\u200bb", False),
        ("varchar(3)", "a", False),
        ("date", datetime.date(2024, 1, 1), True),
    ],
)
def test_a_value_is_taken_only_by_a_column_of_its_type(kind, value, taken):
    assert takes_value(column(kind), value) is taken


def test_partition_values_are_read_as_their_columns_hold_them():
    assert partition_value(column("string"), "007") == "007"
    assert partition_value(column("int"), "7") == 7
    assert partition_value(column("date"), "2024-01-31") == datetime.date(2024, 1, 31)
    for kind, text in (("int", "007"), ("date", "2024-1-31"), ("varchar(3)", "x"), ("int", "x")):
        assert partition_value(column(kind), text) is None


def test_a_plan_says_in_few_words_what_is_read():
    (read,) = reads("select id from a where ds = '20240101' and n > 1 and status = 'paid'")
    assert str(with_partitions(read, KNOWN)) == (
        "a: 4 of 13 columns, 2 of 6 partitions (ds = '20240101'), n > 1 and status = 'paid'"
    )
    long = Compare("status", "=", "x" * 1000)
    assert len(str(TableRead(name="a", table=read.table, schema=A, columns=("id",),
                             conditions=(long,)))) < 300  # fmt: skip


def test_a_condition_of_digits_is_never_sent():
    query = parse_query("select id from a where not (ds = 20240101 or n = 1)")
    (ref,) = query.references
    (condition,) = conditions_of(query, ref, {ref: A})
    assert not may_be_sent(condition)
    assert sent(query.text) == [""]
