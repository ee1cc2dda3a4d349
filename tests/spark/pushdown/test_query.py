"""`odps_nb.spark.sql` with real Spark: the same rows as from whole tables, with less data read."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pytest

import odps_nb.spark
from odps_nb import ClientOptions
from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.progress import Phase, ProgressTracker
from odps_nb.errors import ArgumentError, CancelledError, NotFoundError, QueryError
from odps_nb.spark.pushdown.query import SparkQuery
from tests.support.compat.recorder import Recorder, recording
from tests.support.spark.noted import check_notes, digest, noted
from tests.support.spark.watched import Listener

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.local.server.launch import LocalService

pytestmark = pytest.mark.spark

TEXTS = ["paid", "it's", 'say "so"', "back\\slash", "grüße 👋", "{braces}", "", "a%_b"]
TEXTS += ["NULL", "PAID"]
DAYS = ("20240101", "20240102", "20240103")


def sale(number: int) -> dict[str, Any]:
    """A row with many nulls."""
    return {
        "id": number,
        "n": None if number % 5 == 0 else number % 4,
        "status": None if number % 11 == 3 else TEXTS[number % len(TEXTS)],
        "amount": None if number % 7 == 0 else Decimal(number).scaleb(-1).quantize(Decimal("0.01")),
        "due": None if number % 6 == 0 else datetime.date(2024, 1, 1 + number % 28),
        "gift": (None, True, False)[number % 3],
        "weight": (None, float("nan"), 1.5, -0.0, float("inf"))[number % 5],
        "st": None if number % 9 == 0 else {"x": number % 3, "y": str(number)},
        "tags": [None, [], ["a"], ["a", "b"]][number % 4],
    }


@pytest.fixture(scope="module")
def tables(odps: Connection, spark_session: SparkSession) -> Iterator[None]:
    """Three small tables; ``sales`` has two partition levels. Every query drops its views."""
    odps.create_table(
        "sales",
        "id bigint, n int, status string, amount decimal(10,2), due date, gift boolean, "
        "weight double, st struct<x:int,y:string>, tags array<string>",
        partitioned_by="ds string, hour int",
    )
    odps.create_table("people", "id bigint, name string, n int, `order` string")
    odps.create_table("empty_one", "id bigint, n int")
    number = 0
    for day in DAYS:
        for hour in (1, 22):
            rows = [sale(one) for one in range(number, number + 10)]
            number += 10
            odps.table("sales").write(
                pa.Table.from_pylist(rows), partition={"ds": day, "hour": hour}
            )
    odps.table("people").write(
        pa.Table.from_pylist(
            [
                {"id": one * 3, "name": None if one % 4 == 1 else TEXTS[one % 10], "n": one % 3,
                 "order": "desc" if one % 2 else None}
                for one in range(15)
            ]
        )
    )  # fmt: skip
    yield
    for name in ("sales", "people", "empty_one"):
        odps.drop_table(name)
    assert spark_session.catalog.listTables() == []


PLAIN = noted("sales")


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


@pytest.fixture(scope="module")
def whole(
    spark_session: SparkSession, odps: Connection, tables: None
) -> Iterator[dict[str, DataFrame]]:
    """The tables as `read` returns them, cached by Spark."""
    names = ("sales", "people", "empty_one")
    frames = {name: odps_nb.spark.read(spark_session, odps, name).cache() for name in names}
    yield frames
    for frame in frames.values():
        frame.unpersist()


def without_pushdown(spark: SparkSession, whole: dict[str, DataFrame], text: str) -> DataFrame:
    """Run the query over views of whole tables."""
    for name, frame in whole.items():
        frame.createOrReplaceTempView(name)
    try:
        return spark.sql(text.replace("local.", ""))
    finally:
        for name in whole:
            spark.catalog.dropTempView(name)


QUERIES = [
    # one table
    "select * from sales",
    "select count(*), sum(n) from sales where n > 1",
    "select `id` from `sales` where `status` = 'PAID'",
    "select id from local.sales where local.sales.n = 1 and sales.gift",
    "select id from sales where status = 'it\\'s' or status = \"it's\"",
    "select id from sales where status in ('say \"so\"', 'back\\\\slash', 'grüße 👋', '')",
    "select id, '{not} a {field}' from sales where status = '{braces}'",
    "select id from sales where status not in ('paid', null)",
    "select id from sales where status like 'a\\%%' or status is null",
    "select id from sales where ds like '%02' and status not like 'p%'",
    "select id from sales where not (n in (1, 2) and status <> 'paid')",
    "select id from sales where amount >= 1.50 and amount < 3",
    "select id from sales where due >= date '2024-01-10' and due <> cast('2024-01-15' as date)",
    "select id from sales where weight = 1.5 or weight > 5",
    "select id from sales where st.x = 1 and sales.st.y <> '4'",
    "select id, rand() < 2 from sales where n = 1 and rand() < 2",
    "select s.st.* from sales s where s.n = 1",
    # partitions
    "select id, ds, hour from sales where ds > '20240101' and hour < 9",
    "select id from sales where ds = 20240102 or ds >= 20240103",
    "select id from sales where ds = 'never'",
    "select id from sales where ds = '20240101' or n = 1",
    "select max(ds) from sales",
    # scopes
    "select id from (select * from sales where n = 1) where n = 1 and gift",
    "with sales as (select * from sales where n = 1) select count(*) from sales where n = 2",
    "with s as (select * from sales) select a.id from s a join s b on a.id = b.id where b.n = 1",
    "with s as (select ds, n, count(*) c from sales group by ds, n) select * from s"
    " where ds > '20240101' and n = 1 and c > 0",
    "with s as (select * from sales) select id from s where ds = '20240101' and n = 1"
    " union all select id from s where ds = '20240103'",
    "select * from (select s.ds, s.n, p.name from people p left join sales s on s.id = p.id)"
    " where n is null or ds = '20240101'",
    "select * from (select id, n, rank() over (order by n) r from sales) where n = 1",
    "select id from sales where n = 1 union all select id from sales where n = 2",
    "select * from sales where n = 1 except select * from sales where gift",
    "select name from people p where exists"
    " (select 1 from sales s where s.id = p.id and s.n = 1 and p.n = 0)",
    "select name from people where id not in (select id from sales where n = 1)",
    "select id, (select max(name) from people p where p.id = s.id and p.n = 0) from sales s"
    " where s.n = 1",
    "select n, sum(id) s from sales where gift group by n having n = 1 or s > 100",
    "select id, tag from sales lateral view outer explode(tags) t as tag"
    " where tag is null and n = 1",
    "select s.id, x.m from sales s, lateral (select max(n) m from people p where p.id = s.id) x"
    " where s.n = 1",
    "select n, a from (select n, id, gift from sales) pivot (count(id) for gift in (true as a))",
    "select distinct n from sales where n > 0 order by n desc limit 2",
    "select n, count(*) from sales where gift group by all order by all",
    "from sales |> where n = 1 |> select id, status",
    "values (1, 'a'), (2, 'b')",
    # joins
    "select s.id, p.name from sales s join people p on s.id = p.id where s.n = 1 and p.n = 0",
    "select s.id, p.name from sales s left join people p on s.id = p.id where p.n = 0",
    "select s.id, p.name from sales s left join people p on s.id = p.id where p.n is null",
    "select s.id, p.name from sales s left join people p on s.id = p.id"
    " where p.n is null or p.n = 0",
    "select s.id, p.id from sales s right join people p on s.id = p.id and s.n = 1 where p.n = 0",
    "select s.id, p.id from sales s full join people p on s.id = p.id where s.n = 1",
    "select s.id, p.id from sales s full join people p on s.id = p.id where p.n is null",
    "select id from sales left semi join people using (id) where sales.n = 1",
    "select s.id from sales s left anti join people p on s.id = p.id and p.n = 0 and s.n = 1",
    "select id, n from sales join people using (id, n) where id < 20",
    "select id, name from sales natural join people where name is not null",
    "select a.id from sales a join sales b on a.id = b.id where a.ds = '20240101' and b.hour = 1",
    "select s.id, p.id from sales s join people p on s.id = p.id left join empty_one e"
    " on e.id = p.id and e.n = 1 where e.n is null and p.n = 0",
    "select p.`order`, s.ds from people p join (sales s join empty_one e on s.id <> e.id)"
    " on p.id = s.id",
    "select /*+ broadcast(people) */ sales.id from sales join people on sales.id = people.id"
    " where people.`order` = 'desc'",
    "select * from people as q(a, b, c, d) where a < 9 and c = 1",
    "select count(*) from sales where n = 1 and id = (select max(id) from sales where n = 1)",
]

# These rules run with Spark; test_safety.py and plan/ test without Spark which conditions are sent.
AT_NIGHT = [
    "select count(*) from sales",
    "SELECT ID, Status FROM Sales WHERE STATUS = 'paid'",
    "select id from sales where status not in ('paid', 'NULL')",
    "select id from sales where status > 'a' and status <= 'it'",
    "select id from sales where n between 1 and 2 or not gift",
    "select id from sales where not (n = 1 or gift)",
    "select id from sales where n is null and status is not null",
    "select id from sales where due > '2024-01-20'",
    "select id from sales where weight is not null and n = '1'",
    "select id from sales where ds = '20240102'",
    "select ds, count(*) from sales where hour = 22 group by ds",
    "select id from sales where ds in (20240101, 20240103) and hour = '1'",
    "with s as (select * from sales where n = 1) select id, ds from s where gift",
    "with s as (select *, n as m from sales) select id from s where ds = '20240102' and m = 1",
    "select * from (select distinct n, ds from sales) x join people p on x.n = p.n and x.n = 1",
    "select n from sales where n = 1 intersect select n from people",
    "select name from people where id in (select id from sales where n = 1)",
    "select id, row_number() over (partition by n order by id) r from sales where n <> 1",
    "select id, tag from sales lateral view explode(tags) t as tag where n = 3",
    "select id from sales where n = 1 order by id limit 3",
    "from sales select id where n = 1",
    "select s.id, p.name from sales s, people p where s.id = p.id and p.name = 'paid'",
    "select s.id, p.name from sales s left join people p on s.id = p.id and p.n = 0 where s.n = 1",
    "select s.id, p.name from sales s left join people p on s.id = p.id and s.n = 1",
    "select s.id, p.name from sales s left join people p on s.id = p.id where not (p.n = 1)",
    "select s.id, p.id from sales s right join people p on s.id = p.id where s.n is null",
    "select s.id, p.id from sales s full join people p on s.id = p.id and s.n = 1 and p.n = 0",
    "select a.id, b.id from sales a join sales b on a.id = b.id + 1 where a.n = 2 and b.n = 1",
    "select count(*) from empty_one",
]


@pytest.fixture
def compare(
    few_tasks_here: SparkSession, odps: Connection, tables: None, request: pytest.FixtureRequest
) -> Callable[[str, str], None]:
    """Run a query; return its result and plain Spark's, recorded under a name or computed."""

    def run(text: str, name: str) -> None:
        found = odps_nb.spark.sql(few_tasks_here, odps, text)
        rows = rows_of(found)
        if digest(found.columns, rows) != PLAIN.get(name):
            expected = without_pushdown(few_tasks_here, request.getfixturevalue("whole"), text)
            assert found.columns == expected.columns
            assert rows == rows_of(expected)

    return run


