"""Filters of a `RowView` select rows, which are counted and profiled."""

import datetime
import itertools
from dataclasses import replace
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest

from odps_nb.access.paging.browsing import rows_of
from odps_nb.errors import ArgumentError
from odps_nb.notebook.explore import explorer as exploring
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.choosing.conditions import operations, typed_condition, typed_texts
from odps_nb.notebook.explore.messages import profile_message
from odps_nb.notebook.explore.profiles.sampling import RandomParts
from odps_nb.notebook.explore.view import MAX_PAGE_ROWS, RowView
from odps_nb.schema import Column
from odps_nb.wire.type_text import parse_type
from tests.support.messages import Browser
from tests.support.service.connecting import connected
from tests.support.views import all_ids

pytestmark = pytest.mark.every_service(in_turn=True)

ROWS = 3000
HOSTILE = [
    *("it's", 'a "b"', "100%", "a_b", "axb", "c:\\d", "\\", "%", "", "two\nlines", "ünï"),
    *("' or 1=1 --", "`id`", "\\'", "%\\%", "CHR(39)", ":v", "{id}"),
]
TYPES = {
    "id": "bigint",
    "small": "tinyint",
    "share": "double",
    "ratio": "float",
    "amount": "decimal(18,2)",
    "day": "date",
    "seen": "datetime",
    "clock": "timestamp_ntz",
    "word": "string",
    "name": "varchar(20)",
    "code": "char(9)",
    "flag": "boolean",
    "tags": "array<string>",
}


def _with_nulls(values, step):
    return [None if n % step == 0 else value for n, value in enumerate(values)]


@pytest.fixture(scope="module")
def frame(odps):
    """The rows of the table in pandas; tests compare each filter with them."""
    first = datetime.datetime(2024, 3, 30, 20)
    times = [first + datetime.timedelta(minutes=n) for n in range(ROWS)]
    texts = [HOSTILE[n % len(HOSTILE)] for n in range(ROWS)]
    codes = _with_nulls([f"c{n % 9}" for n in range(ROWS)], 10)
    rows = pa.table(
        {
            "id": pa.array(range(ROWS)),
            "small": pa.array(_with_nulls([n % 100 - 50 for n in range(ROWS)], 7), pa.int8()),
            "share": pa.array(_with_nulls([n / 8 for n in range(ROWS)], 6)),
            "ratio": pa.array([n % 11 / 10 for n in range(ROWS)], pa.float32()),
            "amount": pa.array(
                _with_nulls([Decimal(n).scaleb(-2) for n in range(ROWS)], 5), pa.decimal128(18, 2)
            ),
            "day": pa.array(_with_nulls([one.date() for one in times], 4)),
            "seen": pa.array(_with_nulls(times, 9), pa.timestamp("us")),
            "clock": pa.array(times, pa.timestamp("us")),
            "word": pa.array(_with_nulls(texts, 13)),
            "name": pa.array(_with_nulls([f"n_{n % 40}" for n in range(ROWS)], 3)),
            "code": pa.array(codes),
            "flag": pa.array(_with_nulls([n % 5 == 1 for n in range(ROWS)], 8)),
            "tags": pa.array(_with_nulls([["a", str(n)] for n in range(ROWS)], 2)),
        }
    )
    columns = ", ".join(f"{name} {type_}" for name, type_ in TYPES.items())
    table = odps.create_table("explore_filters", columns)
    table.write(rows)
    yield rows.to_pandas()
    odps.drop_table("explore_filters")


@pytest.fixture
def view(odps, frame):
    view = RowView(rows_of(odps.table("explore_filters").read()), page_rows=MAX_PAGE_ROWS, seed=1)
    yield view
    view.close()


# -- selected rows ------------------------------------------------------------------------------

