"""What a Spark query does not use of a read, and that leaving it out gives the same rows."""

from __future__ import annotations

import datetime
import decimal
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import odps_nb.spark
from odps_nb.client.calls.progress import Phase
from odps_nb.schema import TableSchema
from odps_nb.spark.advice.optimized import Node, use_of
from odps_nb.spark.advice.words import Asked, advice_on, advised
from odps_nb.spark.progress import coordinator
from odps_nb.spark.reading.naming import read_name
from tests.support.spark.services import explained
from tests.support.spark.watched import Action, Listener, gated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.spark

Query = Callable[["DataFrame"], "DataFrame"]
COLUMNS = (
    "id bigint, kind string, amount decimal(10,2), due date, gift boolean, `order` string, "
    "small tinyint, code varchar(5), price double"
)


@pytest.fixture(scope="module")
def few(spark_session: SparkSession) -> Iterator[SparkSession]:
    """The session with what makes small queries fast."""
    settings = {"spark.sql.shuffle.partitions": "1", "spark.sql.codegen.wholeStage": "false"}
    before = {name: spark_session.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark_session.conf.set(name, value)
    yield spark_session
    for name, value in before.items():
        spark_session.conf.set(name, value)


@pytest.fixture(scope="module")
def shop(odps: Connection) -> Iterator[str]:
    """Two days of 40 rows, every seventh value of most columns a null."""
    name = "advice_shop"
    table = odps.create_table(name, COLUMNS, partitioned_by="ds string, shop bigint")

    def some(value: Callable[[int], Any]) -> list[Any]:
        return [None if n % 7 == 3 else value(n) for n in range(40)]

    rows = pa.table(
        {
            "id": pa.array(range(40), pa.int64()),
            "kind": some(lambda n: ["paid", "sent", "it's", "päid"][n % 4]),
            "amount": pa.array(some(lambda n: decimal.Decimal(n) / 4), pa.decimal128(10, 2)),
            "due": some(lambda n: datetime.date(2024, 1, 1) + datetime.timedelta(n)),
            "gift": some(lambda n: n % 3 == 0),
            "order": some(lambda n: f"{n % 5}%"),
            "small": pa.array(some(lambda n: n - 20), pa.int8()),
            "code": some(lambda n: f"c{n % 6}"),
            "price": some(lambda n: n / 3),
        }
    )
    for day in ("2024-01-01", "2024-01-02"):
        table.write(rows, partition=f"ds={day},shop=1")
    yield name
    odps.drop_table(name)


def _plan(frame: DataFrame) -> str:
    found: Any = frame
    return str(found._jdf.queryExecution().optimizedPlan().toJSON())


def _asked(frame: DataFrame, schema: TableSchema, **more: bool) -> Asked:
    """What a read asked for, by the name that its own plan shows."""
    (name,) = (
        node["functionExpr"][0]["name"]
        for node in json.loads(_plan(frame))
        if node["class"].endswith(".MapInArrow")
    )
    return Asked(name=name, schema=schema, **more)


def _rows(frame: DataFrame) -> list[str]:
    return sorted(map(repr, frame.collect()))


# What is to be passed in place of what query; ``None``: whatever it is.
QUERIES: dict[str, tuple[Query, dict[str, object]]] = {
    "columns": (lambda f: f.select("id", "kind"), {"columns": ["id", "kind"]}),
    "a filter and a partition": (
        lambda f: f.filter("ds = '2024-01-01' and amount > 2.5 and kind = \"it's\"").select("id"),
        {
            "columns": ["id", "kind", "amount", "ds"],
            "partitions": "ds=2024-01-01",
            "where": "(`amount` > CAST('2.50' AS DECIMAL(3,2))) and "
            "(`kind` = CONCAT('it', CHR(39), 's'))",
        },
    ),
    "every kind of condition": (
        lambda f: f.filter(
            "due >= date'2024-01-05' and id in (3, 4, 9, 10, 11) and not gift and small < 5 and "
            "(kind like 'p%' or kind is null or `order` is not null) and 'sent' <> kind"
        ),
        {
            "where": "(`due` >= CAST('2024-01-05' AS DATE)) and (`id` in (3, 4, 9, 10, 11)) and "
            "(not (`gift` = TRUE)) and (`small` < 5) and ((`kind` like 'p%' or `kind` is null) "
            "or `order` is not null) and (not (`kind` = 'sent'))"
        },
    ),
    "a count of few": (
        lambda f: f.filter("shop = 1 and code = 'c1' and price > 0.5").groupBy().count(),
        {"columns": ["code", "price", "shop"], "where": "`shop` = 1"},
    ),
    "a count of all": (lambda f: f.groupBy("ds").count(), {"columns": ["gift", "ds"]}),
    "an order and a limit": (
        lambda f: f.filter("id < 30").orderBy("id", "ds").select("id", "ds").limit(3),
        {"columns": ["id", "ds"], "where": "`id` < 30"},
    ),
    "two sides": (
        lambda f: f.filter("id > 20").join(f.groupBy("kind").count(), "kind").select("id", "count"),
        {"columns": ["id", "kind"]},
    ),
    "another filter above": (
        lambda f: f.select("id", (f.id * 2).alias("twice")).filter("twice > 9 and id < 12"),
        {"columns": ["id"], "where": "`id` < 12"},
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_what_is_advised_leaves_the_rows_as_they_are(
    few: SparkSession, odps: Connection, shop: str, name: str
) -> None:
    query, expected = QUERIES[name]
    schema = odps.table(shop).schema
    whole = odps_nb.spark.read(few, odps, shop)
    frame = query(whole)
    asked = _asked(whole, schema)
    found = advised(asked, use_of(_plan(frame), asked.name, schema))
    assert _sorted(found) == _sorted(expected)
    read: Any = odps_nb.spark.read
    less = query(read(few, odps, shop, **found))
    assert _rows(less) == _rows(frame) != []


def _sorted(arguments: dict[str, object]) -> dict[str, object]:
    """Conditions in any order: Catalyst has one of its own."""
    where = arguments.get("where")
    return {**arguments, "where": sorted(str(where).strip("()").split(") and ("))}


def _by_chance(column: str) -> Any:
    from pyspark.sql import functions as F

    return F.udf(lambda value: value > 0, "boolean").asNondeterministic()(column)


NOTHING: dict[str, Query] = {
    "all of it": lambda f: f,
    "what no condition of the service is": lambda f: f.filter("price > 1 or code = 'c1'"),
    "a function of a column": lambda f: f.filter("upper(kind) = 'PAID'"),
    "places of rows": lambda f: f.selectExpr("*", "rand(3) r").filter("id > 3 and r < 0.5"),
    "chance of Python": lambda f: f.filter("id > 3").filter(_by_chance("id")),
    "a union": lambda f: f.union(f),
    "a function of Python": lambda f: f.mapInArrow(lambda batches: batches, f.schema),
}


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_is_advised_where_nothing_is_sure(
    few: SparkSession, odps: Connection, shop: str, name: str
) -> None:
    schema = odps.table(shop).schema
    frame = odps_nb.spark.read(few, odps, shop)
    asked = _asked(frame, schema)
    assert advice_on(_plan(NOTHING[name](frame)), asked) == ""


def test_a_read_is_advised_on_what_it_has_not_said_itself(
    few: SparkSession, odps: Connection, shop: str
) -> None:
    schema = odps.table(shop).schema
    frame = odps_nb.spark.read(few, odps, shop)
    plan = _plan(frame.filter("ds = '2024-01-01' and id > 3"))
    both = "(`ds` = '2024-01-01') and (`id` > 3)"
    asked = _asked(frame, schema)
    assert f"partitions='ds=2024-01-01', where={'`id` > 3'!r}" in advice_on(plan, asked)
    chosen = _asked(frame, schema, chooses=True, filters=True)
    assert f"and {both!r} in where=" in advice_on(plan, chosen)
    assert advice_on(plan, _asked(frame, schema, limits=True)) == ""  # other rows would be first
    counting = advice_on(_plan(frame.groupBy().count()), asked)
    assert counting.startswith("0 of the 11 columns that came were used. ")
    assert "facts(frame).row_count tells the rows without a read" in counting
    many = "id in (" + ", ".join(map(str, range(9))) + ") and kind = '" + "x" * 200 + "'"
    assert "Less comes with it as where=" in advice_on(_plan(frame.filter(many)), asked)
    other = Asked(name="another read", schema=schema)
    assert advice_on(plan, other) == ""


def test_an_action_says_at_its_end_what_it_read_in_vain(
    few: SparkSession,
    odps: Connection,
    shop: str,
    monkeypatch: pytest.MonkeyPatch,
    gate: Path,
) -> None:
    monkeypatch.setattr(coordinator, "WORTH_ADVICE", 0.0)
    listener = Listener()
    frame = odps_nb.spark.read(few, odps, shop, progress=listener)
    action = Action(gated(frame.filter("id < 5").select("id"), gate).collect)
    listener.wait_until(lambda snapshot: snapshot.rows > 0)  # Spark knows a query while it runs
    gate.touch()
    assert len(action.result()) == 10
    end = listener.wait_end(1)
    assert (end.phase, end.rows) == (Phase.DONE, 80)
    assert end.message == (
        "1 of the 11 columns that came were used; a filter was applied after the rows had come. "
        "Less comes with columns=['id'], where=\"`id` < 5\"".replace('"', "'")
    )
    monkeypatch.setattr(coordinator, "WORTH_ADVICE", float("inf"))
    assert len(frame.filter("id < 5").select("id").collect()) == 10
    assert listener.wait_end(2).message == ""  # what was over at once needs no advice


def test_a_query_that_is_pushed_down_is_not_advised_on(
    few: SparkSession, odps: Connection, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "WORTH_ADVICE", 0.0)
    listener = Listener()
    query = odps_nb.spark.explain_sql(few, odps, f"select id from {shop} where id < 5")
    assert len(query.to_spark(progress=listener).collect()) == 10
    assert listener.wait_end().message == ""


# -- counting -----------------------------------------------------------------------------------


def test_a_count_of_the_whole_read_is_known_and_any_other_is_counted(
    few: SparkSession, odps: Connection, shop: str
) -> None:
    listener = Listener()

    def read(**more: Any) -> DataFrame:
        return odps_nb.spark.read(few, odps, shop, progress=listener, **more)

    frame = read(columns=["id"])
    assert (frame.count(), read(limit=7).count(), read(partitions="ds=2024-01-02").count()) == (
        80,
        7,
        40,
    )
    assert odps.table(shop).read(columns=["id"]).to_spark(few).count() == 80
    assert listener.trackers == []  # nothing was read
    assert frame.filter("true").count() == 80 == frame.select("id").count()
    assert read(where="id < 4").count() == 8
    assert len(listener.trackers) == 3
    kept = read(columns=["id"]).cache()
    assert kept.count() == 80  # this fills the cache
    assert len(listener.trackers) == 4
    assert kept.filter("id < 3").count() == 6
    assert len(listener.trackers) == 4  # from there
    kept.unpersist()
    assert kept.count() == 80
    assert len(listener.trackers) == 4


# -- plans --------------------------------------------------------------------------------------


def test_a_plan_names_what_is_read_and_no_key(
    few: SparkSession, odps: Connection, shop: str
) -> None:
    frame = odps_nb.spark.read(
        few,
        odps,
        shop,
        columns=["id", "ds"],
        partitions=["ds=2024-01-01", "ds=2024-01-02"],
        where="id > :least",
        params={"least": 3},
        limit=9,
    )
    told = explained(frame)
    assert (
        f"odps local.{shop} [2 of 11 columns; ds=2024-01-01 or ds=2024-01-02; where id > 3; "
        f"limit 9; session {odps_nb.spark.facts(frame).session_id}]"
    ) in told
    for secret in (odps.profile.access_key, odps.profile.access_id):
        assert str(secret) not in told
    assert f"odps local.{shop} [all 11 columns; session " in explained(
        odps_nb.spark.read(few, odps, shop)
    )
    assert f"odps local.{shop} [2 of 11 columns; where `id` > 3; session " in explained(
        odps_nb.spark.sql(few, odps, f"select id, kind from {shop} where id > 3")
    )
    scan = odps.table(shop).read(columns=["kind"], limit=2)
    assert f"odps local.{shop} [1 of 11 columns; limit 2; session " in explained(scan.to_spark(few))


def test_a_name_in_a_plan_is_one_bounded_line(odps: Connection, shop: str) -> None:
    scan = odps.table(shop).read(where="kind in ('" + "x" * 5000 + "',\n\n'\x1b[31m')")
    name = read_name(scan.session, scan.plan)
    assert len(name) < 500
    assert "\n" not in name
    assert "\x1b" not in name


def test_small_reads_are_broadcast_by_themselves_and_large_ones_are_not(
    few: SparkSession, odps: Connection
) -> None:
    large = odps_nb.spark.read(few, odps, "orders")
    ids = {"columns": ["id"], "splits": 2}  # ranges of rows, so that they are counted
    filtered = odps_nb.spark.read(few, odps, "orders", where="id > 0", **ids)
    rows = odps.table("orders").read().row_count or 0
    threshold = few.conf.get("spark.sql.autoBroadcastJoinThreshold")
    try:
        few.conf.set("spark.sql.autoBroadcastJoinThreshold", str(rows * 17))
        assert "BroadcastHashJoin" in explained(large.join(filtered, "id"))
        few.conf.set("spark.sql.autoBroadcastJoinThreshold", str(rows * 16 - 1))
        assert "BroadcastHashJoin" not in explained(large.join(filtered, "id"))
    finally:
        few.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold)
    ten = odps_nb.spark.read(few, odps, "orders", columns=["id"], limit=10)
    assert "sizeInBytes=508.0 B" in explained(ten, mode="cost")  # as little as one split may have
    scan = odps.table("orders").read(columns=["id"], limit=10)
    assert "BroadcastHashJoin" in explained(large.join(scan.to_spark(few), "id"))


def test_a_tree_is_built_of_nodes_before_their_children() -> None:
    listed = [("Join", 2), ("Filter", 1), ("Range", 0), ("Project", 0)]
    tree = Node.of([{"class": f"org.{kind}", "num-children": n} for kind, n in listed])
    assert [tree.kind, *(child.kind for child in tree.children)] == ["Join", "Filter", "Project"]
    assert tree.children[0].children[0].kind == "Range"
    with pytest.raises(ValueError, match="unpack"):
        Node.of([{"class": "a", "num-children": 0}] * 2)
