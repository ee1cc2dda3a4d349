"""A `RowView` has pages, filters, orders and profiles of the rows of the service."""

import datetime
import itertools
import threading
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
import pytest

from odps_nb import ClientOptions
from odps_nb.access.paging.browsing import _ScanRows, rows_of
from odps_nb.access.paging.ordering import name_in_sql
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import ArgumentError, CancelledError, OdpsNbWarning
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.messages import page_message
from odps_nb.notebook.explore.pages import CACHE_BYTES
from odps_nb.notebook.explore.profiles.sampling import RandomParts
from odps_nb.notebook.explore.view import RowView
from tests.support.any_bytes import send, text_of
from tests.support.service.connecting import connected
from tests.support.spark.watched import wait_until_injected
from tests.support.threads import end_when_stopped
from tests.support.views import all_ids, ids

ROWS = 3000


@pytest.fixture(scope="module")
def written(odps):
    """A table with known rows."""
    name = "explore_view"
    texts = [None if n % 7 == 0 else f"50%_{n % 40}" for n in range(ROWS)]
    rows = pa.table(
        {
            "id": pa.array(range(ROWS)),
            "part": pa.array([["red", "green", "it's"][n % 3] for n in range(ROWS)]),
            "amount": pa.array([Decimal(n).scaleb(-2) for n in range(ROWS)], pa.decimal128(18, 2)),
            "share": pa.array([n / 8 for n in range(ROWS)]),
            "day": pa.array([datetime.date(2024, 1, 1 + n % 28) for n in range(ROWS)]),
            "seen": pa.array(
                [datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=n) for n in range(ROWS)]
            ),
            "flag": pa.array([n % 5 == 0 for n in range(ROWS)]),
            "word": pa.array(texts),
            "tags": pa.array([["a", str(n)] for n in range(ROWS)]),
            "order": pa.array([n % 15 for n in range(ROWS)]),
        }
    )
    columns = "id bigint comment 'a number', part string, amount decimal(18,2), share double, "
    columns += "day date, seen datetime, flag boolean, word string, tags array<string>, "
    table = odps.create_table(name, columns + "`order` bigint")
    table.write(rows)
    yield rows
    odps.drop_table(name)


@pytest.fixture
def view(odps, written):
    view = RowView(rows_of(odps.table("explore_view").read()), seed=1)
    yield view
    view.close()


# -- pages --------------------------------------------------------------------------------------


def test_a_page_has_the_rows_of_its_number(view):
    assert view.total == ROWS
    assert ids(view.page(0)) == list(range(100))
    assert ids(view.page(2950)) == list(range(2900, 3000))  # starts at a multiple of 100
    assert ids(view.page(10**9)) == list(range(2900, 3000))
    assert ids(view.page(-5)) == list(range(100))


def test_columns_have_their_comments_and_cells_are_texts(view):
    assert view.columns[0].comment == "a number"
    cells = [column[7] for column in view.page(0).columns]
    assert cells == [
        *("7", "green", "0.07", "0.875", "2024-01-08", "2024-01-01 00:07:00", "false"),
        *(None, '["a", "7"]', "7"),
    ]


@pytest.mark.nightly
def test_at_most_one_mebibyte_of_pages_is_cached(odps, written):
    view = RowView(rows_of(odps.table("orders").read()))
    for start in range(0, 6000, 100):
        view.page(start)
        assert view.nbytes <= CACHE_BYTES
    assert view.nbytes > CACHE_BYTES // 2
    view.choose(Choice(conditions=("quantity > 2",)))
    for start in range(0, 6000, 100):
        view.page(start)
        assert view.nbytes <= CACHE_BYTES
    view.close()
    assert view.nbytes == 0


def test_a_huge_value_is_truncated_more_in_a_page_than_in_its_cell(odps, new_name):
    table = odps.create_table(new_name("huge"), "id bigint, text string")
    table.write(pa.table({"id": [1, 2], "text": ["x" * 3_000_000, "é" * 50]}))
    view = RowView(rows_of(table.read()))
    page = view.page(0)
    assert len(page.data) < CACHE_BYTES // 4
    assert page.columns[1] == [["x" * 2000], "é" * 50]
    text, cut = view.cell(0, 1)
    assert (len(text), cut) == (100_000, True)
    assert view.cell(1, 1) == ("é" * 50, False)


