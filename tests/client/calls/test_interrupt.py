"""Ctrl-C ends a wait long before the read time-out; no thread or socket remains."""

from __future__ import annotations

import contextlib
import gc
import threading

import pytest

from odps_nb.client.blob.file import open_blob
from odps_nb.client.blob.many import iter_blobs
from odps_nb.client.blob.streamed import iter_streamed_blobs
from odps_nb.client.read.plan import ReadSession
from odps_nb.client.read.requests import InstanceRows
from odps_nb.client.read.session import plan_ranges
from odps_nb.client.read.splits import iter_batches
from odps_nb.client.sql.query import run_sql
from odps_nb.client.sql.result import ResultSession, iter_result
from odps_nb.client.write.session import open_write_session
from odps_nb.terms import BlobReference, PartitionSpec
from odps_nb.wire.calls import GetReadSession
from odps_nb.wire.control import SQL_TASK, InstanceStatus, SubmittedInstance
from tests.support.interrupting import interrupt
from tests.support.sockets.ledger import Ledger
from tests.support.sockets.scripted import (
    SCHEMA,
    TABLE,
    ControlService,
    Service,
    give,
    ipc,
    numbers,
    raw,
)
from tests.support.threads import open_sockets, running

pytestmark = pytest.mark.usefixtures("repeated_interrupts")

SESSION = ReadSession(table=TABLE, session_id="s", schema=SCHEMA, splits=plan_ranges(100, 4))
SPEC = PartitionSpec.of("ds=x")
RUNNING = give(InstanceStatus(status="Running"))
REFERENCES = [BlobReference.from_raw(b"1"), BlobReference.from_raw(b"2")]


def submitted(line, seen) -> None:
    body, headers = SubmittedInstance(instance_id="i1").encode(location="http://x")
    line.answer(body, 201, **headers)


class Interrupter:
    """A step that sends some bytes, interrupts the main thread, and waits for the disconnect."""

    def __init__(self, head: bytes = b"") -> None:
        self._head = head
        self._before = set(running())
        self.left = threading.Semaphore(0)
        self._injected = False

    def __call__(self, line, seen) -> None:
        if self._head:
            line.send(line.headline(**{"Content-Length": "99999"}) + self._head)
        if not self._injected:
            self._injected = True
            interrupt()
        if line.wait_closed(20):  # a third of the read time-out
            self.left.release()

    def check(self) -> None:
        assert self.left.acquire(timeout=30)
        # An interrupted thread may need a moment to end.
        for thread in running():
            if thread.name.startswith("odps_nb") and thread not in self._before:
                thread.join(30.0)
                assert not thread.is_alive()


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("head", [b"", ipc(numbers(0, 25))[:300]])
def test_an_interrupt_ends_a_read(workers, head):
    step = Interrupter(head)
    with Service(ReadRows=[step]) as service, service.client(read_timeout=60.0) as storage:
        with pytest.raises(KeyboardInterrupt):
            list(iter_batches(storage, SESSION, workers=workers))
        step.check()


def test_an_interrupt_ends_a_call():
    step = Interrupter()
    with Service(GetReadSession=[step]) as service, service.client(read_timeout=60.0) as storage:
        with pytest.raises(KeyboardInterrupt):
            storage.call(GetReadSession(table=TABLE, session_id="s"))
        step.check()


@pytest.mark.parametrize("fetch", ["many", "one", "passing"])
def test_an_interrupt_ends_a_blob_download(fetch):
    step = Interrupter(bytes(100))
    with Service(ReadBlobs=[step]) as service, service.client(read_timeout=60.0) as storage:

        def run() -> None:
            if fetch == "many":
                list(iter_blobs(storage, REFERENCES))
            elif fetch == "passing":
                positions = {one: [n] for n, one in enumerate(REFERENCES)}
                with contextlib.closing(iter_streamed_blobs(storage, positions)) as blobs:
                    next(blobs)
            else:
                with open_blob(storage, REFERENCES[0]) as file:
                    file.read()

        with pytest.raises(KeyboardInterrupt):
            run()
        step.check()


@pytest.mark.parametrize("action", ["WriteRows", "WriteBlob"])
def test_an_interrupt_ends_an_upload_and_aborts_the_session(action):
    step = Interrupter()
    with Ledger() as service, service.client(read_timeout=60.0) as storage:
        service._steps[action][0] = step

        def run() -> None:
            with open_write_session(storage, TABLE, partition=SPEC) as session:
                stream = session.open_stream()
                if action == "WriteRows":
                    stream.write(numbers(0, 100).to_batches())
                    stream.close()
                else:
                    stream.upload_blobs([(bytes(100), None, None)], 1)

        with pytest.raises(KeyboardInterrupt):
            run()
        step.check()
        assert (service.status, service.committed) == ("ABORTED", None)


def test_an_interrupt_ends_the_wait_for_a_query_and_stops_the_query():
    step = Interrupter()
    script = {
        "SubmitSql": [submitted],
        "GetInstance": [RUNNING, step],
        "CancelInstance": [raw(b"")],
    }
    with ControlService(**script) as service, service.client(read_timeout=60.0) as storage:
        with pytest.raises(KeyboardInterrupt):
            run_sql(storage, "select 1")
        step.check()
        assert service.calls["CancelInstance"][0].instance_id == "i1"


def test_an_interrupt_ends_the_rows_of_a_query():
    step = Interrupter(ipc(numbers(0, 25))[:300])
    session = ResultSession(
        instance_id="i1",
        schema=SCHEMA,
        row_count=25,
        source=InstanceRows(project="p", instance_id="i1", session_id="d1", task=SQL_TASK),
    )
    with (
        ControlService(ReadInstance=[step]) as service,
        service.client(read_timeout=60.0) as storage,
    ):
        with pytest.raises(KeyboardInterrupt):
            list(iter_result(storage, session))
        step.check()


def test_no_socket_stays_open_after_an_interrupt():
    gc.collect()
    before = open_sockets()
    for _ in range(3):
        test_an_interrupt_ends_a_read(4, b"")
    assert open_sockets() <= before
