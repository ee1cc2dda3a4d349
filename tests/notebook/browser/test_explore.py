"""Explorers in a real JupyterLab: every interaction, by mouse and by keyboard, live and saved.

One notebook and one kernel for all tests, which run in order and leave no filter behind.
"""

import json
import os
import re
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import expect

from odps_nb.notebook.explore import explorer as explorer_module
from odps_nb.notebook.live import live_view
from odps_nb.notebook.progress.words import format_percent
from tests.support.explored import (
    active,
    await_profiles,
    cancel_a_profile,
    cell,
    column_of,
    explorer,
    look_at_a_theme,
    status,
    use_the_keyboard,
)
from tests.support.lab import (
    await_kernel,
    close_notebook,
    exported,
    load,
    notebook,
    open_notebook,
    run_all,
    save,
)

pytestmark = pytest.mark.browser

NASTY = '"><img src=/beacon/value onerror="odpsNbProbe=1"><script>odpsNbProbe=1</script>'
CELLS = [
    "import odps_nb\nodps = odps_nb.connect()",
    "odps.table('orders').explore(seed=1)",
    "odps.table('media').explore()",
    "odps.table('TABLE').explore()",
    "odps.table('media').read(['id', 'name'])",
]
ORDERS, MEDIA, HOSTILE = 0, 1, 2
AGAIN = "run the cell again to page, filter or sort"


@pytest.fixture(scope="module")
def hostile(odps):
    import pyarrow as pa

    name = f"explore_hostile_{os.getpid()}"
    comment = "<img src=/beacon/comment onerror=odpsNbProbe=1>"
    table = odps.create_table(name, f"id bigint comment '{comment}', word string, size bigint")
    texts = [NASTY, "\u202egnp.exe", "long " * 100, "two\nlines"]
    table.write(pa.table({"id": range(4), "word": texts, "size": [-1234567, 1000, 3, None]}))
    yield name
    odps.drop_table(name)


@pytest.fixture(scope="module")
def page(lab_page, jupyter, hostile):
    cells = [cell.replace("TABLE", hostile) for cell in CELLS]
    jupyter.write("explore.ipynb", notebook(*cells))
    lab_page.traffic.sizes.clear()
    open_notebook(lab_page, jupyter, "explore.ipynb")
    run_all(lab_page)
    await_profiles(lab_page, 3)
    return lab_page


def test_users_can_page_forwards_backwards_and_to_any_row(page, odps):
    view = explorer(page, ORDERS)
    expect(status(view)).to_have_text("rows 1–100 of 2,048,000")
    expect(view.locator("[aria-busy]")).to_have_count(0)
    view.get_by_label("next page").click()
    expect(status(view)).to_have_text("rows 101–200 of 2,048,000")
    view.get_by_label("last page").click()
    expect(status(view)).to_have_text("rows 2,047,901–2,048,000 of 2,048,000")
    assert view.get_by_label("next page").is_disabled()
    view.get_by_label("go to row").fill("1,000,001")
    view.get_by_label("go to row").press("Enter")
    expect(status(view)).to_have_text("rows 1,000,001–1,000,100 of 2,048,000")
    assert active(page) == ["0", str(0)]
    shown = cell(view, 0, 0).inner_text()
    view.get_by_label("first page").click()
    expect(status(view)).to_have_text("rows 1–100 of 2,048,000")
    wanted = 1_000_000
    for batch in odps.table("orders").read(["id"]).batches():
        if wanted < batch.num_rows:
            break
        wanted -= batch.num_rows
    assert int(shown) == batch.column(0)[wanted].as_py()


def test_a_click_on_a_bar_filters_and_its_chip_removes_the_filter(page, odps):
    view = explorer(page, ORDERS)
    n = column_of(view, "status")
    cell(view, -1, n).locator("g").nth(1).click()
    expect(view.locator(".odps-x-chip")).to_have_count(1)
    condition = view.locator(".odps-x-chip bdi").inner_text()
    wanted = re.fullmatch(r"status is (\w+)", condition)[1]
    texts = [cell(view, row, n).inner_text() for row in (0, 50, 99)]
    assert texts == [wanted] * 3
    assert f"status = '{wanted}'" in view.locator("code").inner_text()
    query = f"select count(*) as n from orders where status = '{wanted}'"
    total = f"{odps.sql(query).to_pandas()['n'][0]:,}"
    expect(status(view)).to_have_text(f"rows 1–100 of {total}")
    expect(view.locator(".odps-x-bar b + span")).to_contain_text(f"{total} of 2,048,000 rows")
    view.get_by_label("next page").click()
    expect(status(view)).to_have_text(f"rows 101–200 of {total}")
    view.get_by_label("remove the filter").click()
    expect(status(view)).to_have_text("rows 1–100 of 2,048,000")
    assert view.locator("code").inner_text() == "odps.table('orders').read()"


