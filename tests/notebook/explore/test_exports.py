"""All selected rows can be exported as data frames, as files and as code."""

import codecs
import csv
import datetime
import io
import json
import re
import zipfile
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from functools import partial

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from python_calamine import CalamineWorkbook

from odps_nb.access.paging.browsing import rows_of
from odps_nb.access.paging.ordering import MAX_SORTED
from odps_nb.errors import ArgumentError, CancelledError, ConversionError, LimitExceededError
from odps_nb.notebook.explore.choosing import search
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.choosing.conditions import Condition
from odps_nb.notebook.explore.explorer import Explorer
from odps_nb.notebook.explore.exports import CHUNK, cell_code, file_name, words_of, write_file
from odps_nb.notebook.explore.view import RowView
from tests.support.any_bytes import send, text_of
from tests.support.messages import Browser
from tests.support.threads import end_when_stopped

ROWS = 3000
WORDS = ["red", "=1+1", 'a "b", c', "two\nlines", "é ☃", "", None]


@pytest.fixture(scope="module")
def name(odps):
    rows = pa.table(
        {
            "id": range(ROWS),
            "word": [WORDS[n % 7] for n in range(ROWS)],
            "amount": pa.array([Decimal(n).scaleb(-2) for n in range(ROWS)], pa.decimal128(18, 2)),
            "day": [datetime.date(2024, 1, 1 + n % 28) for n in range(ROWS)],
            "seen": [datetime.datetime(2024, 1, 1, 0, n % 60) for n in range(ROWS)],
            "tags": [["a", str(n)] for n in range(ROWS)],
            "raw": [bytes([n % 256, 10]) for n in range(ROWS)],
        }
    )
    columns = "id bigint, word string, amount decimal(18,2), day date, seen datetime, "
    odps.create_table("explore_exports", columns + "tags array<string>, raw binary").write(rows)
    yield "explore_exports"
    odps.drop_table("explore_exports")


@pytest.fixture(params=["read", "sql"])
def source(request, odps, name):
    if request.param == "read":
        return odps.table(name).read()
    return odps.sql(f"select * from {name} order by id limit {ROWS}")


@pytest.fixture
def view(source):
    view = RowView(rows_of(source), seed=1)
    yield view
    view.close()


def rows_by_code(view, odps):
    names = {"odps": odps}
    exec(f"found = {view.code_parts[0]}.to_pandas()", names)
    return names["found"]


def test_all_selected_rows_are_those_that_pandas_selects(view, source, odps):
    whole = source.to_pandas()
    pd.testing.assert_frame_equal(view.to_pandas(), whole)
    assert view.to_arrow().equals(source.to_arrow())
    assert view.to_polars().equals(source.to_polars())
    view.choose(Choice(search="red"))
    red = whole[whole["word"] == "red"].reset_index(drop=True)
    pd.testing.assert_frame_equal(view.to_pandas(), red)
    view.choose(replace(view.choice, order=(("amount", True),)))
    falling = red.sort_values("amount", ascending=False).reset_index(drop=True)
    pd.testing.assert_frame_equal(view.to_pandas(), falling)
    pd.testing.assert_frame_equal(rows_by_code(view, odps), whole)
    assert view.code.endswith("  # without the search and the order")
    view.choose(Choice(conditions=("word = 'red'",), order=(("amount", True),)))
    pd.testing.assert_frame_equal(view.to_pandas(), falling)
    pd.testing.assert_frame_equal(rows_by_code(view, odps), falling)
    view.choose(Choice())
    assert len(view.to_pandas(decimals="exact", progress=False)) == ROWS


@pytest.fixture(scope="module")
def large(odps):
    """More rows than the first job of a sort returns, with ties, nulls and a partition column."""
    count = 3 * MAX_SORTED
    rows = {
        "id": range(count),
        "word": [WORDS[n * n % 7] for n in range(count)],
        "size": [None if n % 11 == 0 else n * 7919 % count / 4 for n in range(count)],
        "part": [f"p{n % 3}" for n in range(count)],
    }
    table = odps.create_table(
        "explore_large", "id bigint, word string, size double", partitioned_by="part string"
    )
    table.write(pa.table(rows))
    yield "explore_large"
    odps.drop_table("explore_large")


