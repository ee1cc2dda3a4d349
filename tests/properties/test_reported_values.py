"""Values that users reported as changed or rejected, each with the expected result.

The properties in this folder also draw these kinds; here they have separate tests.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from odps_nb import Connection
from odps_nb.access.table import Table
from odps_nb.convert.arrow_schema import fit_chunks, fit_pieces
from odps_nb.convert.fitting.conversions import Conversions
from odps_nb.convert.fitting.misfit import ValueMisfit
from odps_nb.convert.fitting.objects import fit_objects
from odps_nb.errors import ConversionError
from odps_nb.wire.type_text import format_type, parse_type
from tests.support.named import NewName
from tests.support.values.python_forms import objects

Make = Callable[[str], Table]
NAT = np.datetime64("NaT", "s")
FAR = dt.datetime(9999, 12, 31)
DAY_NS = 86_400 * 10**9


@pytest.fixture
def make(odps: Connection, new_name: NewName) -> Make:
    return lambda kind: odps.create_table(new_name("reported"), f"v {kind}")


def column(*cells: Any) -> pd.DataFrame:
    """A DataFrame with a column of Python objects."""
    return pd.DataFrame({"v": pd.Series(objects(list(cells)), dtype=object)})


def as_integers(array: pa.Array) -> list[int | None]:
    """Return times or durations as integers, at any depth of lists."""
    while pa.types.is_list(array.type):
        array = array.flatten()
    return list(array.view(pa.int64()).to_pylist())


def read(table: Table, unit: str | None = None) -> pa.ChunkedArray:
    return table.read(timestamp_unit=unit).to_arrow().column("v")


def refusal(table: Table, data: Any, *said: str) -> ConversionError:
    with pytest.raises(ConversionError) as caught:
        table.write(data)
    for text in said:
        assert text in str(caught.value)
    assert table.read().to_arrow().num_rows == 0
    return caught.value


# -- DECIMALs with too many digits --------------------------------------------------------------

BIG = Decimal("123456789012345678901234567890.5")
NARROW = ["decimal(38,18)", "decimal(38,10)", "decimal(38,30)", "decimal"]


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("value", [BIG, -BIG, 1e30, 10**30, Decimal("1E+37"), Decimal(2**128)])
def test_too_many_digits_are_refused(make: Make, kind: str, value: Any) -> None:
    error = refusal(make(kind), column(None, value), "v")
    assert (error.row, error.column) == (1, "v")


@pytest.mark.parametrize("kind", NARROW)
def test_too_many_digits_are_refused_in_nested_values(make: Make, kind: str) -> None:
    value = Decimal("1E+37") + 7
    refusal(make(f"array<{kind}>"), column([value]))
    refusal(make(f"struct<price:{kind}>"), column({"price": value}), ".price")
    refusal(make(f"map<string,{kind}>"), column({"k": value}))


@pytest.mark.parametrize("type_", [pa.decimal128(38, 0), pa.decimal256(76, 10)])
def test_too_many_digits_are_refused_from_arrow(make: Make, type_: pa.DataType) -> None:
    rows = pa.table({"v": pa.array([Decimal("1E+37"), None], type_)})
    assert refusal(make("decimal(38,18)"), rows).row == 0
    refusal(make("decimal(38,18)"), rows.to_reader())
    inside = pa.table({"v": pa.ListArray.from_arrays([0, 1], rows.column("v").combine_chunks())})
    refusal(make("array<decimal(38,18)>"), inside)
    if type_.precision == 38:
        refusal(make("decimal(38,18)"), pl.from_arrow(rows))


@pytest.mark.parametrize("number", [1e30, 1e20, 12345678901234567890123.0])
def test_floats_too_large_for_a_decimal_are_refused(make: Make, number: float) -> None:
    refusal(make("decimal(38,18)"), pd.DataFrame({"v": [1.5, number]}))
    refusal(make("decimal(38,18)"), pa.table({"v": [1.5, number]}))


# -- times in nested NumPy arrays ---------------------------------------------------------------

UNITS = {"D": DAY_NS, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3,
         "ns": 1}  # fmt: skip
MARCH = 19_783  # 2024-03-01
NEST: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "array": ("array<{}>", lambda a: a, lambda v: v),
    "struct": ("struct<t:array<{}>>", lambda a: {"t": a}, lambda v: v.field("t")),
    "map": ("map<string,array<{}>>", lambda a: {"k": a}, lambda v: v.items),
    "arrays": ("array<array<{}>>", lambda a: objects([a]), lambda v: v),
}


@pytest.mark.gate(28)
@pytest.mark.parametrize("nest", NEST)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "datetime", "interval_day_time"])
def test_nested_numpy_times_keep_their_unit(make: Make, kind: str, unit: str, nest: str) -> None:
    text, put, get = NEST[nest]
    dtype = f"m8[{unit}]" if kind.startswith("interval") else f"M8[{unit}]"
    days = np.array([MARCH * DAY_NS // UNITS[unit], -(2**63)], "int64").view(dtype)
    table = make(text.format(kind))
    table.write(column(put(days)))
    per_day = DAY_NS // (10**6 if kind == "datetime" else 1)
    assert as_integers(get(read(table).combine_chunks())) == [MARCH * per_day, None]


@pytest.mark.parametrize("unit", UNITS)
def test_days_in_numpy_arrays_are_stored_as_dates(make: Make, unit: str) -> None:
    table = make("array<date>")
    table.write(column(np.array(["2024-03-01", "NaT"], f"M8[{unit}]")))
    assert read(table).to_pylist() == [[dt.date(2024, 3, 1), None]]


def test_a_created_table_keeps_times_in_numpy_arrays(odps: Connection, new_name: NewName) -> None:
    table = odps.table(new_name("made"))
    seconds = np.array([5], "m8[s]")
    frame = column(np.array([dt.datetime(2024, 3, 1)], "datetime64[us]")).assign(
        d=pd.Series(objects([seconds]), dtype=object)
    )
    table.write(frame, create=True)
    found = table.read().to_arrow()
    assert found.column("v").to_pylist() == [[pd.Timestamp("2024-03-01")]]
    assert found.column("d").to_pylist() == [[pd.Timedelta(seconds=5)]]


# -- nested numbers -----------------------------------------------------------------------------

CUT = [
    ("array<bigint>", [1.5, 2.9]),
    ("array<bigint>", np.array([1.5, 2.9])),
    ("array<bigint>", [Decimal("1.25")]),
    ("array<bigint>", [np.float32(0.1)]),
    ("array<bigint>", [True]),
    ("array<int>", [2**31]),
    ("array<tinyint>", np.array([300])),
    ("array<bigint>", [2**63]),
    ("struct<x:bigint>", {"x": 0.99}),
    ("map<string,bigint>", {"k": 0.99}),
    ("map<bigint,string>", {0.99: "v"}),
    ("array<double>", [2**53 + 1]),
    ("array<double>", [True]),
    ("array<double>", [Decimal("0.5")]),
    ("array<float>", [1e39]),
    ("array<boolean>", [1]),
    ("array<date>", [1]),
    ("array<date>", [1.5]),
    ("array<timestamp>", [1]),
    ("array<timestamp>", [1.5]),
    ("array<interval_day_time>", [1]),
    ("array<interval_day_time>", [1.5]),
    ("array<interval_year_month>", [True]),
    ("array<string>", [1]),
    ("array<binary>", [1]),
    ("array<bigint>", ["1"]),
    ("array<decimal(38,18)>", ["1"]),
    ("array<decimal(38,18)>", [True]),
]


@pytest.mark.parametrize(("kind", "cell"), CUT)
def test_nested_values_are_not_truncated_or_changed_in_type(
    make: Make, kind: str, cell: Any
) -> None:
    error = refusal(make(kind), column(None, cell), "v")
    assert error.row == 1


@pytest.mark.parametrize("number", [19.99, np.float32(2.5), np.float64(19.99), 7, np.int16(7)])
def test_numbers_are_accepted_for_a_decimal_at_every_depth(make: Make, number: Any) -> None:
    meant = Decimal(str(number))
    table = make("struct<price:decimal(38,18),all:array<decimal(38,18)>>")
    table.write(column({"price": number, "all": [number, Decimal("0.5")]}))
    assert read(table).to_pylist() == [{"price": meant, "all": [meant, Decimal("0.5")]}]


# -- numbers in object columns ------------------------------------------------------------------

NUMBERS = [1659099540588, 1.5, np.int64(1), np.float64(1.5), Decimal(1), True]


@pytest.mark.gate(8)
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "datetime", "date"])
@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_numbers_are_refused_for_times(make: Make, kind: str, number: Any) -> None:
    error = refusal(make(kind), column(None, number), "v")
    assert (error.row, error.column) == (1, "v")
    refusal(make(kind), column(dt.datetime(2024, 3, 1), number))
    refusal(make(kind), column(dt.datetime(1, 1, 1), number))


@pytest.mark.parametrize("number", NUMBERS[:4], ids=repr)
def test_numbers_are_refused_for_durations(make: Make, number: Any) -> None:
    refusal(make("interval_day_time"), column(number))
    refusal(make("interval_day_time"), column(dt.timedelta(1), number))


# -- columns without any value ------------------------------------------------------------------

KINDS = ["bigint", "double", "decimal(9,2)", "boolean", "string", "char(1)", "binary", "date",
         "timestamp", "datetime", "timestamp_ntz", "interval_day_time", "interval_year_month",
         "array<int>", "map<string,int>", "struct<a:int>"]  # fmt: skip
WITHOUT: dict[str, Any] = {
    "float64": pd.Series([np.nan, np.nan], dtype="float64"),
    "Float32": pd.Series([pd.NA, pd.NA], dtype="Float32"),
    "Int64": pd.Series([pd.NA, pd.NA], dtype="Int64"),
    "boolean": pd.Series([pd.NA, pd.NA], dtype="boolean"),
    "str": pd.Series([None, None], dtype="str"),
    "datetime64": pd.Series([pd.NaT, pd.NaT], dtype="datetime64[ns]"),
    "zoned": pd.Series([pd.NaT, pd.NaT], dtype="datetime64[us, Asia/Shanghai]"),
    "timedelta64": pd.Series([pd.NaT, pd.NaT], dtype="timedelta64[ns]"),
    "category": pd.Series([None, None], dtype="category"),
    "arrow": pd.Series([None, None], dtype=pd.ArrowDtype(pa.list_(pa.string()))),
    "objects": pd.Series([None, np.nan], dtype=object),
    "marks": pd.Series(objects([pd.NaT, pd.NA]), dtype=object),
    "numpy marks": pd.Series(objects([NAT, np.timedelta64("NaT", "s")]), dtype=object),
}


@pytest.mark.gate(5)
@pytest.mark.parametrize("kind", KINDS)
def test_columns_without_values_are_nulls(odps: Connection, new_name: NewName, kind: str) -> None:
    names = [f"c{number}" for number in range(len(WITHOUT))]
    table = odps.create_table(new_name("nulls"), ", ".join(f"{name} {kind}" for name in names))
    frame = pd.DataFrame(dict(zip(names, WITHOUT.values(), strict=True)))
    typed = {n: pa.array(s, from_pandas=True) for n, s in frame.items() if s.dtype != "object"}
    arrow = pa.table(typed)
    for data in (frame, frame.iloc[:0], arrow, arrow.slice(2), arrow.to_reader()):
        table.write(data)
    found = table.read().to_arrow()
    assert (found.num_rows, {column.null_count for column in found.columns}) == (6, {6})


# -- other values -------------------------------------------------------------------------------


@pytest.mark.storage_api("far times")
@pytest.mark.gate(8)
@pytest.mark.parametrize("mark", [pd.NaT, NAT, np.datetime64("NaT", "ns"), pd.NA, np.nan, None])
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "datetime", "date"])
def test_a_null_beside_a_far_year_stays_null(make: Make, kind: str, mark: Any) -> None:
    table = make(kind)
    table.write(column(FAR, mark))
    last, null = read(table, "us").to_pylist()
    assert (last, null) == (FAR.date() if kind == "date" else FAR, None)


@pytest.mark.storage_api("far times")
def test_far_times_that_were_read_can_be_written_from_an_object_column(make: Make) -> None:
    table = make("timestamp")
    table.write(pa.table({"v": pa.array([FAR, None], pa.timestamp("us"))}))
    table.write(table.read(timestamp_unit="us").to_pandas().astype(object))
    assert read(table, "us").to_pylist() == [FAR, None, FAR, None]


def test_members_of_a_struct_match_in_any_case(make: Make) -> None:
    table = make("struct<ab:bigint,inner:array<struct<c:string>>>")
    table.write(column({"AB": 1, "Inner": [{"C": "x"}]}, {"ab": 2}))
    assert read(table).to_pylist() == [
        {"ab": 1, "inner": [{"c": "x"}]},
        {"ab": 2, "inner": None},
    ]
    refusal(make("struct<a:int>"), column({"a": 1, "A": 2}))


@pytest.mark.gate(7)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "datetime", "date"])
def test_datetime64_objects_of_every_unit_are_converted_to_times(
    make: Make, kind: str, unit: str
) -> None:
    table = make(kind)
    day = np.datetime64(MARCH * DAY_NS // UNITS[unit], unit)
    table.write(column(day, None, day))
    inside = make(f"array<{kind}>")
    inside.write(column([day, None]))
    meant = dt.date(2024, 3, 1) if kind == "date" else pd.Timestamp("2024-03-01")
    assert read(table).to_pylist() == [meant, None, meant]
    assert read(inside).to_pylist() == [[meant, None]]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "datetime", "date"])
def test_dates_and_datetimes_can_be_mixed(make: Make, kind: str) -> None:
    table = make(kind)
    table.write(column(dt.datetime(2024, 3, 1), dt.date(2024, 3, 2)))
    table.write(column(dt.date(2024, 3, 2), dt.datetime(2024, 3, 1)))
    found = [str(one)[:10] for one in read(table).to_pylist()]
    assert found == ["2024-03-01", "2024-03-02", "2024-03-02", "2024-03-01"]


def test_naive_datetimes_beside_aware_datetimes_are_in_utc(make: Make) -> None:
    aware = dt.datetime(2024, 3, 1, 8, tzinfo=dt.timezone(dt.timedelta(hours=8)))
    for order in ([aware, dt.datetime(2024, 3, 1)], [dt.datetime(2024, 3, 1), aware]):
        table = make("datetime")
        table.write(column(*order))
        assert read(table).to_pylist() == [dt.datetime(2024, 3, 1)] * 2


def test_a_column_of_empty_dicts_creates_no_struct(odps: Connection, new_name: NewName) -> None:
    table = odps.table(new_name("empty"))
    with pytest.raises(ConversionError) as caught:
        table.write(column({}, {}).assign(id=1), create=True)
    assert caught.value.column == "v"
    assert not table.exists()


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_years_out_of_range_inside_a_struct_are_refused(make: Make, unit: str) -> None:
    far = pa.array([3_000_000 * 86_400 * (10**9 // UNITS[unit])]).view(pa.timestamp(unit))
    days = pa.array([3_000_000], pa.int32()).view(pa.date32())
    for kind in ("timestamp", "datetime"):
        inside = pa.StructArray.from_arrays([far], ["t"])
        assert refusal(make(f"struct<t:{kind}>"), pa.table({"v": inside}), ".t").row == 0
        refusal(make(f"struct<t:{kind}>"), column({"t": far[0].cast(pa.int64()).as_py()}))
    inside = pa.StructArray.from_arrays([days], ["t"])
    assert refusal(make("struct<t:date>"), pa.table({"v": inside}), ".t").row == 0
    wide = pa.ListArray.from_arrays([0, 1], inside)
    assert refusal(make("array<struct<t:date>>"), pa.table({"v": wide}), ".t").row == 0


# -- failures found by the properties ------------------------------------------------------------

EAST, WEST = dt.timezone(dt.timedelta(hours=8)), dt.timezone(dt.timedelta(hours=-5))


@pytest.mark.parametrize(
    "midnight",
    [dt.datetime(2038, 1, 19, tzinfo=EAST), dt.datetime(1, 1, 1, tzinfo=WEST),
     dt.datetime(9999, 12, 31, tzinfo=WEST), pd.Timestamp("2038-01-19", tz="Asia/Shanghai")],
    ids=str,
)  # fmt: skip
def test_midnight_in_any_time_zone_is_stored_as_a_date(make: Make, midnight: dt.datetime) -> None:
    table, inside = make("date"), make("array<date>")
    table.write(column(midnight))
    inside.write(column([midnight, None]))
    assert read(table).to_pylist() == [midnight.date()]
    assert read(inside).to_pylist() == [[midnight.date(), None]]


# -- columns of other libraries -------------------------------------------------------------------

BIG64 = 2**63 - 1  # float64 would round this number
NANOS = 1_700_000_000_123_456_789


class StreamOnly:
    """Provides data only as an Arrow stream."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._frame.__arrow_c_stream__(requested_schema)


