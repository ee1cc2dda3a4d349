"""`make pictures`: take the pictures in docs/ from real runs in JupyterLab.

Also writes ``build/quickstart-light.png`` and ``-dark.png`` of the whole quickstart notebook.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import nbformat
from _service import service_environment
from lab_page import open_notebook, run_all, whole_picture
from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "notebooks" / "01_quickstart.ipynb"
BUILD = ROOT / "build"
IMAGES = ROOT / "docs" / "images"

EXPLORE = """odps.table("orders").read(
    ["id", "amount", "quantity", "status", "created", "due", "gift"]
).explore(seed=1)"""
CHART = 'odps.table("orders").chart("quantity", color="status", kind="bar")'
# each picture extends from the cell that begins with the first text to that with the second text
CROPS = {
    "read": ("%odps read", "by_status"),
    "gallery": ("%odps blobs", "%odps blobs"),
}
PLACE = """(text) => {
  const cells = [...document.querySelectorAll('.jp-Notebook .jp-CodeCell')];
  const cell = cells.find(c => c.querySelector('.cm-content').innerText.startsWith(text));
  const box = cell.getBoundingClientRect();
  return [box.left, box.top, box.right, box.bottom];
}"""


def crop(page: Page, path: Path, first: str, last: str) -> None:
    left, top, right, _ = page.evaluate(PLACE, first)
    bottom = page.evaluate(PLACE, last)[3]
    page.screenshot(
        path=str(path),
        clip={"x": left, "y": top, "width": right - left, "height": min(bottom - top, 1100)},
    )


def picture_sidebar(folder: str, environment: dict[str, str]) -> None:
    """Save the picture of the sidebar next to the start of the quickstart, after connecting."""
    copy = Path(shutil.copy(NOTEBOOK, folder))
    with open_notebook(copy, env=environment, width=1100) as page:
        page.set_viewport_size({"width": 1100, "height": 520})
        page.evaluate(
            "() => { const lab = window.jupyterapp; const book = lab.shell.currentWidget.content;"
            " book.activeCellIndex = 2; lab.commands.execute('notebook:run-cell');"
            " lab.shell.activateById('odps-nb-sidebar'); }"
        )
        page.get_by_text("orders", exact=True).locator("visible=true").first.wait_for()
        page.locator(".odpsNb-row", has_text="orders").click()
        page.locator(".odpsNb-row", has_text="decimal").first.wait_for()
        page.evaluate(
            "() => { const book = window.jupyterapp.shell.currentWidget.content;"
            " book.widgets[13].node.scrollIntoView({block: 'center'}); }"
        )
        page.wait_for_timeout(400)
        page.screenshot(path=str(IMAGES / "sidebar.png"))


def picture_explorer(folder: str, theme: str, environment: dict[str, str]) -> None:
    """Save pictures of an explorer, whose panel shows the values of one column, and of a chart."""
    path = Path(folder, "explore.ipynb")
    connect = "%load_ext odps_nb\n%odps connect -o odps"
    cells = [nbformat.v4.new_code_cell(source) for source in (connect, EXPLORE, CHART)]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)
    with open_notebook(path, theme=theme, env=environment, width=1100) as page:
        if errors := run_all(page)["errors"]:
            raise SystemExit(f"the explorer fails in JupyterLab: {errors}")
        view = page.locator(".odps-x-described")
        view.get_by_text("sample of").wait_for()
        page.set_viewport_size({"width": 1100, "height": 1200})
        page.locator(".odps-x-ends", has_text="shipped").click()
        page.get_by_role("dialog").locator(".odps-x-row").first.wait_for()
        page.wait_for_timeout(500)  # wait for the layout of the larger page
        crop(page, IMAGES / f"explore-{theme}.png", "odps.table", "odps.table")
        page.locator(".odps-x-chart").last.scroll_into_view_if_needed()
        crop(page, IMAGES / f"chart-{theme}.png", CHART, CHART)


def main() -> None:
    BUILD.mkdir(exist_ok=True)
    IMAGES.mkdir(exist_ok=True)
    with service_environment() as environment, tempfile.TemporaryDirectory() as folder:
        picture_sidebar(folder, environment)
        for theme in ("light", "dark"):
            picture_explorer(folder, theme, environment)
            copy = Path(shutil.copy(NOTEBOOK, folder))
            with open_notebook(copy, theme=theme, env=environment, width=1100) as page:
                state = run_all(page)
                if state["errors"]:
                    raise SystemExit(f"the quickstart fails in JupyterLab: {state['errors']}")
                whole_picture(page, BUILD / f"quickstart-{theme}.png")
                for name, (first, last) in CROPS.items():
                    crop(page, IMAGES / f"{name}-{theme}.png", first, last)
            print(f"  docs/images/*-{theme}.png, build/quickstart-{theme}.png")


if __name__ == "__main__":
    main()
