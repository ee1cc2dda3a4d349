"""One Chromium, one Jupyter server and one page of JupyterLab for all tests in this folder.

One worker runs all tests of this folder and then closes these programs, because no other event loop
can run while Playwright runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from tests.support.browser import CHROMIUM, FLAGS
from tests.support.lab import Jupyter, lab

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.local.server.launch import LocalService


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    assert CHROMIUM.exists(), "browser tests need Debian's chromium: apt-get install chromium"
    expect.set_options(timeout=120_000)  # a long time-out, because the machine may be busy
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
    yield chromium
    chromium.close()


@pytest.fixture(scope="package")
def service(faulty: LocalService) -> LocalService:
    """The service of these tests; the fixture `stalled` stops its responses."""
    return faulty


@pytest.fixture(scope="package")
def odps(faulty_odps: Connection) -> Connection:
    """A connection to `service`."""
    return faulty_odps


@pytest.fixture(scope="package")
def jupyter(service: LocalService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jupyter]:
    """A server whose kernels connect to this run's service through environment variables."""
    env = service.environment
    with lab(tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("lab"), env) as running:
        yield running


class Traffic:
    """The requests of a page, the sizes of the messages that it received, and its errors."""

    def __init__(self, page: Page) -> None:
        self.urls: list[str] = []
        self.sizes: list[int] = []
        self.errors: list[str] = []
        page.on("request", lambda request: self.urls.append(request.url))
        page.on("websocket", lambda socket: socket.on("framereceived", self._count))
        page.on(
            "console",
            lambda said: (
                said.type == "error" and self.errors.append(f"{said.text} {said.location}")
            ),
        )
        page.on("pageerror", lambda error: self.errors.append(error.stack or str(error)))

    def _count(self, frame: str | bytes) -> None:
        self.sizes.append(len(frame))


@pytest.fixture(scope="package")
def new_page(browser: Browser) -> Callable[[], Page]:
    """Open a page for notebooks."""
    made = browser.new_context(viewport={"width": 1280, "height": 1400})

    def open_page() -> Page:
        page = made.new_page()
        page.set_default_timeout(120_000)
        page.traffic = Traffic(page)
        return page

    return open_page


@pytest.fixture(scope="package")
def lab_page(new_page: Callable[[], Page]) -> Page:
    """The page of JupyterLab, in which each test file opens and closes its notebook."""
    return new_page()


@pytest.fixture(scope="package")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser context for pages that are not notebooks."""
    made = browser.new_context()
    yield made
    made.close()