MAPS = pa.array([[("k", "v")], [], None], pa.map_(pa.string(), pa.string()))
RUNS = pa.RunEndEncodedArray.from_arrays(
    pa.array([2, 3], pa.int32()), pa.array(["a", None], pa.string_view())
)
ENUM = pl.Series("v", ["a", None], dtype=pl.Enum(["b", "a"]))
ROWS = pa.array([{"v": BIG64}, {"v": None}])
MASKED = np.ma.masked_array([BIG64, 1], [False, True])
MASKED_ROWS = np.ma.masked_array([(BIG64,), (1,)], [(False,), (True,)], dtype=[("v", "i8")])
MASKED_MATRIX = np.ma.masked_array([[BIG64], [1]], [[False], [True]])
STORED: dict[str, tuple[str, Any, list[Any]]] = {
    "maps of polars": (
        "map<string,string>",
        pl.from_arrow(pa.table({"v": MAPS})),
        MAPS.to_pylist(),
    ),
    "a map of polars in a cell": (
        "map<string,string>",
        column(pl.Series([{"key": "k", "value": "v"}])),
        [[("k", "v")]],
    ),
    "a map of Arrow in a cell": (
        "map<string,string>",
        column(pa.array([{"key": "k", "value": "v"}])),
        [[("k", "v")]],
    ),
    "runs of views": ("string", pa.table({"v": RUNS}), ["a", "a", None]),
    "masked in a cell": (
        "array<int>",
        column(np.ma.masked_array([1, 2], [False, True])),
        [[1, None]],
    ),
    "enums in a frame": ("string", ENUM.to_frame(), ["a", None]),
    "enums in a mapping": ("string", {"v": ENUM}, ["a", None]),
    "enums in a stream": ("string", StreamOnly(ENUM.to_frame()), ["a", None]),
    "an enum named BIT": ("string", duckdb.sql("select 'BIT'::enum('BIT') as v"), ["BIT"]),
    "an array of structs": ("bigint", ROWS, [BIG64, None]),
    "chunks of structs": ("bigint", pa.chunked_array([ROWS]), [BIG64, None]),
    "masked in a mapping": ("bigint", {"v": MASKED}, [BIG64, None]),
    "masked and structured": ("bigint", MASKED_ROWS, [BIG64, None]),
    "a masked matrix": ("bigint", MASKED_MATRIX, [BIG64, None]),
    "masked in rows": ("bigint", [{"v": one} for one in MASKED], [BIG64, None]),
}


