"""Values that users reported as changed or rejected, each with the expected result.

The properties in this folder also draw these kinds; here they have separate tests.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from odps_nb import Connection
from odps_nb.access.table import Table
from odps_nb.errors import ConversionError
from tests.support.values.python_forms import objects

Make = Callable[[str], Table]
NAT = np.datetime64("NaT")
FAR = dt.datetime(9999, 12, 31)
DAY_NS = 86_400 * 10**9


@pytest.fixture
def make(odps: Connection, new_name: Callable[[str], str]) -> Iterator[Make]:
    made: list[str] = []

    def table(kind: str) -> Table:
        made.append(new_name("reported"))
        return odps.create_table(made[-1], f"v {kind}")

    yield table
    for name in made:
        odps.drop_table(name)


def column(*cells: Any) -> pd.DataFrame:
    """A DataFrame with a column of Python objects."""
    return pd.DataFrame({"v": pd.Series(objects(list(cells)), dtype=object)})


def counts(array: pa.Array) -> list[int | None]:
    """Return the integers of times or durations, at any depth of lists."""
    while pa.types.is_list(array.type):
        array = array.flatten()
    return list(array.view(pa.int64()).to_pylist())


def read(table: Table, unit: str | None = None) -> pa.ChunkedArray:
    return table.read(timestamp_unit=unit).to_arrow().column("v")


def refuse(table: Table, data: Any, *said: str) -> ConversionError:
    with pytest.raises(ConversionError) as caught:
        table.write(data)
    for text in said:
        assert text in str(caught.value)
    assert table.read().to_arrow().num_rows == 0
    return caught.value


# -- A1: DECIMALs with too many digits ----------------------------------------------------------

BIG = Decimal("123456789012345678901234567890.5")
NARROW = ["decimal(38,18)", "decimal(38,10)", "decimal(38,30)", "decimal"]


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("value", [BIG, -BIG, 1e30, 10**30, Decimal("1E+37"), Decimal(2**128)])
def test_too_many_digits_are_refused(make: Make, kind: str, value: Any) -> None:
    error = refuse(make(kind), column(None, value), "v")
    assert (error.row, error.column) == (1, "v")


@pytest.mark.parametrize("kind", NARROW)
def test_too_many_digits_are_refused_inside(make: Make, kind: str) -> None:
    value = Decimal("1E+37") + 7
    refuse(make(f"array<{kind}>"), column([value]))
    refuse(make(f"struct<price:{kind}>"), column({"price": value}), ".price")
    refuse(make(f"map<string,{kind}>"), column({"k": value}))


@pytest.mark.parametrize("type_", [pa.decimal128(38, 0), pa.decimal256(76, 10)])
def test_too_many_digits_are_refused_from_arrow(make: Make, type_: pa.DataType) -> None:
    rows = pa.table({"v": pa.array([Decimal("1E+37"), None], type_)})
    assert refuse(make("decimal(38,18)"), rows).row == 0
    refuse(make("decimal(38,18)"), rows.to_reader())
    inside = pa.table({"v": pa.ListArray.from_arrays([0, 1], rows.column("v").combine_chunks())})
    refuse(make("array<decimal(38,18)>"), inside)
    if type_.precision == 38:
        refuse(make("decimal(38,18)"), pl.from_arrow(rows))


@pytest.mark.parametrize("number", [1e30, 1e20, 12345678901234567890123.0])
def test_floats_too_large_for_a_decimal_are_refused(make: Make, number: float) -> None:
    refuse(make("decimal(38,18)"), pd.DataFrame({"v": [1.5, number]}))
    refuse(make("decimal(38,18)"), pa.table({"v": [1.5, number]}))


# -- A2: times in nested NumPy arrays -----------------------------------------------------------

UNITS = {"D": DAY_NS, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3,
         "ns": 1}  # fmt: skip
MARCH = 19_783  # 2024-03-01
NEST: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "array": ("array<{}>", lambda a: a, lambda v: v),
    "struct": ("struct<t:array<{}>>", lambda a: {"t": a}, lambda v: v.field("t")),
    "map": ("map<string,array<{}>>", lambda a: {"k": a}, lambda v: v.items),
    "arrays": ("array<array<{}>>", lambda a: objects([a]), lambda v: v),
}


@pytest.mark.gate(21)
@pytest.mark.parametrize("nest", NEST)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "datetime"])
def test_times_in_numpy_arrays_keep_their_unit(make: Make, kind: str, unit: str, nest: str) -> None:
    text, put, get = NEST[nest]
    days = np.array([MARCH * DAY_NS // UNITS[unit], -(2**63)], "int64").view(f"M8[{unit}]")
    table = make(text.format(kind))
    table.write(column(put(days)))
    per_day = DAY_NS // (10**6 if kind == "datetime" else 1)
    assert counts(get(read(table).combine_chunks())) == [MARCH * per_day, None]


@pytest.mark.parametrize("unit", UNITS)
def test_durations_in_numpy_arrays_keep_their_unit(make: Make, unit: str) -> None:
    table = make("array<interval_day_time>")
    table.write(column(np.array([5], f"m8[{unit}]")))
    assert counts(read(table).combine_chunks()) == [5 * UNITS[unit]]


@pytest.mark.parametrize("unit", UNITS)
def test_days_in_numpy_arrays_are_days(make: Make, unit: str) -> None:
    table = make("array<date>")
    table.write(column(np.array(["2024-03-01", "NaT"], f"M8[{unit}]")))
    assert read(table).to_pylist() == [[dt.date(2024, 3, 1), None]]


def test_a_new_table_has_the_times_of_numpy_arrays(
    odps: Connection, new_name: Callable[[str], str]
) -> None:
    table = odps.table(new_name("made"))
    seconds = np.array([5], "m8[s]")
    frame = column(np.array([dt.datetime(2024, 3, 1)], "datetime64[us]")).assign(
        d=pd.Series(objects([seconds]), dtype=object)
    )
    table.write(frame, create=True)
    found = table.read().to_arrow()
    assert found.column("v").to_pylist() == [[pd.Timestamp("2024-03-01")]]
    assert found.column("d").to_pylist() == [[pd.Timedelta(seconds=5)]]
    odps.drop_table(table.name)


# -- A3: nested numbers -------------------------------------------------------------------------

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
def test_nested_values_are_not_cut_or_changed_in_kind(make: Make, kind: str, cell: Any) -> None:
    error = refuse(make(kind), column(None, cell), "v")
    assert error.row == 1


@pytest.mark.parametrize("number", [19.99, np.float32(2.5), np.float64(19.99), 7, np.int16(7)])
def test_numbers_for_a_decimal_are_taken_at_every_depth(make: Make, number: Any) -> None:
    meant = Decimal(str(number))
    table = make("struct<price:decimal(38,18),all:array<decimal(38,18)>>")
    table.write(column({"price": number, "all": [number, Decimal("0.5")]}))
    assert read(table).to_pylist() == [{"price": meant, "all": [meant, Decimal("0.5")]}]


# -- A4: numbers in object columns --------------------------------------------------------------

NUMBERS = [1659099540588, 1.5, np.int64(1), np.float64(1.5), Decimal(1), True]


@pytest.mark.gate(8)
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "datetime", "date"])
@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_numbers_are_no_times(make: Make, kind: str, number: Any) -> None:
    error = refuse(make(kind), column(None, number), "v")
    assert (error.row, error.column) == (1, "v")
    refuse(make(kind), column(dt.datetime(2024, 3, 1), number))
    refuse(make(kind), column(dt.datetime(1, 1, 1), number))


@pytest.mark.parametrize("number", NUMBERS[:4], ids=repr)
def test_numbers_are_no_durations(make: Make, number: Any) -> None:
    refuse(make("interval_day_time"), column(number))
    refuse(make("interval_day_time"), column(dt.timedelta(1), number))


# -- D10: columns without any value -------------------------------------------------------------

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
def test_columns_without_values_are_nulls(
    odps: Connection, new_name: Callable[[str], str], kind: str
) -> None:
    names = [f"c{number}" for number in range(len(WITHOUT))]
    table = odps.create_table(new_name("nulls"), ", ".join(f"{name} {kind}" for name in names))
    frame = pd.DataFrame(dict(zip(names, WITHOUT.values(), strict=True)))
    typed = {n: pa.array(s, from_pandas=True) for n, s in frame.items() if s.dtype != "object"}
    arrow = pa.table(typed)
    for data in (frame, frame.iloc[:0], arrow, arrow.slice(2), arrow.to_reader()):
        table.write(data)
    found = table.read().to_arrow()
    assert (found.num_rows, {column.null_count for column in found.columns}) == (6, {6})
    odps.drop_table(table.name)


# -- D11 to D15 ---------------------------------------------------------------------------------


@pytest.mark.storage_api("far times")
@pytest.mark.gate(8)
@pytest.mark.parametrize("mark", [pd.NaT, NAT, np.datetime64("NaT", "ns"), pd.NA, np.nan, None])
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "datetime", "date"])
def test_a_null_in_a_column_with_a_far_year_is_a_null(make: Make, kind: str, mark: Any) -> None:
    table = make(kind)
    table.write(column(FAR, mark))
    last, null = read(table, "us").to_pylist()
    assert (last, null) == (FAR.date() if kind == "date" else FAR, None)


@pytest.mark.storage_api("far times")
def test_what_was_read_is_written_as_objects(make: Make) -> None:
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
    refuse(make("struct<a:int>"), column({"a": 1, "A": 2}))


@pytest.mark.gate(7)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "datetime", "date"])
def test_datetime64_objects_of_every_unit_are_times(make: Make, kind: str, unit: str) -> None:
    table = make(kind)
    day = np.datetime64(MARCH * DAY_NS // UNITS[unit], unit)
    table.write(column(day, None, day))
    inside = make(f"array<{kind}>")
    inside.write(column([day, None]))
    meant = dt.date(2024, 3, 1) if kind == "date" else pd.Timestamp("2024-03-01")
    assert read(table).to_pylist() == [meant, None, meant]
    assert read(inside).to_pylist() == [[meant, None]]


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz", "datetime", "date"])
def test_dates_and_datetimes_are_taken_together(make: Make, kind: str) -> None:
    table = make(kind)
    table.write(column(dt.datetime(2024, 3, 1), dt.date(2024, 3, 2)))
    table.write(column(dt.date(2024, 3, 2), dt.datetime(2024, 3, 1)))
    found = [str(one)[:10] for one in read(table).to_pylist()]
    assert found == ["2024-03-01", "2024-03-02", "2024-03-02", "2024-03-01"]


def test_naive_and_aware_datetimes_are_taken_together_in_utc(make: Make) -> None:
    aware = dt.datetime(2024, 3, 1, 8, tzinfo=dt.timezone(dt.timedelta(hours=8)))
    for order in ([aware, dt.datetime(2024, 3, 1)], [dt.datetime(2024, 3, 1), aware]):
        table = make("datetime")
        table.write(column(*order))
        assert read(table).to_pylist() == [dt.datetime(2024, 3, 1)] * 2


def test_empty_dicts_make_no_struct_without_members(
    odps: Connection, new_name: Callable[[str], str]
) -> None:
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
        assert refuse(make(f"struct<t:{kind}>"), pa.table({"v": inside}), ".t").row == 0
        refuse(make(f"struct<t:{kind}>"), column({"t": far[0].cast(pa.int64()).as_py()}))
    inside = pa.StructArray.from_arrays([days], ["t"])
    assert refuse(make("struct<t:date>"), pa.table({"v": inside}), ".t").row == 0
    wide = pa.ListArray.from_arrays([0, 1], inside)
    assert refuse(make("array<struct<t:date>>"), pa.table({"v": wide}), ".t").row == 0


# -- what the properties found ------------------------------------------------------------------

EAST, WEST = dt.timezone(dt.timedelta(hours=8)), dt.timezone(dt.timedelta(hours=-5))


@pytest.mark.parametrize(
    "midnight",
    [dt.datetime(2038, 1, 19, tzinfo=EAST), dt.datetime(1, 1, 1, tzinfo=WEST),
     dt.datetime(9999, 12, 31, tzinfo=WEST), pd.Timestamp("2038-01-19", tz="Asia/Shanghai")],
    ids=str,
)  # fmt: skip
def test_midnight_in_its_own_zone_is_a_date(make: Make, midnight: dt.datetime) -> None:
    table, inside = make("date"), make("array<date>")
    table.write(column(midnight))
    inside.write(column([midnight, None]))
    assert read(table).to_pylist() == [midnight.date()]
    assert read(inside).to_pylist() == [[midnight.date(), None]]


def test_maps_of_polars_are_taken(make: Make) -> None:
    cells = pa.array([[("k", "v")], [], None], pa.map_(pa.string(), pa.string()))
    table = make("map<string,string>")
    table.write(pl.from_arrow(pa.table({"v": cells})))
    assert read(table).to_pylist() == cells.to_pylist()


def test_runs_of_views_are_taken(make: Make) -> None:
    views = pa.array(["a", None], pa.string_view())
    ends = pa.array([2, 3], pa.int32())
    table = make("string")
    table.write(pa.table({"v": pa.RunEndEncodedArray.from_arrays(ends, views)}))
    assert read(table).to_pylist() == ["a", "a", None]


def test_masked_numbers_are_nulls(make: Make) -> None:
    table = make("array<int>")
    table.write(column(np.ma.masked_array([1, 2], [False, True])))
    assert read(table).to_pylist() == [[1, None]]
