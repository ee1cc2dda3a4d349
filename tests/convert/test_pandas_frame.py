"""Each type keeps its values and dtype in a DataFrame, also with nulls and extreme values."""

import datetime as dt
import io
import uuid
from collections.abc import Iterator
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.convert import frame_columns
from odps_nb.convert.arrow_schema import arrow_schema, fit_table
from odps_nb.convert.frame_schema import frame_schema
from odps_nb.convert.pandas_frame import from_pandas, to_pandas
from odps_nb.errors import ConversionError
from odps_nb.schema import TableSchema
from odps_nb.wire.type_text import parse_columns, parse_type
from tests.support.arrow_bodies import ipc

TEXT = pd.Series(["x"]).dtype  # pandas' own text dtype: str in pandas 3, object before

CASES = [
    ("tinyint", [-128, 127], "int8", "Int8"),
    ("smallint", [-(2**15), 2**15 - 1], "int16", "Int16"),
    ("int", [-(2**31), 2**31 - 1], "int32", "Int32"),
    ("bigint", [-(2**63), 2**63 - 1], "int64", "Int64"),
    ("float", [0.5, float("inf")], "float32", "float32"),
    ("double", [5e-324, -1.7976931348623157e308], "float64", "float64"),
    ("boolean", [True, False], "bool", "boolean"),
    ("string", ["", "漢字 𝄞\n\x00"], TEXT, TEXT),
    ("char(3)", ["abc", "äöü"], TEXT, TEXT),
    ("varchar(9)", ["", "x"], TEXT, TEXT),
    ("json", ['{"a":[1,null]}', "1"], TEXT, TEXT),
    ("binary", [b"", b"\xff\x00"], "object", "object"),
    ("date", [dt.datetime.min, dt.datetime(9999, 12, 31)], "datetime64[ms]", "datetime64[ms]"),
    ("datetime", [dt.datetime.min, dt.datetime(9999, 12, 31, 23, 59, 59, 999000)],
     "datetime64[ms]", "datetime64[ms]"),
    ("timestamp", [pd.Timestamp.min, pd.Timestamp.max], "datetime64[ns]", "datetime64[ns]"),
    ("timestamp_ntz", [pd.Timestamp(1), pd.Timestamp(0)], "datetime64[ns]", "datetime64[ns]"),
    ("interval_day_time", [pd.Timedelta(-1), pd.Timedelta(days=100_000)],
     "timedelta64[ns]", "timedelta64[ns]"),
    ("interval_year_month", [-12, 119_988], "int64", "Int64"),
]  # fmt: skip
DECIMALS = [
    ("decimal", [Decimal("0.000000000000000001"), Decimal("9" * 20 + "." + "9" * 18)]),
    ("decimal(38,0)", [Decimal(10**38 - 1), Decimal(-(10**38) + 1)]),
    ("decimal(60,20)", [Decimal(10**40 - 1), Decimal("-0.5")]),
]
NESTED = [
    ("array<bigint>", [[2**63 - 1, None], []]),
    ("map<string,bigint>", [[("a", 2**53 + 1)], [("b", None)]]),
    (
        "struct<a:bigint,b:array<date>>",
        [{"a": 2**53 + 1, "b": [dt.date.min]}, {"a": None, "b": None}],
    ),
]


def table_of(text: str, values: list) -> pa.Table:
    schema = arrow_schema(parse_columns(f"c {text}"))
    storage = schema.field(0).type
    return pa.table({"c": pa.array(values, storage)})


@pytest.mark.parametrize(("text", "values", "plain", "nullable"), CASES)
def test_scalars_keep_their_values_and_dtype_with_and_without_nulls(text, values, plain, nullable):
    full = to_pandas(table_of(text, values))
    assert full["c"].dtype == plain
    holed = to_pandas(table_of(text, [*values, None]))
    assert holed["c"].dtype == nullable
    assert holed["c"].isna().tolist() == [False, False, True]
    assert full["c"].tolist() == values
    assert holed["c"][:2].tolist() == values


