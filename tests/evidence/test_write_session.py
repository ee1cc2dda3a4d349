"""Write sessions and streams of the real service: one test for each known fact.

The public sources are live tests of aliyun-odps-sdk-cpp (``table_write_test.cpp``) and of
aliyun-odps-python-sdk (``odps/maxstorage/tests``, ``odps/apis``), and code of the Java SDK.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from odps_nb.access.connection import Connection
from odps_nb.client.auth.profile import Profile
from odps_nb.client.calls.storage import StorageClient
from odps_nb.client.write.session import open_write_session
from odps_nb.errors import ConflictError, InvalidRequestError, NotFoundError
from odps_nb.terms import TableName, WriteMode
from odps_nb.wire import calls
from tests.support.named import NewName
from tests.support.service.raw_writes import Raw, Writer
from tests.support.sockets.peers import Line, Peer

Make = Callable[..., Writer]


@pytest.fixture
def make(odps: Connection, new_name: NewName) -> Make:
    def make(columns: str, partitioned_by: str | None = None, **options: Any) -> Writer:
        table = odps.create_table(new_name("ev"), columns, partitioned_by=partitioned_by, **options)
        return Writer(odps._storage, table.name)

    return make


@pytest.fixture
def plain(make: Make) -> Writer:
    return make("col1 bigint, col2 string")


@pytest.fixture
def parted(make: Make) -> Writer:
    return make("col1 bigint, col2 string", "p1 string, p2 string")


def rows(*numbers: int, **more: str) -> pa.Table:
    columns = {"col1": pa.array(numbers, pa.int64()), "col2": [f"v{n}" for n in numbers]}
    return pa.table(columns | {key: [value] * len(numbers) for key, value in more.items()})


def selected_values(odps: Connection, writer: Writer) -> list[int]:
    """The numbers that a SELECT returns, in its order."""
    return odps.sql(f"select * from {writer.table.table}").to_arrow()["col1"].to_pylist()


def test_rows_are_returned_in_the_order_written(odps: Connection, plain: Writer) -> None:
    """evidence 80, 98: TestTableWriteSimple; test_storage_api.py, several bodies and batches."""
    session = plain.begin()
    plain.stream(session)
    plain.send(session, rows(5, 4), rows(3))
    plain.send(session, rows(9))
    plain.close(session)
    plain.raw(calls.CommitWriteSession, {}, session_id=session)
    assert selected_values(odps, plain) == [5, 4, 3, 9]


@pytest.mark.parametrize("spelled", ["p1=aaa/p2=bbb", "p1=aaa,p2=bbb"])
def test_the_commit_creates_a_missing_partition(
    odps: Connection, parted: Writer, spelled: str
) -> None:
    """evidence 81, 82: TestTableWriteFullPartitioned; the comma is what pyodps sends."""
    body = {"PartialPartitionSpec": spelled, "Flags": {}}
    session = parted.raw(calls.CreateWriteSession, body)["SessionId"]
    parted.whole(session, rows(1))
    table = odps.table(parted.table)
    assert table.partitions() == []
    parted.commit(session)
    assert [str(spec) for spec in table.partitions()] == ["p1=aaa,p2=bbb"]
    assert selected_values(odps, parted) == [1]


@pytest.mark.parametrize(
    ("partition", "expected"),
    [
        ("p1=aaa/p2=bbb", ["col1", "col2"]),
        ("p1=aaa", ["col1", "col2", "p2"]),
        ("", ["col1", "col2", "p1", "p2"]),
    ],
)
def test_partition_levels_that_are_not_in_the_spec_are_the_last_columns(
    odps: Connection, parted: Writer, partition: str, expected: list[str]
) -> None:
    """evidence 83, 84: TestTableWritePartiallyPartitioned, TestTableWriteDP."""
    session = parted.begin(partition)
    schema = parted.stream(session).schema.schema
    assert [column.name for column in schema.columns] == expected
    parted.send(session, rows(1, p1="aaa", p2="bbb").select(expected))
    parted.close(session)
    parted.commit(session)
    assert [str(one) for one in odps.table(parted.table).partitions()] == ["p1=aaa,p2=bbb"]


@pytest.mark.parametrize("flag", ["true", True])
def test_an_overwrite_replaces_only_partitions_that_receive_rows(
    odps: Connection, parted: Writer, flag: object
) -> None:
    """evidence 85: TestTableWriteDPOverwrite (20 rows become 10)."""
    for number in range(2):
        session = parted.begin()
        parted.whole(session, rows(*range(10), p1="a", p2=str(number)))
        parted.commit(session)
    body = {"PartialPartitionSpec": "", "Flags": {"overwrite": flag}}
    session = parted.raw(calls.CreateWriteSession, body)["SessionId"]
    parted.whole(session, rows(100, p1="a", p2="1"))
    parted.commit(session)
    assert sorted(selected_values(odps, parted)) == [*range(10), 100]
    ours = calls.CreateWriteSession(table=parted.table, overwrite=True).encode()
    assert json.loads(ours.body or b"")["Flags"] == {"overwrite": "true"}


def test_a_missing_table_is_refused_when_the_session_is_made(odps: Connection) -> None:
    """evidence 86: TestTableNotFound."""
    name = TableName(project=odps.profile.project, table="no_such_table_of_mine")
    with pytest.raises(NotFoundError):
        Writer(odps._storage, name).begin()


@pytest.mark.parametrize("count", [0, 4096])
def test_the_declared_row_count_is_not_checked(odps: Connection, plain: Writer, count: int) -> None:
    """evidence 88: test_storage_api.py sends 4096 with ten times as many rows; pyodps sends 0."""
    session = plain.begin()
    plain.stream(session)
    plain.send(session, *(rows(*range(n * 4, n * 4 + 4)) for n in range(10)), count=count)
    plain.close(session)
    plain.commit(session)
    assert selected_values(odps, plain) == list(range(40))


def special_state(writer: Writer) -> str:
    """Write three streams: two closed versions; an open version; a closed and a newer open one."""
    session = writer.begin()
    for version in (1, 2):
        writer.whole(session, rows(10 + version), name="s1", version=version)
    writer.stream(session, "s2")
    writer.send(session, rows(21, 22), name="s2")
    writer.stream(session, "s3")
    writer.send(session, rows(31), name="s3")
    writer.whole(session, rows(32), name="s3", version=2)
    writer.stream(session, "s3", 3)
    writer.send(session, rows(33), name="s3", version=3)
    return session


def test_only_closed_streams_are_listed_and_committed(odps: Connection, plain: Writer) -> None:
    """evidence 89, 90, 93: TestTableWriteMultiStreamsWithSpecialState (2 rows of 7)."""
    session = special_state(plain)
    state = plain.raw(calls.GetWriteSession, session_id=session)
    assert state["Streams"] == {"s1": 2, "s3": 2}
    assert state["WarningMessage"] == ""
    plain.raw(calls.CommitWriteSession, {}, session_id=session)
    assert sorted(selected_values(odps, plain)) == [12, 32]


def test_the_client_checks_listed_streams_before_a_commit(odps: Connection, plain: Writer) -> None:
    """evidence 90, 91: table_write_session.cpp, Commit; no open stream is dropped silently."""
    with odps.table(plain.table).open_write() as session:
        session.write(rows(1))
        with pytest.raises(ConflictError, match="no closed stream 'elsewhere'"):
            session.commit([("elsewhere", 1)])
        session.commit()
    assert selected_values(odps, plain) == [1]


def test_a_commit_may_name_the_streams_to_commit(odps: Connection, plain: Writer) -> None:
    """evidence 92: test_commit_write_session_with_streams."""
    session = plain.begin()
    plain.whole(session, rows(1), name="a")
    plain.whole(session, rows(2), name="b")
    body = {"StreamIds": ["b"], "StreamVersions": [1]}
    plain.raw(calls.CommitWriteSession, body, session_id=session)
    assert selected_values(odps, plain) == [2]


def test_a_stream_is_found_by_the_body_or_by_the_query(plain: Writer) -> None:
    """evidence 93, 94, 95: table_write_stream.cpp; comment in pyodps' responses."""
    session = plain.begin()
    plain.stream(session)
    plain.send(session, rows(1, 2))
    named = {"session_id": session, "stream_id": "0"}
    by_query = plain.raw(calls.GetWriteStream, {}, **named)
    body = {"StreamId": "0", "StreamVersion": 1}
    by_body = plain.raw(calls.GetWriteStream, body, "StreamId", "StreamVersion", **named)
    for answer in (by_query, by_body):
        assert {"status", "Status", "recordCount", "RecordCount"} <= answer.keys()
        assert (answer["recordCount"], answer["WarningMessage"]) == (2, "")