@pytest.mark.gate(5)
@pytest.mark.parametrize(
    "text", [*QUERIES, *(pytest.param(one, marks=pytest.mark.nightly) for one in AT_NIGHT)]
)
def test_queries_return_the_rows_of_complete_tables(
    compare: Callable[[str, str], None], text: str
) -> None:
    compare(text, text)


CONDITIONS = [
    f"select id from sales where {condition}"
    for condition in (
        "ds = 20240102",
        "ds in (20240101, 20240102)",
        "not ds >= 20240102",
        "n = '1'",
        "due > '2024'",
    )
]


@contextlib.contextmanager
def ansi(spark: SparkSession, value: str) -> Iterator[None]:
    spark.conf.set("spark.sql.ansi.enabled", value)
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.gate(4)
@pytest.mark.parametrize("value", ["true", "false"])
@pytest.mark.parametrize("text", CONDITIONS)
def test_comparisons_of_numbers_with_text_have_the_results_of_spark(
    few_tasks_here: SparkSession, compare: Callable[[str, str], None], text: str, value: str
) -> None:
    with ansi(few_tasks_here, value):
        compare(text, f"ansi {value}: {text}")


@pytest.mark.nightly  # runs all queries with plain Spark
def test_stored_results_agree_with_plain_spark(
    few_tasks_here: SparkSession, whole: dict[str, DataFrame]
) -> None:
    def answer(text: str) -> str:
        frame = without_pushdown(few_tasks_here, whole, text)
        return digest(frame.columns, rows_of(frame))

    answers = {text: answer(text) for text in [*QUERIES, *AT_NIGHT]}
    for value in ("true", "false"):
        with ansi(few_tasks_here, value):
            answers |= {f"ansi {value}: {text}": answer(text) for text in CONDITIONS}
    check_notes("sales", answers)


