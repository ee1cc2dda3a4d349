"""Spark: the same rows with odps_nb, Parquet and createDataFrame, in one run.

``python -m benchmarks.bench_spark [rows]``. With ``ODPS_NB_SPARK_CONNECTOR`` (see
``tests/versions/spark_connector.py``), the vendor's Spark connector is a peer, too. Every case ends
in Spark's ``noop`` sink, the session has two cores, and all cases are warm. There are two services:
the embedded one, and a minimal one that only sends prepared bytes or discards received ones, to
show the cost of the path itself. Service and Spark share the machine's cores, so the figures are
ratios of medians.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import odps_nb
import odps_nb.spark
from benchmarks import _plain_service as plain
from benchmarks._measure import Case, Goal, compare, header, summary
from odps_nb.client.blob.many import iter_blobs
from odps_nb.client.calls.storage import StorageClient
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.terms import BlobReference
from tests.support.spark import connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.client.auth.profile import Profile

ROUNDS = 5
SPLITS = 4
COLUMNS = "id bigint, amount decimal(18,2), name string, value double, at timestamp, quantity int"
BLOBS = 400
TASKS = 64


def source(spark: SparkSession, rows: int) -> DataFrame:
    """Return the rows: numbers, text of about ten letters, decimals and times."""
    return spark.range(0, rows, 1, SPLITS).selectExpr(
        "id",
        "cast(id % 1000000 / 100 as decimal(18,2)) amount",
        "concat('item-', cast(id % 100000 as string)) name",
        "cast(id as double) / 7 value",
        "timestamp_micros(1700000000000000 + id * 1000) at",
        "cast(id % 97 as int) quantity",
    )


def drain(frame: DataFrame) -> None:
    """Compute every row and discard it."""
    frame.write.format("noop").mode("overwrite").save()


def fingerprint(frame: DataFrame) -> tuple[object, ...]:
    """Return a value that is equal for two DataFrames with the same rows."""
    return tuple(
        frame.selectExpr(
            "count(*)",
            "sum(id)",
            "sum(amount)",
            "sum(quantity)",
            "bit_xor(xxhash64(name, at, value))",
        ).collect()[0]
    )


def thrown_away(frame: DataFrame) -> DataFrame:
    """Measure only the transfer from the JVM to Python: a task returns no batches."""
    return frame.mapInArrow(lambda batches: (batch.slice(0, 0) for batch in batches), frame.schema)


def handed_over(frame: DataFrame, folder: Path) -> DataFrame:
    """Measure only the transfer from Python to the JVM: the same rows from files."""
    place, schema = str(folder), frame.schema
    folder.mkdir()

    def keep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        path, writer = f"{place}/{context.partitionId()}", None
        for batch in batches:
            writer = writer or pa.ipc.new_file(path, batch.schema)
            writer.write(batch)
            yield batch.slice(0, 0)
        if writer:
            writer.close()

    def give(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with pa.memory_map(files[number]) as file:
                    kept = pa.ipc.open_file(file)
                    yield from map(kept.get_batch, range(kept.num_record_batches))

    drain(frame.mapInArrow(keep, schema))
    files = [str(path) for path in folder.iterdir()]  # a partition without rows has no file
    numbers = frame.sparkSession.range(0, len(files), 1, len(files))
    return numbers.mapInArrow(give, schema)


def same(expected: DataFrame, *others: DataFrame) -> None:
    """Stop unless all DataFrames have the same rows."""
    wanted = fingerprint(expected)
    if any(fingerprint(other) != wanted for other in others):
        raise SystemExit("bench: two cases returned different rows")


PEER = "the vendor's Spark connector"


def peer_catalog(spark: SparkSession, odps: Connection, table: str, **options: object) -> str:
    """Return the name of a table for the connector, which uses version 1 of the Storage API."""
    connector.catalog(spark, odps, f"vendor_{table}", "v1", **options)
    return f"vendor_{table}.{odps.profile.project}.{table}"


def peer_read(
    spark: SparkSession, odps: Connection, table: str, expected: DataFrame, **options: object
) -> list[Case]:
    """Return the case of the connector; an empty list without its jar."""
    if connector.missing():
        return []
    options.setdefault("splitParallelism", SPLITS)
    frame = spark.table(peer_catalog(spark, odps, table, **options))
    same(expected, frame)
    return [Case(PEER, lambda: drain(frame))]


def peer_write(spark: SparkSession, odps: Connection, table: str, frame: DataFrame) -> list[Case]:
    """Return the case of the connector; an empty list without its jar."""
    if connector.missing():
        return []
    writer = frame.writeTo(peer_catalog(spark, odps, table))
    writer.overwritePartitions()
    same(frame, odps_nb.spark.read(spark, odps, table))
    return [Case(PEER, writer.overwritePartitions)]


def peer_goal(peer: list[Case]) -> list[Goal]:
    """Return the goal relative to the connector, if it runs."""
    return [Goal(PEER, 1)] if peer else []


def bench_read(spark: SparkSession, odps: Connection, ready: Profile, folder: Path) -> None:
    """Measure reads into Spark."""
    parquet = spark.read.parquet(str(folder))
    rows = parquet.count()
    service = odps_nb.spark.read(spark, odps, "bench", splits=SPLITS)
    bytes_only = odps_nb.spark.read(spark, ready, "bench", splits=SPLITS)
    by_format = (
        spark.read.format("odps")
        .options(**odps_nb.spark.options(odps), splits=SPLITS)
        .load("bench")
    )
    by_hand = handed_over(parquet, folder.parent / "batches")
    same(parquet, service, bytes_only, by_format, by_hand)
    peer = peer_read(spark, odps, "bench", parquet)
    compare(
        f"read {rows:,} rows × 6, from a service that sends ready bytes",
        Case("odps_nb.spark.read", lambda: drain(bytes_only)),
        Case("spark.read.parquet", lambda: drain(parquet)),
        Case("mapInArrow that gives batches out of files", lambda: drain(by_hand)),
        rounds=ROUNDS,
        count=rows,
        # PySpark's own transfer to the JVM is the limit; the service uses the same two cores
        goals=[Goal("mapInArrow that gives batches out of files", 0.6)],
    )
    compare(
        f"read {rows:,} rows × 6, from the embedded service",
        Case("odps_nb.spark.read", lambda: drain(service)),
        Case("spark.read.parquet", lambda: drain(parquet)),
        Case('format("odps")', lambda: drain(by_format)),
        *peer,
        rounds=ROUNDS,
        count=rows,
        goals=[Goal("spark.read.parquet", 0.5), *peer_goal(peer)],
    )
    table = odps.table("bench").read().to_arrow()
    few = table.slice(0, rows // 10)  # a tenth of the rows: the driver holds and copies all of them
    pandas = few.to_pandas()
    some = odps_nb.spark.read(spark, odps, "bench", limit=few.num_rows, splits=SPLITS)
    compare(
        f"{few.num_rows:,} rows into Spark, from the service or out of the driver's memory",
        Case("odps_nb.spark.read", lambda: drain(some)),
        Case("createDataFrame(pa.Table)", lambda: drain(spark.createDataFrame(few))),
        Case("createDataFrame(pandas)", lambda: drain(spark.createDataFrame(pandas))),
        rounds=3,
        count=few.num_rows,
    )


def bench_write(spark: SparkSession, odps: Connection, sink: Profile, folder: Path) -> None:
    """Measure writes from Spark."""
    frame = spark.read.parquet(str(folder))
    rows = frame.count()
    out = folder.parent / "out.parquet"

    def into_service() -> None:
        odps_nb.spark.write(frame, odps, "bench_out", overwrite=True)

    def by_format() -> None:
        writer = frame.write.format("odps").options(**odps_nb.spark.options(odps))
        writer.mode("overwrite").save("bench_out")

    into_service()
    same(frame, odps_nb.spark.read(spark, odps, "bench_out"))
    peer = peer_write(spark, odps, "bench_out", frame)
    if odps_nb.spark.write(frame, sink, "bench").rows != rows:
        raise SystemExit("bench: the sink did not get all rows")
    parquet = Case("df.write.parquet", lambda: frame.write.mode("overwrite").parquet(str(out)))
    compare(
        f"write {rows:,} rows × 6, into a sink that throws them away",
        Case("odps_nb.spark.write", lambda: odps_nb.spark.write(frame, sink, "bench")),
        parquet,
        Case("mapInArrow that throws its rows away", lambda: drain(thrown_away(frame))),
        rounds=ROUNDS,
        count=rows,
        goals=[Goal("mapInArrow that throws its rows away", 0.6)],
    )
    compare(
        f"write {rows:,} rows × 6, into the embedded service",
        Case("odps_nb.spark.write", into_service),
        parquet,
        Case('df.write.format("odps")', by_format),
        *peer,
        rounds=ROUNDS,
        count=rows,
        goals=[
            Goal("df.write.parquet", 0.4),
            Goal('df.write.format("odps")', 0.8),  # the same path; runs differ by this much
            *peer_goal(peer),
        ],
    )


def bench_tasks(spark: SparkSession, odps: Connection, folder: Path) -> None:
    """Measure the cost of a task without its rows: few rows, many tasks."""
    few = spark.read.parquet(str(folder)).limit(TASKS * 10).repartition(TASKS)
    few.write.parquet(str(folder.parent / "few.parquet"))
    parquet = spark.read.parquet(str(folder.parent / "few.parquet"))
    odps.create_table("bench_few", COLUMNS)
    odps_nb.spark.write(parquet, odps, "bench_few", progress=False)
    ours = odps_nb.spark.read(spark, odps, "bench_few", splits=TASKS, progress=False)
    nothing = spark.range(0, TASKS, 1, TASKS).mapInArrow(lambda batches: batches, "id bigint")
    same(parquet, ours)
    peer = peer_read(spark, odps, "bench_few", parquet, splitParallelism=TASKS)
    compare(
        f"read {TASKS} tasks of 10 rows, from the embedded service",
        Case("odps_nb.spark.read", lambda: drain(ours)),
        Case("mapInArrow that does nothing", lambda: drain(nothing)),
        Case("spark.read.parquet", lambda: drain(parquet)),
        *peer,
        rounds=ROUNDS,
        count=TASKS,
        goals=[Goal("mapInArrow that does nothing", 0.45), *peer_goal(peer)],
    )


def stored_blobs(spark: SparkSession, odps: Connection) -> DataFrame:
    """Upload the blobs into the embedded service."""
    odps.create_table("bench_blobs", "id bigint, pic blob")
    contents = spark.range(0, BLOBS, 1, SPLITS).selectExpr(
        "id", f"cast(repeat('*', {len(plain.BLOB)}) as binary) pic"
    )
    odps_nb.spark.write(contents, odps, "bench_blobs")
    return odps_nb.spark.read(spark, odps, "bench_blobs", splits=SPLITS)


def bench_blobs(title: str, frame: DataFrame, profile: Profile, *goals: Goal) -> None:
    """Measure blobs that are processed where they are fetched, or that pass through the JVM."""
    with StorageClient(profile) as storage:
        task = TaskProfile.of(storage)

    def fetch(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with task.open() as storage:
            for batch in batches:
                for start in range(0, batch.num_rows, 20):
                    some = batch.slice(start, 20)
                    wanted = [BlobReference.from_text(t) for t in some.column("pic").to_pylist()]
                    data = [record.data for record in iter_blobs(storage, wanted)]
                    yield pa.RecordBatch.from_pydict({"id": some.column("id"), "data": data})

    def weigh(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            sums = [row[0] + len(row) for row in batch.column("data").to_pylist()]
            yield pa.RecordBatch.from_pydict({"weight": sums})

    def in_task() -> DataFrame:
        return odps_nb.spark.blob_map(
            frame,
            profile,
            "pic",
            lambda record: (record.data[0] + len(record.data),),
            "weight bigint",
        )

    def as_column() -> DataFrame:
        bytes_column = frame.mapInArrow(fetch, "id bigint, data binary")
        # An operation between the steps, such as a join or a cache, prevents their chaining.
        apart = bytes_column.filter("length(data) > 0")
        return apart.mapInArrow(weigh, "weight bigint")

    total = "sum(weight)"
    if in_task().selectExpr(total).collect() != as_column().selectExpr(total).collect():
        raise SystemExit("bench: two cases returned different sums")
    compare(
        f"one pass over {BLOBS} blobs of {len(plain.BLOB) / 1e6:g} MB, from {title}",
        Case("blob_map: fetch and compute in one place", lambda: drain(in_task())),
        Case("bytes as a column of Spark", lambda: drain(as_column())),
        rounds=ROUNDS,
        size=BLOBS * len(plain.BLOB),
        goals=goals,
    )


def main() -> None:
    """Generate the rows once, then time all ways."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
    header(f"Spark, two cores: {rows:,} rows × 6 columns over loopback HTTP")
    folder = Path(tempfile.mkdtemp(prefix="odps-nb-bench-"))
    if missing := connector.missing():
        print(f"note: {missing}")
    spark = odps_nb.spark.session("local[2]", **connector.session_settings())
    try:
        odps_nb.spark.register(spark)
        parquet = folder / "rows.parquet"
        source(spark, rows).write.parquet(str(parquet))
        with odps_nb.connect("local") as odps:
            for name in ("bench", "bench_out"):
                odps.create_table(name, COLUMNS)
            odps_nb.spark.write(spark.read.parquet(str(parquet)), odps, "bench")
            schema = odps.table("bench").schema
            batches = odps.table("bench").read(splits=SPLITS).batches()
            with plain.running(schema, batches, folder / "ready") as endpoint:
                ready = dataclasses.replace(
                    odps.profile, endpoint=f"{endpoint}/api", tunnel_endpoint=endpoint
                )
                bench_read(spark, odps, ready, parquet)
                bench_write(spark, odps, ready, parquet)
                bench_tasks(spark, odps, parquet)
                # This service accepts every reference: 100 in each of four tasks.
                goal = Goal("bytes as a column of Spark", 5)
                any_blobs = spark.range(0, BLOBS, 1, SPLITS).selectExpr("id", "'QUJD' pic")
                bench_blobs("a service that sends ready bytes", any_blobs, ready, goal)
                stored = stored_blobs(spark, odps)
                bench_blobs("the embedded service", stored, odps.profile)
        summary()
    finally:
        spark.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