MIDDLE = datetime.datetime(2024, 3, 31, 12)
CHOSEN = [
    ("id", {"low": 1000}, lambda v: v >= 1000),
    ("id", {"low": 10, "high": 2000}, lambda v: 10 <= v <= 2000),
    ("id", {"values": [3, 5, 10**6]}, lambda v: v in (3, 5)),
    ("small", {"high": -20}, lambda v: v <= -20),
    ("share", {"low": 0.5, "high": 100.25}, lambda v: 0.5 <= v <= 100.25),
    ("ratio", {"values": [0.3, 0.7]}, lambda v: round(v, 3) in (0.3, 0.7)),
    ("ratio", {"low": 0.7}, lambda v: round(v, 3) >= 0.7),
    ("ratio", {"low": 0.1, "high": 0.6}, lambda v: 0.1 <= round(v, 3) <= 0.6),
    ("amount", {"low": Decimal("2.5"), "high": 20}, lambda v: Decimal("2.5") <= v <= 20),
    ("day", {"low": MIDDLE.date()}, lambda v: v >= MIDDLE.date()),
    ("seen", {"high": MIDDLE}, lambda v: v <= MIDDLE),
    ("clock", {"low": MIDDLE}, lambda v: v >= MIDDLE),
    ("name", {"starts": "n_3"}, lambda v: v.startswith("n_3")),
    ("name", {"contains": "_1"}, lambda v: "_1" in v),
    ("name", {"contains": "N_1", "ignore_case": True}, lambda v: "n_1" in v),
    ("name", {"starts": "N_3", "ignore_case": True}, lambda v: v.startswith("n_3")),
    ("code", {"values": ["c1", "c8"]}, lambda v: v in ("c1", "c8")),
    ("flag", {"values": [True]}, lambda v: v),
    ("flag", {"values": [False]}, lambda v: not v),
    ("tags", {"null": True}, None),
    ("word", {"null": True}, None),
]


def matches(column, rule):
    """Apply a predicate to each value of a column; ``None`` selects nulls."""
    nulls = column.isna()
    return nulls if rule is None else ~nulls & column.map(rule, na_action="ignore").eq(other=True)


@pytest.mark.gate(5)
@pytest.mark.parametrize(
    ("column", "given", "rule"), CHOSEN, ids=[f"{column} {given}" for column, given, _ in CHOSEN]
)
def test_a_filter_and_its_exclusion_select_each_row_once(view, frame, column, given, rule):
    wanted = matches(frame[column], rule)
    assert 0 < wanted.sum() < ROWS
    view.filter(column, **given)
    assert all_ids(view) == frame["id"][wanted].tolist(), view.where
    view.choose(Choice())
    view.filter(column, **given, exclude=True)
    assert all_ids(view) == frame["id"][~wanted].tolist(), view.where


def test_the_bars_of_single_precision_numbers_count_them_as_displayed(view, frame):
    n = next(n for n, column in enumerate(view.columns) if column.name == "ratio")
    shown = frame["ratio"].round(3)
    for place, bar in enumerate(view.describe().columns[n].bars):
        low, high = map(float, bar.label.split(" – "))
        wanted = (shown >= low) & ((shown <= high) if bar.last else (shown < high))
        assert bar.count == wanted.sum(), bar.label
        view.choose(view.bar(n, place))
        assert all_ids(view) == frame["id"][wanted].tolist(), view.where
        view.choose(Choice())


@pytest.mark.gate(5)
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_a_text_is_matched_literally_with_any_characters(view, frame, text):
    given = {"values": ([text], lambda v: v == text)}
    if text:
        given["contains"] = text, lambda v: text in v
        given["starts"] = text, lambda v: v.startswith(text)
    for name, (value, rule) in given.items():
        view.choose(Choice())
        view.filter("word", **{name: value})
        assert all_ids(view) == frame["id"][matches(frame["word"], rule)].tolist(), view.where


def test_an_offered_value_selects_as_many_rows_as_its_count(view, frame):
    view.describe()
    parts = profile_message(view)["columns"]
    offered = {one.name: found["frequent"] for one, found in zip(view.columns, parts, strict=True)}
    unique = {"id", "share", "amount", "seen", "clock"}  # no value occurs twice
    assert {name for name, values in offered.items() if not values} == unique | {"flag", "tags"}
    for column in view.columns:
        counts = [rows for _, rows, _ in offered[column.name]]
        assert counts == sorted(counts, reverse=True)
        for _, rows, text in offered[column.name][:1] + offered[column.name][-1:]:
            made = typed_condition(column, "values", [text], timezone=view.timezone)
            view.choose(Choice(conditions=(made,)))
            assert len(all_ids(view)) == rows, view.where


