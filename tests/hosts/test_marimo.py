"""marimo shows the same views as Jupyter. Needs the packages marimo and playwright."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.apps import DRAWN, LIVE, STATIC, chromium, serving, surroundings
from tests.support.lab import free_port

pytestmark = [pytest.mark.nightly, pytest.mark.browser, pytest.mark.storage_api("blobs")]

VIEWS = (
    'odps.table("orders").explore()',
    'odps.table("orders").chart("status", kind="bar")',
    'odps.table("media").blobs("content", limit=4)',
)
PAGES = (
    'odps.table("orders")',
    'odps.table("orders").read(["id", "status"], limit=5)',
    'odps.table("no_such_table")',
    "odps",
)
READ = """
    for batch in odps.table("orders").read(["id"]).batches():
        time.sleep(0.1)
"""
# Spinners disappear at the end of a cell, so record their titles.
REMEMBER = """
    window.told = "";
    setInterval(() => {
        for (const one of document.querySelectorAll("marimo-progress")) {
            window.told += one.outerHTML;
        }
    }, 50);
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@contextmanager
def run_cells(
    browser: Browser, service: Any, folder: Path, mode: str, *cells: str
) -> Iterator[Page]:
    """Serve a notebook with these cells and open it in a browser."""
    first = "import time\n    import odps_nb\n    odps = odps_nb.connect()\n    return odps, time"
    texts = [f"import marimo\napp = marimo.App()\n\n@app.cell\ndef _():\n    {first}\n"]
    for cell in cells:
        body = textwrap.indent(textwrap.dedent(cell).strip(), "    ")
        texts.append(f"@app.cell\ndef _(odps, time):\n{body}\n    return\n")
    (folder / "notebook.py").write_text("\n".join(texts), "utf-8")
    (folder / "pyproject.toml").write_text("[tool.marimo.runtime]\nauto_instantiate = true\n")
    port = free_port()
    command = [sys.executable, "-m", "marimo", mode, "notebook.py", "--headless", "--no-token"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with serving(command, url, env=surroundings(service), folder=folder):
        page = browser.new_page()
        page.set_default_timeout(DRAWN)
        page.add_init_script(REMEMBER)
        page.route("**/*", lambda one: one.continue_() if url in one.request.url else one.abort())
        page.goto(url)
        yield page
        page.close()


@pytest.mark.parametrize("mode", ["run", "edit"])
def test_views_are_live_and_other_objects_show_their_static_pages(
    browser: Browser, service: Any, tmp_path: Path, mode: str
) -> None:
    with run_cells(browser, service, tmp_path, mode, *VIEWS, *PAGES) as page:
        expect(page.locator(LIVE)).to_have_count(len(VIEWS))
        for one in page.locator(STATIC).all():
            expect(one).to_be_hidden()
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_text("rows 101–200 of 2,048,000")).to_be_visible()
        expect(page.locator(LIVE).locator("figure, .odps-g-tile").first).to_be_visible()
        for text in ("8 partitions", "local.no_such_table", "Connection to"):
            expect(page.get_by_text(text).last).to_be_visible()


def test_a_running_operation_has_a_spinner_and_a_finished_operation_a_card(
    browser: Browser, service: Any, tmp_path: Path
) -> None:
    with run_cells(browser, service, tmp_path, "run", READ) as page:
        expect(page.get_by_text("done in")).to_be_visible(timeout=DRAWN)
        assert "read local.orders: reading" in page.evaluate("window.told")
        expect(page.locator("marimo-progress")).to_have_count(0)


def test_a_view_that_is_displayed_again_is_live_again(
    browser: Browser, service: Any, tmp_path: Path
) -> None:
    cells = ('kept = odps.table("orders").explore()', "kept")
    with run_cells(browser, service, tmp_path, "edit", *cells) as page:
        expect(page.locator(LIVE)).to_have_count(1)
        cell = page.locator("[data-cell-id]").last
        cell.hover()
        cell.get_by_test_id("run-button").first.click()
        page.wait_for_timeout(3000)
        expect(page.locator(LIVE)).to_have_count(1)
        page.get_by_role("button", name="Next").click()
        expect(page.get_by_text("rows 101–200 of 2,048,000")).to_be_visible()
