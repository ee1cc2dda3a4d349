"""The search of an explorer finds displayed text, and rows can be sorted by several columns."""

import datetime
import json
import re
from decimal import Decimal

import pyarrow as pa
import pytest

from odps_nb.access.paging.browsing import rows_of
from odps_nb.access.paging.ordering import MAX_SORTED, can_be_sorted
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.read.splits import RowPlace
from odps_nb.errors import ArgumentError, CancelledError
from odps_nb.notebook.explore import explorer as exploring
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.choosing.search import TextSearch
from odps_nb.notebook.explore.pages import Mark
from odps_nb.notebook.explore.values.cells import cell_texts, kind_of
from odps_nb.notebook.explore.view import RowView
from odps_nb.schema import TypeCode
from odps_nb.wire.type_text import parse_columns
from tests.support.messages import Browser
from tests.support.views import all_ids, ids

ROWS = 1400
WORDS = [
    *("Straße", "STRASSE", "İstanbul", "ΣΊΣΥΦΟΣ", "\u212aelvin", "50%_a\\b", 'say "hi"', "it's"),
    *("two\nlines", "\u676d\u5dde Hangzhou", "null", "", None, "x" * 5000 + "END"),
]
FLOATS = [0.0, -0.5, 2e9, 1e20, -1e-7, 123456789012.5, 1 / 3, float("nan"), float("-inf")]


@pytest.fixture(scope="module")
def written(odps):
    """Rows with all kinds of text, also inside nested values, with nulls everywhere."""
    name = "explore_search"
    some = [WORDS[n % len(WORDS)] for n in range(ROWS)]
    place = [None if n % 11 == 0 else {"city": one, "zip": n} for n, one in enumerate(some)]
    rows = pa.table(
        {
            "id": pa.array(range(ROWS)),
            "word": pa.array(some),
            "amount": pa.array(
                [None if n % 9 == 4 else Decimal(n * 977).scaleb(-2) for n in range(ROWS)],
                pa.decimal128(18, 2),
            ),
            "share": pa.array([None if n % 10 == 3 else n % 7 / 8 for n in range(ROWS)]),
            "seen": pa.array(
                [
                    datetime.datetime(2024, 1, 1) + datetime.timedelta(milliseconds=n * 250)
                    for n in range(ROWS)
                ]
            ),
            "flag": pa.array([None if n % 5 == 1 else n % 2 == 0 for n in range(ROWS)]),
            "place": pa.array(place, pa.struct([("city", pa.string()), ("zip", pa.int64())])),
            "tags": pa.array([[one, None, "z"] for one in some]),
            "pairs": pa.array(
                [None if one is None else [(one, n % 100)] for n, one in enumerate(some)],
                pa.map_(pa.string(), pa.int64()),
            ),
            "raw": pa.array([None if n % 3 else b"\x01\xff" * (40 << n % 7) for n in range(ROWS)]),
            "points": pa.array([[n / 4, None, FLOATS[n % len(FLOATS)]] for n in range(ROWS)]),
        }
    )
    columns = "id bigint, word string, amount decimal(18,2), share double, seen datetime, "
    columns += "flag boolean, place struct<city:string,zip:bigint>, tags array<string>, "
    odps.create_table(
        name, columns + "pairs map<string,bigint>, raw binary, points array<double>"
    ).write(rows)
    yield rows
    odps.drop_table(name)


@pytest.fixture
def view(odps, written):
    view = RowView(rows_of(odps.table("explore_search").read()), seed=1)
    yield view
    view.close()


def displayed(batch, columns):
    """Return the complete text of each cell, row by row, and whether the cell is a time."""
    found, times = [], ("INSTANT", "CLOCK")
    for row in range(batch.num_rows):
        cells = [
            (cell_texts(batch.column(n).slice(row, 1), one, 10**6)[0], kind_of(one) in times)
            for n, one in enumerate(columns)
            if one.type.code is not TypeCode.BLOB
        ]
        found.append([(text, is_time) for text, is_time in cells if text is not None])
    return found


def search_texts(texts):
    """Return a few substrings of each text in upper, lower and original case."""
    found = {}
    for text in texts:
        third = len(text) // 3
        for part in (text, text[third : 2 * third + 1], text[-3:], text[:2]):
            if part := part.strip():
                found |= dict.fromkeys((part, part.upper(), part.swapcase()))
    return list(found)


@pytest.fixture(scope="module")
def shown(odps, written):
    """The displayed text of all rows."""
    rows = rows_of(odps.table("explore_search").read())
    return [cells for batch in rows.every() for cells in displayed(batch, rows.columns)]