# -- requests to the service ----------------------------------------------------------------------


@pytest.fixture
def recorder(service: LocalService, tables: None) -> Iterator[Recorder]:
    """The requests that are sent to the service from now on."""
    with recording(service.tunnel_endpoint) as found:
        yield found


@pytest.fixture
def watched(service: LocalService, recorder: Recorder) -> Profile:
    """A profile whose requests are recorded."""
    return Profile(
        endpoint=recorder.endpoint,
        tunnel_endpoint=recorder.base,
        project=service.project,
        access_id=service.access_id,
        access_key=service.access_key,
    )


def sessions(recorder: Recorder) -> list[dict[str, Any]]:
    """The read sessions that were requested."""
    bodies = [json.loads(one.body or b"{}") for one in recorder.take() if one.method == "POST"]
    return [body for body in bodies if "RequiredPartitions" in body]


@pytest.mark.storage_api("its requests")
def test_columns_partitions_and_conditions_are_sent_to_the_service(
    spark: SparkSession, watched: Profile, recorder: Recorder
) -> None:
    frame = odps_nb.spark.sql(
        spark,
        watched,
        "select id, status from sales where ds = '20240102' and hour > 2 and n = 1 and gift",
    )
    (asked,) = sessions(recorder)
    assert asked["RequiredDataColumns"] == ["id", "n", "status", "gift"]
    assert asked["RequiredPartitionColumns"] == ["ds", "hour"]
    assert asked["RequiredPartitions"] == ["ds=20240102/hour=22"]
    assert asked["FilterPredicate"] == "n = 1"  # the others are evaluated on received rows
    assert asked["FilterPredicateFallback"] is True
    assert [row.id for row in frame.collect()] == [37]


