"""The Spark UI and the event log show names, rows, bytes and descriptions of MaxCompute tables."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import odps_nb.spark
from tests.support.spark.watched import ROWS, WITHIN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.spark


Events = list[tuple[str, dict[str, Any]]]


def _events(folder: Path) -> Events:
    lines = (
        line
        for path in folder.rglob("*")
        for line in (path.read_text().splitlines() if path.is_file() else ())
        if line.endswith("}")  # the last line may be incomplete
    )
    events = map(json.loads, lines)
    return [(event["Event"].rpartition(".")[2], event) for event in events]


def _nodes(plan: dict[str, Any]) -> Iterator[str]:
    yield plan["simpleString"]
    for child in plan["children"]:
        yield from _nodes(child)


def _metrics(events: Events, stages: list[int]) -> dict[str, int] | None:
    """The largest value of each metric of these stages, once all have ended."""
    ended = {
        event["Stage Info"]["Stage ID"]: event["Stage Info"]["Accumulables"]
        for kind, event in events
        if kind == "SparkListenerStageCompleted"
    }
    if not ended.keys() >= set(stages):
        return None
    values = [one for stage in stages for one in ended[stage] if str(one["Value"]).isdigit()]
    return {one["Name"]: int(one["Value"]) for one in sorted(values, key=lambda v: int(v["Value"]))}


def _logged(folder: Path, description: str) -> tuple[str, dict[str, int], dict[str, str]]:
    """The plan, the metrics and the job's properties of the query with a description."""
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        events = _events(folder)
        queries = [
            event["sparkPlanInfo"]
            for kind, event in events
            if kind == "SparkListenerSQLExecutionStart" and event["description"] == description
        ]
        for kind, event in events:
            if kind != "SparkListenerJobStart":
                continue
            properties = event["Properties"]
            if properties.get("spark.job.description") == description:
                metrics = _metrics(events, event["Stage IDs"])
                if metrics is not None:
                    return "\n".join(_nodes(queries[-1])), metrics, properties
        time.sleep(0.1)
    pytest.fail(f"the event log has no finished job with the description {description!r}")


@pytest.fixture
def described(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Set the description of the next jobs, as a user does."""
    yield spark.sparkContext.setJobDescription
    spark.sparkContext.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    spark.sql("drop database if exists logged cascade")


def _attached(spark: SparkSession, odps: Connection, table: str) -> DataFrame:
    (name,) = odps_nb.spark.attach(spark, odps, table, database="logged")
    return spark.sql(f"select * from {name}")


def _loaded(spark: SparkSession, odps: Connection, table: str) -> DataFrame:
    odps_nb.spark.register(spark, odps)
    return spark.read.format("odps").load(table)


WAYS: dict[str, tuple[Callable[..., DataFrame], str]] = {
    "read": (odps_nb.spark.read, "MapInArrow odps local.{table} [all 1 columns; session "),
    "sql": (
        lambda spark, odps, table: odps_nb.spark.sql(spark, odps, f"select id from {table}"),
        "MapInArrow odps local.{table} [1 of 1 columns; session ",
    ),
    "attach": (_attached, "BatchScan odps:local.{table}@logged["),
    "format": (_loaded, "BatchScan odps["),  # PySpark shows only the name of a data source
}


@pytest.mark.parametrize("way", WAYS)
def test_a_read_logs_its_table_its_rows_and_its_bytes(
    spark: SparkSession,
    slow: Connection,
    numbers: str,
    event_log: Path,
    described: Callable[[str], None],
    way: str,
) -> None:
    make, shown = WAYS[way]
    frame = make(spark, slow, numbers)
    described(f"my {way} of {numbers}")
    assert len(frame.collect()) == ROWS
    plan, metrics, _ = _logged(event_log, f"my {way} of {numbers}")
    assert shown.format(table=numbers) in plan
    assert metrics["number of output rows"] == ROWS
    assert metrics["data returned from Python workers"] >= 8 * ROWS


def test_a_write_logs_its_table_and_its_bytes_and_describes_its_job(
    spark: SparkSession, slow: Connection, event_log: Path, new_name: Callable[[str], str]
) -> None:
    name, context = new_name("logged"), spark.sparkContext
    slow.create_table(name, "id bigint")
    receipt = odps_nb.spark.write(spark.range(5000), slow, name)
    assert context.getLocalProperty("spark.job.description") is None
    plan, metrics, _ = _logged(event_log, f"odps_nb write local.{name}")
    assert f"odps write local.{name} [added; session {receipt.session_id}]" in plan
    assert metrics["data sent to Python workers"] >= 8 * 5000


def test_the_job_group_and_description_set_by_the_user_are_kept(
    spark: SparkSession,
    slow: Connection,
    event_log: Path,
    new_name: Callable[[str], str],
    described: Callable[[str], None],
) -> None:
    name, context = new_name("logged"), spark.sparkContext
    slow.create_table(name, "id bigint")
    context.setJobGroup("mine", f"my job for {name}")
    odps_nb.spark.write(spark.range(10), slow, name, overwrite=True)
    for key, value in {
        "spark.jobGroup.id": "mine",
        "spark.job.description": f"my job for {name}",
    }.items():
        assert context.getLocalProperty(key) == value
    plan, _, properties = _logged(event_log, f"my job for {name}")
    assert f"odps write local.{name} [replaced; session " in plan
    assert properties["spark.jobGroup.id"] == "mine"
