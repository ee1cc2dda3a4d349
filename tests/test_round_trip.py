"""Write, read, compare: every type with nulls and extremes, and blobs byte for byte, over HTTP."""

import datetime as dt
import hashlib
import io
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import odps_nb
from odps_nb.client.calls.progress import silent
from odps_nb.convert.arrow_schema import arrow_schema
from odps_nb.terms import BlobReference
from odps_nb.wire.type_text import parse_columns

# Each type in ``docs/protocol.md`` section 5.1: its extremes, difficult nested values, and a null.
VALUES = {
    "tinyint": [-128, 127, 0],
    "smallint": [-(2**15), 2**15 - 1, 0],
    "int": [-(2**31), 2**31 - 1, 0],
    "bigint": [-(2**63), 2**63 - 1, 2**53 + 1],
    "float": [-3.4028234663852886e38, 1.401298464324817e-45, float("inf")],
    "double": [-1.7976931348623157e308, 5e-324, float("-inf")],
    "boolean": [True, False, True],
    "string": ["", "漢字 𝄞 \x00 \n\t'\"\\", "é" * 5000],
    "char(4)": ["abcd", "漢字漢字", "äöüß"],
    "varchar(6)": ["", "'\"\\`;", "𝄞𝄞𝄞𝄞𝄞𝄞"],
    "json": ['{"a": [1, null, "x"]}', "null", "[]"],
    "binary": [b"", b"\x00\xff\xfe", bytes(range(256)) * 20],
    "decimal(38,18)": [
        Decimal("99999999999999999999.999999999999999999"),
        Decimal("-0.000000000000000001"),
        Decimal(0),
    ],
    "decimal(38,0)": [Decimal(10**38 - 1), Decimal(-(10**38) + 1), Decimal(0)],
    "decimal(5,5)": [Decimal("0.99999"), Decimal("-0.00001"), Decimal(0)],
    "decimal": [Decimal("0.1"), Decimal(10**19), Decimal("-0.000000000000000001")],
    "date": [dt.date.min, dt.date.max, dt.date(1969, 12, 31)],
    "datetime": [
        dt.datetime.min,
        dt.datetime(9999, 12, 31, 23, 59, 59, 999000),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999000),
    ],
    "timestamp": [pd.Timestamp.min, pd.Timestamp.max, pd.Timestamp(-1)],
    "timestamp_ntz": [pd.Timestamp.min, pd.Timestamp.max, pd.Timestamp(1)],
    "interval_day_time": [
        pd.Timedelta(days=100_000) - pd.Timedelta(1),
        -pd.Timedelta(days=100_000),
        pd.Timedelta(-1),
    ],
    "interval_year_month": [-119_999, 119_999, 0],
    "array<bigint>": [[], [None], [2**63 - 1, None, -(2**63)]],
    "array<array<string>>": [[[]], [None, ["", None]], []],
    "map<string,bigint>": [[], [("", None)], [("a", 2**53 + 1), ("b", 0)]],
    "struct<a:tinyint,b:string>": [
        {"a": None, "b": None},
        {"a": -128, "b": ""},
        {"a": 127, "b": "漢"},
    ],
    "array<struct<d:decimal(38,18),m:map<string,date>,t:array<timestamp>>>": [
        [],
        [None, {"d": None, "m": None, "t": None}],
        [{"d": Decimal("1.5"), "m": [("x", dt.date.min)], "t": [pd.Timestamp(1), None]}],
    ],
}
TEXTS = sorted(VALUES)


def columns_of(texts: list[str]) -> str:
    return "id bigint, " + ", ".join(f"c{n} {text}" for n, text in enumerate(texts))


def table_of(texts: list[str]) -> pa.Table:
    """Four rows; the last one is null in every column except the first."""
    schema = arrow_schema(parse_columns(columns_of(texts)))
    columns = [pa.array([0, 1, 2, 3])]
    for field, text in zip(list(schema)[1:], texts, strict=True):
        columns.append(pa.array([*VALUES[text], None], field.type))
    return pa.table(columns, schema=schema)


def by_id(table: pa.Table) -> pa.Table:
    return table.sort_by("id").combine_chunks()


@pytest.fixture(scope="module")
def odps(wide):
    """A connection to a service that returns all times that fit into 64 bits in nanoseconds."""
    return wide


