"""Pages made from notebooks show every view, and no control that needs a kernel."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import Browser

from tests.hosts.conftest import SEEN, VIEWS, Program
from tests.support.apps import chromium
from tests.support.lab import free_port, notebook

pytestmark = [pytest.mark.nightly, pytest.mark.kernel, pytest.mark.browser]

SETTINGS = {
    "myst_nb": "nb_execution_mode = 'off'",
    "nbsphinx": "nbsphinx_execute = 'never'",
}
CONTROLS = "button:visible, input:visible, select:visible, textarea:visible"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def make_page(executed: Path, folder: Path, kind: str) -> Path:
    """Convert the notebook to a page, and return its path."""
    shutil.copy(executed, folder)
    if kind in ("html", "markdown"):
        command = ["nbconvert", "--to", kind, "--output-dir", "site", executed.name]
    else:
        conf = f"extensions = ['{kind}']\nroot_doc = 'views'\n{SETTINGS[kind]}\n"
        (folder / "conf.py").write_text(conf, "utf-8")
        command = ["sphinx", "-b", "html", ".", "site"]
    subprocess.run([sys.executable, "-m", *command], cwd=folder, check=True, timeout=600)
    page = folder / "site" / "views.html"
    if kind == "markdown":
        from markdown_it import MarkdownIt  # a dependency of myst-nb

        text = page.with_suffix(".md").read_text("utf-8")
        html = MarkdownIt("commonmark").render(text)
        page.write_text(f'<meta charset="utf-8"><div class="output">{html}</div>', "utf-8")
    return page


@pytest.mark.parametrize("kind", ["html", "markdown", *SETTINGS])
def test_exported_pages_show_every_view_and_no_controls(
    executed: Path, tmp_path: Path, browser: Browser, kind: str
) -> None:
    path = make_page(executed, tmp_path, kind)
    with browser.new_page() as page:
        page.route("http*://**", lambda route: route.abort())
        page.goto(path.as_uri())
        text = page.inner_text("body")
        assert [one for one in SEEN if one not in text.replace(",", "")] == []
        outputs = page.locator(".output, .cell_output, .jp-OutputArea, .nboutput")
        assert outputs.locator(CONTROLS).count() == 0
        assert outputs.locator("img:visible, svg:visible").count() >= 4


@pytest.mark.parametrize("form", ["py:percent", "md", "md:myst", "Rmd"])
def test_magics_are_unchanged_by_a_round_trip_through_jupytext(
    tmp_path: Path, form: str, program: Program
) -> None:
    cells = [*VIEWS.values(), "rows = %odps read orders -n 3", "%odps read orders -p ds={day};"]
    book = nbformat.from_dict(notebook(*cells))
    nbformat.write(book, tmp_path / "one.ipynb")
    ending = form.partition(":")[0]
    for command in (
        ("--to", form, "one.ipynb", "-o", f"two.{ending}"),
        ("--to", "ipynb", f"two.{ending}", "-o", "three.ipynb"),
    ):
        done = program("jupytext", *command)
        assert done.returncode == 0, done.stderr
    back = nbformat.read(tmp_path / "three.ipynb", as_version=4)
    assert [one.source for one in back.cells] == cells


def test_voila_shows_live_views(
    tmp_path: Path, browser: Browser, kernel_env: dict[str, str]
) -> None:
    book = nbformat.from_dict(notebook(*VIEWS.values()))
    nbformat.write(book, tmp_path / "views.ipynb")
    port = free_port()
    options = ("--no-browser", "--Voila.ip=127.0.0.1", f"--port={port}", "views.ipynb")
    command = [sys.executable, "-m", "voila", *options]
    with subprocess.Popen(command, cwd=tmp_path, env=kernel_env) as server:
        try:
            with browser.new_page() as page:
                page.set_default_timeout(180_000)
                for _ in range(120):
                    try:
                        page.goto(f"http://127.0.0.1:{port}/")
                        break
                    except Exception as error:
                        if "ERR_CONNECTION_REFUSED" not in str(error):
                            raise
                        page.wait_for_timeout(1000)
                for drawn in (".odps-x-described", ".odps-g-tile", ".odps-x-chart svg"):
                    page.locator(drawn).first.wait_for()
        finally:
            server.terminate()