def test_the_query_may_name_the_session_of_a_closed_stream(odps: Connection, plain: Writer) -> None:
    """evidence 96: table_write_stream.cpp sends the session empty in the body, and Flags {}."""
    session = plain.begin()
    plain.stream(session)
    plain.send(session, rows(1))
    body = {"SessionId": "", "StreamId": "0", "StreamVersion": 1, "Flags": {}}
    plain.raw(calls.CloseWriteStream, body, session_id=session, stream_id="0")
    plain.commit(session)
    assert selected_values(odps, plain) == [1]


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_rows_may_be_compressed_inside_arrow(
    odps: Connection, plain: Writer, codec: str | None
) -> None:
    """evidence 97: test_write_compressed."""
    session = plain.begin()
    plain.stream(session)
    plain.send(session, rows(*range(500)), codec=codec)
    plain.close(session)
    plain.commit(session)
    assert selected_values(odps, plain) == list(range(500))


def test_an_append_table_accepts_an_ordinary_write(odps: Connection, make: Make) -> None:
    """evidence 99: TestTableWriteAP2 (table.format.version, without transactional)."""
    writer = make("col1 bigint, col2 string", properties={"table.format.version": 2})
    session = writer.begin()
    writer.whole(session, rows(1, 2))
    writer.commit(session)
    assert selected_values(odps, writer) == [1, 2]


