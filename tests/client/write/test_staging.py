"""Writes by the tunnel use an upload session or a staging table, and store all rows or none."""

from __future__ import annotations

import datetime
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pytest

from odps_nb import Connection
from odps_nb.access.table import Table
from odps_nb.client.write import direct
from odps_nb.client.write.session import open_write_session
from odps_nb.client.write.staging import STEM
from odps_nb.errors import (
    ArgumentError,
    ConflictError,
    LimitExceededError,
    OdpsNbError,
    StateError,
)
from odps_nb.local.server.launch import LocalService, start
from tests.support.named import NewName
from tests.support.service.connecting import account_of, connected

Rows = list[tuple[int, str]]
PARTS = pa.table({"id": [1, 2, 3, 4], "p": ["a", "a", "b", "c"]})

JOB = """
import json, os, signal, sys
import pyarrow as pa
import odps_nb
from odps_nb.client.write.session import open_write_session

settings, table, where = json.loads(sys.argv[1])
odps = odps_nb.connect(**settings)
session = open_write_session(odps._storage, odps.table(table).name)
for number in range(3):
    stream = session.open_stream(str(number))
    stream.write([pa.record_batch({"id": [number], "p": ["p%d" % number]})])
    if number == 1 and where == "in a stream":
        stream.flush() if hasattr(stream, "flush") else None
        os.kill(os.getpid(), signal.SIGKILL)
    stream.close()
    if number == 1 and where == "between streams":
        os.kill(os.getpid(), signal.SIGKILL)
if where == "before the commit":
    os.kill(os.getpid(), signal.SIGKILL)
session.commit()
"""


@pytest.fixture(scope="module")
def service() -> Iterator[LocalService]:
    """A service with only the tunnel, and without tables of other tests."""
    with start(samples=False, options=("--services", "tunnel")) as running:
        yield running


@pytest.fixture(scope="module")
def odps(service: LocalService) -> Iterator[Connection]:
    with connected(service) as connection:
        yield connection


@pytest.fixture
def table(odps: Connection, new_name: NewName) -> Table:
    made = odps.create_table(new_name("parts"), "id bigint", partitioned_by="p string")
    return made


def rows(table: Table) -> Rows:
    found = table.read(["id", "p"]).to_arrow()
    return sorted(zip(found["id"].to_pylist(), found["p"].to_pylist(), strict=True))


def staging(odps: Connection) -> list[str]:
    return [name for name in odps.tables() if STEM in name]


@pytest.mark.parametrize("where", ["in a stream", "between streams", "before the commit", "never"])
@pytest.mark.gate(2)
def test_a_killed_write_to_several_partitions_has_all_or_no_rows(
    service: LocalService, odps: Connection, table: Table, where: str
) -> None:
    table.write(PARTS)
    before = rows(table)
    settings = account_of(service)
    told = json.dumps([settings, table.name.table, where])
    done = subprocess.run(
        [sys.executable, "-c", JOB, told], capture_output=True, text=True, timeout=100, check=False
    )
    if where == "never":
        assert done.returncode == 0, done.stderr
        assert rows(table) == sorted([*before, (0, "p0"), (1, "p1"), (2, "p2")])
        assert staging(odps) == []
    else:
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert rows(table) == before
        assert {str(one) for one in table.partitions()} == {"p=a", "p=b", "p=c"}
        for name in staging(odps):  # the service drops it after some days
            odps.drop_table(name)


@pytest.mark.parametrize("overwrite", [False, "all", "partitions"])
def test_a_committed_write_leaves_no_staging_table(
    odps: Connection, table: Table, overwrite: bool | str
) -> None:
    table.write(pa.table({"id": [9, 8], "p": ["a", "d"]}))
    receipt = table.write(PARTS, overwrite=overwrite)
    assert receipt.rows == 4
    kept = {False: [(8, "d"), (9, "a")], "all": [], "partitions": [(8, "d")]}[overwrite]
    assert rows(table) == sorted([(1, "a"), (2, "a"), (3, "b"), (4, "c"), *kept])
    assert staging(odps) == []


def test_a_write_that_fails_leaves_no_rows_and_no_staging_table(
    odps: Connection, table: Table
) -> None:
    table.write(PARTS)
    before = rows(table)

    def late() -> Iterator[dict[str, object]]:
        for number in range(50_000):
            yield {"id": number, "p": f"p{number % 3}"}
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        table.write(late())
    assert rows(table) == before
    assert staging(odps) == []


def test_an_aborted_session_leaves_no_staging_table(odps: Connection, table: Table) -> None:
    with open_write_session(odps._storage, table.name) as session:
        stream = session.open_stream()
        stream.write([pa.record_batch({"id": [1], "p": ["x"]})])
        stream.close()
        assert len(staging(odps)) == 1
    assert staging(odps) == []
    assert rows(table) == []


