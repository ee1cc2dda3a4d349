"""`odps_nb.spark.write`: one commit or none, whatever Spark does with its tasks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import odps_nb.spark
from odps_nb.client.write.session import commit_write, open_write_session
from odps_nb.errors import ArgumentError, ConversionError, NotFoundError
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.versions import DATA_SOURCES, pyspark_version
from odps_nb.spark.writing.dataframe import write_target
from odps_nb.spark.writing.task import WriteTask, write_partition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection

Names = Callable[[str], str]


# -- columns and values that do not fit -----------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("bigint", "'7'"),
        ("datetime", "1704164645"),
        ("timestamp", "1704164645.5bd"),
        ("timestamp_ntz", "timestamp'2024-01-02 03:04:05'"),
        ("boolean", "1"),
        ("decimal(5,2)", "true"),
        ("string", "7"),
        ("string", "array(1)"),
        ("json", "named_struct('a', 1)"),
        ("array<string>", "array(1)"),
        ("vector(float, 2)", "array('1', '2')"),
    ],
)
def test_a_refused_column_can_be_written_after_following_the_hint(
    spark: SparkSession, odps: Connection, new_name: Names, kind: str, given: str
) -> None:
    from pyspark.sql import functions as F

    name = new_name("hinted")
    odps.create_table(name, f"c {kind}")
    frame = spark.sql(f"select {given} as c")
    with pytest.raises(ConversionError) as caught:
        odps_nb.spark.write(frame, odps, name)
    (converted,) = re.findall(r"F\.\w+\(.*\)", caught.value.hint)
    frame = frame.withColumn("c", eval(converted, {"F": F}))  # noqa: S307  a hint of ours
    assert odps_nb.spark.write(frame, odps, name).rows == 1


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("struct<a:bigint,b:bigint>", "named_struct('b', 1, 'c', 2)"),
        ("array<struct<a:bigint>>", "array(named_struct('a', 'x'))"),
        ("date", "1"),
        ("datetime", "true"),
        ("bigint", "x'61'"),
        ("array<bigint>", "1"),
        ("bigint", "array(1)"),
    ],
)
def test_no_hint_names_a_cast_that_fails_or_reorders_members(
    spark: SparkSession, odps: Connection, new_name: Names, kind: str, given: str
) -> None:
    odps.create_table(name := new_name("hinted"), f"c {kind}")
    with pytest.raises(ConversionError) as caught:
        odps_nb.spark.write(spark.sql(f"select {given} as c"), odps, name)
    assert caught.value.hint.startswith("convert it to ")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "given", "option", "stored"),
    [
        ("decimal(5,1)", "1.26bd", {"decimals": "round"}, Decimal("1.3")),
        ("bigint", "'7'", {"text": "parse"}, 7),
        ("datetime", "timestamp'1970-01-01 00:00:00.0017+00:00'", {"times": "round"}, 2),
    ],
)
@pytest.mark.parametrize("by_format", [False, True], ids=["write", "format"])
def test_values_are_converted_where_asked(
    spark: SparkSession,
    odps: Connection,
    new_name: Names,
    kind: str,
    given: str,
    option: dict[str, Any],
    stored: object,
    by_format: bool,
) -> None:
    name = new_name("asked")
    odps.create_table(name, f"c {kind}")
    frame = spark.sql(f"select {given} as c")
    if by_format:
        odps_nb.spark.register(spark, odps)

    def write(**asked: Any) -> None:
        if by_format:
            frame.write.format("odps").options(**asked).mode("append").save(name)
        else:
            odps_nb.spark.write(frame, odps, name, **asked)

    with pytest.raises(Exception, match="the data does not fit the table"):
        write()
    write(**option)
    (value,) = odps.table(name).read().to_arrow()["c"]
    assert (value.value if kind == "datetime" else value.as_py()) == stored


# -- failed and repeated tasks ------------------------------------------------------------------


def _numbers(spark: SparkSession, count: int = 1000, partitions: int = 4) -> DataFrame:
    return spark.range(0, count, 1, partitions)


def _ids(odps: Connection, name: str) -> list[int]:
    return sorted(odps.table(name).read().to_arrow().column("id").to_pylist())


@pytest.mark.spark
def test_a_retried_task_writes_no_row_twice(
    spark: SparkSession, odps: Connection, new_name: Names, tmp_path: Path
) -> None:
    name = new_name("retried")
    odps.create_table(name, "id bigint")
    marks = str(tmp_path)

    def fail_once(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            # Half of the rows are passed to the writer before the first attempt fails.
            yield batch.slice(0, batch.num_rows // 2)
            if context.attemptNumber() == 0:
                (Path(marks) / str(context.partitionId())).touch()
                raise RuntimeError("this attempt is lost")
            yield batch.slice(batch.num_rows // 2)

    frame = _numbers(spark, partitions=2).mapInArrow(fail_once, "id bigint")
    receipt = odps_nb.spark.write(frame, odps, name)
    assert len(list(tmp_path.iterdir())) == 2  # every task failed once
    assert (receipt.rows, receipt.streams) == (1000, 2)
    assert _ids(odps, name) == list(range(1000))


@pytest.mark.spark
def test_a_failed_job_leaves_no_rows(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    name = new_name("failed")
    odps.create_table(name, "id bigint")
    odps_nb.spark.write(_numbers(spark, 3), odps, name)

    def fail(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 3:
            raise RuntimeError("not today")

    with pytest.raises(Exception, match="not today") as caught:
        odps_nb.spark.write(_numbers(spark).mapInArrow(fail, "id bigint"), odps, name)
    assert "java" not in str(caught.value).lower()
    assert _ids(odps, name) == [0, 1, 2]


def _task(odps: Connection, name: str) -> tuple[Any, WriteTask]:
    storage = odps._storage
    target, _ = write_target(storage, odps.profile.table(name), None, overwrite=False)
    session = open_write_session(storage, target.table)
    profile = TaskProfile.of(storage)
    return session, WriteTask(profile=profile, session=session.ref, target=target)


@pytest.mark.storage_api("its requests")
def test_a_second_attempt_of_a_task_adds_no_rows(odps: Connection, new_name: Names) -> None:
    name = new_name("speculated")
    odps.create_table(name, "id bigint")
    session, task = _task(odps, name)
    batch = pa.RecordBatch.from_pydict({"id": pa.array(range(10), pa.int64())})
    winner = write_partition(task, [batch], "000000-7")
    loser = write_partition(task, [batch], "000000-8")
    assert winner is not None
    assert loser is not None
    commit_write(odps._storage, session.ref, [winner.stream])
    assert _ids(odps, name) == list(range(10))


@pytest.mark.storage_api("its requests")
def test_an_attempt_after_the_commit_adds_no_rows(odps: Connection, new_name: Names) -> None:
    name = new_name("zombie")
    odps.create_table(name, "id bigint")
    session, task = _task(odps, name)
    batch = pa.RecordBatch.from_pydict({"id": pa.array(range(10), pa.int64())})
    written = write_partition(task, [batch], "000000-7")
    assert written is not None
    commit_write(odps._storage, session.ref, [written.stream])
    with pytest.raises(Exception, match="stream 000000-8"):
        write_partition(task, [batch], "000000-8")
    assert _ids(odps, name) == list(range(10))


# -- checks before the write --------------------------------------------------------------------


@pytest.mark.spark
def test_all_columns_that_do_not_fit_are_named_before_a_job_starts(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    name = new_name("strict")
    odps.create_table(name, "id bigint, amount decimal(5,2), at timestamp_ntz")
    frame = spark.range(1).selectExpr("'x' id", "array(1) amount", "current_timestamp() at")
    jobs = spark.sparkContext.statusTracker()
    before = jobs.getJobIdsForGroup(None)
    with pytest.raises(ConversionError) as caught:
        odps_nb.spark.write(frame, odps, name)
    for part in ("id (string → bigint)", "amount (", "at ("):
        assert part in str(caught.value)
    with pytest.raises(ConversionError, match="no columns to write"):
        odps_nb.spark.write(spark.range(2).select(), odps, name)
    with pytest.raises(ConversionError, match="no column 'nope'"):
        odps_nb.spark.write(spark.range(1).selectExpr("id", "1 nope"), odps, name)
    with pytest.raises(NotFoundError):
        odps_nb.spark.write(frame, odps, "no_such_table")
    assert jobs.getJobIdsForGroup(None) == before


@pytest.mark.spark
def test_an_interval_that_python_workers_cannot_receive_is_refused(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    from pyspark.errors import PySparkValueError

    # PySpark 3.5 has no schema of such a DataFrame
    error = PySparkValueError if pyspark_version() < DATA_SOURCES else ConversionError
    odps.create_table(name := new_name("interval"), "id bigint")
    with pytest.raises(error, match="interval"):
        odps_nb.spark.write(spark.sql("select make_interval(1) id"), odps, name)


@pytest.mark.spark
def test_a_value_that_does_not_fit_raises_a_conversion_error_and_no_row_is_written(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    name = new_name("values")
    odps.create_table(name, "id bigint, at datetime")
    frame = spark.range(10).selectExpr("id", "timestamp'2024-01-01 00:00:00.000001' at")
    with pytest.raises(ConversionError, match="at") as caught:
        odps_nb.spark.write(frame, odps, name)
    assert "java" not in str(caught.value).lower()
    assert any("aborted" in note for note in caught.value.notes)
    assert _ids(odps, name) == []


@pytest.mark.spark
def test_columns_are_matched_by_name_widened_and_filled_with_nulls(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    name = new_name("matched")
    odps.create_table(name, "id bigint, amount double, note string")
    frame = spark.sql("select cast(1.5 as float) AMOUNT, cast(7 as tinyint) Id")
    odps_nb.spark.write(frame, odps, name)
    rows = odps.table(name).read().to_arrow().to_pylist()
    assert rows == [{"id": 7, "amount": 1.5, "note": None}]


# -- partitions and overwriting -----------------------------------------------------------------


@pytest.fixture
def by_day(spark: SparkSession, odps: Connection, new_name: Names) -> str:
    """A table partitioned by ds and hour, with ten rows in each of four partitions."""
    name = new_name("by_day")
    odps.create_table(name, "id bigint", partitioned_by="ds string, hour bigint")
    frame = spark.range(40).selectExpr("id", "cast(id % 2 as string) ds", "(id div 2) % 2 hour")
    receipt = odps_nb.spark.write(frame, odps, name)
    assert receipt.rows == 40
    return name


def _counts(odps: Connection, name: str) -> dict[tuple[str, int], int]:
    table = odps.table(name).read().to_arrow().group_by(["ds", "hour"]).aggregate([("id", "count")])
    return {(r["ds"], r["hour"]): r["id_count"] for r in table.to_pylist()}


@pytest.mark.spark
def test_rows_are_written_into_their_partitions(odps: Connection, by_day: str) -> None:
    assert _counts(odps, by_day) == dict.fromkeys([(d, h) for d in "01" for h in (0, 1)], 10)


@pytest.mark.spark
def test_an_overwrite_of_a_partition_keeps_the_other_partitions(
    spark: SparkSession, odps: Connection, by_day: str
) -> None:
    frame = spark.range(3)
    receipt = odps_nb.spark.write(frame, odps, by_day, partition="ds=1,hour=0", overwrite=True)
    assert receipt.overwrite
    assert _counts(odps, by_day) == {("0", 0): 10, ("0", 1): 10, ("1", 0): 3, ("1", 1): 10}


@pytest.mark.spark
def test_an_overwrite_of_a_partitioned_table_must_name_the_partitions_to_replace(
    spark: SparkSession, odps: Connection, by_day: str
) -> None:
    frame = spark.range(3).selectExpr("id", "'0' ds", "1 hour")
    for partition in (None, "ds=0"):
        with pytest.raises(ArgumentError, match="needs a complete partition="):
            odps_nb.spark.write(frame, odps, by_day, partition=partition, overwrite=True)
    assert sum(_counts(odps, by_day).values()) == 40
    odps_nb.spark.write(frame, odps, by_day, overwrite="partitions")
    assert _counts(odps, by_day) == {("0", 0): 10, ("0", 1): 3, ("1", 0): 10, ("1", 1): 10}


@pytest.mark.spark
def test_a_column_may_repeat_the_partition_but_not_contradict_it(
    spark: SparkSession, odps: Connection, by_day: str
) -> None:
    frame = spark.range(2).selectExpr("id", "'9' ds", "1L hour")
    odps_nb.spark.write(frame, odps, by_day, partition={"ds": "9", "hour": 1})
    assert _counts(odps, by_day)["9", 1] == 2
    with pytest.raises(ConversionError, match="values that differ from the partition"):
        odps_nb.spark.write(frame, odps, by_day, partition="ds=8,hour=1")
    with pytest.raises(ArgumentError, match="partitioned by 'hour'"):
        odps_nb.spark.write(spark.range(2), odps, by_day, partition="ds=8")
    with pytest.raises(ArgumentError, match="day"):
        odps_nb.spark.write(spark.range(2), odps, by_day, partition="day=8")


@pytest.mark.spark
def test_an_empty_data_frame_adds_no_rows_and_empties_the_table_with_overwrite(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    name = new_name("emptied")
    odps.create_table(name, "id bigint")
    odps_nb.spark.write(_numbers(spark, 5), odps, name)
    for empty in (_numbers(spark).filter("id < 0"), spark.createDataFrame([], "id bigint")):
        assert odps_nb.spark.write(empty, odps, name).rows == 0
    assert _ids(odps, name) == list(range(5))
    assert odps_nb.spark.write(_numbers(spark, 5).limit(0), odps, name, overwrite=True).rows == 0
    assert _ids(odps, name) == []


@pytest.mark.spark
def test_a_table_accepts_a_spark_dataframe(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    name = new_name("access")
    odps.create_table(name, "id bigint")
    assert odps.table(name).write(_numbers(spark, 7)).rows == 7
    assert odps.table(name).write(_numbers(spark, 2), overwrite=True).rows == 2
    assert _ids(odps, name) == [0, 1]


# -- blobs --------------------------------------------------------------------------------------


@pytest.mark.storage_api("blobs")
@pytest.mark.spark
def test_blobs_are_uploaded_by_tasks_and_references_are_copied(
    spark: SparkSession, odps: Connection, new_name: Names
) -> None:
    first, second = new_name("blobs"), new_name("copies")
    for name in (first, second):
        odps.create_table(name, "id bigint, pic blob, pages array<struct<n:int,scan:blob>>")
    frame = spark.range(6).selectExpr(
        "id",
        "if(id = 0, null, named_struct('data', cast(repeat('x', cast(id as int)) as binary),"
        " 'mime_type', 'text/plain')) pic",
        "array(named_struct('n', 1, 'scan', cast(concat('page', id) as binary)), null) pages",
    )
    receipt = odps_nb.spark.write(frame, odps, first)
    assert (receipt.blobs, receipt.rows) == (11, 6)
    odps_nb.spark.write(odps_nb.spark.read(spark, odps, first), odps, second)
    rows = odps.table(second).read().to_arrow().sort_by("id").to_pylist()
    assert [row["pic"] and odps.blob(row["pic"]).bytes() for row in rows] == [
        None,
        *(b"x" * n for n in range(1, 6)),
    ]
    assert odps.blob(rows[1]["pic"]).mime_type == "text/plain"
    assert [row["pages"][1] for row in rows] == [None] * 6
    assert odps.blob(rows[3]["pages"][0]["scan"]).bytes() == b"page3"
    with pytest.raises(ConversionError, match="pic"):
        odps_nb.spark.write(spark.range(1).selectExpr("id", "id pic"), odps, first)
