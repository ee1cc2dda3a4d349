"""An executed notebook as an HTML page that loads the front end of widgets, in Chromium.

Nightly, because the front end comes from npm. It is served in place of the addresses that the pages
name; all other requests fail.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from odps_nb.local.server.launch import start
from tests.support.apps import chromium
from tests.support.lab import notebook

pytestmark = [pytest.mark.browser, pytest.mark.nightly]

REPO = Path(__file__).resolve().parents[2]
PACKAGES = ("requirejs@2.1.22", "@jupyter-widgets/html-manager@1.0.15", "anywidget@0.11.0")
REQUIRE, EMBED = "requirejs/require.js", "@jupyter-widgets/html-manager/dist/embed-amd.js"
CELLS = [
    "import odps_nb\nodps = odps_nb.connect()",
    "odps.table('media').explore(rows=3)",
    "odps.table('media').chart('declared')",
    "odps.table('media').blobs('content', limit=4)",
    # the state of an operation that was running when the notebook was saved
    "from odps_nb.notebook.progress.cards import CancelButton\nbutton = CancelButton(print)",
]
VIEWS = len(CELLS) - 1
WIDGET, STATE = (f"application/vnd.jupyter.widget-{one}+json" for one in ("view", "state"))


@pytest.fixture(scope="module")
def front_end(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the front end's packages, installed from npm."""
    folder = tmp_path_factory.mktemp("npm")
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-save"]
    subprocess.run([*command, *PACKAGES], cwd=folder, check=True, capture_output=True)
    return folder / "node_modules"


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A notebook with all widgets, executed by nbconvert and saved with their state."""
    path = tmp_path_factory.mktemp("executed") / "report.ipynb"
    path.write_text(json.dumps(notebook(*CELLS)))
    with start() as service:
        env = {
            **service.environment,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(REPO), os.environ.get("PYTHONPATH")])),
        }
        _nbconvert(path, "notebook", "--execute", "--inplace", env=env)
    assert STATE in path.read_text()
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser, front_end: Path) -> Iterator[Page]:
    """A browser page that can load only the packages of `front_end`."""
    page = browser.new_page(viewport={"width": 1000, "height": 1600})

    def serve(route: Route) -> None:
        url = route.request.url.split("?")[0]
        name = "anywidget/dist/index.js" if re.search(r"/npm/anywidget@", url) else None
        if url.endswith("/require.min.js"):
            name = REQUIRE
        elif match := re.search(r"/(@jupyter-widgets/html-manager)@[^/]*/(.*)$", url):
            name = "/".join(match.groups())
        if url.startswith("file:"):
            route.continue_()
        elif name is not None:
            route.fulfill(path=front_end / name, content_type="text/javascript")
        else:
            route.abort()

    page.route("**/*", serve)
    yield page
    page.close()


def _nbconvert(path: Path, to: str, *more: str, env: dict[str, str] | None = None) -> None:
    command = [sys.executable, "-m", "nbconvert", "--to", to, *more, str(path)]
    subprocess.run(command, env={**os.environ, **(env or {})}, check=True, timeout=600)


def _by_nbconvert(path: Path) -> str:
    """Return the page that nbconvert creates."""
    _nbconvert(path, "html")
    return path.with_suffix(".html").read_text()


def _as_myst_nb(path: Path) -> str:
    """Return a page as myst-nb creates it: outputs in containers, and the front end of widgets."""
    saved: dict[str, Any] = json.loads(path.read_text())
    outputs = [output["data"] for cell in saved["cells"] for output in cell["outputs"]]
    state = json.dumps(saved["metadata"]["widgets"][STATE]).replace("</", "<\\/")
    parts = [
        f'<script type="{WIDGET}">{json.dumps(data[WIDGET])}</script>'
        if WIDGET in data
        else "".join(data.get("text/html", ""))
        for data in outputs
    ]
    body = "".join(
        f'<div class="cell_output"><div class="output">{one}</div></div>' for one in parts
    )
    return (
        f'<!DOCTYPE html><script src="https://cdnjs.cloudflare.com/require.min.js"></script>'
        f'<script src="https://cdn.jsdelivr.net/npm/@jupyter-widgets/html-manager@1.0.15/dist/'
        f'embed-amd.js"></script><body>{body}<script type="{STATE}">{state}</script></body>'
    )


@pytest.mark.parametrize("made", [_by_nbconvert, _as_myst_nb])
def test_an_exported_page_shows_the_static_pages_and_no_controls(
    page: Page, executed: Path, tmp_path: Path, made: Any
) -> None:
    target = tmp_path / "report.html"
    target.write_text(made(executed))
    page.goto(target.as_uri())
    expect(page.locator(".odps-x-waiting")).to_have_count(VIEWS)
    static = page.locator('[class^="odps-nb-"]')
    expect(static).to_have_count(VIEWS - 1)
    for one in static.all():
        expect(one).to_be_visible()
    controls = page.locator("button, input, select, textarea, progress").locator("visible=true")
    assert [one.inner_text() for one in controls.all()] == []
