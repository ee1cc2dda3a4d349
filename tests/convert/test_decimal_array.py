"""DECIMAL in a DataFrame calculates as float64 does, and moving values keeps every digit."""

from __future__ import annotations

import json
import pickle
import warnings
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
from odps_nb.errors import ArgumentError, OdpsNbWarning

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
    "cummax": lambda d: d.cummax(),
    "frame ranks": lambda d: d.rank(),
    "frame quantile": lambda d: d[["s"]].quantile(0.5),
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


@pytest.mark.parametrize(
    ("values", "options"),
    [(SHORT, {"decimals": "exact"}), (LONG, {})],  # without options, SHORT is float64 itself
    ids=COLUMNS,
)
@pytest.mark.parametrize("name", FLOATS)
def test_calculations_are_those_of_float64(name, values, options):
    frame = frame_of(values, **options)
    floats = frame.assign(s=frame.s.astype("float64"), other=frame.other.astype("float64"))
    with np.errstate(all="ignore"):
        found, expected = FLOATS[name](frame), FLOATS[name](floats)
    assert type(found) is type(expected)
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=1e-12)


@pytest.mark.parametrize(
    "name", ["cumsum", "cummin", "cummax", "cumprod", "rank", "quantile", "sum"]
)
def test_calculated_columns_have_a_dtype_that_every_writer_takes(name):
    frame = frame_of(LONG)[["s"]]
    series = [getattr(frame, name)(), getattr(frame.s, name)()]
    if name in ("quantile", "sum"):
        series = [getattr(frame, name)(), frame.agg([name]).s]
    for found in series:
        for dtype in [found.dtypes] if isinstance(found, pd.Series) else found.dtypes:
            assert isinstance(dtype, np.dtype)
            assert dtype == np.float64


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


CENTS = [Decimal("0.10"), None, Decimal("12345678901234567.89")]


def cents() -> pd.DataFrame:
    table = pa.table({"s": pa.array(CENTS, pa.decimal128(38, 2)), "a": [1.0, 2.0, 3.0]})
    return to_pandas(table, options=FrameOptions(decimals="exact"))


def changed(frame: pd.DataFrame, key: Any, value: Any) -> pd.DataFrame:
    frame.loc[key] = value
    return frame


ROUNDED = {
    "fillna": (lambda d: d.fillna(1 / 3), {1: "0.33"}),
    "fillna by column": (lambda d: d.fillna({"s": np.float32(0.125)}), {1: "0.13"}),
    "fillna by row": (lambda d: d.assign(s=d.s.fillna(d.a / 3)), {1: "0.67"}),
    "combine_first": (lambda d: d.assign(s=d.s.combine_first(d.a / 3)), {1: "0.67"}),
    "concat": (lambda d: pd.concat([d, d.assign(s=-0.125)], ignore_index=True), {3: "-0.13"}),
    "loc": (lambda d: changed(d, (d.a < 3, "s"), d.a / 3), {0: "0.33", 1: "0.67"}),
    "one cell": (lambda d: changed(d, (0, "s"), 0.125), {0: "0.13"}),
    "objects": (lambda d: changed(d, ([0, 1], "s"), [1 / 3, 5]), {0: "0.33", 1: "5"}),
    "row": (lambda d: changed(d, 3, [1 / 3, 4.0]), {3: "0.33"}),
    "clip": (lambda d: d.assign(s=d.s.clip(upper=1 / 3)), {2: "0.33"}),
    "replace": (lambda d: d.replace({"s": {Decimal("0.10"): 2 / 3}}), {0: "0.67"}),
    "mask": (lambda d: d.assign(s=d.s.mask(d.a == 3, 1 / 3)), {2: "0.33"}),
    "where": (lambda d: d.assign(s=d.s.where(d.a < 3, d.a / 7)), {2: "0.43"}),
    "reindex": (lambda d: d.reindex(range(4), fill_value=1 / 3), {3: "0.33"}),
    "nullable": (lambda d: d.assign(s=(d.a / 3).astype("Float64").astype(d.s.dtype)), {0: "0.33"}),
}


@pytest.mark.parametrize("name", ROUNDED)
def test_floats_are_rounded_to_the_places_of_an_exact_column_with_a_warning(name):
    change, expected = ROUNDED[name]
    with pytest.warns(OdpsNbWarning, match=r"rounded to 2 decimal places.*astype") as caught:
        found = change(cents())
    assert isinstance(found.s.dtype, DecimalDtype)
    assert {row: found.s[row] for row in expected} == {
        row: Decimal(text) for row, text in expected.items()
    }
    assert {Path(one.filename).name for one in caught} == {Path(__file__).name}


@pytest.mark.parametrize(
    "value",
    [np.inf, -np.inf, 1e37, 10**40, Decimal("0.001"), Decimal("Infinity"), np.float32("inf")],
)
@pytest.mark.parametrize(
    "change",
    [
        lambda d, value: d.fillna({"s": value}),
        lambda d, value: changed(d, (0, "s"), value),
        lambda d, value: changed(d, ([0, 1], "s"), [value, 5]),
        lambda d, value: d.s.mask(d.a > 1, value),
    ],
)
def test_a_value_without_a_place_in_an_exact_column_is_a_typed_error(change, value):
    frame = cents()
    with pytest.raises(ArgumentError, match=r"36 digits before and 2 after") as caught:
        change(frame, value)
    assert "astype" in str(caught.value.hint)
    assert plain(frame.s) == CENTS


