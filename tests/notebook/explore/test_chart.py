"""Charts: the drawn values equal those of a full read of the same rows."""

import datetime
import re
from decimal import Decimal
from xml.etree import ElementTree

import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.access import scan as scans
from odps_nb.access.paging.browsing import rows_of
from odps_nb.errors import (
    ArgumentError,
    CancelledError,
    ConfigError,
    NotFoundError,
    OdpsNbWarning,
)
from odps_nb.notebook.explore import static
from odps_nb.notebook.explore.charts import figures as chart_figures
from odps_nb.notebook.explore.charts import read_figures
from odps_nb.notebook.explore.charts.choice import AGGREGATES, KINDS, choose
from odps_nb.notebook.explore.charts.drawing import _whiskers
from odps_nb.notebook.explore.charts.figures import FigureQuery
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.choosing.conditions import make_condition
from odps_nb.notebook.explore.view import RowView
from tests.support.messages import Browser

COUNT = 400
WORDS = ["red", "green", "blue", 'a "quoted" <b>', "", None]
TYPES = (
    "n bigint, price decimal(10,2), weight double, word string, is_new boolean, "
    "day date, at datetime, sent timestamp, list array<bigint>, raw binary, ds string"
)


def frame():
    """Rows with nulls, NaN, an infinity, and one outlying price."""
    begin = datetime.datetime(2024, 1, 30, tzinfo=datetime.UTC)
    numbers = range(COUNT)
    weights = [n / 7 for n in numbers]
    weights[3:5] = [float("nan"), float("inf")]
    return pa.table(
        {
            "n": [n % 9 if n % 50 else None for n in numbers],
            "price": [Decimal(n % 100) / 4 if n != 7 else Decimal("9999999.25") for n in numbers],
            "weight": weights,
            "word": [WORDS[n % 6] if n % 2 else WORDS[0] for n in numbers],
            "is_new": [n % 3 == 0 for n in numbers],
            "day": [begin.date() + datetime.timedelta(days=n % 40) for n in numbers],
            "at": [begin + datetime.timedelta(hours=n) for n in numbers],
            "sent": [begin + datetime.timedelta(hours=7 * n) for n in numbers],
            "list": [[n] for n in numbers],
            "raw": [b"x"] * COUNT,
            "ds": [f"d{n % 4}" for n in numbers],
        }
    )


@pytest.fixture(scope="module")
def table(odps):
    made = odps.create_table("charted", TYPES)
    made.write(frame())
    yield made
    odps.drop_table("charted")


def shown(chart):
    """Return the values by group, or by group and colour."""
    found = chart.to_pandas()
    return {
        tuple(row[:-1]) if len(row) > 2 else row[0]: row[-1]
        for row in found.itertuples(index=False)
    }


def expected(by, y=None, agg="size"):
    data = frame().to_pandas()
    grouped = data.groupby(by, dropna=False)
    return grouped.size() if y is None else grouped[y].agg(agg).astype(float)


def test_rows_are_counted_for_each_value_and_for_nulls(table):
    found = shown(table.chart("word"))
    counts = expected("word").to_dict()
    names = {"": "(empty)"}
    wanted = {names.get(k, "null" if pd.isna(k) else k): v for k, v in counts.items()}
    assert found == wanted
    assert next(iter(found)) == "red"  # largest counts first
    assert list(found)[-1] == "null"


@pytest.mark.parametrize(
    ("words", "is_sorted"),
    [
        (["2024-01-02", "2024-01-01", "2024-02-01"], True),
        (["20240102", "20240101", "20240201"], True),
        (["2024-02", "2024-01", "2024-03"], True),
        (["2024-01-02 10:00", "2024-01-01 11:00", "2024-01-03 00:00"], True),
        (["paid", "new", "shipped"], False),
        (["2024-01-02", "new", "2024-01-01"], False),
    ],
)
def test_bars_of_dates_as_text_are_in_chronological_order(odps, new_name, words, is_sorted):
    table = odps.create_table(new_name("dates"), "word string")
    table.write(pa.table({"word": [words[0]] * 3 + [words[1]] * 2 + [words[2]]}))
    for source in (table, odps.sql(f"select word from {table.name}")):
        wanted = sorted(words) if is_sorted else words
        assert list(source.chart("word")._figures.groups) == wanted


