"""The cost of large tables besides their rows: splits, tasks, streams, commits, partitions.

``python -m benchmarks scale``, or ``python -m benchmarks.bench_scale --tasks 200`` for a short run.
It uses small tables with as many splits as large ones. The results show the costs that grow with
the number of splits and streams, but not the speed of a cluster or of the real service.
``docs/scale.md`` quotes them as *measured*. It takes five minutes on two cores.
"""

from __future__ import annotations

import argparse
import pickle
import threading
import time
import tracemalloc
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

import odps_nb
import odps_nb.spark
from benchmarks import _made_rows
from benchmarks._measure import header
from odps_nb.access.connection import Connection
from odps_nb.client.calls.progress import Phase, ProgressSnapshot, ProgressTracker
from odps_nb.client.write.session import commit_write, open_write_session
from odps_nb.client.write.stream import WriteStream
from odps_nb.spark.reading.task import ReadTask
from odps_nb.spark.tasks.credentials import TaskProfile
from odps_nb.spark.writing.task import MAX_PARTITIONS, MAX_STREAMS
from odps_nb.terms import IndexSplit, PartitionSpec, TableName, format_bytes
from odps_nb.wire.calls import CommitWriteSession, CreateReadSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.client.read.plan import ReadSession

SPLITS = 100_000
TASKS = 2_000
SLOTS = 2
HEAP = "512m"
ROWS = 10**13  # of the generated table, about 1 PB
TABLE = TableName(project="local", table="a_table_of_a_usual_name")


@dataclass
class Took:
    """The seconds that a piece of work took, and the peak of bytes that Python allocated."""

    seconds: float = 0.0
    peak: int = 0
    kept: int = 0


@contextmanager
def timed() -> Iterator[Took]:
    """Time a piece of work."""
    took, began = Took(), time.perf_counter()
    yield took
    took.seconds = time.perf_counter() - began


@contextmanager
def weighed() -> Iterator[Took]:
    """Measure the bytes that Python allocates; this slows the work, so it is not timed."""
    took = Took()
    tracemalloc.start()
    try:
        yield took
        took.kept, took.peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def say(what: str, figure: str) -> None:
    """Print a line."""
    print(f"  {what:<68}{figure:>26}", flush=True)


def to_made_rows(endpoint: str) -> Connection:
    """Return a connection to the service of `_made_rows`."""
    return odps_nb.connect(
        endpoint=f"{endpoint}/api",
        tunnel_endpoint=endpoint,
        project=_made_rows.PROJECT,
        access_id="unused",
        access_key="secret",
    )


# -- planning -----------------------------------------------------------------------------------


def plan(made: Connection, splits: int) -> None:
    """Plan the splits of a table of one petabyte with `Table.read`."""
    header(f"planning {splits:,} splits of a table of {ROWS:,} rows")
    with timed() as took:
        session = made.table("rows").read(splits=splits)._opened()
    say("Table.read(splits=…), session and splits", f"{took.seconds:.2f} s")
    with weighed() as held:
        session = made.table("rows").read(splits=splits)._opened()
    say("memory of the driver's Python, at most", format_bytes(held.peak))
    say("  of which the session keeps", format_bytes(held.kept))
    say("without splits=, the client cuts", f"{len(made.table('rows').read().splits):,} splits")
    carried(made, session, "row ranges")
    by_index = tuple(IndexSplit(number) for number in range(splits))
    carried(made, replace(session, splits=by_index), "by index (with a filter)")
    partitions = tuple(PartitionSpec.of(f"ds=2024-01-01,hour={n:05}") for n in range(10_000))
    body = CreateReadSession(table=TABLE, partitions=partitions).encode().body
    say("request that names 10,000 partitions", format_bytes(len(body)))


def carried(odps: Connection, session: ReadSession, kind: str) -> None:
    """Print the size of the session data in a task."""
    size, whole = task_bytes(odps, session), len(pickle.dumps(session.splits))
    note = f"{format_bytes(size)} (list: {format_bytes(whole)})"
    say(f"what a task carries, splits as {kind}", note)


def task_bytes(odps: Connection, session: ReadSession) -> int:
    """Return the bytes of session data in a task."""
    task = ReadTask.of(TaskProfile.of(odps._storage), session)
    assert all(task.splits[n] == session.splits[n] for n in range(0, len(session.splits), 97))
    return len(pickle.dumps(task))


# -- Spark --------------------------------------------------------------------------------------


def heap(spark: SparkSession) -> int:
    """Return the heap bytes of the driver's JVM after a collection (local mode: with tasks)."""
    jvm: Any = spark._jvm
    jvm.java.lang.System.gc()
    return int(jvm.java.lang.Runtime.getRuntime().totalMemory()) - int(
        jvm.java.lang.Runtime.getRuntime().freeMemory()
    )