def test_the_offered_values_of_filtered_rows_include_those_of_all_rows(view, frame):
    view.describe()
    n = view.columns.index(next(one for one in view.columns if one.name == "code"))
    before = [bar.label for bar in view.profile.columns[n].frequent]
    view.filter("code", values=["c3"])
    view.describe()
    found = view.profile.columns[n].frequent
    assert (found[0].label, found[0].count > 0) == ("c3", True)
    assert sorted(bar.label for bar in found) == sorted(before)
    assert sum(bar.count for bar in found) == (frame["code"] == "c3").sum()


def test_filters_are_combined_and_apply_to_sorted_rows(view, frame):
    view.filter("small", low=0)
    view.filter("code", values=["c1", "c2"], exclude=True)
    wanted = frame[(frame["small"] >= 0) & ~frame["code"].isin(["c1", "c2"])]["id"].tolist()
    assert all_ids(view) == wanted
    view.choose(replace(view.choice, order=(("id", True),)))
    assert all_ids(view) == wanted[::-1]
    assert view.matching == len(wanted)


def test_a_type_without_a_condition_names_the_arguments_of_its_conditions(view):
    for column, hint in (
        ("flag", "pass one of: values=[True], values=[False], null"),
        ("word", "pass one of: values, contains, starts, null"),
        ("tags", "pass one of: null"),
    ):
        with pytest.raises(ArgumentError) as refused:
            view.filter(column, low=1)
        assert refused.value.hint == hint


@pytest.mark.parametrize(
    ("column", "given", "reason"),
    [
        ("id", {}, "exactly one is needed"),
        ("id", {"low": 1, "values": [2]}, "exactly one is needed"),
        ("id", {"low": 2, "high": 1}, "2 is greater than 1"),
        ("id", {"contains": "1"}, "does not support the condition 'contains'"),
        ("tags", {"values": ["a"]}, "does not support the condition 'values'"),
        ("word", {"contains": ""}, "enter the text"),
        ("word", {"contains": "é", "ignore_case": True}, "only the letters A to Z"),
        ("nothing", {"null": True}, "no column 'nothing'"),
        ("code", {"values": "c1"}, r"values=\['c1'\]"),
        ("id", {"values": 5}, r"values=\[5\]"),
        ("code", {"contains": 5}, "contains is of type int; it must"),
        ("id", {"min": 5}, "filter has no argument min="),
        ("id", {"low": "5"}, "'5' does not fit into the BIGINT column"),
        ("id", {"values": [None, 5]}, "a missing value was passed"),
        ("word", {"values": [pd.NA], "exclude": True}, "a missing value was passed"),
        ("seen", {"low": pd.NaT}, "a missing value was passed"),
        ("ratio", {"high": True}, "True does not fit into the FLOAT"),
        ("amount", {"values": [1, b"5"]}, "b'5' does not fit into the DECIMAL"),
        ("flag", {"values": [1]}, "does not support the condition 'values'"),
    ],
    ids=str,
)
def test_an_invalid_filter_is_refused_and_does_not_change_the_view(view, column, given, reason):
    with pytest.raises(ArgumentError, match=reason):
        view.filter(column, **given)
    assert view.choice == Choice()


# -- typed values ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("id", "12x"),
        ("id", "1.5"),
        ("id", "1,2,3"),
        ("share", "nan"),
        ("share", "1e999"),
        ("share", "1_0"),
        ("amount", "12,5"),
        ("day", "31.1.2024"),
        ("seen", "yesterday"),
        ("seen", "2024-01-01 00:00:00.1234567"),
        ("clock", "2024-01-01T00:00+01:00"),
        ("id", ""),
    ],
)
def test_a_value_of_another_type_is_refused_with_an_example(view, column, text):
    of = next(one for one in view.columns if one.name == column)
    with pytest.raises(ArgumentError, match="needs a value such as") as raised:
        typed_condition(of, "values", [text])
    assert repr(text) in str(raised.value)