def test_hours_of_a_day_are_labelled_by_the_calendar(odps, new_name):
    table = odps.create_table(new_name("hours"), "at datetime")
    begin = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)
    table.write(pa.table({"at": [begin + datetime.timedelta(hours=n) for n in range(24)]}))
    root = ElementTree.fromstring(table.chart("at", kind="line").to_svg())
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    times = [one for one in texts if one.startswith("2024-01-02")]
    assert len(times) > 3
    assert all(re.fullmatch(r"2024-01-02 \d\d:00", one) for one in times), times


def test_values_that_are_not_among_the_most_frequent_share_one_bar(table):
    found = shown(table.chart("word", top=2))
    counts = expected("word").sort_values(ascending=False)
    kept = [one for one in counts.index if not pd.isna(one)][:1]
    assert found["red"] == counts["red"]
    assert kept == ["red"]
    assert list(found)[-2:] == ["others", "null"]
    assert sum(found.values()) == COUNT


@pytest.mark.parametrize(("groups", "bars"), [(20, 20), (21, 21), (22, 21)])
@pytest.mark.parametrize("options", [{}, {"agg": "median", "y": "v"}, {"color": "c"}])
def test_the_bar_of_others_has_at_least_two_values(odps, groups, bars, options):
    one = f"select cast(id % {groups} as string) w, cast(id % 3 as string) c, id v"
    one += " from orders where ds = '2024-01-01'"
    found = odps.sql(f"select * from ({one}) t").chart("w", **options).to_pandas()["w"]
    assert found.nunique() == bars
    assert ("others" in set(found)) is (bars < groups)


@pytest.mark.parametrize("agg", AGGREGATES)
def test_aggregates_equal_those_of_pandas(table, agg):
    usual = {"distinct": "nunique"}.get(agg, agg)
    wanted = expected("is_new", "weight" if agg == "count" else "price", usual)
    y = "weight" if agg == "count" else "price"
    found = shown(table.chart("is_new", y, agg=agg))
    if agg == "count":  # NaN is a value for the service, but not for pandas
        wanted = expected("is_new").astype(float)
    # the median of decimals has their scale
    assert found == pytest.approx({"false": wanted[False], "true": wanted[True]}, abs=0.01)


@pytest.mark.parametrize(
    ("step", "frequency"), [("day", "D"), ("week", "W-SUN"), ("month", "M"), ("year", "Y")]
)
@pytest.mark.parametrize("column", ["day", "at", "sent"])
def test_times_are_grouped_by_the_calendar(table, column, step, frequency):
    found = shown(table.chart(column, step=step))
    times = pd.to_datetime(frame().to_pandas()[column]).dt.tz_localize(None)
    wanted = times.dt.to_period(frequency).dt.start_time.value_counts().sort_index()
    width = {"month": 7, "year": 4}.get(step, 10)
    assert found == {str(at)[:width]: count for at, count in wanted.items()}
    assert list(found) == sorted(found)


def test_the_shortest_step_with_few_groups_is_chosen(table):
    assert "'hour'" in table.chart("at", kind="line").sql  # the times span 400 hours
    assert "'day'" in table.chart("at", kind="bar").sql
    assert "'week'" in table.chart("sent", kind="bar").sql


@pytest.mark.parametrize(
    ("step", "days", "gaps"),
    [
        ("day", [0, 1, 4], ["2024-02-01", "2024-02-02"]),
        ("week", [0, 21], ["2024-02-05", "2024-02-12"]),
        ("month", [0, 92], ["2024-02", "2024-03", "2024-04"]),
        ("year", [0, 366 + 365], ["2025"]),
    ],
)
@pytest.mark.parametrize("type_name", ["date", "datetime"])
def test_time_steps_without_rows_are_gaps(odps, new_name, type_name, step, days, gaps):
    begin = datetime.datetime(2024, 1, 30, 12, tzinfo=datetime.UTC)
    times = [begin + datetime.timedelta(days=n) for n in days]
    values = [one.date() for one in times] if type_name == "date" else times
    table = odps.create_table(new_name("gaps"), f"at {type_name}")
    table.write(pa.table({"at": values}))
    chart = table.chart("at", step=step, kind="line")
    have = chart.to_pandas()["at"].tolist()
    assert len(have) == len(days)
    assert list(chart._figures.groups) == sorted([*have, *gaps])
    assert chart.to_svg().count('fill="none"') == 2  # the line has one gap
    assert chart.note == "all rows"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC", None])
