"""Run by ``test_cluster``: three jobs on a standalone cluster, in each of which something dies.

Prints one JSON document. A process of its own, since a run of the tests has one Spark session.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import odps_nb
import odps_nb.spark

ROWS = 40_000
Batches = Iterable[pa.RecordBatch]


def _claim(path: str) -> bool:
    """Say yes to the first who asks, in any process."""
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
                time.sleep(300)

    return run


def main() -> None:
    """Do the jobs that a JSON document on stdin describes."""
    given: dict[str, Any] = json.load(sys.stdin)
    marks, result = Path(given["marks"]), {}
    spark = odps_nb.spark.session(
        given["master"],
        **{
            "spark.executor.memory": "512m",
            "spark.executor.cores": 1,
            "spark.speculation": True,
            "spark.speculation.interval": "100ms",
            "spark.speculation.quantile": 0.5,
            "spark.speculation.multiplier": 1.5,
            "spark.speculation.minTaskRuntime": "500ms",
        },
    )
    with odps_nb.connect(**given["connection"]) as odps:
        for name in ("source", "killed", "speculated"):
            odps.create_table(name, "id bigint")
        odps_nb.spark.write(spark.range(0, ROWS, 1, 4), odps, "source")

        frame = odps_nb.spark.read(spark, odps, "source", splits=4)
        broken = frame.mapInArrow(kill_executor_once(str(marks / "read")), "id bigint")
        result["read"] = list(broken.selectExpr("count(id)", "count(distinct id)").collect()[0])

        frame = spark.range(0, ROWS, 1, 4)
        broken = frame.mapInArrow(kill_executor_once(str(marks / "write")), "id bigint")
        result["written"] = odps_nb.spark.write(broken, odps, "killed").rows

        hung = frame.mapInArrow(stall_first_attempt(str(marks / "speculation")), "id bigint")
        result["speculated"] = odps_nb.spark.write(hung, odps, "speculated").rows
    spark.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
