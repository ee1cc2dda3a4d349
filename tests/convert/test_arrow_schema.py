"""Types are converted in both directions (``docs/protocol.md`` section 5.1), without data loss."""

import datetime as dt
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.arrow.types import SECONDS_AND_NANOS, arrow_type
from odps_nb.convert.arrow_schema import (
    arrow_schema,
    fit_batch,
    fit_table,
    require_arrow_types,
    table_schema,
)
from odps_nb.convert.arrow_types import odps_type
from odps_nb.errors import ConversionError
from odps_nb.schema import (
    ArrayType,
    Column,
    PrimitiveType,
    TableSchema,
    TypeCode,
    UnknownType,
    VectorType,
)
from odps_nb.wire.type_text import format_type, parse_columns, parse_type

MAPPING = [
    ("tinyint", pa.int8()),
    ("smallint", pa.int16()),
    ("int", pa.int32()),
    ("bigint", pa.int64()),
    ("float", pa.float32()),
    ("double", pa.float64()),
    ("boolean", pa.bool_()),
    ("string", pa.string()),
    ("char(3)", pa.string()),
    ("varchar(3)", pa.string()),
    ("json", pa.string()),
    ("binary", pa.binary()),
    ("decimal(10,2)", pa.decimal128(10, 2)),
    ("decimal", pa.decimal128(38, 18)),
    ("decimal(60,10)", pa.decimal256(60, 10)),
    ("date", pa.date32()),
    ("datetime", pa.timestamp("ms")),
    ("timestamp", pa.timestamp("ns")),
    ("timestamp_ntz", pa.timestamp("ns")),
    ("interval_day_time", pa.duration("ns")),
    ("interval_year_month", pa.int64()),
    ("blob", pa.string()),
    ("array<int>", pa.list_(pa.field("element", pa.int32()))),
    ("map<string,decimal(5,1)>", pa.map_(pa.string(), pa.decimal128(5, 1))),
    ("struct<a:bigint,b:array<blob>>",
     pa.struct([("a", pa.int64()), ("b", pa.list_(pa.field("element", pa.string())))])),
]  # fmt: skip


@pytest.mark.parametrize(("text", "arrow"), MAPPING)
def test_each_type_is_read_as_the_arrow_type_of_the_protocol(text, arrow):
    assert arrow_type(parse_type(text)).equals(arrow)


def test_a_write_sends_raw_references_and_structs_for_intervals():
    assert arrow_type(parse_type("blob"), for_write=True).equals(pa.binary())
    nested = arrow_type(parse_type("array<interval_day_time>"), for_write=True)
    assert nested.value_type.equals(SECONDS_AND_NANOS)


def test_time_units_follow_the_session():
    timestamps = parse_type("struct<a:timestamp,b:datetime>")
    arrow = arrow_type(timestamps, timestamp_unit="us", datetime_unit="s")
    assert [arrow.field(i).type.unit for i in range(2)] == ["us", "s"]


@pytest.mark.parametrize("odps", [PrimitiveType(TypeCode.VARIANT), UnknownType("foo(3)")])
def test_a_type_without_a_documented_arrow_type_is_null(odps):
    assert arrow_type(odps) == arrow_type(odps, for_write=True) == pa.null()
    names = {"id": parse_type("bigint"), "x": ArrayType(odps)}
    columns = [Column(name=name, type=kind) for name, kind in names.items()]
    with pytest.raises(ConversionError, match=r"a dataset needs .* column 'x'") as caught:
        require_arrow_types(columns, "a dataset")
    assert caught.value.hint == "read only the other columns: read(columns=['id'])"


def test_a_vector_is_read_as_a_list_of_fixed_size():
    vector = VectorType(PrimitiveType(TypeCode.FLOAT), 3)
    assert arrow_type(vector) == pa.list_(pa.float32(), 3)
    assert arrow_type(vector, for_write=True) == pa.list_(pa.float32())
    assert arrow_type(ArrayType(vector)).value_type == pa.list_(pa.float32())