def test_both_hours_of_a_clock_change_are_separate_steps(zone):
    begin = pd.Timestamp("2024-10-27 00:00", tz="UTC")
    times = pd.DatetimeIndex([begin, begin + pd.Timedelta(hours=4)]).tz_convert(zone)
    every = chart_figures._every_step(pa.array(times), "hour")
    assert every.to_pandas().diff().dropna().unique().tolist() == [pd.Timedelta(hours=1)]
    assert len(every) == 5


def test_large_gaps_are_omitted_with_a_note(odps, new_name):
    table = odps.create_table(new_name("far"), "day date")
    days = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), datetime.date(9999, 1, 1)]
    table.write(pa.table({"day": days}))
    chart = table.chart("day", step="day")
    assert len(chart._figures.groups) == 3
    assert chart.note == "all rows; each day without rows is omitted"


def test_time_steps_end_with_the_last_possible_date(odps, new_name):
    table = odps.create_table(new_name("last"), "day date")
    days = [datetime.date(9998, 12, 31), datetime.date(9999, 12, 31)]
    table.write(pa.table({"day": days}))
    assert table.chart("day", step="year")._figures.groups == ("9998", "9999")


@pytest.mark.parametrize("column", ["price", "weight", "n"])
def test_a_histogram_counts_each_row_once(table, column):
    chart = table.chart(column, kind="histogram", bins=10)
    found, labels = shown(chart), list(shown(chart))
    values = frame().to_pandas()[column]
    assert sum(found.values()) == COUNT
    for label in labels:
        ends = re.fullmatch(r"(\S+) – (\S+)", label)
        if ends:
            low, high = float(ends[1]), float(ends[2])
            inside = values.astype(float)
            is_last = label == [one for one in labels if "–" in one][-1]
            high_end = inside <= high if is_last else inside < high
            assert found[label] == ((inside >= low) & high_end).sum(), label


def test_outlying_values_do_not_stretch_the_axis(table):
    found = shown(table.chart("price", bins=10))
    assert found["above"] == 1
    assert "25" in list(found)[-2]


def test_values_that_are_not_numbers_are_counted_separately(table):
    found = shown(table.chart("weight", bins=10))
    assert found["others"] == 2  # NaN and infinity
    assert "above" not in found


def test_colours_divide_the_bar_of_each_group(table):
    chart = table.chart("ds", color="is_new", kind="bar")
    wanted = frame().to_pandas().groupby(["ds", "is_new"]).size()
    found = shown(chart)
    assert found == {(ds, str(new).lower()): count for (ds, new), count in wanted.items()}


def test_whiskers_end_at_the_extremes_or_at_1_5_times_the_interquartile_range():
    assert _whiskers((0, 4, 5, 6, 9)) == (1, 9)
    assert _whiskers((3, 4, 5, 6, 90)) == (3, 9)


def test_a_box_shows_minimum_median_and_maximum(table):
    chart = table.chart("is_new", "n", kind="box")
    assert chart.note == "all rows; whiskers of at most 1.5 interquartile ranges"
    found = chart.to_pandas().set_index("is_new")
    wanted = frame().to_pandas().groupby("is_new")["n"].describe()
    for name, value in [("false", False), ("true", True)]:
        row = found.loc[name]
        assert row["min"] == wanted.loc[value, "min"]
        assert row["max"] == wanted.loc[value, "max"]
        quartiles = row[["q1", "median", "q3"]]
        assert [*quartiles] == [*wanted.loc[value, ["25%", "50%", "75%"]]]
    assert "approx" not in chart.sql  # MaxCompute's PERCENTILE_APPROX returns values between others


def test_a_scatter_plot_shows_rows_of_the_table(table):
    chart = table.chart("n", "price", kind="scatter")
    assert chart.note == "all rows except 1 point far from the others"
    found = chart.to_pandas()
    rows = set(frame().to_pandas()[["n", "price"]].dropna().astype(float).itertuples(index=False))
    drawn = set(found.itertuples(index=False))
    assert {tuple(one) for one in drawn} <= {tuple(one) for one in rows}
    assert len(found) == COUNT - COUNT // 50 - 1