@pytest.mark.parametrize(("text", "values"), DECIMALS)
def test_decimals_of_many_digits_stay_exact(text, values):
    frame = to_pandas(table_of(text, [*values, None]))
    assert frame["c"].dtype == object
    assert frame["c"][:2].tolist() == values
    assert pa.array(frame["c"]).to_pylist() == [*values, None]


@pytest.mark.parametrize(("text", "values"), NESTED)
def test_nested_values_are_lists_and_dicts_with_exact_values(text, values):
    frame = to_pandas(table_of(text, [*values, None]))
    assert frame["c"].dtype == object
    if text.startswith("map"):
        values = [dict(pairs) for pairs in values]
    assert frame["c"].tolist() == [*values, None]


@pytest.mark.parametrize(("text", "values"), [c[:2] for c in CASES] + DECIMALS + NESTED)
def test_a_frame_that_was_read_can_be_written_back(text, values):
    """Reading and writing a DataFrame sends the same Arrow data as writing the Arrow table."""
    there = table_of(text, [*values, None])
    schema = TableSchema(columns=parse_columns(f"c {text}"))
    back = from_pandas(to_pandas(there), schema)
    assert back.equals(fit_table(there, schema))
    assert back.column(0).null_count == 1


def test_batches_give_the_same_frame_as_a_table_even_without_rows():
    table = pa.table({"a": [1, 2, 3], "b": ["x", None, "z"]})
    frame = to_pandas(iter(table.to_batches(max_chunksize=2)), schema=table.schema)
    pd.testing.assert_frame_equal(frame, to_pandas(table))
    empty = to_pandas(iter([]), schema=table.schema)
    assert (list(empty.columns), len(empty)) == (["a", "b"], 0)
    assert len(to_pandas(pa.table({}))) == 0