BACK = [
    (pa.int8(), "tinyint"), (pa.uint8(), "smallint"), (pa.int16(), "smallint"),
    (pa.uint16(), "int"), (pa.int32(), "int"), (pa.uint32(), "bigint"), (pa.int64(), "bigint"),
    (pa.uint64(), "decimal(20,0)"), (pa.float16(), "float"), (pa.float32(), "float"),
    (pa.float64(), "double"), (pa.bool_(), "boolean"), (pa.string(), "string"),
    (pa.large_string(), "string"), (pa.binary(), "binary"), (pa.binary(4), "binary"),
    (pa.large_binary(), "binary"), (pa.decimal128(9, 3), "decimal(9,3)"),
    (pa.decimal256(60, 3), "decimal(60,3)"), (pa.decimal128(3, -2), "decimal(5,0)"),
    (pa.date32(), "date"), (pa.date64(), "date"), (pa.timestamp("s"), "datetime"),
    (pa.timestamp("ms", "UTC"), "datetime"), (pa.timestamp("us"), "timestamp"),
    (pa.timestamp("ns"), "timestamp"), (pa.duration("us"), "interval_day_time"),
    (pa.null(), "string"), (pa.dictionary(pa.int8(), pa.string()), "string"),
    (pa.list_(pa.int8()), "array<tinyint>"), (pa.large_list(pa.int8()), "array<tinyint>"),
    (pa.list_(pa.int8(), 2), "array<tinyint>"),
    (pa.map_(pa.string(), pa.date32()), "map<string,date>"),
    (pa.struct([("a", pa.list_(pa.float64()))]), "struct<a:array<double>>"),
]  # fmt: skip


@pytest.mark.parametrize(("arrow", "text"), BACK)
def test_each_arrow_type_has_a_maxcompute_type_that_can_store_it(arrow, text):
    assert format_type(odps_type(arrow)) == text


@pytest.mark.parametrize("arrow", [pa.time32("s"), pa.time64("ns"), pa.month_day_nano_interval()])
def test_the_error_names_an_arrow_type_without_an_equivalent(arrow):
    with pytest.raises(ConversionError, match="no MaxCompute type") as caught:
        table_schema(pa.schema([("c", arrow)]))
    assert caught.value.column == "c"


def test_schemas_are_unchanged_by_a_round_trip():
    columns = parse_columns(
        "id bigint not null, a array<string>, m map<string,int>, d decimal(9,2)"
    )
    schema = TableSchema(columns=columns)
    assert table_schema(arrow_schema(schema)) == schema


# -- fitting ----------------------------------------------------------------------------------


def fit_column(text: str, array: pa.Array) -> pa.Array:
    schema = TableSchema(columns=parse_columns(f"c {text}"))
    return fit_table(pa.table({"c": array}), schema).column("c").combine_chunks()