@pytest.mark.parametrize("what", STORED)
def test_values_of_other_libraries_are_stored(make: Make, what: str) -> None:
    kind, data, expected = STORED[what]
    table = make(kind)
    table.write(data)
    assert read(table).to_pylist() == expected


POLARS_OBJECTS = pl.Series("v", [b"x", "y"], dtype=pl.Object)
NANO_SERIES = [
    pl.Series([NANOS]).cast(pl.Datetime("ns")),
    pl.Series([NANOS]).cast(pl.Duration("ns")),
]


@pytest.mark.parametrize(
    "data",
    [
        {"v": POLARS_OBJECTS},
        POLARS_OBJECTS.to_frame(),
        POLARS_OBJECTS.to_frame().lazy(),
        StreamOnly(POLARS_OBJECTS.to_frame()),
        pa.table(POLARS_OBJECTS.to_frame()),
        pa.RecordBatchReader.from_stream(POLARS_OBJECTS.to_frame()),
        {"v": POLARS_OBJECTS.to_frame().to_arrow()["v"]},
        [POLARS_OBJECTS.to_frame().to_arrow()],
        POLARS_OBJECTS.to_frame().to_arrow().to_pandas(types_mapper=pd.ArrowDtype),
    ],
    ids=["mapping", "frame", "lazy", "holder", "table", "reader", "column", "tables", "dtype"],
)
def test_addresses_of_python_objects_are_never_stored(make: Make, data: Any) -> None:
    assert refusal(make("binary"), data, "Python objects").column == "v"