def received_batches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield batches as a stream returns them: the columns of a batch are slices of one buffer."""
    body = io.BytesIO(ipc(table, rows=10_000))
    with pa.ipc.open_stream(pa.PythonFile(body, mode="r")) as reader:
        yield from reader


def test_a_frame_does_not_keep_the_memory_of_converted_columns():
    numbers = np.arange(100_000.0)
    table = pa.table(
        {
            **{f"n{at}": numbers for at in range(10)},
            "text": pa.array(["x"] * 100_000),
            "exact": pa.array([Decimal(1)] * 100_000, pa.decimal128(18, 2)),
        }
    )
    own = table.nbytes * 1.05  # keeping the received batches would double the memory
    before = pa.total_allocated_bytes()
    frame = to_pandas(received_batches(table), schema=table.schema, rows=table.num_rows)
    assert pa.total_allocated_bytes() - before < own
    pd.testing.assert_frame_equal(frame, to_pandas(table))


@pytest.mark.parametrize("rows", [None, 0, 3, 10**15, -1])
def test_the_announced_number_of_rows_may_be_wrong(rows, monkeypatch):
    monkeypatch.setattr(frame_columns, "_FIRST_ROWS", 2)
    values = {
        "number": pa.array([1, 2, 3, None] * 50),
        "flag": pa.array([True, None, False, True] * 50),
        "real": pa.array([0.5, None, float("nan"), -0.0] * 50),
        "day": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31), dt.date(2024, 2, 29)] * 50),
        "text": pa.array(["a", None, "", "漢"] * 50),
        "data": pa.array([b"a", None, b"", b"\xff"] * 50),
        "late": pa.array([1] * 199 + [None]),
    }
    table = pa.table(values)
    frame = to_pandas(iter(table.to_batches(max_chunksize=3)), schema=table.schema, rows=rows)
    pd.testing.assert_frame_equal(frame, to_pandas(table))
    assert frame.dtypes.map(str).to_dict() | {"text": "text"} == {
        "number": "Int64",
        "flag": "boolean",
        "real": "float64",
        "day": "datetime64[ms]",
        "text": "text",
        "data": "object",
        "late": "Int64",
    }
    assert pa.Table.from_pandas(frame, schema=table.schema).equals(
        table.set_column(2, "real", pa.array([0.5, None, None, -0.0] * 50))
    )
    frame.loc[0, "number"], frame.loc[1, "real"] = 7, 1.0
    assert (frame.loc[0, "number"], frame.loc[1, "real"]) == (7, 1.0)


def test_batches_without_a_schema_are_refused():
    with pytest.raises(TypeError, match="schema"):
        to_pandas(iter([]))


def test_columns_of_bytes_have_the_object_dtype():
    values = [b"a", None, b"", b"a", b"\xff"]
    parts = [pa.table({"b": pa.array(values, pa.binary())})] * 3
    frame = to_pandas(pa.concat_tables(parts))
    assert frame["b"].tolist() == values * 3
    nothing = to_pandas(pa.table({"b": pa.array([None, None], pa.large_binary())}))
    assert nothing["b"].dtype == object
    assert nothing["b"].tolist() == [None, None]


@pytest.mark.parametrize("chunks", [1, 3])
def test_changing_a_frame_does_not_change_the_table(chunks: int):
    piece = pa.table({"i": [1, 2], "f": [1.0, None], "t": [dt.datetime(2024, 1, 1)] * 2})
    table = pa.concat_tables([piece] * chunks)
    before = table.to_pylist()
    frame = to_pandas(table)
    frame.loc[1, "i"], frame.loc[1, "f"], frame.loc[1, "t"] = 7, 7.0, dt.datetime(2030, 1, 1)
    assert frame.loc[1].tolist() == [7, 7.0, dt.datetime(2030, 1, 1)]
    assert table.to_pylist() == before


def test_columns_with_the_same_name_are_kept():
    table = pa.Table.from_arrays([pa.array([1]), pa.array(["x"])], names=["a", "a"])
    assert list(to_pandas(table).columns) == ["a", "a"]


# -- from pandas ------------------------------------------------------------------------------


def write(text: str, values, **more) -> list:
    schema = TableSchema(columns=parse_columns(f"c {text}"))
    return from_pandas(pd.DataFrame({"c": pd.Series(values, **more)}), schema)["c"].to_pylist()


GIVEN = [
    ("bigint", [1.0, np.nan], {}, [1, None]),
    ("bigint", [1, pd.NA], {"dtype": "Int64"}, [1, None]),
    ("bigint", [1, None, pd.NA], {"dtype": object}, [1, None, None]),
    ("bigint", [2**63 - 1, None], {"dtype": object}, [2**63 - 1, None]),
    ("string", ["a", None, np.nan], {}, ["a", None, None]),
    ("string", ["a", "b", "a"], {"dtype": "category"}, ["a", "b", "a"]),
    ("binary", [b"\x00", None], {}, [b"\x00", None]),
    ("boolean", [True, None], {"dtype": object}, [True, None]),
    ("decimal(10,2)", [Decimal("1.5"), None], {}, [Decimal("1.50"), None]),
    ("decimal(10,2)", [Decimal("1.5"), 2], {}, [Decimal("1.50"), Decimal("2.00")]),
    ("decimal(10,2)", [0.1, np.nan], {}, [Decimal("0.10"), None]),
    ("date", [dt.date.min, None], {}, [dt.date.min, None]),
    ("date", [dt.date(2024, 1, 1), dt.datetime(2024, 1, 2)], {"dtype": object},
     [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]),
    ("date", pd.to_datetime(["2024-01-01", None]), {}, [dt.date(2024, 1, 1), None]),
    ("datetime", [dt.datetime(1, 1, 1), None], {"dtype": object}, [dt.datetime(1, 1, 1), None]),
    ("timestamp", [pd.Timestamp(1), None], {"dtype": object}, [pd.Timestamp(1), None]),
    ("timestamp", pd.to_datetime(["2024-01-01T08:00+08:00"]), {}, [pd.Timestamp("2024-01-01")]),
    ("timestamp", [pd.Timestamp("2024-01-01T08:00+08:00")], {"dtype": object},
     [pd.Timestamp("2024-01-01")]),
    ("array<int>", [[1, None], None, np.array([2])], {}, [[1, None], None, [2]]),
    ("array<timestamp>", [[pd.Timestamp(1)]], {}, [[pd.Timestamp(1)]]),
    ("array<datetime>", [[dt.datetime(1, 1, 1)]], {}, [[dt.datetime(1, 1, 1)]]),
    ("map<string,int>", [{"a": 1}, [("b", None)], None], {}, [[("a", 1)], [("b", None)], None]),
    ("struct<a:int,b:string>", [{"a": 1}, None], {}, [{"a": 1, "b": None}, None]),
    ("array<decimal(5,2)>", [[Decimal("1.5")]], {}, [[Decimal("1.50")]]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "values", "more", "expected"), GIVEN)
def test_common_data_frames_are_stored(text, values, more, expected):
    assert write(text, values, **more) == expected


def test_sparse_columns_are_written_in_full():
    assert write("bigint", pd.arrays.SparseArray([0, 0, 7])) == [0, 0, 7]


OBJECTS = [
    ("timestamp", [dt.date(2024, 1, 1), dt.datetime(2024, 1, 2, 10)]),
    ("timestamp", [pd.Timestamp(1), pd.Timestamp(1000)]),
    ("interval_day_time", [pd.Timedelta(1), dt.timedelta(1)]),
    ("decimal(38,18)", [Decimal("1.5"), 2]),
    ("bigint", [2**62 + 1, 5]),
    ("double", [0.5, np.float32(2)]),
]


@pytest.mark.parametrize(("text", "values"), OBJECTS)
def test_categories_of_objects_are_stored_like_the_objects(text, values):
    plain = pd.Series(values, dtype=object)
    categories = pd.Series(pd.Categorical(pd.Index(values, dtype=object)))
    assert write(text, categories) == write(text, plain)
    types = [
        frame_schema(pd.DataFrame({"c": column}), lambda _: False).columns[0].type
        for column in (plain, categories)
    ]
    assert types == [parse_type(text)] * 2


REFUSED = [
    ("bigint", [1, "x"], 1, "'x'"),
    ("bigint", [1.5], 0, "1.5"),
    ("string", ["a", 5], 1, "5"),
    ("decimal(10,2)", [Decimal("1.5"), Decimal("1.555")], 1, "1.555"),
    ("decimal(10,2)", [Decimal("1.5"), "x"], 1, "'x'"),
    ("date", [dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 5)], 1, "5"),
    ("datetime", [pd.Timestamp(1)], 0, ""),
    ("array<int>", [[1], ["x"]], 1, "c[1][0] = 'x'"),
    ("array<date>", [[dt.datetime(2024, 1, 1, 5)]], 0, "not midnight"),
    ("struct<a:int>", [{"a": 1}, {"a": 1, "zz": 2}], 1, "no member 'zz'"),
    ("map<string,int>", [{"a": 1}, {None: 1}], 1, "null"),
    ("bigint", [2**70], 0, ""),
]


@pytest.mark.parametrize(("text", "values", "row", "said"), REFUSED)
def test_the_error_names_a_value_that_does_not_fit_and_its_row(text, values, row, said):
    with pytest.raises(ConversionError) as caught:
        write(text, values, dtype=object)
    assert (caught.value.column, caught.value.row) == ("c", row)
    assert said in str(caught.value)
    assert "nothing was written" in caught.value.hint


def test_fixed_width_bytes_are_not_text():
    with pytest.raises(ConversionError, match=r"(?i)uuid"):
        write("string", [uuid.UUID(int=0)], dtype=object)


def test_pandas_times_with_a_zone_are_refused_for_timestamp_ntz():
    for values in (pd.to_datetime(["2024-01-01T00:00Z"]), [pd.Timestamp("2024-01-01T00:00Z")]):
        with pytest.raises(ConversionError, match="time zone"):
            write("timestamp_ntz", values, dtype=object)


def test_the_error_names_the_column_of_a_type_that_arrow_does_not_have():
    with pytest.raises(ConversionError, match="complex128") as caught:
        write("double", [1j])
    assert caught.value.column == "c"


def test_column_names_must_be_text():
    schema = TableSchema(columns=parse_columns("a bigint"))
    with pytest.raises(ConversionError, match="0 is not text"):
        from_pandas(pd.DataFrame([[1]]), schema)


def test_without_a_schema_arrow_infers_the_types():
    table = from_pandas(pd.DataFrame({"a": [1], "b": ["x"]}, index=[7]))
    assert table.column_names == ["a", "b"]
    assert table.schema.field("a").type == pa.int64()