@pytest.mark.gate(6)
@pytest.mark.parametrize("way", ["sql", "where", "partitions"])
@pytest.mark.parametrize(
    "transfer",
    [pytest.param("storage", marks=pytest.mark.storage_api("its requests")), "tunnel"],
)
@pytest.mark.parametrize(
    ("where", "listed"),
    [
        ("ds = '20240102'", ["ds='20240102'"]),
        ("ds = '20240102' and hour > 2", ["ds='20240102'"]),
        ("ds in ('20240103', '20240101') and n = 1", ["ds='20240101'", "ds='20240103'"]),
        ("ds >= '20240102'", [""]),
    ],
)
def test_only_partitions_under_the_fixed_leading_keys_are_listed(
    spark: SparkSession,
    watched: Profile,
    recorder: Recorder,
    way: str,
    transfer: Literal["storage", "tunnel"],
    where: str,
    listed: list[str],
) -> None:
    options = ClientOptions(transfer=transfer)
    profile = dataclasses.replace(watched, client_options=options)
    if way == "sql":
        odps_nb.spark.sql(spark, profile, f"select id from sales where {where}")
    elif way == "where":
        odps_nb.spark.read(spark, profile, "sales", where=where)
        listed = listed if transfer == "tunnel" else []  # the service evaluates the condition
    else:
        some = [f"ds={day},hour={hour}" for day in DAYS for hour in (1, 22)]
        odps_nb.spark.read(spark, profile, "sales", where=where, partitions=some)
        listed = []
    requests = [dict(one.params) for one in recorder.take()]
    lists = [params for params in requests if "partitions" in params]
    assert [params.get("partition", "") for params in lists] == listed


