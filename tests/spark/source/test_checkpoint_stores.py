"""A micro-batch is committed once even if its checkpoint is not in a local folder.

These tests do not run Spark, because its S3 file system is in a jar that no package index has. The
tests write Spark's own files; the sink writes its files itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec
import pyarrow as pa
import pytest
from pyarrow.fs import FSSpecHandler, LocalFileSystem, PyFileSystem, S3FileSystem

from odps_nb.client.write.session import commit_write, open_write_session
from odps_nb.client.write.stream import WriteStream
from odps_nb.errors import ConfigError
from odps_nb.spark.source.commit_log import CommitLog, Intent, _opened
from odps_nb.spark.source.stream_writer import commit_batch
from odps_nb.spark.writing.task import Written

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from odps_nb.access.connection import Connection
    from odps_nb.access.table import Table
    from odps_nb.client.write.operations import WriteSessionRef

Store = tuple["FileSystem", str, str]
"""A file system, a folder in it, and how Spark would name that folder."""


@pytest.fixture
def memory() -> Iterator[Store]:
    """An fsspec file system that pyarrow does not provide."""
    files = fsspec.filesystem("memory")
    yield PyFileSystem(FSSpecHandler(files)), "/checkpoint", "memory://checkpoint"
    files.rm("/checkpoint", recursive=True)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A bucket on an S3 server, addressed as users address it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
        for name, value in {**keys, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}.items():
            monkeypatch.setenv(name, value)
        files = S3FileSystem(
            endpoint_override=f"{host}:{port}", scheme="http", allow_bucket_creation=True
        )
        files.create_dir("bucket")
        yield files, "bucket/jobs/one", "s3a://bucket/jobs/one"
    finally:
        server.stop()


@pytest.fixture
def table(odps: Connection, new_name: Callable[[str], str]) -> Iterator[Table]:
    """An empty table."""
    made = odps.create_table(new_name("kept"), "id bigint")
    yield made
    odps.drop_table(made.name)


def plan(store: Store, *batches: int) -> None:
    """Write the files that Spark writes before it passes a micro-batch to a sink."""
    files, folder, _ = store
    files.create_dir(f"{folder}/offsets")
    for name in ("metadata", *(f"offsets/{batch}" for batch in batches)):
        with files.open_output_stream(f"{folder}/{name}") as file:
            file.write(b"v1")


def wrote(odps: Connection, table: Table, ids: list[int]) -> tuple[WriteSessionRef, Written]:
    session = open_write_session(odps._storage, table.name).ref
    with WriteStream(odps._storage, session, "0").start() as stream:
        stream.write([pa.record_batch({"id": pa.array(ids, pa.int64())})])
    return session, Written(stream=stream.close())


def check_store(store: Store, odps: Connection, table: Table) -> None:
    plan(store, 0, 1, 150, 300)
    log = CommitLog(store[2])
    assert log.find(0) is None
    # the service commits, and the driver crashes before it can record this
    first, written = wrote(odps, table, [1, 2])
    pair = (written.stream.stream_id, written.stream.version)
    log.note(0, Intent(table=str(table.name), session=first.session_id, streams=(pair,)))
    commit_write(odps._storage, first, [pair])
    again, written = wrote(odps, table, [1, 2])
    assert not log.is_done(0)
    commit_batch(odps._storage, CommitLog(store[2]), 0, again, [written])
    assert log.is_done(0)
    # and the next batch is added
    session, written = wrote(odps, table, [3])
    commit_batch(odps._storage, log, 1, session, [written])
    assert sorted(table.read().to_arrow()["id"].to_pylist()) == [1, 2, 3]
    for batch in (150, 300):
        log.note(batch, Intent(table="t", session="s", streams=()))
    assert [log.find(batch) is None for batch in (0, 1, 150, 300)] == [True, True, True, False]


@pytest.mark.storage_api("its requests")
def test_a_checkpoint_can_be_in_a_store_of_fsspec(
    memory: Store, odps: Connection, table: Table
) -> None:
    check_store(memory, odps, table)


@pytest.mark.storage_api("its requests")
@pytest.mark.nightly  # a server for S3; the fsspec store tests the same rules
@pytest.mark.filterwarnings("ignore::DeprecationWarning:(moto|botocore).*")
def test_a_checkpoint_can_be_in_a_bucket(s3: Store, odps: Connection, table: Table) -> None:
    check_store(s3, odps, table)


@pytest.mark.storage_api("its requests")
@pytest.mark.parametrize("start", ["", "file:", "file://"])
def test_a_checkpoint_is_in_the_folder_of_the_same_name(
    start: str, tmp_path: Path, odps: Connection, table: Table
) -> None:
    folder = f"{tmp_path}/a b%20c?d#e"
    check_store((LocalFileSystem(), folder, f"{start}{folder}"), odps, table)


@pytest.mark.parametrize("name", ["a b", "a%20b", "a?b#c"])
def test_a_folder_of_a_bucket_has_the_same_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert _opened(f"s3a://bucket/{name}")[1] == f"bucket/{name}"


def test_a_checkpoint_in_an_unknown_store_names_what_to_install() -> None:
    with pytest.raises(ConfigError, match="nowhere://bucket/jobs cannot be opened") as caught:
        CommitLog("nowhere://bucket/jobs")
    assert "fsspec" in str(caught.value.hint)
