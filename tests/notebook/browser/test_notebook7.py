"""Notebook 7: SQL highlighting, and an explorer with all the functions it has in JupyterLab.

One notebook and one kernel for all tests, which run in order. Values of every kind, themes, the
screen reader, malicious text, exports and reopened notebooks use the same script and files as in
JupyterLab: see test_explore.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.support.explored import (
    await_profiles,
    cancel_a_profile,
    cell,
    chart_tips,
    draw_chart,
    explorer,
    status,
    use_the_keyboard,
)
from tests.support.lab import Jupyter, open_in_notebook7

pytestmark = [pytest.mark.browser, pytest.mark.nightly]

CELLS = [
    "%load_ext odps_nb\n%odps connect -o odps",
    "odps.table('media').explore(rows=12)",
    "odps.table('orders').explore(seed=1)",
    "%%odps sql -o daily\nselect ds, count(*) as n -- each day\nfrom orders group by ds",
]
MEDIA, ORDERS = 0, 1


@pytest.fixture(scope="module")
def page(new_page: Callable[[], Page], jupyter: Jupyter) -> Iterator[Page]:
    """A notebook whose cells have run."""
    page = new_page()
    open_in_notebook7(page, jupyter, "seven.ipynb", CELLS)
    await_profiles(page, 3)
    yield page
    page.evaluate("() => window.jupyterapp.shell.currentWidget.context.sessionContext.shutdown()")
    page.close()


def test_our_extension_is_loaded_in_notebook_7(page: Page) -> None:
    assert page.evaluate("() => window.jupyterapp.name") == "Jupyter Notebook"
    assert page.evaluate("() => window.jupyterapp.version").startswith("7.")
    assert page.evaluate("() => window.jupyterapp.hasPlugin('odps-nb:colouring')")


def test_sql_in_cells_of_our_magic_is_highlighted(page: Page) -> None:
    query = page.locator(".jp-CodeCell").nth(3).locator(".cm-line")
    expect(query.nth(1).locator("span", has_text=re.compile("^select$"))).to_be_visible()
    expect(query.nth(1).locator("span", has_text="-- each day")).to_be_visible()
    assert query.nth(0).locator("span").count() == 0


def test_an_explorer_shows_pages_and_its_profile(page: Page) -> None:
    view = explorer(page, MEDIA)
    expect(status(view)).to_have_text("rows 1–12 of 48")
    view.get_by_label("last page").click()
    expect(status(view)).to_have_text("rows 37–48 of 48")
    view.get_by_label("first page").click()
    expect(status(view)).to_have_text("rows 1–12 of 48")
    expect(view.locator(".odps-x-described")).to_contain_text("profile: all 48 rows")
    cell(view, -1, 2).locator(".odps-x-ends").click()
    panel = view.get_by_role("dialog")
    expect(panel).to_contain_text("distinct")
    panel.press("Escape")
    expect(panel).to_be_hidden()


@pytest.mark.nightly
def test_a_click_on_a_bar_filters_and_on_a_header_sorts(page: Page) -> None:
    view = explorer(page, MEDIA)
    cell(view, -1, 2).locator("g").first.click()
    condition = view.locator(".odps-x-chip bdi").inner_text()
    wanted = re.fullmatch(r"declared is (.+)", condition)[1]
    expect(status(view)).to_have_text("rows 1–7 of 7")
    assert [cell(view, row, 2).inner_text() for row in range(7)] == [wanted] * 7
    view.locator("th").nth(1).click()
    expect(view.locator("th").nth(1)).to_have_attribute("aria-sort", "ascending")
    expect(status(view)).to_contain_text("sorted by a SQL job")
    names = [cell(view, row, 1).inner_text() for row in range(7)]
    assert names == sorted(names)
    expect(cell(view, 6, 3).locator("img")).to_be_visible()


@pytest.mark.usefixtures("stalled")
def test_a_profile_of_all_rows_can_be_cancelled(page: Page) -> None:
    cancel_a_profile(explorer(page, ORDERS))


@pytest.mark.nightly
def test_the_explorer_can_be_used_by_keyboard(page: Page) -> None:
    use_the_keyboard(page, explorer(page, ORDERS))


@pytest.mark.nightly
def test_a_chart_is_drawn_from_its_panel(page: Page) -> None:
    view = explorer(page, ORDERS)
    draw_chart(view, x="status", color="ds")
    note = view.locator(".odps-x-charts > .odps-x-muted")
    expect(note).to_have_text("local.orders: rows by status, by ds · all rows")
    rows = sum(int(tip.rpartition(" ")[2].replace(",", "")) for tip in chart_tips(view))
    assert rows == 2_048_000


def test_the_sidebar_shows_tables(page: Page) -> None:
    page.evaluate("() => window.jupyterapp.shell.expandLeft('odps-nb-sidebar')")
    page.fill(".odpsNb-filter", "orders")
    page.locator(".odpsNb-row", has=page.get_by_text("orders", exact=True)).wait_for()


def test_our_scripts_raise_no_error(page: Page, service) -> None:
    # Notebook 7.6 itself reports an error when it starts; our script explorer.js is a blob
    assert [said for said in page.traffic.errors if re.search("odps|blob:", said)] == []
    assert service.access_key not in page.content()