@pytest.mark.parametrize("nest", [lambda s: s, lambda s: [s], lambda s: {"x": s}])
@pytest.mark.parametrize("series", NANO_SERIES, ids=lambda s: str(s.dtype))
def test_a_polars_series_in_a_cell_keeps_its_nanoseconds(
    odps: Connection, new_name: NewName, series: pl.Series, nest: Any
) -> None:
    table = odps.table(new_name("cells"))
    table.write({"v": [nest(series)]}, create=True)
    found = read(table).combine_chunks()
    while pa.types.is_nested(found.type):
        found = found.flatten() if pa.types.is_list(found.type) else found.field(0)
    assert as_integers(found) == [NANOS]


def test_times_in_polars_structs_keep_their_nanoseconds(make: Make) -> None:
    table = make("array<struct<x:timestamp,d:interval_day_time>>")
    structs = pl.DataFrame({"x": NANO_SERIES[0], "d": NANO_SERIES[1]}).to_struct()
    table.write({"v": [structs]})
    inner = read(table).combine_chunks().flatten()
    assert [as_integers(inner.field(place)) for place in (0, 1)] == [[NANOS], [NANOS]]


INT128 = pl.Series("v", [2**100, None], dtype=pl.Int128)


@pytest.mark.parametrize("form", [lambda s: {"v": s}, pl.DataFrame, lambda s: s.to_frame().lazy()])
def test_128_bit_integers_are_exact_or_refused(make: Make, form: Any) -> None:
    table = make("decimal(38,0)")
    table.write(form(INT128))
    assert read(table).to_pylist() == [Decimal(2**100), None]
    refusal(make("decimal(38,0)"), form(pl.Series("v", [10**38], dtype=pl.Int128)), "38 digits")
    inside = make("struct<a:decimal(38,0)>")
    inside.write(pl.DataFrame({"v": INT128.head(1)}).select(pl.struct(a="v").alias("v")))
    assert read(inside).to_pylist() == [{"a": Decimal(2**100)}]