def read(spark: SparkSession, odps: Connection, made: Connection, tasks: int, splits: int) -> None:
    """Measure a read with many tasks."""
    header(f"Spark on {SLOTS} slots, driver with a heap of {HEAP}")
    say("heap in use before", format_bytes(heap(spark)))
    with timed() as took:
        frame = odps_nb.spark.read(spark, made, "rows", splits=splits)
        count = frame.rdd.getNumPartitions()
    assert count == splits
    say(f"DataFrame of {splits:,} tasks, planned", f"{took.seconds:.2f} s")
    with timed() as took:
        assert len(frame.limit(5).collect()) == 5
    say("  its first five rows", f"{took.seconds:.2f} s")
    say("  heap in use after", format_bytes(heap(spark)))
    table = odps.table("orders").read(columns=["id", "quantity"])
    expected = table.to_arrow()
    frame = odps_nb.spark.read(spark, odps, "orders", columns=["id", "quantity"], splits=tasks)
    frame.limit(1).collect()  # warm
    with timed() as took:
        found = frame.selectExpr("count(*)", "sum(quantity)").collect()[0]
    assert list(found) == [expected.num_rows, pc.sum(expected.column("quantity")).as_py()]
    say(f"{tasks:,} tasks read {expected.num_rows:,} rows", f"{took.seconds:.1f} s")
    say("  per task and slot", f"{took.seconds / tasks * SLOTS * 1e3:.0f} ms")
    say("  heap in use after", format_bytes(heap(spark)))


class CommitClock:
    """A listener that measures the time of the commit."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._over = threading.Event()

    def start(self, tracker: ProgressTracker) -> None:
        """Wait for the phase of the commit."""
        self._watch = threading.Thread(target=self._poll, args=(tracker,), daemon=True)
        self._watch.start()

    def _poll(self, tracker: ProgressTracker) -> None:
        began = None
        while not self._over.wait(0.01):
            if began is None and tracker.snapshot().phase is Phase.COMMITTING:
                began = time.perf_counter()
        self.seconds = 0.0 if began is None else time.perf_counter() - began

    def stop(self, snapshot: ProgressSnapshot) -> None:
        """Stop measuring."""
        self._over.set()
        self._watch.join()


def write(spark: SparkSession, odps: Connection, tasks: int) -> None:
    """Measure a write with many tasks, and into many partitions."""
    header("one write of many streams")
    odps.create_table("scale_out", "id bigint")
    clock = CommitClock()
    with timed() as took:
        frame = spark.range(0, tasks * 1000, 1, tasks)
        receipt = odps_nb.spark.write(frame, odps, "scale_out", progress=clock)
    assert receipt.streams == tasks
    assert odps.table("scale_out").read().row_count == receipt.rows == tasks * 1000
    say(f"{tasks:,} tasks write {receipt.rows:,} rows", f"{took.seconds:.1f} s")
    say("  per task and slot", f"{took.seconds / tasks * SLOTS * 1e3:.0f} ms")
    say("  of which the commit", f"{clock.seconds:.2f} s")
    say("  heap in use after", format_bytes(heap(spark)))
    odps.create_table("scale_days", "id bigint", partitioned_by="ds string")
    rows = spark.range(0, 100 * MAX_PARTITIONS).selectExpr("id", f"'d' || id % {MAX_PARTITIONS} ds")
    with timed() as took:
        receipt = odps_nb.spark.write(rows, odps, "scale_days")
    assert len(odps.table("scale_days").partitions()) == MAX_PARTITIONS
    say(
        f"{MAX_PARTITIONS} partitions made by one write, {receipt.streams} streams",
        f"{took.seconds:.1f} s",
    )


def commit(odps: Connection, streams: int) -> None:
    """Measure the commit of the maximum number of streams, without Spark and without rows."""
    header(f"one commit of {streams:,} streams")
    for count in (TASKS, streams):
        names = tuple((f"{n:06d}-{n}", 1) for n in range(count))
        body = CommitWriteSession(table=TABLE, session_id="s" * 32, streams=names).encode().body
        say(f"body that names {count:,} streams", format_bytes(len(body)))
    odps.create_table("scale_lanes", "id bigint")
    name = odps.profile.table("scale_lanes")
    session = open_write_session(odps._storage, name)

    def lane(number: int) -> Any:
        stream = WriteStream(odps._storage, session.ref, f"{number:06d}-{number}")
        return stream.start().close()

    with timed() as took, ThreadPoolExecutor(4) as pool:
        receipts = list(pool.map(lane, range(streams)))
    say("streams opened and closed", f"{took.seconds:.1f} s")
    with timed() as took:
        commit_write(odps._storage, session.ref, receipts)
    say("committed", f"{took.seconds:.2f} s")


def main() -> None:
    """Run all parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--streams", type=int, default=MAX_STREAMS)
    parts = ("plan", "read", "write", "commit")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    given = parser.parse_args()
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")
    with _made_rows.running(ROWS) as endpoint, odps_nb.connect("local") as odps:
        made = to_made_rows(endpoint)
        if "plan" in given.only:
            plan(made, given.splits)
        if {"read", "write"} & set(given.only):
            spark = odps_nb.spark.session(f"local[{SLOTS}]", spark_driver_memory=HEAP)
            try:
                if "read" in given.only:
                    read(spark, odps, made, given.tasks, given.splits)
                if "write" in given.only:
                    write(spark, odps, given.tasks)
            finally:
                spark.stop()
        if "commit" in given.only:
            commit(odps, given.streams)


if __name__ == "__main__":
    main()