@pytest.mark.storage_api("its requests")
def test_an_expired_session_is_renewed_with_a_note(odps, written):
    rows = rows_of(odps.table("explore_view").read())
    view = RowView(rows)
    view.page(0)
    scan = rows._scan
    scan._session = replace(scan._opened(), session_id="0" * 32)  # the service has no such session
    assert ids(view.page(100)) == list(range(100, 200))
    assert "newer snapshot" in view.note


# -- conditions ---------------------------------------------------------------------------------


def test_the_condition_of_a_bar_selects_exactly_the_counted_rows(view, written):
    profile = view.describe()
    assert profile.label == f"all {ROWS:,} rows"
    clicked = 0
    for n, column in enumerate(profile.columns):
        if not column.is_range:
            bars = range(min(2, len(column.bars)))
        else:
            bars = (0, 3, len(column.bars) - 1)
        for bar in bars:
            view.choose(view.bar(n, bar))
            assert len(all_ids(view)) == column.bars[bar].count, view.where
            view.choose(Choice())
            clicked += 1
    assert clicked > 15


def test_times_are_shown_and_filtered_in_the_zone_of_the_connection(service, written):
    with connected(service, timezone="Asia/Shanghai") as shanghai:
        view = RowView(rows_of(shanghai.table("explore_view").read(["id", "seen"])))
        assert view.page(0).columns[1][0] == "2024-01-01 08:00:00+08:00"
        bars = view.describe().columns[1].bars
        assert bars[0].label.startswith("2024-01-01 08:00:00+08:00 – 2024-01-01 ")
        for bar in (0, 5, len(bars) - 1):
            view.choose(view.bar(1, bar))
            assert len(all_ids(view)) == bars[bar].count, view.where


def test_nulls_can_be_selected_and_conditions_combined(view, written):
    view.describe()
    view.choose(view.bar(7, -1))
    assert all_ids(view) == list(range(0, ROWS, 7))
    view.choose(view.bar(6, 1))  # true
    assert view.where == "word is null and flag = TRUE"
    assert all_ids(view) == list(range(0, ROWS, 35))
    assert view.total == len(range(0, ROWS, 35))


def test_an_invalid_condition_is_refused_and_does_not_change_the_view(view):
    with pytest.raises(ArgumentError):
        view.choose(Choice(conditions=("no_such > 1",)))
    assert view.choice == Choice()
    assert ids(view.page(0))[:2] == [0, 1]
    with pytest.raises(ArgumentError):
        view.bar(0, 99)


@pytest.mark.parametrize(
    "call",
    [
        lambda view: view.choose("id > 1"),
        lambda view: view.choose(None),
        lambda view: view.chart("part"),
        lambda view: view.page("0"),
        lambda view: view.page(1.5),
        lambda view: view.page(),
        lambda view: view.cell(-1, 0),
        lambda view: view.cell(0, -1),
        lambda view: view.cell(0, 10),
        lambda view: view.cell(0, "part"),
        lambda view: view.texts(0, 0, [0]),
        lambda view: view.texts(0, 1, 0),
        lambda view: view.texts(0, 1, ["part"]),
        lambda view: view.texts(0, 1, [10]),
        lambda view: view.value(0, -1, exclude=False),
        lambda view: view.reference(0, 10),
        lambda view: view.bar(10, 0),
        lambda view: Choice(conditions=(5,)),
        lambda view: Choice(conditions={"id > 1"}),
        lambda view: Choice(search=5),
        lambda view: view.choose(Choice(search="\ud800")) or view.page(0),
        lambda view: Choice(order=("id",)),
        lambda view: Choice(order=(("id", "asc"),)),
        lambda view: Choice(order=None),
    ],
)
def test_a_wrong_argument_is_refused_with_a_typed_error(view, call):
    with pytest.raises(ArgumentError):
        call(view)
    assert view.choice == Choice()


def test_filtered_pages_go_back_to_pages_that_are_not_cached(view):
    view.choose(Choice(conditions=("flag",)))
    forwards = [ids(view.page(start)) for start in range(0, 600, 100)]
    assert view.page(600).start == 500  # the rows end with a full page
    assert view.total == 600
    view._shown.pager._pages.clear()
    backwards = [ids(view.page(start)) for start in range(500, -100, -100)]
    assert backwards == forwards[::-1]


def test_the_code_of_a_view_reads_the_same_rows(view, odps):
    view.choose(Choice(conditions=("`order` = 3", "part = 'red'")))
    found = eval(view.code, {"odps": odps}).to_arrow()  # noqa: S307  # our own text
    assert found["id"].to_pylist() == all_ids(view)


