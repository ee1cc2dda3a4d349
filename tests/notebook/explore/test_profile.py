"""Profiles agree with pandas for the same rows, and their bars partition the rows."""

import datetime
import math
import statistics
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from odps_nb.access.paging.browsing import rows_of
from odps_nb.errors import ArgumentError
from odps_nb.filters.row_filter import RowFilter
from odps_nb.notebook.explore.choosing.conditions import bar_condition
from odps_nb.notebook.explore.messages import profile_message
from odps_nb.notebook.explore.profiles.profile import MAX_VALUES, Profiler, TableProfile
from odps_nb.notebook.explore.values.axis import number_text
from odps_nb.notebook.explore.values.cells import is_number, kind_of
from odps_nb.notebook.explore.view import RowView
from odps_nb.notebook.progress.words import about_percent
from odps_nb.schema import Column, TableSchema
from odps_nb.wire.type_text import format_type, parse_type

SAMPLE, ROWS = 20_000, 100_000
DAY = datetime.date(2024, 1, 1)


@pytest.fixture(scope="module")
def orders(odps):
    """The columns of `orders` and its last rows, some of which are extreme."""
    read = odps.table("orders").read(partitions="ds=2024-01-08")
    table = read.to_arrow(progress=False)
    return rows_of(read).columns, table.slice(table.num_rows - ROWS)


def profiled(columns, table, *, before=None, batch_rows=None):
    """Return the profile of a table that arrives in batches, by default in one."""
    profiler = Profiler(columns, before=before)
    for start in range(0, table.num_rows, batch_rows or max(1, table.num_rows)):
        profiler.add(table.slice(start, batch_rows))
    rows = table.num_rows
    return TableProfile(columns=profiler.result(), rows=rows, total=rows, label="")


def column_of(type_text, name="x"):
    return Column(name=name, type=parse_type(type_text))


# -- statistics -----------------------------------------------------------------------------------


def finite(array):
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    array = array.drop_null()
    return array.filter(pc.is_finite(array)) if pa.types.is_floating(array.type) else array


def check_statistics(column, array, found):
    """Compare a complete profile of a column with pandas."""
    values = finite(array)
    series = pd.Series(values.to_pylist(), dtype=object)
    assert (found.rows, found.nulls) == (len(array), array.null_count)
    said = found.statistics
    if not len(values) or pa.types.is_nested(values.type) or found.distinct is None:
        assert said == {}
        return
    assert found.distinct == series.nunique()
    if is_number(column):
        numbers = pd.Series(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        assert said["zeros"] == int((numbers == 0).sum())
        exact = kind_of(column) in ("DECIMAL", "INTEGER")
        if exact:
            mean = statistics.mean(map(Decimal, series))
            assert said["mean"] == (float(mean) if kind_of(column) == "INTEGER" else mean)
        else:
            assert said["mean"] == pytest.approx(numbers.mean(), rel=1e-12)
        if len(numbers) > 1:
            assert said["std"] == pytest.approx(numbers.std(), rel=1e-6)
        else:
            assert said["std"] is None  # pandas returns NaN
        for name, share in (("25 %", 0.25), ("median", 0.5), ("75 %", 0.75)):
            assert float(said[name]) == pytest.approx(numbers.quantile(share), rel=1e-12)
        if exact:
            assert said["median"] == statistics.median(map(Decimal, series))
        assert (found.min, found.max) == (number_text(series.min()), number_text(series.max()))
    elif kind_of(column) in ("DATE", "INSTANT", "CLOCK"):
        assert [*said] == ["median"]
        times = values.cast(pa.timestamp("us")) if kind_of(column) == "DATE" else values
        per_micro = {"ms": Decimal("0.001"), "us": Decimal(1), "ns": Decimal(1000)}
        ticks = statistics.median(map(Decimal, times.cast(pa.int64()).to_pylist()))
        middle = math.floor(ticks / per_micro[times.type.unit])
        median = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=middle)
        shown = said["median"]
        if kind_of(column) == "DATE":
            assert shown == median.date()
        else:
            assert shown.replace(tzinfo=None) == median
    elif kind_of(column) in ("TEXT", "CHAR"):
        texts = series.astype("str")
        lengths = texts.str.len()
        assert said["blank"] == int((texts.str.strip() == "").sum())
        assert (said["min length"], said["max length"]) == (lengths.min(), lengths.max())
        assert said["mean length"] == pytest.approx(lengths.mean())
        assert (found.min, found.max) == (texts.min()[:60], texts.max()[:60])
    else:
        assert said == {}


