"""The built site in Chromium contacts no other host, fits the window, and can be searched.

Nightly, because it runs a tutorial and Sphinx (a minute or two); `make docs` itself fails on
warnings.
"""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page

from tests.support.apps import chromium

ROOT = Path(__file__).parents[2]
PAGES = (
    "index.html",
    "reference/tables.html",
    "reference/magics.html",
    "tutorials/01_quickstart.html",
    "project/readme.html",
    "types-and-times.html",
)
pytestmark = [pytest.mark.nightly, pytest.mark.browser, pytest.mark.spark, pytest.mark.kernel]


class SilentHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / "tools" / "build_site.py"), "--folder", str(folder)]
    done = subprocess.run(
        [*command, "--only", "01_*.ipynb"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    handler = functools.partial(SilentHandler, directory=str(folder / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    yield page
    page.close()


def test_no_page_contacts_another_host_or_is_wider_than_the_window(site: str, page: Page) -> None:
    urls: list[str] = []
    troubles: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    page.on("response", lambda got: troubles.append(got.url) if got.status >= 400 else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    for name in PAGES:
        for width in (1280, 420):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(site + name, wait_until="networkidle")
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            troubles += [f"{name} is {wide} too wide at {width}"] if wide > 0 else []
    assert len(urls) > len(PAGES)
    hosts = {urlsplit(url).netloc for url in urls if not url.startswith(("data:", "blob:"))}
    assert hosts == {urlsplit(site).netloc}
    assert [one for one in troubles if not one.endswith("favicon.ico")] == []


def test_search_finds_a_word_of_a_docstring(site: str, page: Page) -> None:
    page.goto(f"{site}search.html?q=upsert")
    page.wait_for_selector("#search-results ul.search li a")
    found = page.locator("#search-results ul.search li a").evaluate_all(
        "links => links.map(link => link.getAttribute('href'))"
    )
    assert any("reference/tables.html" in link for link in found)


def test_a_tutorial_shows_the_outputs_of_its_cells(site: str, page: Page) -> None:
    page.goto(f"{site}tutorials/01_quickstart.html")
    assert page.locator(".cell_output").count() > 5
    assert page.locator(".cell_output img:visible").count() > 3  # tiles of a gallery
    pictures = page.locator(".cell_output img").evaluate_all(
        "all => all.filter(one => one.complete && !one.naturalWidth).length"
    )
    assert pictures == 0


def test_the_magics_page_has_every_subcommand_with_its_options(site: str, page: Page) -> None:
    page.goto(f"{site}reference/magics.html")
    headings = page.locator("article h2 code").all_inner_texts()
    assert "%odps read" in headings
    assert "%%odps sql" in headings
    assert "-n N, --limit N" in page.locator("#odps-blobs").inner_text()