@pytest.mark.storage_api("its requests")
def test_different_references_have_separate_sessions_and_equal_references_share_a_session(
    spark: SparkSession, watched: Profile, recorder: Recorder
) -> None:
    union = "select id from sales where n = {} union all select id from sales where n = {}"
    odps_nb.spark.sql(spark, watched, union.format(1, 2))
    assert {one["FilterPredicate"] for one in sessions(recorder)} == {"n = 1", "n = 2"}
    odps_nb.spark.sql(spark, watched, union.format(1, 1))
    assert [one["FilterPredicate"] for one in sessions(recorder)] == ["n = 1"]


def test_a_limit_reduces_the_rows_that_are_requested(
    spark: SparkSession, watched: Profile, recorder: Recorder
) -> None:
    query = odps_nb.spark.explain_sql(spark, watched, "select * from sales limit 3")
    assert query.reads[0].limit == 3
    assert query.to_spark().count() == 3


def test_if_no_partition_remains_no_session_is_opened(
    spark: SparkSession, watched: Profile, recorder: Recorder
) -> None:
    frame = odps_nb.spark.sql(spark, watched, "select ds, st, count(*) from sales"
                              " where ds = 'never' group by 1, 2")  # fmt: skip
    assert sessions(recorder) == []
    assert frame.collect() == []


def test_explain_sql_opens_no_session_and_states_what_would_be_read(
    spark: SparkSession, watched: Profile, recorder: Recorder
) -> None:
    query = odps_nb.spark.explain_sql(
        spark, watched, "select count(*) from sales s join people p using (id) where s.n = 1"
    )
    assert sessions(recorder) == []
    assert repr(query) == "<SparkQuery>\nsales: 2 of 11 columns, n = 1\npeople: 2 of 4 columns"
    assert query.summary()[1] == ("people", "2 of 4 columns")
    assert watched.access_key not in repr(query)


@pytest.mark.parametrize(
    "setting",
    [
        "spark.sql.ansi.doubleQuotedIdentifiers",
        "spark.sql.parser.escapedStringLiterals",
        "spark.sql.parser.quotedRegexColumnNames",
    ],
)
def test_settings_that_change_the_syntax_disable_push_down(
    spark: SparkSession, odps: Connection, tables: None, setting: str
) -> None:
    spark.conf.set(setting, "true")
    try:
        query = odps_nb.spark.explain_sql(spark, odps, "select id from sales where n = 1")
    finally:
        spark.conf.unset(setting)
    assert query.summary() == (("sales", "11 of 11 columns"),)