@pytest.mark.parametrize("column", ["day", "at", "sent"])
def test_the_points_of_a_scatter_plot_over_time_have_the_times_of_the_rows(table, column):
    found = table.chart(column, "n", kind="scatter")
    drawn, rows = found.to_pandas(), table.read([column, "n"]).to_pandas().dropna()
    assert set(drawn.itertuples(index=False)) <= set(rows.itertuples(index=False))
    assert "2024-01-3" in found._static_page()["text/plain"]


def test_long_names_of_groups_are_shortened_in_the_text_of_a_chart(odps):
    text = odps.sql("select repeat('ab', 90) as s").chart("s")._static_page()["text/plain"]
    assert max(map(len, text.splitlines())) < 60


def test_a_chart_without_values_says_so(table):
    text = table.read(where="n > 99").chart("word")._static_page()["text/plain"]
    assert text.endswith("rows by word\nno values")


def test_a_large_scatter_plot_says_that_it_is_a_sample(odps):
    chart = (
        odps.table("orders")
        .read(partitions="ds=2024-01-01")
        .chart("quantity", "weight", kind="scatter")
    )
    assert re.fullmatch(r"random sample of [\d,]+ of [\d,]+ rows", chart.note)
    assert 500 < len(chart.to_pandas()) <= 1000


def test_charts_of_a_read_and_a_result_use_their_own_rows(table, odps):
    wanted = (frame().to_pandas()["n"] < 5).sum()
    for where in ("n < 5", "n < 5 -- few", "n < /* few */ 5"):
        assert sum(shown(table.read(where=where).chart("ds")).values()) == wanted
    result = odps.sql("select ds, n from charted where n < 5")
    assert sum(shown(result.chart("ds")).values()) == wanted


OF_RESULTS = [
    {"x": "word", "top": 2},
    {"x": "n", "y": "price"},
    {"x": "n", "y": "price", "agg": "mean", "top": 5, "color": "ds"},
    *({"x": "is_new", "y": "price", "agg": agg} for agg in AGGREGATES),
    {"x": "ds", "y": "word", "agg": "distinct"},
    {"x": "ds", "y": "price", "kind": "box", "color": "is_new"},
    {"x": "word", "y": "n", "kind": "box", "top": 3},
    *({"x": x, "kind": "histogram", "bins": 10} for x in ("n", "price", "weight")),
    {"x": "price", "y": "n", "bins": 7},
    *({"x": x} for x in ("day", "at", "sent")),
    *({"x": x, "step": step} for x in ("day", "at", "sent") for step in ("day", "week", "month")),
    {"x": "at", "step": "hour", "kind": "area", "color": "word"},
    {"x": "n", "y": "price", "kind": "scatter", "color": "is_new"},
]


ONE_JOB = [
    {"x": "word"},
    {"x": "word", "top": 2},
    {"x": "n", "kind": "bar"},
    {"x": "n", "y": "price", "top": 10, "color": "ds"},
    *({"x": "word", "y": "price", "agg": agg} for agg in AGGREGATES),
    *({"x": "word", "y": "n", "agg": agg, "top": 2} for agg in ("count", "sum", "min", "max")),
    {"x": "word", "y": "price", "agg": "sum", "top": 2, "color": "n"},
    {"x": "ds", "y": "price", "kind": "box"},
    {"x": "at", "step": "day", "color": "word"},
    {"x": "at", "step": "day", "color": "n"},
    {"x": "at", "step": "day", "y": "price", "agg": "median", "color": "word"},
]
MORE_JOBS = [
    ({"x": "word", "y": "price", "agg": "median", "top": 1}, 2),
    ({"x": "word", "y": "n", "kind": "box", "top": 1}, 2),
    ({"x": "ds", "y": "price", "agg": "mean", "color": "n"}, 3),
    ({"x": "at", "step": "day", "y": "price", "agg": "mean", "color": "n"}, 2),
    ({"x": "price", "kind": "histogram", "color": "word"}, 2),
    ({"x": "n", "y": "price", "top": 5}, 3),
]


@pytest.mark.parametrize(
    ("options", "count"), [*((one, 1) for one in ONE_JOB), *MORE_JOBS], ids=str
)
@pytest.mark.gate(8)
def test_a_chart_of_few_groups_needs_one_query(table, odps, monkeypatch, options, count):
    before = {*odps.queries()}
    found = table.chart(**options)
    assert len({*odps.queries()} - before) == count
    monkeypatch.setattr(FigureQuery, "_all_groups", lambda self, group: None)
    wanted = table.chart(**options)
    assert found._figures.groups == wanted._figures.groups
    assert found._figures.colors == wanted._figures.colors
    assert found.sql == wanted.sql
    pd.testing.assert_frame_equal(found.to_pandas(), wanted.to_pandas())


