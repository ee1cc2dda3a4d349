"""DECIMAL in a DataFrame calculates as float64 does, and moving values keeps every digit."""

from __future__ import annotations

import json
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.convert.decimal_array import DecimalArray, DecimalDtype
from odps_nb.convert.frame_options import FrameOptions
from odps_nb.convert.pandas_frame import to_pandas

SHORT = [Decimal("19.99"), Decimal("5.5"), None, Decimal("-0.01"), Decimal("19.99"), Decimal(100)]
LONG = [
    Decimal("12345678901234567890.123456789012345678"),
    Decimal("98765432109876543210.987654321098765432"),
    None,
    Decimal("-0.000000000000000001"),
    Decimal("12345678901234567890.123456789012345678"),
    Decimal("19.99"),
]
KIND = pa.decimal128(38, 18)
COLUMNS = {"short": SHORT, "long": LONG}


def frame_of(values: list[Decimal | None], **options: Any) -> pd.DataFrame:
    rows = range(len(values))
    table = pa.table(
        {
            "key": [n % 2 for n in rows],
            "f": [n + 0.5 for n in rows],
            "s": pa.array(values, KIND),
            "other": pa.array(values[::-1], KIND),
        }
    )
    return to_pandas(table, options=FrameOptions(**options))


FLOATS = {
    "half": lambda d: d.s / 2,
    "inverse": lambda d: 2 / d.s,
    "times a float": lambda d: d.s * 1.1,
    "share": lambda d: d.s / d.s.sum(),
    "by another": lambda d: d.s / d.other,
    "with floats": lambda d: d.s + d.f,
    "floats with it": lambda d: d.f - d.s,
    "power": lambda d: d.s**2,
    "modulo": lambda d: d.s % 7,
    "floor": lambda d: d.s // 7,
    "in place": lambda d: d.assign(s=d.s * 1.5).s,
    "frame": lambda d: d[["s", "f"]] / d[["s", "f"]].sum(),
    "log": lambda d: np.log(abs(d.s)),
    "maximum": lambda d: np.maximum(d.s, 0),
    "where": lambda d: np.where(d.s > 1, d.s, 0),
    "as an array": lambda d: np.asarray(d.s),
    "with a value for nulls": lambda d: d.s.to_numpy(na_value=0),
    "floats for nulls": lambda d: d.to_numpy(float, na_value=-1),
    "describe": lambda d: d.describe(),
    "describe all": lambda d: d.describe(include="all"),
    "sum": lambda d: d.s.sum(),
    "mean": lambda d: d.s.mean(),
    "std": lambda d: d.s.std(),
    "var": lambda d: d.s.var(ddof=0),
    "median": lambda d: d.s.median(),
    "min": lambda d: d.s.min(),
    "max": lambda d: d.s.max(),
    "quantiles": lambda d: d.s.quantile([0.1, 0.5]),
    "skew": lambda d: d.s.skew(),
    "corr": lambda d: d.corr(),
    "cov": lambda d: d.cov(),
    "frame mean": lambda d: d.mean(),
    "row sums": lambda d: d[["s", "f"]].sum(axis=1),
    "agg": lambda d: d.agg(["sum", "mean", "max"]),
    "cumsum": lambda d: d.s.cumsum(),
    "rolling": lambda d: d.s.rolling(2).mean(),
    "rank": lambda d: d.s.rank(),
    "pct_change": lambda d: d.dropna().s.pct_change(),
    "group sum": lambda d: d.groupby("key").s.sum(),
    "group mean": lambda d: d.groupby("key")[["s", "f"]].mean(),
    "group std": lambda d: d.groupby("key").s.std(),
    "group quantile": lambda d: d.groupby("key").s.quantile(0.5),
    "group agg": lambda d: d.groupby("key").agg({"s": ["sum", "mean", "max"]}),
    "group transform": lambda d: d.groupby("key").s.transform("mean"),
    "group apply": lambda d: d.groupby("key").s.apply(lambda part: part.max()),
    "group cumsum": lambda d: d.groupby("key").s.cumsum(),
    "group by it": lambda d: d.groupby("s").f.sum(),
    "pivot_table": lambda d: d.pivot_table(index="key", values="s", aggfunc=["sum", "mean"]),
    "crosstab": lambda d: pd.crosstab(d.key, d.key, values=d.s, aggfunc="sum"),
    "above a float": lambda d: d.s > 19.99,
    "is a float": lambda d: d.s == 19.99,
    "is its greatest": lambda d: d.s == d.s.max(),
    "between": lambda d: d.s.between(0, 50),
    "isin": lambda d: d.s.isin([19.99, 5]),
    "query": lambda d: d.query("s > 1").f,
    "idxmax": lambda d: d.s.idxmax(),
    "duplicates": lambda d: d.drop_duplicates("s").f,
    "sorted": lambda d: d.sort_values("s", kind="stable").f,
    "sorted by two": lambda d: d.sort_values(["s", "f"], ascending=False).f,
    "largest": lambda d: d.nlargest(2, "s").f,
    "merged": lambda d: d.merge(d, on="s").sort_values(["f_x", "f_y"])[["f_x", "f_y"]],
    "joined": lambda d: d.dropna().set_index("s").sort_index().f,
    "cut": lambda d: pd.cut(d.dropna().s, 3, labels=False),
    "nulls": lambda d: d.s.isna(),
    "counts": lambda d: d.s.value_counts(),
    "histogram": lambda d: np.histogram(d.s.dropna())[0],
    "numbers": lambda d: d.select_dtypes("number").shape,
}


