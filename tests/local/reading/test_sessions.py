"""Read sessions over real sockets: splits, row ranges, columns, filters, snapshots."""

from __future__ import annotations

import pyarrow as pa
import pytest
import requests

from odps_nb.errors import InvalidRequestError, SessionExpiredError
from odps_nb.local.server.launch import LocalService
from odps_nb.terms import (
    Compression,
    IndexSplit,
    RowRangeSplit,
    SplitMode,
)
from odps_nb.wire import calls
from odps_nb.wire.arrow_stream import END_MARKER
from tests.support.named import NewTable
from tests.support.service.peer import Peer, make_table

ROWS = pa.table({"id": pa.array(range(10_000)), "note": [f"note {i}" for i in range(10_000)]})
ONE_GROUP = 64 * 1024


def plain_of(peer: Peer) -> str:
    name = make_table(peer, "(id bigint, note string)")
    peer.write(name, ROWS)
    return name


@pytest.fixture(scope="module")
def plain(bare: LocalService) -> str:
    """A table that no test changes."""
    return plain_of(Peer(bare))


@pytest.fixture
def changing(peer: Peer) -> str:
    return plain_of(peer)


@pytest.fixture(scope="module")
def fine_plain(_fine: LocalService) -> str:
    return plain_of(Peer(_fine))


def days_of(peer: Peer) -> str:
    name = make_table(peer, "(id bigint, note string) PARTITIONED BY (ds string, h bigint)")
    for day in ("a", "b"):
        for hour in (1, 2):
            peer.write(name, ROWS.slice(0, 100), partition=f"ds={day},h={hour}")
    return name


@pytest.fixture(scope="module")
def days(bare: LocalService) -> str:
    """A table that no test changes."""
    return days_of(Peer(bare))


@pytest.mark.gate(1)
@pytest.mark.parametrize("size", [5_000, 20_000, 10**9])
def test_splits_by_size_cover_the_table(fine: Peer, fine_plain: str, size: int) -> None:
    session = fine.open_read(fine_plain, split_mode=SplitMode.SIZE, split_number=size)
    parts = [
        fine.split(fine_plain, session.session_id, IndexSplit(i))
        for i in range(session.splits_count)
    ]
    assert pa.concat_tables(parts).equals(ROWS)
    assert (session.splits_count == 1) == (size == 10**9)


def test_splits_by_number_have_the_requested_number(peer: Peer, plain: str) -> None:
    read = peer.open_read(plain, split_mode=SplitMode.PARALLELISM, split_number=7)
    assert read.splits_count == 7
    assert peer.read(plain, split_mode=SplitMode.PARALLELISM, split_number=7).equals(ROWS)


def test_an_index_out_of_range_is_refused(peer: Peer, plain: str) -> None:
    session = peer.open_read(plain)
    with pytest.raises(InvalidRequestError, match="no split 1; the session has 1"):
        peer.split(plain, session.session_id, IndexSplit(session.splits_count))


def test_a_row_range_of_a_session_by_size_with_a_filter_is_refused(peer: Peer, plain: str) -> None:
    session = peer.open_read(plain, filter_predicate="id > 0").session_id
    with pytest.raises(InvalidRequestError, match="row ranges of a session with a filter"):
        peer.split(plain, session, RowRangeSplit(0, 1))


def test_a_split_may_be_restricted_to_one_partition(peer: Peer, days: str) -> None:
    assert peer.open_read(days).splits_count == 1
    assert peer.open_read(days, cross_partition=False).splits_count == 4


def test_skipped_rows_are_omitted_at_the_start_of_a_split(peer: Peer, plain: str) -> None:
    session = peer.open_read(plain, split_mode=SplitMode.PARALLELISM, split_number=2)
    whole = peer.split(plain, session.session_id, IndexSplit(1))
    assert peer.split(plain, session.session_id, IndexSplit(1), skip_rows=3).equals(whole[3:])
    assert peer.split(plain, session.session_id, IndexSplit(1), skip_rows=99_999).num_rows == 0
    by_range = peer.open_read(plain, split_mode=SplitMode.ROW_OFFSET)
    rest = peer.split(plain, by_range.session_id, RowRangeSplit(10, 10), skip_rows=4)
    assert rest.column("id").to_pylist() == list(range(14, 20))