def test_the_panel_of_a_column_shows_its_profile_and_number_of_rows(page):
    view = explorer(page, ORDERS)
    expect(view.locator(".odps-x-described")).to_contain_text("sample of 64,000 of 2,048,000 rows")
    cell(view, -1, column_of(view, "status")).locator(".odps-x-ends").click()
    panel = view.get_by_role("dialog")
    assert "distinct" in panel.inner_text()
    assert "sample of 64,000 of 2,048,000 rows" in panel.inner_text()
    rows = panel.locator("button.odps-x-row").all_inner_texts()
    assert any("shipped" in row for row in rows)
    panel.press("Escape")
    expect(panel).to_be_hidden()


def test_the_panel_of_a_numeric_column_has_statistics_and_can_select_outliers(page):
    view = explorer(page, ORDERS)
    expect(view.locator(".odps-x-described")).to_contain_text("sample of 64,000 of 2,048,000 rows")
    cell(view, -1, column_of(view, "amount")).locator(".odps-x-ends").first.click()
    panel = view.get_by_role("dialog")
    names = panel.get_by_role("rowheader").all_inner_texts()
    assert names[:5] == ["nulls", "distinct", "zeros", "mean", "std"]
    assert names[5:] == ["min", "25 %", "median", "75 %", "max"]
    assert all(panel.locator(".odps-x-facts td").all_inner_texts())
    row = panel.locator("button.odps-x-row").filter(has_text="above ")
    limit = float(re.match(r"above ([\d,.]+)", row.inner_text())[1].replace(",", ""))
    row.focus()
    page.keyboard.press("Enter")
    chip = view.locator(".odps-x-chip")
    expect(chip).to_have_count(1)
    shown = [cell(view, n, column_of(view, "amount")).inner_text() for n in (0, 1, 2)]
    assert all(float(one.replace(",", "")) > limit for one in shown)
    view.get_by_label("remove the filter").click()
    expect(status(view)).to_have_text("rows 1–100 of 2,048,000")


def in_browser(page, expression, given):
    """Evaluate an expression of ``given`` with the scripts of the explorer's profiles."""
    scripts = (
        Path(live_view.__file__).with_name("common.js"),
        Path(explorer_module.__file__).parent / "scripts" / "profile.js",
    )
    code = "\n".join(one.read_text(encoding="utf-8") for one in scripts)
    return page.evaluate(f"(given) => {{ {code}; return {expression}; }}", given)


