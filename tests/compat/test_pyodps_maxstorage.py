"""The stock client's newest storage module drives the embedded service, versions 2 and 3."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from odps import ODPS
from odps.maxstorage import MaxStorageClient
from odps.maxstorage.models.enums import SplitMode, WriteMode
from odps.maxstorage.options import IncrementalReadOptions, SplitOptions

from odps_nb.wire.control import BLOB_TABLE_PROPERTIES, BLOB_TABLE_SETTINGS
from tests.support.compat.stock import STOCK

pytestmark = STOCK
NewTable = Callable[..., str]


@pytest.fixture(params=[2, 3], ids=["v2", "v3"])
def storage(request: pytest.FixtureRequest, entry: ODPS) -> MaxStorageClient:
    return MaxStorageClient(odps=entry, api_version=request.param)


@pytest.fixture
def new_table(entry: ODPS) -> NewTable:
    def make(columns: str, partitions: str | None = None) -> str:
        name = f"m{time.time_ns()}"
        schema = (columns, partitions) if partitions else columns
        wanted = {}
        if "blob" in columns:
            wanted = {
                "table_properties": dict(BLOB_TABLE_PROPERTIES),
                "hints": dict(BLOB_TABLE_SETTINGS),
            }
        entry.create_table(name, schema, **wanted)
        return name

    return make


def read_all(session: Any, **options: Any) -> pa.Table:
    batches = []
    for split in session.splits:
        reader = session.open_arrow_reader(split, **options)
        while (batch := reader.read()) is not None:
            batches.append(batch)
        reader.close()
    return pa.Table.from_batches(batches)


def by_rows() -> SplitOptions:
    """Read tables with blobs or keys in the mode that they require."""
    return SplitOptions(split_mode=SplitMode.ROW_OFFSET, split_number=1_000_000)


def write(session: Any, table: pa.Table, stream: str = "0", **options: Any) -> None:
    writer = session.open_arrow_writer(stream_id=stream, **options)
    for batch in table.to_batches():
        writer.write_batch(batch)
    writer.close()


ROWS = pa.table({"id": pa.array(range(1000)), "note": pa.array([f"n{i}" for i in range(1000)])})


@pytest.mark.parametrize(
    "options", [{}, {"compress_algo": "zstd"}, {"compress_algo": "lz4"}], ids=str
)
def test_rows_written_in_two_streams_are_read_back(
    storage: MaxStorageClient, new_table: NewTable, options: dict[str, str]
) -> None:
    name = new_table("id bigint, note string")
    session = storage.create_table_write_session(name)
    write(session, ROWS.slice(0, 400), "0", **options)
    write(session, ROWS.slice(400), "1", **options)
    session.commit()
    assert read_all(storage.create_table_read_session(name), **options).equals(ROWS)


def test_an_aborted_session_stores_no_rows(storage: MaxStorageClient, new_table: NewTable) -> None:
    name = new_table("id bigint, note string")
    session = storage.create_table_write_session(name)
    write(session, ROWS)
    session.abort()
    assert storage.create_table_read_session(name).splits == []


def test_rows_are_stored_in_the_partitions_that_they_name(
    storage: MaxStorageClient, entry: ODPS, new_table: NewTable
) -> None:
    name = new_table("id bigint", "ds string")
    days = pa.array([f"2024-01-0{1 + i % 3}" for i in range(9)])
    session = storage.create_table_write_session(name)
    write(session, pa.table({"id": pa.array(range(9)), "ds": days}))
    session.commit()
    assert [str(p) for p in entry.get_table(name).partitions] == [
        f"ds='2024-01-0{d}'" for d in (1, 2, 3)
    ]
    one = read_all(storage.create_table_read_session(name, partitions=["ds=2024-01-02"]))
    assert one.column("id").to_pylist() == [1, 4, 7]
    assert one.column("ds").to_pylist() == ["2024-01-02"] * 3


def test_overwriting_a_partition_replaces_only_that_partition(
    storage: MaxStorageClient, new_table: NewTable
) -> None:
    name = new_table("id bigint", "ds string")
    for spec, rows in (("ds=a", [1, 2]), ("ds=b", [3]), ("ds=a", [4])):
        session = storage.create_table_write_session(
            name, partition_spec=spec, overwrite=spec == "ds=a"
        )
        write(session, pa.table({"id": pa.array(rows)}))
        session.commit()
    read = read_all(storage.create_table_read_session(name))
    assert sorted(zip(*read.to_pydict().values(), strict=True)) == [(3, "b"), (4, "a")]


def test_exactly_once_writes_are_counted(storage: MaxStorageClient, new_table: NewTable) -> None:
    name = new_table("id bigint, note string")
    session = storage.create_table_write_session(name)
    writer = session.open_arrow_writer("0", exactly_once_mode=True)
    writer.write_batch(ROWS.to_batches()[0])
    writer.flush()
    assert writer.get_row_offset() == 1000
    writer.write_batch(ROWS.to_batches()[0].slice(0, 10))
    writer.close()
    session.commit()
    assert read_all(storage.create_table_read_session(name)).num_rows == 1010


def test_streaming_rows_are_visible_at_once(storage: MaxStorageClient, new_table: NewTable) -> None:
    name = new_table("id bigint, note string")
    session = storage.create_table_write_session(name, write_mode=WriteMode.STREAMING)
    writer = session.open_arrow_writer(stream_id="default")
    writer.write_batch(ROWS.to_batches()[0])
    writer.flush()
    assert read_all(storage.create_table_read_session(name)).num_rows == 1000
    writer.close()


def test_row_ranges_return_their_rows(storage: MaxStorageClient, new_table: NewTable) -> None:
    name = new_table("id bigint, note string")
    session = storage.create_table_write_session(name)
    write(session, ROWS)
    session.commit()
    read_session = storage.create_table_read_session(
        name,
        split_options=SplitOptions(split_mode=SplitMode.ROW_OFFSET, split_number=300),
        columns=["id"],
    )
    assert read_session.record_count == 1000
    assert len(read_session.splits) == 4
    assert read_all(read_session).column("id").to_pylist() == list(range(1000))


def test_a_filter_drops_blocks_of_10_000_rows(
    storage: MaxStorageClient, new_table: NewTable
) -> None:
    name = new_table("id bigint, note string")
    session = storage.create_table_write_session(name)
    write(session, pa.table({"id": range(25_000), "note": [f"n{i}" for i in range(25_000)]}))
    session.commit()
    condition = "id >= 24990 and note <> 'n24995'"
    found = storage.create_table_read_session(name, filter_predicate=condition)
    assert read_all(found).column("id").to_pylist() == list(range(20_000, 25_000))


@pytest.mark.parametrize("mode", ["version", "timestamp"])
def test_an_incremental_read_returns_rows_added_since_the_last_one(
    storage: MaxStorageClient, entry: ODPS, mode: str
) -> None:
    name = f"i{time.time_ns()}"
    entry.create_table(name, "id bigint")
    moments = []
    for number in range(3):
        entry.write_table(name, [[number]])
        moments.append(datetime.now(UTC))
        time.sleep(0.01)  # two commits at the same time would have the same timestamp
    last = storage.create_table_read_session(name).latest_version
    assert last == 3
    entry.write_table(name, [[3]])
    for since, upto, found in ((1, 3, [1, 2]), (3, None, [3])):
        bounds = {"from_": since, "to": upto}
        if mode == "timestamp":
            bounds = {key: at and moments[at - 1].isoformat() for key, at in bounds.items()}
        session = storage.create_table_read_session(
            name,
            incremental_read_enabled=True,
            incremental_read_options=IncrementalReadOptions(version=mode, **bounds),
        )
        assert read_all(session).column("id").to_pylist() == found


def test_preview_shows_the_first_rows(storage: MaxStorageClient, new_table: NewTable) -> None:
    name = new_table("id bigint, note string")
    session = storage.create_table_write_session(name)
    write(session, ROWS)
    session.commit()
    reader = storage.preview_table(name, limit=3, columns=["note"])
    assert reader.read().to_pydict() == {"note": ["n0", "n1", "n2"]}


def test_records_are_written_and_read(storage: MaxStorageClient, new_table: NewTable) -> None:
    name = new_table(
        "id bigint, amount decimal(10,2), at timestamp, day date,"
        " tags array<string>, m map<string,bigint>"
    )
    session = storage.create_table_write_session(name)
    writer = session.open_arrow_writer(stream_id="0").get_as_record_writer()
    writer.write([7, Decimal("1.25"), None, None, ["a", "b"], {"k": 1}])
    writer.write([8, None, None, None, None, None])
    writer.close()
    session.commit()
    read_session = storage.create_table_read_session(name)
    reader = read_session.open_arrow_reader(read_session.splits[0]).get_as_record_reader()
    rows = [record.values for record in reader]
    assert rows[0][0] == 7
    assert str(rows[0][1]) == "1.25"
    assert rows[0][4:] == [["a", "b"], {"k": 1}]
    assert rows[1] == [8, None, None, None, None, None]


def test_inline_blobs_are_uploaded_and_read(storage: MaxStorageClient, new_table: NewTable) -> None:
    name = new_table("id bigint, b blob")
    contents = [b"", b"x", b"\x05" + bytes(7) + b"tail", bytes(4096), b"y" * 100_000, None]
    session = storage.create_table_write_session(name)
    table = pa.table({"id": pa.array(range(6)), "b": pa.array(contents, pa.binary())})
    write(session, table, auto_upload_blobs=True)
    session.commit()
    read = read_all(storage.create_table_read_session(name, split_options=by_rows()))
    references = read.column("b").to_pylist()
    assert references[-1] is None
    manager = storage.open_blob_manager(name)
    for algorithm in (None, "zstd", "lz4"):
        singles = [
            manager.read_blob(r, compress_algo=algorithm).read()
            for r in references
            if r is not None
        ]
        assert singles == contents[:-1]
        # the stock iterator omits an empty blob
        many = [r.data for r in manager.read_blobs(references[1:-1], compress_algo=algorithm)]
        assert many == contents[1:-1]


def test_a_blob_written_as_a_stream_is_stored_by_its_reference(
    storage: MaxStorageClient, new_table: NewTable
) -> None:
    name = new_table("id bigint, b blob")
    session = storage.create_table_write_session(name)
    manager = storage.open_blob_manager(name)
    references = []
    for algorithm in (None, "zstd", "lz4"):
        stream = manager.write_blob_stream(
            session.id, "0", column_name="b", compress_algo=algorithm
        )
        stream.write(b"payload " * 1000)
        references.append(stream.finish().blob_reference)
    table = pa.table({"id": pa.array([1, 2, 3]), "b": pa.array(references, pa.binary())})
    write(session, table)
    session.commit()
    read = read_all(storage.create_table_read_session(name, split_options=by_rows()))
    for reference in read.column("b").to_pylist():
        assert manager.read_blob(reference).read() == b"payload " * 1000


def test_nested_blobs_are_uploaded_and_read(storage: MaxStorageClient, new_table: NewTable) -> None:
    name = new_table("id bigint, pages array<blob>")
    session = storage.create_table_write_session(name)
    table = pa.table(
        {"id": pa.array([1]), "pages": pa.array([[b"one", b"two"]], pa.list_(pa.binary()))}
    )
    write(session, table, auto_upload_blobs=True)
    session.commit()
    read = read_all(storage.create_table_read_session(name, split_options=by_rows()))
    manager = storage.open_blob_manager(name)
    references = read.column("pages").to_pylist()[0]
    assert [r.data for r in manager.read_blobs(references)] == [b"one", b"two"]


def test_the_result_of_a_query_is_read(storage: MaxStorageClient, entry: ODPS) -> None:
    instance = entry.execute_sql("select 1 as a, 'x' as b union all select 2, 'y'")
    session = storage.create_instance_read_session(instance.id)
    assert session.record_count == 2
    reader = session.open_arrow_reader(0, 2, task_name="AnonymousSQLTask_")
    table = pa.Table.from_batches([reader.read()])
    assert sorted(table.to_pylist(), key=lambda r: r["a"]) == [
        {"a": 1, "b": "x"},
        {"a": 2, "b": "y"},
    ]
    rest = session.open_arrow_reader(1, task_name="AnonymousSQLTask_")  # no number of rows
    assert sum(batch.num_rows for batch in rest) == 1


def test_records_are_upserted_and_deleted_by_key(storage: MaxStorageClient, entry: ODPS) -> None:
    name = f"k{time.time_ns()}"
    entry.create_table(name, "id bigint not null, v string", transactional=True, primary_key="id")
    session = storage.create_table_write_session(name)
    writer = session.open_arrow_writer(stream_id="0").get_as_record_writer()
    for record in ([1, "a"], [2, "b"], [1, "a2"]):
        writer.write(record)
    writer.delete([2, None])
    writer.close()
    session.commit()
    read = read_all(storage.create_table_read_session(name, split_options=by_rows()))
    assert read.to_pylist() == [{"id": 1, "v": "a2"}]
