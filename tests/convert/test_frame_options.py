"""`decimals=` and `dtype_backend=` change the dtypes but not the values."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.client.calls.progress import silent
from odps_nb.convert.frame_options import FrameOptions
from odps_nb.convert.pandas_frame import to_pandas
from odps_nb.errors import ArgumentError

WHEN = datetime.datetime(2024, 1, 31, 10)
TABLE = pa.table(
    {
        "whole": pa.array([1, None, 3], pa.int64()),
        "full": pa.array([1, 2, 3], pa.int16()),
        "real": pa.array([0.5, None, float("nan")], pa.float64()),
        "yes": pa.array([True, None, False], pa.bool_()),
        "text": pa.array(["a", None, ""], pa.string()),
        "money": pa.array([Decimal("1.10"), None, Decimal("-2.25")], pa.decimal128(18, 2)),
        "long": pa.array([Decimal(10) ** 50, None, Decimal(1)], pa.decimal256(60, 0)),
        "when": pa.array([WHEN, None, WHEN], pa.timestamp("ms", "Asia/Shanghai")),
        "bytes": pa.array([b"\x00", None, b""], pa.binary()),
        "list": pa.array([[1, None], None, []], pa.list_(pa.int64())),
    }
)
EXACT = ["decimal128(18, 2)[pyarrow]", "decimal256(60, 0)[pyarrow]"]
USUAL = ["Int64", "int16", "float64", "boolean", "str", "float64", "float64",
         "datetime64[ms, Asia/Shanghai]", "object", "object"]  # fmt: skip
NULLABLE = ["Int64", "Int16", "Float64", "boolean", "string", "object", "object", *USUAL[7:]]
ARROW = ["int64[pyarrow]", "int16[pyarrow]", "double[pyarrow]", "bool[pyarrow]", "string[pyarrow]",
         *EXACT, "timestamp[ms, tz=Asia/Shanghai][pyarrow]", "binary[pyarrow]",
         "list<item: int64>[pyarrow]"]  # fmt: skip


def frame(table: pa.Table = TABLE, **options: object) -> pd.DataFrame:
    return to_pandas(table, options=FrameOptions(**options))


def dtypes(found: pd.DataFrame) -> list[str]:
    usual = pd.Series(["a"]).dtype  # `str`, or `object` in pandas 2
    return [
        "str" if name == "text" and dtype == usual else str(dtype)
        for name, dtype in found.dtypes.items()
    ]


@pytest.mark.parametrize(
    ("backend", "expected"), [(None, USUAL), ("numpy_nullable", NULLABLE), ("pyarrow", ARROW)]
)
def test_a_dtype_backend_changes_the_dtypes_and_no_value(backend, expected):
    found = frame(dtype_backend=backend)
    assert dtypes(found) == expected
    for name in ("whole", "full", "yes", "text", "when", "bytes", "list"):
        back = pa.array(found[name], TABLE[name].type, from_pandas=True)
        assert back.to_pylist() == TABLE[name].to_pylist(), name
    assert [float(one) for one in found["money"].dropna()] == [1.1, -2.25]
    assert [float(one) for one in found["long"].dropna()] == [1e50, 1]
    assert found["real"][0] == 0.5


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_with_a_dtype_backend_the_dtypes_do_not_depend_on_the_values(backend):
    whole = frame(dtype_backend=backend).dtypes
    for part in (TABLE.slice(0, 0), TABLE.slice(0, 1), TABLE.slice(1, 1)):
        assert frame(part, dtype_backend=backend).dtypes.equals(whole)


@pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
def test_a_dtype_backend_distinguishes_null_and_nan(backend):
    real = frame(dtype_backend=backend)["real"]
    assert real.isna()[1]
    values = pa.array(real, from_pandas=False) if backend == "pyarrow" else real.array._data
    assert np.isnan(values[2].as_py() if backend == "pyarrow" else values[2])


@pytest.mark.parametrize(
    ("backend", "dtype"),
    [(None, "float64"), ("numpy_nullable", "Float64"), ("pyarrow", "double[pyarrow]")],
)
def test_decimals_read_as_floats_support_describe_and_mean(backend, dtype):
    found = frame(decimals="float", dtype_backend=backend)
    assert [str(found[name].dtype) for name in ("money", "long")] == [dtype, dtype]
    assert found["money"].dropna().tolist() == [1.1, -2.25]
    assert found["long"][0] == 1e50
    assert found["money"].mean() == pytest.approx(-0.575)
    assert "money" in found.describe().columns


def test_frame_options_apply_while_batches_arrive(odps):
    scan = odps.table("orders").read(["amount", "quantity", "status"], limit=45_000)
    found = scan.to_pandas(decimals="float", dtype_backend="numpy_nullable", progress=silent)
    assert [str(one) for one in found.dtypes] == ["Float64", "Int32", "string"]
    exact = scan.to_pandas(decimals="exact", progress=silent)["amount"]
    assert exact.dtype == object
    assert found["amount"].tolist() == [float(one) for one in exact]
    usual = scan.to_pandas(progress=silent)["amount"]
    assert (str(usual.dtype), usual.tolist()) == ("float64", found["amount"].tolist())


def test_head_and_query_results_accept_frame_options(odps):
    orders = odps.table("orders")
    for decimals, dtype in (("float", "float64"), ("exact", "object"), ("auto", "float64")):
        assert str(orders.head(3, columns=["amount"], decimals=decimals)["amount"].dtype) == dtype
    head = orders.head(3, partitions="ds=2024-01-01", dtype_backend="pyarrow")
    assert all(isinstance(dtype, pd.ArrowDtype) for dtype in head.dtypes)
    result = odps.sql("select amount from orders limit 3", progress=silent)
    assert str(result.to_pandas()["amount"].dtype) == "float64"
    assert result.to_pandas(decimals="exact")["amount"].dtype == object


@pytest.mark.parametrize(
    ("name", "value"),
    [("decimals", "double"), ("dtype_backend", "numpy"), ("decimals", None), ("dtypes", "Int64")],
)
def test_an_unknown_option_value_is_refused_before_anything_is_read(odps, name, value):
    with pytest.raises(ArgumentError, match=name) as caught:
        odps.table("no_such_table").read().to_pandas(**{name: value})
    assert caught.value.argument == name