def test_a_condition_of_the_read_is_combined_with_those_of_the_view(odps, written):
    read = odps.table("explore_view").read(["id", "part"], where="id < 30 or id > 2990")
    view = RowView(rows_of(read))
    assert (view.total, view.all_rows) == (None, None)
    assert view.describe().label == "all 39 rows"
    assert (view.total, view.all_rows) == (39, 39)
    view.choose(Choice(conditions=("part = 'red'",)))
    assert all_ids(view) == [n for n in (*range(30), *range(2991, 3000)) if n % 3 == 0]
    assert "id < 30 or id > 2990) and (part = 'red'" in view.code
    profile = view.describe()
    assert profile.columns[0].rows == 13
    assert profile.label == "all 13 rows"


def test_a_name_that_is_invalid_in_sql_is_quoted():
    assert name_in_sql("amount") == "amount"
    assert [name_in_sql(one) for one in ("order", "a b", "a`b")] == ["`order`", "`a b`", "`a``b`"]


# -- orders -------------------------------------------------------------------------------------


def test_a_sort_is_a_sql_job_over_the_selected_rows(view, odps):
    view.choose(Choice(conditions=("part = 'red'",), order=(("amount", True),)))
    assert ids(view.page(0)) == list(range(2997, 2697, -3))
    assert view.note == "sorted by a SQL job"
    assert "order by amount desc limit 10000" in view.code
    found = eval(view.code, {"odps": odps}).to_arrow()  # noqa: S307
    assert found["id"].to_pylist() == list(range(2997, -1, -3))
    view.choose(Choice())
    assert ids(view.page(0)) == list(range(100))


def test_a_sort_by_a_column_without_order_is_refused(view, odps):
    with pytest.raises(ArgumentError, match="tags"):
        view.choose(Choice(order=(("tags", False),)))
    limited = RowView(rows_of(odps.table("explore_view").read(limit=10)))
    with pytest.raises(ArgumentError, match="whole tables"):
        limited.choose(Choice(order=(("id", False),)))
    assert limited.total == 10


# -- profiles -----------------------------------------------------------------------------------


def test_a_profile_of_all_rows_equals_that_of_a_sample_with_all_rows(view):
    sample, whole = view.describe(), view.describe_all(progress=False)
    assert whole.label == f"all {ROWS:,} rows"
    for one, other in zip(sample.columns, whole.columns, strict=True):
        assert (one.facts, one.bars, one.ends) == (other.facts, other.bars, other.ends)


def test_a_profile_cancelled_at_its_start_reads_nothing(view):
    sample, token, told = view.describe(), CancelToken(), []
    token.cancel()
    listener = SimpleNamespace(start=told.append, stop=told.append)
    with pytest.raises(CancelledError):
        view.describe_all(listener, token)
    assert told == []
    assert view.profile is sample


def test_a_profile_can_be_cancelled_after_another_was_started(faulty_odps, stalled):
    view = RowView(rows_of(faulty_odps.table("orders").read()), sample=100, seed=1)
    view.describe()
    tokens, ended, begun = [CancelToken(), CancelToken()], [], []

    def work(token, started):
        listener = SimpleNamespace(start=lambda _: started.set(), stop=lambda _: None)
        with pytest.raises(CancelledError):
            view.describe_all(listener, token)
        ended.append(token)

    for token in tokens:
        started = threading.Event()
        begun.append(threading.Thread(target=work, args=(token, started), daemon=True))
        begun[-1].start()
        assert started.wait(60)
    for n, (token, thread) in enumerate(zip(tokens, begun, strict=True)):
        token.cancel()
        thread.join(60)
        assert not thread.is_alive()
        assert ended == tokens[: n + 1]
    assert ended == tokens
    view.close()


@pytest.mark.parametrize(
    "kind", [pytest.param("table", marks=pytest.mark.storage_api("its requests")), "result"]
)
def test_a_profile_can_be_cancelled_while_it_waits_for_rows(faulty, stalled, kind):
    odps = connected(
        faulty, client_options=ClientOptions(read_timeout=600, deadline=1200)
    )  # only the cancellation can end the wait
    source = odps.table("orders").read()
    if kind == "result":
        source = odps.sql("select * from orders where ds = '2024-01-02'")
        rule = {"action": "/", "fault": "stall", "at": 1_000_000, "seconds": 600}
        stalled({**rule, "times": 0})
    view = RowView(rows_of(source), sample=100, seed=1)
    view.describe()
    token, started = CancelToken(), threading.Event()
    listener = SimpleNamespace(start=lambda _: started.set(), stop=lambda _: None)
    ended = []

    def work():
        with pytest.raises(CancelledError):
            view.describe_all(listener, token)
        ended.append(True)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert started.wait(60)
    wait_until_injected(odps)
    token.cancel()
    thread.join(60)
    assert ended == [True]
    view.close()
    odps.close()