def test_floats_and_numbers_that_fit_an_exact_column_come_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = pd.concat([cents(), pd.DataFrame({"s": [0.25, np.nan]})], ignore_index=True)
        assert plain(frame.s.fillna(0.5)) == [
            *(Decimal("0.5") if one is None else one for one in CENTS),
            Decimal("0.25"),
            Decimal("0.5"),
        ]


def test_functions_of_groups_return_the_floats_they_calculated():
    frame = cents()
    found = frame.groupby("a").s.agg(lambda part: float(part.sum()) / 3)
    assert found.dtype == "float64"
    assert found[1.0] == 0.1 / 3


def indexed(texts: list[str]) -> pd.Series[Any]:
    keys = DecimalArray(pa.array([Decimal(one) for one in texts], KIND))
    return pd.Series(range(len(texts)), index=pd.Index(keys, name="w"), name="v")


NEAR = ["0.123456789012345678", "0.987654321098765432"]
KEYS = {
    "union of floats": (lambda s: s.index.union(pd.Index([0.5])), [*NEAR, "0.5"]),
    "union to floats": (lambda s: pd.Index([0.5]).union(s.index), [*NEAR, "0.5"]),
    "union of integers": (lambda s: s.index.union(pd.Index([1])), [*NEAR, "1"]),
    "union of exact": (lambda s: s.index.union(indexed(["0.2"]).index), [*NEAR, "0.2"]),
    "intersection": (lambda s: s.index.intersection(s.index[:1]), NEAR[:1]),
    "symmetric": (
        lambda s: s.index.symmetric_difference(indexed(["0.123456789012345679"]).index),
        [*NEAR, "0.123456789012345679"],
    ),
    "add": (lambda s: s.add(pd.Series([1], index=[0.5]), fill_value=0).index, [*NEAR, "0.5"]),
    "outer join": (
        lambda s: s.to_frame().join(indexed(["0.5"]).rename("q"), how="outer").index,
        [*NEAR, "0.5"],
    ),
    "neighbours": (
        lambda s: s.to_frame().join(indexed(["0.987654321098765431"]).rename("q"), how="inner"),
        [],
    ),
    "inner join": (lambda s: s.to_frame().join(s.rename("q"), how="inner").index, NEAR),
    "repeated": (lambda s: pd.concat([s, s]).sort_index().to_frame().join(s.rename("q")), NEAR * 2),
    "outer merge": (
        lambda s: s.reset_index().merge(pd.DataFrame({"w": [0.5]}), on="w", how="outer").w,
        [*NEAR, "0.5"],
    ),
    "columns": (lambda s: pd.concat([s, indexed(["0.5"])], axis=1).index, [*NEAR, "0.5"]),
    "pickle": (lambda s: pickle.loads(pickle.dumps(s)).index, NEAR),
}


@pytest.mark.parametrize("name", KEYS)
def test_keys_of_an_index_keep_every_digit(name):
    work, expected = KEYS[name]
    found = work(indexed(NEAR))
    keys = list(found.index if isinstance(found, pd.DataFrame) else found)
    assert sorted(keys) == sorted(Decimal(one) for one in expected)


def test_a_float_key_that_is_rounded_to_join_exact_keys_is_reported():
    left = cents().dropna().set_index("s")
    with pytest.warns(OdpsNbWarning, match="rounded to 2 decimal places"):
        left.join(pd.DataFrame({"q": [1]}, index=[1 / 3]), how="outer")
    with pytest.warns(OdpsNbWarning, match="rounded to 2 decimal places"):
        left.reset_index().merge(pd.DataFrame({"s": [1 / 3]}), on="s", how="outer")


def test_an_index_finds_its_keys_by_every_digit():
    series = indexed(NEAR)
    assert series.loc[Decimal(NEAR[1])] == 1
    assert series.loc[0.5:].tolist() == [1]
    wanted = indexed([NEAR[1], "0.123456789012345679"]).index
    assert series.index.get_indexer(wanted).tolist() == [1, -1]


def test_isin_takes_floats_numbers_texts_and_nulls_in_one_list():
    series = exact([*LONG, Decimal("0.1"), Decimal(7)])
    assert series.isin([0.1, 7]).tolist() == [False] * 6 + [True, True]
    assert series.isin([LONG[0], 19.99, "x"]).tolist() == [
        one in (LONG[0], Decimal("19.99")) for one in plain(series)
    ]
    assert series.isin([float(LONG[0])]).tolist() == [True, False, False, False, True] + [False] * 3
    assert series.isin(series[:2]).tolist() == [one in LONG[:2] for one in plain(series)]
    for null in (None, np.nan, pd.NA):
        assert series.isin([null]).tolist() == series.isna().tolist()
    assert not series.isin([]).any()
    assert not exact([]).isin([1]).any()


@pytest.mark.parametrize("value", ["0", "0.000000000000000001", "1.5"])
def test_texts_of_small_values_have_no_exponent(value):
    frame = pd.DataFrame({"s": exact([Decimal(value), None])})
    digits = f"{Decimal(value):.18f}"
    assert frame.s.astype("string")[0] == digits
    assert frame.s.astype(pd.ArrowDtype(pa.string()))[0] == digits
    assert json.loads(frame.to_json()) == {"s": {"0": digits, "1": None}}


def test_zero_in_a_csv_file_is_written_with_digits_alone():
    assert exact([Decimal(0)]).to_csv(index=False, lineterminator="\n") == "s\n0\n"
    money = to_pandas(
        pa.table({"s": pa.array([Decimal(0)], pa.decimal128(38, 2))}),
        options=FrameOptions(decimals="exact"),
    )
    assert money.to_csv(index=False, lineterminator="\n") == "s\n0.00\n"


# pandas 2.1 with NumPy 1.24 warns about each NaN in a CSV file
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
