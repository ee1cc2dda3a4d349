"""Parts of the service that need no server: splits, SQL scanning, conversions, tunnel streams."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odps_nb.errors import ChecksumError, InvalidRequestError
from odps_nb.local.duck import Duck
from odps_nb.local.reading.plan import by_count, by_size
from odps_nb.local.reading.predicates import Predicate
from odps_nb.local.reading.row_stream import encode_stream, rebatch
from odps_nb.local.routes.tunnel_arrow import decode_arrow, encode_arrow
from odps_nb.local.routes.tunnel_rows import (
    END_RECORD,
    META_CHECKSUM,
    META_COUNT,
    decode_rows,
    encode_rows,
)
from odps_nb.local.sql.parsing.statements import Show
from odps_nb.local.sql.parsing.text import parse_job
from odps_nb.local.sql.parsing.tokenizer import Cursor
from odps_nb.local.store.arrow_types import arrow_schema, arrow_type
from odps_nb.local.store.folder import DataFolder
from odps_nb.local.store.row_files import RowFileWriter, read_rows
from odps_nb.local.store.snapshots import Segment
from odps_nb.local.writing.coerce import coerce_batch, match_columns
from odps_nb.schema import Column, TableSchema, TypeCode
from odps_nb.terms import Compression, PartitionSpec
from odps_nb.wire.crc32c import crc32c
from odps_nb.wire.type_text import parse_type

EXAMPLES = 400 if os.environ.get("ODPS_NB_EXPLORE") else 40  # each example has columns of all types
TYPES = {
    "tinyint": st.integers(-128, 127),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "float": st.floats(width=32, allow_nan=False),
    "boolean": st.booleans(),
    "string": st.text(max_size=20),
    "binary": st.binary(max_size=20),
    "decimal(10,2)": st.decimals(-99_999_999, 99_999_999, places=2),
    "date": st.dates(),
    "datetime": st.integers(-(2**45), 2**45),
    "timestamp": st.integers(-(2**63) + 1, 2**63 - 1),
    "interval_day_time": st.integers(-(2**63) + 1, 2**63 - 1),
}
NESTED = {
    "array<bigint>": st.lists(st.none() | TYPES["bigint"], max_size=4),
    "map<string,double>": st.dictionaries(
        TYPES["string"], st.none() | TYPES["double"], max_size=3
    ).map(lambda d: list(d.items())),
    "struct<a:string,b:array<int>>": st.fixed_dictionaries(
        {
            "a": st.none() | TYPES["string"],
            "b": st.none() | st.lists(st.none() | st.integers(-5, 5), max_size=3),
        }
    ),
    "array<struct<x:map<string,bigint>>>": st.lists(
        st.fixed_dictionaries(
            {
                "x": st.none()
                | st.dictionaries(TYPES["string"], TYPES["bigint"], max_size=2).map(
                    lambda d: list(d.items())
                )
            }
        ),
        max_size=3,
    ),
}


@st.composite
def batches(draw: st.DrawFn) -> tuple[tuple[Column, ...], pa.RecordBatch]:
    """Columns of any types with matching values, some of them null."""
    known = {**TYPES, **NESTED}
    names = draw(st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=5))
    columns = tuple(Column(name=f"c{i}", type=parse_type(t)) for i, t in enumerate(names))
    rows = draw(st.integers(0, 6))
    arrays = []
    for column, name in zip(columns, names, strict=True):
        values = draw(st.lists(st.none() | known[name], min_size=rows, max_size=rows))
        arrays.append(pa.array(values, arrow_type(column.type)))
    return columns, pa.record_batch(arrays, schema=arrow_schema(columns))


@settings(max_examples=EXAMPLES)
@given(batches(), st.integers(0, 6), st.integers(0, 6))
def test_coercing_rows_of_the_correct_types_changes_nothing(
    made: tuple[tuple[Column, ...], pa.RecordBatch], start: int, length: int
) -> None:
    columns, batch = made
    piece = batch.slice(min(start, batch.num_rows), length)
    matches = match_columns(piece.schema, columns)
    fitted = coerce_batch(piece, columns, matches, blobs=lambda array: array)
    fitted.validate(full=True)
    assert fitted.to_pylist() == piece.to_pylist()


@settings(max_examples=EXAMPLES)
@given(batches(), st.integers(0, 6))
def test_nested_values_are_rebuilt_unchanged(
    made: tuple[tuple[Column, ...], pa.RecordBatch], start: int
) -> None:
    """A BLOB leaf forces the slow path through every level, which must keep the values."""
    from odps_nb.schema import ArrayType, PrimitiveType, StructField, StructType, TypeCode

    columns, batch = made
    blob = PrimitiveType(TypeCode.BLOB)
    wrapped = tuple(
        Column(
            name=c.name,
            type=ArrayType(StructType((StructField("v", c.type), StructField("b", blob)))),
        )
        for c in columns
    )
    arrays = []
    for column, array in zip(wrapped, batch.columns, strict=True):
        values = [None if v is None else [{"v": v, "b": b"x"}, None] for v in array.to_pylist()]
        arrays.append(pa.array(values, arrow_type(column.type)).slice(min(start, len(values))))
    piece = pa.record_batch(arrays, names=[c.name for c in wrapped])
    fitted = coerce_batch(piece, wrapped, match_columns(piece.schema, wrapped), blobs=lambda a: a)
    fitted.validate(full=True)
    assert fitted.to_pylist() == piece.to_pylist()


@settings(max_examples=EXAMPLES)
@given(batches())
def test_the_row_stream_of_the_tunnel_keeps_rows_unchanged(
    made: tuple[tuple[Column, ...], pa.RecordBatch],
) -> None:
    columns, batch = made
    data = b"".join(bytes(chunk) for chunk in encode_rows(columns, iter([batch])))
    found = list(decode_rows(columns, memoryview(data)))
    assert [row for piece in found for row in piece.to_pylist()] == batch.to_pylist()


@settings(max_examples=EXAMPLES)
@given(batches(), st.data())
def test_a_truncated_row_stream_is_refused(
    made: tuple[tuple[Column, ...], pa.RecordBatch], data: st.DataObject
) -> None:
    columns, batch = made
    whole = b"".join(bytes(chunk) for chunk in encode_rows(columns, iter([batch])))
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(InvalidRequestError):
        list(decode_rows(columns, memoryview(whole[:cut])))


def _varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


_CRC = crc32c(struct.pack("<iq", 1, 7))
_TOTAL = crc32c(_CRC.to_bytes(4, "little"))
_STREAM = {  # one row, whose only column is 7
    "column": b"\x08",
    "value": b"\x0e",
    "end": _varint(END_RECORD << 3),
    "crc": _varint(_CRC),
    "stream end": _varint(META_COUNT << 3),
    "count": b"\2",
    "checksum": _varint(META_CHECKSUM << 3),
    "total": _varint(_TOTAL),
}


@pytest.mark.parametrize(
    ("part", "changed", "message"),
    [
        ("column", b"\x10", "a record has column 2, but there are 1 columns"),
        ("value", b"\x0c", "the checksum of a record does not match"),
        ("value", b"\xff" * 10 + b"\1", "exceeds 64 bits"),
        ("crc", _varint(_CRC ^ 1), "the checksum of a record does not match"),
        ("count", b"\4", "1 rows received, 2 declared"),
        ("checksum", _varint(END_RECORD << 3), "has the tag 33553408; expected 33554431"),
        ("total", _varint(_TOTAL ^ 1), "row count or checksum does not match"),
        ("total", _varint(_TOTAL) + b"".join(_STREAM.values()), "bytes follow the end"),
        ("stream end", b"\x08\x0e" + _STREAM["stream end"], "the last record .* is incomplete"),
    ],
)
def test_a_changed_row_stream_is_refused(part: str, changed: bytes, message: str) -> None:
    columns = (Column(name="n", type=parse_type("bigint")),)
    (found,) = decode_rows(columns, memoryview(b"".join(_STREAM.values())))
    assert found.to_pydict() == {"n": [7]}
    damaged = b"".join({**_STREAM, part: changed}.values())
    with pytest.raises(InvalidRequestError, match=message):
        list(decode_rows(columns, memoryview(damaged)))


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("vector(float,3)", b"\2" + bytes(8), "does not have 3 elements"),
        ("map<string,bigint>", b"\1\0\1k\0", "shorter"),
        ("string", _varint(1 << 40) + b"abc", "ends too early"),
        ("array<bigint>", _varint(1 << 40) + b"\0\2", "ends too early"),
    ],
)
def test_lengths_that_contradict_the_type_or_the_data_are_refused(
    kind: str, value: bytes, message: str
) -> None:
    columns = (Column(name="c", type=parse_type(kind)),)

    def stored() -> list[pa.RecordBatch]:
        found = decode_rows(columns, memoryview(_one_value(columns[0], value)))
        return [coerce_batch(one, columns, (0,), blobs=lambda refs: refs) for one in found]

    with pytest.raises(InvalidRequestError, match=message):
        stored()


def _one_value(column: Column, value: bytes) -> bytes:
    """Return a stream with one value, whose checksums are correct if it can be decoded."""
    checked = bytes(8) if column.type.code is TypeCode.VECTOR else b"k"
    crc = crc32c(struct.pack("<i", 1) + checked)
    parts = {"column": b"\x0a", "value": value, "crc": _varint(crc)}
    return b"".join(
        {**_STREAM, **parts, "total": _varint(crc32c(crc.to_bytes(4, "little")))}.values()
    )


@settings(max_examples=EXAMPLES)
@given(batches())
def test_the_arrow_stream_of_the_tunnel_keeps_rows_unchanged(
    made: tuple[tuple[Column, ...], pa.RecordBatch],
) -> None:
    _, batch = made
    data = b"".join(bytes(chunk) for chunk in encode_arrow(iter([batch, batch])))
    found = list(decode_arrow(batch.schema, memoryview(data)))
    assert [row for piece in found for row in piece.to_pylist()] == batch.to_pylist() * 2


@pytest.mark.parametrize("rows", [1000, 8000, 8192, 100_000])
def test_an_arrow_stream_of_many_chunks_is_complete_and_a_flipped_bit_is_detected(
    rows: int,
) -> None:
    batch = pa.record_batch({"a": pa.array(range(rows))})
    data = bytearray(b"".join(bytes(chunk) for chunk in encode_arrow(iter([batch]))))
    assert next(decode_arrow(batch.schema, memoryview(data))).equals(batch)
    data[len(data) // 2] ^= 1
    with pytest.raises(ChecksumError):
        list(decode_arrow(batch.schema, memoryview(data)))


@settings(max_examples=EXAMPLES)
@given(batches(), st.integers(1, 5), st.sampled_from(list(Compression)))
def test_a_row_stream_returns_the_values_that_arrow_reads(
    made: tuple[tuple[Column, ...], pa.RecordBatch], max_rows: int, ipc: Compression
) -> None:
    _, batch = made
    pieces = rebatch(iter([batch]), max_rows=max_rows)
    body = b"".join(bytes(c) for c in encode_stream(batch.schema, pieces, ipc=ipc))
    read = list(pa.ipc.open_stream(body))
    assert [row for piece in read for row in piece.to_pylist()] == batch.to_pylist()
    assert all(0 < piece.num_rows <= max_rows for piece in read)


@settings(max_examples=EXAMPLES)
@given(batches(), st.data())
def test_a_row_file_keeps_rows_unchanged(
    tmp_path_factory: pytest.TempPathFactory,
    made: tuple[tuple[Column, ...], pa.RecordBatch],
    data: st.DataObject,
) -> None:
    columns, batch = made
    folder = DataFolder(tmp_path_factory.mktemp("folder"), durable=False)
    try:
        with RowFileWriter(folder, batch.schema) as writer:
            writer.write(batch)
            writer.write(batch)
            file = writer.finish()
        total = batch.num_rows * 2
        assert file.rows == total
        start = data.draw(st.integers(0, total))
        stop = data.draw(st.integers(start, total))
        names = [c.name for c in columns]
        read = [r for b in read_rows(folder, file.name, names, start, stop) for r in b.to_pylist()]
        assert read == (batch.to_pylist() * 2)[start:stop]
    finally:
        folder.close()


segments = st.lists(
    st.tuples(st.integers(1, 50), st.integers(0, 5000), st.sampled_from("abc")), max_size=8
).map(
    lambda items: [
        Segment(
            file_id=i,
            name=str(i),
            rows=rows,
            raw_bytes=size,
            spec=PartitionSpec((("ds", value),)),
        )
        for i, (rows, size, value) in enumerate(sorted(items, key=lambda item: item[2]))
    ]
)


@given(segments, st.integers(-5, 10_000), st.booleans(), st.integers(0, 3))
def test_splits_by_size_cover_each_row_once(
    made: list[Segment], size: int, cross: bool, max_files: int
) -> None:
    ranges = by_size(made, size, cross_partition=cross, max_files=max_files)
    assert_cover(ranges, made, cross)


@given(segments, st.integers(-5, 100), st.booleans())
def test_splits_by_number_cover_each_row_once(made: list[Segment], count: int, cross: bool) -> None:
    ranges = by_count(made, count, cross_partition=cross)
    assert_cover(ranges, made, cross)
    if cross:
        assert len(ranges) <= max(1, count)


def assert_cover(ranges: list[tuple[int, int]], made: list[Segment], cross: bool) -> None:
    assert [i for low, high in ranges for i in range(low, high)] == list(
        range(sum(s.rows for s in made))
    )
    assert all(low < high for low, high in ranges)
    if not cross:
        owner = [s.spec for s in made for _ in range(s.rows)]
        assert all(len(set(owner[low:high])) == 1 for low, high in ranges)


@given(st.text())
def test_any_text_gives_a_statement_or_a_typed_error(text: str) -> None:
    with suppress(InvalidRequestError):
        parse_job(text, {})


def test_strings_and_names_are_unescaped() -> None:
    cursor = Cursor("`a``b` 'it''s' 'x\\'y\\n' \"d\"")
    assert cursor.name() == "a`b"
    assert [cursor.text(), cursor.text(), cursor.text()] == ["it's", "x'y\n", "d"]


def test_a_script_is_split_only_at_semicolons_between_statements() -> None:
    script = "-- a; b\nSET x.y = 'a;b' ;; /* ; */ SHOW TABLES LIKE 'a;*';\nSET zone=Asia/Shanghai"
    assert parse_job(script, {}) == (Show(what="tables", pattern="a;*"),)
    for text in ("SELECT 'a", "DROP TABLE `a", "SHOW TABLES /* a"):
        with pytest.raises(InvalidRequestError, match="unterminated string"):
            parse_job(text, {})


@pytest.fixture(scope="module")
def duck() -> Iterator[Duck]:
    opened = Duck()
    yield opened
    opened.close()
    opened.close()


def test_the_restrictions_apply_to_each_connection(duck: Duck) -> None:
    import duckdb

    secret = pa.table({"a": [1]})
    with duck.connection() as one, duck.connection() as two:
        one.register("mine", secret)
        assert one.sql("SELECT a FROM mine").fetchall() == [(1,)]
        for text in (
            "SELECT * FROM secret",
            "SELECT * FROM mine",
            "SELECT * FROM read_text('/etc/passwd')",
            "SELECT * FROM glob('/*')",
            "COPY (SELECT 1) TO '/tmp/odps_nb_leak'",
            "ATTACH '/tmp/odps_nb_leak.db'",
            "INSTALL httpfs",
            "LOAD httpfs",
            "SET enable_external_access=true",
            "SET GLOBAL python_enable_replacements=true",
            "RESET lock_configuration",
        ):
            with pytest.raises(duckdb.Error):
                two.sql(text)


SCHEMA = TableSchema(
    columns=(
        Column(name="id", type=parse_type("bigint")),
        Column(name="Note", type=parse_type("string")),
    ),
    partition_columns=(Column(name="ds", type=parse_type("string")),),
)


@settings(max_examples=EXAMPLES)
@given(text=st.text())
def test_any_text_gives_a_predicate_or_a_typed_error(duck: Duck, text: str) -> None:
    with suppress(InvalidRequestError):
        Predicate.parse(text, SCHEMA, duck)


def test_the_partition_part_of_a_predicate_prunes_partitions(duck: Duck) -> None:
    predicate = Predicate.parse(
        "id > 5 AND (ds = 'a' OR ds LIKE 'b%') AND NOTE IS NULL", SCHEMA, duck
    )
    assert predicate is not None
    assert predicate.columns == ("id", "Note", "ds")
    part = predicate.partition_part(("ds",))
    assert part is not None
    specs = [PartitionSpec((("ds", v),)) for v in ("a", "b1", "c")]
    assert part.keeps(specs, SCHEMA) == [True, True, False]


def test_a_folder_accepts_only_its_own_file_names(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "f", durable=False)
    try:
        for name in ("../x", "a/b", "", "x" * 65, "a.b"):
            with pytest.raises(ValueError, match="not a file id"):
                folder.row_file(name)
    finally:
        folder.close()
        folder.close()