@pytest.mark.parametrize(
    "wrong", [pl.col("nope"), pl.lit("a").cast(pl.Int64).alias("v")], ids=["name", "value"]
)
def test_a_polars_plan_with_an_error_is_refused(make: Make, wrong: pl.Expr) -> None:
    refusal(make("bigint"), pl.LazyFrame({"v": [1]}).with_columns(wrong), "evaluate the LazyFrame")


@pytest.mark.parametrize("rows", [1, 500_000], ids=["first", "later"])
def test_a_duckdb_query_with_an_error_is_refused(make: Make, rows: int) -> None:
    number = f"case i when {rows - 1} then cast('x' || i as bigint) else i end"
    relation = duckdb.sql(f"select {number} as v from range({rows}) as r(i)")
    error = refusal(make("bigint"), relation, f"Could not convert string 'x{rows - 1}'")
    assert "\n" not in error.message


def test_a_polars_schema_is_refused_as_data(make: Make) -> None:
    assert refusal(make("bigint"), pl.Schema({"v": pl.Int64}), "not a list of values").column == "v"


@pytest.mark.parametrize("huge", [2**127, 2**128 - 1])
def test_unsigned_128_bit_integers_of_duckdb_are_refused(make: Make, huge: int) -> None:
    relation = duckdb.sql(f"select {huge}::uhugeint as v")
    assert refusal(make("decimal(38,0)"), relation, "UHUGEINT").column == "v"
    refusal(make("array<decimal(38,0)>"), duckdb.sql(f"select [{huge}::uhugeint] as v"), "UHUGEINT")


def test_the_type_bit_of_duckdb_is_refused(make: Make) -> None:
    refusal(make("binary"), duckdb.sql("select bit '101' as v"), "BIT")


FRAMES = [pd.DataFrame({"a": ["x", "y"]}), pl.DataFrame({"a": ["x", "y"]}), pa.table({"a": ["x"]})]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda one: f"{type(one).__module__}")
def test_a_table_is_refused_as_a_column_or_a_cell(make: Make, frame: Any) -> None:
    """Iterating a DataFrame yields its column names."""
    refusal(make("string"), {"v": frame})
    refusal(make("array<string>"), {"v": [frame]})
    refusal(make("array<string>"), [{"v": frame}])