def test_a_typed_range_needs_a_bound(view):
    with pytest.raises(ArgumentError, match="the range has no bounds"):
        typed_condition(view.columns[0], "range", ["", " "])


def test_numbers_may_be_typed_with_separators(view):
    column = view.columns[0]
    made = typed_condition(column, "range", [" 1,000,000 ", ""])
    assert (made.where, made.text) == ("id >= 1000000", "id ≥ 1,000,000")


@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "Asia/Shanghai"])
def test_editing_a_condition_without_a_change_keeps_it(service, frame, zone):
    """The table has times around the hour that does not exist in Berlin."""
    with connected(service, timezone=zone) as odps:
        view = RowView(rows_of(odps.table("explore_filters").read()), seed=1)
        edited = 0
        for n, column in enumerate(view.describe().columns):
            for bar, exclude in itertools.product(range(len(column.bars)), (False, True)):
                (made,) = view.bar(n, bar, exclude=exclude).conditions
                if column.bars[bar].is_undrawn:
                    assert made.op == ""  # this condition can only be removed
                    continue
                texts = typed_texts(made, view.timezone)
                again = typed_condition(
                    view.columns[n],
                    made.op,
                    texts,
                    exclude=made.exclude,
                    below=made.below,
                    timezone=view.timezone,
                )
                assert again.where == made.where
                edited += 1
        assert edited > 200
        view.close()


def test_a_filter_by_a_repeated_hour_keeps_the_offset(service, frame):
    with connected(service, timezone="Europe/Berlin") as odps:
        view = RowView(rows_of(odps.table("explore_filters").read()))
        column = next(one for one in view.columns if one.name == "seen")
        later = datetime.datetime(2024, 10, 27, 1, 30, tzinfo=datetime.UTC)
        for moment in (later - datetime.timedelta(hours=1), later):
            view.choose(Choice())
            view.filter("seen", high=moment)
            (made,) = view.choice.conditions
            texts = typed_texts(made, view.timezone)
            again = typed_condition(column, "range", texts, timezone=view.timezone)
            assert again.where == made.where
        view.close()


def test_chips_describe_filters_in_readable_text(view):
    said = []
    for column, given in (
        ("amount", {"low": Decimal("2000.00"), "high": 2200}),
        ("amount", {"low": -5, "high": Decimal("0.5")}),
        ("code", {"values": ["paid", "shipped"]}),
        ("code", {"values": list("abcdef"), "exclude": True}),
        ("word", {"values": [""]}),
        ("word", {"contains": "x", "exclude": True}),
        ("word", {"contains": "X", "ignore_case": True}),
        ("day", {"low": datetime.date(2024, 1, 1), "high": datetime.date(2024, 1, 7)}),
        ("seen", {"high": MIDDLE}),
        ("word", {"null": True, "exclude": True}),
        ("ratio", {"values": [0.3, 0.7]}),
    ):
        view.choose(Choice())
        view.filter(column, **given)
        said += [one.text for one in view.choice.conditions]
    assert said == [
        "amount 2,000–2,200",
        "amount -5 to 0.5",
        "code is paid or shipped",
        "code is not a, b, c or 3 more",
        "word is (empty)",
        "word does not contain exactly “x”",
        "word contains “X”",
        "day 2024-01-01 to 2024-01-07",
        "seen ≤ 2024-03-31 12:00:00",
        "word is not null",
        "ratio is 0.3 or 0.7",
    ]


