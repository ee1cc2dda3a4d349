"""The stock client's tunnel writes: Arrow decimals, upserts and stream uploads."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from odps import ODPS
from odps.errors import NoSuchSchema, ODPSError
from odps.models import Table
from odps.tunnel import TableTunnel

from tests.support.compat.stock import STOCK

pytestmark = STOCK


def test_bare_decimals_are_unchanged_by_arrow_writes_and_reads(entry: ODPS) -> None:
    """pyodps sends decimal256(54,18) for a column that is described as ``decimal``."""
    table = entry.create_table(f"d{time.time_ns()}", "d decimal, l array<decimal>")
    values = [Decimal(text) for text in ("5.5", "7.25", "100", "0.01")]
    with table.open_writer(arrow=True) as writer:
        decimals = pa.array(values, pa.decimal128(38, 18))
        lists = pa.array([[one] for one in values], pa.list_(decimals.type))
        writer.write(pa.record_batch({"d": decimals, "l": lists}))
    with table.open_reader(arrow=True) as reader:
        rows = reader.read_all()
    assert rows["d"].to_pylist() == values
    assert rows["l"].to_pylist() == [[one] for one in values]
    with table.open_reader() as reader:
        assert [record[0] for record in reader] == values
    tunnel = TableTunnel(entry)
    described = tunnel.create_upload_session(table).schema
    types = [str(one.type).lower() for one in described.columns]
    assert types == ["decimal(38,18)", "array<decimal(38,18)>"]


@pytest.mark.parametrize("columns", [["c", "b"], ["b", "c"], ["c", "a"], ["b"]])
@pytest.mark.parametrize("arrow", [False, True])
def test_columns_are_read_in_the_requested_order(
    entry: ODPS, columns: list[str], arrow: bool
) -> None:
    """The stock client expects records in the requested order, and Arrow columns in table order."""
    table = entry.create_table(f"o{time.time_ns()}", "a bigint, b string, c string")
    entry.write_table(table, [[1, "b", "c"]])
    instance = entry.execute_sql(f"select * from {table.name}")
    expected = {column: {"a": 1}.get(column, column) for column in columns}
    with table.open_reader(columns=columns, arrow=arrow) as reader:
        assert reader.to_pandas().to_dict("records") == [expected]
    with instance.open_reader(tunnel=True, columns=columns, arrow=arrow) as reader:
        assert reader.to_pandas().to_dict("records") == [expected]


def test_a_column_that_is_requested_twice_is_refused(entry: ODPS) -> None:
    table = entry.create_table(f"o{time.time_ns()}", "a bigint, b string")
    session = TableTunnel(entry).create_download_session(table)
    with pytest.raises(ODPSError, match="a column is requested twice: b, b"):
        session._build_input_stream(0, 1, columns=["b", "b"])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("date", pa.array([2932897], pa.int32()).cast(pa.date32())),
        ("date", pa.array([-719529], pa.int32()).cast(pa.date32())),
        ("datetime", pa.array([253402300800000], pa.timestamp("ms"))),
        ("array<date>", pa.array([[2932897]], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))),
    ],
)
def test_a_time_outside_the_years_0_to_9999_is_not_stored(
    entry: ODPS, column: str, value: pa.Array
) -> None:
    table = entry.create_table(f"y{time.time_ns()}", f"v {column}")
    session = TableTunnel(entry).create_upload_session(table)
    with (
        pytest.raises(ODPSError, match=r"before the year [01] or after the year 9999"),
        session.open_arrow_writer(0) as writer,
    ):
        writer.write(pa.record_batch([value], names=["v"]))
    assert session.get_block_list() == []


@pytest.mark.parametrize("tunnel", [False, True])
def test_times_of_the_year_0_are_stored_and_returned(entry: ODPS, tunnel: bool) -> None:
    """A live test of the stock client writes such a time (`test_antique_datetime`)."""
    table = entry.create_table(f"y{time.time_ns()}", "t datetime, d date")
    entry.execute_sql(
        f"insert into {table.name} values (cast('0000-01-01 00:00:00' as datetime), "
        "cast('0000-01-01' as date))"
    )
    instance = entry.execute_sql(f"select * from {table.name}")
    if tunnel:
        with instance.open_reader(tunnel=True, arrow=True) as reader:
            (batch,) = reader
        assert batch.column(1).cast(pa.int32()).to_pylist() == [-719528]
    else:
        with instance.open_reader(tunnel=False) as reader:
            assert reader.raw == '"t","d"\n"0000-01-01 00:00:00","0000-01-01"\n'


def test_a_preview_without_a_limit_returns_all_rows(entry: ODPS) -> None:
    table = entry.create_table(f"p{time.time_ns()}", "a bigint")
    entry.write_table(table, [[1], [2]])
    assert TableTunnel(entry).open_preview_reader(table, limit=None).read().num_rows == 2


@pytest.mark.parametrize("limit", ["-2", "x"])
def test_a_preview_with_an_invalid_limit_is_refused(entry: ODPS, limit: str) -> None:
    table = entry.create_table(f"p{time.time_ns()}", "a bigint")
    with pytest.raises(ODPSError, match=f"limit is '{limit}'; it must be a number"):
        TableTunnel(entry).open_preview_reader(table, limit=limit).read()


# -- upserts ----------------------------------------------------------------------------------


@pytest.fixture
def keyed(entry: ODPS) -> Table:
    """A table with a primary key that allows partial updates."""
    return entry.create_table(
        f"k{time.time_ns()}",
        "value string, key1 string not null, key2 bigint not null, extra string",
        transactional=True,
        primary_key=["key1", "key2"],
        table_properties={"acid.partial.fields.update.enable": "true"},
    )


def rows_of(table: Table) -> list[list[Any]]:
    """Read the rows of a table by SQL, as pyodps reads tables with a primary key."""
    with table.odps.execute_sql(f"SELECT * FROM {table.name}").open_reader() as reader:
        return sorted((list(record.values) for record in reader), key=str)


def upsert(table: Table, *rows: tuple[str, list[Any]], **options: Any) -> None:
    session = TableTunnel(table.odps).create_upsert_session(table, **options)
    with session.open_upsert_stream(compress=True) as stream:
        for operation, values in rows:
            getattr(stream, operation)(session.new_record(values))
    session.commit()
    assert session.status is session.Status.Committed


@pytest.mark.parametrize("slots", [1, 3, 99])
def test_rows_are_upserted_and_deleted_by_key(keyed: Table, slots: int) -> None:
    upsert(
        keyed,
        ("upsert", ["v1", "a", 1, None]),
        ("upsert", ["v2", "a", 1, "x"]),
        ("upsert", ["v3", "b", 2, None]),
        ("upsert", ["v4", "c", -3, None]),
        ("delete", ["v4", "c", -3, None]),
        slot_num=slots,
    )
    assert rows_of(keyed) == [["v2", "a", 1, "x"], ["v3", "b", 2, None]]
    upsert(keyed, ("delete", ["", "a", 1, ""]), ("upsert", ["v5", "b", 2, None]))
    assert rows_of(keyed) == [["v5", "b", 2, None]]


def test_upserts_are_visible_only_after_the_commit(keyed: Table) -> None:
    tunnel = TableTunnel(keyed.odps)
    session = tunnel.create_upsert_session(keyed)
    stream = session.open_upsert_stream()
    stream.upsert(session.new_record(["v", "a", 1, None]))
    stream.close()
    again = tunnel.create_upsert_session(keyed, upsert_id=session.id)
    assert (again.id, again.status) == (session.id, again.Status.Normal)
    assert again.hash_keys == ["key1", "key2"]
    assert again.support_partial_update is True
    assert rows_of(keyed) == []
    again.commit()
    assert rows_of(keyed) == [["v", "a", 1, None]]


def test_an_aborted_upsert_session_stores_no_rows(keyed: Table) -> None:
    session = TableTunnel(keyed.odps).create_upsert_session(keyed)
    with session.open_upsert_stream() as stream:
        stream.upsert(session.new_record(["v", "a", 1, None]))
    session.abort()
    session.reload()
    assert session.status is session.Status.Aborted
    assert rows_of(keyed) == []


def test_a_partial_update_keeps_the_other_columns(keyed: Table) -> None:
    """The Java client lists the indexes of the updated columns; pyodps' own option fails."""
    upsert(keyed, ("upsert", ["v1", "a", 1, "x1"]), ("upsert", ["v2", "b", 2, "x2"]))
    session = TableTunnel(keyed.odps).create_upsert_session(keyed)
    with session.open_upsert_stream() as stream:

        def partial(values: list[Any], places: list[int]) -> None:
            record = session.new_record(values)
            bucket = stream._hasher.hash_record(record) % len(stream._bucket_writers)
            record[session.UPSERT_OPERATION_KEY] = ord("U")
            record[session.UPSERT_VALUE_COLS_KEY] = places
            stream._bucket_writers[bucket].write(record)

        partial(["new", "a", 1, None], [0, 1, 2])
        partial([None, "a", 1, "late"], [1, 2, 3])
        partial([None, "c", 3, "only"], [1, 2, 3])
        stream.upsert(session.new_record(["v4", "b", 2, None]))
    session.commit()
    assert rows_of(keyed) == [
        ["new", "a", 1, "late"],
        ["v4", "b", 2, None],
        [None, "c", 3, "only"],
    ]