def test_a_null_among_rows_is_refused(make: Make) -> None:
    nulls = pa.chunked_array([pa.array([{"v": 1}, None])])
    assert refusal(make("bigint"), nulls, "row 1 is null").row == 1
    refusal(make("bigint"), StreamOnly(nulls), "Arrow cannot read the data")


def test_a_stream_with_batches_of_other_columns_is_refused(make: Make) -> None:
    batches = [pa.record_batch({"v": [1]}), pa.record_batch({"w": [1]})]
    stream = pa.RecordBatchReader.from_batches(pa.schema({"v": pa.int64()}), batches)
    refusal(make("bigint"), stream, "columns of a batch differ from those of the stream")


@pytest.mark.parametrize("dtype", [">i8", ">f4", ">M8[s]", ">u2"])
def test_big_endian_numbers_are_stored(odps: Connection, new_name: NewName, dtype: str) -> None:
    """FITS and netCDF files have big-endian numbers."""
    values = np.array([3], dtype)
    table = odps.create_table(new_name("order"), {"v": values, "w": [values]})
    native = values.astype(values.dtype.newbyteorder("="))
    found = [row["v"] for row in table.read().to_arrow().to_pylist()]
    assert np.array(found).astype(native.dtype).tolist() == native.tolist()
    assert np.array(found).tolist() == np.array(table.read().to_arrow()["w"][0].as_py()).tolist()


def test_long_doubles_in_cells_are_exact_or_refused(make: Make) -> None:
    table = make("array<double>")
    table.write({"v": [np.array([1.5], np.longdouble)]})
    assert read(table).to_pylist() == [[1.5]]
    third = np.array([1], np.longdouble) / 3
    if third.astype(np.float64).astype(np.longdouble) != third:  # more digits than float64
        refusal(make("array<double>"), {"v": [third]})


@pytest.mark.parametrize("scale", [0, 2])
def test_a_decimal128_array_with_39_digits_is_refused(make: Make, scale: int) -> None:
    raw = (10**38).to_bytes(16, "little")
    array = pa.Array.from_buffers(pa.decimal128(38, scale), 1, [None, pa.py_buffer(raw)])
    assert refusal(make(f"decimal(38,{scale})"), pa.table({"v": array}), "more than").row == 0


@pytest.mark.parametrize("dtype", ["int64", "uint64", "Sparse[int64]"])
def test_integers_stay_exact_when_series_are_aligned_by_index(
    odps: Connection, new_name: NewName, dtype: str
) -> None:
    table = odps.table(new_name("aligned"))
    left = pd.Series([BIG64, 1], index=[0, 1], dtype=dtype)
    right = pd.Series([2, BIG64], index=[1, 2], dtype=dtype)
    table.write({"v": left, "w": right}, create=True)
    rows = [(one["v"], one["w"]) for one in table.read().to_arrow().to_pylist()]
    assert rows == [(BIG64, None), (1, 2), (None, BIG64)]


class Point(NamedTuple):
    x: int
    y: float


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([[np.nan], [np.nan, None]], "array<double>"),
        ([{"a": np.nan}], "struct<a:double>"),
        ([[[np.nan]]], "array<array<double>>"),
        ([[None]], "array<string>"),
        ([Decimal(10**38 - 1)], "decimal(38,0)"),
        ([10**38 - 1], "decimal(38,0)"),
        ([Decimal("9" * 30 + ".5")], "decimal(31,1)"),
        (list(pa.array([Decimal("1.50")], pa.decimal32(5, 2))), "decimal(5,2)"),
        ([pa.array([Decimal("1.50")], pa.decimal64(15, 2))], "array<decimal(15,2)>"),
        (
            list(pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64()))),
            "map<string,bigint>",
        ),
        (list(pa.array(["1"]).dictionary_encode()), "string"),
        ([Point(1, 2.5)], "struct<x:bigint,y:double>"),
        (list(pa.array([{"x": 1}, None])), "struct<x:bigint>"),
    ],
)
def test_a_new_table_has_types_that_hold_the_values(
    odps: Connection, new_name: NewName, cells: list[Any], kind: str
) -> None:
    table = odps.create_table(new_name("typed"), {"v": cells})
    assert format_type(table.schema.columns[0].type) == kind
    expected = [
        Decimal(one)
        if type(one) is int
        else one.as_py()
        if isinstance(one, pa.Scalar)
        else one.to_pylist()
        if isinstance(one, pa.Array)
        else one._asdict()
        if isinstance(one, Point)
        else one
        for one in cells
    ]
    assert repr(read(table).to_pylist()) == repr(expected)


# -- text that is not UTF-8 -----------------------------------------------------------------------