@pytest.mark.parametrize(
    ("text", "read", "found"),
    [
        ("ds = '${day}'", "2 of 11 columns · 2 partitions (ds = '20240102')", 20),
        (
            "${hivevar:column} > '${day}'",
            "2 of 11 columns · 2 of 6 partitions (ds > '20240102')",
            20,
        ),
        ("ds = '${spark:no.such.setting}'", "2 of 11 columns · 0 of 6 partitions (ds = '')", 0),
        ("ds = '${twice}'", "11 of 11 columns", 20),
        ("ds = '20240102' or '${env:HOME}' is null", "11 of 11 columns", 20),
    ],
)
def test_variables_are_replaced_before_conditions_are_pushed_down(
    spark: SparkSession, odps: Connection, tables: None, text: str, read: str, found: int
) -> None:
    query = f"select id, ds from sales where ({text}) and :it = concat('$', '{{day}}')"
    variables = {"day": "20240102", "column": "ds", "twice": "${day}"}
    for name, value in variables.items():
        spark.conf.set(name, value)
    try:
        plan = odps_nb.spark.explain_sql(spark, odps, query, params={"it": "${day}"})
        assert plan.to_spark().count() == found
        assert plan.summary() == (("sales", read),)
    finally:
        for name in variables:
            spark.conf.unset(name)


# -- names ------------------------------------------------------------------------------------


def test_views_of_spark_take_precedence(
    spark: SparkSession, odps: Connection, tables: None
) -> None:
    spark.range(3).createOrReplaceTempView("people")
    try:
        text = "select count(*) from People cross join (select id from sales where n = 1 limit 1)"
        query = odps_nb.spark.explain_sql(spark, odps, text)
        assert [one.name for one in query.reads] == ["sales"]
        assert query.to_spark().collect()[0][0] == 3
        alone = odps_nb.spark.sql(spark, odps, "select '{x}', max(id) from people")
        assert tuple(alone.collect()[0]) == ("{x}", 2)
        assert [view.name for view in spark.catalog.listTables()] == ["people"]
    finally:
        spark.catalog.dropTempView("people")


def test_a_schema_may_be_named(spark: SparkSession, odps: Connection, tables: None) -> None:
    text = "select p.id from local.default.people p where local.default.people.n = 1"
    with pytest.raises(NotFoundError, match="no table of the query has a column 'n'"):
        odps_nb.spark.sql(spark, odps, text)
    text = "select local.default.people.id from local.default.people where n = 1"
    assert odps_nb.spark.sql(spark, odps, text).count() == 5


def test_the_error_for_an_unknown_table_or_column_suggests_similar_names(
    spark: SparkSession, odps: Connection, tables: None
) -> None:
    with pytest.raises(NotFoundError) as caught:
        odps_nb.spark.sql(spark, odps, "select 1 from people, peeple")
    assert "people" in str(caught.value.hint)
    with pytest.raises(NotFoundError, match="'wieght'") as caught:
        odps_nb.spark.sql(spark, odps, "select s.wieght from sales s")
    assert "did you mean 'weight'?" in str(caught.value.hint)
    assert spark.catalog.listTables() == []


def test_a_query_that_spark_refuses_is_an_error_without_java_frames(
    spark: SparkSession, odps: Connection, tables: None, caplog: pytest.LogCaptureFixture
) -> None:
    for text, code in (
        ("select nonsense(id) from sales", "UNRESOLVED_ROUTINE"),
        ("select id, from sales", "PARSE_SYNTAX_ERROR"),
        ("select id from sales a join sales b on a.id = b.id", "AMBIGUOUS_REFERENCE"),
        ("select id from sales where ds", "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN"),
    ):
        with pytest.raises(QueryError) as caught:
            odps_nb.spark.sql(spark, odps, text)
        assert caught.value.code == code
        assert "java" not in str(caught.value).lower()
        assert "_pyspark_" not in str(caught.value)
    with pytest.raises(ArgumentError, match="line 1"):
        odps_nb.spark.sql(spark, odps, "select id from sales where")
    with pytest.raises(ArgumentError, match="is not a query"):
        odps_nb.spark.sql(spark, odps, "drop table sales")
    assert caplog.text == ""


# -- values and results -------------------------------------------------------------------------


AWKWARD = ("it's", "back\\slash", "grüße 👋", "{braces}", "a%_b")