def test_batches_have_at_most_the_requested_rows_and_bytes(peer: Peer, changing: str) -> None:
    wide = pa.table({"id": range(100), "note": ["x" * 50_000] * 100})
    peer.write(changing, wide, overwrite=True)
    session = peer.open_read(changing)
    request = calls.ReadRows(
        table=peer.table(changing),
        session_id=session.session_id,
        split=IndexSplit(0),
        max_batch_rows=50,
        max_batch_raw_size=2**20,
    )
    batches = list(pa.ipc.open_stream(peer.ok(request.encode()).content))
    assert pa.Table.from_batches(batches).equals(wide)
    assert all(0 < batch.num_rows <= 50 and batch.nbytes <= 2**20 for batch in batches)
    assert max(batch.num_rows for batch in batches) < 20  # limited by bytes, not rows


def test_columns_are_returned_in_the_requested_order(peer: Peer, days: str) -> None:
    session = peer.open_read(days, data_columns=("note", "id"), partition_columns=("h",))
    read = peer.split(days, session.session_id, IndexSplit(0))
    assert session.schema.names == tuple(read.column_names) == ("note", "id", "h")
    some = peer.split(days, session.session_id, IndexSplit(0), data_columns=("h", "note"))
    assert some.column_names == ["h", "note"]


@pytest.mark.parametrize("key", ["h - 1", "h = 2"])
def test_a_partition_column_may_be_compared_with_a_number(peer: Peer, days: str, key: str) -> None:
    read = peer.read(days, split_mode=SplitMode.SIZE, filter_predicate=f"{key} and id >= 0")
    assert set(read.column("h").to_pylist()) == {2}


def test_the_error_names_an_unknown_column(peer: Peer, plain: str) -> None:
    with pytest.raises(InvalidRequestError, match="'nope'"):
        peer.open_read(plain, data_columns=("nope",))
    with pytest.raises(InvalidRequestError, match="'id' is not a partition column"):
        peer.open_read(plain, partition_columns=("id",))


@pytest.mark.parametrize("mode", [SplitMode.SIZE, SplitMode.ROW_OFFSET])
def test_a_filter_keeps_exactly_the_matching_blocks(
    fine: Peer, fine_plain: str, mode: SplitMode
) -> None:
    condition = "id % 7 = 3 AND note <> 'note 10'"
    read = fine.read(fine_plain, split_mode=mode, filter_predicate=condition)
    expected = [i for i in range(10_000) if i % 7 == 3 and i != 10]
    assert read.column("id").to_pylist() == expected


def test_row_ranges_of_a_filtered_session_can_count_only_matching_rows(fine: Peer) -> None:
    days = days_of(fine)
    session = fine.open_read(
        days, split_mode=SplitMode.ROW_OFFSET, filter_predicate="id % 10 = 0 and h = 2"
    )
    assert session.record_count == 20
    for offset, count in ((0, 20), (7, 5), (19, 1), (20, 1)):
        read = fine.split(days, session.session_id, RowRangeSplit(offset, count))
        expected = [i * 10 for i in range(10)] * 2
        assert read.column("id").to_pylist() == expected[offset : offset + count]


def test_a_row_on_which_a_filter_fails_is_reported(peer: Peer, new_table: NewTable) -> None:
    name = new_table("(id bigint, note string)")
    peer.write(name, pa.table({"id": [1, 2], "note": ["1", "not a number"]}))
    session = peer.open_read(name, filter_predicate="note > 1")
    for options in ({}, {"compression": Compression.ZSTD}):
        with pytest.raises(InvalidRequestError, match="'not a number'") as caught:
            peer.split(name, session.session_id, IndexSplit(0), **options)
        assert (caught.value.status, caught.value.code) == (400, "InvalidArgument")
        assert caught.value.request_id


def test_a_late_error_in_a_filter_breaks_the_response_and_the_resumed_request_names_the_value(
    peer: Peer, new_table: NewTable
) -> None:
    name = new_table("(id bigint, note string)")
    notes = [f"{i:0200d}" for i in range(ONE_GROUP)]
    peer.write(name, pa.table({"id": range(ONE_GROUP + 1), "note": [*notes, "not a number"]}))
    session = peer.open_read(name, filter_predicate="cast(note as decimal(38,0)) >= 0 or note > 1")
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        peer.split(name, session.session_id, IndexSplit(0))
    with pytest.raises(InvalidRequestError, match="'not a number'"):
        peer.split(name, session.session_id, IndexSplit(0), skip_rows=ONE_GROUP)