ts = dt.datetime
LAST_MS = ts(9999, 12, 31, 23, 59, 59, 999000)
TO_INT = pa.map_(pa.string(), pa.int64())
HIDDEN = pa.MapArray.from_arrays(  # the null MAP has entries in its buffers
    [0, 1, 3, 4], ["a", "x", "y", "b"], [1, 9, 8, 2], mask=pa.array([False, True, False])
)
FITS = [
    ("tinyint", pa.array([-128, 127, None]), [-128, 127, None]),
    ("bigint", pa.array([2**63 - 1], pa.uint64()), [2**63 - 1]),
    ("bigint", pa.array([1.0, -(2.0**53)]), [1, -(2**53)]),
    ("int", pa.array([Decimal("3.00")]), [3]),
    ("double", pa.array([2**53]), [2.0**53]),
    ("float", pa.array([0.5, float("inf")]), [0.5, float("inf")]),
    ("decimal(10,2)", pa.array([1, -5]), [Decimal("1.00"), Decimal("-5.00")]),
    ("decimal(10,2)", pa.array([0.1, 99999999.99]), [Decimal("0.10"), Decimal("99999999.99")]),
    ("decimal", pa.array([0.1]), [Decimal("0.1").quantize(Decimal(1).scaleb(-18))]),
    ("decimal(38,0)", pa.array([Decimal(10**38 - 1)]), [Decimal(10**38 - 1)]),
    ("decimal(5,2)", pa.array([Decimal("1.5")]), [Decimal("1.50")]),
    ("string", pa.array(["é", None]).dictionary_encode(), ["é", None]),
    ("string", pa.array([b"abc"], pa.large_binary()), ["abc"]),
    ("char(2)", pa.array(["漢字"]), ["漢字"]),
    ("binary", pa.array([b"\xff\x00"], pa.binary(2)), [b"\xff\x00"]),
    ("date", pa.array([dt.date.min, dt.date.max]), [dt.date.min, dt.date.max]),
    ("date", pa.array([ts(2024, 1, 2)], pa.timestamp("ns")), [dt.date(2024, 1, 2)]),
    ("datetime", pa.array([dt.date(1, 1, 1)]), [ts(1, 1, 1)]),
    ("datetime", pa.array([LAST_MS]), [LAST_MS]),
    ("timestamp", pa.array([0], pa.timestamp("us", "Asia/Shanghai")), [ts(1970, 1, 1)]),
    ("interval_day_time", pa.array([dt.timedelta(microseconds=-1), None]),
     [{"sec": -1, "nano": 999_999_000}, None]),
    ("interval_day_time", pa.array([{"sec": 1, "nano": 2}], SECONDS_AND_NANOS),
     [{"sec": 1, "nano": 2}]),
    ("interval_year_month", pa.array([-12], pa.int32()), [-12]),
    ("boolean", pa.array([True, None]), [True, None]),
    ("array<bigint>", pa.array([[1, None], None], pa.large_list(pa.int8())), [[1, None], None]),
    ("array<string>", pa.array([None, []]), [None, []]),
    ("struct<a:bigint,b:string>", pa.array([{"a": 1}, None]), [{"a": 1, "b": None}, None]),
    ("struct<a:int>", pa.nulls(2), [None, None]),
    ("map<string,bigint>", HIDDEN, [[("a", 1)], None, [("b", 2)]]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "array", "values"), FITS)
def test_values_that_a_type_can_represent_fit(text, array, values):
    fitted = fit_column(text, array)
    assert fitted.to_pylist() == values
    assert fitted.type.equals(arrow_type(parse_type(text), for_write=True))


MISFITS = [
    ("tinyint", pa.array([1, 128]), 1),
    ("bigint", pa.array([1, 2**63], pa.uint64()), 1),
    ("bigint", pa.array([1.0, 1.5]), 1),
    ("bigint", pa.array([float("nan")]), 0),
    ("int", pa.array([Decimal("1.5")]), 0),
    ("double", pa.array([0, 2**53 + 1]), 1),
    ("float", pa.array([0.0, 1e300]), 1),
    ("decimal(4,2)", pa.array([1, 100]), 1),
    ("decimal(10,2)", pa.array([0.1, 0.125]), 1),
    ("decimal(10,2)", pa.array([float("inf")]), 0),
    ("decimal(5,2)", pa.array([Decimal("1.234")]), 0),
    ("string", pa.array([b"ok", b"\xff"]), 1),
    ("varchar(2)", pa.array(["ab", None, "abc"]), 2),
    ("date", pa.array([ts(2024, 1, 1), ts(2024, 1, 1, 5)]), 1),
    ("date", pa.array([ts(2024, 1, 1), ts(2024, 1, 1, 0, 0, 0, 1)]), 1),
    ("date", pa.array([0, 2932897], pa.int32()).cast(pa.date32()), 1),
    ("datetime", pa.array([1_000_000, 1], pa.timestamp("ns")), 1),
    ("interval_day_time", pa.array([{"sec": 1, "nano": 10**9}], SECONDS_AND_NANOS), 0),
    ("interval_day_time", pa.array([{"sec": None, "nano": 1}], SECONDS_AND_NANOS), 0),
    ("interval_day_time", pa.array([{"sec": 2**40, "nano": 1}], SECONDS_AND_NANOS), 0),
    ("array<tinyint>", pa.array([[1], None, [2, 300]]), 2),
    ("map<string,tinyint>", pa.array([[("a", 1)], [("b", 999)]], TO_INT), 1),
    ("struct<a:varchar(1)>", pa.array([{"a": "x"}, {"a": "xy"}]), 1),
]  # fmt: skip