def test_only_conditions_that_a_type_supports_are_offered(odps):
    view = RowView(rows_of(odps.table("types_all").read()))
    for column in view.columns:
        for op in operations(column):
            if op in ("null", "true", "false"):
                view.choose(Choice(conditions=(typed_condition(column, op, ()),)))
                assert view.page(0).start == 0
    offered = {one.name: operations(one) for one in view.columns}
    offered |= {one.name: operations(one) for one in odps.table("media").schema.columns}
    offered |= {one.name: operations(one) for one in odps.table("orders").schema.columns}
    for name in ("c_binary", "c_json", "content", "tags", "attrs", "address"):
        assert offered[name] == ("null",)
    view.close()


def test_excluding_another_bar_keeps_the_earlier_exclusions(view, frame):
    n = list(TYPES).index("code")
    bars = view.describe().columns[n].bars
    for bar in (0, 2):
        view.choose(view.bar(n, bar, label=bars[bar].label, exclude=True))
    view.describe()
    (made,) = view.choice.conditions
    assert made.text == f"code is not {bars[0].value} or {bars[2].value}"
    wanted = ~frame["code"].isin([bars[0].value, bars[2].value])
    assert all_ids(view) == frame["id"][wanted].tolist()
    view.choose(view.bar(n, 1))  # a plain click replaces the column's conditions
    assert len(view.choice.conditions) == 1
    with pytest.raises(ArgumentError, match="profile has changed"):
        view.bar(n, 1, label="another")


# -- number of rows -----------------------------------------------------------------------------


def test_the_count_of_matching_rows_limits_the_pages(odps, frame):
    view = RowView(rows_of(odps.table("explore_filters").read()), seed=1)
    view.filter("flag", null=True, exclude=True)
    wanted = frame["id"][frame["flag"].notna()].tolist()
    assert view.page(0).count == 100
    assert (view.total, view.matching, view.at_least) == (None, None, 100)
    assert exploring.page_message(view, view.page(0))["rows"] == "at least 100 of 3,000 rows"
    assert view.count(2**40) == len(wanted)
    assert (view.total, view.matching) == (len(wanted), len(wanted))
    assert exploring.page_message(view, view.page(0))["rows"] == "2,625 of 3,000 rows"
    last = view.page(view.total - 1)
    assert list(map(int, last.columns[0])) == wanted[2600:]
    middle = view.page(1234)
    assert list(map(int, middle.columns[0])) == wanted[1200:1300]
    view.choose(Choice())
    assert (view.total, view.matching) == (ROWS, ROWS)
    view.close()


def test_no_query_is_run_to_count_rows_that_were_all_read(view, frame, monkeypatch):
    view.filter("id", high=250)
    view.page(200)
    monkeypatch.setattr(type(view.connection), "sql", None)
    assert (view.matching, view.count(2**40)) == (251, 251)


def test_rows_are_not_counted_if_that_is_expensive_or_impossible_in_sql(odps, frame):
    table = odps.table("explore_filters")
    view = RowView(rows_of(table.read()))
    view.filter("id", low=5)
    assert view.count(0) is None
    limited = RowView(rows_of(table.read(where="id > 5", limit=500)))
    assert limited.count(2**40) is None
    limited.page(0)
    assert (limited.matching, limited.at_least) == (None, 100)
    view.close()
    limited.close()


def test_a_count_that_contradicts_the_rows_is_dropped(view):
    view.filter("id", low=0)
    view._profiles.know(view.where, 150)
    assert view.total == 150
    view.page(100)
    assert view.total is None  # the page contains rows up to the 200th


# -- profiles of matching rows -------------------------------------------------------------------


@pytest.mark.parametrize("where", ["of the view", "of the read"])
def test_the_profile_samples_all_matching_rows(odps, frame, where):
    table = odps.table("explore_filters")
    if where == "of the view":
        view = RowView(rows_of(table.read()), sample=2000, seed=1)
        view.filter("clock", low=datetime.datetime(2024, 1, 1))
    else:
        read = table.read(where="clock >= cast('2024-01-01 00:00:00' as timestamp_ntz)")
        view = RowView(rows_of(read), sample=2000, seed=1)
    profile = view.describe()
    assert (profile.rows, profile.label) == (2000, "sample of 2,000 rows")
    ids = profile.columns[0]
    assert int(ids.min.replace(",", "")) < ROWS // 8
    assert int(ids.max.replace(",", "")) > ROWS * 7 // 8
    assert view.describe() == profile
    view.count(2**40)
    assert view.profile.label == "sample of 2,000 of 3,000 rows"
    view.close()