def padded(text, needle):
    """Return a time with at least as many fractional digits as the search text."""
    digits = re.search(r"\.(\d+)", needle)
    head, fraction, zone = re.fullmatch(r"(.*:\d\d)(?:\.(\d+))?([+-].*)?", text).groups()
    fraction = (fraction or "").ljust(len(digits[1]) if digits else 0, "0")
    return head + (f".{fraction}" if fraction else "") + (zone or "")


def expected(texts, needle):
    return [
        row
        for row, cells in enumerate(texts)
        if any(
            needle.casefold() in (padded(text, needle) if is_time else text).casefold()
            for text, is_time in cells
        )
    ]


# -- search ---------------------------------------------------------------------------------------


_ITEMS = {
    "float": (pa.float32(), [0.1, 1 / 3, 123456.789, 1e-5, 1e20, 2.0, float("nan")]),
    "double": (pa.float64(), [0.1, 1 / 3, 999999999.5, 1e-4, 1e16, -0.0, float("inf")]),
    "bigint": (pa.int64(), [0, -5, 1234567]),
    "decimal(10,2)": (pa.decimal128(10, 2), [Decimal("-228.89"), Decimal(600)]),
    "string": (pa.string(), ["x, y", 'a "b"', "Stra\xdfe", "k: v", " before", "two\nlines"]),
    "binary": (pa.binary(), [b"", b"\x0b\xa1", bytes(range(40))]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [datetime.datetime(2024, 1, 31, 10, 5, 0, 70), 253_402_300_800_000_000],  # the year 10000
    ),
    "struct<zip:bigint>": (pa.struct([("zip", pa.int64())]), [{"zip": 1}]),
    "struct<`\x01`:bigint>": (pa.struct([("\x01", pa.int64())]), [{"\x01": 2}]),
}


@pytest.mark.parametrize("kind", _ITEMS)
def test_every_part_of_a_displayed_array_item_finds_its_rows(kind: str) -> None:
    item, values = _ITEMS[kind]
    (column,) = parse_columns(f"c array<{kind}>")
    array = pa.array([[value] for value in values] + [None, []], pa.list_(item))
    shown = [text or "" for text in cell_texts(array, column, 1000)]
    rows = pa.record_batch([array, pa.array(range(len(array)))], names=["c", "row"])
    parts = {text[at:end] for text in shown for at in range(len(text)) for end in (at + 1, at + 4)}
    for part in parts:
        wanted = [row for row, text in enumerate(shown) if part.casefold() in text.casefold()]
        found = TextSearch([column], part).apply(rows)["row"].to_pylist()
        assert found == [row for row in wanted if array[row].is_valid], part


def test_blobs_never_match():
    rows = pa.record_batch([pa.array(["token", None], pa.string())], names=["c"])
    assert not TextSearch(parse_columns("c blob"), "token").apply(rows).num_rows
    assert TextSearch(parse_columns("c string"), "token").apply(rows).num_rows == 1


def test_values_that_arrow_cannot_convert_to_text_are_found():
    rows = pa.record_batch([pa.array([(1, 2, 3)], pa.month_day_nano_interval())], names=["c"])
    assert TextSearch(parse_columns("c interval_day_time"), "days=2").apply(rows).num_rows == 1


@pytest.mark.gate(1)
@pytest.mark.parametrize("table", ["types_all", "explore_search", "orders"])
def test_a_search_finds_exactly_the_rows_that_show_the_text(odps, written, table):
    rows = rows_of(odps.table(table).read())
    batch = next(iter(rows.every())).slice(0, 8)
    texts = displayed(batch, rows.columns)
    seen = {text for cells in texts for text, _ in cells}
    assert len(seen) > 40
    numbered = batch.append_column("row", pa.array(range(batch.num_rows)))
    for needle in search_texts(sorted(seen)):
        found = TextSearch(rows.columns, needle).apply(numbered).column("row").to_pylist()
        assert found == expected(texts, needle), needle


@pytest.mark.gate(4)
@pytest.mark.parametrize(
    "needle",
    [
        *(
            "strasse",
            "STRASSE",
            "i\u0307stanbul",
            "σίσυφος",
            "kelvin",
            "%_A\\B",
            'SAY "HI"',
            "IT'S",
        ),
        *("two\nlines", "hangzhou", "NULL", "end", '", null, "z', '{"CITY"', "zip", "true", "nan"),
        *("0x01ff01", "(80 B)", "97.70", "0.625", "00:00:00.250", "00:00:01.5", ".500"),
        *("2024-01-01", "2024-01-02"),
    ],
)
def test_a_search_agrees_with_pandas_on_displayed_texts(view, shown, needle):
    view.choose(Choice(search=needle))
    found = all_ids(view)
    assert found == expected(shown, needle)
    assert view.total == len(found)
    assert view.searched == ROWS
    assert bool(found) is (needle != "2024-01-02")


