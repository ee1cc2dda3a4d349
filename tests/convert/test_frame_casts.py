"""With `dtypes=`, a column gets the requested dtype, and no value changes."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.convert.frame_options import FrameOptions
from odps_nb.convert.pandas_frame import to_pandas
from odps_nb.errors import ArgumentError, ConversionError

LONG = Decimal("12345678901234567890.123456789012345678")
MONEY = pa.decimal128(38, 18)


def read(values, kind, dtype):
    table = pa.table({"other": pa.nulls(len(values), pa.int64()), "C": pa.array(values, kind)})
    return to_pandas(table, options=FrameOptions(dtypes={"c": dtype}))["C"]


TAKEN = [
    ([Decimal("1.1"), None], MONEY, "float64", [1.1]),
    ([Decimal("1.1"), None], MONEY, "Float64", [1.1]),
    ([Decimal("1.1"), None], MONEY, np.float32, [np.float32(1.1)]),
    ([Decimal("1.1"), None], MONEY, "double[pyarrow]", [1.1]),
    ([LONG, None], MONEY, object, [LONG]),
    ([LONG, None], MONEY, "string", [str(LONG)]),
    ([LONG, None], MONEY, pd.ArrowDtype(MONEY), [LONG]),
    ([LONG, None, LONG], MONEY, "category", [LONG, LONG]),
    ([Decimal(2**53 + 1), None], pa.decimal128(38, 0), "Int64", [2**53 + 1]),
    ([Decimal(7)], pa.decimal128(38, 0), "int8", [7]),
    ([1, None, 2**53], pa.int64(), "float64", [1.0, 2.0**53]),
    ([1, 0], pa.int64(), bool, [True, False]),
    ([1, None], pa.int64(), "Int8", [1]),
    ([1, None], pa.int64(), "string[pyarrow]", ["1"]),
    ([1.0, None], pa.float64(), "Int64", [1]),
    (["a", None, "a"], pa.string(), "category", ["a", "a"]),
    (["12", None], pa.string(), "Int64", [12]),
    ([dt.date(2024, 1, 31), None], pa.date32(), "datetime64[ns]", [pd.Timestamp(2024, 1, 31)]),
    ([dt.date(2024, 1, 31), None], pa.date32(), pd.ArrowDtype(pa.date32()), [dt.date(2024, 1, 31)]),
    ([[1, None], None], pa.list_(pa.int64()), object, [[1, None]]),
    ([True, None], pa.bool_(), "Int64", [1]),
    ([True, None, False], pa.bool_(), "string", ["True", "False"]),
    ([True, None], pa.bool_(), pd.ArrowDtype(pa.string()), ["true"]),
    ([None], pa.bool_(), "string", []),
]


@pytest.mark.parametrize(("values", "kind", "dtype", "expected"), TAKEN)
def test_values_that_fit_get_the_requested_dtype(values, kind, dtype, expected):
    found = read(values, kind, dtype)
    assert found.dtype == dtype
    assert found.isna().tolist() == [one is None for one in values]
    assert found.dropna().tolist() == expected


REFUSED = [
    ([Decimal(1), LONG], MONEY, "float64", 1),
    ([Decimal(1), None, Decimal("1.5")], MONEY, "Int64", 2),
    ([Decimal(1), Decimal("1.5")], MONEY, "int64", 1),
    ([Decimal(1), Decimal(10**19)], MONEY, "int64", 1),
    ([Decimal(1), Decimal("1.25")], MONEY, pd.ArrowDtype(pa.decimal128(38, 1)), 1),
    ([1, 2**53 + 1], pa.int64(), "float64", 1),
    ([1, 300], pa.int64(), "int8", 1),
    ([1, 300], pa.int64(), "Int8", 1),
    ([1, 2], pa.int64(), bool, 1),
    ([1, None], pa.int64(), "int64", 1),
    ([0.5, 0.1], pa.float64(), "float32", 1),
    ([1.0, 1.5], pa.float64(), "int64", 1),
    (["1", "007"], pa.string(), "Int64", 1),
    (["1", "x"], pa.string(), "float64", 1),
    ([dt.date(2024, 1, 1), dt.date(9999, 1, 1)], pa.date32(), "datetime64[ns]", 1),
    ([[1], [2]], pa.list_(pa.int64()), "category", 0),
    ([dt.datetime(2024, 1, 1)], pa.timestamp("ms"), "datetime64[ns, UTC]", None),
]


@pytest.mark.parametrize(("values", "kind", "dtype", "row"), REFUSED)
def test_the_error_names_a_value_that_would_change(values, kind, dtype, row):
    with pytest.raises(ConversionError, match="C") as caught:
        read(values, kind, dtype)
    error = caught.value
    assert (error.column, error.row) == ("C", row)
    assert error.target_type == str(pd.api.types.pandas_dtype(dtype))
    assert "astype" in error.hint


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "int64", "int64[pyarrow]"])
@pytest.mark.parametrize("last", ["y", None, "99999999999999999999"])
def test_the_reason_is_that_of_the_named_value(dtype, last):
    with pytest.raises(ConversionError, match=r"C\[0\] = 'x' .*'x'"):
        read(["x", last], pa.string(), dtype)


@pytest.mark.parametrize(
    ("dtypes", "told"),
    [
        ({"amuont": "float64"}, "amuont"),
        ({"c": "flot64"}, "flot64"),
        ({1: "float64"}, "1"),
        ({"c": "\ud800"}, "c"),
    ],
)
def test_an_unknown_column_or_dtype_is_refused(dtypes, told):
    with pytest.raises(ArgumentError, match=told) as caught:
        to_pandas(pa.table({"c": [1]}), options=FrameOptions(dtypes=dtypes))
    assert caught.value.argument == "dtypes"


def test_to_pandas_and_head_accept_dtypes(odps):
    orders = odps.table("orders")
    dtypes = {"amount": "string", "ID": "Int64"}
    found = [
        orders.head(3, columns=["id", "amount"], dtypes=dtypes),
        orders.read(["id", "amount"], limit=3).to_pandas(dtypes=dtypes, progress=False),
        odps.sql("select id, amount from orders limit 3").to_pandas(dtypes=dtypes, progress=False),
    ]
    for frame in found:
        assert [str(one) for one in frame.dtypes] == ["Int64", "string"]
