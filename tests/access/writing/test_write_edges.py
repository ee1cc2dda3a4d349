"""Unusual data is written unchanged or rejected with an explanation."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from odps_nb.access.connection import Connection
from odps_nb.errors import ArgumentError, ConversionError
from tests.support.named import NewName

NINES = Decimal("9" * 10 + "." + "9" * 39)

WRITTEN: list[tuple[str, Any, dict[str, Any], list[Any]]] = [
    # the type, the data, the requested conversions, the stored values
    ("date", [{"c": "2024-02-01T00:00:00+08:00"}], {"text": "parse"}, [dt.date(2024, 2, 1)]),
    ("array<bigint>", [{"c": pa.array([1, None])}], {}, [[1, None]]),
    ("array<bigint>", [{"c": pa.scalar([1, None])}], {}, [[1, None]]),
    ("array<string>", [{"c": pa.array(["a", None]).dictionary_encode()}], {}, [["a", None]]),
    ("interval_year_month", pd.DataFrame({"c": [3.0, np.nan]}), {}, [3, None]),
    ("struct<`1`:bigint>", [{"c": {1: 5}}], {}, [{"1": 5}]),
    ("decimal(50,22)", [(NINES,)], {"decimals": "round"}, [Decimal(10**10)]),
    ("decimal(10,2)", [(Decimal("0." + "3" * 90),)], {"decimals": "round"}, [Decimal("0.33")]),
    ("array<decimal(4,1)>", [([Decimal("1E-999")],)], {"decimals": "round"}, [[Decimal(0)]]),
    ("decimal(4,1)", [("1e-99",)], {"decimals": "round", "text": "parse"}, [Decimal(0)]),
    ("decimal(12,2)", [(Decimal("1234567890." + "0" * 70),)], {}, [Decimal(1234567890)]),
    ("double", [{"c": 2**70}], {}, [float(2**70)]),
    ("decimal(10,2)", [{"c": Decimal("NaN")}, {"c": Decimal(1)}], {}, [None, Decimal(1)]),
]


@pytest.mark.parametrize(("kind", "data", "asked", "stored"), WRITTEN)
def test_unusual_values_are_stored_as_intended(
    odps: Connection, new_name: NewName, kind: str, data: Any, asked: Any, stored: list[Any]
) -> None:
    table = odps.create_table(new_name("edge"), f"c {kind}")
    table.write(data, **asked)
    assert table.read().to_arrow()["c"].to_pylist() == stored


@pytest.mark.storage_api("far times")
def test_nanoseconds_in_a_column_with_far_years_are_rounded_on_request(
    odps: Connection, new_name: NewName
) -> None:
    table = odps.create_table(new_name("edge"), "c timestamp")
    data = [{"c": dt.datetime(9000, 1, 1)}, {"c": pd.Timestamp("2024-01-31 10:00:00.000000501")}]
    with pytest.raises(ConversionError, match="more precise than a microsecond") as caught:
        table.write(data)
    assert 'times="round"' in caught.value.hint
    table.write(data, times="round")
    stored = table.read(timestamp_unit="us").to_arrow()["c"].to_pylist()
    assert stored == [dt.datetime(9000, 1, 1), dt.datetime(2024, 1, 31, 10, 0, 0, 1)]


class NotIterable:
    def __array__(self) -> Any:
        """Return the values; this makes NumPy, but not `list`, accept the object."""
        return np.zeros(2)


REFUSED: list[tuple[str, Any, dict[str, Any], str]] = [
    ("date", [{"c": "2024-01-31T16:00:00-08:00"}], {"text": "parse"}, "not midnight"),
    ("double", [{"c": "1e-400"}], {"text": "parse"}, "the text is not a valid DOUBLE"),
    ("decimal(10,2)", [{"c": Decimal("inf")}], {}, "it is not finite"),
    (
        "date",
        pd.DataFrame({"c": pd.period_range("2024", periods=1, freq="M")}),
        {},
        "no MaxCompute type",
    ),
    ("string", pd.DataFrame({"c": pd.cut([1, 2], [0, 1, 2])}), {}, "no MaxCompute type"),
    ("interval_year_month", [{"c": "3"}], {"text": "parse"}, "text does not fit"),
    ("date", [{"c": dt.datetime(2024, 1, 31, 10)}], {"times": "round"}, "not midnight"),
    ("datetime", [{"c": dt.datetime.max}], {"times": "round"}, "its year is not between"),
    ("timestamp", [{"c": pd.Timestamp(np.datetime64("12024", "s"))}], {}, "its year is not betw"),
    ("interval_day_time", [{"c": dt.timedelta.max}], {}, "longer than 106751 days"),
    ("array<interval_day_time>", [{"c": [dt.timedelta.min]}], {}, "longer than 106751 days"),
    ("date", [{"c": np.datetime64(-(2**62), "D")}], {}, "out of range"),
    ("array<bigint>", [{"c": NotIterable()}], {}, "does not fit ARRAY"),
    ("map<string,bigint>", [{"c": pa.scalar(2**62, pa.timestamp("s"))}], {}, "does not fit MAP"),
]


@pytest.mark.parametrize(("kind", "data", "asked", "why"), REFUSED)
def test_values_that_would_change_are_refused_with_an_explanation(
    odps: Connection, new_name: NewName, kind: str, data: Any, asked: Any, why: str
) -> None:
    table = odps.create_table(new_name("edge"), f"c {kind}")
    with pytest.raises(ConversionError, match=why) as caught:
        table.write(data, **asked)
    assert caught.value.hint
    assert "to_numeric, or pass" not in caught.value.hint or not asked
    assert table.read().row_count == 0


LISTS = [{1}, range(1, 2), pd.Series([1]), pl.Series([1]), pa.array([1]), pd.array([1, None])]


@pytest.mark.parametrize("cell", LISTS, ids=lambda cell: type(cell).__name__)
def test_each_kind_of_list_creates_an_array_column(
    odps: Connection, new_name: NewName, cell: Any
) -> None:
    table = odps.create_table(new_name("made"), [{"c": cell}])
    (stored,) = table.read().to_arrow()["c"].to_pylist()
    assert stored[0] == 1


def test_members_of_new_structs_match_in_any_case(odps: Connection, new_name: NewName) -> None:
    table = odps.create_table(new_name("made"), [{"c": {"x": 1}}, {"c": {"X": 2}}])
    assert table.read().to_arrow()["c"].to_pylist() == [{"x": 1}, {"x": 2}]


def test_empty_data_may_have_the_partition_column(odps: Connection, new_name: NewName) -> None:
    table = odps.create_table(new_name("empty"), "v bigint", partitioned_by="p string")
    frame = pd.DataFrame({"v": [1], "p": ["a"]})
    nothing = frame[frame["v"] > 5]
    for data in (
        nothing,
        pa.Table.from_pandas(nothing, preserve_index=False),
        iter([nothing, frame]),
    ):
        table.write(data, partition="p=a")
    assert table.read().row_count == 1
    with pytest.raises(ConversionError, match="values that differ from the partition"):
        table.write([{"v": 1, "p": ["a"]}], partition="p=a")


def test_a_key_is_never_taken_from_the_index(odps: Connection, new_name: NewName) -> None:
    table = odps.create_table(new_name("keyed"), "id bigint, v bigint", primary_key="id")
    rows = pd.DataFrame({"id": [1, 3], "v": [3, 9]})
    table.upsert(rows)
    with pytest.raises(ConversionError, match="the key 'id' is in the index"):
        table.delete(rows.set_index("id")["v"])
    with pytest.raises(ArgumentError, match="'gone', which was passed as deleted="):
        table.upsert(rows, deleted="gone")
    assert table.read().row_count == 2
    table.delete(rows["id"].head(1))
    table.delete(["3"], text="parse")
    assert table.read().row_count == 0


@pytest.mark.parametrize(
    ("kind", "given", "asked"),
    [
        ("datetime", dt.datetime(2024, 1, 2, 3, 4, 5, 600), {"times": "round"}),
        ("decimal(5,1)", Decimal("1.26"), {"decimals": "round"}),
        ("bigint", "7", {"text": "parse"}),
    ],
)
def test_rows_are_deleted_by_the_same_conversions_that_stored_their_keys(
    odps: Connection, new_name: NewName, kind: str, given: object, asked: Any
) -> None:
    table = odps.create_table(new_name("keyed"), f"id {kind}, v bigint", primary_key="id")
    table.upsert([{"id": given, "v": 1}], **asked)
    with pytest.raises(ConversionError):
        table.delete([given])
    table.delete([given], **asked)
    assert table.read().row_count == 0


def test_an_error_in_an_open_write_does_not_say_that_the_write_had_no_effect(
    odps: Connection, new_name: NewName
) -> None:
    table = odps.create_table(new_name("open"), "a bigint")
    session = table.open_write()
    with pytest.raises(ConversionError) as caught:
        session.write({"a": place if place < 20_000 else 1.5} for place in range(20_001))
    session.abort()
    assert caught.value.row == 20_000
    assert "nothing was written" not in caught.value.hint
