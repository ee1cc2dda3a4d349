"""CHAR(n) in Spark is STRING without trailing blanks, whether or not the service pads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import odps_nb.spark
from odps_nb.errors import ConfigError
from odps_nb.local.server import launch
from tests.support.service.connecting import connected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.spark

ROWS = {"id": [1, 2, 3, 4], "c": ["ab", "", None, "abcde"], "a": [["x"], [], None, ["xyz"]]}


# For a service that strips the blanks, `make test` runs only `test_an_option_keeps_the_blanks`;
# tests/access/reading/test_char_padding.py tests the reads of both services.
in_the_gate_padded = pytest.mark.parametrize(
    "chars", ["padded", pytest.param("stripped", marks=pytest.mark.nightly)], indirect=True
)


@pytest.fixture(scope="module", params=["padded", "stripped"])
def chars(request: pytest.FixtureRequest) -> Iterator[tuple[Connection, str]]:
    """A connection to each form of the service, with a table that has a CHAR column."""
    options = ("--form", f"char={request.param}")
    with launch.start(samples=False, options=options) as running, connected(running) as odps:
        odps.create_table("chars", "id bigint, c char(5), a array<char(3)>")
        odps.table("chars").write(pd.DataFrame(ROWS))
        yield odps, request.param


def by_format(spark: SparkSession, odps: Connection, **options: Any) -> DataFrame:
    odps_nb.spark.register(spark)
    reader = spark.read.format("odps").options(**odps_nb.spark.options(odps))
    return reader.options(**options).load("chars")


def collected_rows(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.collect())


@pytest.mark.nightly
@in_the_gate_padded
def test_every_way_to_read_with_spark_strips_blanks_of_char(
    spark: SparkSession, chars: tuple[Connection, str]
) -> None:
    """Evidence 153: rows are found by the CHAR value without blanks, in Spark, too."""
    odps, _ = chars
    ways = {
        "read": odps_nb.spark.read(spark, odps, "chars"),
        "format": by_format(spark, odps),
        "scan": odps.table("chars").read().to_spark(spark),
        "result": odps.sql("select * from chars").to_spark(spark),
        "sql": odps_nb.spark.sql(spark, odps, "select * from chars"),
    }
    for name, frame in ways.items():
        assert dict(frame.dtypes)["c"] == "string", name
        rows = frame.orderBy("id").collect()
        assert [row.c for row in rows] == ROWS["c"], name
        assert [row.a for row in rows] == ROWS["a"], name
        assert collected_rows(frame.filter("c = 'ab'")) == [1], name
        assert collected_rows(frame.filter(frame.c != "ab")) == [2, 4], name


CONDITIONS = {
    "c = 'ab'": [1],
    "c in ('ab', '')": [1, 2],
    "not c = 'ab'": [2, 4],
    "c <> 'abcde'": [1, 2],
    "c > 'ab'": [4],
    "c like 'ab'": [1],
    "c = 'ab   '": [],  # a Spark STRING, for which blanks matter
    "c <> 'ab   '": [1, 2, 4],
    "length(c) = 2": [1],
}


@pytest.mark.gate(1)
@in_the_gate_padded
@pytest.mark.parametrize("condition", CONDITIONS)
def test_pushed_conditions_keep_the_rows_that_spark_needs(
    spark: SparkSession, chars: tuple[Connection, str], condition: str
) -> None:
    odps, _ = chars
    query = f"select id from chars where {condition}"
    assert collected_rows(odps_nb.spark.sql(spark, odps, query)) == CONDITIONS[condition]


@pytest.mark.nightly
def test_an_option_keeps_the_blanks(spark: SparkSession, chars: tuple[Connection, str]) -> None:
    odps, form = chars
    wanted = ["ab   ", "     ", None, "abcde"] if form == "padded" else ROWS["c"]
    for frame in (
        odps_nb.spark.read(spark, odps, "chars", char_padding=True),
        by_format(spark, odps, char_padding="true"),
        odps.table("chars").read(char_padding=True).to_spark(spark),
    ):
        assert [row.c for row in frame.orderBy("id").collect()] == wanted
    kept = by_format(spark, odps, char_padding="true", where="c = 'ab'").collect()
    assert [row.c for row in kept] == wanted[:1]
    with pytest.raises(
        Exception, match="char_padding is 'yes'; it must be true or false"
    ) as caught:
        by_format(spark, odps, char_padding="yes")
    assert ConfigError.__name__ in str(caught.value)