BAD = pa.array([b"ok", b"\xff\xfe"])
BAD_TEXT = pa.Array.from_buffers(pa.string(), 2, BAD.buffers())
BAD_FORMS: dict[str, tuple[str, Any]] = {
    "string": ("string", BAD_TEXT),
    "large": ("string", pa.Array.from_buffers(pa.large_string(), 2,
                                              BAD.cast(pa.large_binary()).buffers())),
    "view": ("string", BAD.cast(pa.binary_view()).view(pa.string_view())),
    "category": ("string", pa.DictionaryArray.from_arrays([0, 1], BAD_TEXT)),
    "varchar": ("varchar(9)", BAD_TEXT),
    "json": ("json", BAD_TEXT),
    "list": ("array<string>", pa.ListArray.from_arrays([0, 1, 2], BAD_TEXT)),
    "struct": ("struct<a:string>", pa.StructArray.from_arrays([BAD_TEXT], ["a"])),
    "map": ("map<string,string>", pa.MapArray.from_arrays([0, 1, 2], BAD_TEXT, BAD_TEXT)),
}  # fmt: skip


@pytest.mark.parametrize("form", BAD_FORMS)
def test_text_that_is_not_utf8_is_refused_in_every_kind_of_data(make: Make, form: str) -> None:
    kind, array = BAD_FORMS[form]
    rows = pa.table({"v": array})
    backed = pd.DataFrame({"v": pd.arrays.ArrowExtensionArray(rows.column("v"))})
    for data in (rows, rows.to_reader(), {"v": array}, backed, {"v": list(array)}):
        assert refusal(make(kind), data, "not UTF-8").row == 1


@pytest.mark.parametrize(
    "data",
    [
        {"v": np.array(["\ud800"])},
        {"v": ["\ud800"]},
        [{"v": "\ud800"}],
        {"v": [np.array(["\ud800"])]},
        {"\ud800": [1]},
        [{"\ud800": 1}],
    ],
    ids=["array", "list", "row", "nested", "name", "key"],
)
def test_unpaired_surrogates_are_refused(odps: Connection, new_name: NewName, data: Any) -> None:
    table = odps.table(new_name("surrogates"))
    with pytest.raises(ConversionError) as caught:
        table.write(data, create=True)
    assert caught.value.hint
    assert not table.exists()


UNION = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array([3, 4])])


def test_unions_are_refused_in_every_kind_of_data(make: Make) -> None:
    for data in (pa.table({"v": UNION}), {"v": UNION}, {"v": list(UNION)}, {"v": [*UNION, 1]}):
        refusal(make("bigint"), data)


def test_partition_values_that_are_not_utf8_are_refused(
    odps: Connection, new_name: NewName
) -> None:
    table = odps.create_table(new_name("parted"), "v bigint", partitioned_by="ds string")
    refusal(table, pa.table({"v": [1, 2], "ds": BAD_TEXT}), "not UTF-8")


# -- NumPy's other units of time ------------------------------------------------------------------


def with_numpy_array(array: Any) -> list[Any]:
    structured = np.zeros(1, [("v", array.dtype)])
    structured["v"] = array
    return [{"v": array}, {"v": list(array)}, array.reshape(1, 1), structured, [{"v": array[0]}]]


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("timestamp", f"M8[{unit}]") for unit in ("ps", "fs", "as")]
    + [("interval_day_time", f"m8[{unit}]") for unit in ("ps", "fs", "as", "M", "Y")],
)
def test_numpy_times_are_exact_or_refused(make: Make, kind: str, dtype: str, place: int) -> None:
    refusal(make(kind), with_numpy_array(np.array([7]).view(dtype))[place])
    per_nano = {"ps": 10**3, "fs": 10**6, "as": 10**9}.get(dtype[3:5])
    if per_nano:
        table = make(kind)
        table.write(with_numpy_array(np.array([3 * per_nano]).view(dtype))[place])
        assert as_integers(read(table).combine_chunks()) == [3]


# -- Arrow extension types ------------------------------------------------------------------------


def extension(kind: Any, values: list[Any]) -> pa.Table:
    storage = pa.array(values, kind.storage_type)
    return pa.table({"v": pa.ExtensionArray.from_storage(kind, storage)})


MATRIX = [1, 2, 3, 4, 5, 6]
OPAQUE = pa.ExtensionArray.from_storage(
    pa.opaque(pa.binary(), "bignum", "DuckDB"), pa.array([b"1"])
)


@pytest.mark.parametrize(
    ("kind", "rows", "expected"),
    [
        ("boolean", extension(pa.bool8(), [0, 1, 5, None]), [False, True, True, None]),
        ("binary", extension(pa.uuid(), [b"u" * 16]), [b"u" * 16]),
        ("string", extension(pa.json_(), ["[1]"]), ["[1]"]),
        ("array<int>", extension(pa.fixed_shape_tensor(pa.int32(), [2, 3]), [MATRIX]), [MATRIX]),
    ],
    ids=["bool8", "uuid", "json", "tensor"],
)  # fmt: skip
def test_extension_types_are_stored_by_their_values(
    make: Make, kind: str, rows: pa.Table, expected: list[Any]
) -> None:
    cells = {"v": [list(rows.column("v"))]}
    for data in (rows, rows.to_reader(), {"v": rows.column("v")}):
        table = make(kind)
        table.write(data)
        assert read(table).to_pylist() == expected
    inside = make(f"array<{kind}>")
    inside.write(cells)
    assert read(inside).to_pylist() == [expected]


