"""Operations interrupted at any moment leave no thread, socket, file or partial table."""

from __future__ import annotations

import gc
import random
import tempfile
import threading
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from odps_nb.client.calls.progress import silent
from odps_nb.errors import CancelledError, OdpsNbError, QueryError
from tests.support.interrupting import interrupt, interrupts_repeated
from tests.support.service.connecting import connected
from tests.support.threads import open_sockets

ROWS = 20_000
MOMENTS = [6, pytest.param(24, marks=pytest.mark.nightly)]  # the nightly run draws more moments


@pytest.fixture
def own_temp(tmp_path, monkeypatch):
    """A temporary folder that only this test uses."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def interrupted(work, after: float) -> bool:
    """Run a function, send SIGINT after some seconds; return whether it arrived before the end."""
    timer = threading.Timer(after, interrupt)
    try:
        with interrupts_repeated():
            timer.start()
            work()
            timer.cancel()
            timer.join()
    except KeyboardInterrupt:
        timer.join()
        return True
    return False


def random_moments(work: Callable[[], object], count: int, dice: random.Random) -> list[float]:
    """Draw one moment from each part of the time that the job takes."""
    took = []
    for _ in range(2):
        began = time.monotonic()
        work()
        took.append(time.monotonic() - began)
    return [min(took) * (part + dice.random()) / count for part in range(count)]


def new_threads(before: set[threading.Thread]) -> list[threading.Thread]:
    """Return new threads that run; `enumerate` also lists threads whose start was interrupted."""
    return [
        thread
        for thread in threading.enumerate()
        if thread not in before and thread.name.startswith("odps_nb") and thread.is_alive()
    ]


DATA = pa.table({"id": range(ROWS), "note": [f"note {i}" for i in range(ROWS)]})
PHOTOS = pa.table({"id": range(40), "photo": [bytes(200_000)] * 40})


def read(odps, name):
    columns = ["id", "customer", "amount", "status", "created", "ds"]
    scan = odps.table("orders").read(columns, splits=8, limit=300_000)
    assert scan.to_pandas(progress=silent).size


def write(odps, name):
    odps.table(name).write(DATA, workers=3, progress=silent)


def write_photos(odps, name):
    odps.table(f"{name}_photos").write(PHOTOS, progress=silent)


def fetch(odps, name):
    assert sum(len(blob.bytes()) for blob in odps.table("media").blobs("content"))


def query(odps, name):
    odps.sql("select status, count(*) as n from orders group by status").to_arrow(progress=silent)


BLOBS = pytest.mark.storage_api("blobs")
WORKS = [
    *(read, write, query),
    *(pytest.param(work, marks=BLOBS) for work in (write_photos, fetch)),
]


# A signal may arrive after a socket is created and before it is assigned. Then the last reference
# closes it, and Python reports an unclosed socket. The test only requires that no socket is open at
# the end.
@pytest.mark.gate(1)
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("moments", MOMENTS)
@pytest.mark.parametrize("work", WORKS, ids=lambda w: w.__name__)
def test_an_interrupt_at_any_moment_leaves_nothing_behind(
    service, odps, new_name, own_temp, work, moments
):
    name = new_name("stopped")
    odps.create_table(name, "id bigint, note string")
    odps.create_table(f"{name}_photos", "id bigint, photo blob")
    dice = random.Random(work.__name__)
    threads = set(threading.enumerate())
    gc.collect()
    before, stopped = open_sockets(), 0
    whole = {write: ROWS, write_photos: PHOTOS.num_rows}.get(work, 0)
    table = odps.table(f"{name}_photos" if work is write_photos else name)
    with connected(service) as warm:
        after = random_moments(lambda: work(warm, name), moments, dice)
    rows = 2 * whole
    for seconds in after:
        with connected(service) as mine:
            stopped += interrupted(lambda mine=mine: work(mine, name), seconds)
            threading.Event().wait(0.02)  # a thread may be starting
            for thread in new_threads(threads):  # the thread may wait for another time slice
                thread.join(2.0)
            assert new_threads(threads) == []
        if whole:
            now = table.read(columns=["id"]).to_arrow(progress=silent).num_rows
            assert now in (rows, rows + whole)
            rows = now
    assert stopped
    gc.collect()
    assert open_sockets() <= before + 4  # includes the idle connections of the shared connection
    assert list(own_temp.iterdir()) == []
    for one in (name, f"{name}_photos"):
        odps.drop_table(one)


# The same applies to a file that is being opened.
@BLOBS
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("moments", MOMENTS)
def test_an_interrupt_at_any_moment_leaves_only_complete_files(
    service, odps, new_name, tmp_path, moments
):
    table = odps.create_table(new_name("saved"), "id bigint, photo blob")
    table.write(PHOTOS, progress=silent)
    photos = table.read(["photo"]).to_arrow(progress=silent)["photo"]
    stopped, whole = 0, tmp_path / "whole"
    whole.mkdir()

    def save_all() -> None:
        odps.blobs(photos).save(whole, progress=silent)

    after = random_moments(save_all, moments, random.Random("save"))
    threads = set(threading.enumerate())
    for n, seconds in enumerate(after):
        folder = tmp_path / str(n)
        folder.mkdir()
        with connected(service) as mine:
            stopped += interrupted(
                lambda mine=mine, folder=folder: mine.blobs(photos).save(folder, progress=silent),
                seconds,
            )
            for thread in new_threads(threads):
                thread.join(2.0)
            assert new_threads(threads) == []
        assert not list(folder.glob(".*"))
        assert {path.stat().st_size for path in folder.iterdir()} <= {200_000}
    assert stopped


class Worker(threading.Thread):
    """Runs a job and keeps the error that it raised."""

    def __init__(self, work) -> None:
        super().__init__()
        self._work, self.error = work, None

    def run(self) -> None:
        try:
            self._work()
        except OdpsNbError as error:
            self.error = error


@pytest.mark.gate(1)
@pytest.mark.parametrize("moments", MOMENTS)
@pytest.mark.parametrize("work", WORKS, ids=lambda w: w.__name__)
def test_another_thread_can_cancel_all_work_of_a_connection(service, odps, new_name, work, moments):
    name = new_name("cancelled")
    odps.create_table(name, "id bigint, note string")
    odps.create_table(f"{name}_photos", "id bigint, photo blob")
    dice = random.Random(work.__name__)
    threads, stopped, rows = set(threading.enumerate()), 0, 0
    whole = {write: ROWS, write_photos: PHOTOS.num_rows}.get(work, 0)
    with connected(service) as mine:
        after = random_moments(lambda: work(mine, name), moments, dice)
        table = mine.table(f"{name}_photos" if work is write_photos else name)
        rows = 2 * whole
        for seconds in after:
            worker = Worker(lambda: work(mine, name))
            worker.start()
            worker.join(seconds)
            mine.cancel()
            worker.join(20.0)
            assert not worker.is_alive()
            assert worker.error is None or isinstance(worker.error, CancelledError)
            assert new_threads(threads) == []
            stopped += worker.error is not None
            now = table.read(columns=["id"]).to_arrow(progress=silent).num_rows
            assert now in (rows, rows + whole)
            rows = now
    assert stopped
    for one in (name, f"{name}_photos"):
        odps.drop_table(one)


def test_a_cancel_reaches_a_query_that_waits_on_the_service(odps):
    slow = "select count(*) as n from orders a join orders b on a.status = b.status"
    result = odps.sql(slow, wait=False)
    worker = Worker(result.wait)
    worker.start()
    for _ in range(200):  # the thread may not be waiting yet
        worker.join(0.1)
        odps.cancel()
        if not worker.is_alive():
            break
    assert isinstance(worker.error, CancelledError)
    with pytest.raises(QueryError):  # the service received the cancellation
        result.wait()
    assert odps.sql("select 1 as n").row_count == 1
