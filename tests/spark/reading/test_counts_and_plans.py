"""Facts known before rows are read: row count, size, and the name in plans."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import odps_nb.spark
from odps_nb.spark.reading.plan import read_name
from tests.support.spark.services import explained
from tests.support.spark.watched import Listener

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.spark

COLUMNS = (
    "id bigint, kind string, amount decimal(10,2), due date, gift boolean, `order` string, "
    "small tinyint, code varchar(5), price double"
)


@pytest.fixture(scope="module")
def few(spark_session: SparkSession) -> Iterator[SparkSession]:
    """The session with settings that make small queries fast."""
    settings = {"spark.sql.shuffle.partitions": "1", "spark.sql.codegen.wholeStage": "false"}
    before = {name: spark_session.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark_session.conf.set(name, value)
    yield spark_session
    for name, value in before.items():
        spark_session.conf.set(name, value)


@pytest.fixture(scope="module")
def shop(odps: Connection) -> Iterator[str]:
    """Two days of 40 rows; in most columns, every seventh value is null."""
    name = "counted_shop"
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


# -- counting -----------------------------------------------------------------------------------


def test_only_the_count_of_a_complete_read_needs_no_job(
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
    assert listener.wait_end(3).rows == 8
    kept = read(columns=["id"]).cache()
    assert kept.count() == 80  # fills Spark's cache
    assert listener.wait_end(4).rows == 80
    assert kept.filter("id < 3").count() == 6
    assert len(listener.trackers) == 4  # these actions read from the cache
    kept.unpersist()
    assert kept.count() == 80
    assert len(listener.trackers) == 4


# -- plans --------------------------------------------------------------------------------------


def test_a_plan_shows_what_is_read_and_no_key(
    few: SparkSession, odps: Connection, shop: str
) -> None:
    scan = odps.table(shop).read(
        columns=["id", "ds"],
        partitions=["ds=2024-01-01", "ds=2024-01-02"],
        where="id > :least",
        params={"least": 3},
        limit=9,
    )
    told = explained(scan.to_spark(few))
    assert (
        f"odps local.{shop} [2 of 11 columns; ds=2024-01-01 or ds=2024-01-02; where id > 3; "
        f"limit 9; session {scan.session_id}]"
    ) in told
    for secret in (odps.profile.access_key, odps.profile.access_id):
        assert str(secret) not in told
    assert f"odps local.{shop} [all 11 columns; session " in explained(
        odps_nb.spark.read(few, odps, shop)
    )
    assert f"odps local.{shop} [2 of 11 columns; where id > 3; session " in explained(
        odps_nb.spark.sql(few, odps, f"select id, kind from {shop} where id > 3")
    )
    scan = odps.table(shop).read(columns=["kind"], limit=2)
    assert f"odps local.{shop} [1 of 11 columns; limit 2; session " in explained(scan.to_spark(few))


def test_a_name_in_a_plan_is_one_bounded_line(odps: Connection, shop: str) -> None:
    scan = odps.table(shop).read(where="kind in ('" + "x" * 5000 + "',\n\n'\x1b[31m')")
    name = read_name(scan._opened(), scan._plan)
    assert len(name) < 500
    assert "\n" not in name
    assert "\x1b" not in name


def test_small_reads_are_broadcast_automatically_and_large_ones_are_not(
    few: SparkSession, odps: Connection
) -> None:
    large = odps_nb.spark.read(few, odps, "orders")
    ids = {"columns": ["id"], "splits": 2}  # row ranges, so the rows are counted
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
    assert "sizeInBytes=160.0 B" in explained(ten, mode="cost")
    scan = odps.table("orders").read(columns=["id"], limit=10)
    assert "BroadcastHashJoin" in explained(large.join(scan.to_spark(few), "id"))