def test_a_profile_of_few_rows_reads_and_counts_all_rows(odps, frame):
    view = RowView(rows_of(odps.table("explore_filters").read()), sample=600, seed=1)
    view.describe()
    view.filter("flag", null=True)
    profile = view.describe()
    wanted = frame[frame["flag"].isna()]
    assert profile.label == f"all {len(wanted)} rows"
    assert profile.columns[0].distinct == len(wanted)
    assert view.matching == len(wanted)
    whole = view.describe_all(progress=False)
    assert [one.nulls for one in whole.columns] == [one.nulls for one in profile.columns]
    assert whole.columns[0].min == f"{wanted['id'].min():,}"
    view.close()


def test_bars_of_filtered_rows_keep_their_edges_and_the_counts_of_all_rows(view, frame):
    whole = view.describe()
    view.filter("id", low=2000)
    found = view.describe()
    share = 1000 / ROWS
    for before, after in zip(whole.columns, found.columns, strict=True):
        if before.is_range:
            assert [one.low for one in after.bars] == [one.low for one in before.bars]
        if before.is_range or (before.bars and before.distinct <= 10):
            assert [one.label for one in after.bars] == [one.label for one in before.bars]
            scaled = [bar.count * share for bar in before.bars]
            assert [bar.whole for bar in after.bars] == pytest.approx(scaled)
    assert sum(bar.count for bar in found.columns[0].bars) == 1000
    view.choose(Choice())
    assert view.profile is whole
    assert view.is_profiled


def test_a_read_with_a_limit_is_profiled_from_its_start_with_a_note(odps, frame):
    read = odps.table("explore_filters").read(["id"], where="id >= 0", limit=900)
    view = RowView(rows_of(read), sample=200)
    assert view.describe().label == "the first 200 rows"
    view.close()
    view = RowView(rows_of(read))
    assert (view.describe().label, view.matching) == ("all 900 rows", 900)
    view.close()


def test_a_filter_of_a_result_is_described_and_counted(odps, frame):
    view = RowView(rows_of(odps.sql("select * from explore_filters")), sample=600, seed=1)
    view.filter("ratio", low=0.5)
    wanted = int((frame["ratio"] >= 0.5).sum())
    profile = view.describe()
    assert profile.label == "sample of 600 rows"
    assert view.count(2**40) == wanted
    assert view.describe_all(progress=False).rows == wanted
    view.close()


def test_a_profile_of_filtered_rows_is_bounded_in_time(faulty_odps, stalled, monkeypatch):
    monkeypatch.setattr("odps_nb.notebook.explore.profiles.sampling.SAMPLE_SECONDS", 0.2)
    view = RowView(rows_of(faulty_odps.table("orders").read(["id", "note"])))
    view.choose(Choice(conditions=("note = 'no such text'",)))
    profile = view.describe()
    assert (profile.label, view.matching) == ("sample of 0 rows", None)
    stalled()
    view.close()


