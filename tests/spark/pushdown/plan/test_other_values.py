"""A condition is not sent if the values of a query would change with the rows that are read."""

from __future__ import annotations

import re

import pytest

from odps_nb.filters.tree import text_of
from tests.support.spark.plans import ALL, only, reads, sent


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
        "sinh(n)",
        "my_own(n)",
        "my_db.upper(status)",
        "`my-own`(n)",
        "sets(n)",
        "session_window(made, '1 day')",
    ],
)
def test_values_that_depend_on_row_positions_prevent_pruning(call):
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
def test_samples_and_ambiguous_texts_prevent_pruning(text):
    assert all(not read.conditions for read in reads(text))


USUAL = """
cast(st as string) | n::int | due + interval 1 day | date_sub(current_date(), 7) | now()
extract(year from due) | trim(both 'x' from status) | substring(status from 1 for 2)
transform(tags, x -> concat(x, '!')) | exists(tags, x -> x = 'a') | tags[0] | st.x
case when n = 1 then 2 else 3 end | map('a', 1)['a'] | status like any ('a%', 'b%') | n div 2
sum(n) over (partition by status order by id rows between 1 preceding and current row)
count(distinct n, id) | sum(n) filter (where n > 1) | collect_list(struct(n, id)) | max(due)
percentile(n, 0.5) | last_value(n) ignore nulls over (order by id)
if(n > 1, 2, 3) | date_format(due, 'yyyy-MM') | to_date(ds, 'yyyyMMdd') | datediff(due, due)
get_json_object(status, '$.a') | split(status, ',')[0] | regexp_extract(status, 'x', 1)
cast(n as decimal(10, 2)) | try_cast(status as int) | date_trunc('month', due) | not gift | -n
(select max(x) from b) | id in (select id from b) | from_utc_timestamp(made, 'Asia/Shanghai')
concat_ws(',', tags) | round(weight, 2) | n is distinct from 2
"""


@pytest.mark.parametrize("expression", [one.strip() for one in re.split(r"[|\n]", USUAL.strip())])
def test_common_expressions_do_not_prevent_pruning(expression):
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
def test_common_queries_are_pruned(text):
    read = reads(text)[0]
    assert len(read.columns) < len(ALL)
    assert [text_of(one) for one in read.partition_conditions] == ["ds = '1'"]


def test_column_names_after_an_alias_are_not_calls():
    text = "select * from a join values (1, 'x') as v(k, w) on a.id = v.k where n = 1"
    assert only(text) == "n = 1"
    assert sent("with t(z) as (select 1) select * from a where n = 1") == ["n = 1"]
    assert sent("with rand(z) as (select 1) select rand(3) from a where n = 1") == [""]
    assert sent("select z(3) from a lateral view explode(tags) z as y where n = 1") == [""]


def test_random_functions_without_a_seed_allow_pruning():
    assert only("select uuid(), * from a where n = 1 and rand() < 0.5") == "n = 1"


def test_a_condition_is_applied_before_qualify():
    text = "select * from a where n = 1 qualify row_number() over (order by id) = 1"
    assert only(text) == "n = 1"
    assert only(f"select * from ({text.replace('n = 1 q', 'id = 2 q')}) where n = 1") == "id = 2"


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
def test_unusual_constructs_prevent_pushing_down_a_condition(text):
    assert sent(text)[0] == ""