def test_a_sample_is_random_without_overlap_and_repeatable():
    found, again, other = (RandomParts(2_048_000, 64_000, seed).take(0) for seed in (1, 1, 2))
    assert found == again
    assert found != other
    assert sum(rows for _, rows in found) == 64_000
    ends = sorted((start, start + rows) for start, rows in found)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(ends))
    assert ends[-1][1] <= 2_048_000
    whole = RandomParts(1000, 64_000, seed=None).take(0)
    assert sum(rows for _, rows in whole) == 1000


@pytest.mark.nightly
def test_every_type_has_a_profile_and_a_page(odps):
    view = RowView(rows_of(odps.table("types_all").read()))
    assert view.page(0).count == 8
    view.describe()
    for n, column in enumerate(view.profile.columns):
        for bar in range(len(column.bars)):
            try:
                view.choose(view.bar(n, bar))
            except ArgumentError:
                continue  # SQL has no literal for the value
            if not column.is_range:
                assert view.page(0).count == column.bars[bar].count, view.where
            view.choose(Choice())
    view.describe_all(progress=False)


def test_an_empty_table_has_no_rows(odps, new_name):
    view = RowView(rows_of(odps.create_table(new_name("none"), "id bigint").read()))
    assert (view.page(0).count, view.total) == (0, 0)
    assert view.describe().label == "all 0 rows"
    view.choose(Choice(search="5"))
    assert (view.page(0).count, view.total) == (0, 0)


def test_a_wide_table_shows_its_first_columns(odps, new_name):
    names = [f"c{n}" for n in range(130)]
    table = odps.create_table(new_name("wide"), ", ".join(f"{name} bigint" for name in names))
    table.write(pa.table({name: [n, n + 1] for n, name in enumerate(names)}))
    view = RowView(rows_of(table.read()))
    assert [column[1] for column in view.page(0).columns] == [str(n + 1) for n in range(100)]
    assert view.note == "first 100 of 130 columns"
    result = RowView(rows_of(odps.sql(f"select * from {table.name.table}")))
    assert len(result.page(0).columns) == 100


def test_invalid_sizes_of_pages_and_samples_are_refused(odps):
    rows = rows_of(odps.table("orders").read())
    for options in ({"page_rows": 0}, {"page_rows": 10_000}, {"sample": -1}):
        with pytest.raises(ArgumentError):
            RowView(rows, **options)


# -- results ------------------------------------------------------------------------------------


def test_a_result_is_paged_filtered_and_sorted(odps, written):
    view = RowView(rows_of(odps.sql("select id, part from explore_view order by id limit 2500")))
    assert (view.total, ids(view.page(2400))) == (2500, list(range(2400, 2500)))
    view.choose(Choice(conditions=("part = 'green'",)))
    assert all_ids(view) == list(range(1, 2500, 3))
    view.choose(Choice(conditions=("part = 'green'",), order=(("id", True),)))
    assert ids(view.page(0))[:2] == [2497, 2494]
    assert view.describe().columns[0].rows == 833


# -- cancelling and time limits -----------------------------------------------------------------


def test_a_stalled_search_stops_immediately_and_the_view_works(faulty_odps, stalled):
    view = RowView(rows_of(faulty_odps.table("orders").read()))
    view.choose(Choice(conditions=("note = 'no such text'",)))
    assert isinstance(end_when_stopped(lambda: view.page(0), view.stop), CancelledError)
    stalled()
    view.choose(Choice())
    assert view.page(0).count == 100


def test_a_search_for_first_rows_is_bounded_in_time(faulty_odps, stalled):
    read = faulty_odps.table("orders").read(where="note = 'no such text'")
    assert list(RowView(rows_of(read)).first_rows(20, seconds=0.5)) == []
    stalled()