@pytest.mark.gate(2)
@pytest.mark.parametrize(
    "value",
    [
        *AWKWARD,
        *(pytest.param(one, marks=pytest.mark.nightly) for one in TEXTS if one not in AWKWARD),
    ],
)
def test_bound_text_is_pushed_down_as_text(
    spark: SparkSession, odps: Connection, tables: None, value: str
) -> None:
    query = odps_nb.spark.explain_sql(
        spark, odps, "select id, ':x' from sales where status = :wanted", params={"wanted": value}
    )
    assert len(query.reads[0].conditions) == 1
    expected = [n for n in range(60) if n % 11 != 3 and TEXTS[n % len(TEXTS)] == value]
    assert sorted(query.to_arrow().column("id").to_pylist()) == expected


def test_bound_lists_dates_and_decimals_are_pushed_down(
    spark: SparkSession, odps: Connection, tables: None
) -> None:
    query = odps_nb.spark.explain_sql(
        spark,
        odps,
        "select id from sales where status in :texts and due > :day and amount <= :most and n = :n",
        params={
            "texts": ["paid", "it's"],
            "day": datetime.date(2024, 1, 5),
            "most": Decimal("4.10"),
            "n": 1,
        },
    )
    assert len(query.reads[0].conditions) == 4
    assert query.to_pandas()["id"].tolist() == [41]
    with pytest.raises(ArgumentError, match=":m has no value"):
        odps_nb.spark.sql(spark, odps, "select :m", params={"n": 1})


def test_results_have_the_dtypes_of_a_read_and_a_limit_bounds_them(
    spark: SparkSession, odps: Connection, tables: None
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
    text = "select * from types_all where row_name = 'usual'"
    found = odps_nb.spark.explain_sql(spark, odps, text).to_pandas()
    read = odps.table("types_all").read(where="row_name = 'usual'").to_pandas()
    assert found["c_datetime"][0] == read["c_datetime"][0]
    assert found["c_timestamp_ntz"].dtype == "datetime64[us]"
    assert found["c_bigint"].dtype == read["c_bigint"].dtype
    few = odps_nb.spark.explain_sql(spark, odps, "select * from sales order by id", limit=2)
    assert few.to_arrow().column("id").to_pylist() == [0, 1]


def test_a_result_can_be_cancelled(spark: SparkSession, odps: Connection, tables: None) -> None:
    query = odps_nb.spark.explain_sql(spark, odps, "select id from sales")
    query.cancel()  # nothing is running, so nothing happens
    assert query.to_arrow().num_rows == 60


def test_a_query_that_is_cancelled_before_it_starts_opens_no_session(
    spark: SparkSession, watched: Profile, recorder: Recorder
) -> None:
    class Cancelling(Listener):
        def start(self, tracker: ProgressTracker) -> None:
            super().start(tracker)
            query.cancel()

    query = odps_nb.spark.explain_sql(spark, watched, "select id from sales")
    recorder.take()
    listener = Cancelling()
    with pytest.raises(CancelledError):
        query.to_arrow(progress=listener)
    assert recorder.take() == []
    assert listener.wait_end().phase is Phase.CANCELLED


def test_a_plan_whose_table_was_dropped_raises_a_not_found_error(
    spark: SparkSession, odps: Connection, new_name: Any
) -> None:
    name = new_name("gone")
    odps.create_table(name, "id bigint").write(pa.table({"id": [1]}))
    query = odps_nb.spark.explain_sql(spark, odps, f"select * from {name}")
    odps.drop_table(name)
    with pytest.raises(NotFoundError):
        query.to_arrow()


def test_explain_sql_needs_no_java(odps: Connection, tables: None, spark: SparkSession) -> None:
    query = odps_nb.spark.explain_sql(None, odps, "select id from sales where hour = 1")
    assert isinstance(query, SparkQuery)
    assert query.reads[0].partitions is not None
    assert len(query.reads[0].partitions) == 3