def test_kernel_and_browser_format_percentages_in_the_same_way(page):
    cases = [(n, of) for of in (1, 3, 8, 1000, 64_000) for n in (0, 1, of // 3, of - 1, of)]
    found = in_browser(page, "given.map(([n, of]) => percent(n, of))", cases)
    assert found == [format_percent(n / of) for n, of in cases]


def test_counts_without_the_filter_are_grey_bars_behind_those_of_filtered_rows(page):
    column = {"rows": 40, "words": "", "ends": ["0", "9"], "is_line": True, "is_log": False}
    column |= {"bars": [["a", 10, 20.0], ["b", 20, 13], ["c", 5, None]], "beside": [2]}
    cell = "columnProfiles({}).summary({ name: 'x' }, 0, given, '')"
    height = "Number(one.getAttribute('height'))"
    for kind, heights in (("whole", [26, 17]), ("count", [13, 26])):
        rects = f"[...{cell}.querySelectorAll('rect.odps-x-{kind}')].map((one) => {height})"
        assert in_browser(page, rects, column) == heights
    spoken = in_browser(page, f"{cell}.getAttribute('aria-label')", column)
    assert spoken == "profile of x: 0 to 9, 5 c"
    ends = f"{cell}.querySelector('.odps-x-ends').textContent"
    assert in_browser(page, ends, column) == "0 – 9"
    assert in_browser(page, ends, column | {"is_line": False}) == "b 50 %"


@pytest.mark.usefixtures("stalled")
def test_a_profile_of_all_rows_can_be_cancelled(page):
    cancel_a_profile(explorer(page, ORDERS))


def test_a_search_finds_text_and_its_chip_removes_the_search(page):
    view = explorer(page, MEDIA)
    box = view.get_by_role("searchbox", name="search in all columns, ignoring case")
    box.fill("MANDEL")
    box.press("Enter")
    expect(status(view)).to_have_text("rows 1–1 of 1")
    assert "mandelbrot.png" in cell(view, 0, 1).inner_text()
    view.get_by_label("remove the filter").click()
    expect(status(view)).to_have_text("rows 1–48 of 48")


def test_a_filter_can_be_built_edited_and_removed_by_keyboard(page):
    view = explorer(page, MEDIA)
    button = view.get_by_role("button", name="Filter", exact=True)
    button.press("Enter")
    form = view.get_by_role("form", name="filter")
    expect(form.get_by_label("column")).to_be_focused()
    page.keyboard.press("Home")
    for _ in range(2):
        page.keyboard.press("Tab")
    expect(form.get_by_label("from")).to_be_focused()
    page.keyboard.type("12x")
    page.keyboard.press("Enter")
    expect(view.locator(".odps-x-problem")).to_contain_text("'12x' is not a whole number")
    form.get_by_label("from").fill("10")
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.type("14")
    page.keyboard.press("Enter")
    expect(view.locator(".odps-x-chip bdi")).to_have_text("id 10–14")
    expect(button).to_be_focused()
    expect(status(view)).to_have_text("rows 1–5 of 5")
    expect(view.locator(".odps-x-bar b + span")).to_contain_text("5 of 48 rows")
    expect(view.locator(".odps-x-described")).to_have_text(" · profile: all 5 rows")
    view.get_by_role("button", name="id 10–14", exact=True).press("Enter")
    expect(form.get_by_label("from")).to_have_value("10")
    form.get_by_label("to", exact=True).fill("11")
    page.keyboard.press("Enter")
    expect(status(view)).to_have_text("rows 1–2 of 2")
    view.get_by_role("button", name="id 10–11", exact=True).press("Delete")
    expect(status(view)).to_have_text("rows 1–48 of 48")
    expect(button).to_be_focused()
    expect(view.locator(".odps-x-described")).to_have_text(" · profile: all 48 rows")


def test_frequent_values_can_be_selected_by_keyboard(page):
    view = explorer(page, MEDIA)
    view.get_by_role("button", name="Filter", exact=True).press("Enter")
    form = view.get_by_role("form", name="filter")
    form.get_by_label("column").select_option("declared")
    listed = form.get_by_role("group")
    expect(listed).to_have_attribute("aria-label", "most frequent values, all 48 rows")
    ticks = listed.get_by_role("checkbox")
    names = listed.locator("bdi").all_inner_texts()
    counts = [int(one) for one in listed.locator("span").all_inner_texts()]
    assert counts == sorted(counts, reverse=True)
    ticks.nth(0).focus()
    for key in ("Space", "ArrowDown", "ArrowDown", "Space", "Enter"):
        page.keyboard.press(key)
    chip = view.locator(".odps-x-chip bdi")
    expect(chip).to_have_text(f"declared is {names[0]} or {names[2]}")
    rows = counts[0] + counts[2]
    expect(status(view)).to_have_text(f"rows 1–{rows} of {rows}")
    expect(view.locator(".odps-x-described")).to_have_text(f" · profile: all {rows} rows")
    chip.click()
    expect(ticks.nth(0)).to_be_focused()
    assert sorted(listed.locator("bdi").all_inner_texts()) == sorted(
        names
    )  # columns are listed even without rows
    assert listed.locator(":checked").count() == 2
    page.keyboard.press("Escape")
    view.get_by_label("remove the filter").click()
    expect(status(view)).to_have_text("rows 1–48 of 48")


def test_a_shift_click_on_a_bar_excludes_its_rows(page):
    view = explorer(page, MEDIA)
    cell(view, -1, 2).locator("g").first.click(modifiers=["Shift"])
    expect(view.locator(".odps-x-chip bdi")).to_contain_text("declared is not")
    expect(status(view)).to_have_text("rows 1–41 of 41")
    view.get_by_label("remove the filter").click()
    expect(status(view)).to_have_text("rows 1–48 of 48")


def test_a_click_on_a_header_sorts_with_a_sql_job_and_says_so(page):
    view = explorer(page, MEDIA)
    header = view.locator("th").nth(1)
    assert "SQL job" in header.get_attribute("title")
    assert header.get_attribute("aria-sort") == "none"
    for order, mark in (("ascending", "sorted by a SQL job"), ("descending", "SQL job")):
        header.click()
        expect(view.locator("th").nth(1)).to_have_attribute("aria-sort", order)
        expect(status(view)).to_contain_text(mark)
        names = [cell(view, row, 1).inner_text() for row in range(10)]
        assert names == sorted(names, reverse=order == "descending")
        assert "order by name" in view.locator("code").inner_text()
    header.click()
    expect(view.locator("th").nth(1)).to_have_attribute("aria-sort", "none")
    expect(status(view)).to_have_text("rows 1–48 of 48")


def test_shift_sorts_by_several_columns_and_an_unsortable_column_states_the_reason(page):
    view = explorer(page, MEDIA)
    numbers = [column_of(view, name) for name in ("declared", "name")]
    for number, keys in zip(numbers, ([], ["Shift"]), strict=True):
        view.locator("th").nth(number).click(modifiers=keys)
        expect(view.locator("th").nth(number)).to_have_attribute("aria-sort", "ascending")
    view.locator("th").nth(numbers[1]).focus()
    page.keyboard.press("Shift+Enter")
    expect(view.locator("th").nth(numbers[1])).to_have_attribute("aria-sort", "descending")
    marks = [view.locator("th").nth(n).locator(".odps-x-name").inner_text() for n in numbers]
    assert marks == ["declared ▲ 1", "name ▼ 2"]
    rows = [[cell(view, row, n).inner_text() for n in numbers] for row in range(20)]
    by_name = sorted(rows, key=lambda row: row[1], reverse=True)
    assert rows == sorted(by_name, key=lambda row: row[0].replace("null", ""))
    view.locator("th").nth(numbers[0]).click()  # sorts only by this column
    expect(view.locator("th").nth(numbers[1])).to_have_attribute("aria-sort", "none")
    view.locator("th").nth(numbers[0]).click()
    expect(view.locator("th").nth(numbers[0])).to_have_attribute("aria-sort", "descending")
    blob = view.locator("th").nth(column_of(view, "content"))
    blob.focus()
    page.keyboard.press("Enter")
    expect(view.get_by_role("alert")).to_have_text(re.compile("content cannot be sorted: blob"))
    view.locator("th").nth(numbers[0]).click()
    expect(view.locator("th").nth(numbers[0])).to_have_attribute("aria-sort", "none")
    expect(status(view)).to_have_text("rows 1–48 of 48")


def test_visible_blobs_have_verified_thumbnails(page):
    view = explorer(page, MEDIA)
    view.scroll_into_view_if_needed()
    picture = cell(view, 0, 3).locator("img")
    expect(picture).to_be_visible()
    assert picture.get_attribute("src").startswith("data:image/")
    assert picture.evaluate("(one) => one.naturalWidth") > 0
    expect(cell(view, 0, 3)).to_contain_text("✓ verified")
    last = cell(view, 40, 3)
    last.scroll_into_view_if_needed()
    expect(last.locator(".odps-x-muted")).not_to_have_text("blob")


def test_the_explorer_can_be_used_by_keyboard(page):
    use_the_keyboard(page, explorer(page, ORDERS))


def test_cells_are_copied_in_a_form_for_spreadsheets(page):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    view = explorer(page, HOSTILE)
    said = view.locator(".odps-x-said")
    cell(view, 1, 2).click()
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(f"Shift+{key}")
    assert view.locator('[aria-selected="true"]').count() == 6
    page.keyboard.press("ControlOrMeta+c")
    expect(said).to_have_text("copied 6 cells")
    copied = "() => navigator.clipboard.readText()"
    rows = ["\u202egnp.exe\t1000", f"{'long ' * 100}\t3", '"two\nlines"\t']
    assert page.evaluate(copied) == "\n".join(rows)
    assert cell(view, 0, 2).inner_text() == "-1,234,567"
    cell(view, 0, 0).click()
    cell(view, 0, 2).click(modifiers=["Shift"])
    cell(view, 0, 2).click(button="right")
    view.get_by_role("menuitem", name="Copy").click()
    expect(said).to_have_text("copied 3 cells")
    nasty = NASTY.replace('"', '""')
    assert page.evaluate(copied) == f'0\t"{nasty}"\t-1234567'


@pytest.mark.nightly
def test_the_menu_of_a_cell_filters_by_its_value(page):
    view = explorer(page, MEDIA)
    n = column_of(view, "declared")
    value = cell(view, 3, n).inner_text()
    equal = view.locator(f'td[data-column="{n}"]:not([data-row="-1"])').filter(has_text=value)
    count = equal.count()
    for item, condition, rows in (
        ("Filter by this value", f"declared is {value}", count),
        ("Exclude this value", f"declared is not {value}", 48 - count),
    ):
        cell(view, 3, n).click(button="right")
        view.get_by_role("menuitem", name=item).click()
        expect(view.locator(".odps-x-chip bdi")).to_have_text(condition)
        expect(status(view)).to_have_text(f"rows 1–{rows} of {rows}")
        view.get_by_label("remove the filter").click()
        expect(status(view)).to_have_text("rows 1–48 of 48")


def test_a_panel_lists_the_keyboard_shortcuts(page):
    view = explorer(page, ORDERS)
    cell(view, 0, 0).press("?")
    expect(view.get_by_role("dialog")).to_contain_text("Alt + Shift")
    page.keyboard.press("Escape")
    expect(view.get_by_role("dialog")).to_be_hidden()


@pytest.mark.nightly
def test_long_and_nested_values_can_be_expanded(page):
    view = explorer(page, ORDERS)
    cell(view, 0, column_of(view, "address")).click()
    panel = view.get_by_role("dialog")
    expect(panel.locator("pre")).to_contain_text('"city": ')
    panel.get_by_label("close").click()
    view = explorer(page, HOSTILE)
    cell(view, 2, 1).press("Enter")
    expect(view.get_by_role("dialog").locator("pre")).to_have_text("long " * 100)
    page.keyboard.press("Escape")
    expect(view.get_by_role("dialog")).to_be_hidden()
    assert active(page) == ["2", "1"]


def test_a_screen_reader_gets_the_size_and_cells_of_a_grid(page):
    grid = explorer(page, ORDERS).get_by_role("grid")
    assert grid.get_attribute("aria-rowcount") == "2048002"
    assert grid.get_attribute("aria-colcount") == "23"  # including the column of row numbers
    assert grid.get_by_role("columnheader").count() == 22
    assert grid.locator('[tabindex="0"]').count() == 1
    assert grid.locator("tbody tr").nth(0).get_attribute("aria-rowindex") == "3"
    assert grid.get_by_role("rowheader").nth(99).inner_text() == "100"
    indices = [cell(explorer(page, ORDERS), 0, n).get_attribute("aria-colindex") for n in (0, 21)]
    assert indices == ["2", "23"]


def test_values_are_shown_as_text_and_cause_no_request(page, jupyter):
    view = explorer(page, HOSTILE)
    assert view.locator("th bdi").all_inner_texts() == ["id", "word", "size"]
    assert cell(view, 0, 1).inner_text().startswith(NASTY[:60])
    assert cell(view, 1, 1).inner_text() == "\\u202egnp.exe"
    assert view.locator("td img, td script").count() == 0
    assert page.evaluate("() => window.odpsNbProbe ?? null") is None
    origin = jupyter.url.split("/{}")[0]
    allowed = (origin, "data:", "blob:")
    assert [url for url in page.traffic.urls if not url.startswith(allowed)] == []
    assert not [url for url in page.traffic.urls if "beacon" in url]


@pytest.mark.gate(1)
@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_text_has_enough_contrast_in_dark_and_light_themes(page, theme):
    look_at_a_theme(page, explorer(page, ORDERS), theme)


def test_a_live_view_replaces_its_static_view(page):
    tables = page.locator(".jp-OutputArea-child table:not([role=grid])")
    # three static views are hidden; only the last cell has no live view
    assert tables.count() == 4
    assert [tables.nth(n).is_visible() for n in range(4)] == [False, False, False, True]


def test_a_download_is_a_file_of_the_selected_rows(page, odps):
    view = explorer(page, MEDIA)
    box = view.get_by_role("searchbox")
    box.fill("mandel")
    box.press("Enter")
    expect(status(view)).to_have_text("rows 1–1 of 1")
    view.get_by_role("button", name="Download").press("Enter")
    with page.expect_download() as begun:
        page.keyboard.press("Enter")  # the button "CSV" has the focus
    assert re.fullmatch(r"\w+\.media-mandel\.csv", begun.value.suggested_filename)
    found = pd.read_csv(begun.value.path())
    wanted = odps.table("media").read(where="name = 'mandelbrot.png'").to_arrow().to_pylist()
    assert found["name"].tolist() == ["mandelbrot.png"]
    assert found["content"].tolist() == [wanted[0]["content"]]
    expect(view.locator(".odps-x-export")).to_contain_text("media-mandel.csv: 1 row, ")
    page.keyboard.press("Escape")
    expect(view.locator(".odps-x-export")).to_be_hidden()
    view.get_by_label("remove the filter").click()
    expect(status(view)).to_have_text("rows 1–48 of 48")


def test_code_is_inserted_as_a_new_cell_and_no_cell_is_changed(page):
    cells = "window.jupyterapp.shell.currentWidget.content.widgets"
    sources = f"() => {cells}.map((one) => one.model.sharedModel.getSource())"
    before = page.evaluate(sources)
    explorer(page, MEDIA).get_by_role("button", name="Open as cell").click()
    page.wait_for_function(f"(many) => {cells}.length === many + 1", arg=len(before))
    new = "df = odps.table('media').read().to_pandas()\ndf"
    assert page.evaluate(sources) == [*before[:3], new, *before[3:]]
    assert page.evaluate(f"() => {cells}[3].model.executionCount") is None
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:delete-cell')")
    page.wait_for_function(f"(many) => {cells}.length === many", arg=len(before))
    assert page.evaluate(sources) == before


def shown_names(view):
    return view.locator("th bdi:visible").all_inner_texts()


def test_columns_are_found_hidden_moved_pinned_and_resized(page):
    view = explorer(page, ORDERS)
    everything = shown_names(view)
    view.get_by_role("button", name="Columns", exact=True).click()
    view.get_by_label("find a column").fill("STAT")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    assert shown_names(view) == [name for name in everything if name != "status"]
    expect(view.get_by_role("button", name="Columns (1 hidden)")).to_be_visible()
    n = everything.index("status")
    assert cell(view, 0, n + 1).get_attribute("aria-colindex") == str(n + 3)  # unchanged
    page.keyboard.press("Enter")
    assert active(page)[1] == str(n)
    view.get_by_role("button", name="Columns", exact=True).click()
    assert shown_names(view) == everything
    header = cell(view, -2, n)
    header.focus()
    page.keyboard.press("Alt+Shift+ArrowLeft")
    moved = [*everything[: n - 1], "status", everything[n - 1], *everything[n + 1 :]]
    assert shown_names(view) == moved
    assert cell(view, 5, n).get_attribute("aria-colindex") == str(n + 1)
    width = header.bounding_box()["width"]
    page.keyboard.press("Alt+ArrowRight")
    assert header.bounding_box()["width"] == pytest.approx(width + 24, abs=1)
    header.locator(".odps-x-grip").drag_to(cell(view, -2, n + 1))
    assert header.bounding_box()["width"] > width + 40
    assert header.get_attribute("aria-sort") == "none"  # a drag is not a click
    cell(view, -2, 0).scroll_into_view_if_needed()  # otherwise, the page scrolls during the drag
    header.drag_to(cell(view, -2, 0))
    assert shown_names(view)[:2] == ["status", everything[0]]
    header.press("Shift+F10")
    view.get_by_role("menuitem", name="Pin column").click()
    left = header.bounding_box()["x"]
    cell(view, -2, 21).scroll_into_view_if_needed()
    assert header.bounding_box()["x"] == pytest.approx(left, abs=1)
    view.get_by_label("next page").click()
    expect(status(view)).to_have_text("rows 101–200 of 2,048,000")
    assert shown_names(view)[0] == "status"  # the width is the same on other pages
    view.get_by_label("first page").click()
    expect(status(view)).to_have_text("rows 1–100 of 2,048,000")
    header.press("Shift+F10")
    view.get_by_role("menuitem", name="Unpin column").click()
    assert shown_names(view) == everything  # the column is back at its position in the table


# -- saved and reopened notebooks; must be last ---------------------------------------------------


@pytest.fixture(scope="module")
def saved(page, jupyter):
    save(page)
    return json.loads((jupyter.folder / "explore.ipynb").read_text())


def test_messages_and_the_saved_notebook_are_small(page, saved):
    assert 20_000 < max(page.traffic.sizes) < 300_000
    for number in (1, 2, 3):
        outputs = saved["cells"][number]["outputs"]
        assert len(json.dumps(outputs)) < 200_000
    assert "widgets" not in saved["metadata"] or len(json.dumps(saved["metadata"])) < 200_000


def test_a_saved_notebook_has_no_key(saved, service):
    assert service.access_key not in json.dumps(saved)


@pytest.mark.usefixtures("saved")
def test_the_end_of_the_kernel_is_detected_immediately(page):
    page.evaluate("() => window.jupyterapp.shell.currentWidget.context.sessionContext.shutdown()")
    said = page.get_by_text("the kernel has stopped or was restarted; run the cell again")
    expect(said).to_have_count(3)


@pytest.fixture(scope="module")
def reopened(page, jupyter, saved):
    """JupyterLab reloaded with the saved notebook, whose kernel has ended."""
    close_notebook(page, kernel=True)
    load(page, jupyter, "explore.ipynb")
    return page


def test_a_notebook_reopened_with_trust_shows_the_static_view(reopened):
    tables = reopened.locator(".jp-OutputArea-child table")
    expect(tables).to_have_count(4)
    # if JupyterLab draws outputs before widgets are available, a line of text replaces its error
    failed = reopened.get_by_text("model not found")
    either = failed.or_(reopened.get_by_text("<Explorer of "))
    expect(either).to_have_count(3)
    assert not any(failed.nth(n).is_visible() for n in range(failed.count()))
    assert all(tables.nth(n).is_visible() for n in range(4))
    assert reopened.get_by_text(AGAIN).count() == 3
    await_kernel(reopened, "explore.ipynb")
    close_notebook(reopened, kernel=True)


def test_a_notebook_reopened_without_trust_shows_the_static_view(reopened, jupyter, saved):
    added = notebook("1")["cells"][0] | {"id": "added"}  # the cell has no signature
    jupyter.write("untrusted.ipynb", saved | {"cells": [*saved["cells"], added]})
    open_notebook(reopened, jupyter, "untrusted.ipynb")
    tables = reopened.locator(".jp-OutputArea-child table")
    expect(tables).to_have_count(4)
    assert all(tables.nth(n).is_visible() for n in range(4))
    assert reopened.locator(".odps-x").count() == 0
    assert "shipped" in tables.nth(0).inner_text()
    assert "sample of 64,000 of 2,048,000 rows" in reopened.locator("body").inner_text()
    assert NASTY[:40] in tables.nth(2).inner_text()
    assert reopened.evaluate("() => window.odpsNbProbe ?? null") is None
    assert reopened.get_by_text(AGAIN).count() == 3
    close_notebook(reopened, kernel=True)


@pytest.mark.nightly
@pytest.mark.usefixtures("saved")
def test_an_export_shows_the_static_view(browser, jupyter, tmp_path):
    address = exported(jupyter.folder / "explore.ipynb", tmp_path / "saved.html")
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.goto(address, wait_until="domcontentloaded")
    tables = page.locator(".jp-OutputArea-child table")
    assert tables.count() == 4
    assert tables.nth(0).is_visible()
    assert "2,048,000 rows" in page.locator("body").inner_text()
    assert page.get_by_text(AGAIN).count() == 3
    assert page.evaluate("() => window.odpsNbProbe ?? null") is None
    context.close()