@pytest.mark.parametrize(("total", "sample"), [(2_048_000, 64_000), (999, 8_000), (5, 2), (70, 1)])
def test_ranges_of_a_sample_cover_all_rows_once_and_are_spread(total, sample):
    parts, again = (RandomParts(total, sample, seed=1) for _ in range(2))
    rounds = list(iter(lambda: parts.take(sample // 3), []))
    assert rounds == list(iter(lambda: again.take(sample // 3), []))
    ranges = sorted(one for ranges in rounds for one in ranges)
    assert ranges[0][0] == 0
    assert all(a[0] + a[1] == b[0] for a, b in itertools.pairwise(ranges))
    assert sum(ranges[-1]) == total
    for ranges in rounds[:-1]:
        assert len(ranges) >= min(64, max(1, sample // 500))


# -- the messages of an explorer -----------------------------------------------------------------


@pytest.fixture
def live(odps, frame):
    made = exploring.explore(odps.table("explore_filters").read(), seed=1)
    made._widget = browser = Browser()
    made.receive({"do": "ready"})
    browser.wait("idle", task="profile")
    yield made, browser
    made.close()


def _ask(column, op, *values, **others):
    message = {"column": list(TYPES).index(column), "op": op, "values": list(values)}
    return {"do": "filter", **message, "exclude": False, "below": False, "index": None, **others}


def test_a_filter_updates_the_rows_the_count_and_the_profile(live, frame):
    explorer, browser = live
    browser.forget()
    explorer.receive(_ask("small", "range", "1,0", "20"))
    assert "'1,0' is not a whole number" in browser.wait("problem", task="page")[0]["text"]
    explorer.receive(_ask("small", "range", "", "-1", below=True))
    page = browser.wait("page")[0]
    (chip,) = page["conditions"]
    assert (chip["text"], chip["where"]) == ("small < -1", "small < (-1)")
    assert not page["profiled"]
    wanted = int((frame["small"] < -1).sum())
    assert browser.wait("count", total=wanted)[0]["rows"] == f"{wanted:,} of 3,000 rows"
    profile = browser.wait("profile")[0]
    assert profile["label"] == f"all {wanted:,} rows"
    assert all(len(bar) == 3 for column in profile["columns"] for bar in column["bars"])
    browser.wait("idle", task="profile")
    browser.forget()
    explorer.receive(
        {**chip["edit"], "do": "filter", "exclude": True, "index": 0, "where": chip["where"]}
    )
    assert [one["text"] for one in browser.wait("page")[0]["conditions"]] == ["small not < -1"]


def test_the_static_view_follows_the_filter(live, frame):
    explorer, browser = live
    browser.forget()
    explorer.receive(_ask("id", "values", "17"))
    browser.wait("page", rows="1 of 3,000 rows")
    browser.wait("idle", task="profile")
    text = exploring.shown_bundle(
        exploring.Shown(view=explorer.view, page=explorer._static[0], profile=explorer.view.profile)
    )["text/plain"]
    assert "1 of 3,000 rows" in text
    assert "filter: id is 17 · profile: the only row" in text


def test_requests_for_invalid_filters_are_reported_and_change_nothing(live):
    explorer, browser = live
    for message in (
        _ask("id", "range", "1"),
        _ask("id", "values"),
        _ask("id", "values", *map(str, range(101))),
        _ask("id", "no such"),
        _ask("word", "values", "x" * 2000),
        _ask("word", "values", "\ud800"),
        _ask("id", "null", index=3),
        {**_ask("id", "null"), "column": 99},
        {"do": "filter"},
        {"do": "bar", "column": 0, "bar": 0, "label": "another"},
    ):
        browser.forget()
        explorer.receive(message)
        browser.wait("problem", task="page")
    assert explorer.view.choice == Choice()


@pytest.mark.parametrize(
    ("op", "values", "where"),
    [
        ("range", ["100", ""], "amount >= 100"),
        ("range", ["", "-7.00"], "amount <= (-7)"),
        ("values", ["1e2"], "amount = 100"),
        ("values", ["100", "7"], "amount in (100, 7)"),
        ("range", ["100", "100.5"], "amount >= 100 and amount <= CAST('100.5' AS DECIMAL(4,1))"),
        (
            "values",
            ["10000000000000000000"],
            "amount = CAST('10000000000000000000' AS DECIMAL(20,0))",
        ),
    ],
)
def test_an_integer_in_a_condition_on_decimals_is_a_plain_literal(op, values, where):
    amount = Column(name="amount", type=parse_type("decimal(38,2)"))
    assert typed_condition(amount, op, values).where == where


def test_a_range_in_a_chip_shows_whether_its_end_is_included():
    amount = Column(name="amount", type=parse_type("bigint"))
    words = {
        below: typed_condition(amount, "range", ["1", "2"], below=below).text
        for below in (True, False)
    }
    assert words == {True: "amount ≥ 1 and < 2", False: "amount 1–2"}