NESTED_PATHS = {
    "array<tinyint>": "[1]",
    "map<string,tinyint>": ".value[0]",
    "struct<a:varchar(1)>": ".a",
}


@pytest.mark.parametrize(("text", "array", "row"), MISFITS)
def test_an_error_names_the_row_of_a_value_that_would_change(text, array, row):
    with pytest.raises(ConversionError) as caught:
        fit_column(text, array)
    assert (caught.value.column, caught.value.row) == ("c", row)
    assert caught.value.path == NESTED_PATHS.get(text)
    if caught.value.path is None:
        assert caught.value.target_type == format_type(parse_type(text))
    assert f"c[{row}]" in str(caught.value)


MOMENT = dt.datetime(2024, 1, 1)
KINDS = [
    ("bigint", pa.array(["1"])),
    ("string", pa.array([1])),
    ("boolean", pa.array([1], pa.int8())),
    ("int", pa.array([True])),
    ("double", pa.array([Decimal("0.5")])),
    ("date", pa.array(["2024-01-01"])),
    ("timestamp", pa.array([1])),
    ("timestamp_ntz", pa.array([MOMENT], pa.timestamp("us", "UTC"))),
    ("array<int>", pa.array([1])),
    ("struct<a:int>", pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))),
    ("map<string,int>", pa.array([[1]])),
    ("struct<a:int>", pa.array([{"a": 1, "zz": 2}])),
    ("array<struct<a:int>>", pa.array([[{"a": "1"}]])),
    ("interval_day_time", pa.array([1])),
]


@pytest.mark.parametrize(("text", "array"), KINDS)
def test_no_value_is_converted_to_a_type_of_another_kind(text, array):
    with pytest.raises(ConversionError) as caught:
        fit_column(text, array)
    assert (caught.value.column, caught.value.row) == ("c", 0)
    assert "c[0]" in str(caught.value)


@pytest.mark.parametrize(("text", "array"), KINDS)
def test_a_column_of_nulls_fits_any_type(text, array):
    assert fit_column(text, pa.nulls(3, array.type)).to_pylist() == [None] * 3


def test_one_error_lists_every_value_that_does_not_fit():
    schema = TableSchema(columns=parse_columns("a tinyint, b date, c string"))
    data = pa.table({"a": [1, 999, 1000], "b": [dt.datetime(2024, 1, 1, 1)] * 3, "c": ["x"] * 3})
    with pytest.raises(ConversionError) as caught:
        fit_table(data, schema)
    text = str(caught.value)
    assert "a[1] = 999 (int64 → tinyint)" in text
    assert "a[2] = 1000" in text
    assert "b[0]" in text
    assert "c[" not in text
    assert (caught.value.column, caught.value.row) == ("a", 1)


def test_an_error_lists_a_bounded_number_of_values():
    schema = TableSchema(columns=parse_columns(", ".join(f"c{i} tinyint" for i in range(50))))
    data = pa.table({f"c{i}": [999] * 9 for i in range(50)})
    with pytest.raises(ConversionError, match="and 142 more") as caught:
        fit_table(data, schema)
    assert len(str(caught.value)) < 2000


def test_columns_match_in_any_case_and_order_and_absent_columns_become_null():
    schema = TableSchema(columns=parse_columns("id bigint, note string, tags array<string>"))
    fitted = fit_table(pa.table({"NOTE": ["x"], "Id": [1]}), schema)
    assert fitted.to_pylist() == [{"id": 1, "note": "x", "tags": None}]


