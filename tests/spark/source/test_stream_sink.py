"""Micro-batches are committed once, whichever process dies; tests call the sink as Spark does."""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import LongType, StructType

import odps_nb.spark
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.write.session import abort_write, commit_write, fetch_write_status
from odps_nb.errors import ArgumentError, ConfigError, ConversionError, StateError
from odps_nb.spark.source import stream_writer
from odps_nb.spark.source.commit_log import CommitLog, Intent
from odps_nb.spark.source.data_source import OdpsDataSource
from odps_nb.spark.source.stream_writer import OdpsStreamWriter
from tests.support.service.services import by_storage_api
from tests.support.spark.altering import Altering

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.access.table import Table
    from odps_nb.client.auth.profile import Profile

SCHEMA = StructType().add("id", LongType())
Messages = list[WriterCommitMessage | None]


class Query:
    """A streaming query as a sink sees it: each step runs in a different Spark process."""

    def __init__(self, options: dict[str, str], checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self._options = {**options, "checkpointLocation": str(checkpoint)}
        (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
        (checkpoint / "metadata").write_text('{"id":"query"}')

    def plan(self, batch: int) -> None:
        (self.checkpoint / "offsets" / str(batch)).write_text(f"v1\n{batch}")

    def writer(self, *, overwrite: bool = False) -> OdpsStreamWriter:
        made = OdpsDataSource(dict(self._options)).streamWriter(SCHEMA, overwrite)
        assert isinstance(made, OdpsStreamWriter)
        return made

    def write(self, *partitions: list[int], overwrite: bool = False) -> Messages:
        planned = self.writer(overwrite=overwrite)
        tasks = [pickle.dumps(planned) for _ in partitions]
        messages = []
        for number, (task, ids) in enumerate(zip(tasks, partitions, strict=True)):
            copy = pickle.loads(task)
            written = stream_writer.write_partition(copy._task, batches(ids), f"part-{number}")
            messages.append(stream_writer._Message(copy._task.session, written))
        return pickle.loads(pickle.dumps(messages))

    def commit(self, messages: Messages, batch: int, *, overwrite: bool = False) -> None:
        self.writer(overwrite=overwrite).commit(messages, batch)

    @property
    def log(self) -> CommitLog:
        return CommitLog(str(self.checkpoint))


def ended(status: str) -> str:
    """Return the status of an ended session, which is unknown without the Storage API."""
    return status if by_storage_api() else ""


def batches(ids: list[int]) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def table(odps: Connection, new_name: Callable[[str], str]) -> Table:
    """An empty table."""
    return odps.create_table(new_name("sunk"), "id bigint")


@pytest.fixture
def query(odps: Connection, table: Table, tmp_path: Path) -> Query:
    """A query into `table` whose micro-batch 0 is planned."""
    made = Query({**odps_nb.spark.options(odps), "table": str(table.name)}, tmp_path / "checkpoint")
    made.plan(0)
    return made


@pytest.fixture
def storage(odps: Connection) -> Iterator[StorageClient]:
    """A client of the service."""
    with StorageClient(odps.profile) as client:
        yield client


def ids(table: Table) -> list[int]:
    return sorted(table.read().to_arrow().column("id").to_pylist())


def session_of(messages: Messages) -> Any:
    return messages[0].session  # type: ignore[union-attr]


def test_each_micro_batch_is_stored_once(query: Query, table: Table) -> None:
    query.commit(query.write([1, 2], [], [3]), 0)
    assert ids(table) == [1, 2, 3]
    query.plan(1)
    query.commit(query.write([4]), 1)
    assert ids(table) == [1, 2, 3, 4]


def test_a_crash_before_the_commit_is_recorded_stores_no_rows(query: Query, table: Table) -> None:
    query.write([1])
    assert ids(table) == []
    query.commit(query.write([1]), 0)
    assert ids(table) == [1]


def test_after_a_crash_a_recorded_commit_is_completed_and_the_new_rows_are_dropped(
    query: Query, table: Table, storage: StorageClient
) -> None:
    first, second = query.write([1]), query.write([1])
    query.log.note(0, intent_of(first, table))
    query.commit(second, 0)
    assert ids(table) == [1]
    assert fetch_write_status(storage, session_of(first)) == ended("COMMITTED")
    assert fetch_write_status(storage, session_of(second)) == ended("ABORTED")


def test_a_crash_after_the_commit_repeats_no_rows(
    query: Query, table: Table, storage: StorageClient
) -> None:
    first = query.write([1])
    intent = intent_of(first, table)
    query.log.note(0, intent)
    commit_write(storage, session_of(first), intent.streams)
    second = query.write([1])
    query.commit(second, 0)
    assert ids(table) == [1]
    assert fetch_write_status(storage, session_of(second)) == ended("ABORTED")


def test_a_crash_before_spark_records_the_batch_repeats_no_rows(query: Query, table: Table) -> None:
    query.commit(query.write([1]), 0)
    query.commit(query.write([1]), 0)
    messages = query.write([1])
    query.commit(messages, 0)
    query.commit(messages, 0)
    assert ids(table) == [1]


@pytest.mark.storage_api("its requests")
def test_the_rows_of_a_recorded_commit_are_written_again_if_its_session_was_aborted(
    query: Query, table: Table, storage: StorageClient
) -> None:
    first = query.write([1])
    query.log.note(0, intent_of(first, table))
    abort_write(storage, session_of(first))
    query.commit(query.write([1]), 0)
    assert ids(table) == [1]
    query.commit(query.write([1]), 0)
    assert ids(table) == [1]


def test_an_unknown_outcome_raises_an_error_with_two_remedies(query: Query, table: Table) -> None:
    query.log.note(0, Intent(table=str(table.name), session="never-was", streams=(("0", 1),)))
    again = query.write([1])
    with pytest.raises(StateError, match="may already be in") as caught:
        query.commit(again, 0)
    assert ids(table) == []
    done, noted = query.log.path(0, "done"), query.log.path(0)
    assert done in str(caught.value.hint)
    assert noted in str(caught.value.hint)
    Path(done).touch()
    query.commit(query.write([1]), 0)
    assert ids(table) == []
    Path(done).unlink()
    Path(noted).unlink()
    query.commit(query.write([1]), 0)
    assert ids(table) == [1]


@pytest.mark.storage_api("its requests")
def test_a_commit_whose_response_is_lost_takes_effect_once(
    query: Query, table: Table, profile: Profile
) -> None:
    lost = []

    def lose_one(action: str, status: int, body: bytes) -> tuple[int, bytes]:
        if action == "TableCommitWriteSession" and not lost:
            lost.append(action)
            return 502, b"lost"
        return status, body

    with Altering(profile.tunnel_endpoint or "", lose_one) as between:
        query._options["tunnel_endpoint"] = between.url
        query.commit(query.write([1]), 0)
    assert (lost, ids(table)) == (["TableCommitWriteSession"], [1])


def test_commits_of_an_earlier_checkpoint_in_a_folder_are_ignored(
    query: Query, table: Table
) -> None:
    query.commit(query.write([1]), 0)
    (query.checkpoint / "offsets" / "0").write_text("v1\nplanned anew")
    query.commit(query.write([2]), 0)
    assert ids(table) == [1, 2]


def test_micro_batches_without_rows_create_no_version(query: Query, table: Table) -> None:
    messages = query.write([], [])
    query.commit(messages, 0)
    assert query.log.find(0) is None
    assert table.read().latest_version == 0


def test_complete_mode_replaces_the_table_even_without_rows(query: Query, table: Table) -> None:
    query.commit(query.write([1, 2], overwrite=True), 0, overwrite=True)
    query.plan(1)
    query.commit(query.write([3], overwrite=True), 1, overwrite=True)
    assert ids(table) == [3]
    query.plan(2)
    query.commit(query.write([], overwrite=True), 2, overwrite=True)
    assert ids(table) == []


def test_a_micro_batch_of_too_many_partitions_is_dropped(
    query: Query, table: Table, storage: StorageClient
) -> None:
    (message,) = query.write([1])
    assert isinstance(message, stream_writer._Message)
    assert message.written is not None
    many = replace(message.written, partitions=tuple(f"ds={day}" for day in range(513)))
    with pytest.raises(ArgumentError, match="more than 512 partitions"):
        query.commit([replace(message, written=many)], 0)
    assert ids(table) == []
    assert fetch_write_status(storage, message.session) == ended("ABORTED")


def test_an_abort_keeps_a_session_whose_tasks_all_succeeded(
    query: Query, table: Table, storage: StorageClient
) -> None:
    failed, doubtful = query.write([1]), query.write([2])
    query.writer().abort([*failed, None], 0)
    assert fetch_write_status(storage, session_of(failed)) == ended("ABORTED")
    query.writer().abort(doubtful, 0)
    assert fetch_write_status(storage, session_of(doubtful)) == "NORMAL"
    query.writer().abort([None], 0)


def test_rows_are_accepted_if_spark_passes_no_batches(
    query: Query, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_writer, "TAKES_ARROW", False)  # as with PySpark 4.0
    task = pickle.loads(pickle.dumps(query.writer()))
    query.commit([task.write(iter([Row(id=1), Row(id=None)]))], 0)
    assert table.read().to_arrow().column("id").to_pylist() == [1, None]


def test_columns_are_checked_before_a_task_runs(
    odps: Connection, table: Table, tmp_path: Path
) -> None:
    given = {**odps_nb.spark.options(odps), "table": str(table.name)}
    given["checkpointLocation"] = str(tmp_path)
    writer = OdpsDataSource(given).streamWriter(StructType().add("other", LongType()), False)
    with pytest.raises(ConversionError, match="other"):
        pickle.dumps(writer)


def test_a_stream_needs_the_option_for_its_checkpoint(odps: Connection, table: Table) -> None:
    given = {**odps_nb.spark.options(odps), "table": str(table.name)}
    with pytest.raises(ConfigError, match="has no checkpointLocation option"):
        OdpsDataSource(given).streamWriter(SCHEMA, False)


def test_a_checkpoint_that_cannot_be_read_raises_an_error(query: Query) -> None:
    messages = query.write([1])
    with pytest.raises(ConfigError, match="the driver cannot read offsets/7") as caught:
        query.commit(messages, 7)
    assert "hdfs://" in str(caught.value.hint)
    with pytest.raises(ConfigError, match="cannot be opened"):
        CommitLog("wasb://container/checkpoint")


def test_a_checkpoint_of_another_table_is_refused(query: Query, table: Table) -> None:
    query.log.note(0, Intent(table="demo.other", session="s", streams=(("0", 1),)))
    with pytest.raises(ConfigError, match="belongs to a stream that writes to demo"):
        query.commit(query.write([1]), 0)


def test_a_damaged_commit_file_raises_an_error(query: Query) -> None:
    query.log.note(0, Intent(table="t", session="s", streams=()))
    Path(query.log.path(0)).write_text("{")
    with pytest.raises(StateError, match="is damaged"):
        query.log.find(0)


def test_old_commit_files_are_deleted(query: Query) -> None:
    intent = Intent(table="t", session="s", streams=(("0", 1),))
    for batch in (1, 150, 199, 200, 300):
        query.plan(batch)
        query.log.note(batch, intent)
        query.log.note_done(batch)
    names = sorted(path.name.split("-")[0] for path in (query.checkpoint / "odps_nb").iterdir())
    assert names == ["200", "200", "300", "300"]
    assert query.log.find(200) == intent


def test_two_drivers_of_one_micro_batch_commit_it_once(query: Query, table: Table) -> None:
    """The second driver has written its rows and found no record when the first one commits."""
    slow, fast = query.write([1, 2]), query.write([1, 2])
    found = query.log.find(0)
    query.commit(fast, 0)
    mine = intent_of(slow, table)
    with pytest.raises(StateError, match="another driver is writing micro-batch 0"):
        query.log.note(0, mine, instead_of=found)
    query.commit(slow, 0)  # as Spark does: the first driver's commit is found
    assert sorted(table.read().to_arrow()["id"].to_pylist()) == [1, 2]
    assert not list((query.checkpoint / "odps_nb").glob(".*.tmp"))


def test_a_driver_that_finds_another_record_aborts_its_session(
    query: Query, table: Table, storage: StorageClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fast = query.write([1, 2]), query.write([1, 2])
    query.commit(fast, 0)
    answers, find = iter([None]), CommitLog.find  # slow has found no record before fast wrote it
    monkeypatch.setattr(CommitLog, "find", lambda log, batch: next(answers, find(log, batch)))
    with pytest.raises(StateError, match="another driver"):
        query.commit(slow, 0)
    assert fetch_write_status(storage, session_of(slow)) == ended("ABORTED")
    assert ids(table) == [1, 2]


def test_a_checkpoint_that_cannot_be_opened_is_reported_before_rows_are_sent(
    query: Query,
) -> None:
    writer = OdpsDataSource({**query._options, "checkpointLocation": "nowhere://x"}).streamWriter(
        SCHEMA, overwrite=False
    )
    with pytest.raises(ConfigError, match="nowhere://x cannot be opened"):
        pickle.dumps(writer)


def test_a_checkpoint_works_on_a_disk_without_hard_links(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    mine, other = (Intent(table="t", session=name, streams=()) for name in ("mine", "other"))
    query.log.note(0, mine)
    with pytest.raises(StateError, match="another driver"):
        query.log.note(0, other)
    assert query.log.find(0) == mine
    assert not list((query.checkpoint / "odps_nb").glob(".*.tmp"))


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_a_checkpoint_is_a_path_or_a_uri(query: Query, prefix: str) -> None:
    log = CommitLog(prefix + str(query.checkpoint))
    log.note(0, Intent(table="t", session="s", streams=()))
    assert query.log.find(0) is not None


def intent_of(messages: Messages, table: Table) -> Intent:
    streams = tuple(
        (message.written.stream.stream_id, message.written.stream.version)  # type: ignore[union-attr]
        for message in messages
    )
    return Intent(table=str(table.name), session=session_of(messages).session_id, streams=streams)
