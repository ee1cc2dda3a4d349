"""Spark's writes and queries reach the named partitions, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import odps_nb.spark
from odps_nb.access.binding.literals import literal
from odps_nb.access.writing.sources import Target
from odps_nb.client.write.session import open_write_session
from odps_nb.errors import ArgumentError
from odps_nb.spark.source.options import StreamWriteSettings, WriteSettings
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.tasks.errors import from_spark
from odps_nb.spark.writing.dataframe import write_target
from odps_nb.spark.writing.task import WriteTask, write_partition
from odps_nb.terms import PartitionSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.access.table import Table

REFUSED = (" b", "b ", "'b'", "a,b", "b/ds=x", "b=", "\xa0b", "b\n")


@pytest.fixture
def table(odps: Connection, new_name: Callable[[str], str]) -> Table:
    """A table with a row in ``b``, in ``c`` and in each partition that cannot be named."""
    name = new_name("values")
    made = odps.create_table(name, "id bigint", partitioned_by="ds string")
    values = ("b", "c", *REFUSED)
    rows = (f"select {at} as id, {literal(value)} as ds" for at, value in enumerate(values))
    odps.sql(f"insert into {name} partition (ds) {' union all '.join(rows)}")
    return made.reload()


def state(table: Table) -> dict[str, int]:
    rows = table.read().to_arrow()
    assert rows.num_rows == len(set(rows["ds"].to_pylist()))
    return dict(zip(rows["ds"].to_pylist(), rows["id"].to_pylist(), strict=True))


@pytest.mark.gate(3)
@pytest.mark.parametrize("value", REFUSED, ids=ascii)
def test_a_write_to_an_invalid_partition_is_refused_when_it_is_planned(
    odps: Connection, table: Table, value: str
) -> None:
    before = state(table)
    for partition in ({"ds": value}, PartitionSpec((("ds", value),))):
        with pytest.raises(ArgumentError, match="no request can express it"):
            write_target(odps._storage, table.name, partition, overwrite=True)
    quoted = f'ds="{value}"'
    options = {"endpoint": "http://127.0.0.1:1", "project": "p", "table": "t"}
    options |= {"access_id": "a", "access_key": "k", "checkpointLocation": "/nowhere"}
    for settings in (WriteSettings, StreamWriteSettings):
        known = {
            key: one
            for key, one in options.items()
            if settings is StreamWriteSettings or key != "checkpointLocation"
        }
        with pytest.raises(ArgumentError, match="no request can express it"):
            settings.of({**known, "partition": quoted})
    with pytest.raises(ArgumentError, match="no request can express it"):  # CHAR may end in blanks
        table.read(partitions=quoted).to_arrow()
    assert state(table) == before


@pytest.mark.gate(3)
@pytest.mark.parametrize("value", REFUSED, ids=ascii)
def test_a_task_refuses_an_invalid_partition_value_in_its_rows(
    odps: Connection, table: Table, value: str
) -> None:
    """The session commits nothing, including the rows of other tasks."""
    before = state(table)
    target = Target.of(table.schema, table.name, PartitionSpec())
    session = open_write_session(odps._storage, table.name, overwrite=True, shared=True)
    task = WriteTask(profile=TaskProfile.of(odps._storage), session=session.ref, target=target)
    good = pa.record_batch({"id": [7], "ds": ["b"]})
    bad = pa.record_batch({"id": [8], "ds": [value]})
    with session, pytest.raises(ArgumentError, match="no request can express it"):
        write_partition(task, [good, bad], "s0")
    assert state(table) == before


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.parametrize("road", ["write", "format"])
def test_a_job_with_an_invalid_partition_value_replaces_no_rows(
    spark: SparkSession, odps: Connection, table: Table, road: str
) -> None:
    before = state(table)

    def save(values: list[str], **how: Any) -> None:
        frame = spark.createDataFrame(
            [(100 + n, v) for n, v in enumerate(values)], "id long, ds string"
        )
        if road == "write":
            odps_nb.spark.write(frame, odps, table.name, overwrite="partitions")
            return
        odps_nb.spark.register(spark)
        made = frame.write.format("odps").options(**odps_nb.spark.options(odps))
        made.option("overwrite", "partitions").mode("overwrite").save(str(table.name))

    with pytest.raises(Exception) as caught:  # noqa: PT011  Spark's own around ours
        save(["b", "c", " b"])
    assert "no request can express it" in str(from_spark(caught.value) or caught.value)
    assert state(table) == before


@pytest.mark.nightly
@pytest.mark.spark
def test_a_query_returns_rows_of_partitions_that_cannot_be_named(
    spark: SparkSession, odps: Connection, table: Table
) -> None:
    for where in ("ds like '%b%'", "ds = ' b'", "ds in ('b', 'b ', ' b')", "ds <> 'b'"):
        text = f"select ds from {table.name} where {where} order by ds"
        found = odps_nb.spark.sql(spark, odps, text)
        wanted = spark.createDataFrame([(one,) for one in state(table)], "ds string")
        expected = [row.ds for row in wanted.where(where).orderBy("ds").collect()]
        assert [row.ds for row in found.collect()] == expected
        assert expected
