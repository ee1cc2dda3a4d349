"""Several processes can write to one open session, resume it, commit it and abort it."""

from __future__ import annotations

import pickle
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import odps_nb
from odps_nb.access.connection import Connection
from odps_nb.access.table import Table
from odps_nb.access.writing.open_write import OpenStream, OpenWrite
from odps_nb.client.write.operations import StreamReceipt, WriteSessionRef
from odps_nb.errors import (
    AccessDeniedError,
    ArgumentError,
    ConflictError,
    ConversionError,
    NotFoundError,
    OdpsNbWarning,
    SessionExpiredError,
    StateError,
    explain,
)
from odps_nb.local.server.launch import LocalService
from tests.support.forking import Forking
from tests.support.named import NewName
from tests.support.service.connecting import account_of
from tests.support.service.services import by_storage_api

JOB = Path(__file__).with_name("open_write_job.py")


@pytest.fixture
def table(odps: Connection, new_name: NewName) -> Table:
    return odps.create_table(new_name("held"), "id bigint")


def ids(table: Table) -> list[int]:
    return sorted(table.read().to_arrow().column("id").to_pylist())


def rows(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def write_and_fail(held: OpenWrite | OpenStream, *values: int) -> None:
    with held:
        held.write(rows(*values))
        held.flush()
        raise ZeroDivisionError


class Workers:
    """Runs jobs in separate processes and returns their results."""

    def __init__(self, service: LocalService, table: Table, forking: Forking) -> None:
        self.table, self._forking = table, forking
        self.connect = account_of(service)

    def run(self, do: str, session: str | WriteSessionRef, **job: Any) -> Any:
        """Return the response; ``None`` if the process killed itself."""
        order = {"do": do, "session": session, "table": self.table.name.table, **job}
        job = pickle.dumps(order | {"connect": self.connect}).hex()
        done = self._forking.run(JOB.read_text("utf-8"), job)
        if done.returncode == -signal.SIGKILL:
            return None
        assert done.returncode == 0, done.stderr
        return pickle.loads(bytes.fromhex(done.stdout))


@pytest.fixture
def workers(service: LocalService, table: Table, forking: Forking) -> Workers:
    return Workers(service, table, forking)


def test_another_process_writes_a_stream_and_a_third_commits(
    table: Table, workers: Workers
) -> None:
    with table.open_write() as session:
        session.write(pd.DataFrame({"id": [1, 2]}))
        (mine,) = (stream.close() for stream in session._streams.values())
        _, theirs = workers.run("write", session.handle, stream="far", values=[3, 4])
        assert isinstance(theirs, StreamReceipt)
        assert ids(table) == []
        handle = session.detach()
    assert ids(table) == []
    done = workers.run("commit", handle, streams=[mine, theirs])
    assert done.rows == 4
    assert dict(done.streams)["far"] == 1
    assert ids(table) == [1, 2, 3, 4]
    with pytest.raises(StateError, match="committed"):
        table.open_write(session_id=handle)


@pytest.mark.storage_api("resumable writes")
def test_after_a_worker_crashes_closed_streams_are_kept_and_open_streams_resumed(
    table: Table, workers: Workers
) -> None:
    with table.open_write() as session:
        sid = session.session_id
        assert workers.run("close and die", sid, stream="whole", values=[1, 2]) is None
        assert workers.run("leave open", sid, stream="half", values=[10, 11]) is None
        with pytest.raises(ConflictError, match="no closed stream 'half'"):
            session.commit([("whole", 1), ("half", 1)])
        values = [10, 11, 12, 13]
        before, receipt = workers.run("write", sid, stream="half", values=values, resume=True)
        assert before == 2
        done = session.commit([("whole", 1), receipt])
        assert dict(done.streams) == {"whole": 1, "half": 1}
        assert done.rows is None  # this process cannot know how many rows the killed process wrote
    assert ids(table) == [1, 2, 10, 11, 12, 13]


def test_a_commit_without_streams_excludes_streams_of_other_processes(
    table: Table, workers: Workers
) -> None:
    with table.open_write() as session:
        assert workers.run("close and die", session.session_id, stream="far", values=[1]) is None
        assert session.commit([]).streams == ()
    assert ids(table) == []


def test_rows_of_a_stream_that_stayed_open_are_not_committed(
    table: Table, workers: Workers
) -> None:
    with table.open_write() as session:
        assert workers.run("leave open", session.handle, stream="half", values=[9]) is None
        session.write(rows(1))
        assert session.commit().rows == 1
    assert ids(table) == [1]


def test_a_commit_after_an_abort_by_another_process_raises_an_error(
    table: Table, workers: Workers
) -> None:
    with table.open_write() as session:
        session.write(rows(1))
        workers.run("abort", session.handle)
        with pytest.raises((ConflictError, NotFoundError)) as caught:
            session.commit()
        assert "aborted" in "\n".join(explain(caught.value))
        session.abort()
    assert ids(table) == []


def test_a_session_is_committed_once(table: Table) -> None:
    with table.open_write() as session:
        session.write(rows(1))
        session.flush()
        session.commit()
        for again in (session.commit, lambda: session.write(rows(2)), session.open_stream):
            with pytest.raises(StateError, match=r"over|committed"):
                again()
    assert ids(table) == [1]


def test_leaving_the_block_without_a_commit_aborts_a_newly_opened_session(table: Table) -> None:
    without = pytest.warns(OdpsNbWarning, match=r"dropped, because .* without commit\(\)")
    with without as warned, table.open_write() as session:
        session.write(rows(1))
    assert warned[0].filename == __file__
    with pytest.raises(StateError, match="aborted"):
        table.open_write(session_id=session.session_id)
    failed = table.open_write()
    with pytest.raises(ZeroDivisionError):
        write_and_fail(failed, 1)
    with pytest.raises(StateError, match="aborted"):
        table.open_write(session_id=failed.session_id)
    assert ids(table) == []


@pytest.mark.storage_api("resumable writes")
def test_leaving_the_block_of_a_resumed_session_closes_its_streams_and_aborts_nothing(
    table: Table, service: LocalService
) -> None:
    with table.open_write() as session:
        with table.open_write(session_id=session.handle) as resumed:
            resumed.write(rows(1))
        with pytest.raises(ZeroDivisionError):
            write_and_fail(table.open_write(session_id=session.handle), 2)
        assert session.commit().streams == tuple((one, 1) for one in resumed._streams)
    assert ids(table) == [1]


def test_closing_a_connection_leaves_a_detached_session(
    table: Table, service: LocalService, workers: Workers
) -> None:
    connection = odps_nb.connect(**workers.connect)
    kept = connection.table(table.name).open_write()
    kept.write(rows(1))
    kept.flush()
    dropped = connection.table(table.name).open_write()
    dropped.write(rows(2))
    handle = kept.detach()
    connection.close()
    with pytest.raises(StateError, match="aborted"):
        table.open_write(session_id=dropped.session_id)
    resumed = table.open_write(session_id=handle)
    (name,) = kept._streams
    if by_storage_api():
        resumed.open_stream(name, resume=True).close()
    else:  # only the Storage API can resume a stream; elsewhere, a higher version replaces it
        with resumed.open_stream(name, version=2) as again:
            again.write(rows(1))
    assert resumed.commit().rows == 1
    assert ids(table) == [1]


def test_a_stream_buffers_rows_until_it_is_flushed(table: Table) -> None:
    with table.open_write() as session:
        with session.open_stream("one") as stream:
            assert [stream.write(rows(1)), stream.write(rows(2, 3))] == [1, 2]
            assert (stream.rows, stream.waiting) == (0, 3)
            assert stream.flush() == 3
            assert (stream.rows, stream.waiting) == (3, 0)
            stream.write(rows(4))
        assert (stream.closed, stream.rows) == (True, 4)
        with pytest.raises(StateError, match="closed"):
            stream.write(rows(5))
        assert session.commit().rows == 4
    assert ids(table) == [1, 2, 3, 4]


@pytest.mark.storage_api("resumable writes")
def test_a_writer_whose_stream_was_resumed_elsewhere_cannot_write(table: Table) -> None:
    with table.open_write() as session:
        first = session.open_stream("one")
        first.write(rows(1))
        first.flush()
        other = table.open_write(session_id=session.session_id)
        second = other.open_stream("one", resume=True)
        assert second.rows == 1
        first.write(rows(2))
        with pytest.raises(AccessDeniedError):
            first.flush()
        with pytest.raises(StateError, match="failed"):
            session.commit()
        second.write(rows(3))
        other.commit([second.close()])
    assert ids(table) == [1, 3]


def test_a_stream_of_a_higher_version_replaces_the_rows_of_a_failed_stream(table: Table) -> None:
    with table.open_write() as session:
        with pytest.raises(ZeroDivisionError):
            write_and_fail(session.open_stream("one"), 1)
        with pytest.raises(ArgumentError, match="already open in this session"):
            session.open_stream("one")
        with session.open_stream("one", version=2) as again:
            again.write(rows(2))
        assert session.commit().streams == (("one", 2),)
    assert ids(table) == [2]


@pytest.mark.storage_api("blobs")
def test_open_writes_support_partitions_overwrite_and_blobs(
    odps: Connection, new_name: NewName
) -> None:
    table = odps.create_table(
        new_name("days"), "id bigint, photo blob", partitioned_by="ds string, hour bigint"
    )
    table.write(pd.DataFrame({"id": [0]}), partition="ds=a,hour=1")
    with table.open_write("ds=a", overwrite="partitions") as session:
        frame = pd.DataFrame({"id": [1, 2], "photo": [b"one", None], "hour": [1, 2]})
        resumed = table.open_write(session_id=session.handle)
        with resumed.open_stream() as stream:
            stream.write(frame)
        with pytest.raises(ArgumentError, match="fixed partition levels: ds"):
            table.open_write(session_id=session.session_id)
        assert table.open_write("ds=a", session_id=session.session_id).handle.partition.items
        with pytest.raises(ArgumentError, match="the session writes to partition 'ds=a'"):
            table.open_write("ds=b", session_id=session.handle)
        session.commit()
    found = table.read().to_pandas().sort_values("id")
    assert found[["id", "ds", "hour"]].values.tolist() == [[1, "a", 1], [2, "a", 2]]
    assert odps.blob(found["photo"].iloc[0]).bytes() == b"one"


@pytest.mark.storage_api("resumable writes")
def test_incorrect_calls_of_a_session_raise_typed_errors(odps: Connection, table: Table) -> None:
    with pytest.raises((SessionExpiredError, NotFoundError)):
        table.open_write(session_id="0" * 32)
    with table.open_write() as session:
        with pytest.raises(ArgumentError, match="overwrite"):
            table.open_write(session_id=session.handle, overwrite=True)
        with pytest.raises(ArgumentError, match="the session belongs to"):
            odps.table("orders").open_write(session_id=session.handle)
        with pytest.raises(ArgumentError, match="is not the id of a write session"):
            table.open_write(session_id="no id")
        with pytest.raises(ArgumentError, match="requires stream_id"):
            session.open_stream(resume=True)
        with pytest.raises(NotFoundError):
            session.open_stream("nobody's", resume=True)
        with pytest.raises(ConversionError):
            session.write(pd.DataFrame({"id": ["text"]}))
        session.write(rows(1))
        assert session.commit().rows == 1


def test_reprs_describe_sessions_and_streams(table: Table) -> None:
    with table.open_write() as session:
        assert repr(session) == (
            f"<OpenWrite {table.name} {session.session_id}, 0 streams here, open>"
        )
        stream = session.open_stream("one")
        assert repr(stream) == "<OpenStream one version 1, 0 rows, open>"
        assert pickle.loads(pickle.dumps(session.handle)) == session.handle
        with pytest.raises(StateError, match="cannot be pickled"):
            pickle.dumps(session)
    assert repr(session).endswith("over>")