def test_staging_ids_are_text(plain: Writer) -> None:
    """evidence 100: TableWriteResponse of the Java SDK and of pyodps; mocks "staging-123"."""
    session = plain.begin()
    plain.stream(session)
    sent = plain.send(session, rows(1))
    assert isinstance(sent.staging_id, str)
    assert not sent.staging_id.isdigit()
    state = plain.raw(calls.GetWriteSession, session_id=session)
    assert isinstance(state["MinUncommittedStagingId"], str)
    for opaque in ("staging-123", "0x7f", "12345678901234567890123"):
        answer = calls.WriteRowsAnswer.decode(json.dumps({"StagingId": opaque}).encode(), {})
        assert answer.staging_id == opaque


def created(line: Line) -> None:
    """Respond to each action with 201 and the data that a write needs."""
    body = b'{"SessionId": "s", "StreamId": "0", "StreamVersion": 1, "Streams": {"0": 1}}'
    while line.request() is not None:
        line.answer(body, 201)


def test_the_client_accepts_any_success_status() -> None:
    """evidence 101: the Java SDK's BatchCompatibleWriteContractTest answers 201."""
    keys = {"project": "p", "access_id": "a", "access_key": "k"}
    with (
        Peer(created) as peer,
        StorageClient(Profile(endpoint=peer.url, tunnel_endpoint=peer.url, **keys)) as storage,
        open_write_session(storage, TableName(project="p", table="t")) as session,
    ):
        session.open_stream().close()
        session.commit()
    assert session.is_over


def test_stream_versions_begin_at_one_and_zero_is_accepted(odps: Connection, plain: Writer) -> None:
    """evidence 102: the manual of the Java SDK requires 1; an older class of pyodps sends 0."""
    session = plain.begin()
    plain.whole(session, rows(1), version=0)
    plain.commit(session, ("0", 0))
    assert selected_values(odps, plain) == [1]
    with open_write_session(odps._storage, plain.table) as ours:
        assert ours.open_stream().version == 1