def test_a_chart_opens_no_read_session_of_its_table(table, odps, monkeypatch):
    def refused(*_, **__):
        pytest.fail("a chart opened a read session")

    monkeypatch.setattr(scans, "open_read_session", refused)
    for source in (table, table.read(["word", "n"], where="n < 5")):
        assert shown(source.chart("word", "n"))
    with pytest.raises(ArgumentError, match="'ds' is not a column"):
        table.read(["word", "n"]).chart("ds")


@pytest.mark.gate(12)
@pytest.mark.parametrize("most", [0, 3, 12])
@pytest.mark.parametrize("options", [*ONE_JOB, *(one for one, _ in MORE_JOBS)], ids=str)
def test_a_chart_of_many_groups_has_the_same_values(table, monkeypatch, options, most):
    wanted = table.chart(**options)
    if "color" not in options:  # the values that have their own group are always read
        most += options.get("top", 20)
    monkeypatch.setattr(chart_figures, "MAX_ROWS", most)
    whole = FigureQuery._found  # the limit of the first query must not truncate the last query
    monkeypatch.setattr(
        FigureQuery,
        "_found",
        lambda self, text, *keys: whole(self, text.split(" limit ")[0], *keys),
    )
    pd.testing.assert_frame_equal(table.chart(**options).to_pandas(), wanted.to_pandas())


@pytest.mark.gate(1)
@pytest.mark.parametrize("where", ["", " where n < 0"], ids=["rows", "no rows"])
def test_a_chart_of_a_result_has_the_values_of_its_table_and_runs_no_query(table, odps, where):
    result = odps.sql(f"select * from charted{where}").wait()
    source = table.read(where="n < 0") if where else table
    for options in OF_RESULTS:
        wanted = source.chart(**options)
        jobs = [*odps.queries()]
        found = result.chart(**options)
        assert [*odps.queries()] == jobs
        assert found.note == wanted.note, options
        order = list(wanted.to_pandas())
        frames = [one.to_pandas().sort_values(order, ignore_index=True) for one in (found, wanted)]
        pd.testing.assert_frame_equal(*frames, obj=str(options))
        text = wanted.sql.removeprefix("set odps.sql.timezone=UTC;\n")
        assert found.sql.partition(" from")[0] == text.partition(" from")[0]


def test_a_chart_of_a_large_result_states_that_its_query_runs_again(odps, monkeypatch):
    monkeypatch.setattr(read_figures, "MAX_READ", 5_000)
    result = odps.sql("select ds, n from charted")
    again = r"runs the query again and reads .*, because its result \(about .* kB\) exceeds 5.0 kB"
    with pytest.warns(OdpsNbWarning, match=again):
        assert sum(shown(result.chart("ds")).values()) == COUNT
    explorer = result.explore(seed=1)
    explorer._widget = browser = Browser()
    explorer.receive({"do": "chart", "x": "ds"})
    told, _ = browser.wait("cost", task="chart")
    assert re.fullmatch(again, told["text"])
    jobs = [*odps.queries()]
    explorer.receive({"do": "chart", "x": "ds", "agreed": True})
    browser.wait("chart")
    assert [*odps.queries()] != jobs
    explorer.close()


def test_a_new_chart_has_the_current_width_of_its_container(table):
    explorer = table.explore(seed=1)
    explorer._widget = browser = Browser()
    drawing = explorer.view.chart

    def resized_meanwhile(*args, **options):
        explorer.receive({"do": "resize", "width": 500})
        return drawing(*args, **options)

    explorer.view.chart = resized_meanwhile
    explorer.receive({"do": "chart", "x": "ds", "width": 700})
    chart, _ = browser.wait("chart")
    assert 'width="500"' in chart["svg"]
    explorer.close()