@pytest.mark.parametrize(
    "order",
    [
        (("id", True),),
        (("size", False), ("id", True)),
        (("word", True), ("id", False)),
        (("part", True), ("word", False), ("id", True)),
    ],
)
@pytest.mark.parametrize("form", ["read", "sql"])
@pytest.mark.parametrize(
    "choice",
    [
        Choice(),
        Choice(conditions=("id >= 5",)),
        Choice(search="p1"),
        Choice(conditions=("id < 50",)),
    ],
)
@pytest.mark.gate(6)
def test_an_export_of_a_sorted_view_has_all_rows_in_its_order(odps, large, order, form, choice):
    source = odps.table(large).read() if form == "read" else odps.sql(f"select * from {large}")
    view = RowView(rows_of(source), seed=1)
    view.choose(choice)
    ids = set(view.to_pandas()["id"])
    view.choose(replace(choice, order=order))
    found = view.to_arrow()
    assert len(found) == len(ids)
    assert set(found["id"].to_pylist()) == ids
    assert found.slice(0, 100)["id"].to_pylist() == [int(one) for one in view.page(0).columns[0]]
    assert view.to_pandas()["id"].tolist() == found["id"].to_pylist()
    for kind, read in (("csv", pd.read_csv), ("parquet", pd.read_parquet)):
        made, file = written(view.selected(), kind)
        assert read(file)["id"].tolist() == found["id"].to_pylist()
        assert not made.is_cut
    names = {"odps": odps}
    exec(f"found = {view.frame_code}", names)
    if not choice.search:
        assert names["found"]["id"].tolist() == found["id"].to_pylist()
    exec(f"found = {view.code}", names)
    assert len(ids) <= len(names["found"].to_arrow())
    if not choice.search:
        view.count(2**40)
        assert (view.total, view.note) == (len(ids), "sorted by a SQL job")
        ends = [int(one) for one in view.page(len(ids) - 1).columns[0]]
        assert ends == found["id"].to_pylist()[-len(ends) :]
        assert len(view.to_arrow()) == len(ids)
    view.close()


def test_the_pages_of_a_sorted_view_end_with_the_rows_of_its_second_query(odps, large, monkeypatch):
    monkeypatch.setattr("odps_nb.notebook.explore.view.MORE_SORTED", 2 * MAX_SORTED)
    view = RowView(rows_of(odps.table(large).read()))
    view.choose(Choice(order=(("id", True),)))
    for start in (0, MAX_SORTED, 3 * MAX_SORTED):
        page = view.page(start)
        assert page.columns[0][0] == f"{3 * MAX_SORTED - 1 - page.start}"
        assert (view.total, view.matching) == (2 * MAX_SORTED, 3 * MAX_SORTED)
        assert (
            view.note.startswith("the first 20,000 rows in this order, sorted by a ") or not start
        )
        assert ("rows with equal keys may be in another order" in view.note) is bool(start)
    assert page.start == 2 * MAX_SORTED - 100
    assert len(view.to_arrow()) == 3 * MAX_SORTED
    view.close()


def test_rows_that_are_too_large_to_sort_are_refused_by_an_export(odps, large, monkeypatch):
    view = RowView(rows_of(odps.table(large).read()))
    view.choose(Choice(order=(("size", False),)))
    monkeypatch.setattr(search, "MAX_EXPORTED_BYTES", 100_000)
    with pytest.raises(LimitExceededError, match="cannot be sorted in memory") as caught:
        view.to_pandas()
    assert "remove the order" in caught.value.hint
    view.close()


def test_a_filter_that_selects_no_row_keeps_the_types(view, source):
    view.choose(Choice(search="no such text"))
    found = view.to_arrow()
    assert found.num_rows == 0
    assert found.schema.equals(source.arrow_schema)


def test_the_first_rows_of_a_result_are_exported_but_cannot_be_filtered_or_sorted(odps, name):
    first = odps.sql(f"select id from {name} order by id limit {ROWS}").first(5)
    view = RowView(rows_of(first))
    assert view.code.endswith(".first(5)")
    assert view.to_pandas()["id"].tolist() == [0, 1, 2, 3, 4]
    pd.testing.assert_frame_equal(rows_by_code(view, odps), view.to_pandas())
    for choice in (Choice(conditions=("id = 3",)), Choice(order=(("id", False),))):
        with pytest.raises(ArgumentError, match="first rows of a result cannot be"):
            view.choose(choice)
    assert view.page(0).count == 5
    view.choose(Choice(search="3"))
    assert view.to_pandas()["id"].tolist() == [3]


