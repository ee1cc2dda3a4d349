"""``TableRead`` as the real service responds."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.support.service.raw import Raw, batches_of, refused, rows_of

ROW_OFFSET = {"SplitMode": "RowOffset"}
ALL = {"Offset": 0, "Count": 1000}
MIB = 2**20


@pytest.fixture(scope="module")
def plain(raw: Raw) -> str:
    name = raw.make("(col1 bigint, col2 string, col3 double, col4 boolean)")
    rows = {
        "col1": pa.array(range(1000), pa.int64()),
        "col2": ["test_string_2"] * 1000,
        "col3": [3.5] * 1000,
        "col4": [True] * 1000,
    }
    raw.write(name, pa.table(rows))
    return name


def test_batches_have_at_most_20000_rows(raw: Raw, plain: str) -> None:
    """evidence 30, 32: 20001 is rejected by the read, not by the session (C++: …MaxBatchRows)"""
    session = raw.session(plain, SplitOptions=ROW_OFFSET)
    batches = batches_of(raw.read(plain, session, ALL, MaxBatchRows=50))
    assert max(batch.num_rows for batch in batches) <= 50
    assert sum(batch.num_rows for batch in batches) == 1000
    assert raw.rows(plain, session, ALL, MaxBatchRows=20_000).num_rows == 1000
    assert "20001" in refused(raw.read(plain, session, ALL, MaxBatchRows=20_001))


@pytest.mark.parametrize("size", [1, 1024, MIB - 1, 256 * MIB + 1])
def test_a_batch_size_out_of_range_is_refused(raw: Raw, plain: str, size: int) -> None:
    """evidence 31, 32 (C++: TestReadOptionsMaxBatchRawSize; header)"""
    session = raw.session(plain, SplitOptions=ROW_OFFSET)
    assert str(size) in refused(raw.read(plain, session, ALL, MaxBatchRawSize=size))


@pytest.mark.parametrize("size", [0, MIB, 256 * MIB])
def test_a_batch_size_in_range_is_accepted(raw: Raw, plain: str, size: int) -> None:
    """evidence 31: 0, or 1 to 256 MiB (C++: TestReadOptionsMaxBatchRawSize; header)"""
    session = raw.session(plain, SplitOptions=ROW_OFFSET)
    assert raw.rows(plain, session, ALL, MaxBatchRawSize=size).num_rows == 1000


def test_the_first_rows_of_a_split_can_be_skipped(raw: Raw, plain: str) -> None:
    """evidence 33: 100 of 1000 rows are skipped, 900 returned (C++: TestReadOptionsSkipRowNum)"""
    session = raw.session(plain, SplitOptions=ROW_OFFSET)
    rows = raw.rows(plain, session, ALL, SkipRowNum=100)
    assert rows["col1"].to_pylist() == list(range(100, 1000))


@pytest.mark.parametrize("unordered", [True, False])
def test_data_columns_can_be_selected(raw: Raw, plain: str, *, unordered: bool) -> None:
    """evidence 34 (C++: TestReadOptionsDataColumns, …DataColumnsUnordered)"""
    session = raw.session(plain, SplitOptions=ROW_OFFSET)
    said = {"DataColumns": ["col3", "col1"], "DataColumnsUnordered": unordered}
    rows = raw.rows(plain, session, ALL, **said)
    assert rows.column_names == (["col1", "col3"] if unordered else ["col3", "col1"])
    assert rows.num_rows == 1000


def test_all_read_options_can_be_combined(raw: Raw, plain: str) -> None:
    """evidence 35, 34: col2, col4 in this order (C++: TestReadOptionsAllParameters)"""
    session = raw.session(plain, SplitOptions=ROW_OFFSET)
    batches = batches_of(
        raw.read(
            plain,
            session,
            ALL,
            MaxBatchRows=100,
            SkipRowNum=50,
            MaxBatchRawSize=MIB,
            DataFormat={"Type": "Arrow", "Version": "V5"},
            DataColumns=["col2", "col4"],
            DataColumnsUnordered=True,
        )
    )
    assert [batch.schema.names for batch in batches] == [["col2", "col4"]] * len(batches)
    assert sum(batch.num_rows for batch in batches) == 950


@pytest.mark.parametrize("coding", ["x-lz4-frame,zstd", "zstd", "x-lz4-frame"])
def test_a_plain_arrow_reader_can_read_a_response(raw: Raw, plain: str, coding: str) -> None:
    """evidence 36: IPC buffers are compressed, the body is not (C++: ArrowBatchReader)"""
    session = raw.session(plain, SplitOptions=ROW_OFFSET)
    params = {"SessionId": session["SessionId"], **ALL}
    answer = raw.ask("TableRead", raw.table(plain), params, {}, coding=coding)
    assert rows_of(answer).num_rows == 1000


MOMENT = datetime.datetime(2024, 2, 29, 1, 2, 3)
TYPES = {
    "tinyint": (pa.int8(), 1),
    "smallint": (pa.int16(), 1),
    "int": (pa.int32(), 1),
    "bigint": (pa.int64(), 1),
    "float": (pa.float32(), 0.5),
    "double": (pa.float64(), 0.5),
    "boolean": (pa.bool_(), True),
    "string": (pa.utf8(), "a"),
    "char(3)": (pa.utf8(), "abc"),
    "varchar(3)": (pa.utf8(), "a"),
    "binary": (pa.binary(), b"a"),
    "date": (pa.date32(), datetime.date(2024, 2, 29)),
    "datetime": (pa.timestamp("ms", "UTC"), MOMENT.replace(tzinfo=datetime.UTC)),
    "timestamp": (pa.timestamp("ns", "UTC"), MOMENT.replace(tzinfo=datetime.UTC)),
    "timestamp_ntz": (pa.timestamp("ns"), MOMENT),
    "decimal(10,2)": (pa.decimal128(10, 2), Decimal("1.25")),
    "decimal": (pa.decimal128(38, 18), Decimal("1.25")),
    "array<int>": (pa.list_(pa.int32()), [1]),
    "map<string,int>": (pa.map_(pa.utf8(), pa.int32()), [("a", 1)]),
    "struct<a:int>": (pa.struct([("a", pa.int32())]), {"a": 1}),
}


def test_arrow_types_equal_those_of_the_cpp_client(raw: Raw) -> None:
    """evidence 37 to 39, 151: types, default units (C++: ValidateBatch), zones (Doris connector)"""
    columns = ", ".join(f"c{i} {kind}" for i, kind in enumerate(TYPES))
    name = raw.make(f"({columns}) PARTITIONED BY (p string)")
    sent = {f"c{i}": pa.array([value], kind) for i, (kind, value) in enumerate(TYPES.values())}
    raw.write(name, pa.table(sent), "p=x")
    rows = raw.whole(name, raw.session(name, SplitOptions=ROW_OFFSET))
    found = {
        kind: _plain(field.type) for kind, field in zip([*TYPES, "p"], rows.schema, strict=True)
    }
    assert found == {kind: type_ for kind, (type_, _) in TYPES.items()} | {"p": pa.utf8()}
    assert rows.drop(["p"]).to_pylist() == pa.table(sent).to_pylist()


def _plain(type_: pa.DataType) -> pa.DataType:
    """Return a type without the names of inner fields, which readers ignore."""
    if pa.types.is_list(type_):
        return pa.list_(type_.value_type)
    if pa.types.is_map(type_):
        return pa.map_(type_.key_type, type_.item_type)
    return type_


def test_requested_time_units_are_used(raw: Raw) -> None:
    """evidence 39: units requested in ArrowOptions (C++: header; Python, Java: defaults)"""
    name = raw.make("(a datetime, b timestamp, c timestamp_ntz)")
    moment = datetime.datetime(2024, 2, 29, 1, 2, 3, 4567)
    times = {"a": None, "b": moment, "c": None}
    raw.write(name, pa.table({k: pa.array([v], pa.timestamp("us")) for k, v in times.items()}))
    session = raw.session(
        name,
        SplitOptions=ROW_OFFSET,
        ArrowOptions={"TimestampUnit": "micro", "DatetimeUnit": "second"},
    )
    rows = raw.whole(name, session)
    assert rows.schema.types == [
        pa.timestamp("s", "UTC"),
        pa.timestamp("us", "UTC"),
        pa.timestamp("us"),
    ]
    assert rows["b"].to_pylist() == [moment.replace(tzinfo=datetime.UTC)]


@pytest.mark.parametrize(
    "form",
    [
        {"Type": "arrow1", "Version": "V5"},
        {"Type": "Arrow", "Version": "v6"},
        {"Type": "CSV", "Version": "V5"},
    ],
)
def test_an_unknown_data_format_is_refused(raw: Raw, plain: str, form: dict[str, str]) -> None:
    """evidence 42 (Python v1: test_read_with_invalid_data_format)"""
    session = raw.session(plain, SplitOptions=ROW_OFFSET)
    assert "the only supported row format" in refused(
        raw.read(plain, session, ALL, DataFormat=form)
    )


def test_a_row_offset_beyond_the_end_is_refused(raw: Raw, plain: str) -> None:
    """evidence 43: an error in v1; unknown for the end itself (maxframe issue 51, its title)"""
    session = raw.session(plain, SplitOptions=ROW_OFFSET)
    assert raw.rows(plain, session, {"Offset": 1000, "Count": 5}).num_rows == 0
    answer = raw.read(plain, session, {"Offset": 1001, "Count": 1})
    assert "1000" in refused(answer)
    assert answer.json()["Code"] == "InvalidRowRange"
