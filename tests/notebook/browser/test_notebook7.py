"""Notebook 7: SQL highlighting, and an explorer with all functions as in JupyterLab.

One notebook and one kernel for all; the tests run in order. Values of every kind, the screen
reader and hostile texts are the same script as in JupyterLab: see test_explore.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.support.explored import (
    cancel_a_profile,
    cell,
    explorer,
    look_at_a_theme,
    status,
    use_the_keyboard,
)
from tests.support.lab import Jupyter, await_kernel, exported, load, notebook, run_all, save

pytestmark = pytest.mark.browser

CELLS = [
    "%load_ext odps_nb\n%odps connect -o odps",
    "odps.table('media').explore(rows=12)",
    "odps.table('orders').explore(seed=1)",
    "%%odps sql -o daily\nselect ds, count(*) as n -- each day\nfrom orders group by ds",
]
MEDIA, ORDERS = 0, 1


def end_kernel(page: Page) -> None:
    page.evaluate("() => window.jupyterapp.shell.currentWidget.context.sessionContext.shutdown()")


@pytest.fixture(scope="module")
def page(lab_page: Page, jupyter: Jupyter) -> Iterator[Page]:
    """A notebook whose cells have run."""
    jupyter.write("seven.ipynb", notebook(*CELLS))
    lab_page.traffic.errors.clear()
    load(lab_page, jupyter, "seven.ipynb", app="notebooks")
    await_kernel(lab_page, "seven.ipynb")
    run_all(lab_page)
    lab_page.wait_for_function(
        "() => document.querySelectorAll('.odps-x-described:not(:empty)').length === 2"
    )
    yield lab_page
    end_kernel(lab_page)


def test_it_is_notebook_7_and_our_extension_is_loaded(page: Page) -> None:
    assert page.evaluate("() => window.jupyterapp.name") == "Jupyter Notebook"
    assert page.evaluate("() => window.jupyterapp.version").startswith("7.")
    assert page.evaluate("() => window.jupyterapp.hasPlugin('odps-nb:colouring')")


def test_sql_below_our_magic_is_coloured(page: Page) -> None:
    query = page.locator(".jp-CodeCell").nth(3).locator(".cm-line")
    expect(query.nth(1).locator("span", has_text=re.compile("^select$"))).to_be_visible()
    expect(query.nth(1).locator("span", has_text="-- each day")).to_be_visible()
    assert query.nth(0).locator("span").count() == 0


def test_an_explorer_turns_pages_and_shows_its_profile(page: Page) -> None:
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


def test_a_bar_filters_and_a_header_sorts(page: Page) -> None:
    view = explorer(page, MEDIA)
    cell(view, -1, 2).locator("g").first.click()
    condition = view.locator(".odps-x-chip bdi").inner_text()
    wanted = re.fullmatch(r"declared = '(.+)'", condition)[1]
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


def test_the_keyboard_alone_moves_turns_filters_and_opens(page: Page) -> None:
    use_the_keyboard(page, explorer(page, ORDERS))


@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_texts_are_readable_in_dark_and_light(page: Page, theme: str) -> None:
    look_at_a_theme(page, explorer(page, ORDERS), theme)


def test_the_sidebar_shows_tables(page: Page) -> None:
    page.evaluate("() => window.jupyterapp.shell.expandLeft('odps-nb-sidebar')")
    page.fill(".odpsNb-filter", "orders")
    page.locator(".odpsNb-row", has=page.get_by_text("orders", exact=True)).wait_for()


def test_nothing_of_ours_had_an_error(page: Page, service) -> None:
    # Notebook 7.6 has one of its own when it starts; explorer.js is a blob
    assert [said for said in page.traffic.errors if re.search("odps|blob:", said)] == []
    assert service.access_key not in page.content()


# -- afterwards: the page is not used any more ----------------------------------------------------


@pytest.fixture(scope="module")
def saved(page: Page, jupyter: Jupyter) -> dict[str, Any]:
    """What Notebook 7 saved; its kernel is ended."""
    save(page)
    end_kernel(page)
    return json.loads((jupyter.folder / "seven.ipynb").read_text())


def static_tables(page: Page) -> list[Locator]:
    """Return the static tables of the two explorers."""
    outputs = [page.locator(".jp-CodeCell").nth(number) for number in (1, 2)]
    return [one.locator(".jp-OutputArea-child table:not([role=grid])") for one in outputs]


def test_reopened_with_trust_and_without_its_kernel_it_shows_the_static_view(
    page: Page, jupyter: Jupyter, saved: dict[str, Any]
) -> None:
    load(page, jupyter, "seven.ipynb", app="notebooks")
    for table in static_tables(page):
        expect(table).to_be_visible()
    failed = page.get_by_text("model not found")  # hidden: see test_explore.py
    either = failed.or_(page.get_by_text("run the cell again to turn pages"))
    expect(either).to_have_count(2)
    assert not any(failed.nth(n).is_visible() for n in range(failed.count()))
    await_kernel(page, "seven.ipynb")
    end_kernel(page)


def test_reopened_without_trust_it_shows_the_static_view(
    page: Page, jupyter: Jupyter, saved: dict[str, Any]
) -> None:
    added = notebook("1")["cells"][0] | {"id": "added"}  # no signature knows it
    jupyter.write("untrusted7.ipynb", saved | {"cells": [*saved["cells"], added]})
    load(page, jupyter, "untrusted7.ipynb", app="notebooks")
    media, orders = static_tables(page)
    expect(media).to_be_visible()
    expect(orders).to_be_visible()
    assert page.locator(".odps-x").count() == 0
    assert "shipped" in orders.inner_text()
    assert "sample of 64,000 of 2,048,000 rows" in page.locator("body").inner_text()
    await_kernel(page, "untrusted7.ipynb")  # which the end of this file ends


def test_an_export_shows_the_static_view(
    browser: Browser, jupyter: Jupyter, saved: dict[str, Any], tmp_path: Path
) -> None:
    address = exported(jupyter.folder / "seven.ipynb", tmp_path / "saved.html")
    context = browser.new_context(offline=True)
    shown = context.new_page()
    shown.goto(address, wait_until="domcontentloaded")
    for table in static_tables(shown):
        expect(table).to_be_visible()
    assert "2,048,000 rows" in shown.locator("body").inner_text()
    context.close()
