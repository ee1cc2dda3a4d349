"""Push-down and plain Spark agree on times, floats, CHAR, patterns, unions, computed partitions.

The invariant is that of ``test_differential.py``: omitted rows do not change any result. The rows
include NaN, infinities, both zeros, trailing blanks, digits below a second and clock changes.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import odps_nb.spark
from odps_nb.errors import StateError
from odps_nb.filters.row_filter import RowFilter
from odps_nb.filters.tree import AllOf
from odps_nb.spark.pushdown.parse import parse_query
from odps_nb.spark.pushdown.plan import plan_reads
from odps_nb.spark.versions import from_arrow, to_arrow
from odps_nb.terms import TableName
from tests.spark.pushdown.test_differential import difference, outcome, whole
from tests.support.spark.noted import check_notes, noted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.spark

COLUMNS = (
    "id bigint, w double, f float, c char(3), v varchar(5), s string, d date, made timestamp, "
    "begun datetime, shown timestamp_ntz"
)
DAYS = ("20240101", "20240102", "20240103", "day")


def _rows(day: str, first: int) -> pa.Table:
    """Twelve rows of a partition, with a null in each column."""
    nan, inf = float("nan"), float("inf")
    numbers = [nan, inf, -inf, 0.0, -0.0, 1.5, 0.1, 2.0, -1.5, 16777216.0, 1000.0, None]
    texts = ["a", "a ", "ab", "abc", "_", "%", "ü", "😀", "", "A", "a%b", None]
    start = datetime.datetime(2023, 12, 31, 23, 59, 59, 999_999)
    steps = [datetime.timedelta(hours=5 * n, microseconds=n % 3) for n in range(11)]
    clocks = [*(start + step for step in steps), None]
    whole_ms = [one and one.replace(microsecond=one.microsecond // 1000 * 1000) for one in clocks]
    return pa.table(
        {
            "id": range(first, first + 12),
            "w": numbers,
            "f": pa.array(numbers, pa.float32()),
            "c": [one and one[:3] for one in texts],
            "v": texts,
            "s": texts,
            "d": [one and one.date() for one in clocks],
            "made": pa.array(clocks, pa.timestamp("us")),
            "begun": pa.array(whole_ms, pa.timestamp("ms")),
            "shown": pa.array(clocks, pa.timestamp("us")),
            "ds": [day] * 12,
        }
    )


@pytest.fixture(scope="module")
def served(few_tasks: SparkSession, odps: Connection) -> Iterator[dict[str, DataFrame]]:
    """Two equal tables on the service, and all rows as `read` returns them."""
    for name in ("m1", "m2"):
        odps.create_table(name, COLUMNS, partitioned_by="ds string")
        days = DAYS if name == "m1" else DAYS[:1]
        rows = [_rows(day, 100 * place) for place, day in enumerate(days)]
        odps.table(name).write(pa.concat_tables(rows), progress=False)
    # one batch from one place, because the cached rows are read a hundred times
    frames = {name: odps_nb.spark.read(few_tasks, odps, name) for name in ("m1", "m2")}
    yield {
        name: from_arrow(few_tasks, to_arrow(frame), frame.schema).cache()
        for name, frame in frames.items()
    }
    for name in ("m1", "m2"):
        odps.drop_table(name)


CONDITIONS = [
    "w > 1.5", "w >= 1.5", "w < 1.5", "w <= 0.1", "w = 0", "w <> 1.5", "not w < 1.5", "w = -0.0",
    "not (w > 1.5)", "w between 0.1 and 1e3", "w in (1.5, 0)", "w not in (1.5, 0)", "w is not null",
    "f > 1.5", "f = 0.1", "f <> 0.1", "f in (0.1, 2)", "f <= 16777216", "not f between 0 and 2",
    "c = 'a'", "c = 'a '", "c in ('a', 'ab')", "c <> 'a'", "c >= 'a'", "not (c = 'a')",
    "v = 'a'", "v = 'a '", "v > 'a'", "v <> 'a'", "v not in ('a', 'abc')", "v like 'a_'",
    "s like '_'", "s like 'a_%'", "s not like '_'", "s like '%_b'", "s like '__'",
    "d = '2024-01-01'", "d <> '2024-01-01'", "d in ('2024-01-01', '2024-01-02')",
    "d < '2024-01-02'",
    "made = timestamp '2024-01-01 05:00:00'", "made >= '2024-01-01'", "made < '2024-01-01'",
    "made > timestamp '2024-01-01 04:59:59'", "made between '2024-01-01' and '2024-01-01 12:00:00'",
    "not (made > date '2024-01-01')", "made in (timestamp '2024-01-01 10:00:00.000001')",
    "begun = '2023-12-31 23:59:59.999'", "begun <= '2024-01-01 04:59:59'", "begun <> '2024-01-01'",
    "shown = '2023-12-31 23:59:59.999999'", "shown > timestamp_ntz '2024-01-01 00:00:00'",
    "shown < '2024-01-01T00:00:00.000001'", "shown >= timestamp '2024-01-01 00:00:00'",
]  # fmt: skip
#: Queries for which no condition is sent.
LEFT = {
    *("c <> 'a'", "c >= 'a'", "not (c = 'a')", "shown >= timestamp '2024-01-01 00:00:00'"),
}
# partitions that Spark itself selects, and conditions outside of set operations
BOTH = "select id, ds from m1 {} select id, ds from m2"
QUERIES = [
    "select count(*), min(id) from m1 where substr(ds, 1, 6) = '202401' and w > 0",
    "select count(*) from m1 where ds < date_format(current_date(), 'yyyyMMdd') and id < 200",
    "select count(*) from m1 where cast(ds as int) % 2 = 1",  # 'day' is not a number: rejected
    "select count(*) from m2 b left join m1 a on a.id = b.id where substr(a.ds, 8) is null",
    f"select count(*), max(ds) from ({BOTH.format('union all')}) where ds = '20240101'",
]
AT_NIGHT = [
    "select count(*) from m1 a join m2 b on a.id = b.id and substr(a.ds, 8) = '1'",
    f"with u as ({BOTH.format('union')}) "
    "select (select count(*) from u where ds = 'day'), (select max(id) from u where ds > '3')",
    *(f"select id, ds from m1 where ds <> 'day' and ({where})" for where in CONDITIONS),
    "select count(*) from m1 where ds rlike '[13]$' and w > 0",
    "select count(*) from m1 where ds = date_format(date_sub(date '2024-01-03', 1), 'yyyyMMdd')",
    "select count(*) from m1 where upper(ds) = 'DAY' or length(ds) < 4",
    "select count(*) from m1 where year(now()) > 2000 and ds like '2024010_'",
    "select count(*) from m1 where ds in (concat('2024', '0101'), 'day')",
    "select count(a.id) from m2 b left join m1 a on a.id = b.id where substr(a.ds, 8) = '2'",
    "select * from (select ds, count(*) n from m1 group by ds) where right(ds, 1) = '3'",
    f"select ds, count(*) from ({BOTH.format('union')}) where ds > '20240102' group by ds",
    f"select count(*) from ({BOTH.format('except')}) where ds = '20240101'",
    f"select count(*) from ({BOTH.format('intersect')}) where right(ds, 1) = '1'",
    "select * from (select id ds, ds id from m2 union all select id, ds from m1) where id = 'day'",
    "select * from (select ds, w from m1 union all select 'x', f from m2) where ds = 'x' and w > 1",
]
ALL = [*QUERIES, *AT_NIGHT]
ZONED = [
    "select id from m1 where made = timestamp '2024-01-01 13:00:00' and ds = 'day'",
    "select id from m1 where begun < '2024-01-01 20:00:00' and shown > '2024-01-01' and ds = 'day'",
]
PLAIN = noted("m1, m2")


@pytest.mark.nightly
def test_no_pushed_condition_drops_a_row_that_spark_keeps(
    few_tasks: SparkSession, odps: Connection, served: dict[str, DataFrame]
) -> None:
    """All conditions in one query of plain Spark, compared with the rows that are kept."""
    told = ", ".join(f"({where}) as c{number}" for number, where in enumerate(CONDITIONS))
    truth = to_arrow(whole(few_tasks, served, f"select id, {told} from m1")).sort_by("id")
    rows = pa.concat_tables(_rows(day, 100 * place) for place, day in enumerate(DAYS))
    name, schema = TableName(project="p", table="m1"), odps.table("m1").schema
    for number, where in enumerate(CONDITIONS):
        query = dataclasses.replace(parse_query(f"select id from m1 where {where}"), zone="UTC")
        (reference,) = query.references
        read = plan_reads(query, {reference: (name, schema)})[reference]
        kept = rows.column("id").to_pylist()
        if read.conditions:
            asked = RowFilter.of(AllOf(read.conditions), schema)
            batch = rows.select(["id", *asked.columns]).combine_chunks().to_batches()[0]
            kept = asked.apply(batch).column(0).to_pylist()
        holds = truth.column(f"c{number}").to_pylist()
        wanted = {
            id_ for id_, is_true in zip(rows["id"].to_pylist(), holds, strict=True) if is_true
        }
        assert wanted <= set(kept), where
        assert bool(read.conditions) == (where not in LEFT), where
        if where not in LEFT and not where.startswith("c "):
            assert wanted == set(kept), where


@pytest.mark.gate(2)
@pytest.mark.parametrize(
    "text", [*QUERIES, *(pytest.param(one, marks=pytest.mark.nightly) for one in AT_NIGHT)]
)
def test_a_query_returns_the_rows_of_plain_spark(
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
    answers = {text: outcome(lambda: whole(few_tasks, served, text)) for text in ALL}  # noqa: B023
    check_notes("m1, m2", {text: answer.digest for text, answer in answers.items()})


@pytest.fixture
def in_shanghai(few_tasks: SparkSession) -> Iterator[SparkSession]:
    few_tasks.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
    yield few_tasks
    few_tasks.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("text", ZONED)
def test_times_use_the_zone_of_the_session(
    in_shanghai: SparkSession, odps: Connection, served: dict[str, DataFrame], text: str
) -> None:
    (read,) = odps_nb.spark.explain_sql(in_shanghai, odps, text).reads
    assert read.conditions
    found = outcome(lambda: odps_nb.spark.sql(in_shanghai, odps, text))
    expected = outcome(lambda: whole(in_shanghai, served, text))
    assert difference(found, expected, ordered=False) == ""
    assert found.rows


def test_computed_conditions_prune_partitions_and_the_plan_reports_it(
    few_tasks: SparkSession, odps: Connection, served: object
) -> None:
    text = (
        "select id from m1 where ds = date_format(date_sub(current_date(), 1), 'yyyyMMdd') "
        "or ds rlike '3$' and made > '2024-01-01'"
    )
    plan = odps_nb.spark.explain_sql(few_tasks, odps, "select id from m1 where ds rlike '3$'")
    assert "1 of 4 partitions (ds rlike '3$')" in str(plan)
    (read,) = odps_nb.spark.explain_sql(few_tasks, odps, text).reads
    assert read.partitions is None  # the second condition does not depend only on partitions
    text = "select id from m1 where ds = date_format(date_sub(current_date(), 1), 'yyyyMMdd')"
    plan = odps_nb.spark.explain_sql(few_tasks, odps, text)
    assert "0 of 4 partitions" in str(plan)
    assert plan.to_spark().collect() == []


@pytest.mark.parametrize(("ansi", "kept"), [("false", 1), ("true", None)])
def test_a_number_compared_with_a_text_partition_prunes_unless_spark_refuses_it(
    few_tasks: SparkSession, odps: Connection, served: object, ansi: str, kept: int | None
) -> None:
    few_tasks.conf.set("spark.sql.ansi.enabled", ansi)  # if it is on, 'day' is an error
    try:
        text = "select id from m1 where ds = 20240101"
        (read,) = odps_nb.spark.explain_sql(few_tasks, odps, text).reads
        (joined, _) = odps_nb.spark.explain_sql(
            few_tasks, odps, "select 1 from m1 right join m2 on true where m1.ds = 20240101"
        ).reads
    finally:
        few_tasks.conf.unset("spark.sql.ansi.enabled")
    for one in (read, joined):
        assert (one.known_partitions, one.partitions and len(one.partitions)) == (4, kept)


def test_a_plan_created_in_another_time_zone_is_not_run(
    few_tasks: SparkSession, odps: Connection, served: object
) -> None:
    plan = odps_nb.spark.explain_sql(few_tasks, odps, "select id from m1 where made > '2024-01-01'")
    few_tasks.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        with pytest.raises(StateError, match="planned in the time zone UTC"):
            plan.to_spark()
    finally:
        few_tasks.conf.set("spark.sql.session.timeZone", "UTC")