@pytest.mark.parametrize("text", ["{a: 1}", "", "NaN", "[1] 2", "'a'"])
def test_text_that_is_not_json_is_refused_before_it_is_sent(make: Make, text: str) -> None:
    column = pa.array(["1", None, text])
    for data in (pa.table({"v": column}), {"v": column}, {"v": column.to_pylist()}):
        assert refusal(make("json"), data, "is not JSON").row == 2
    refusal(make("array<json>"), {"v": [column]}, "v[0][2]")


@pytest.mark.parametrize(
    ("kind", "rows", "reason"),
    [
        ("array<int>", extension(pa.fixed_shape_tensor(pa.int32(), [2, 3], permutation=[1, 0]),
                                [MATRIX]), "row-major"),
        ("binary", pa.table({"v": OPAQUE}), "arrow.opaque"),
        ("bigint", pa.Table.from_pandas(pd.DataFrame({"v": pd.period_range("2024", periods=1)})),
         "pandas.period"),
        ("binary", pa.table([pa.array([b"1"])], pa.schema([pa.field("v", pa.binary(), metadata={
            "ARROW:extension:name": "arrow.parquet.variant"})])), "variant"),
        ("binary", pa.table({"v": pa.DictionaryArray.from_arrays(pa.array([0]), OPAQUE)}),
         "arrow.opaque"),
        ("array<binary>", extension(pa.fixed_shape_tensor(pa.binary(8), [1]), [[b"12345678"]]),
         "addresses of Python objects"),
    ],
    ids=["permuted", "opaque", "period", "unregistered", "in a dictionary", "in an extension"],
)  # fmt: skip
def test_extension_types_whose_storage_is_not_their_value_are_refused(
    make: Make, kind: str, rows: pa.Table, reason: str
) -> None:
    for data in (rows, rows.to_reader(), {"v": rows.column("v")}):
        if reason == "variant" and isinstance(data, dict):
            continue  # the column alone does not have the field's metadata
        assert str(refusal(make(kind), data, reason).column).startswith("v")


POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")


@pytest.mark.parametrize(
    ("crs", "fits"),
    [
        (None, True),
        ("OGC:CRS84", True),
        ({"name": "WGS 84", "id": {"authority": "EPSG", "code": 4326}}, True),
        ("EPSG:3857", False),
        ({"name": "Pseudo-Mercator", "id": {"authority": "EPSG", "code": 3857}}, False),
        ({"name": "a plane of my own"}, False),
    ],
    ids=str,
)
def test_geography_accepts_only_coordinates_in_degrees(make: Make, crs: Any, fits: bool) -> None:
    metadata = {
        "ARROW:extension:name": "geoarrow.wkb",
        "ARROW:extension:metadata": json.dumps({"crs": crs} if crs else {}),
    }
    rows = pa.table([pa.array([POINT])], pa.schema([pa.field("v", pa.binary(), metadata=metadata)]))
    for form in (lambda: rows, rows.to_reader, lambda: StreamOnly(rows)):
        if fits:
            table = make("geography")
            table.write(form())
            assert read(table).to_pylist() == [POINT]
        else:
            assert refusal(make("geography"), form(), "degrees").column == "v"
        plain = make("binary")
        plain.write(form())
        assert read(plain).to_pylist() == [POINT]


# -- more data than one Arrow array can hold ------------------------------------------------------


def test_pieces_too_large_for_an_array_are_halved() -> None:
    def fit(piece: list[int], *_: Any, **__: Any) -> pa.Array:
        if sum(piece) > 10:
            raise pa.ArrowCapacityError("more than 2 GiB")
        return pa.array(piece)

    plan = (parse_type("bigint"), Conversions(), fit)
    found = fit_pieces([[1, 2, 3, 4, 5], [6], [7, 8]], *plan)
    assert [value for part in found for value in part.to_pylist()] == [1, 2, 3, 4, 5, 6, 7, 8]
    with pytest.raises(ValueMisfit) as caught:
        fit_pieces([[1], [2, 11]], *plan)
    assert [one.position for one in caught.value.found] == [2]


@pytest.mark.nightly
@pytest.mark.parametrize("form", ["category", "runs", "large", "objects", "nested"])
def test_more_than_2_gib_of_text_in_one_chunk_is_converted(form: str) -> None:
    rows, text = 65_536, "x" * 40_000
    category = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, "int32")), [text])
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([rows], pa.int32()), [text])
    arrays = {
        "category": lambda: category,
        "runs": lambda: runs,
        "large": lambda: pa.array([text] * rows, pa.large_string()),
        "nested": lambda: pa.ListArray.from_arrays(np.arange(rows + 1, dtype="int32"), category),
    }
    kind = parse_type("array<string>" if form == "nested" else "string")
    if form == "objects":
        found = fit_pieces([[text] * rows], kind, Conversions(), fit_objects)
    else:
        found = fit_chunks(arrays[form](), kind, Conversions())
    assert sum(map(len, found)) == rows
    assert all(part.nbytes < 2**31 for part in found)
    last = found[-1][-1].as_py()
    assert last == ([text] if form == "nested" else text)