@pytest.fixture
def everything(odps, new_name):
    """A table with a column of each type; dropped at the end."""
    table = odps.create_table(new_name("types"), columns_of(TEXTS))
    return table


def test_every_type_is_unchanged_by_a_round_trip_as_arrow(everything):
    written = table_of(TEXTS)
    receipt = everything.write(written)
    assert receipt.rows == 4
    read = by_id(everything.read().to_arrow())
    for name in written.column_names:
        assert read.column(name).to_pylist() == written.column(name).to_pylist(), name
        assert read.schema.field(name).type.equals(written.schema.field(name).type), name


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compression_does_not_change_the_rows(everything, compression):
    written = table_of(TEXTS)
    everything.write(written, compression=compression)
    read = by_id(everything.read(compression=compression).to_arrow())
    assert read.to_pylist() == written.to_pylist()


def test_every_type_is_unchanged_by_a_round_trip_as_pandas(everything):
    everything.write(table_of(TEXTS))
    first = everything.read().to_pandas().sort_values("id", ignore_index=True)
    assert not first["id"].isna().any()
    assert first.drop(columns="id").iloc[3].isna().all()
    everything.write(first, overwrite=True)
    second = everything.read().to_pandas().sort_values("id", ignore_index=True)
    pd.testing.assert_frame_equal(first, second, check_exact=True)
    assert by_id(everything.read().to_arrow()).to_pylist() == table_of(TEXTS).to_pylist()


def test_arrow_reads_distinguish_nan_and_null(odps, new_name):
    table = odps.create_table(new_name("nan"), "id bigint, x double")
    table.write(pa.table({"id": [0, 1], "x": pa.array([float("nan"), None])}))
    nan, null = by_id(table.read().to_arrow()).column("x").to_pylist()
    assert np.isnan(nan)
    assert null is None


def test_values_of_dynamic_partitions_are_kept(odps, new_name):
    table = odps.create_table(
        new_name("parts"), "id bigint", partitioned_by="ds string, hour bigint"
    )
    rows = pa.table({"id": [1, 2, 3], "ds": ["a b", "ü", "a b"], "hour": [1, 2, 3]})
    table.write(rows)
    assert sorted(map(str, table.partitions())) == ["ds=a b,hour=1", "ds=a b,hour=3", "ds=ü,hour=2"]
    assert by_id(table.read().to_arrow()).to_pylist() == rows.to_pylist()
    assert table.read(["id"], partitions="ds=a b,hour=3").to_arrow().to_pylist() == [{"id": 3}]


def test_many_rows_are_written_and_read_in_many_streams_and_splits(odps, new_name):
    table = odps.create_table(new_name("many"), "id bigint, note string")
    count = 200_000
    rows = pa.table({"id": pa.array(range(count)), "note": pa.array(["x"] * count)})
    receipt = table.write(rows, workers=3)
    assert (receipt.rows, receipt.streams) == (count, 3)
    scan = table.read(splits=4)
    assert len(scan.splits) == 4
    assert scan.row_count == count
    assert by_id(scan.to_arrow()).column("id").to_pylist() == list(range(count))


# -- blobs --------------------------------------------------------------------------------------

SIZES = [0, 1, 4095, 4096, 4097, 8192, 20_000_000]


def content(size: int) -> bytes:
    return np.random.default_rng(size).bytes(size)


@pytest.fixture
def blobs(odps, new_name):
    table = odps.create_table(new_name("blobs"), "id bigint, data blob, many array<struct<b:blob>>")
    return table


def references(table) -> list[str]:
    return by_id(table.read(["id", "data"]).to_arrow()).column("data").to_pylist()


@pytest.mark.storage_api("blobs")
def test_blobs_of_every_size_are_returned_unchanged(odps, blobs):
    frame = pd.DataFrame({"id": range(len(SIZES)), "data": [content(size) for size in SIZES]})
    receipt = blobs.write(frame)
    assert (receipt.blobs, receipt.blob_bytes) == (len(SIZES), sum(SIZES))
    found = references(blobs)
    for size, reference in zip(SIZES, found, strict=True):
        blob = odps.blob(reference)
        assert not blob.verified
        assert blob.bytes() == content(size)
        assert (blob.size, blob.verified) == (size, True)
    records = list(odps.blobs(found).fetch())
    assert [len(record.data) for record in records] == SIZES
    assert [hashlib.md5(record.data).digest() for record in records] == [
        hashlib.md5(content(size)).digest() for size in SIZES
    ]


