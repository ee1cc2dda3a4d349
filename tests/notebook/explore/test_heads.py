"""Filters, searches, orders and expired sessions can be combined in one view."""

from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest

from odps_nb.access.paging.browsing import rows_of
from odps_nb.client.read.requests import Downloads
from odps_nb.errors import ArgumentError
from odps_nb.notebook.explore import explorer as exploring
from odps_nb.notebook.explore.charts.choice import choose
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.choosing.conditions import make_condition
from odps_nb.notebook.explore.choosing.search import MAX_SORTED, first_in_order
from odps_nb.notebook.explore.static import Shown, shown_bundle
from odps_nb.notebook.explore.view import RowView
from tests.support.messages import Browser
from tests.support.views import ids

ROWS = 600
LARGE = Decimal("12345678901234567890123456789012345678")
NOT_FINITE = [float("nan"), float("inf"), float("-inf")]
BY_ID = (("id", True),)


def expired(session):
    """Return a session over a result whose id the service no longer has."""
    source = session.source
    if isinstance(source, Downloads):
        parts = tuple(replace(part, download_id="0" * 32) for part in source.parts)
        return replace(session, source=replace(source, parts=parts))
    return replace(session, source=replace(source, session_id="0" * 32))


@pytest.fixture(scope="module")
def table(odps):
    made = odps.create_table(
        "explore_together", "id bigint, word string, share double, whole decimal(38,0)"
    )
    made.write(
        pa.table(
            {
                "id": range(ROWS),
                "word": [f"word {n % 7}" for n in range(ROWS)],
                "share": [NOT_FINITE[n] if n < 3 else n / 4 for n in range(ROWS)],
                "whole": [LARGE if n == 5 else Decimal(n) for n in range(ROWS)],
            }
        )
    )
    yield made
    odps.drop_table("explore_together")


@pytest.fixture
def view(table):
    view = RowView(rows_of(table.read()), seed=1)
    yield view
    view.close()


@pytest.fixture
def live(table):
    made = exploring.explore(table.read(), seed=1)
    made._widget = browser = Browser()
    made.receive({"do": "ready"})
    browser.wait("idle", task="profile")
    yield made, browser
    made.close()


def test_a_sorted_search_without_matches_shows_no_rows(view):
    view.choose(Choice(search="no such text", order=BY_ID))
    assert view.page(0).count == 0
    assert view.to_arrow().num_rows == 0


def test_the_first_rows_in_order_are_found_in_batches_of_any_size():
    schema = pa.schema([("id", pa.int64())])
    empty = pa.record_batch([pa.array([], pa.int64())], schema=schema)
    single = [pa.record_batch([[n]], schema=schema) for n in range(2 * MAX_SORTED + 500)]
    batches = [one for pair in zip(single, [empty] * len(single), strict=True) for one in pair]
    found = first_in_order(iter(batches), BY_ID)
    values = pa.Table.from_batches(found.batches()).column("id").to_pylist()
    assert values == list(range(len(single) - 1, len(single) - 1 - MAX_SORTED, -1))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("share", [None, float("-inf"), 1.0, float("nan")]), ("word", [None, "a", "b", "c"])],
)
@pytest.mark.parametrize("descending", [False, True])
def test_rows_in_memory_are_sorted_as_sql_sorts_them(name, wanted, descending):
    batches = [
        pa.record_batch({"share": share, "word": pa.array(word).dictionary_encode()})
        for share, word in (
            ([float("nan"), None], ["c", "a"]),
            ([1.0, float("-inf")], [None, "b"]),
        )
    ]
    found = first_in_order(iter(batches), ((name, descending),))
    values = pa.Table.from_batches(found.batches()).column(name).to_pylist()
    assert str(values[::-1] if descending else values) == str(wanted)


@pytest.mark.parametrize("number", range(3))
def test_a_filter_by_a_cell_with_nan_or_infinity_selects_its_row(view, number):
    view.choose(view.value(number, 2, exclude=False))
    (chip,) = view.choice.conditions
    assert chip.text == "share NaN or infinite"
    assert ids(view.page(0)) == [0, 1, 2]
    assert view.count(2**40) == 3
    view.choose(Choice())
    view.choose(view.value(number, 2, exclude=True))
    assert view.count(2**40) == ROWS - 3