@pytest.mark.parametrize("kind", ["read", "sql"])
def test_text_that_is_not_utf8_is_never_changed_silently(odps, new_name, kind):
    name = new_name("bytes")
    odps.create_table(name, "s string")
    send(odps, name, {"s": text_of([b"caf\xe9"])})
    for text, found in (("strict", None), ("replace", ["caf\ufffd"]), ("binary", [b"caf\xe9"])):
        query = f"select * from {name}"
        read = odps.table(name).read(text=text) if kind == "read" else odps.sql(query, text=text)
        view = RowView(rows_of(read))
        assert view.page(0).columns[0][0].endswith(("caf\ufffd", "0x636166e9 (4 B)"))
        if found is None:
            with pytest.raises(ConversionError, match="not UTF-8"):
                view.to_arrow()
        else:
            assert view.to_arrow().column("s").to_pylist() == found
        view.close()


@pytest.mark.gate(1)
@pytest.mark.parametrize(
    "choice",
    [Choice(), Choice(search="no such text"), Choice(conditions=("note = 'no such text'",))],
    ids=["all", "search", "filter"],
)
def test_a_view_works_after_a_cancelled_export(faulty_odps, stalled, choice):
    view = RowView(rows_of(faulty_odps.table("orders").read()))
    view.choose(choice)
    end = end_when_stopped(lambda: view.to_arrow(progress=False), view.stop_export)
    assert isinstance(end, CancelledError)
    stalled()
    view.choose(Choice())
    assert view.page(0).count == 100
    view.close()


# -- files --------------------------------------------------------------------------------------


def written(rows, kind, **options):
    chunks = []
    made = write_file(rows, kind, chunks.append, **options)
    assert all(len(one) == CHUNK for one in chunks[:-1])
    data = b"".join(chunks)
    assert len(data) == made.size
    return made, io.BytesIO(data)


def test_a_parquet_file_has_the_types_and_values_of_the_rows(source):
    made, file = written(source, "parquet")
    assert (made.rows, made.is_cut) == (ROWS, False)
    assert pq.read_table(file).equals(source.to_arrow())


def test_a_csv_file_contains_unchanged_values(source):
    made, file = written(source, "csv")
    assert (made.rows, made.is_cut) == (ROWS, False)
    text = file.getvalue().decode("utf-8-sig")
    assert file.getvalue().startswith(codecs.BOM_UTF8)  # Excel needs this byte order mark
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert head == ["id", "word", "amount", "day", "seen", "tags", "raw"]
    assert [row[1] for row in rows] == [WORDS[n % 7] or "" for n in range(ROWS)]
    row = ["8", "=1+1", "0.08", "2024-01-09", "2024-01-01 00:08:00.000", '["a", "8"]', "080a"]
    assert [part[: len(known)] for part, known in zip(rows[8], row, strict=True)] == row
    assert '\n5,"",' in text  # an empty text
    assert "\n6,,0.06" in text  # null
    frame = pd.read_csv(file)
    assert frame["amount"].tolist() == source.to_pandas()["amount"].tolist()


@pytest.mark.parametrize(
    "table", ["orders", pytest.param("media", marks=pytest.mark.storage_api("blobs")), "types_all"]
)
def test_every_type_can_be_written_to_csv(odps, table):
    rows = odps.table(table).read(limit=40)
    made, file = written(rows, "csv")
    read = list(csv.reader(io.StringIO(file.getvalue().decode(), newline="")))
    assert len(read) == made.rows + 1
    assert {len(one) for one in read} == {len(rows.schema)}


def test_a_workbook_has_text_for_values_that_excel_would_change(source):
    made, file = written(source, "xlsx")
    assert (made.rows, made.is_cut, made.shortened) == (ROWS, False, 0)
    head, *rows = CalamineWorkbook.from_filelike(file).get_sheet_by_index(0).to_python()
    assert head == ["id", "word", "amount", "day", "seen", "tags", "raw"]
    assert [row[1] for row in rows] == [WORDS[n % 7] or "" for n in range(ROWS)]
    found = rows[8]
    times = [datetime.date(2024, 1, 9), datetime.datetime(2024, 1, 1, 0, 8)]
    assert found == [8, "=1+1", 0.08, *times, '["a", "8"]', "080a"]