def test_a_partition_is_upserted(entry: ODPS) -> None:
    table = entry.create_table(
        f"k{time.time_ns()}",
        ("k bigint not null, v string", "pt string"),
        transactional=True,
        primary_key=["k"],
    )
    with pytest.raises(ODPSError, match="MissingPartitionSpec"):
        TableTunnel(entry).create_upsert_session(table)
    with pytest.raises(ODPSError, match="NoSuchPartition"):
        TableTunnel(entry).create_upsert_session(table, partition_spec="pt=a")
    table.create_partition("pt=a")
    upsert(table, ("upsert", [1, "x"]), ("upsert", [1, "y"]), partition_spec="pt=a")
    assert rows_of(table) == [[1, "y", "a"]]


def test_upserts_need_a_primary_key_and_a_session(entry: ODPS, keyed: Table) -> None:
    plain = entry.create_table(f"n{time.time_ns()}", "k bigint")
    with pytest.raises(ODPSError, match="has no primary key"):
        TableTunnel(entry).create_upsert_session(plain)
    with pytest.raises(ODPSError, match="UpsertSessionNotFound"):
        TableTunnel(entry).create_upsert_session(keyed, upsert_id="f" * 32 + "-1")


# -- stream uploads ---------------------------------------------------------------------------


def test_streamed_rows_are_visible_after_each_upload(entry: ODPS) -> None:
    table = entry.create_table(f"s{time.time_ns()}", "id bigint, note string")
    session = TableTunnel(entry).create_stream_upload_session(table, slot_num=2)
    assert len(session.slots) == 2
    for number, compress in enumerate([False, True, True]):
        writer = session.open_record_writer(compress=compress)
        writer.write(session.new_record([number, "x"]))
        writer.close()
        with table.open_reader(reopen=True) as reader:
            assert sorted(record[0] for record in reader) == list(range(number + 1))
    session.reload()
    session.abort()
    writer = session.open_record_writer()
    writer.write(session.new_record([9, "x"]))
    with pytest.raises(ODPSError, match="aborted"):
        writer.close()
    with table.open_reader(reopen=True) as reader:
        assert reader.count == 3