def test_a_cancelled_request_reads_nothing(view):
    token = CancelToken()
    token.cancel()
    with pytest.raises(CancelledError):
        view.page(0, token)
    assert ids(view.page(0))[0] == 0


def test_a_cached_page_needs_no_request(view, monkeypatch):
    before = ids(view.page(0))
    monkeypatch.setattr(_ScanRows, "page", None)
    assert ids(view.page(0)) == before
    with pytest.raises(TypeError):
        view.page(100)


# -- unusual cells ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["read", "sql"])
def test_text_that_is_not_utf8_is_shown_profiled_searched_and_sorted(odps, new_name, kind):
    name = new_name("bytes")
    odps.create_table(name, "id bigint, s string")
    texts = [b"a", b"caf\xe9", None]
    send(odps, name, {"id": pa.array([1, 2, 3]), "s": text_of(texts)})
    source = odps.table(name).read() if kind == "read" else odps.sql(f"select * from {name}")
    view = RowView(rows_of(source), seed=1)
    page = view.page(0)
    assert page.columns[1] == ["a", "caf\ufffd", None]
    assert page.note == "\ufffd replaces bytes that are not UTF-8"
    assert page_message(view, page)["about"] == page.note
    assert view.cell(1, 1)[0] == "caf\ufffd"
    assert view.describe().columns[1].distinct == 2
    assert view.describe_all().columns[1].nulls == 1
    view.choose(Choice(search="caf"))
    assert ids(view.page(0)) == [2]
    view.choose(Choice(conditions=("id = 1",)))
    assert view.page(0).note == ""
    view.choose(Choice(order=(("s", True),)))
    assert ids(view.page(0))[:2] == [2, 1]
    view.close()


@pytest.mark.storage_api("its requests")
def test_intervals_have_a_profile(odps, new_name):
    name = new_name("spans")
    odps.create_table(name, "c interval_day_time")
    send(odps, name, {"c": pa.array([5_000_000_000, -1_000, None], pa.duration("ns"))})
    view = RowView(rows_of(odps.table(name).read()), seed=1)
    described = view.describe().columns[0]
    assert (described.nulls, described.distinct) == (1, 2)
    assert described.min != described.max
    view.close()


@pytest.mark.storage_api("far times")
def test_a_sample_has_times_that_need_microseconds(odps, new_name):
    """Evidence 152: some of its pages arrive in nanoseconds before one is rejected."""
    near, far = datetime.datetime(2024, 1, 1), datetime.datetime(9999, 12, 31)
    table = odps.create_table(new_name("far"), "at timestamp")
    table.write(pa.table({"at": pa.array([near] * 10_000 + [far] * 100, pa.timestamp("us"))}))
    view = RowView(rows_of(table.read()), sample=20_000)
    with pytest.warns(OdpsNbWarning, match="RuntimeTimestamp data overflow"):
        (found,) = view.describe().columns
    assert (found.rows, found.min, found.max) == (10_100, f"{near}", f"{far}")
    assert view.page(10_000).count == 100
    view.close()


@pytest.mark.parametrize("kind", ["read", "sql"])
def test_char_values_are_shown_profiled_filtered_and_sorted_without_blanks(odps, new_name, kind):
    """Evidence 153: CHAR(n) may arrive padded to n characters."""
    name = new_name("chars")
    odps.create_table(name, "id bigint, c char(9)")
    odps.table(name).write(pa.table({"id": [1, 2, 3, 4], "c": ["ab", "ab", "", None]}))
    table, query = odps.table(name), f"select * from {name}"
    view = RowView(rows_of(table.read() if kind == "read" else odps.sql(query)), seed=1)
    assert view.page(0).columns[1] == ["ab", "ab", "", None]
    assert view.cell(0, 1)[0] == "ab"
    profile = view.describe().columns[1]
    assert [(bar.value, bar.count) for bar in profile.bars] == [("ab", 2), ("", 1)]
    view.choose(view.bar(1, 0))
    assert ids(view.page(0)) == [1, 2]
    view.choose(Choice(order=(("c", True),)))
    assert view.page(0).columns[1][:2] == ["ab", "ab"]
    view.close()
    kept = table.read(char_padding=True) if kind == "read" else odps.sql(query, char_padding=True)
    view = RowView(rows_of(kept), seed=1)
    assert view.page(0).columns[1][0] == "ab       "
    assert "char_padding=True" in view.code
    view.choose(Choice(order=(("c", True),)))
    assert view.page(0).columns[1][0] == "ab       "
    view.close()
