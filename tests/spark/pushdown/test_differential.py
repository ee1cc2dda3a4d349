"""The same query with and without push-down: `odps_nb.spark.sql` compared with plain Spark.

The invariant: the rows that `plan_reads` omits change neither the rows of a query nor whether Spark
accepts it. `test_left_out` compares random queries in DuckDB, which runs them faster.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError

import odps_nb.spark
from odps_nb.errors import NotFoundError, QueryError
from tests.support.spark.noted import check_notes, digest, noted
from tests.support.spark.sql_rows import ROWS, SCHEMAS, TABLES, arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.spark


@dataclass
class Outcome:
    """The outcome of a query: rows, or an error."""

    columns: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    refused: str = ""
    ran: bool = False  # whether Spark accepted it and it failed while running

    @property
    def digest(self) -> str:
        """A digest of the result in 16 letters; a rejected query has none."""
        return "" if self.refused else digest(self.columns, self.rows)


def outcome(make: Callable[[], DataFrame]) -> Outcome:
    from pyspark.errors import PySparkException

    made = Outcome()
    try:
        frame = make()
        made.columns = [f"{one.name} {one.dataType.simpleString()}" for one in frame.schema]
        made.ran = True
        made.rows = [repr(tuple(row)) for row in frame.collect()]
    except PySparkException as failure:
        made.refused = failure.getCondition() or type(failure).__name__
    except Py4JJavaError as failure:  # errors during a broadcast are not converted
        named = re.search(r"\[([A-Z_.]+)\]", str(failure))
        if named is None:
            raise
        made.refused = named[1]
    except (NotFoundError, QueryError) as failure:
        made.refused = str(failure.code)
    return made


def difference(found: Outcome, expected: Outcome, *, ordered: bool) -> str:
    """Describe how two outcomes differ; empty if they do not."""
    if expected.refused and expected.ran and not found.refused:
        return ""  # a row that causes an error may be omitted: Spark's own push-down does the same
    if bool(found.refused) != bool(expected.refused):
        return f"refused: {found.refused or 'no'}, by plain Spark: {expected.refused or 'no'}"
    if found.columns != expected.columns:
        return f"columns {found.columns} instead of {expected.columns}"
    same = found.rows == expected.rows if ordered else Counter(found.rows) == Counter(expected.rows)
    return "" if same else f"{found.rows[:5]} … instead of {expected.rows[:5]} …"


# -- fixed queries, through the service -----------------------------------------------------------

# Queries that once returned other rows than plain Spark, and similar difficult ones.
FIXED = [
    # limits that are not literals
    "select id from q2 limit 2 + 3",
    "select count(*) from (select id from q2 limit 5 offset 13)",
    # stars whose columns matter although they are not named
    "select count(*) from (select * from q2 group by all)",
    "select sum(a) from (select * from q2 order by all limit 5)",
    "select sum(k) from (select * from q2 order by 5, 1 limit 4)",
    "select count(*) from q1 where exists (select * from q2 group by all having sum(k) > 9)",
    "select count(q2.*) from q2",
    "select to_json(x.st) from q2, lateral (select struct(q2.*) as st) x where q2.id = 4",
    "select count(*) from (q1 join q2 on q1.id = q2.id pivot (count(g) for q2.a in (1 as p1)))",
    "select count(*) from (select * from q1 union all by name select * from q2)",
    "select count(*), sum(v) from q2 unpivot (v for w in (a, k))",
    # values that depend on the position of a row
    "select * from (select a, id, rand(3) as r from q2) where a = 1",
    "select * from (select ds, monotonically_increasing_id() as n from q1) where ds = '20240102'",
    "select id, ds from q1 tablesample (50 percent) repeatable (4) where ds = '20240102'",
    "select * from (select id, a from q2 order by id limit 5) where a = 1",
    "select id from q2 where k = 1 qualify row_number() over (partition by a order by id) = 1",
    # text that Spark parses differently
    "select count(*) from q2 -- goes on \\\n where a = 1",
    "from q1 |> where a = 1 |> select id, ds",
    # joins and conditions
    "select q1.id, q2.s from q1 full join q2 on q1.id = q2.id and q1.h = 1 where q2.a is null",
    "select q1.id from q1 left anti join q2 on q1.id = q2.id and q1.ds = '20240101'",
    "select id, ds from q1 where not a = 1 is null and (s = 'a' or s = 'a ' or s = 'it\\'s')",
    "select g, count(*) from (select g, a from q1) where a = 1 group by rollup (g) order by all",
]
# More queries for the same rules, which the plan tests check without Spark.
AT_NIGHT = [
    "select id from q2 limit 1 * 5",
    "select id from q2 limit (2)",
    "select id from q2 limit all",
    "select id from q2 limit cast(5 as int)",
    "select count(*) from (select a, * from q2 group by all)",
    "select sum(a) from (select * from q2 order by 2 desc, 1 limit 5)",
    "select sum(a) from ((select * from q2) order by 5, 1 limit 4)",
    "select count(*) from (select * from q2 sort by 5)",
    "select count(*) from (select * from q2 cluster by 1)",
    "select count(*) from (select distinct * from q1 where h = 1)",
    "select count(*) from (select * from q2 group by id)",
    "select count(*) from (select * except (id) from q2)",
    "select count(*, a) from q2",
    "select count(distinct *) from q2",
    "select sum(hash(*)) from q2",
    "select count(*), max(p1) from q2 pivot (count(id) for a in (1 as p1))",
    "select count(*) from (select id from q1) natural join q2",
    "select a, id, rand(3) as r from q2 where a = 1",
    "select id from q2 where a = 1 and rand(3) < 0.5",
    "select * from (select id, a, row_number() over (order by id) as n from q2) where a = 1",
]


@pytest.fixture(scope="module")
def served(few_tasks: SparkSession, odps: Connection) -> Iterator[dict[str, DataFrame]]:
    """The tables on the service, and all of their rows as `read` returns them."""
    assert not any(few_tasks.catalog.tableExists(name) for name in TABLES)
    for name, (columns, keys) in TABLES.items():
        odps.create_table(name, columns, partitioned_by=keys or None)
        data = arrow(name, SCHEMAS[name].names, range(len(ROWS[name])))
        odps.table(name).write(data)
    yield {name: odps_nb.spark.read(few_tasks, odps, name).cache() for name in TABLES}
    for name in TABLES:
        odps.drop_table(name)


def whole(spark: SparkSession, served: dict[str, DataFrame], text: str) -> DataFrame:
    """Run the query over views of whole tables."""
    for name, frame in served.items():
        frame.createOrReplaceTempView(name)
    try:
        return spark.sql(text)
    finally:
        for name in served:
            spark.catalog.dropTempView(name)


PLAIN = noted("q1, q2")


@pytest.mark.gate(3)
@pytest.mark.parametrize(
    "text", [*FIXED, *(pytest.param(one, marks=pytest.mark.nightly) for one in AT_NIGHT)]
)
def test_a_fixed_query_returns_the_rows_of_plain_spark(
    few_tasks: SparkSession, odps: Connection, served: dict[str, DataFrame], text: str
) -> None:
    found = outcome(lambda: odps_nb.spark.sql(few_tasks, odps, text))
    if found.digest != PLAIN.get(text):
        expected = outcome(lambda: whole(few_tasks, served, text))
        assert difference(found, expected, ordered=False) == ""


@pytest.mark.nightly  # runs all queries with plain Spark
def test_stored_results_agree_with_plain_spark(
    few_tasks: SparkSession, served: dict[str, DataFrame]
) -> None:
    answers = {
        text: outcome(lambda: whole(few_tasks, served, text))  # noqa: B023
        for text in [*FIXED, *AT_NIGHT]
    }
    check_notes("q1, q2", {text: answer.digest for text, answer in answers.items()})
