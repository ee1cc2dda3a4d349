"""Charts have readable axes: ticks, labels, widths, and ranges without outliers."""

import datetime
import re
from itertools import pairwise
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from odps_nb.errors import ArgumentError
from odps_nb.notebook.explore.charts import figures as chart_figures
from odps_nb.notebook.explore.values.axis import calendar_ticks, tick_labels, ticks
from odps_nb.notebook.explore.values.scale import scale_of
from odps_nb.schema import Column, PrimitiveType, TypeCode


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0, 1),
        (0, 0.00012),
        (-7, 3),
        (0, 2_048_000),
        (-1e16, 1e16),
        (5, 5),
        (0, 999),
        (1e17, 1e17),
        (-1e300, 1e300),
    ],
)
def test_an_axis_has_a_few_ticks_at_round_numbers(low, high):
    found = ticks(low, high)
    assert 2 <= len(found) <= 8
    assert found[0] <= low
    assert found[-1] >= high
    assert len(set(tick_labels(found))) == len(found)


def days(begin, count, step=1):
    return [str(begin + datetime.timedelta(days=n * step)) for n in range(count)]


def months(year, count):
    return [f"{year + n // 12}-{n % 12 + 1:02}" for n in range(count)]


AXES = {
    "days": (days(datetime.date(2024, 1, 30), 60), 8, "2024-02-05 2024-02-12"),
    "months of days": (days(datetime.date(2024, 1, 1), 200), 9, "2024-01 2024-02"),
    "quarters of days": (days(datetime.date(2023, 12, 30), 500), 6, "2024-01 2024-04"),
    "half years of weeks": (days(datetime.date(2020, 1, 6), 200, 7), 7, "2020-07 2021-01"),
    "years of days": (days(datetime.date(2020, 2, 1), 1000), 3, "2021 2022"),
    "years of months": (months(1999, 96), 8, "1999 2000"),
    "decades": ([str(year) for year in range(1905, 2000)], 9, "1910 1920"),
    "days with outliers": (
        ["0001-01-01", *days(datetime.date(2024, 1, 7), 33), "9999-12-31"],
        6,
        "2024-01 2024-02 9999-12",
    ),
    "no period fits": (["1969-12-31", "1970-01-01", "2024-05-05"], 2, ""),
}


@pytest.mark.parametrize("name", AXES)
def test_a_long_time_axis_has_ticks_where_periods_begin(name):
    labels, most, first = AXES[name]
    found = calendar_ticks(labels, lambda _: len(labels) / (most + 1.5))
    texts = [text for _, text in found]
    assert " ".join(texts).startswith(first)
    assert len(texts) <= most + 2
    for n, text in found:
        assert labels[n].startswith(text)
        assert n == 0 or labels[n - 1][: len(text)] != text  # each label is the first of its period


def test_the_labels_of_a_long_axis_do_not_overlap(odps, new_name):
    name = new_name("years")
    table = odps.create_table(name, "day date, at datetime")
    begin = datetime.datetime(2019, 5, 5, 12, tzinfo=datetime.UTC)
    times = [begin + datetime.timedelta(days=3 * n) for n in range(300)]
    table.write(pa.table({"day": [one.date() for one in times], "at": times}))
    space = "{http://www.w3.org/2000/svg}"
    for options in ({"x": "day"}, {"x": "at", "step": "day"}, {"x": "at", "y": "day"}):
        chart = table.chart(**{"agg": "count", **options}, kind="line")
        texts = list(ElementTree.fromstring(chart.to_svg()).iter(f"{space}text"))
        ticks = [one.text for one in texts if re.fullmatch(r"\d{4}-\d\d", one.text or "")]
        assert ticks[:3] == ["2019-07", "2019-10", "2020-01"], options


def test_the_last_label_is_inside_the_picture(odps, new_name):
    table = odps.create_table(new_name("last"), "at datetime, n bigint")
    begin = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    times = [begin + datetime.timedelta(hours=n) for n in range(24 * 8)]
    times += [datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)] * 5  # too many outliers to omit
    table.write(pa.table({"at": times, "n": range(len(times))}))
    root = ElementTree.fromstring(table.chart("at", kind="line").to_svg())
    texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
    last = next(one for one in texts if (one.text or "").startswith("9999-12-31"))
    assert float(last.get("x")) + 3.1 * len(last.text) <= float(root.get("viewBox").split()[2])


@pytest.mark.parametrize("width", [100, 320, 720, 1400, 5000])
@pytest.mark.gate(2)
def test_a_picture_has_the_width_of_its_container(odps, new_name, width):
    table = odps.create_table(new_name("wide"), "at datetime, n bigint, word string")
    begin = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    words = [f"a long name of a colour {n}" for n in range(9)]
    table.write(
        pa.table(
            {
                "at": [begin + datetime.timedelta(hours=n) for n in range(100)],
                "n": range(10**9, 10**9 + 100),
                "word": [words[n % 9] for n in range(100)],
            }
        )
    )
    space = "{http://www.w3.org/2000/svg}"
    for x, kind in (("at", "scatter"), ("n", "scatter"), ("at", "bar"), ("word", "bar")):
        chart = table.chart(x, "n", kind=kind, color="word")
        root = ElementTree.fromstring(chart.picture({"width": width}))
        wide, high = (float(root.get(name)) for name in ("width", "height"))
        assert wide == min(max(width, 320), 1600)
        places = [
            (float(one.get("x")), float(one.get("y")), one.get("text-anchor"), 6.2 * len(one.text))
            for one in root.iter(f"{space}text")
            if one.get("x")
        ]
        names = {"word"} | {one.text for one in root.iter(f"{space}title")}
        assert {*words[:7]} <= names
        part = {"start": 0, "middle": 0.5, "end": 1}
        boxes = sorted(
            (y, x - length * part[anchor], x + length * (1 - part[anchor]))
            for x, y, anchor, length in places
        )
        outside = [box for box in boxes if box[1] < -1 or box[2] > wide + 16 or box[0] > high]
        assert outside == [], (x, kind)
        for (y, _, right), (next_y, left, _) in pairwise(boxes):
            assert next_y != y or left > right, (x, kind)
        below = next(
            float(one.get("y"))
            for one in root.iter(f"{space}text")
            if one.text == x and one.get("y")
        )
        for one in root.iter(f"{space}text"):
            if tilted := re.search(r"(\S+)\) rotate\(-30\)", one.get("transform", "")):
                assert float(tilted[1]) + 3.1 * len(one.text) < below - 8


