"""The file picker in a real JupyterLab: files chosen in the browser become rows of a table."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from odps_nb.access.connection import Connection
from tests.support.lab import Jupyter, close_notebook, notebook, open_notebook, run_all, save

pytestmark = pytest.mark.browser

NASTY = '"><img src=x onerror="odpsNbProbe=1">.txt'


@pytest.fixture(scope="module")
def names(odps: Connection) -> Iterator[tuple[str, str]]:
    good, wrong = f"uploaded_{os.getpid()}", f"upload_wrong_{os.getpid()}"
    odps.create_table(wrong, "id bigint")
    yield good, wrong
    for name in (good, wrong):
        odps.drop_table(name, if_exists=True)


@pytest.fixture(scope="module")
def page(lab_page: Page, jupyter: Jupyter, names: tuple[str, str]) -> Iterator[Page]:
    cells = [
        "import odps_nb\nodps = odps_nb.connect()",
        *(f"odps.table({n!r}).upload()" for n in names),
    ]
    cells += [
        "odps.table('media').blobs('content', limit=2)",
        "odps.table('media').explore(rows=3)",
    ]
    jupyter.write("upload.ipynb", notebook(*cells))
    open_notebook(lab_page, jupyter, "upload.ipynb")
    run_all(lab_page)
    expect(lab_page.locator(".odps-u:visible")).to_have_count(2)
    yield lab_page
    close_notebook(lab_page, kernel=True)


def chosen(page: Page, number: int, *files: dict[str, Any]) -> Any:
    picker = page.locator(".odps-u").nth(number)
    picker.locator("input[type=file]").set_input_files(list(files))
    return picker


@pytest.mark.nightly
def test_each_view_of_a_notebook_has_its_own_look(page: Page) -> None:
    look = "(one, name) => getComputedStyle(one)[name]"
    tile, picker = page.locator(".odps-g-tile"), page.locator(".odps-u").first
    expect(tile).to_have_count(2)
    assert tile.first.evaluate(look, "position") == "absolute"
    assert picker.evaluate(look, "borderLeftWidth") == "4px"
    expect(page.locator(".odps-x-described")).to_contain_text("profile")
    assert page.locator(".odps-x-box thead").evaluate(look, "position") == "sticky"


def test_two_files_are_chosen_uploaded_and_committed(
    page: Page, odps: Connection, names: tuple[str, str]
) -> None:
    large = bytes(range(256)) * 10_000
    picker = chosen(
        page,
        0,
        {"name": "photo.bin", "mimeType": "image/png", "buffer": large},
        {"name": NASTY, "mimeType": "text/plain", "buffer": b"hello"},
    )
    expect(picker.locator("li")).to_have_count(2)
    expect(picker.locator("[role=status]")).to_have_text("2 files, 2.56 MB")
    picker.get_by_role("button", name="Upload").click()
    expect(picker).to_have_attribute("data-state", "done")
    expect(picker.locator("[role=status]")).to_contain_text("2 rows")
    assert picker.locator("li span:last-child").all_inner_texts() == ["written", "written"]
    rows = odps.table(names[0]).read().to_arrow().to_pylist()
    found = {row["name"]: odps.blob(row["content"]).bytes() for row in rows}
    assert found == {"photo.bin": large, NASTY: b"hello"}
    assert page.evaluate("() => window.odpsNbProbe") is None


def test_an_error_of_the_service_is_reported_in_the_card(page: Page) -> None:
    picker = chosen(page, 1, {"name": "a.txt", "mimeType": "text/plain", "buffer": b"a"})
    picker.get_by_role("button", name="Upload").click()
    expect(picker).to_have_attribute("data-state", "failed")
    expect(picker.get_by_role("alert")).to_contain_text("no BLOB column 'content'")
    expect(picker.get_by_role("button", name="Upload")).to_be_enabled()


def test_the_saved_notebook_says_what_was_written_without_a_kernel(
    page: Page, jupyter: Jupyter
) -> None:
    save(page)
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")
    saved = json.loads(Path(jupyter.folder, "upload.ipynb").read_text())
    good, wrong = (cell["outputs"] for cell in saved["cells"][1:3])
    assert not page.get_by_text("No file has been written yet").first.is_visible()
    text = "".join(good[0]["data"]["text/html"])
    assert "2 rows" in text
    assert "photo.bin" in text
    assert "<img" not in text
    assert "run the cell again" in "".join(wrong[0]["data"]["text/html"])
    for outputs in (good, wrong):
        assert "".join(outputs[1]["data"]["text/plain"]) == "run the cell again to choose files"