def test_numbers_are_found_with_separators(view, written):
    wanted = [n for n, one in enumerate(written["amount"].to_pylist()) if one == Decimal("1250.56")]
    view.choose(Choice(search="1,250.56"))
    assert all_ids(view) == wanted == [128]


def test_a_search_and_conditions_are_combined_and_users_can_page_back(view, written):
    view.choose(Choice(conditions=("id >= 100",), search="z"))
    everything = all_ids(view)
    assert everything == list(range(100, ROWS))
    view._shown.pager._pages.clear()
    for start in (1200, 500, 0, 800):
        assert ids(view.page(start)) == everything[start : start + 100]
        view._shown.pager._pages.clear()
    assert view.where == "id >= 100"


def test_a_read_with_a_limit_and_a_query_result_can_be_searched(odps, written):
    for source in (
        odps.table("explore_search").read(limit=50),
        odps.sql("select * from explore_search where id < 50 order by id"),
    ):
        view = RowView(rows_of(source))
        view.choose(Choice(search="HANGZHOU"))
        assert all_ids(view) == [n for n in range(50) if n % len(WORDS) == 9]
        assert view.searched == 50
        assert view.cell(1, 0) == ("23", False)
        view.close()


def test_the_code_of_a_view_says_that_it_does_not_contain_the_search(view, odps):
    view.choose(Choice(conditions=("id < 30",), search="hangzhou"))
    assert view.code.endswith("  # without the search")
    assert eval(view.code, {"odps": odps}).to_arrow().num_rows == 30  # noqa: S307
    view.choose(Choice(search="hangzhou", order=(("id", True),)))
    assert view.code.endswith("  # without the search and the order")


# -- orders ---------------------------------------------------------------------------------------


def sorted_ids(rows, order):
    """Return the ids of the sorted rows, in which a null is less than every value."""
    for name, descending in reversed(order):
        empty = {"word": "", "seen": datetime.datetime.min}.get(name, 0)
        rows = sorted(
            rows,
            key=lambda row, name=name, empty=empty: (row[name] is not None, row[name] or empty),
            reverse=descending,
        )
    return [row["id"] for row in rows]


ORDERS = [
    (("share", False), ("id", True)),
    (("flag", True), ("share", True), ("id", False)),
    (("amount", True), ("id", False)),
    (("word", False), ("id", True)),
    (("seen", True),),
]


@pytest.mark.gate(3)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("search", ["", "hangzhou"])
def test_rows_are_sorted_by_several_columns_with_nulls_below_all_values(
    view, written, order, search
):
    kept = [row for row in written.to_pylist() if not search or row["id"] % len(WORDS) == 9]
    view.choose(Choice(search=search, order=order))
    assert view.total == len(kept)
    assert all_ids(view) == sorted_ids(kept, order)
    assert ("SQL job" in view.note) is (not search)


def test_a_sorted_search_has_the_first_rows_of_all_that_match(odps, new_name):
    name, rows = new_name("many"), 3 * MAX_SORTED
    table = odps.create_table(name, "id bigint, word string")
    table.write(pa.table({"id": range(rows), "word": ["match"] * rows}))
    view = RowView(rows_of(table.read()))
    view.choose(Choice(search="MATCH", order=(("id", True),)))
    assert (view.total, view.searched) == (MAX_SORTED, rows)
    assert ids(view.page(9_950)) == list(range(20_099, 19_999, -1))
    assert "the first 10,000 rows" in view.note


@pytest.mark.parametrize("search", ["", "a"])
@pytest.mark.parametrize(
    "table",
    ["types_all", "explore_search", pytest.param("media", marks=pytest.mark.storage_api("blobs"))],
)
def test_a_view_can_be_sorted_by_exactly_the_columns_shown_as_sortable(
    odps, written, table, search
):
    view = RowView(rows_of(odps.table(table).read()))
    flags = [one["sortable"] for one in exploring.table_message(view)["columns"]]
    assert flags == [can_be_sorted(one) for one in view.columns]
    both = list(zip(view.columns, flags, strict=True))
    order = tuple((one.name, True) for one, sortable in both if sortable)
    view.choose(Choice(search=search, order=order))
    assert view.page(0).count
    for name in (one.name for one, sortable in both if not sortable):
        with pytest.raises(ArgumentError, match="values have no order"):
            view.choose(Choice(search=search, order=((name, True),)))
    view.close()