def test_a_chip_shows_all_digits_of_a_number(view):
    view.choose(view.value(5, 3, exclude=False))
    assert view.choice.conditions[0].text == f"whole is {int(LARGE):,}"
    assert ids(view.page(0)) == [5]


def test_an_excluded_value_keeps_the_other_filters_of_its_column(view):
    view.filter("id", low=2, high=6)
    view.choose(view.value(1, 0, exclude=True))
    assert ids(view.page(0)) == [2, 4, 5, 6]
    view.choose(view.value(1, 0, exclude=True))
    assert ids(view.page(0)) == [2, 5, 6]
    assert len(view.choice.conditions) == 2  # excluded values share one condition
    view.choose(view.value(1, 0, exclude=False))
    assert ids(view.page(0)) == [5]


def expire(view):
    """Replace the session ids of a view with ids that the service does not have."""
    for rows in (view._rows, view._shown.rows):
        if (result := getattr(rows, "_result", None)) is not None:
            while result._whole is not None:
                result = result._whole
            result._session = expired(result._open(None))
        if (scan := getattr(rows, "_scan", None)) is not None:
            for one in {scan, rows._chosen[1] if rows._chosen else scan}:
                one._session = replace(one._opened(), session_id="0" * 32)


def searched(view):
    view.choose(replace(view.choice, search="word 3", order=()))
    return ROWS if view.page(0).count == len(range(3, ROWS, 7)) else 0


def searched_in_order(view):
    view.choose(replace(view.choice, search="word", order=BY_ID))
    return view.total


def charted(view):
    choice = choose(view.columns, "word")
    cost, _ = view.chart_cost(choice)
    return view.chart(choice, by_query=cost is not None).to_pandas()["rows"].sum()


FIRST_READS = {
    "page": lambda view: view.page(100).count * 6,
    "profile": lambda view: view.describe().rows,
    "whole profile": lambda view: view.describe_all(progress=False).rows,
    "export": lambda view: view.to_arrow(progress=False).num_rows,
    "to_pandas": lambda view: len(view.to_pandas(progress=False)),
    "cell": lambda view: 600 if view.cell(205, 1)[0].startswith("word ") else 0,
    "copy": lambda view: len(view.texts(300, 100, [1])[0][0]) * 6,
    "menu": lambda view: 600 if view.value(205, 1, exclude=False).where else 0,
    "search": searched,
    "search in order": searched_in_order,
    "first rows": lambda view: sum(b.num_rows for b in view.first_rows(600, seconds=60)),
    "chart": charted,
}


@pytest.mark.gate(2)
@pytest.mark.parametrize("kind", ["table", "read", "filtered", "sorted", "result"])
def test_a_read_after_the_session_expired_opens_a_new_session(odps, table, kind):
    for name, read in FIRST_READS.items():
        if kind == "result":
            source = odps.sql("select * from explore_together")
        else:
            source = table.read(where="id >= 0") if kind == "read" else table.read()
        view = RowView(rows_of(source), seed=1)
        view.page(0)
        if kind == "filtered":
            view.filter("id", low=0)
        if kind == "sorted":
            view.choose(Choice(order=BY_ID))
        view.page(0)
        expire(view)
        assert read(view) == ROWS, name
        expire(view)
        assert view.page(500).count == (86 if name == "search" else 100), name
        view.close()


def test_a_result_is_read_again_after_its_session_expired(odps):
    result = odps.sql("select * from explore_together")
    for read, count in ((result, ROWS), (result.first(50), 50), (result._replacing(), ROWS)):
        result._session = expired(result._open(None))
        assert len(read.to_pandas()) == count


