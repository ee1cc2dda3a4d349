"""Evidence 156: Spark writes, reads and filters columns named ``44``, ``5列`` and ``'列七'``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

import odps_nb.spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

NAMES = ("44", "5列", "'列七'")


@pytest.mark.nightly
@pytest.mark.spark
def test_spark_writes_reads_and_pushes_down_unusual_column_names(
    spark: SparkSession, odps: Connection, new_name: Callable[[str], str]
) -> None:
    name = new_name("names")
    listed = ", ".join(f"`{one}` bigint" for one in NAMES)
    odps.create_table(name, listed, partitioned_by="`5p` string")
    frame = spark.createDataFrame([(1, 2, 3, "a"), (4, 5, 6, "b")], [*NAMES, "5p"])
    odps_nb.spark.write(frame, odps, name)
    odps_nb.spark.register(spark)
    made = frame.write.format("odps").options(**odps_nb.spark.options(odps))
    made.mode("append").save(name)
    query = f"select `5列` from {name} where `44` = 4 and `'列七'` = 6 and `5p` = 'b'"
    assert [tuple(row) for row in odps_nb.spark.sql(spark, odps, query).collect()] == [(5,)] * 2
    planned = repr(odps_nb.spark.explain_sql(spark, odps, query))
    assert "1 partition (5p = 'b')" in planned
    assert "44 = 4 and '列七' = 6" in planned