def test_values_that_excel_would_change_are_stored_as_text_or_reported(odps):
    rows = odps.sql("select cast(1234567890123456789 as bigint) n, repeat('x', 40000) s")
    made, file = written(rows, "xlsx")
    _, row = CalamineWorkbook.from_filelike(file).get_sheet_by_index(0).to_python()
    assert row == ["1234567890123456789", "x" * 32_767]
    file.seek(0)
    sheet = zipfile.ZipFile(file).read("xl/worksheets/sheet1.xml").decode()
    assert '<autoFilter ref="A1:B2"/>' in sheet
    assert 'state="frozen"' in sheet
    assert words_of(made).endswith("; 1 text cut")


@pytest.mark.parametrize("number", ["9" * 38, "12345678901.000000000000000001", "1" + "0" * 30])
def test_a_long_decimal_of_a_workbook_is_not_rounded(odps, number):
    scale = len(number.partition(".")[2])
    _, file = written(odps.sql(f"select cast('{number}' as decimal(38,{scale})) n"), "xlsx")
    _, (found,) = CalamineWorkbook.from_filelike(file).get_sheet_by_index(0).to_python()
    assert found == (1e30 if number.strip("0") == "1" else number)


def test_small_decimals_have_no_exponent(odps):
    kind, texts = "as decimal(38,18))", ["0." + "0" * 18, "0.000000012345678901"]
    zero, small = (f"cast('{text}' {kind}" for text in texts)
    rows = odps.sql(f"select {zero} z, {small} n, array({zero}, {small}) a")
    shown = [*texts, json.dumps(texts)]
    _, file = written(rows, "csv")
    assert list(csv.reader(io.TextIOWrapper(file, "utf-8-sig")))[1] == shown
    with closing(RowView(rows_of(rows), seed=1)) as view:
        assert view.page(0).columns == [[text] for text in shown]
    _, file = written(rows, "xlsx")
    _, row = CalamineWorkbook.from_filelike(file).get_sheet_by_index(0).to_python()
    assert row == [0.0, 1.2345678901e-08, shown[2]]


def test_a_text_of_a_workbook_is_cut_where_excel_counts_its_end(odps):
    ends = [f"concat(repeat('{x}', {n}), '😀') {x}" for x, n in (("x", 32_766), ("y", 32_765))]
    rows = odps.sql(f"select {', '.join(ends)}, repeat('😀', 20000) z")
    made, file = written(rows, "xlsx")
    assert made.shortened == 2
    sheet = zipfile.ZipFile(file).read("xl/worksheets/sheet1.xml").decode()
    texts = re.findall(r"<t>([^<]{9,})</t>", sheet)
    assert texts == ["x" * 32_766, "y" * 32_765 + "😀", "😀" * 16_383]


def test_a_workbook_has_floats_and_days_around_1900_as_displayed(odps):
    days = ("1899-12-31", "1900-01-01", "1900-01-02")
    rows = odps.sql(
        "select cast(0.1 as float) f, "
        + ", ".join(
            f"cast('{d}' as date) d{n}, datetime'{d} 10:00:00' t{n}" for n, d in enumerate(days)
        )
    )
    _, file = written(rows, "xlsx")
    _, row = CalamineWorkbook.from_filelike(file).get_sheet_by_index(0).to_python()
    assert row[0] == 0.1
    assert [str(cell) for cell in row[1:]] == [
        shown for day in days for shown in (day, f"{day} 10:00:00")
    ]


def test_nested_values_are_json_with_the_digits_of_their_types(odps, new_name):
    table = odps.create_table(
        new_name("maps"),
        "a map<int,array<map<int,int>>>, b map<string,int>, c struct<m:map<int,int>>, "
        "f array<float>, g struct<f:float,d:double>",
    )
    row = {"a": {1: [{1: 2}, {}]}, "b": {}, "c": {"m": {}}, "f": [0.1, None, 2]}
    table.write([{**row, "g": {"f": 0.7, "d": 0.7}}])
    texts = ['{"1": [{"1": 2}, {}]}', "{}", '{"m": {}}', "[0.1, null, 2.0]", '{"f": 0.7, "d": 0.7}']
    _, file = written(table.read(), "csv")
    assert list(csv.reader(io.TextIOWrapper(file, "utf-8-sig")))[1] == texts
    with closing(RowView(rows_of(table.read()), seed=1)) as view:
        assert view.page(0).columns == [[text] for text in texts]


READ = {"csv": pd.read_csv, "xlsx": partial(pd.read_excel, engine="calamine")}
READ["parquet"] = pd.read_parquet