def test_a_read_session_is_a_snapshot_of_the_table(peer: Peer, changing: str) -> None:
    session = peer.open_read(changing, split_mode=SplitMode.ROW_OFFSET)
    peer.write(changing, ROWS.slice(0, 5), overwrite=True)
    read = peer.split(changing, session.session_id, RowRangeSplit(0, 10_000))
    assert read.equals(ROWS)
    assert peer.read(changing).num_rows == 5
    peer.sql(f"DROP TABLE {changing};")
    assert peer.split(changing, session.session_id, RowRangeSplit(0, 10_000)).equals(ROWS)


def test_an_unknown_session_is_refused(peer: Peer, plain: str, days: str) -> None:
    session = peer.open_read(plain)
    for name, session_id in ((plain, "f" * 32), (days, session.session_id)):
        with pytest.raises(SessionExpiredError):
            peer.split(name, session_id, IndexSplit(0))


@pytest.mark.parametrize("coding", [Compression.ZSTD, Compression.LZ4])
def test_odps_nb_compresses_inside_the_arrow_stream_and_maxstorage_compresses_the_body(
    peer: Peer, plain: str, coding: Compression
) -> None:
    session = peer.open_read(plain)
    request = calls.ReadRows(
        table=peer.table(plain),
        session_id=session.session_id,
        split=IndexSplit(0),
        compression=coding,
    )
    ours = peer.ok(request.encode())
    assert "Content-Encoding" not in ours.headers
    assert pa.ipc.open_stream(ours.content).read_all().equals(ROWS)
    theirs = peer.ok(request.encode(), **{"User-Agent": "pyodps/0.13.2 CPython/3.11"})
    assert theirs.headers["Content-Encoding"] in ("zstd", "x-lz4-frame")
    raw = theirs.raw.read(decode_content=False)
    assert raw[:4] != b"\xff\xff\xff\xff"
    assert len(raw) < len(ROWS.to_batches()[0].serialize())


def test_an_empty_stream_ends_with_the_end_marker(peer: Peer, plain: str) -> None:
    session = peer.open_read(plain, split_mode=SplitMode.ROW_OFFSET)
    request = calls.ReadRows(
        table=peer.table(plain), session_id=session.session_id, split=RowRangeSplit(0, 0)
    )
    body = peer.ok(request.encode()).content
    assert body.endswith(END_MARKER)
    assert pa.ipc.open_stream(body).schema.names == ["id", "note"]


def test_an_empty_table_has_no_splits(peer: Peer, new_table: NewTable) -> None:
    """Evidence 177: Doris opens no session if FileNum is 0; the real count is unknown."""
    name = new_table("(id bigint)")
    session = peer.open_read(name)
    assert (session.splits_count, session.estimated_rows) == (0, 0)
    assert peer.open_read(name, split_mode=SplitMode.ROW_OFFSET).record_count == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ({"Mode": "timestamp", "From": when}, f"{when!r} is not a valid time")
            for when in ("yesterday", "1e9", "12:00")
        ),
        ({"StartVersion": "one"}, "'one' is neither a version nor a time"),
    ],
)
def test_an_invalid_bound_is_refused(
    peer: Peer, plain: str, options: dict[str, str], message: str
) -> None:
    request = calls.CreateReadSession(
        table=peer.table(plain), incremental_read=True, incremental_options=options
    )
    refused = peer.send(request.encode())
    assert (refused.status_code, message in refused.text) == (400, True)


def test_a_column_added_later_is_null_in_older_rows(peer: Peer, changing: str) -> None:
    peer.sql(f"ALTER TABLE {changing} ADD COLUMNS (extra double);")
    peer.write(changing, pa.table({"id": [-1], "note": [None], "extra": [0.5]}))
    read = peer.read(changing)
    assert read.num_rows == 10_001
    assert read.column("extra").null_count == 10_000
    assert read.slice(10_000).to_pylist() == [{"id": -1, "note": None, "extra": 0.5}]
