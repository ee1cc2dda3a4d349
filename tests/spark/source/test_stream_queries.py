"""Whole streaming queries: Spark's engine, its checkpoints, and its actions after a crash."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader

import odps_nb.spark
from odps_nb.errors import ConflictError
from odps_nb.spark.source.commit_log import CommitLog
from odps_nb.spark.source.data_source import OdpsDataSource
from odps_nb.spark.source.options import StreamWriteSettings
from odps_nb.spark.source.stream_writer import OdpsStreamWriter
from odps_nb.spark.tasks.errors import from_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from odps_nb.access.connection import Connection
    from odps_nb.access.table import Table
    from odps_nb.local.server.launch import LocalService

Make = Callable[[str], "Table"]
COLUMNS = "id bigint, at timestamp, amount decimal(18,4), tags array<string>, by map<string,int>"
WAIT = 200.0
LIMITS = hasattr(DataSourceStreamReader, "getDefaultReadLimit")  # PySpark 4.2


@pytest.fixture
def make(odps: Connection, new_name: Callable[[str], str]) -> Make:
    """Create an empty table."""
    return lambda stem: odps.create_table(new_name(stem), COLUMNS)


def row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "at": dt.datetime(1969, 12, 31, 23, 59, 59, number),
        "amount": Decimal(f"-{number}.0001"),
        "tags": [str(number), None],
        "by": [("n", number)],
    }


def add(table: Table, *numbers: int) -> None:
    types = {"amount": pa.decimal128(18, 4), "by": pa.map_(pa.string(), pa.int32())}
    columns = {key: [row(number)[key] for number in numbers] for key in row(0)}
    table.write(pa.table({key: pa.array(cells, types.get(key)) for key, cells in columns.items()}))


def follow(spark: SparkSession, odps: Connection, table: Table, **options: object) -> DataFrame:
    odps_nb.spark.register(spark)
    reader = spark.readStream.format("odps").options(**odps_nb.spark.options(odps))
    return reader.options(table=str(table.name), poll_seconds=0, **options).load()


def start(
    rows: DataFrame, odps: Connection, table: Table, checkpoint: Path, *, once: bool = True
) -> StreamingQuery:
    writer = rows.writeStream.format("odps").options(**odps_nb.spark.options(odps))
    writer = writer.option("table", str(table.name)).option("checkpointLocation", str(checkpoint))
    query = (writer.trigger(availableNow=True) if once else writer).start()
    if once:
        assert query.awaitTermination(WAIT)
    return query


def rows_of(table: Table) -> list[dict[str, Any]]:
    rows = table.read(timestamp_unit="us").to_arrow().to_pylist()  # times before 1970
    return sorted(rows, key=lambda found: found["id"])


def ids(table: Table) -> list[int]:
    return [found["id"] for found in rows_of(table)]


@pytest.mark.storage_api("versions")
@pytest.mark.nightly
@pytest.mark.spark
def test_rows_are_written_once_in_version_order_even_after_a_restart(
    spark: SparkSession, odps: Connection, make: Make, tmp_path: Path, event_log: Path
) -> None:
    source, sink = make("source"), make("sink")
    add(source, 1, 2)
    add(source, 3)
    running = start(follow(spark, odps, source), odps, sink, tmp_path, once=False)
    try:
        running.processAllAvailable()
        assert ids(sink) == [1, 2, 3]
        add(source, 4)
        running.processAllAvailable()
        assert rows_of(sink) == rows_of(source)
    finally:
        running.stop()
    for number in (5, 6, 7):
        add(source, number)
    limit = {"max_versions_per_trigger": 1} if LIMITS else {}
    again = start(follow(spark, odps, source, **limit), odps, sink, tmp_path)
    assert rows_of(sink) == rows_of(source)
    assert [p.numInputRows for p in again.recentProgress if p.numInputRows] == (
        [1, 1, 1] if LIMITS else [3]
    )

    source.write(source.read(timestamp_unit="us").to_arrow(), overwrite=True)
    with pytest.raises(Exception, match="replaced rows") as caught:
        start(follow(spark, odps, source), odps, sink, tmp_path)
    error = from_spark(caught.value)
    assert isinstance(error, ConflictError)
    assert "skip_overwrites" in str(error.hint)

    secret = str(odps.profile.access_key)
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    logged = [path.read_bytes() for path in event_log.rglob("*") if path.is_file()]
    told = [str(caught.value), *(str(p.json) for p in again.recentProgress)]
    assert any(b'"version"' in content for content in kept)
    for content in (*kept, *logged, *(text.encode() for text in told)):
        assert secret.encode() not in content


@pytest.mark.storage_api("versions")
@pytest.mark.nightly
@pytest.mark.spark
def test_rows_of_a_task_that_fails_after_writing_are_not_repeated(
    spark: SparkSession, odps: Connection, make: Make, tmp_path: Path
) -> None:
    source, sink = make("source"), make("sink")
    add(source, *range(200))

    def fail_once(batches):
        yield from batches
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("the first attempt dies with its rows written")

    frame = follow(spark, odps, source)
    start(frame.mapInArrow(fail_once, frame.schema), odps, sink, tmp_path)
    assert ids(sink) == list(range(200))


@pytest.mark.storage_api("versions")
@pytest.mark.nightly
@pytest.mark.spark
def test_a_driver_that_dies_after_the_commit_repeats_no_rows(
    spark: SparkSession, odps: Connection, make: Make, tmp_path: Path
) -> None:
    source, sink = make("source"), make("sink")
    add(source, 1, 2)
    odps_nb.spark.register(spark)
    spark.dataSource.register(dying_source())
    writer = follow(spark, odps, source).writeStream.format("dying").trigger(availableNow=True)
    writer = writer.options(**odps_nb.spark.options(odps)).option("table", str(sink.name))
    with pytest.raises(Exception, match="exited unexpectedly"):
        writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    assert ids(sink) == [1, 2]
    assert not (tmp_path / "commits" / "0").exists()
    assert [path.suffix for path in (tmp_path / "odps_nb").glob("0-*")] == [".json"]

    add(source, 3)
    for _ in range(1 if LIMITS else 2):  # older versions end a run after it repeats a batch
        start(follow(spark, odps, source), odps, sink, tmp_path)
    assert ids(sink) == [1, 2, 3]


@pytest.mark.storage_api("versions")
@pytest.mark.nightly
@pytest.mark.spark
def test_a_driver_killed_after_an_upsert_repeats_the_batch_without_changing_rows(
    odps: Connection, service: LocalService, make: Make, new_name: Any, tmp_path: Path
) -> None:
    source = make("source")
    sink = odps.create_table(new_name("newest"), "id bigint, tag string", primary_key="id")
    arguments = [str(tmp_path), str(source.name), str(sink.name)]

    def run(*dies: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-W", "ignore", "-c", UPSERTS, *arguments, *dies]
        with tempfile.TemporaryDirectory() as left:  # short, because Spark creates sockets there
            env = {**os.environ, **service.environment, "TMPDIR": left, "SPARK_LOCAL_DIRS": left}
            env["SPARK_SUBMIT_OPTS"] = f"-Djava.io.tmpdir={left}"
            return subprocess.run(command, env=env, capture_output=True, text=True, timeout=WAIT)

    add(source, 1, 2)
    assert run("dies").returncode == -signal.SIGKILL
    assert not (tmp_path / "commits" / "0").exists()
    add(source, 3)
    add(source, 2)
    for _ in range(1 if LIMITS else 2):  # older versions end a run after it repeats a batch
        done = run()
        assert done.returncode == 0, done.stderr[-3000:]
    found = sink.read().to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": number, "tag": str(number)} for number in (1, 2, 3)]


UPSERTS = """
import os, signal, sys
import odps_nb, odps_nb.spark
from pyspark.sql import functions as F
folder, source, sink, *dies = sys.argv[1:]
odps = odps_nb.connect()
spark = odps_nb.spark.session("local[2]", spark_driver_memory="1g")
odps_nb.spark.register(spark)

def upsert(rows, batch):
    odps.table(sink).upsert(rows.groupBy("id").agg(F.max(F.element_at("tags", 1)).alias("tag")))
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)

reader = spark.readStream.format("odps").options(**odps_nb.spark.options(odps), table=source)
writer = reader.load().writeStream.foreachBatch(upsert).option("checkpointLocation", folder)
writer.trigger(availableNow=True).start().awaitTermination()
"""


def dying_source() -> type:
    """Return a sink whose committing process is killed once the service has committed.

    Created in a function, so Spark's processes receive it by value, because they cannot import a
    test.
    """

    class DyingLog(CommitLog):
        def note_done(self, batch: int) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

    class DyingWriter(OdpsStreamWriter):
        def _log(self) -> CommitLog:
            return DyingLog(self._settings.checkpoint)

    class DyingSource(OdpsDataSource):
        @classmethod
        def name(cls) -> str:
            return "dying"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:
            return DyingWriter(StreamWriteSettings.of(self.options), schema, overwrite=overwrite)

    return DyingSource