@pytest.mark.parametrize("kind", READ)
def test_a_file_is_truncated_at_its_limit_with_a_note(odps, kind):
    rows = odps.table("orders").read(["id", "note"], partitions="ds=2024-01-01")
    made, file = written(rows, kind, limit=300_000)
    assert made.is_cut
    assert 0 < made.rows < rows.row_count
    frame = READ[kind](file)
    assert frame["id"].tolist() == rows.to_pandas()["id"].tolist()[: made.rows]


def test_a_file_without_rows_has_its_columns(odps, name):
    rows = odps.table(name).read(where="id < 0")
    for kind, read in READ.items():
        made, file = written(rows, kind)
        frame = read(file)
        assert (made.rows, list(frame)) == (0, list(rows.schema.names))


@pytest.mark.parametrize(
    ("title", "chosen", "named"),
    [
        ("p.orders", (), "p.orders.csv"),
        ("select * from t where s = '/etc/x'", (), "select_from_t_where_s_etc_x.csv"),
        ("../..", (), "rows.csv"),
        ("\u202egnp.exe", (), "gnp.exe.csv"),
        ("-rf", (), "rf.csv"),
        ("t", ("n ≥ 5 and < 9", "s is /etc/x"), "t-n_from_5_and_below_9-s_is_etc_x-red.csv"),
        ("t", ("x" * 500, "../.."), f"t-{'x' * 40}-red.csv"),
    ],
)
def test_a_file_name_is_safe_and_names_the_filters(title, chosen, named):
    search = "red" if chosen else ""
    conditions = tuple(Condition(where="id > 0", text=one) for one in chosen)
    assert file_name(title, "csv", Choice(conditions=conditions, search=search)) == named


# -- messages -----------------------------------------------------------------------------------


@pytest.fixture
def browser(view):
    explorer = Explorer(view)
    explorer._widget = browser = Browser()
    browser.explorer = explorer
    yield browser
    explorer.close()


def test_a_download_arrives_in_chunks_with_a_name(browser, source):
    browser.explorer.receive({"do": "search", "text": "red"})
    browser.wait("page", search="red")
    browser.explorer.receive({"do": "download", "file": "parquet", "number": 7})
    told, _ = browser.wait("file")
    chunks = [b[0] for content, b in browser.messages if content["kind"] == "chunk"]
    assert {one["number"] for one, _ in browser.messages if "number" in one} == {7}
    frame = pd.read_parquet(io.BytesIO(b"".join(chunks)))
    assert len(frame) == 429
    assert set(frame["word"]) == {"red"}
    assert told["name"].endswith(".parquet")
    assert told["text"].startswith("429 rows, ")
    assert (told["cut"], told["code"]) == (False, browser.explorer.view.frame_code)
    browser.wait("idle", task="download")


def test_a_saved_file_has_all_rows_of_the_view_and_replaces_no_other_file(
    browser, name, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    browser.explorer.receive({"do": "search", "text": "red"})
    browser.wait("page", search="red")
    (tmp_path / "kept.csv").write_text("kept")
    for number in (1, 2):
        browser.explorer.receive({"do": "download", "file": "csv", "number": number, "save": True})
        told, _ = browser.wait("file", number=number)
        assert told["text"].startswith("429 rows, ")
        assert not told["cut"]
    first, second = sorted(tmp_path.glob("*red*.csv"), key=lambda one: len(one.name))
    assert told["name"] == str(second)
    assert first.read_bytes() == second.read_bytes()
    assert len(pd.read_csv(second)) == 429
    assert len([*tmp_path.iterdir()]) == 3
    assert not [one for one, _ in browser.messages if one["kind"] == "chunk"]


@pytest.mark.parametrize("content", [{}, {"file": "exe", "number": 1}, {"file": "csv"}])
def test_an_invalid_download_request_is_reported(browser, content):
    browser.explorer.receive({"do": "download", **content})
    browser.wait("problem")
    assert not [one for one, _ in browser.messages if one["kind"] in ("chunk", "file")]


def test_code_for_a_cell_uses_a_free_name_and_the_connection_of_the_user(shell, odps, name):
    view = RowView(rows_of(odps.table(name).read()))
    used = set()
    shell.user_ns.update(df=1, warehouse=odps)
    assert cell_code(view, used) == f"df2 = warehouse.table('{name}').read().to_pandas()\ndf2"
    assert cell_code(view, used).startswith("df3 = ")
    shell.run_cell(cell_code(view, used))
    pd.testing.assert_frame_equal(shell.user_ns["df4"], view.to_pandas())
    view.close()