@pytest.mark.parametrize("options", [{}, {"decimals": "exact"}], ids=["auto", "exact"])
@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
@pytest.mark.parametrize("name", FLOATS)
def test_calculations_are_those_of_float64(name, values, options):
    frame = frame_of(values, **options)
    floats = frame.assign(s=frame.s.astype("float64"), other=frame.other.astype("float64"))
    with np.errstate(all="ignore"):
        found, expected = FLOATS[name](frame), FLOATS[name](floats)
    assert type(found) is type(expected)
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=1e-12)


def exact(values: list[Decimal | None] = LONG) -> pd.Series[Any]:
    return frame_of(values, decimals="exact").s


def plain(series: pd.Series[Any]) -> list[Any]:
    return [None if one is pd.NA else one for one in series]


KEPT = {
    "copy": lambda d: d.copy(),
    "filter": lambda d: d[d.f > 0],
    "concat": lambda d: pd.concat([d, d]).iloc[: len(d)],
    "pickle": lambda d: pickle.loads(pickle.dumps(d)),
    "sort": lambda d: d.sort_values("s").sort_index(),
    "merge": lambda d: d.merge(pd.DataFrame({"f": d.f}), on="f"),
    "reindex": lambda d: d.reindex(range(9)).iloc[: len(d)],
    "after floats": lambda d: pd.concat([d.assign(s=0.1), d]).iloc[len(d) :],
    "before floats": lambda d: pd.concat([d, d.assign(s=0.1)]).iloc[: len(d)],
    "with integers": lambda d: pd.concat([d, d.assign(s=2**63)]).iloc[: len(d)],
    "with another scale": lambda d: pd.concat(
        [d, d.assign(s=DecimalArray(pa.array([Decimal(10**30)] * len(d), pa.decimal128(38, 0))))]
    ).iloc[: len(d)],
    "object": lambda d: d.astype({"s": object}),
    "melt": lambda d: d.melt("f", ["s"]).rename(columns={"value": "s"}),
    "index": lambda d: d.set_index("s").reset_index(),
    "first": lambda d: d.groupby("f", as_index=False).first(),
    "last": lambda d: d.groupby("f", as_index=False).last(),
    "group max": lambda d: d.groupby("f", as_index=False).max(),
    "group min": lambda d: d.groupby("f", as_index=False).min(),
    "shift": lambda d: (
        d.shift().shift(-1).assign(s=lambda e: e.s.fillna(LONG[-1]).where(~d.s.isna()))
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_every_digit_is_kept_where_values_are_moved(name):
    frame = frame_of(LONG)
    assert plain(KEPT[name](frame).s) == LONG


def test_sums_products_and_comparisons_of_exact_numbers_are_exact():
    series = exact()
    big = LONG[0]
    assert plain(series + Decimal("0.5"))[0] == Decimal("12345678901234567890.623456789012345678")
    assert plain(1 - series)[0] == Decimal("-12345678901234567889.123456789012345678")
    assert plain(series * 3)[0] == Decimal("37037036703703703670.370370367037037034")
    assert plain(series - series)[:3] == [0, 0, None]
    assert plain(series + pd.Series([1] * 6))[5] == Decimal("20.99")
    assert plain(abs(series))[3] == -LONG[3]
    assert (series == big).tolist() == [True, False, False, False, True, False]
    assert (series != big).tolist() == [False, True, True, True, False, True]
    assert (series > big).tolist() == [False, True, False, False, False, False]
    assert (series <= Decimal("1e60")).tolist() == [True, True, False, True, True, True]
    assert series.isin([big, None]).tolist() == [True, False, True, False, True, False]
    assert plain(series * series)[5] == pytest.approx(19.99**2)  # float64: over 76 digits
    assert plain(series.round(1))[0] == Decimal("12345678901234567890.1")


def test_changes_keep_the_dtype_and_refuse_what_does_not_fit():
    frame = frame_of(LONG)
    frame.loc[0, "s"] = 0.1
    frame.loc[frame.f > 4, "s"] = [Decimal("2.5"), 3]
    assert isinstance(frame.s.dtype, DecimalDtype)
    assert plain(frame.s) == [Decimal("0.1"), LONG[1], None, LONG[3], Decimal("2.5"), Decimal(3)]
    assert plain(frame.s.fillna(0))[2] == 0
    assert plain(frame.s.fillna(frame.f))[2] == Decimal("2.5")
    with pytest.raises((ValueError, TypeError)):
        frame.loc[0, "s"] = Decimal("1e-19")
    with pytest.raises((ValueError, TypeError)):
        frame.loc[0, "s"] = "x"
    with pytest.raises((ValueError, OverflowError)):
        exact().dropna().astype("int64")
    assert exact([Decimal(2**53 + 1)]).astype("Int64").tolist() == [2**53 + 1]
    assert exact().astype("string")[0] == str(LONG[0])


# pandas 2.1 with NumPy 1.24 warns of each NaN in a CSV file
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_files_and_arrow_have_every_value(values, tmp_path: Path):
    frame = frame_of(values)
    frame.to_parquet(tmp_path / "f.parquet")
    back = pd.read_parquet(tmp_path / "f.parquet")
    assert [None if pd.isna(one) else Decimal(str(one)) for one in back.s] == values
    frame.to_csv(tmp_path / "f.csv")
    text = pd.read_csv(tmp_path / "f.csv", dtype={"s": str}).s
    assert [None if pd.isna(one) else Decimal(one) for one in text] == values
    found = [row["s"] for row in json.loads(frame.to_json(orient="records"), parse_float=Decimal)]
    assert [None if one is None else Decimal(one) for one in found] == values
    held = pa.array(frame.s, from_pandas=True).cast(pa.string()).to_pylist()
    assert [None if one is None else Decimal(one) for one in held] == values


@pytest.mark.parametrize("values", [[], [None], [None, None, Decimal(0)]])
def test_few_values_and_nulls_calculate_too(values):
    series = exact(values)
    assert (series / 2).dtype == "float64"
    assert (series + 1).isna().tolist() == [one is None for one in values]
    assert (series > 1).tolist() == [False] * len(values)
    assert series.sum() == 0
    assert series.describe()["count"] == series.count()


def test_the_dtype_is_not_pandas_own_which_it_becomes_when_asked():
    series, own = exact(), pd.ArrowDtype(KIND)
    assert series.dtype != own
    assert own != series.dtype
    assert str(series.dtype) == str(own)
    assert not isinstance(series.astype(own).dtype, DecimalDtype)
    assert plain(series.astype(own).astype(series.dtype)) == LONG