def test_a_stream_upload_needs_a_partition_or_computes_it_from_the_rows(entry: ODPS) -> None:
    tunnel = TableTunnel(entry)
    table = entry.create_table(f"s{time.time_ns()}", ("id bigint", "pt string"))
    with pytest.raises(ODPSError, match="MissingPartitionSpec"):
        tunnel.create_stream_upload_session(table)
    with pytest.raises(ODPSError, match="NoSuchPartition"):
        tunnel.create_stream_upload_session(table, partition_spec="pt=a")
    one = tunnel.create_stream_upload_session(table, partition_spec="pt=a", create_partition=True)
    several = tunnel.create_stream_upload_session(table, dynamic_partition=True)
    for session, rows in ((one, [[1]]), (several, [[2, "a"], [3, "b"]])):
        writer = session.open_record_writer()
        for row in rows:
            record = session.new_record()
            for place, value in enumerate(row):
                record[place] = value
            writer.write(record)
        writer.close()
    assert rows_of(table) == [[1, "a"], [2, "a"], [3, "b"]]


def test_a_stream_that_requires_the_latest_schema_fails_after_a_change(entry: ODPS) -> None:
    tunnel = TableTunnel(entry)
    table = entry.create_table(f"s{time.time_ns()}", "id bigint")
    strict = tunnel.create_stream_upload_session(table, allow_schema_mismatch=False)
    lenient = tunnel.create_stream_upload_session(table)
    assert strict.schema_version == lenient.schema_version == int(table.schema_version)
    entry.execute_sql(f"ALTER TABLE {table.name} ADD COLUMNS (note string)")
    for session in (strict, lenient):
        writer = session.open_record_writer()
        writer.write(session.new_record([1]))
        if session is lenient:
            writer.close()
        else:
            with pytest.raises(NoSuchSchema, match="is not the latest version"):
                writer.close()
    assert rows_of(table) == [[1, None]]
    latest = tunnel.create_stream_upload_session(table, allow_schema_mismatch=False)
    assert [column.name for column in latest.schema.columns] == ["id", "note"]
    with pytest.raises(NoSuchSchema):
        tunnel.create_stream_upload_session(table, schema_version="99")
    with pytest.raises(ODPSError, match="StreamSessionNotFound"):
        tunnel.create_stream_upload_session(table, upload_id="f" * 32 + "-1")