# -- messages -------------------------------------------------------------------------------------


@pytest.fixture
def live(odps, written):
    made = exploring.explore(odps.table("explore_search").read(), seed=1)
    made._widget = browser = Browser()
    yield made, browser
    made.close()


def messages_of(browser, kind):
    return [one for one, _ in browser.messages if one["kind"] == kind]


def test_a_search_reports_its_progress_and_reports_no_match_only_at_the_end(live, monkeypatch):
    explorer, browser = live
    monkeypatch.setattr(exploring, "TELL_SECONDS", 0)
    explorer.receive({"do": "search", "text": "no such text"})
    browser.wait("idle", task="page")
    (page,) = messages_of(browser, "page")
    assert (page["count"], page["total"], page["searched"]) == (0, 0, ROWS)
    busy = messages_of(browser, "busy")
    assert busy[-1]["text"] == "searching: 1,400 of 1,400 rows"
    assert busy[-1]["share"] == 1


def test_a_filter_reports_the_number_of_rows_read_until_the_page_arrives(odps, view):
    progress = []
    view.tell_tested = lambda *said: progress.append(said)
    view.filter("word", contains="no such text")
    assert view.page(0).count == 0
    assert progress[-1] == ("filtering", ROWS, ROWS)
    result = RowView(rows_of(odps.sql("select * from explore_search")), seed=1)
    result.tell_tested = lambda *said: progress.append(said)
    result.filter("word", contains="no such text")
    assert result.page(0).count == 0
    assert progress[-1] == ("filtering", ROWS, ROWS)
    result.close()


def test_the_progress_of_a_filter_from_a_later_row_has_no_total(view):
    progress = []
    view.tell_tested = lambda *said: progress.append(said)
    view.filter("id", low=0)
    begin = Mark(start=500, place=RowPlace(0, 500), searched=500)
    assert (
        sum(batch.num_rows for _, batch in view._shown.pager.matches(begin, CancelToken())) == 900
    )
    assert progress[-1] == ("filtering", 900, None)


def test_no_progress_is_reported_between_two_pages(odps, view):
    progress = []
    view.tell_tested = lambda *said: progress.append(said)
    view.filter("id", low=0)
    view.page(0)
    before = [*progress]
    view._shown.pager._count_tested(5)  # rows are still read ahead
    assert progress == before
    view.page(view.page_rows)
    assert view.page(0).count == view.page_rows


def test_an_expensive_sort_needs_confirmation_again_after_the_filter_changed(live, monkeypatch):
    explorer, browser = live
    monkeypatch.setattr(exploring, "ASK_BYTES", 0)
    explorer.receive({"do": "sort", "order": [[3, True], [0, False]]})
    question, _ = browser.wait("cost", task="page")
    assert question["text"].startswith("reads ")
    browser.wait("idle", task="page")
    assert (messages_of(browser, "page"), explorer.view.choice) == ([], Choice())
    explorer.receive({"do": "agree"})
    page, buffers = browser.wait("page", start=0)
    assert page["order"] == [[3, True], [0, False]]
    assert json.loads(buffers[0])[3][0] == "0.75"
    browser.messages.clear()
    explorer.receive({"do": "search", "text": "hangzhou"})  # no SQL job was started
    browser.wait("page", start=0)
    assert messages_of(browser, "cost") == []


def test_cancelling_a_search_restores_the_previous_rows(faulty_odps, stalled, monkeypatch):
    monkeypatch.setattr(exploring, "TELL_SECONDS", 0)
    explorer = exploring.explore(faulty_odps.table("orders").read(), seed=1)
    explorer._widget = browser = Browser()
    before = explorer.view.page(0)
    explorer.receive({"do": "search", "text": "no such text"})
    browser.wait("busy", task="page")
    explorer.receive({"do": "cancel", "task": "page"})
    browser.wait("problem", text="cancelled")
    browser.wait("idle", task="page")
    stalled()
    assert explorer.view.choice == Choice()
    assert explorer.view.page(0).columns == before.columns
    explorer.close()


def test_a_search_can_be_cancelled_by_its_token(view):
    token = CancelToken()
    view.tell_tested = lambda what, rows, total: token.cancel()
    view.choose(Choice(search="no such text"))
    with pytest.raises(CancelledError):
        view.page(0, token)
    assert view.page(0).count == 0
