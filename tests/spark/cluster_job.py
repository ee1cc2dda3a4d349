"""Run by ``test_cluster``: jobs on a cluster with a killed process, a stall or a lost response.

Reads a JSON document and prints one. A separate process, because a test run has one Spark session.
The service fails on request and counts requests, so a job knows what its tasks are doing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import odps_nb
import odps_nb.spark
from odps_nb.errors import OdpsNbError
from odps_nb.spark.tasks.errors import from_spark
from odps_nb.wire.calls import WireRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.access.receipt import Receipt

ROWS = 40_000
SPLITS = 4
EXECUTORS = 3
BATCHES, SPLITS_EACH = 4, 100  # micro-batches of a stream
DAY = {"ds": "2026-01-01"}
LONG = 900.0  # seconds; no job may wait for the end of a stall
Batches = Iterable[pa.RecordBatch]


# -- faults injected into tasks -----------------------------------------------------------------


def _claim(path: str) -> bool:
    """Return true for the first caller, in any process."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def kill_executor_once(mark: str) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Kill the executor that runs partition 1, in the middle of its rows."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            if context.partitionId() == 1 and _claim(mark):
                # worker -> daemon -> the JVM of the executor, which the test's cluster started
                os.kill(_parent_of(os.getppid()), signal.SIGKILL)
            yield batch.slice(half)

    return run


def stall_first_attempt(mark: str) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Let the first attempt of partition 1 hang in the middle, until Spark runs a copy of it."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        slow = context.partitionId() == 1 and _claim(mark)
        for batch in batches:
            yield batch
            if slow:
                time.sleep(LONG)

    return run


def where(_: Batches) -> Iterator[pa.RecordBatch]:
    """Yield the process id of this task's executor, and the file from which it imports odps_nb."""
    found = {"executor": [_parent_of(os.getppid())], "file": [odps_nb.__file__]}
    yield pa.RecordBatch.from_pydict(found)


