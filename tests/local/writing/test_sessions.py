"""Write sessions over real sockets: streams, versions, commit, abort, overwrite, exactly once."""

from __future__ import annotations

import resource
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from odps_nb.errors import (
    AccessDeniedError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    SessionExpiredError,
)
from odps_nb.local.server.launch import start
from odps_nb.wire import calls
from odps_nb.wire.arrow_stream import END_MARKER
from tests.support.arrow_bodies import ipc
from tests.support.named import NewTable
from tests.support.service.peer import Peer, make_table


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def stored_values(peer: Peer, name: str) -> list[int]:
    return sorted(peer.read(name).column("id").to_pylist())


@pytest.fixture
def name(new_table: NewTable) -> str:
    return new_table("(id bigint)")


@pytest.fixture
def days(new_table: NewTable) -> str:
    return new_table("(id bigint) PARTITIONED BY (ds string)")


def test_committing_twice_adds_the_rows_once(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    peer.open_stream(name, session, "0")
    peer.put(name, session, "0", ids(1))
    peer.close_stream(name, session, "0")
    peer.commit(name, session)
    peer.commit(name, session)
    assert stored_values(peer, name) == [1]
    state = peer.call(calls.GetWriteSession(table=peer.table(name), session_id=session))
    assert state.status == "COMMITTED"


def test_an_aborted_session_accepts_nothing(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    peer.open_stream(name, session, "0")
    peer.put(name, session, "0", ids(1))
    peer.abort(name, session)
    peer.abort(name, session)
    for step in (
        lambda: peer.commit(name, session),
        lambda: peer.put(name, session, "0", ids(1)),
        lambda: peer.open_stream(name, session, "1"),
        lambda: peer.close_stream(name, session, "0"),
    ):
        with pytest.raises(ConflictError):
            step()
    assert stored_values(peer, name) == []


def test_a_closed_stream_accepts_no_more_rows(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    peer.open_stream(name, session, "0")
    peer.put(name, session, "0", ids(1))
    peer.close_stream(name, session, "0")
    with pytest.raises(ConflictError, match="is closed"):
        peer.put(name, session, "0", ids(2))
    peer.commit(name, session)
    assert stored_values(peer, name) == [1]


def test_a_committed_session_accepts_nothing(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    peer.open_stream(name, session, "0")
    peer.commit(name, session)
    with pytest.raises(ConflictError):
        peer.put(name, session, "0", ids(1))
    with pytest.raises(ConflictError):
        peer.abort(name, session)


def test_a_higher_version_replaces_a_stream(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    peer.open_stream(name, session, "0", 1)
    peer.put(name, session, "0", ids(1))
    peer.open_stream(name, session, "0", 2)
    with pytest.raises(ConflictError):
        peer.put(name, session, "0", ids(99), version=1)
    with pytest.raises(ConflictError):
        peer.open_stream(name, session, "0", 1)
    peer.put(name, session, "0", ids(2), version=2)
    peer.close_stream(name, session, "0", 2)
    peer.commit(name, session)
    assert stored_values(peer, name) == [2]


def test_a_commit_stores_each_named_stream_once(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    for version in (1, 2):
        peer.open_stream(name, session, "0", version)
        peer.put(name, session, "0", ids(version), version)
        peer.close_stream(name, session, "0", version)
    with pytest.raises(InvalidRequestError, match="two versions of one stream"):
        peer.commit(name, session, ("0", 1), ("0", 2))
    peer.commit(name, session, ("0", 2), ("0", 2))
    assert stored_values(peer, name) == [2]


def test_streams_are_kept_in_the_order_of_their_names(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    for stream in ("10", "2", "b", "a"):
        peer.open_stream(name, session, stream)
        peer.put(name, session, stream, ids({"10": 10, "2": 2, "b": 101, "a": 100}[stream]))
        peer.close_stream(name, session, stream)
    peer.commit(name, session)
    assert peer.read(name).column("id").to_pylist() == [2, 10, 100, 101]


def test_a_partition_needs_a_value(peer: Peer, days: str) -> None:
    for value in (None, ""):
        with pytest.raises(InvalidRequestError):
            peer.write(days, pa.table({"id": [1], "ds": pa.array([value], pa.string())}))


def test_a_partition_value_must_be_of_its_type(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(id bigint) PARTITIONED BY (h bigint)")
    peer.write(name, ids(1), partition="h=7")
    assert peer.read(name).to_pylist() == [{"id": 1, "h": 7}]
    with pytest.raises(InvalidRequestError):
        peer.write(name, ids(1), partition="h=seven")


def test_exactly_once_ignores_replays_and_refuses_gaps(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    token = peer.open_stream(name, session, "0", exactly_once=True).access_token
    assert token

    def put(offset: int, *values: int) -> int | None:
        return peer.put(name, session, "0", ids(*values), row_offset=offset, token=token).row_offset

    assert put(0, 1, 2) == 2
    assert put(0, 1, 2) == 2
    assert put(2, 3) == 3
    assert put(1, 2) == 3
    for offset, values in ((4, (5,)), (2, (3, 4))):
        with pytest.raises(ConflictError) as caught:
            put(offset, *values)
        assert caught.value.code == "RowOffsetConflict"
    peer.close_stream(name, session, "0")
    peer.commit(name, session)
    assert stored_values(peer, name) == [1, 2, 3]


def test_reopening_a_stream_returns_the_offset_and_a_new_token(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    token = peer.open_stream(name, session, "0", exactly_once=True).access_token
    peer.put(name, session, "0", ids(1, 2), row_offset=0, token=token)
    state = peer.call(
        calls.GetWriteStream(
            table=peer.table(name), session_id=session, stream_id="0", exactly_once=True
        )
    )
    assert state.row_offset == 2
    assert state.access_token != token
    for stale in (token, None):
        with pytest.raises(AccessDeniedError):
            peer.put(name, session, "0", ids(3), row_offset=2, token=stale)
    again = peer.open_stream(name, session, "0", exactly_once=True)
    assert again.row_offset == 2
    with pytest.raises(AccessDeniedError):
        peer.put(name, session, "0", ids(3), row_offset=2, token=state.access_token)
    assert (
        peer.put(name, session, "0", ids(3), row_offset=2, token=again.access_token).row_offset == 3
    )


def test_a_row_offset_needs_an_exactly_once_stream(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    peer.open_stream(name, session, "0")
    with pytest.raises(InvalidRequestError, match="not created for exactly-once"):
        peer.put(name, session, "0", ids(1), row_offset=0)


def test_unknown_sessions_streams_and_tables_are_distinguished(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    with pytest.raises(SessionExpiredError):
        peer.commit(name, "0" * 32)
    with pytest.raises(NotFoundError) as caught:
        peer.put(name, session, "nope", ids(1))
    assert caught.value.code == "NoSuchStream"
    with pytest.raises(NotFoundError) as missing:
        peer.open_write("no_such_table")
    assert missing.value.code == "NoSuchTable"


def test_columns_in_the_right_order_may_have_any_names(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint, b string)")
    for number, names in enumerate((["x", "y"], ["a", "y"], ["x", "b"])):
        row = pa.table([pa.array([number]), pa.array(["q"])], names=names)
        peer.write(name, row, overwrite=True)
        assert peer.read(name).to_pylist() == [{"a": number, "b": "q"}]
    with pytest.raises(ConflictError, match="no column 'z'"):
        peer.write(name, pa.table({"z": [1], "a": [2]}))
    with pytest.raises(InvalidRequestError, match="the column 'A' twice"):
        peer.write(name, pa.table({"a": [1], "A": [2]}))


def test_one_request_writes_to_at_most_2000_partitions_with_few_open_files() -> None:
    rows = pa.table({"id": range(2001), "ds": list(map(str, range(2001)))})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        service = start(samples=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with service:
        peer = Peer(service)
        days = make_table(peer, "(id bigint) PARTITIONED BY (ds string)")
        with pytest.raises(InvalidRequestError, match="at most 2000 partitions"):
            peer.write(days, rows)
        assert not list(Path(service.root, "work").glob("*.*"))
        peer.write(days, rows.slice(0, 300))
        assert peer.read(days).num_rows == 300
        peer.session.close()


def test_a_null_in_a_not_null_column_is_refused(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(a bigint not null, b string)")
    with pytest.raises(InvalidRequestError, match="null value into not-null column 'a'"):
        peer.write(name, pa.table({"a": pa.array([None], pa.int64()), "b": ["x"]}))


REFUSED = (
    ("tinyint", pa.array([300])),
    ("int", pa.array(["1"])),
    ("bigint", pa.array([1.5])),
    ("decimal(4,2)", pa.array([Decimal("1.234")])),
    ("char(2)", pa.array(["漢字x"])),
    ("varchar(1)", pa.array(["ab"])),
    ("datetime", pa.array([1], pa.timestamp("ns"))),
    ("array<int>", pa.array([{"a": 1}])),
    ("string", pa.array(["x" * (8 * 1024 * 1024 + 1)])),
    ("date", pa.array([datetime(2024, 1, 1)])),
    ("blob", pa.array([b"no reference"])),
    ("struct<a:int>", pa.array([{"b": 1}])),
    ("struct<a:int>", pa.array([1])),
    ("map<string,int>", pa.array([{"a": 1}])),
    ("interval_day_time", pa.array([{"a": 1}])),
    ("interval_day_time", pa.array([{"a": "x", "b": 0}])),
    ("interval_day_time", pa.array([{"a": 2**60, "b": 0}])),
)


def test_a_value_that_would_change_is_refused(peer: Peer, new_table: NewTable) -> None:
    kinds = {f"v{number}": kind for number, (kind, _) in enumerate(REFUSED)}
    name = new_table(f"({', '.join(f'{column} {kind}' for column, kind in kinds.items())})")
    session = peer.open_write(name)
    peer.open_stream(name, session, "0")
    nulls = {column: pa.nulls(1) for column in kinds}
    peer.put(name, session, "0", pa.table(nulls))
    for column, (kind, array) in zip(kinds, REFUSED, strict=True):
        said = "not a blob reference" if kind == "blob" else rf"'{column}['.]"
        with pytest.raises(InvalidRequestError, match=said):
            peer.put(name, session, "0", pa.table({**nulls, column: array}))


FITTING = (
    ("bigint", pa.array([1, None], pa.int8()), [1, None]),
    ("double", pa.array([1.5], pa.float32()), [1.5]),
    ("decimal(10,2)", pa.array([7], pa.int32()), [Decimal("7.00")]),
    ("decimal(10,3)", pa.array([Decimal("1.25")]), [Decimal("1.250")]),
    ("string", pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
    ("string", pa.array(["x"], pa.large_string()), ["x"]),
    ("binary", pa.array([b"\xff"], pa.large_binary()), [b"\xff"]),
    ("date", pa.array([date(2024, 1, 2)], pa.date64()), [date(2024, 1, 2)]),
    (
        "datetime",
        pa.array([datetime(2024, 1, 2)], pa.timestamp("us", "UTC")),
        [datetime(2024, 1, 2, tzinfo=UTC)],
    ),
    (
        "array<bigint>",
        pa.array([[1, None], None, []], pa.list_(pa.int8())),
        [[1, None], None, []],
    ),
    ("array<string>", pa.array([["a"]], pa.large_list(pa.string())), [["a"]]),
    ("struct<a:bigint,b:string>", pa.array([{"B": "x"}, None]), [{"a": None, "b": "x"}, None]),
    (
        "map<string,bigint>",
        pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
        [[("k", 1)], None],
    ),
    ("bigint", pa.nulls(2), [None, None]),
)


def test_a_value_that_fits_is_widened(peer: Peer, new_table: NewTable) -> None:
    kinds = {f"v{number}": kind for number, (kind, _, _) in enumerate(FITTING)}
    name = new_table(f"({', '.join(f'{column} {kind}' for column, kind in kinds.items())})")
    longest = max(len(array) for _, array, _ in FITTING)
    rows = {
        column: pa.concat_arrays([array, pa.nulls(longest - len(array), array.type)])
        for column, (_, array, _) in zip(kinds, FITTING, strict=True)
    }
    peer.write(name, pa.table(rows))
    read = peer.read(name)
    for column, (_, _, expected) in zip(kinds, FITTING, strict=True):
        padded = [*expected, *[None] * (longest - len(expected))]
        assert read.column(column).to_pylist() == padded, kinds[column]


def test_intervals_are_written_as_structs_and_read_as_durations(
    peer: Peer, new_table: NewTable
) -> None:
    name = new_table("(d interval_day_time, m interval_year_month)")
    struct = pa.struct([("sec", pa.int64()), ("nano", pa.int32())])
    table = pa.table(
        {
            "d": pa.array([{"sec": -1, "nano": 5}, None], struct),
            "m": pa.array([14, None], pa.int32()),
        }
    )
    peer.write(name, table)
    read = peer.read(name)
    assert read.schema.field("d").type == pa.duration("ns")
    assert read.column("d").cast(pa.int64()).to_pylist() == [-999_999_995, None]
    assert read.column("m").to_pylist() == [14, None]


def test_streaming_writes_are_visible_at_once(peer: Peer, name: str) -> None:
    peer.open_stream(name, "default", "default")
    first = peer.put(name, "default", "default", ids(1)).staging_id
    second = peer.put(name, "default", "default", ids(2)).staging_id
    assert stored_values(peer, name) == [1, 2]
    assert first is not None
    assert second is not None
    assert second > first
    assert not first.isdigit()


def damaged_bodies() -> list[bytes]:
    """Return streams with values outside of their buffers, with too large counts, or truncated."""
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 1 << 30, 4, 6)))
    text = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"abcdef")])
    batch = pa.record_batch({"id": text})
    bare = batch.schema.serialize().to_pybytes() + batch.serialize().to_pybytes()
    whole, two = ipc(ids(*range(1000)), compression="zstd"), ipc(ids(1, 2))
    at = 8 + int.from_bytes(whole[4:8], "little")
    body = at + 8 + int.from_bytes(whole[at + 4 : at + 8], "little")
    promise = whole[:body] + (1 << 40).to_bytes(8, "little") + whole[body + 8 :]
    return [
        bare + END_MARKER,
        promise,
        ipc(ids(1)).replace(b"\2\0\0\0id", b"\2\0\0\0\xff\xfe"),
        ipc(pa.table({"id": pa.nulls(1 << 24)})),
        whole[:-8],
        whole + b"x",
        b"",
        b"\xff" * 100,
        two[:-20],
        b"PAR1" + two,
        two[: len(two) // 2] + two[-8:],
    ]


def test_a_damaged_body_is_refused_and_the_service_continues(peer: Peer, name: str) -> None:
    session = peer.open_write(name)
    peer.open_stream(name, session, "0")
    for body in damaged_bodies():
        with pytest.raises(InvalidRequestError) as caught:
            peer.put(name, session, "0", ids(1), body=body)
        assert caught.value.code == "MalformedDataStream"
    peer.put(name, session, "0", ids(1))
    peer.close_stream(name, session, "0")
    peer.commit(name, session)
    assert stored_values(peer, name) == [1]