@pytest.mark.parametrize("closed", [False, True])
def test_a_stream_version_that_is_written_again_is_stored_once(
    odps: Connection, plain: Writer, closed: bool
) -> None:
    """evidence 212: manual of the Java SDK, storage-api/write.md, tip on idempotent retries."""
    session = plain.begin()
    plain.stream(session)
    plain.send(session, rows(1, 2))
    if closed:
        plain.close(session)
    plain.stream(session)
    plain.send(session, rows(1, 2))
    plain.send(session, rows(3))
    plain.close(session)
    plain.commit(session)
    assert selected_values(odps, plain) == [1, 2, 3]


def test_streamed_rows_stay_visible_when_their_stream_is_created_again(
    odps: Connection, plain: Writer
) -> None:
    """evidence 212 concerns batches only: a stream of the streaming mode has nothing to drop."""
    for number in (1, 2):
        again = {"session_id": "default", "stream_id": "default"}
        plain.call(calls.CreateWriteStream, **again, write_mode=WriteMode.STREAMING)
        plain.send("default", rows(number), name="default")
    assert selected_values(odps, plain) == [1, 2]


def test_streaming_needs_no_session_and_no_commit(odps: Connection, plain: Writer) -> None:
    """evidence 104: MaxStorageStreamWriter of the Java SDK; its manual."""
    plain.call(
        calls.CreateWriteStream,
        session_id="default",
        stream_id="default",
        write_mode=WriteMode.STREAMING,
    )
    plain.send("default", rows(1), name="default")
    assert selected_values(odps, plain) == [1]


@pytest.mark.parametrize(
    "wrong",
    [
        pa.table({"col1": ["text"], "col2": ["x"]}),
        pa.table({"col1": [1]}),
        pa.table({"col1": [1], "col2": ["x"], "col3": ["y"]}),
        pa.table({"col1": [1], "col2": ["x"], "p2": ["bbb"]}),
    ],
    ids=["text for a bigint", "too few", "too many", "a partition beside a full spec"],
)
def test_rows_with_other_columns_or_types_are_refused(
    odps: Connection, parted: Writer, wrong: pa.Table
) -> None:
    """evidence 105: test_write_rows_with_partition_by_diff_schema_neg1 (older protocol)."""
    session = parted.begin("p1=aaa/p2=bbb")
    parted.stream(session)
    with pytest.raises((InvalidRequestError, ConflictError)):
        parted.send(session, wrong)
    parted.close(session)
    parted.commit(session)
    assert selected_values(odps, parted) == []


def test_columns_are_matched_by_name_or_position(odps: Connection, parted: Writer) -> None:
    """evidence 106: test_write_rows_without_partition_by_diff_schema_neg1 (older protocol)."""
    session = parted.begin("p1=aaa")
    parted.whole(session, pa.table({"col1": [1], "col2": ["x"], "e": ["by order"]}), name="a")
    parted.whole(session, pa.table({"p2": ["by name"], "COL2": ["y"], "col1": [2]}), name="b")
    parted.stream(session, "c")
    with pytest.raises(ConflictError, match="'p2'"):
        parted.send(session, pa.table({"col1": [1], "col2": ["x"]}), name="c")
    parted.commit(session)
    table = odps.sql(f"select * from {parted.table.table}").to_arrow().sort_by("col1")
    assert table["p2"].to_pylist() == ["by order", "by name"]


def test_a_write_session_is_identified_by_its_id_alone(odps: Connection, plain: Writer) -> None:
    """evidence 103: pyodps' manual, writing from several processes (more: test_open_write)."""
    session = plain.begin()
    plain.whole(session, rows(1), name="worker-1")
    odps.table(plain.table).open_write(session_id=session).commit()
    assert selected_values(odps, plain) == [1]
    assert odps._storage.call(Raw(calls.GetWriteSession(table=plain.table, session_id=session)))