def fail_first_attempt(mark: str) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Make the first attempts of two partitions fail in the middle of their rows."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch.slice(0, batch.num_rows // 2)
            if context.partitionId() < 2 and _claim(f"{mark}-{context.partitionId()}"):
                raise RuntimeError("this attempt is lost")
            yield batch.slice(batch.num_rows // 2)

    return run


# -- jobs ---------------------------------------------------------------------------------------


class Stage:
    """A session, a service that fails on request, and a table with forty thousand numbers."""

    def __init__(self, spark: SparkSession, odps: Connection, given: dict[str, Any]) -> None:
        self.spark, self.odps, self.marks = spark, odps, Path(given["marks"])
        self.commit, self.tasks = given["commit"], given["tasks"]
        odps_nb.spark.register(spark, odps)

    def numbers(self) -> DataFrame:
        return self.spark.range(0, ROWS, 1, SPLITS)

    def source(self) -> DataFrame:
        if not self.odps.table("source").exists():
            odps_nb.spark.write(self.numbers(), self.odps, self.target("source"))
        return odps_nb.spark.read(self.spark, self.odps, "source", splits=SPLITS)

    def target(self, name: str) -> str:
        self.odps.create_table(name, "id bigint")
        return name

    def ask(self, *rules: dict[str, Any]) -> None:
        body = json.dumps({"rules": rules}).encode()
        self.odps._storage.rest(WireRequest(method="PUT", path="/misbehaviour", body=body))

    def ask_commit(self, **fault: Any) -> None:
        self.ask({**self.commit, **fault})

    def rules(self) -> list[dict[str, Any]]:
        _, body = self.odps._storage.rest(WireRequest(method="GET", path="/misbehaviour"))
        rules: list[dict[str, Any]] = json.loads(body)["rules"]
        return rules

    def executors(self) -> list[int]:
        """Return the processes of this application's executors."""
        driver = f":{self.spark.conf.get('spark.driver.port')}\0".encode()
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                command = (place / "cmdline").read_bytes()
            except OSError:
                continue  # the process has ended
            if b"CoarseGrainedExecutorBackend\0" in command and driver in command:
                found.append(int(place.name))
        return found

    def when_stalled(
        self, kill: Callable[[], None], job: Callable[[], Any], **rule: str | int
    ) -> Any:
        """Run a job; kill something once two of its tasks wait for the service."""
        self.ask({"fault": "stall", "times": 2, "seconds": LONG, **rule})
        over = threading.Event()

        def watch() -> None:
            while self.rules()[0]["injected"] < 2:
                assert not over.wait(0.05), "the job ended before anything was killed"
            kill()

        # The job stays in this thread: Spark finds a stream's sink by the session of its thread.
        with ThreadPoolExecutor(1) as pool:
            watching = pool.submit(watch)
            try:
                result = job()
            finally:
                over.set()
        watching.result()
        self.ask()
        return result

    def kill_executors(self) -> None:
        """Kill -9 both executors, each of which has a waiting task."""
        killed = self.executors()
        for process in killed:
            os.kill(process, signal.SIGKILL)
        assert len(killed) == 2, killed

    def kill_driver(self) -> None:
        """Kill -9 the driver: its Java, then this process."""
        context: Any = self.spark.sparkContext
        os.kill(context._gateway.proc.pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def counted(frame: DataFrame) -> list[int]:
    return list(frame.selectExpr("count(id)", "count(distinct id)").collect()[0])


def both_killed_in_a_read(stage: Stage) -> Any:
    frame = stage.source()
    job = partial(counted, frame)
    return stage.when_stalled(stage.kill_executors, job, action="TableRead", at=5000)


def both_killed_in_a_write(stage: Stage) -> Any:
    name = stage.target("both_killed")
    job = partial(odps_nb.spark.write, stage.numbers(), stage.odps, name)
    return stage.when_stalled(stage.kill_executors, job, action="TableWrite").rows


def installed(stage: Stage) -> Any:
    """Run three tasks at once; return the number of their executors, and the files of odps_nb."""
    numbers = stage.spark.range(0, EXECUTORS, 1, EXECUTORS)
    rows = numbers.mapInArrow(where, "executor long, file string", barrier=True).collect()
    return [len({row.executor for row in rows}), sorted({row.file for row in rows})]


def killed_in_a_read(stage: Stage) -> Any:
    return counted(
        stage.source().mapInArrow(kill_executor_once(str(stage.marks / "r")), "id bigint")
    )


def killed_in_a_write(stage: Stage) -> Any:
    broken = stage.numbers().mapInArrow(kill_executor_once(str(stage.marks / "w")), "id bigint")
    return odps_nb.spark.write(broken, stage.odps, stage.target("killed")).rows


def speculated_write(stage: Stage) -> Any:
    hung = stage.numbers().mapInArrow(stall_first_attempt(str(stage.marks / "s")), "id bigint")
    return odps_nb.spark.write(hung, stage.odps, stage.target("speculated")).rows


def speculated_read(stage: Stage) -> Any:
    frame = stage.source()
    stage.ask({"action": "TableRead", "fault": "stall", "at": 5000, "seconds": LONG})
    result = counted(frame)
    (rule,) = stage.rules()
    stage.ask()
    return [
        *result,
        rule["injected"],
        rule["matched"] > SPLITS,
    ]  # another attempt has read rows, too


def failed_first(stage: Stage) -> Any:
    """Two tasks fail once, in a read and in each kind of write."""
    failing = fail_first_attempt(str(stage.marks / "a"))
    read = counted(stage.source().mapInArrow(failing, "id bigint"))
    failing = fail_first_attempt(str(stage.marks / "f"))
    rows = stage.numbers().mapInArrow(failing, "id bigint")
    written = odps_nb.spark.write(rows, stage.odps, stage.target("failed")).rows
    failing = fail_first_attempt(str(stage.marks / "o"))
    rows = stage.numbers().mapInArrow(failing, "id bigint")
    rows.write.format("odps").mode("append").save(stage.target("failed_format"))
    return [*read, written, len(list(stage.marks.glob("[afo]-*")))]


def lost_commit(stage: Stage) -> Any:
    """The commit succeeds but its response is lost: one commit, for both kinds of write."""
    name = stage.target("lost")
    stage.ask_commit(fault="close")
    rows = odps_nb.spark.write(stage.numbers(), stage.odps, name).rows
    stage.ask_commit(fault="close")
    frame = stage.numbers().selectExpr(f"id + {ROWS} id")
    frame.write.format("odps").mode("append").save(name)
    injected = stage.rules()[0]["injected"]
    stage.ask()
    return [rows, injected]


def refused_commit(stage: Stage) -> Any:
    """The commit is rejected permanently: both kinds of write raise an error, and no rows exist.

    The response does not cause a retry; single-process tests cover other responses.
    """
    name = stage.target("refused")
    told = []
    for road in (
        lambda: odps_nb.spark.write(stage.numbers(), stage.odps, name),
        lambda: stage.numbers().write.format("odps").mode("append").save(name),
    ):
        stage.ask_commit(fault="status", status=403, times=0)
        try:
            road()
        except Exception as error:  # noqa: BLE001  told as it is
            ours = error if isinstance(error, OdpsNbError) else from_spark(error)
            told.append(type(ours).__name__)
        stage.ask()
    return told


def replace_day(stage: Stage) -> Receipt:
    """Replace one partition in a job of many tasks."""
    numbers = stage.spark.range(0, 10 * stage.tasks, 1, stage.tasks)
    return odps_nb.spark.write(numbers, stage.odps, "days", partition=DAY, overwrite=True)


def driver_killed(stage: Stage) -> None:
    """The driver dies when half of the streams are closed; the partition has an older row."""
    days = stage.odps.create_table("days", "id bigint", partitioned_by="ds string")
    days.write(pa.table({"id": [-1]}), partition=DAY)
    job = partial(replace_day, stage)
    stage.when_stalled(stage.kill_driver, job, action="TableWrite", skip=stage.tasks // 2)


def run_again(stage: Stage) -> Any:
    receipt = replace_day(stage)
    return [receipt.rows, receipt.streams]


def follow(stage: Stage, *numbers: int) -> list[int]:
    """Copy a table with a stream that resumes at its checkpoint; append ``numbers`` to the table.

    Returns the rows of each micro-batch.
    """
    connected, part = odps_nb.spark.options(stage.odps), 10 * SPLITS_EACH
    reader = stage.spark.readStream.format("odps").options(**connected, splits=SPLITS_EACH)
    rows = reader.option("poll_seconds", 0).load("arriving")
    writer = rows.writeStream.format("odps").options(**connected)
    query = writer.option("checkpointLocation", str(stage.marks / "checkpoint")).start("copied")
    query.processAllAvailable()
    for number in numbers:
        some = pa.table({"id": range(number * part, (number + 1) * part)})
        stage.odps.table("arriving").write(some)
        query.processAllAvailable()
    query.stop()
    return [one.numInputRows for one in query.recentProgress if one.numInputRows]


def stream_killed(stage: Stage) -> None:
    """The driver dies in the middle of the third of four micro-batches."""
    for name in ("arriving", "copied"):
        stage.target(name)
    job = partial(follow, stage, *range(BATCHES))
    stage.when_stalled(stage.kill_driver, job, action="TableWrite", skip=SPLITS_EACH * 5 // 2)


def stream_resumed(stage: Stage) -> Any:
    """Return the rows of each micro-batch that ran, and the number of streams written."""
    stage.ask({"action": "TableCreateWriteStream", "fault": "close", "skip": 10**9})  # only counts
    added = follow(stage, BATCHES - 1)
    (rule,) = stage.rules()
    return [added, rule["matched"] - 1]  # one stream wrote the source table


def main() -> None:
    """Run the jobs that a JSON document on stdin names."""
    given: dict[str, Any] = json.load(sys.stdin)
    spark = odps_nb.spark.session(given["master"], **given["conf"])
    with odps_nb.connect(**given["connection"]) as odps:
        stage = Stage(spark, odps, given)
        result = {}
        for name in given["acts"]:
            print(f"{name} …", file=sys.stderr, flush=True)  # shows the job that timed out
            result[name] = globals()[name](stage)
    spark.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
