"""Version 1 of the Storage API, over sockets."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from odps_nb.errors import ConflictError, InvalidRequestError, NotFoundError, SessionExpiredError
from odps_nb.terms import (
    Compression,
    IndexSplit,
    PartitionSpec,
    RowRangeSplit,
    SessionStatus,
    SplitMode,
)
from odps_nb.wire.calls import (
    CreateReadSession,
    CreateWriteSession,
    GetReadSession,
    GetWriteSession,
    ReadRows,
)
from odps_nb.wire.calls.v1 import CommitBlocks, WriteBlock, decode_answer, encode_v1
from tests.support.arrow_bodies import ipc
from tests.support.named import NewTable
from tests.support.service.peer import Peer

ROWS = pa.table({"id": range(10), "note": [None, *"abcdefghi"]})


class V1:
    """A client of version 1 for one table."""

    def __init__(self, peer: Peer, table: str) -> None:
        self.peer, self.name, self.table = peer, table, peer.table(table)

    def call(self, request: Any, body: bytes | None = None) -> Any:
        answer = self.peer.ok(encode_v1(request), body)
        return decode_answer(request, answer.content, dict(answer.headers))

    def open(self, **options: Any) -> str:
        session: str = self.call(CreateWriteSession(table=self.table, **options)).session_id
        return session

    def put(self, session: str, rows: Any, block: int = 0, attempt: int = 0, **form: Any) -> str:
        request = WriteBlock(
            table=self.table, session_id=session, block_number=block, attempt_number=attempt
        )
        message: str = self.call(request, ipc(rows, **form)).commit_message
        return message

    def commit(self, session: str, *messages: str, **options: Any) -> Any:
        return self.call(
            CommitBlocks(table=self.table, session_id=session, messages=messages, **options)
        )

    def write(self, rows: Any, **options: Any) -> None:
        session = self.open(**options)
        self.commit(session, self.put(session, rows))

    def split(self, session_id: str, split: Any, **options: Any) -> pa.ipc.RecordBatchStreamReader:
        request = ReadRows(table=self.table, session_id=session_id, split=split, **options)
        return pa.ipc.open_stream(self.peer.ok(encode_v1(request)).content)

    def rows(self, **options: Any) -> list[dict[str, Any]]:
        made = self.call(CreateReadSession(table=self.table, **options))
        read = [self.split(made.session_id, IndexSplit(i)) for i in range(made.splits_count)]
        return [row for one in read for row in one.read_all().to_pylist()]


@pytest.fixture
def v1(peer: Peer, new_table: NewTable) -> V1:
    return V1(peer, new_table("(id bigint, note string)"))


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
def test_rows_that_were_committed_are_read(v1: V1, codec: str | None) -> None:
    session = v1.open()
    message = v1.put(session, ROWS, compression=codec)
    state = v1.call(GetWriteSession(table=v1.table, session_id=session))
    assert (state.status, state.session_id) == (SessionStatus.NORMAL, session)
    assert [column.name for column in state.schema.columns] == ["id", "note"]
    assert v1.rows() == []
    assert v1.commit(session, message).status is SessionStatus.COMMITTED
    state = v1.call(GetWriteSession(table=v1.table, session_id=session))
    assert state.status is SessionStatus.COMMITTED
    assert v1.rows() == ROWS.to_pylist()


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_commit_stores_only_the_named_attempt_of_a_block(v1: V1, kept: int) -> None:
    session = v1.open()
    attempts = [2, 0, 1]
    messages = {n: v1.put(session, ROWS.slice(n, 1), 0, n) for n in attempts}
    other = v1.put(session, ROWS.slice(5, 2), 11)
    early = v1.put(session, ROWS.slice(3, 2), 2)
    v1.put(session, ROWS, 12)  # its message is not committed
    v1.commit(session, other, messages[kept], messages[kept], early)
    assert [row["id"] for row in v1.rows()] == [kept, 3, 4, 5, 6]


def test_an_attempt_that_is_uploaded_again_has_another_message(v1: V1) -> None:
    session = v1.open()
    v1.put(session, ROWS)
    second = v1.put(session, ROWS.slice(0, 2))
    v1.commit(session, second)
    assert [row["id"] for row in v1.rows()] == [0, 1]


def test_a_commit_without_messages_stores_no_rows(v1: V1) -> None:
    v1.write(ROWS)
    session = v1.open()
    v1.put(session, ROWS)
    v1.commit(session)
    assert v1.rows() == ROWS.to_pylist()
    v1.commit(v1.open(overwrite=True))
    assert v1.rows() == []


def test_overwrite_replaces_the_rows(v1: V1) -> None:
    v1.write(ROWS)
    v1.write(ROWS.slice(0, 1))
    assert len(v1.rows()) == 11
    v1.write(ROWS.slice(0, 2), overwrite=True)
    assert len(v1.rows()) == 2


def test_messages_that_cannot_be_committed_are_refused(v1: V1) -> None:
    session, other = v1.open(), v1.open()
    messages = [v1.put(session, ROWS, 0, attempt) for attempt in (0, 1)]
    for wrong in ("?", "Zm9v", "é", v1.put(other, ROWS)):
        with pytest.raises(InvalidRequestError, match="is not a commit message of this session"):
            v1.commit(session, wrong)
    with pytest.raises(InvalidRequestError, match="name the same block"):
        v1.commit(session, *messages)
    with pytest.raises(InvalidRequestError, match="it must be 0 to 600"):
        v1.commit(session, messages[0], wait_seconds=601)
    with pytest.raises(InvalidRequestError, match="block_number is 20000; it must be less"):
        v1.put(session, ROWS, 20_000)
    v1.commit(session, messages[0], wait_seconds=600)
    assert v1.rows() == ROWS.to_pylist()


def test_a_range_of_rows_is_read_and_a_range_past_the_end_is_refused(v1: V1) -> None:
    """The text is that of issue 51 of the vendor's MaxFrame client."""
    v1.write(ROWS)
    made = v1.call(CreateReadSession(table=v1.table, split_mode=SplitMode.ROW_OFFSET))
    assert (made.record_count, made.splits_count) == (10, 0)
    assert v1.split(made.session_id, RowRangeSplit(8, 9)).read_all()["id"].to_pylist() == [8, 9]
    again = v1.call(GetReadSession(table=v1.table, session_id=made.session_id, refresh=True))
    assert (again.record_count, again.split_mode) == (10, SplitMode.ROW_OFFSET)
    with pytest.raises(InvalidRequestError, match="row_index exceeded total row count"):
        v1.split(made.session_id, RowRangeSplit(10, 1))