@pytest.mark.storage_api("versions")
def test_the_code_of_an_incremental_read_reads_the_same_rows(odps, new_name):
    name = new_name("since")
    odps.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL, v STRING, PRIMARY KEY (id))"
        " TBLPROPERTIES ('transactional'='true', 'acid.cdc.mode.enable'='true')"
    )
    table = odps.table(name)
    for number in range(3):
        table.upsert(pa.table({"id": [number], "v": [str(number)]}))
    for options in ({"since": 2}, {"since": 2, "until": 3}, {"since": 2, "changes": True}):
        view = RowView(rows_of(table.read(**options)))
        names = {"odps": odps}
        exec(f"found = {view.code}", names)
        again = names["found"].to_arrow(progress=False)
        assert again.equals(view.to_arrow(progress=False))
        assert again.num_rows < 3


def test_a_click_on_a_filter_that_was_removed_changes_nothing(live):
    explorer, browser = live
    for ask in (
        {"do": "unfilter", "index": 0, "where": "id = 1"},
        {"do": "filter", "column": 0, "op": "null", "values": [], "exclude": False, "below": False}
        | {"index": 7, "where": ""},
    ):
        browser.forget()
        explorer.receive(ask)
        assert "the filters have changed" in browser.wait("problem")[0]["text"]
    assert explorer.view.choice == Choice()


def test_a_profile_states_that_it_ignores_the_search(live):
    explorer, browser = live
    view = explorer.view
    explorer.receive({"do": "search", "text": "word 3"})
    assert browser.wait("page", search="word 3")[0]["unprofiled"] == ", without the search"
    shown = shown_bundle(Shown(view=view, page=view.page(0), profile=view.profile))
    assert "profile: all 600 rows, without the search" in shown["text/html"]
    browser.forget()
    explorer.receive({"do": "search", "text": ""})
    assert browser.wait("page", search="")[0]["unprofiled"] == ""


def test_after_two_quick_changes_profile_and_count_are_those_of_the_last(live):
    explorer, browser = live
    browser.forget()
    condition = {"column": 0, "op": "range", "values": ["0", "99"], "index": None}
    explorer.receive({"do": "filter", **condition, "exclude": False, "below": False})
    explorer.receive({"do": "search", "text": "word 3"})
    explorer.receive({"do": "filter", **condition, "exclude": False, "below": False})
    browser.wait("profile", label="all 100 rows")
    browser.wait("count", rows="100 of 600 rows")
    assert explorer.view.is_profiled


def test_paging_works_after_a_sort_that_was_not_confirmed(live, monkeypatch):
    explorer, browser = live
    explorer.receive(
        {"do": "filter", "column": 0, "op": "range", "values": ["0", ""], "index": None}
        | {"exclude": False, "below": False}
    )
    browser.wait("count", rows="600 of 600 rows")
    monkeypatch.setattr(exploring, "ASK_BYTES", -1)
    explorer.receive({"do": "sort", "order": [[0, True]]})
    browser.wait("cost", task="page")
    browser.forget()
    explorer.receive({"do": "page", "start": 500})
    assert browser.wait("page", start=500)[0]["count"] == 100
    assert not any(content["kind"] == "problem" for content, _ in browser.messages)


def test_rows_of_an_explorer_selection_cannot_be_explored(odps):
    selected = odps.sql("select 1 as n").explore().selected()
    with pytest.raises(ArgumentError, match="cannot be shown in another explorer"):
        selected.explore()
    with pytest.raises(ArgumentError, match="cannot be shown in another explorer"):
        selected.chart("n")


def test_the_error_names_an_invalid_argument_of_a_view(view, odps, new_name):
    with pytest.raises(ArgumentError, match="contains is of type int"):
        view.filter("word", contains=5)
    for wrong in ({"conditions": "id = 1"}, {"order": "id"}):
        with pytest.raises(ArgumentError, match="must be tuples"):
            Choice(**wrong)
    name = new_name("single")
    table = odps.create_table(name, "x float, raw binary")
    single = table.schema.find("x")
    for value in ("x", 1e300):
        with pytest.raises(ArgumentError, match="does not fit into the FLOAT column 'x'"):
            make_condition(single, "values", [value])
    table.write(pa.table({"x": [1.5], "raw": [b"a"]}))
    with pytest.raises(ArgumentError, match="binary values have no order"):
        RowView(rows_of(table.read())).choose(Choice(order=(("raw", False),)))
