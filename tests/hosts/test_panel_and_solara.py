"""Panel and Solara show the same views as Jupyter, and no view is wider than the page.

Needs the packages panel, ipywidgets_bokeh, playwright, solara and solara-assets; the last two must
have the same version, because the assets are those of one version.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anywidget
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.support.apps import DRAWN, LIVE, STATIC, chromium, serving, surroundings
from tests.support.lab import free_port

pytestmark = [pytest.mark.nightly, pytest.mark.browser, pytest.mark.storage_api("blobs")]

FRONT_END = Path(anywidget.__file__).with_name("nbextension") / "index.js"
OBJECTS = """
import odps_nb

odps = odps_nb.connect()
def objects():
    orders = odps.table("orders")
    orders.read(["id"]).to_pandas()  # takes long enough to show progress
    return [
        orders.explore(),
        orders.chart("status", kind="bar"),
        odps.table("media").blobs("content", limit=4),
        orders,
        orders.read(["id", "status"], limit=5),
        orders.read(limit=5),
        odps.table("no_such_table"),
        odps,
    ]
"""
PANEL = """
import sys
import panel
from objects import objects

panel.extension("ipywidgets")
port = int(sys.argv[1])
origin = [f"127.0.0.1:{port}"]
app = lambda: panel.Column(*objects(), sizing_mode="stretch_width")
panel.serve(app, address="127.0.0.1", port=port, show=False, websocket_origin=origin)
"""
SOLARA = """
import solara
from objects import objects

@solara.component
def Page():
    kept = solara.use_memo(objects, [])
    with solara.Column():
        for one in kept:
            solara.display(one)
"""
SERVERS = {
    "panel": ("app.py", "{port}"),
    "solara": (
        *("-m", "solara", "run", "app.py", "--host", "127.0.0.1", "--port", "{port}"),
        *("--no-open", "--production"),
    ),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(params=SERVERS)
def page(
    request: pytest.FixtureRequest, browser: Browser, service: Any, tmp_path: Path
) -> Iterator[Page]:
    host, port = request.param, free_port()
    (tmp_path / "objects.py").write_text(OBJECTS)
    (tmp_path / "app.py").write_text({"panel": PANEL, "solara": SOLARA}[host])
    words = [one.format(port=port) for one in SERVERS[host]]
    url = f"http://127.0.0.1:{port}"

    def serve_or_abort(route: Route) -> None:
        if url in route.request.url:
            route.continue_()
        elif "anywidget" in route.request.url:  # Panel loads it from a public server
            route.fulfill(path=FRONT_END, content_type="text/javascript")
        else:
            route.abort()

    with serving([sys.executable, *words], url, env=surroundings(service), folder=tmp_path):
        opened = browser.new_page(viewport={"width": 1000, "height": 800})
        opened.set_default_timeout(DRAWN)
        opened.route("**/*", serve_or_abort)
        opened.goto(url)
        yield opened
        opened.close()


def test_views_are_live_and_nothing_is_wider_than_the_page(page: Page) -> None:
    expect(page.locator(LIVE)).to_have_count(3)
    for one in page.locator(STATIC).all():
        expect(one).to_be_hidden()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("rows 101–200 of 2,048,000")).to_be_visible()
    expect(page.locator(".odps-g-tile").first).to_be_visible()
    for text in ("8 partitions", "NotFoundError", "Connection to"):
        expect(page.get_by_text(text).last).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 1000
    for box in page.locator(".odps-x-box, div[aria-label^='rows of']").all():
        if box.is_visible():
            assert box.bounding_box()["width"] <= 1000