@pytest.mark.parametrize("codec", Compression)
def test_a_response_is_compressed_inside_the_arrow_stream(v1: V1, codec: Compression) -> None:
    rows = pa.table({"id": [7] * 9999, "note": ["x" * 40] * 9999})
    v1.write(rows)
    made = v1.call(CreateReadSession(table=v1.table))
    request = ReadRows(
        table=v1.table, session_id=made.session_id, split=IndexSplit(0), compression=codec
    )
    wire = encode_v1(request)
    answer = v1.peer.ok(wire, **{"User-Agent": "pyodps/0.13.2"})
    assert "Content-Encoding" not in answer.headers
    body = answer.raw.read(decode_content=False)
    assert (len(body) < 99_999) == (codec is not Compression.NONE)
    assert pa.ipc.open_stream(body).read_all().num_rows == 9999
    assert made.estimated_rows == 9999
    assert made.estimated_size


def test_rows_contain_partition_columns_unless_the_session_names_a_partition(
    peer: Peer, new_table: NewTable
) -> None:
    v1 = V1(peer, new_table("(id bigint) PARTITIONED BY (pt string)"))
    one = PartitionSpec.of("pt=a")
    v1.write(pa.table({"id": [1]}), partition=one)
    session = v1.call(CreateWriteSession(table=v1.table))
    assert [column.name for column in session.schema.partition_columns] == ["pt"]
    message = v1.put(session.session_id, pa.table({"id": [2, 3], "other": ["b", "c"]}))
    v1.commit(session.session_id, message)
    v1.write(pa.table({"id": [4], "pt": [10]}))  # a number in a text column
    assert [(row["id"], row["pt"]) for row in v1.rows()] == [
        (4, "10"),
        (1, "a"),
        (2, "b"),
        (3, "c"),
    ]
    assert [row["id"] for row in v1.rows(partitions=(one,))] == [1]
    with pytest.raises(ConflictError, match="has no column 'pt'"):
        v1.put(v1.open(partition=one), pa.table({"id": [1], "pt": ["a"]}))
    with pytest.raises(ConflictError, match="have no column 'pt'"):
        v1.put(v1.open(), pa.table({"id": [1]}))


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"split_number": 1}, "it must be at least 10485760 bytes"),
        ({"split_mode": SplitMode.BUCKET}, "has no buckets"),
        ({"bucket_ids": (0,)}, "does not support RequiredBucketIds"),
        ({"data_columns": ("missing",)}, "there is no column 'missing'"),
    ],
)
def test_read_sessions_refuse_the_same_requests_as_in_version_2(
    v1: V1, request_: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        v1.call(CreateReadSession(table=v1.table, **request_))


def test_sessions_belong_to_their_table(v1: V1, new_table: NewTable) -> None:
    other = V1(v1.peer, new_table("(id bigint)"))
    for request in (GetReadSession, GetWriteSession):
        with pytest.raises(SessionExpiredError):
            other.call(request(table=other.table, session_id=v1.open()))
    v1.peer.sql(f"DROP TABLE {other.name};")
    with pytest.raises(NotFoundError):
        other.open()