@pytest.mark.storage_api("its requests")
@pytest.mark.parametrize("kind", ["date", "datetime", "timestamp", "timestamp_ntz"])
def test_outlying_times_are_omitted_and_counted(odps, new_name, kind):
    table = odps.create_table(new_name("far"), f"at {kind}, word string")
    begin = datetime.datetime(2024, 1, 1)
    times = [begin + datetime.timedelta(hours=n) for n in range(24 * 20)]
    times += [datetime.datetime(1, 1, 5), datetime.datetime(1969, 12, 31), None]
    values = [one and one.date() for one in times] if kind == "date" else times
    table.write(pa.table({"at": values, "word": ["a", "b", "c"] * 161}))
    for options in ({}, {"color": "word"}):
        chart = table.chart("at", step="day", **options)
        assert chart.note == "all rows except 2 days far from the others"
        assert len(chart._figures.groups) == 20
        assert "null" in chart.to_pandas()["at"].tolist()


def test_too_many_times_are_refused_even_if_most_are_outliers(odps, new_name, monkeypatch):
    monkeypatch.setattr(chart_figures, "MAX_GROUPS", 10)
    monkeypatch.setattr(chart_figures, "MAX_ROWS", 90)  # the job returns only some of the groups
    table = odps.create_table(new_name("many"), "at datetime")
    begin = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    times = [begin + datetime.timedelta(hours=n % 9) for n in range(20_000)]
    times += [begin - datetime.timedelta(days=9000, hours=n) for n in range(100)]
    table.write(pa.table({"at": times}))
    with pytest.raises(ArgumentError, match="more than 10 parts"):
        table.chart("at", step="hour")


def test_a_scatter_plot_of_large_numbers_is_drawn(odps):
    numbers = [f"select {17 * 10**17 + n}L n" for n in (0, 256, 512, 768)]
    result = odps.sql(" union all ".join(numbers))
    text = result.chart("n", "n", kind="scatter").to_svg()
    assert text.count("<circle") == 4


@pytest.mark.parametrize("number", ["0", "3.4e38", "cast(null as double)"])
def test_a_scatter_plot_of_one_position_is_drawn(odps, number):
    result = odps.sql(f"select {number} n, 1 m union all select {number} n, 2 m")
    text = result.chart("n", "m", kind="scatter").to_svg()
    assert text.count("<circle") == (0 if "null" in number else 2)


@pytest.mark.parametrize("column", ["at", "n"])
def test_outlying_points_do_not_stretch_a_scatter_plot(odps, new_name, column):
    table = odps.create_table(new_name("far"), "at datetime, n bigint, m bigint")
    begin = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    times = [begin + datetime.timedelta(hours=n) for n in range(300)]
    times[7] = datetime.datetime(9999, 12, 31, tzinfo=datetime.UTC)
    numbers = [*range(299), 10**12]
    table.write(pa.table({"at": times, "n": numbers, "m": range(300)}))
    for source in (table, odps.sql(f"select * from {table.name}")):
        chart = source.chart(column, "m", kind="scatter")
        assert chart.note == "all rows except 1 point far from the others"
        assert len(chart.to_pandas()) == 299
        chart = source.chart("m", "n", kind="scatter")
        assert sorted(chart.to_pandas()["n"]) == numbers[:-1]


@pytest.mark.parametrize("zone", [None, "Asia/Shanghai"])
def test_a_scatter_plot_over_years_has_ticks_at_months_of_the_zone(zone):
    kind = pa.timestamp("us", zone)
    scale = scale_of(Column(name="at", type=PrimitiveType(TypeCode.TIMESTAMP)), kind)
    low, high = (scale.place(datetime.datetime(*at)) for at in ((2023, 11, 5), (2024, 12, 31)))
    found = scale.month_ticks(low, high, 6)
    assert [text for _, text in found] == ["2024-01", "2024-04", "2024-07", "2024-10"]
    if zone is not None:
        assert scale.text(scale.at(found[0][0], 1.0)) == "2024-01-01 00:00:00+08:00"
    assert scale.month_ticks(low, low + 86400 * 20, 6) == []


def test_tick_labels_share_a_unit():
    assert tick_labels([0, 500_000, 1_000_000, 1_500_000]) == ["0", "500 k", "1,000 k", "1,500 k"]
    assert tick_labels([0, 1e6, 2e6]) == ["0", "1 M", "2 M"]
    assert tick_labels([0, 0.25, 0.5]) == ["0", "0.25", "0.50"]
    assert (tick_labels([]), tick_labels([0.0])) == ([], ["0"])
    assert tick_labels([3.4e38, 3.4e38]) == ["3.4e+38", "3.4e+38"]
