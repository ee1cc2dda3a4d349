"""ARRAY, MAP and STRUCT values in a DataFrame can be saved to files and written to tables."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.convert.frame_options import FrameOptions
from odps_nb.convert.nested_values import python_values
from odps_nb.convert.pandas_frame import to_pandas

NANO = pd.Timestamp("2024-01-31 10:00:00.123456789")
COLUMNS = {
    "id bigint": [1, 2, 3],
    "a array<bigint>": [[1, None, 2**53 + 1], [], None],
    "t array<timestamp>": [[NANO, None], [], None],
    "d array<decimal(38,18)>": [[Decimal("12345678901234567890.5"), None], [], None],
    "m map<string,bigint>": [{"x": 1, "y": None}, {}, None],
    "n map<bigint,array<string>>": [{7: ["x", None]}, {8: None}, None],
    "s struct<x:bigint,y:array<map<string,date>>>": [
        {"x": 2**53 + 1, "y": [{"k": dt.date(2024, 1, 31)}, None]},
        {"x": None, "y": None},
        None,
    ],
}


@pytest.fixture(scope="module")
def table(odps):
    made = odps.create_table("nested_frames", ", ".join(COLUMNS))
    columns = zip(made.schema.names, COLUMNS.values(), strict=True)
    made.write(pd.DataFrame({name: pd.Series(some, dtype=object) for name, some in columns}))
    return made


def test_nested_values_are_python_objects_that_can_be_written_again(table):
    for _ in range(2):
        frame = table.read().to_pandas(progress=False).sort_values("id", ignore_index=True)
        for name, values in zip(frame.columns, COLUMNS.values(), strict=True):
            assert frame[name].tolist() == values, name
        table.write(frame, overwrite=True)


def test_pandas_saves_and_loads_nested_values(table, tmp_path):
    """MAPs with keys other than text are excluded, because Arrow rejects them as dicts."""
    frame = table.read().to_pandas(progress=False).drop(columns="n").iloc[:1]
    frame.to_parquet(tmp_path / "f.parquet")
    (back,) = pd.read_parquet(tmp_path / "f.parquet", dtype_backend="pyarrow").to_dict("records")
    (there,) = frame.to_dict("records")
    assert list(back["a"]) == there["a"]
    assert [pd.Timestamp(one) for one in back["t"][:1]] == [NANO.floor("us")]  # as Arrow infers
    assert list(back["d"]) == there["d"]
    assert back["m"] == there["m"]  # a STRUCT with all keys
    assert back["s"]["x"] == there["s"]["x"]
    with pytest.raises(pa.ArrowTypeError, match="key"):
        table.read(["n"]).to_pandas(progress=False).to_parquet(tmp_path / "n.parquet")


def test_duplicate_rows_with_nested_values_can_be_dropped_by_their_repr(table):
    frame = table.read().to_pandas(progress=False)
    twice = pd.concat([frame, frame], ignore_index=True).assign(b=b"\xff")  # not UTF-8
    with pytest.raises(TypeError, match="unhashable"):
        twice.drop_duplicates()
    assert len(twice[~twice.map(repr).duplicated()]) == len(frame)
    assert len(twice.drop_duplicates("id")) == len(frame)


def test_a_map_with_a_repeated_key_is_a_list_of_pairs():
    kind = pa.map_(pa.string(), pa.int64())
    values = [[("a", 1), ("b", 2)], [("a", 1), ("a", None)], [], None]
    shown = [{"a": 1, "b": 2}, [("a", 1), ("a", None)], {}, None]
    array = pa.array(values, kind)
    assert python_values(array) == shown
    assert python_values(array.slice(1, 2)) == shown[1:3]
    inner = pa.array([[one] for one in values], pa.list_(kind))
    assert python_values(inner) == [[one] for one in shown]
    members = pa.array([{"m": one} for one in values], pa.struct({"m": kind}))
    assert python_values(members) == [{"m": one} for one in shown]


def test_the_arrow_dtype_backend_keeps_nested_columns():
    table = pa.table({"a": [[1]], "s": [{"x": 1}]})
    found = to_pandas(table, options=FrameOptions(dtype_backend="pyarrow"))
    assert [str(one) for one in found.dtypes] == [
        "list<item: int64>[pyarrow]",
        "struct<x: int64>[pyarrow]",
    ]