def test_the_error_for_an_unknown_column_suggests_a_similar_name():
    schema = TableSchema(columns=parse_columns("amount bigint, note string"))
    with pytest.raises(ConversionError, match=r"no column 'amuont' \(did you mean 'amount'\?\)"):
        fit_table(pa.table({"amuont": [1]}), schema)


def test_repeated_columns_are_refused():
    schema = TableSchema(columns=parse_columns("a bigint"))
    with pytest.raises(ConversionError, match="more than once: A, a"):
        fit_table(pa.table({"a": [1], "A": [2]}), schema)


def test_required_columns_may_be_neither_absent_nor_null():
    schema = TableSchema(columns=parse_columns("id bigint not null, note string"))
    with pytest.raises(ConversionError, match="absent → bigint not null"):
        fit_table(pa.table({"note": ["x"]}), schema)
    with pytest.raises(ConversionError, match=r"id\[1\] = null") as caught:
        fit_table(pa.table({"id": [1, None]}), schema)
    assert caught.value.row == 1


def test_row_numbers_in_errors_count_all_batches_and_chunks():
    schema = TableSchema(columns=parse_columns("a tinyint"))
    batch = pa.record_batch({"a": [1, 2, 999]})
    with pytest.raises(ConversionError) as caught:
        fit_batch(batch, schema, first_row=100)
    assert caught.value.row == 102
    chunks = pa.chunked_array([[1] * 70_000, [1, 999]])
    with pytest.raises(ConversionError) as caught:
        fit_table(pa.table({"a": chunks}), schema)
    assert caught.value.row == 70_001


def test_columns_that_already_fit_are_not_copied():
    data = pa.table({"c": pa.array(range(1000))})
    fitted = fit_table(data, TableSchema(columns=parse_columns("c bigint")))
    theirs = data.column(0).chunk(0).buffers()[1].address
    assert fitted.column(0).chunk(0).buffers()[1].address == theirs


def test_the_error_survives_pickling():
    with pytest.raises(ConversionError) as caught:
        fit_column("tinyint", pa.array([999]))
    twin = pickle.loads(pickle.dumps(caught.value))
    assert (str(twin), twin.column, twin.row) == (str(caught.value), "c", 0)


INNER = st.none() | st.integers(-(2**31), 2**31 - 1)
NESTED = st.none() | st.lists(
    st.none()
    | st.fixed_dictionaries(
        {"a": INNER, "m": st.none() | st.dictionaries(st.text(max_size=3), INNER, max_size=3)}
    ),
    max_size=4,
)
NARROW = pa.list_(pa.struct([("a", pa.int32()), ("m", pa.map_(pa.string(), pa.int32()))]))


@given(rows=st.lists(NESTED, max_size=8), start=st.integers(0, 8), length=st.integers(0, 8))
def test_any_slice_of_nested_data_keeps_its_values(rows, start, length):
    array = pa.array(rows, NARROW).slice(start, length)
    column = Column(
        name="c", type=parse_type("array<struct<a:bigint,m:map<string,bigint>,z:date>>")
    )
    batch = fit_batch(pa.record_batch({"c": array}), TableSchema(columns=(column,)))

    def with_null_member(row):
        return row and [member and {**member, "z": None} for member in row]

    expected = [with_null_member(row) if row else row for row in array.to_pylist()]
    assert batch.column(0).to_pylist() == expected
    batch.validate(full=True)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), max_size=6))
def test_a_float_fits_a_decimal_only_if_its_text_fits(numbers):
    fitting = [Decimal(repr(n)) for n in numbers]
    ok = all(
        d == d.quantize(Decimal("0.001")) and abs(d) < 10**15 for d in fitting if abs(d) < 10**20
    )
    ok = ok and all(abs(d) < 10**15 for d in fitting)
    try:
        fitted = fit_column("decimal(18,3)", pa.array(numbers, pa.float64()))
    except ConversionError:
        assert not ok
    else:
        assert fitted.to_pylist() == fitting