@pytest.mark.storage_api("blobs")
@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_blobs_are_returned_unchanged(odps, blobs, compression):
    blobs.write(pa.table({"id": [0, 1], "data": [b"abc" * 5000, b""]}))
    found = list(odps.blobs(references(blobs)).fetch(compression=compression))
    assert [record.data for record in found] == [b"abc" * 5000, b""]


@pytest.mark.storage_api("blobs")
def test_blobs_are_written_from_bytes_files_and_other_blobs(odps, blobs, tmp_path):
    path = tmp_path / "cat.png"
    path.write_bytes(content(5000))
    blobs.write(pd.DataFrame({"id": [0], "data": [path]}))
    original = odps.blob(references(blobs)[0])
    given = [
        b"plain",
        path,
        io.BytesIO(b"file"),
        odps_nb.NewBlob(b"new", mime_type="text/plain", file_name="a.txt"),
        original,
        BlobReference.from_text(original.reference.token),
        None,
    ]
    blobs.write(pd.DataFrame({"id": range(7), "data": given}), overwrite=True)
    found = references(blobs)
    assert found[6] is None
    made = [odps.blob(one) for one in found[:6]]
    assert [blob.bytes() for blob in made] == [
        b"plain",
        content(5000),
        b"file",
        b"new",
        content(5000),
        content(5000),
    ]
    assert [made[1].mime_type, made[3].mime_type, made[4].mime_type] == [
        "image/png",
        "text/plain",
        "image/png",
    ]
    assert len({blob.reference for blob in [*made, original]}) == 7


@pytest.mark.storage_api("blobs")
def test_nested_blobs_are_returned_unchanged(odps, blobs):
    rows = [[{"b": b"1"}, {"b": None}, {"b": b""}], None, [], [None, {"b": b"\xff" * 5000}]]
    blobs.write(pd.DataFrame({"id": range(4), "many": rows}))
    column = blobs.blobs("many.element.b", limit=None)
    assert sorted(len(blob.bytes()) for blob in column) == [0, 1, 5000]
    read = by_id(blobs.read().to_arrow()).column("many").to_pylist()
    assert [None if row is None else len(row) for row in read] == [3, None, 0, 2]
    assert odps.blob(read[3][1]["b"]).bytes() == b"\xff" * 5000


@pytest.mark.storage_api("blobs")
def test_blobs_of_dynamic_partitions_are_stored_with_their_rows(odps, new_name):
    table = odps.create_table(new_name("pb"), "id bigint, data blob", partitioned_by="ds string")
    table.write(pd.DataFrame({"id": [1, 2, 3], "data": [b"1", b"2", b"3"], "ds": ["a", "b", "a"]}))
    found = table.blobs("data", partitions="ds=a", progress=silent)
    assert sorted(blob.bytes() for blob in found) == [b"1", b"3"]


@pytest.mark.storage_api("blobs")
def test_arrow_batches_of_bytes_are_uploaded_as_they_stream(odps, blobs):
    batches = [pa.record_batch({"id": [n], "data": [bytes([n]) * (n * 1000)]}) for n in range(5)]
    receipt = blobs.write(pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert (receipt.rows, receipt.blobs, receipt.blob_bytes) == (5, 5, 10_000)
    data = [record.data for record in odps.blobs(references(blobs)).fetch()]
    assert data == [bytes([n]) * (n * 1000) for n in range(5)]


@pytest.mark.storage_api("blobs")
@pytest.mark.parametrize("kind", [pd.DataFrame, pa.table, lambda d: pa.table(d).to_reader()])
def test_blobs_can_be_written_without_other_columns(odps, blobs, kind):
    receipt = blobs.write(kind({"data": [b"1", b"2"]}))
    assert (receipt.rows, receipt.blobs) == (2, 2)
    table = blobs.read(["id", "data"]).to_arrow()
    assert table.column("id").to_pylist() == [None, None]
    data = [record.data for record in odps.blobs(table.column("data").to_pylist()).fetch()]
    assert sorted(data) == [b"1", b"2"]
