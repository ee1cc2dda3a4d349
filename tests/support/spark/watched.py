"""Parts of progress tests: a listener, actions in threads, a service's connections."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

import psutil
import pyarrow as pa

from odps_nb.client.calls.progress import ProgressSnapshot, ProgressTracker
from odps_nb.wire.calls import WireRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from odps_nb.access.connection import Connection
    from odps_nb.local.server.launch import LocalService

ROWS = 400_000
#: A byte in the second half of one of two splits; the service sends 1 MiB at a time.
MIDDLE = 1_200_000
WITHIN = 60.0


class Listener:
    """Records the trackers of all runs and their final figures."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.trackers: list[ProgressTracker] = []
        self.ends: list[ProgressSnapshot] = []

    def start(self, tracker: ProgressTracker) -> None:
        with self.changed:
            self.trackers.append(tracker)
            self.changed.notify_all()

    def stop(self, snapshot: ProgressSnapshot) -> None:
        with self.changed:
            self.ends.append(snapshot)
            self.changed.notify_all()

    def wait_end(self, number: int = 1) -> ProgressSnapshot:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.ends) >= number, WITHIN)
            return self.ends[number - 1]

    def wait_until(self, told: Callable[[ProgressSnapshot], bool]) -> ProgressSnapshot:
        """Poll the first run until its figures satisfy a condition, before it has ended."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.trackers, WITHIN)
        deadline = time.monotonic() + WITHIN
        while not told(snapshot := self.trackers[0].snapshot()):
            assert time.monotonic() < deadline, snapshot
            time.sleep(0.01)
        assert self.ends == []
        return snapshot


def gated(frame: DataFrame, gate: Path, *, free: int = 0) -> DataFrame:
    """Return the same rows; all but the first ``free`` tasks wait for a file after one batch."""
    path = str(gate)

    def wait(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import time

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            while context.partitionId() >= free and not os.path.exists(path):  # noqa: PTH110  # a task imports what it needs
                time.sleep(0.02)
            yield batch

    return frame.mapInArrow(wait, frame.schema)


class Action(threading.Thread):
    """An action in a separate thread; `result` waits for it and raises its error."""

    def __init__(self, action: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._action, self._value, self._error = action, None, None
        self.start()

    def run(self) -> None:
        try:
            self._value = self._action()
        except BaseException as error:  # noqa: BLE001  # a thread has no caller: result() raises it
            self._error = error

    def result(self) -> Any:
        self.join(WITHIN)
        assert not self.is_alive()
        if self._error is not None:
            raise self._error
        return self._value


def established(service: LocalService) -> int:
    """Connections that the service currently has open."""
    port = urlsplit(service.tunnel_endpoint).port
    return sum(
        one.status == psutil.CONN_ESTABLISHED and one.laddr.port == port
        for one in psutil.Process(service.pid).net_connections("tcp")
    )


def wait_for_connections(service: LocalService, told: Callable[[int], bool]) -> float:
    """Wait until the number of connections satisfies a condition; return the seconds it took."""
    began = time.monotonic()
    while not told(established(service)):
        assert time.monotonic() - began < WITHIN
        time.sleep(0.01)
    return time.monotonic() - began


def misbehave(odps: Connection, *rules: Mapping[str, object]) -> None:
    """Replace the fault rules of a service by these."""
    body = json.dumps({"rules": rules}).encode()
    odps._storage.rest(WireRequest(method="PUT", path="/misbehaviour", body=body))


def injected(odps: Connection) -> list[int]:
    """How often each of these rules was applied."""
    _, body = odps._storage.rest(WireRequest(method="GET", path="/misbehaviour"))
    return [rule["injected"] for rule in json.loads(body)["rules"]]


def stalled(action: str, at: int = 0) -> dict[str, object]:
    """The rule that makes calls of an action stall for longer than any test waits."""
    return {"action": action, "fault": "stall", "at": at, "seconds": 600, "times": 0}


def wait_until_injected(odps: Connection, times: int = 1) -> None:
    """Wait until the first rule was applied this often."""
    deadline = time.monotonic() + WITHIN
    while injected(odps)[0] < times:
        assert time.monotonic() < deadline
        time.sleep(0.05)


class _Waiting:
    """A Spark listener that blocks its event queue as soon as a task ends."""

    class Java:
        """Tells py4j what the class implements."""

        implements: ClassVar = ["org.apache.spark.scheduler.SparkListenerInterface"]

    def __init__(self) -> None:
        self.released = threading.Event()

    def onTaskEnd(self, _: object) -> None:
        assert self.released.wait(WITHIN)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("on"):
            raise AttributeError(name)
        return lambda *_: None


@contextlib.contextmanager
def status_stopped_at_first_task(spark: SparkSession) -> Iterator[None]:
    """Stop Spark's status at the first task that ends, as on a machine under load."""
    from pyspark.java_gateway import ensure_callback_server_started

    context = spark.sparkContext
    ensure_callback_server_started(context._gateway)
    bus, waiting = context._jsc.sc().listenerBus(), _Waiting()
    bus.addToStatusQueue(waiting)
    try:
        yield
    finally:
        waiting.released.set()
        bus.removeListener(waiting)