def test_a_chart_of_an_earlier_filter_is_resized(table):
    explorer = table.explore(seed=1)
    explorer._widget = browser = Browser()
    explorer.receive({"do": "chart", "x": "ds", "width": 700})
    chart, _ = browser.wait("chart")
    assert 'width="700"' in chart["svg"]
    explorer._choose(Choice(conditions=(make_condition(explorer.view.columns[0], "null"),)))
    browser.wait("page", start=0)
    explorer.receive({"do": "resize", "width": 500})
    picture, _ = browser.wait("picture")
    assert 'width="500"' in picture["svg"]
    explorer.close()


def test_the_query_shown_for_a_chart_returns_its_values(table, odps):
    chart = table.chart("ds", "price")
    found = odps.sql(chart.sql).to_pandas()
    assert sorted(found.m.astype(float)) == sorted(shown(chart).values())


def test_groups_without_a_finite_value_are_omitted_and_counted(odps):
    query = "select 1 n, 1.5d d union all select 2, cast('NaN' as double) union all select 3, 1e309"
    chart = odps.sql(query).chart("n", "d", agg="max")
    assert shown(chart) == {"1": 1.5}
    assert chart.note == "all rows except 2 groups without a finite value"


def test_a_chart_of_equal_large_values_has_an_axis(odps):
    result = odps.sql("select 1 n, 100000000000000001L v")
    assert shown(result.chart("n", "v", kind="line", agg="max")) == {"1": 1e17}


def test_a_column_may_have_the_name_of_the_aggregated_value(odps):
    found = odps.sql("select 'a' rows union all select 'b'").chart("rows").to_pandas()
    assert found.columns.tolist() == ["rows", "rows_"]
    assert sorted(found["rows"]) == ["a", "b"]


def test_a_chart_can_be_cancelled_between_two_queries(table):
    rows = rows_of(table.read())
    rows.query("select count(*) n from charted")
    rows.stop()
    with pytest.raises(CancelledError):
        FigureQuery(rows, choose(rows.columns, "word"), None, None).figures()


