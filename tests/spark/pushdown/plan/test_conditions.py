"""The conditions of a query that are sent to the service, without Spark or a service."""

from __future__ import annotations

import pytest

from odps_nb.filters.tree import text_of
from odps_nb.schema import TableSchema
from odps_nb.spark.pushdown.parse import parse_query
from odps_nb.spark.pushdown.plan import plan_reads, with_partitions
from odps_nb.terms import PartitionSpec, TableName
from odps_nb.wire.type_text import parse_columns
from tests.support.spark.plans import ALL, only, reads, sent


def spelled(short: str) -> str:
    """Return the conditions that ``n1; …`` abbreviates."""
    words = {"n1": "n = 1", "n2": "n = 2", "n?": "n is null", "n!": "n is not null"}
    return "; ".join(words.get(one, one) for one in short.split("; "))


@pytest.mark.parametrize(
    ("where", "condition"),
    [
        ("n = 1", "n = 1"),
        ("1 < n", "n > 1"),
        ("N <> -5", "n <> -5"),
        ("n between 1 and 3", "n >= 1 and n <= 3"),
        ("n not between 1 and 3", "not (n >= 1 and n <= 3)"),
        ("n in (1, 2)", "n in (1, 2)"),
        ("n not in (1, 2)", "not (n in (1, 2))"),
        ("status = 'paid'", "status = 'paid'"),
        ('status = "it\'s"', 'status = "it\'s"'),
        ("status = 'it\\'s'", 'status = "it\'s"'),
        ("status = concat('it', chr(39), 's')", 'status = "it\'s"'),
        ("status = 'grüße 👋'", "status = 'grüße 👋'"),
        ("status >= 'b'", "status >= 'b'"),
        ("status like 'p%'", "status like 'p%'"),
        ("status not like '%ü.*%'", "not (status like '%ü.*%')"),
        ("status like 'paid'", "status like 'paid'"),
        ("a.status is null", "status is null"),
        ("status is not null", "status is not null"),
        ("weight is null", "weight is null"),
        ("amount >= 12.50", "amount >= 12.50"),
        ("amount = 7", "amount = 7"),
        ("amount not in (-1.25e1, 1e2)", "not (amount in (-12.5, 100.0))"),
        ("due = date '2024-01-31'", "due = '2024-01-31'"),
        ("due < cast('2024-01-31' as date)", "due < '2024-01-31'"),
        ("gift", "gift = true"),
        ("not gift", "not (gift = true)"),
        ("gift = false", "gift = false"),
        ("n = 1 or status = 'x' and n = 2", "n = 1 or (status = 'x' and n = 2)"),
        ("n = 1 and rand() < 0.5", "n = 1"),
        ("((n = 1) and (status = 'x'))", "n = 1; status = 'x'"),
    ],
)
def test_simple_conditions_are_pushed_down(where, condition):
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
        "amount = 1.005e0",
        "amount = 1e9",
        "amount in (1e2, 3)",
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
def test_other_conditions_are_evaluated_by_spark(where):
    assert sent(f"select id from a where {where}")[0] == ""


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        # one reference, one scope
        ("select * from a join a as z on a.id = z.id where a.n = 1 and z.n = 2", ["n1", "n2"]),
        ("select * from a where n = 1 union all select * from a where n = 2", ["n1", "n2"]),
        ("select * from (select * from a where n = 1) where n = 2", ["n1"]),
        ("with a as (select * from a where n = 1) select * from a where n = 2", ["n1"]),
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
        (
            "select * from b left join a on true where not (a.n = 1 and a.n = 2)",
            ["", "not (n = 1 and n = 2)"],
        ),
        ("select * from b left join a on true where not (a.n is null and a.n = 2)", ["", ""]),
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
        # unusual forms
        ("select * from a tablesample (5 rows) where n = 1", [""]),
        ("select * from a pivot (sum(id) for gift in (true)) where n = 1", [""]),
        ("select * from (a join b on a.id = b.id) where n = 1", ["", ""]),
        ("select * from b left join (a join c on a.n = 1) on true", ["", "", ""]),
        ("from a |> where n = 1", [""]),
        ("select * from b, c join a on b.x = 1 and a.n = 1", ["", "", "n1"]),
    ],
)
def test_a_condition_is_pushed_down_if_the_query_drops_the_row_anyway(text, conditions):
    assert sent(text) == list(map(spelled, conditions))


@pytest.mark.parametrize(
    "text",
    [
        "select * from (select * from a) where n = 1",
        "select * from (select * from a union all select * from a) where n = 1",
        "select * from b left join (select * from a) x on x.n = 1",
        "with a as (select * from a) select * from a where n = 1",
        "with t as (select * from a) select * from t where ds = '1' and hour = 2",
    ],
)
def test_a_condition_on_a_subquery_or_cte_is_not_pushed_down_into_it(text):
    assert set(sent(text)) == {""}


def test_columns_named_in_unusual_ways_are_read():
    assert reads("select identifier('id') from a")[0].columns == ALL
    odd = TableSchema(columns=parse_columns("id bigint, `a-b` int"))
    query = parse_query("select `a-b` from t")
    tables = dict.fromkeys(query.references, (TableName(project="p", table="t"), odd))
    (read,) = plan_reads(query, tables).values()
    assert "a-b" in read.columns


def test_conditions_that_would_make_a_long_request_are_not_pushed_down():
    many = ", ".join(map(str, range(10_000)))
    assert only(f"select id from a where n in ({many}) and status = 'x'") == "status = 'x'"
    known = [PartitionSpec.of(f"ds={n},hour={10_000 + n}") for n in range(3000)]
    some = ", ".join(map(str, range(10_000, 13_000)))
    (read,) = reads(f"select id from a where hour in ({some}) and ds <> '7' and n = 1")
    read = with_partitions(read, known)
    assert [text_of(one) for one in read.conditions] == ["n = 1", "ds <> '7'"]


def test_a_long_chain_of_conditions_is_parsed_without_recursion():
    chain = " and ".join(f"n <> {number}" for number in range(3000))
    assert sent(f"select id from a where {chain}")[0].startswith("n <> 0; n <> 1")