def test_a_statement_is_not_used_for_a_partition_that_it_would_compute(
    odps: Connection, new_name: NewName
) -> None:
    table = odps.create_table(
        new_name("auto"), "d datetime, a bigint", partitioned_by="trunc_time(d, 'day') as pt"
    )
    rows = pa.table({"d": [datetime.datetime(2024, 1, 1)], "a": [1]})
    table.write(rows)
    for overwrite in (False, True):
        with pytest.raises(ArgumentError, match="computes its partition column 'pt'"):
            table.open_write("pt=2020-05-05", overwrite=overwrite)
    table.write(rows, partition="pt=2020-05-05", overwrite=True)
    assert [str(spec) for spec in table.partitions()] == ["pt=2020-05-05", "pt=2024-01-01"]
    assert staging(odps) == []


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("before", "after", "row"),
    [
        ("v bigint, w string", "v bigint", {"v": 1, "w": "x"}),
        ("v bigint", "v bigint, w string", {"v": 1}),
        ("v timestamp", "v date", {"v": datetime.datetime(2024, 1, 1, 10)}),
        ("v struct<a:int,b:int>", "v struct<b:int,a:int>", {"v": {"a": 1, "b": 2}}),
        ("v array<bigint>", "v array<string>", {"v": [1]}),
    ],
)
def test_rows_of_a_changed_table_are_refused(
    odps: Connection, new_name: NewName, before: str, after: str, row: object, shared: bool
) -> None:
    table = odps.create_table(new_name("changed"), before)
    assert table.schema.names
    odps.drop_table(table.name)
    odps.create_table(table.name, after)

    def write() -> None:
        if not shared:
            table.write([row])
            return
        with table.open_write() as session:
            session.write([row])
            session.commit()

    with pytest.raises(ConflictError, match="have changed since its metadata") as caught:
        write()
    assert caught.value.hint == "call table.reload(), and write again"
    assert odps.table(table.name).read().row_count == 0
    assert staging(odps) == []


def test_each_version_of_a_stream_has_separate_rows(odps: Connection, table: Table) -> None:
    with table.open_write() as session:
        failed = session.open_stream("one")
        failed.write(pa.table({"id": [2], "p": ["b"]}))
        failed.flush()
        with session.open_stream("one", version=2) as kept:
            kept.write(pa.table({"id": [1], "p": ["a"]}))
        other = session.open_stream("two")
        other.write(pa.table({"id": [3], "p": ["c"]}))
        other.close()
        session.commit()
    assert rows(table) == [(1, "a"), (3, "c")]
    assert staging(odps) == []


def test_a_version_of_a_stream_that_is_written_twice_has_its_rows_once(
    odps: Connection, service: LocalService, table: Table
) -> None:
    """A process that crashed after closing a stream, for example, writes the stream again."""
    session, receipts = table.open_write(), []
    for _ in range(2):
        with connected(service) as other:
            again = other.table(table.name.table).open_write(session_id=session.handle)
            with again.open_stream("one") as stream:
                stream.write(PARTS)
            receipts.append(stream.close())
    session.commit(receipts[-1:])
    assert rows(table) == [(1, "a"), (2, "a"), (3, "b"), (4, "c")]
    assert staging(odps) == []


def test_an_upsert_and_a_deletion_leave_no_staging_table(
    odps: Connection, new_name: NewName
) -> None:
    table = odps.create_table(new_name("keyed"), "id bigint, p string", primary_key="id")
    table.upsert(PARTS)
    table.upsert(pa.table({"id": [2, 9], "p": ["new", "z"]}))
    table.delete(pa.table({"id": [1]}))
    assert rows(table) == [(2, "new"), (3, "b"), (4, "c"), (9, "z")]
    assert staging(odps) == []


def test_a_failed_statement_leaves_everything_unchanged(odps: Connection, table: Table) -> None:
    """The table is dropped between the upload and the commit."""
    with ExitStack() as stack:
        session = stack.enter_context(open_write_session(odps._storage, table.name))
        stream = session.open_stream()
        stream.write([pa.record_batch({"id": [1], "p": ["x"]})])
        stream.close()
        odps.drop_table(table.name)
        with pytest.raises(OdpsNbError):
            session.commit()
    assert staging(odps) == []
    odps.create_table(table.name, "id bigint", partitioned_by="p string")
    assert rows(table) == []


def test_a_commit_in_doubt_keeps_the_staging_table(
    odps: Connection, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statement may still be running."""

    def lost(*_: object, **__: object) -> None:
        error = OdpsNbError("the outcome is unknown")
        error.in_doubt = True
        raise error

    def run() -> None:
        with open_write_session(odps._storage, table.name) as session:
            stream = session.open_stream()
            stream.write([pa.record_batch({"id": [1], "p": ["x"]})])
            stream.close()
            monkeypatch.setattr("odps_nb.client.write.staging.run_sql", lost)
            session.commit()

    with pytest.raises(OdpsNbError, match="unknown") as caught:
        run()
    (name,), (note,) = staging(odps), caught.value.notes
    assert re.search(rf"the staging table \S+{name} remains for 3 days", note)
    odps.drop_table(name)


# -- upload sessions ------------------------------------------------------------------------------


def plain(odps: Connection, new_name: NewName) -> Table:
    return odps.create_table(new_name("plain"), "id bigint")


def ids(table: Table) -> list[int]:
    return sorted(table.read().to_arrow()["id"].to_pylist())


def test_a_commit_names_every_stream_that_has_sent_rows(
    odps: Connection, new_name: NewName
) -> None:
    table = plain(odps, new_name)
    with open_write_session(odps._storage, table.name) as session:
        receipts = []
        for number in range(2):
            with session.open_stream(str(number)) as stream:
                stream.write([pa.record_batch({"id": [number]})])
            receipts.append(stream.close())
        with pytest.raises(StateError, match="stream 1 has sent rows, but is not part"):
            session.commit(receipts[:1])
        with pytest.raises(StateError, match="a stream of another session"):
            session.commit([*receipts, ("2", 1)])
        assert ids(table) == []
        session.commit(receipts)
    assert ids(table) == [0, 1]


def test_a_write_of_too_many_blocks_is_refused(
    odps: Connection, new_name: NewName, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = plain(odps, new_name)
    monkeypatch.setattr(direct, "MAX_BLOCKS", 2)

    def run() -> None:
        with open_write_session(odps._storage, table.name, part_bytes=80) as session:
            with session.open_stream() as stream:
                stream.write([pa.record_batch({"id": list(range(30))})])
            session.commit()

    with pytest.raises(LimitExceededError, match="more than 2 parts"):
        run()
    assert ids(table) == []
