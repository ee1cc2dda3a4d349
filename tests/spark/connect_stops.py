"""Used by ``connect_job``: cancelling over Spark Connect, and its progress messages."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil
import pyarrow as pa

import odps_nb
import odps_nb.spark
from odps_nb.client.write.operations import WriteSessionRef
from odps_nb.client.write.session import fetch_write_status
from odps_nb.local.server.launch import start
from odps_nb.terms import TableName
from tests.support.service.connecting import connected
from tests.support.spark.watched import (
    MIDDLE,
    ROWS,
    WITHIN,
    Action,
    Listener,
    gated,
    misbehave,
    stalled,
    wait_until_injected,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.local.server.launch import LocalService


AGAIN = 15.0
SETTLED = 2.5
#: Seconds until Spark ends a Python worker that it no longer uses: about 64 with PySpark 4.1.
GONE_WITHIN = 120.0 + WITHIN


def stops(spark: SparkSession) -> dict[str, Any]:
    """Stop reads and a write in every way; return each result."""
    with (
        start(samples=False, options=("--misbehave",)) as service,
        connected(service) as odps,
    ):
        odps.create_table("numbers", "id bigint").write(pa.table({"id": range(ROWS)}))
        told = {"tasks": _tasks(spark, odps)}
        frame = odps_nb.spark.read(spark, odps, "numbers", splits=2)
        query = odps_nb.spark.explain_sql(spark, odps, "select sum(id) from numbers")
        waiting = _Stalled(odps, service)
        spark.registerProgressHandler(waiting.told)  # type: ignore[arg-type]  # takes any callable
        told["action"] = waiting.stopped(frame.filter("true").count, _interrupt)
        told["query"] = waiting.stopped(query.to_arrow, query.cancel)
        told["connection"] = waiting.stopped(query.to_pandas, odps.cancel)
        told["write"] = _stopped_write(spark, odps, waiting)
        return told


def _tasks(spark: SparkSession, odps: Connection) -> dict[str, Any]:
    """Write while one task waits for a file; return the tasks reported before and after."""
    odps.create_table("told", "id bigint")
    listener = Listener()
    with tempfile.TemporaryDirectory() as folder:
        gate = Path(folder, "gate")
        rows = spark.range(0, 300, 1, 3)
        waiting = gated(rows.where("id >= 200"), gate).union(rows.where("id < 200"))
        action = Action(lambda: odps_nb.spark.write(waiting, odps, "told", progress=listener))
        seen = listener.wait_until(lambda snapshot: snapshot.tasks > 0)
        gate.touch()
        receipt = action.result()
    end = listener.wait_end()
    return {
        "seen": [seen.tasks, seen.tasks_total],
        "end": [end.tasks, end.tasks_total, end.rows],
        "phase": end.phase.value,
        "rows": receipt.rows,
    }


def _stopped_write(spark: SparkSession, odps: Connection, waiting: _Stalled) -> dict[str, Any]:
    odps.create_table("unwritten", "id bigint")
    waiting.action, waiting.at = "TableWrite", 0
    listener = Listener()
    rows = spark.range(0, 100_000, 1, 2)
    told = waiting.stopped(
        lambda: odps_nb.spark.write(rows, odps, "unwritten", progress=listener), _interrupt
    )
    end = listener.wait_end()
    table = TableName(project=waiting.service.project, table="unwritten")
    session = WriteSessionRef(table=table, session_id=str(end.session_id))
    told["phase"] = end.phase.value
    told["status"] = fetch_write_status(odps._storage, session)
    return told


def _interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@dataclass
class _Stalled:
    """A service whose responses to an action stall for longer than any test waits."""

    odps: Connection
    service: LocalService
    action: str = "TableRead"
    at: int = MIDDLE
    tasks: int = 0
    running: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def stopped(self, work: Callable[[], object], stop: Callable[[], None]) -> dict[str, Any]:
        """Run work in this thread, the main one; stop it from another once a task waits."""
        misbehave(self.odps, stalled(self.action, self.at))
        self.running.clear()
        self.over.clear()
        stopping = threading.Thread(target=self._stop, args=(stop,), daemon=True)
        stopping.start()
        try:
            work()
            error = "none"
        except (Exception, KeyboardInterrupt) as caught:  # noqa: BLE001  told as it is
            error = type(caught).__name__
        self.over.set()
        return {"error": error, "took": self._wait_for_tasks_to_go()}

    def _wait_for_tasks_to_go(self) -> float:
        """Wait until only this process is connected to the service; return the seconds."""
        began, port = time.monotonic(), urlsplit(self.service.tunnel_endpoint).port
        while True:
            there = psutil.Process(self.service.pid).net_connections("tcp")
            mine = {one.laddr.port for one in psutil.Process().net_connections("tcp")}
            connected = (one for one in there if one.laddr.port == port and one.raddr)
            if not any(
                one.status == psutil.CONN_ESTABLISHED and one.raddr.port not in mine
                for one in connected
            ):
                return time.monotonic() - began
            assert time.monotonic() - began < GONE_WITHIN
            time.sleep(0.05)

    def _stop(self, stop: Callable[[], None]) -> None:
        # A task of the previous job may have been late, so require both: this job runs, and all
        # tasks wait.
        assert self.running.wait(WITHIN)
        wait_until_injected(self.odps, self.tasks)
        # Spark checks the Python worker of a task every two seconds. It may ignore one that
        # has only just started, which then notices when its next bytes arrive. This wait only makes
        # the usual case likely.
        self.over.wait(SETTLED)
        stop()
        # Python drops an interrupt that arrives during a finalizer; a user would repeat it.
        while not self.over.wait(AGAIN):
            stop()

    def told(self, *, inflight_tasks: int, done: bool, **_: object) -> None:
        """Record the tasks that Spark runs."""
        if inflight_tasks and not done:
            self.tasks = inflight_tasks
            self.running.set()
