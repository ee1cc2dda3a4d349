"""Decimals become the nearest float64, which is exact only if it converts back to the decimal."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from odps_nb.convert import frame_columns
from odps_nb.convert.decimal_floats import (
    as_floats,
    decimal_note,
    from_floats,
    surviving_floats,
)
from odps_nb.convert.pandas_frame import to_pandas
from tests.support.watcher import Watcher

_ROOM = Context(prec=100)


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.DataType, list[Decimal | None]]:
    digits = draw(st.integers(1, 76))
    scale = draw(st.integers(0, digits))
    kind = (pa.decimal128 if digits <= 38 else pa.decimal256)(digits, scale)
    longest = draw(st.integers(0, digits))
    whole = st.integers(-(10**longest) + 1, 10**longest - 1)
    value = st.none() | whole.map(lambda one: Decimal(one).scaleb(-scale, _ROOM))
    return kind, draw(st.lists(value, max_size=20))


@given(columns(), st.integers(0, 20))
@example((pa.decimal128(15, 2), [Decimal("19.99")]), 0)
@example((pa.decimal128(38, 0), [Decimal(100000000000003000)]), 0)
@example((pa.decimal128(38, 18), [Decimal("0.1"), Decimal("12345678901234567890.5")]), 1)
def test_decimals_become_the_nearest_floats_which_are_exact_if_their_texts_are_equal(column, start):
    kind, values = column
    part, left = pa.array(values, kind).slice(start), values[start:]
    nearest = [None if one is None else float(one) for one in left]
    assert as_floats(part).to_pylist() == nearest
    assert as_floats(pa.chunked_array([part, part])).to_pylist() == nearest * 2
    survive = all(one is None or Decimal(repr(float(one))) == one for one in left)
    found = surviving_floats(part)
    assert (found is not None) == survive
    if found is not None:
        assert found.to_pylist() == nearest
        assert from_floats(found, kind).equals(part)


@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_a_column_is_exact_if_any_value_has_too_many_digits(place, size, monkeypatch):
    monkeypatch.setattr(frame_columns, "_FIRST_ROWS", 2)
    values = [
        Decimal("0.10"),
        None,
        Decimal("-2.25"),
        Decimal(0),
        None,
        Decimal(10**12),
        Decimal(1),
    ]
    table = pa.table({"c": pa.array(values, pa.decimal128(38, 2))})
    floats = to_pandas(iter(table.to_batches(max_chunksize=size)), schema=table.schema)["c"]
    assert floats.dtype == "float64"
    assert floats.isna().tolist() == [one is None for one in values]
    assert floats.dropna().tolist() == [float(one) for one in values if one is not None]
    values[place] = Decimal("12345678901234567.89")
    table = pa.table({"c": pa.array(values, pa.decimal128(38, 2))})
    exact = to_pandas(iter(table.to_batches(max_chunksize=size)), schema=table.schema)["c"]
    assert exact.dtype == object
    assert pa.array(exact).to_pylist() == values


def test_columns_of_exact_decimals_can_be_summed_grouped_sorted_and_stored(tmp_path):
    long = Decimal("12345678901234567.89")
    frame = to_pandas(
        pa.table({"key": [1, 1, 2], "c": pa.array([long, None, Decimal(1)], pa.decimal128(38, 2))})
    )
    assert frame["c"].sum() == long + 1
    assert frame.groupby("key")["c"].sum().to_dict() == {1: long, 2: 1}
    assert frame.sort_values("c")["c"].tolist() == [1, long, None]
    assert (frame["c"].dropna() * 2 - 1).tolist() == [long * 2 - 1, 1]
    assert frame[frame["c"] == long].index.tolist() == [0]
    frame.to_parquet(tmp_path / "f.parquet")
    assert pq.read_table(tmp_path / "f.parquet")["c"].to_pylist() == [long, None, 1]


def test_decimals_of_up_to_15_digits_have_the_same_dtype_for_all_values():
    empty = pa.table(
        {"c": pa.array([], pa.decimal128(15, 2)), "d": pa.array([], pa.decimal128(38))}
    )
    assert [str(one) for one in to_pandas(empty).dtypes] == ["float64", "float64"]


def test_the_progress_of_a_read_reports_the_dtypes_of_decimals(odps):
    def final_message(columns: list[str], **options: Any) -> str | None:
        seen = Watcher()
        odps.table("orders").read(columns, limit=5).to_pandas(progress=seen, **options)
        return seen.last.message

    assert final_message(["id", "amount"]) == "DECIMAL as float64: amount"
    assert final_message(["id"]) == ""
    assert final_message(["id", "amount"], decimals="float") == ""


def test_a_note_of_many_columns_is_short():
    kinds = {f"c{n}": pa.array([Decimal(1)], pa.decimal128(5)) for n in range(6)}
    kinds["long"] = pa.array([Decimal(2**53 + 1)], pa.decimal128(38))
    table = pa.table(kinds)
    assert decimal_note(table.schema, to_pandas(table)) == (
        "DECIMAL as float64: c0, c1, c2 and 3 more · DECIMAL kept exact; float64 would round: long"
    )