def test_a_large_chart_does_not_hide_the_rows(table, monkeypatch):
    view = RowView(rows_of(table.read()))
    chart = table.chart("word")
    monkeypatch.setattr(static, "HTML_BYTES", 20_000)
    page = view.page(0)
    with_chart = static.shown_bundle(static.Shown(view=view, page=page, chart=chart))
    assert "data:image/svg+xml" not in with_chart["text/html"]
    assert "<table" in with_chart["text/html"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_code_draws_the_chart(table, odps, kind):
    options = {"box": ("is_new", "n"), "scatter": ("n", "price"), "histogram": ("price", None)}
    chart = table.chart(*options.get(kind, ("ds", None)), kind=kind)
    again = eval(chart.code, {"odps": odps})  # noqa: S307  # our own text
    assert (again.title, len(again.to_pandas())) == (chart.title, len(chart.to_pandas()))
    assert len(chart.code) < 100


def test_the_code_of_a_chart_contains_only_options_that_are_not_defaults(odps, table):
    orders = odps.table("orders").read(partitions="ds=2024-01-01")
    chart = orders.chart("status", "amount", agg="mean")
    read = "odps.table('orders').read(partitions=['ds=2024-01-01'])"
    assert chart.code == f"{read}.chart('status', 'amount', agg='mean')"
    chart = orders.chart("status", "amount", agg="sum", kind="bar", top=20)
    assert chart.code == f"{read}.chart('status', 'amount')"
    view = RowView(rows_of(orders))
    view.choose(Choice(conditions=("quantity > 9",), order=(("id", True),)))
    choice = choose(view.columns, "quantity", color="status", bins=5)
    code = view.chart(choice).code
    assert code.startswith("odps.table('orders').read(where='quantity > 9', partitions=")
    assert code.endswith(").chart('quantity', color='status', bins=5)")
    view.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_picture_has_a_mark_with_a_tooltip_for_each_group(table, kind):
    options = {"box": ("word", "n"), "scatter": ("n", "price"), "histogram": ("price", None)}
    chart = table.chart(*options.get(kind, ("word", None)), kind=kind)
    root = ElementTree.fromstring(chart.to_svg())
    space = "{http://www.w3.org/2000/svg}"
    assert {one.tag.removeprefix(space) for one in root.iter()} <= {
        *("svg", "title", "path", "rect", "circle", "g", "text")
    }
    tips = [one.text for one in root.iter(f"{space}title")]
    assert len(tips) > len(chart.to_pandas())
    if kind == "bar":
        assert 'word: a "quoted" <b>\nrows: 67' in tips


def test_a_picture_is_saved_like_a_blob(table, tmp_path, monkeypatch):
    chart = table.chart("word")
    monkeypatch.setenv("HOME", str(tmp_path))
    for _ in range(2):  # the second picture replaces the first one
        assert chart.save("~/chart.svg").read_text("utf-8") == chart.to_svg()
    assert [file.name for file in tmp_path.iterdir()] == ["chart.svg"]
    for path, reason in ((tmp_path / "none" / "a.svg", "does not exist"), (tmp_path, "is a fold")):
        with pytest.raises(ConfigError, match=reason):
            chart.save(path)
    with pytest.raises(ArgumentError, match="it must be a path"):
        chart.save(3)


def test_only_counts_and_sums_are_stacked(table):
    space = "{http://www.w3.org/2000/svg}"

    def bar_positions(agg):
        chart = table.chart("ds", "n", agg=agg, color="is_new")
        marks = ElementTree.fromstring(chart.to_svg()).iter(f"{space}rect")
        return {one.get("x") for one in marks if one.find(f"{space}title") is not None}

    assert len(bar_positions("sum")) == 4
    assert len(bar_positions("mean")) == 8


def test_a_malicious_value_is_shown_as_text_in_a_chart(odps):
    table = odps.create_table("charted_hostile", "word string, n bigint")
    text = "</text></svg><script>x</script>\u202e&"
    table.write(pa.table({"word": [text], "n": [1]}))
    made = table.chart("word").to_svg()
    assert "<script" not in made
    assert "\u202e" not in made
    ElementTree.fromstring(made)
    odps.drop_table("charted_hostile")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": "wrod"}, "did you mean 'word'"),
        ({"x": "list"}, "cannot be an axis"),
        ({"x": "raw"}, "cannot be an axis"),
        ({"x": "word", "y": "ds"}, "needs a column of numbers"),
        ({"x": "word", "agg": "sum"}, "needs a column as y="),
        ({"x": "word", "kind": "pie"}, "is not one of bar, line"),
        ({"x": "word", "kind": "histogram"}, "a histogram counts"),
        ({"x": "n", "kind": "box"}, "needs a column of numbers as y="),
        ({"x": "word", "y": "n", "kind": "scatter"}, "numbers or times as x="),
        ({"x": "word", "step": "day"}, "step= needs a column"),
        ({"x": "day", "step": "hour"}, "step= must be 'day' or longer"),
        ({"x": "word", "bins": 5}, "bins= needs a column of numbers"),
        ({"x": "n", "bins": 1000}, "above the maximum of 200"),
        ({"x": "word", "top": 0}, "top"),
    ],
)
def test_wrong_arguments_of_a_chart_are_refused_with_a_hint(table, arguments, message):
    with pytest.raises(ArgumentError) as caught:
        table.chart(**arguments)
    assert message in f"{caught.value} {caught.value.hint}"


def test_a_chart_of_a_read_with_a_limit_is_refused(table):
    with pytest.raises(ArgumentError, match="only whole tables"):
        table.read(limit=5).chart("word")


def test_a_chart_refuses_the_options_that_a_read_refuses(table, odps):
    with pytest.raises(NotFoundError):
        odps.table("orders").read(partitions="ds=1999-01-01").chart("status")
    with pytest.raises(ArgumentError, match="cannot be an axis"):
        table.read(text="binary").chart("word")


@pytest.mark.parametrize("agg", ["min", "max", "sum"])
def test_values_of_groups_with_nan_equal_those_of_the_query(odps, new_name, agg):
    table = odps.create_table(new_name("nan"), "word string, price double")
    prices = [5.0, 1.0, 2.0, float("nan"), 3.0]
    table.write(pa.table({"word": ["a", "b", "b", "c", "c"], "price": prices}))
    found = table.chart("word", "price", agg=agg, top=1)
    wanted = {row["g"]: row["m"] for row in odps.sql(found.sql).to_arrow().to_pylist()}
    drawn = {mark.group: mark.values[0] for mark in found._figures.marks}
    assert drawn == {group: value for group, value in wanted.items() if value == value}


def test_the_text_of_a_chart_has_integer_counts(odps):
    text = odps.table("orders").chart("status")._static_page()["text/plain"]
    assert re.search(r"shipped +1,351,026$", text, re.M)
