"""Tasks receive keys, but no text or file that users or other programs can read has them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
import requests

import odps_nb.spark
from tests.support.service.services import by_storage_api
from tests.support.spark.services import explained
from tests.support.spark.watched import Listener

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection


def _pages(spark: SparkSession) -> list[str]:
    """Return the content of Spark's UI: its pages, and the same data as JSON."""
    ui = str(spark.sparkContext.uiWebUrl)
    assert urlsplit(ui).hostname == "127.0.0.1"
    application = f"{ui}/api/v1/applications/{spark.sparkContext.applicationId}"
    session = requests.Session()
    session.trust_env = False
    queries = session.get(f"{application}/sql", params={"length": 1000}).json()
    assert queries
    addresses = [f"{ui}/{page}/" for page in ("jobs", "stages", "storage", "environment", "SQL")]
    addresses += [f"{ui}/SQL/execution/?id={query['id']}" for query in queries[-20:]]
    addresses += [
        f"{application}/{name}"
        for name in ("sql?details=true&planDescription=true&length=1000", "jobs", "environment")
    ]
    with session:
        answers = [session.get(address) for address in addresses]
    assert all(answer.ok for answer in answers)
    return [answer.text for answer in answers]


@pytest.mark.spark
def test_no_key_or_token_is_in_a_plan_a_setting_the_event_log_or_the_ui(
    spark: SparkSession, odps: Connection, event_log: Path, new_name: Callable[[str], str]
) -> None:
    secret = str(odps.profile.access_key)
    assert len(secret) > 8
    name = new_name("kept")
    odps.create_table(name, "id bigint")
    listener = Listener()
    odps_nb.spark.register(spark, progress=listener)
    given = odps_nb.spark.options(odps)

    frame = odps_nb.spark.read(spark, odps, "orders", limit=50)
    loaded = spark.read.format("odps").options(**given, limit=50).load("orders")
    frames = [frame, loaded, loaded.filter("id = 1")]
    if by_storage_api():
        media = odps_nb.spark.read(spark, odps, "media", columns=["id", "content"])
        sizes = odps_nb.spark.blob_map(
            media, odps, "content", lambda record: (len(record.data),), "size bigint"
        )
        assert sizes.select("size").collect()
        frames.append(sizes)
    plans = [explained(one) for one in frames]
    assert loaded.count() == frame.filter("true").count()
    odps_nb.spark.write(spark.range(3), odps, name)
    spark.range(3).write.format("odps").options(**given).mode("append").save(name)
    assert {listener.wait_end(number).rows for number in (1, 2)} >= {3}  # rows were counted
    odps_nb.spark.register(spark)

    logged = [path.read_text() for path in event_log.rglob("*") if path.is_file()]
    assert any("SparkListenerJobEnd" in text for text in logged)
    settings = [f"{key}={value}" for key, value in spark.sparkContext.getConf().getAll()]
    pages = _pages(spark)
    for text in (*plans, *logged, *settings, *pages):
        assert secret not in text
    assert any("media" in page and "content" in page for page in pages)  # pages show plans
    # Check that the plans were really read; without this, the test could not fail.
    assert any("mapInArrow" in plan or "MapInArrow" in plan for plan in plans)
