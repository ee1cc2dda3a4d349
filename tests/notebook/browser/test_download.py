"""Downloads from an explorer in a real JupyterLab: complete, cancelled and repeated."""

import json
import re

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect

from odps_nb.notebook.explore.exports import CHUNK
from tests.support.explored import await_profiles, explorer, status
from tests.support.lab import close_notebook, notebook, open_notebook, run_all, save

pytestmark = pytest.mark.browser

DAY = {"partitions": "ds=2024-01-02"}
CELLS = [
    "import odps_nb\nodps = odps_nb.connect()",
    f"odps.table('orders').read(partitions={DAY['partitions']!r}).explore()",
]


@pytest.fixture(scope="module")
def page(lab_page, jupyter):
    jupyter.write("download.ipynb", notebook(*CELLS))
    open_notebook(lab_page, jupyter, "download.ipynb")
    run_all(lab_page)
    await_profiles(lab_page, 1)
    explorer(lab_page, 0).get_by_role("button", name="Download").click()
    yield lab_page
    close_notebook(lab_page, kernel=True)


@pytest.fixture(scope="module")
def rows(odps):
    return odps.table("orders").read(**DAY).to_arrow(progress=False)


def download(page, rows):
    """Download all rows, and return the path of the file."""
    panel = explorer(page, 0).get_by_role("group", name="download")
    with page.expect_download() as begun:
        panel.get_by_role("button", name="Parquet", exact=True).click()
    assert begun.value.suggested_filename.endswith("orders.parquet")
    expect(panel).to_contain_text(re.compile(rf"orders.parquet: {rows.num_rows:,} rows, [\d.]+ MB"))
    return begun.value.path()


def test_a_file_of_many_chunks_is_complete_and_in_order(page, rows):
    path = download(page, rows)
    assert path.stat().st_size > 20 * CHUNK
    found = pq.read_table(path)
    assert found.column_names == rows.column_names
    for name in rows.column_names:
        assert found[name].equals(rows[name].cast(found[name].type)), name


def test_a_cancelled_download_leaves_no_file_and_the_next_download_is_complete(page, rows, stalled):
    view = explorer(page, 0)
    panel = view.get_by_role("group", name="download")
    files = []
    page.on("download", lambda file: files.append(file))
    panel.get_by_role("button", name="CSV", exact=True).click()
    busy = view.locator(".odps-x-busy")
    expect(busy).to_contain_text("download: reading")
    busy.get_by_role("button", name="Cancel").click()
    expect(busy).to_be_hidden()
    expect(view.locator(".odps-x-problem")).to_have_text("cancelled")
    assert files == []
    stalled()
    view.get_by_label("next page").click()
    expect(status(view)).to_have_text(f"rows 101–200 of {rows.num_rows:,}")
    found = pq.read_table(download(page, rows), columns=["id"])
    assert found["id"].to_pylist() == rows["id"].to_pylist()
    assert len(files) == 1


def test_no_downloaded_file_is_stored_in_the_notebook(page, jupyter):
    save(page)
    saved = json.loads((jupyter.folder / "download.ipynb").read_text())
    assert len(json.dumps(saved["cells"][1]["outputs"])) < 400_000
