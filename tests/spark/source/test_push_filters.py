"""PySpark passes filters of one query to another, so the data source of odps_nb accepts none.

If this test fails, PySpark has changed: see docs/decisions/spark.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from odps_nb.spark.versions import pyspark_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTING = "spark.sql.python.filterPushdown.enabled"


def _source() -> type[Any]:
    """Ten numbers, read by a source that applies the filters it accepts and returns all of them."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def __init__(self) -> None:
            self.only: list[int] = []

        def pushFilters(self, filters: Iterable[Any]) -> Iterable[Any]:
            for one in filters:
                if type(one).__name__ == "EqualTo":
                    self.only.append(one.value)
                yield one

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(0)]

        def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
            yield from ((n,) for n in range(10) if all(n == one for one in self.only))

    class Ten(DataSource):
        @classmethod
        def name(cls) -> str:
            return "ten_numbers"

        def schema(self) -> str:
            return "a int"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    return Ten


# Nightly, because it tests PySpark, and three processes of its planner are slow.
@pytest.mark.spark
@pytest.mark.nightly
def test_spark_passes_pushed_filters_from_one_query_to_the_next(spark: SparkSession) -> None:
    spark.dataSource.register(_source())
    load = spark.read.format("ten_numbers").load
    if pyspark_version() < (4, 1):
        frame = load()
        assert (frame.filter("a = 1").count(), frame.count()) == (
            1,
            10,
        )  # PySpark does not call pushFilters
        return
    with pytest.raises(Exception, match="PUSHDOWN_DISABLED"):
        load().count()
    spark.conf.set(_SETTING, "true")
    try:
        frame = load()
        assert (frame.filter("a = 1").count(), frame.count()) == (1, 1)
        frame = load()
        both = frame.filter("a = 1").union(frame.filter("a = 2"))
        assert [row.a for row in both.collect()] == [2]
    finally:
        spark.conf.unset(_SETTING)
