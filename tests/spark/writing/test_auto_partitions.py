"""Evidence 171: Spark tasks compute the partition of an auto-partitioned table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

import odps_nb.spark
from odps_nb.errors import ArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection

WANTED = [("2024-01-31", 1), ("2024-02-01", 2)]


@pytest.mark.spark
def test_both_ways_to_write_compute_the_partition(
    spark: SparkSession, odps: Connection, new_name: Callable[[str], str]
) -> None:
    query = (
        "select timestamp '2024-01-31 23:30:00' as d, 1L as a "
        "union all select timestamp '2024-02-01 00:30:00', 2L"
    )
    frame = spark.sql(query)
    for way in ("write", "save"):
        table = odps.create_table(
            new_name("auto"), "d datetime, a bigint", partitioned_by="trunc_time(d, 'day') as pt"
        )
        name = table.name.table
        if way == "write":
            odps_nb.spark.write(frame, odps, name)
        else:
            odps_nb.spark.register(spark)
            made = frame.write.format("odps").options(**odps_nb.spark.options(odps))
            made.mode("append").save(name)
        found = table.read(["pt", "a"]).to_arrow().to_pylist()
        assert sorted((row["pt"], row["a"]) for row in found) == WANTED
        with pytest.raises(ArgumentError, match="'d' is not in the data"):
            odps_nb.spark.write(frame.select("a"), odps, name)
