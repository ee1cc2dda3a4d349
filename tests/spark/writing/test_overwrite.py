"""``overwrite`` has the same meaning everywhere: pandas, Arrow, Spark, ``format("odps")``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import odps_nb.spark
from odps_nb.errors import ArgumentError, ConfigError
from odps_nb.spark.tasks.errors import from_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb import Connection, Table

pytestmark = pytest.mark.spark

Names = Callable[[str], str]
Rows = list[tuple[int, str, int]]
Write = Callable[..., None]
"""Writes rows of (id, ds, hour), less the columns that the partition says, into a table."""

ROADS = ["pandas", "arrow", "spark frame", "spark write", "format"]
# `Table.write` passes pandas rows to the code for Arrow, and a Spark DataFrame to
# `odps_nb.spark.write`. In `make test`, one test covers these calls, and the others only the code
# that they call.
CALLED = ("arrow", "spark write", "format")
_nightly = (pytest.param(road, marks=pytest.mark.nightly) for road in ROADS if road not in CALLED)


@pytest.fixture(params=[*CALLED, *_nightly])
def write(request: pytest.FixtureRequest, spark: SparkSession, odps: Connection) -> Write:
    def run(
        table: Table, rows: Rows, *, partition: str | None = None, overwrite: Any = False
    ) -> None:
        names = ["id", "ds", "hour"] if table.schema.partition_columns else ["id"]
        fixed = {} if partition is None else dict(one.split("=") for one in partition.split(","))
        names = [name for name in names if name not in fixed]
        cells = [dict(zip(["id", "ds", "hour"], row, strict=True)) for row in rows]
        data = {name: [row[name] for row in cells] for name in names}
        types = {"id": pa.int64(), "ds": pa.string(), "hour": pa.int64()}
        arrow = pa.table({name: pa.array(data[name], types[name]) for name in names})
        if request.param == "pandas":
            frame: Any = arrow.to_pandas()
            table.write(frame, partition=partition, overwrite=overwrite, progress=False)
            return
        if request.param == "arrow":
            table.write(arrow, partition=partition, overwrite=overwrite, progress=False)
            return
        schema = ", ".join(f"{name} {'string' if name == 'ds' else 'bigint'}" for name in names)
        frame = spark.createDataFrame([tuple(one.values()) for one in arrow.to_pylist()], schema)
        if request.param == "spark frame":
            table.write(frame, partition=partition, overwrite=overwrite, progress=False)
        elif request.param == "spark write":
            odps_nb.spark.write(
                frame, odps, table.name, partition=partition, overwrite=overwrite, progress=False
            )
        else:
            odps_nb.spark.register(spark, odps, progress=False)
            writer = frame.write.format("odps").mode("overwrite" if overwrite else "append")
            if overwrite in ("partitions", "all"):
                writer = writer.option("overwrite", overwrite)
            if partition is not None:
                writer = writer.option("partition", partition)
            try:
                writer.save(str(table.name))
            except Exception as error:
                ours = from_spark(error)
                if ours is None:
                    raise
                raise ours from None

    return run


@pytest.fixture
def days(odps: Connection, new_name: Names) -> Iterator[Table]:
    """Partitions (ds, hour) with one row each: a/1, a/2, b/1."""
    table = odps.create_table(
        new_name("days"), "id bigint", partitioned_by="ds string, hour bigint"
    )
    table.write(pa.table({"id": [1, 2, 3], "ds": ["a", "a", "b"], "hour": [1, 2, 1]}))
    yield table
    odps.drop_table(table.name)


def stored_rows(table: Table) -> set[tuple[int, str, int]]:
    return {tuple(row.values()) for row in table.read().to_arrow().to_pylist()}  # type: ignore[misc]


BEFORE = {(1, "a", 1), (2, "a", 2), (3, "b", 1)}
NEW = [(9, "a", 1)]


@pytest.mark.gate(1)
@pytest.mark.parametrize("write", ROADS, indirect=True)
def test_rows_of_a_table_are_replaced_or_added(
    odps: Connection, new_name: Names, write: Write
) -> None:
    table = odps.create_table(new_name("plain"), "id bigint")
    write(table, [(1, "", 0)])
    write(table, [(2, "", 0)])
    assert sorted(table.read().to_arrow()["id"].to_pylist()) == [1, 2]
    write(table, [(3, "", 0)], overwrite=True)
    assert table.read().to_arrow()["id"].to_pylist() == [3]
    with pytest.raises(ArgumentError, match="is not partitioned"):
        write(table, [(4, "", 0)], overwrite="partitions")
    assert table.read().to_arrow()["id"].to_pylist() == [3]
    write(table, [], overwrite=True)
    assert table.read().row_count == 0
    odps.drop_table(table.name)


def test_an_overwrite_of_a_complete_partition_spec_replaces_only_that_partition(
    days: Table, write: Write
) -> None:
    write(days, NEW, partition="ds=a,hour=1", overwrite=True)
    assert stored_rows(days) == {(9, "a", 1), (2, "a", 2), (3, "b", 1)}
    write(days, [], partition="ds=a,hour=2", overwrite=True)
    assert stored_rows(days) == {(9, "a", 1), (3, "b", 1)}


@pytest.mark.gate(2)
@pytest.mark.parametrize("partition", [None, "ds=a"])
def test_several_partitions_are_not_replaced_by_default(
    days: Table, write: Write, partition: str | None
) -> None:
    with pytest.raises(ArgumentError, match="needs a complete partition=") as caught:
        write(days, NEW, partition=partition, overwrite=True)
    assert "overwrite='partitions'" in (caught.value.hint or "")
    assert stored_rows(days) == BEFORE


@pytest.mark.gate(1)
@pytest.mark.parametrize("partition", [None, "ds=a"])
def test_partitions_that_receive_rows_are_replaced(
    days: Table, write: Write, partition: str | None
) -> None:
    write(days, NEW, partition=partition, overwrite="partitions")
    assert stored_rows(days) == {(9, "a", 1), (2, "a", 2), (3, "b", 1)}
    write(days, [], partition=partition, overwrite="partitions")
    assert stored_rows(days) == {(9, "a", 1), (2, "a", 2), (3, "b", 1)}


@pytest.mark.gate(2)
@pytest.mark.parametrize(
    ("partition", "left"), [(None, {(9, "a", 1)}), ("ds=a", {(9, "a", 1), (3, "b", 1)})]
)
def test_overwrite_all_also_replaces_partitions_without_new_rows(
    days: Table, write: Write, partition: str | None, left: set[tuple[int, str, int]]
) -> None:
    write(days, NEW, partition=partition, overwrite="all")
    assert stored_rows(days) == left
    assert len(days.partitions()) == len(left)
    write(days, [], partition=partition, overwrite="all")
    assert stored_rows(days) == {row for row in left if partition and row[1] != "a"}


def test_without_overwrite_rows_are_added(days: Table, write: Write) -> None:
    write(days, NEW)
    write(days, [(8, "a", 2)], partition="ds=a")
    assert stored_rows(days) == BEFORE | {(9, "a", 1), (8, "a", 2)}


@pytest.mark.parametrize("wrong", ["partition", "append", 1, None])
def test_an_unknown_value_of_overwrite_is_refused(
    odps: Connection, days: Table, wrong: Any
) -> None:
    rows = pa.table({"id": [9], "ds": ["a"], "hour": [1]})
    with pytest.raises(ArgumentError, match="overwrite is") as caught:
        days.write(rows, overwrite=wrong)
    assert caught.value.hint == "pass False, True, 'partitions' or 'all'"
    for word in (wrong, "all"):
        with pytest.raises(ArgumentError, match="overwrite is"):
            days.open_write(overwrite=word)
    assert stored_rows(days) == BEFORE


@pytest.mark.parametrize("what", ["partitions", "all"])
def test_the_option_overwrite_is_refused_in_mode_append(
    spark: SparkSession, odps: Connection, days: Table, what: str
) -> None:
    odps_nb.spark.register(spark, odps, progress=False)
    frame = spark.sql("select 9L id, 'a' ds, 1L hour")
    with pytest.raises(Exception, match="but this write adds rows") as caught:
        frame.write.format("odps").mode("append").option("overwrite", what).save(str(days.name))
    assert isinstance(from_spark(caught.value), ConfigError)
    assert stored_rows(days) == BEFORE


def test_an_open_write_session_replaces_the_same_partitions(days: Table) -> None:
    rows = pa.table({"id": [9], "ds": ["a"], "hour": [1]})
    with pytest.raises(ArgumentError, match="needs a complete partition="):
        days.open_write(overwrite=True)
    with days.open_write(overwrite="partitions") as session:
        session.write(rows)
        session.commit()
    assert stored_rows(days) == {(9, "a", 1), (2, "a", 2), (3, "b", 1)}
