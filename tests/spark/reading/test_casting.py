"""Arrow batches for Spark: columns are matched by name, values are exact or raise an error."""

from __future__ import annotations

import datetime as dt
import decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odps_nb.errors import ConversionError
from odps_nb.spark.reading.casting import cast_array, select

US = pa.timestamp("us", tz="UTC")


def _batch(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_columns_are_matched_by_name() -> None:
    batch = _batch(b=pa.array(["x"]), A=pa.array([1]))
    out = select(batch, pa.schema([("a", pa.int64()), ("b", pa.string())]))
    assert out.to_pydict() == {"a": [1], "b": ["x"]}


def test_an_error_names_a_missing_column() -> None:
    with pytest.raises(ConversionError, match="no column 'c'") as caught:
        select(_batch(a=pa.array([1])), pa.schema([("c", pa.int64())]))
    assert caught.value.column == "c"


def test_nulls_in_a_not_null_column_raise_instead_of_becoming_zero() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False)])
    with pytest.raises(ConversionError, match="NOT NULL"):
        select(_batch(a=pa.array([1, None])), schema)


def test_a_batch_that_fits_is_passed_on_unchanged() -> None:
    batch = _batch(a=pa.array([1]))
    assert select(batch, batch.schema) is batch


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_nanoseconds_are_rounded_down(values: list[int | None]) -> None:
    array = pa.array(values, pa.int64()).view(pa.timestamp("ns"))
    out = cast_array(array, US, column="t").view(pa.int64()).to_pylist()
    assert out == [None if v is None else v // 1000 for v in values]


@given(st.lists(st.none() | st.integers(-62135596800000, 253402300799999)))
def test_every_millisecond_of_a_datetime_is_kept(values: list[int | None]) -> None:
    array = pa.array(values, pa.int64()).view(pa.timestamp("ms"))
    out = cast_array(array, US, column="t").view(pa.int64()).to_pylist()
    assert out == [None if v is None else v * 1000 for v in values]


def test_a_time_outside_of_the_target_range_raises_an_error() -> None:
    array = pa.array([2**62], pa.int64()).view(pa.timestamp("s"))
    with pytest.raises(ConversionError, match="out of bounds"):
        cast_array(array, US, column="t")


_LEAF = st.none() | st.binary(max_size=3).map(lambda b: b.hex().encode())
_ROW = st.none() | st.fixed_dictionaries(
    {
        "l": st.none() | st.lists(st.none() | st.fixed_dictionaries({"c": _LEAF}), max_size=3),
        "m": st.none() | st.dictionaries(st.text(max_size=2), _LEAF, max_size=3),
    }
)


@given(st.lists(_ROW, max_size=6), st.integers(0, 3), st.booleans())
def test_nested_values_keep_their_nulls_in_slices(
    rows: list[dict[str, object] | None], start: int, large: bool
) -> None:
    list_of = pa.large_list if large else pa.list_
    source = pa.struct(
        [
            ("m", pa.map_(pa.string(), pa.binary())),
            ("l", list_of(pa.struct([("c", pa.binary())]))),
        ]
    )
    target = pa.struct(
        [
            ("l", pa.list_(pa.field("element", pa.struct([("c", pa.string())])))),
            ("m", pa.map_(pa.string(), pa.string())),
        ]
    )
    given_rows = pa.array(rows, source).slice(start)
    out = cast_array(given_rows, target, column="s")
    out.validate(full=True)
    as_text = pa.array(
        [
            None
            if row is None
            else {
                "l": row["l"],
                "m": row["m"],
            }
            for row in rows
        ],
        target,
    )
    assert out.to_pylist() == as_text.slice(start).to_pylist()


def test_decimals_move_between_widths_only_when_they_fit() -> None:
    array = pa.array([decimal.Decimal("1.50")], pa.decimal256(54, 18))
    assert cast_array(array, pa.decimal128(38, 18), column="d").to_pylist() == array.to_pylist()
    with pytest.raises(ConversionError) as caught:
        cast_array(array, pa.decimal128(10, 0), column="d")
    assert caught.value.target_type == "decimal128(10, 0)"


def test_dictionaries_and_large_strings_become_plain_strings() -> None:
    for array in (
        pa.array(["a", None, "a"]).dictionary_encode(),
        pa.array(["a", None, "a"], pa.large_string()),
        pa.array([b"a", None, b"a"], pa.binary()),
    ):
        assert cast_array(array, pa.string(), column="s").to_pylist() == ["a", None, "a"]


def test_bytes_that_are_not_text_are_refused_for_a_text_column() -> None:
    with pytest.raises(ConversionError, match="'s'"):
        cast_array(pa.array([b"\xff"]), pa.string(), column="s")


def test_dates_and_timestamp_ntz_values_are_not_shifted() -> None:
    wall = pa.array([dt.datetime(1969, 12, 31, 23, 59, 59, 999999)], pa.timestamp("ns"))
    out = cast_array(wall, pa.timestamp("us"), column="n")
    assert out.to_pylist() == [dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]