def test_statistics_agree_with_pandas_for_every_type_of_orders(orders):
    columns, table = orders
    table = table.slice(table.num_rows - SAMPLE)
    kinds = set()
    for n, (column, found) in enumerate(
        zip(columns, profiled(columns, table).columns, strict=True)
    ):
        check_statistics(column, table.column(n), found)
        kinds.add(kind_of(column))
    assert kinds >= {"INTEGER", "DOUBLE", "DECIMAL", "TEXT", "DATE", "INSTANT", "CLOCK", "BOOLEAN"}


HUGE = [Decimal(10) ** 37 - n for n in range(1, 40)]
EDGES = {
    "all null": ("bigint", pa.array([None, None], pa.int64())),
    "no rows": ("double", pa.array([], pa.float64())),
    "constant": ("double", pa.array([2.5] * 7)),
    "one row": ("bigint", pa.array([5])),
    "nan and infinite": ("double", pa.array([math.nan, math.inf, -math.inf, *range(15), None])),
    "nan alone": ("double", pa.array([math.nan, None])),
    "few and nan": ("float", pa.array([1.5, 0.1, -0.0, math.nan, math.inf], pa.float32())),
    "many floats": ("float", pa.array([n / 7 for n in range(50)] + [math.inf], pa.float32())),
    "wide floats": ("double", pa.array([-1.7e308, *range(20), 1.7e308])),
    "huge decimals": ("decimal(38,0)", pa.array([*HUGE, None, -HUGE[0]], pa.decimal128(38, 0))),
    "ends of decimal": (
        "decimal(38,18)",
        pa.array(
            [Decimal(f"{s}{10**20 - 1}.{10**18 - 1}") for s in ("-", "")]
            + [Decimal(n) for n in range(20)],
            pa.decimal128(38, 18),
        ),
    ),
    "76 digits": (
        "decimal(76,18)",
        pa.array([one.scaleb(20) for one in HUGE], pa.decimal256(76, 18)),
    ),
    "whole decimals": ("decimal(5,0)", pa.array(map(Decimal, range(13)), pa.decimal128(5, 0))),
    "ends of bigint": ("bigint", pa.array([-(2**63), 2**63 - 1, *range(20)])),
    "top of bigint": ("bigint", pa.array([2**63 - 1 - n for n in range(20)] * 2)),
    "neighbours": ("bigint", pa.array([n % 13 for n in range(100)])),
    "far integers": ("bigint", pa.array([*range(1, 999), 10**16, -(10**9)])),
    "decades": ("double", pa.array([10 ** (n / 100) for n in range(-500, 900)])),
    "decades and zeros": ("bigint", pa.array([0, -5, *(int(1.05**n) for n in range(700))])),
    "decimal decades": (
        "decimal(20,6)",
        pa.array([Decimal(2 * 10**n).scaleb(-6) for n in range(15)] * 3, pa.decimal128(20, 6)),
    ),
    "small floats": ("double", pa.array([n * 1e-9 for n in range(30)])),
    "empty texts": ("string", pa.array(["", " ", "\t\u3000", "a", *map(str, range(20)), "", None])),
    "few texts": ("string", pa.array(["yes", "no", "yes"])),
    "booleans": ("boolean", pa.array([True, False, None, True])),
    "chars": ("char(9)", pa.array(["ab", "ab", "", None])),
    "days": ("date", pa.array([DAY + datetime.timedelta(days=n % 15) for n in range(40)])),
    "far days": (
        "date",
        pa.array([datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]
        + [DAY + datetime.timedelta(days=n) for n in range(400)]),
    ),
    "nanoseconds": (
        "timestamp",
        pa.array([17 * 10**17 + n for n in (*range(30), 10**13)], pa.timestamp("ns", "UTC")),
    ),
    "milliseconds before 1970": (
        "datetime",
        pa.array([-1001, -2, -1, 0], pa.timestamp("ms", "UTC")),
    ),
    "local times": (
        "timestamp_ntz",
        pa.array([10**15 + 10**9 * n for n in range(30)], pa.timestamp("us")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_statistics_agree_with_pandas_for_unusual_columns(name):
    type_text, array = EDGES[name]
    column = column_of(type_text)
    (found,) = profiled([column], pa.table({"x": array})).columns
    if name != "wide floats":  # the computation of pandas overflows
        check_statistics(column, array, found)


# -- bars -----------------------------------------------------------------------------------------


def check_bars(columns, table, profile, of):
    """Check that a column's bars partition its rows, and that each condition selects its rows."""
    column, found = columns[of], profile.columns[of]
    batch = table.select([of]).combine_chunks().to_batches()
    schema = TableSchema(columns=(column,))
    clicked = 0
    for bar in found.bars:
        try:
            where = bar_condition(column, bar, "UTC").where
        except ArgumentError:
            continue  # SQL has no literal for the value
        rows = sum(RowFilter.parse(where, schema).apply(one).num_rows for one in batch)
        assert rows == bar.count, (where, bar)
        clicked += 1
    if found.bars:
        assert sum(bar.count for bar in found.bars) + found.nulls == found.rows
    return clicked


@pytest.mark.nightly
def test_each_row_of_orders_is_in_exactly_one_bar_of_a_column(orders):
    columns, table = orders
    sample = profiled(columns, table.slice(0, SAMPLE))
    every = profiled(columns, table, before=sample, batch_rows=30_000)
    for rows, profile in ((table.slice(0, SAMPLE), sample), (table, every)):
        clicked = sum(check_bars(columns, rows, profile, n) for n in range(len(columns)))
        assert clicked > 100
    beyond = [bar.label for one in every.columns for bar in one.bars if bar.is_undrawn]
    assert any(label.startswith("above ") for label in beyond)


@pytest.mark.gate(8)
@pytest.mark.parametrize("name", EDGES)
def test_each_row_of_an_unusual_column_is_in_exactly_one_bar(name):
    type_text, array = EDGES[name]
    columns, table = [column_of(type_text)], pa.table({"x": array})
    profile = profiled(columns, table)
    check_bars(columns, table, profile, 0)
    again = profiled(columns, table, before=profile, batch_rows=3)
    check_bars(columns, table, again, 0)
    assert [(bar.label, bar.count) for bar in again.columns[0].bars if bar.count] == [
        (bar.label, bar.count) for bar in profile.columns[0].bars if bar.count
    ]


def test_the_conditions_of_bars_select_the_same_rows_in_a_read_and_in_sql(odps, new_name):
    texts = {name: EDGES[name] for name in ("nan and infinite", "few and nan", "many floats")}
    name = new_name("bars")
    longest = max(len(array) for _, array in texts.values())
    columns = [column_of(kind, f"c{n}") for n, (kind, _) in enumerate(texts.values())]
    table = odps.create_table(
        name, ", ".join(f"{one.name} {format_type(one.type)}" for one in columns)
    )
    padded = [
        pa.concat_arrays([array, pa.nulls(longest - len(array), array.type)])
        for _, array in texts.values()
    ]
    table.write(pa.table(padded, [one.name for one in columns]))
    view = RowView(rows_of(table.read()))
    wanted, counts = [], []
    for n, found in enumerate(view.describe().columns):
        assert sum(bar.count for bar in found.bars) + found.nulls == found.rows == longest
        for bar in found.bars:
            wanted.append(bar_condition(view.columns[n], bar, view.timezone).where)
            counts.append(bar.count)
    sums = [f"count(case when {one} then 1 end) n{n}" for n, one in enumerate(wanted)]
    found = odps.sql(f"select {', '.join(sums)} from {name}").to_arrow(progress=False)
    assert [column[0].as_py() for column in found.columns] == counts
    assert any(" and " in one for one in wanted)
    view.close()


def test_a_histogram_omits_outliers_and_counts_them():
    array = pa.array([*range(1, 999), 10**16, -(10**9), -(10**9)])
    (found,) = profiled([column_of("bigint")], pa.table({"x": array})).columns
    drawn = [bar for bar in found.bars if not bar.is_undrawn]
    assert len(drawn) == 20
    assert max(bar.count for bar in drawn) < 100
    assert [(bar.label, bar.count) for bar in found.bars[20:]] == [
        ("below 0", 2),
        ("above 1,000", 1),
    ]
    assert found.ends == ("0", "1,000")
    assert (found.min, found.max) == ("-1,000,000,000", "10,000,000,000,000,000")


@pytest.mark.parametrize("rows", [[2000, 2100], [-500, -400], [-500, 2000]])
def test_the_axis_ends_at_the_extremes_if_all_rows_are_outliers(rows):
    array = pa.array([*range(1, 999), *[-(10**9)] * 5, *[10**9] * 5])
    columns = [column_of("bigint")]
    before = profiled(columns, pa.table({"x": array}))
    (found,) = profiled(columns, pa.table({"x": pa.array(rows)}), before=before).columns
    assert not any(bar.count for bar in found.bars if not bar.is_undrawn)
    assert found.ends == (found.min, found.max) == (f"{rows[0]:,}", f"{rows[1]:,}")


def test_a_few_frequent_numbers_have_their_own_bars_and_the_others_share_one():
    array = pa.array([n % 10 for n in range(1000)] + [127, -128])
    columns, table = [column_of("tinyint")], pa.table({"x": array.cast(pa.int8())})
    sample = profiled(columns, table.slice(0, 100))
    (found,) = profiled(columns, table, before=sample, batch_rows=100).columns
    assert [bar.label for bar in found.bars] == [*map(str, range(10)), "other values"]
    assert (found.bars[-1].count, found.ends, found.min) == (2, ("0", "9"), "-128")


def test_an_axis_is_logarithmic_only_for_positive_values_over_several_decades():
    def axis(values):
        (found,) = profiled([column_of("double")], pa.table({"x": pa.array(values)})).columns
        return found.is_log

    assert axis([10 ** (n / 100) for n in range(700)])
    assert not axis([float(n) for n in range(64_000)])
    assert not axis([-(10 ** (n / 100)) for n in range(700)])
    assert not axis([float(n % 15) for n in range(100)])


# -- all rows -------------------------------------------------------------------------------------


def test_a_profile_of_all_rows_has_more_details_than_that_of_a_sample(orders):
    columns, table = orders
    sample = profiled(columns, table.slice(0, SAMPLE))
    every = profiled(columns, table, before=sample, batch_rows=10_000)
    estimated = 0
    for n, column in enumerate(columns):
        one, found, values = sample.columns[n], every.columns[n], finite(table.column(n))
        assert (found.rows, found.nulls) == (table.num_rows, table.column(n).null_count)
        if one.distinct is None:
            continue
        exact = pc.count_distinct(values).as_py()
        if found.is_estimated:
            estimated += 1
            assert exact > MAX_VALUES
            assert found.distinct == pytest.approx(exact, rel=0.04)  # within five standard errors
            assert f"about {found.distinct:,} distinct" in found.words
        else:
            assert found.distinct == exact
        assert {name for name, _ in found.facts} >= {name for name, _ in one.facts}
        assert [bar.label for bar in found.bars if not bar.is_undrawn] == [
            bar.label for bar in one.bars if not bar.is_undrawn
        ] or not found.is_range
        if is_number(column):
            numbers = np.sort(values.cast(pa.float64(), safe=False).to_numpy())
            rounding = 1e-15 * np.abs(numbers).max()
            mean = float(found.statistics["mean"])
            assert mean == pytest.approx(numbers.mean(), rel=1e-9, abs=rounding)
            assert found.statistics["std"] == pytest.approx(numbers.std(ddof=1), rel=1e-6)
            for name, share in (("25 %", 0.25), ("median", 0.5), ("75 %", 0.75)):
                value = float(found.statistics[name])
                ranks = np.searchsorted(numbers, [value * (1 - 1e-12), value * (1 + 1e-12)])
                low, high = min(ranks) / len(numbers), max(ranks) / len(numbers)
                assert low - 0.002 <= share <= high + 0.002
                assert dict(found.facts)[name].startswith("about ")
    assert estimated >= 2


def test_frequent_values_are_counted_exactly_among_too_many_others():
    many = [f"text {n}" for n in range(MAX_VALUES + 6_000)]
    mixed = pa.array([one for n in range(0, len(many), 7) for one in (*many[n : n + 7], "often")])
    columns, table = [column_of("string")], pa.table({"x": mixed})
    sample = profiled(columns, table.slice(0, 7_000))
    (found,) = profiled(columns, table, before=sample, batch_rows=5_000).columns
    assert found.is_estimated
    assert (found.bars[0].label, found.bars[0].count) == ("often", 10_000)
    assert sum(bar.count for bar in found.bars) == len(mixed)


# -- readable numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1_234_567, "1,234,567"),
        (Decimal("-0.00"), "0"),
        (Decimal("12345.600"), "12,345.6"),
        (Decimal(f"{10**37}.5"), f"{10**37:,}.5"),
        (0.30000000000000004, "0.3"),
        (1234.5678, "1,234.57"),
        (1e6, "1,000,000"),
        (2_130_519_168.801, "2,130,519,168.80"),
        (1e16, "1e16"),
        (4.9e-5, "4.9e-5"),
        (-2.5e300, "-2.5e300"),
        (math.inf, "inf"),
    ],
)
def test_numbers_have_separators_and_few_digits(value, text):
    assert number_text(value) == text


def test_the_share_of_nulls_is_never_rounded_to_0_or_100_percent():
    def summary_of(nulls, rows):
        array = pa.array([None] * nulls + [1] * (rows - nulls), pa.int64())
        return profiled([column_of("bigint")], pa.table({"x": array})).columns[0].words

    assert summary_of(0, 10) == "1 distinct"
    assert summary_of(1, 64_000) == "1 distinct · < 0.1 % null"
    assert summary_of(63_999, 64_000) == "1 distinct · > 99.9 % null"
    assert summary_of(10, 10) == "all null"


@pytest.mark.parametrize("sample", [8_000, 64_000])
def test_a_sample_of_sorted_rows_shows_no_false_steps(odps, new_name, sample):
    name, count, months = new_name("stored"), 400_000, 12
    rows = {
        "month": [n * months // count for n in range(count)],
        "few": [n % 3 or None for n in range(count)],
    }
    odps.create_table(name, pa.table(rows))
    view = RowView(rows_of(odps.table(name).read()), seed=1, sample=sample)
    profile = view.describe()
    month, few = profile.columns
    ranges = sample // 125 if sample < 32_000 else 256
    for bar in month.bars:
        assert abs(bar.count / month.rows - 1 / months) <= 2 / ranges
    assert (month.is_sample, few.words) == (True, "at least 2 distinct · about 33 % null")
    assert dict(few.facts)["nulls"] == "about 33 %"
    assert (dict(month.facts)["min"], dict(month.facts)["median"]) == (
        "0 in the sample",
        "about 5.5",
    )
    column = profile_message(view)["columns"][0]
    assert column["sample"]
    whole = view.describe_all().columns[1]
    assert whole.words.startswith("2 distinct · 33 % null")
    assert dict(whole.facts)["nulls"] == "133,334 (33 %)"


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "none seen"),
        (0.004, "under 1 %"),
        (0.084, "about 8 %"),
        (0.996, "over 99 %"),
        (1, "all"),
    ],
)
def test_a_share_of_a_sample_is_in_whole_percent(share, text):
    assert about_percent(share) == text
