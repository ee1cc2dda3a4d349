"""Widgets work in the imitated hosts of `tests.support.mounted`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Browser, Page, expect

from odps_nb.notebook.progress.cards import CancelButton
from tests.support.contrast import faint
from tests.support.mounted import ELSEWHERE, HOSTS, Host, Mounted

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.browser

VIEWS: dict[str, Callable[[Connection], Any]] = {
    "gallery": lambda odps: odps.table("media").blobs("content", limit=4),
    "explorer": lambda odps: odps.table("media").explore(rows=3),
    "chart": lambda odps: odps.table("media").chart("name"),
}
OPENED = {"explorer": ("Filter", "Columns", "Chart", "keys"), "gallery": ("show as a list",)}
GONE = "the kernel has stopped or was restarted; run the cell again for the live view"


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 900, "height": 1200})
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(error.stack or str(error)))
    yield page
    page.close()
    assert errors == []


@pytest.fixture
def mount(
    page: Page, odps: Connection, shell: Any, shown: list[Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Mounted]]:
    """Return a function that displays a widget in a kernel and mounts it in an imitated host."""
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    made: list[Any] = []
    shows: list[Mounted] = []

    def mounted(name: str, host: Host) -> Mounted:
        shown.clear()
        made.append(view := VIEWS[name](odps))
        view._ipython_display_()
        view = getattr(view, "_gallery", view)
        html = [one["data"]["text/html"] for one in shown if "text/html" in one["data"]]
        shows.append(Mounted(page, host, view.widget(), html[-1]))
        return shows[-1]

    yield mounted
    for one in (*made, *shows):
        one.close()


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.gate(10)
def test_the_static_page_is_shown_before_the_live_view_and_after_the_end_of_the_kernel(
    mount: Callable[..., Mounted], name: str, host: str
) -> None:
    view = mount(name, HOSTS[host])
    static, live = view.static.locator(".host-static"), view.frame.locator(".odps-x")
    expect(static).to_be_visible()
    expect(live).to_be_hidden()
    assert faint(view.static.locator("html")) == []
    view.exchange(view.is_live)
    expect(live).to_be_visible()
    expect(static).to_be_hidden()
    for button in OPENED.get(name, ()):
        live.get_by_role("button", name=button, exact=True).click()
    assert faint(live) == []
    view.frame.evaluate("() => window.kernel.statusChanged.emit('restarting')")
    expect(static).to_be_visible()
    expect(live).to_be_hidden()
    expect(view.frame.locator(".odps-x-note")).to_have_text(GONE)
    assert faint(view.frame.locator("html")) == []


@pytest.mark.parametrize("name", VIEWS)
def test_in_a_frame_of_another_origin_the_static_page_stays_and_the_live_view_works(
    mount: Callable[..., Mounted], name: str
) -> None:
    view = mount(name, ELSEWHERE)
    static, live = view.static.locator(".host-static"), view.frame.locator(".odps-x")
    assert (
        view.frame.evaluate("() => { try { return top.document.URL } catch { return '' } }") == ""
    )
    view.exchange(view.is_live)
    expect(live).to_be_visible()
    expect(static).to_be_visible()
    for button in OPENED.get(name, ()):
        live.get_by_role("button", name=button, exact=True).click()
    view.frame.evaluate("() => window.kernel.statusChanged.emit('restarting')")
    expect(live).to_be_hidden()
    expect(static).to_be_visible()


def test_a_view_has_the_colours_of_the_theme_of_its_page(mount: Callable[..., Mounted]) -> None:
    view = mount("gallery", HOSTS["light page"])
    view.exchange(view.is_live)
    live = view.frame.locator(".odps-x")
    for colours, scheme in (("background: #14181e; color: #ced6dd", "dark"), ("", "light")):
        view.frame.evaluate("(colours) => document.body.setAttribute('style', colours)", colours)
        expect(live).to_have_css("color-scheme", scheme)
        assert faint(live) == []


def test_the_focus_stays_on_the_same_cell_in_a_shadow_root(mount: Callable[..., Mounted]) -> None:
    view = mount("explorer", HOSTS["dark page"])
    view.exchange(view.is_live)
    rows = view.frame.locator('[role="status"]:not(.odps-x-note)')
    view.frame.locator('[data-row="2"][data-column="1"]').focus()
    view.page.keyboard.press("PageDown")
    view.exchange(lambda: rows.inner_text().startswith("rows 4–6"))
    expect(view.frame.locator('[data-row="0"][data-column="1"]')).to_be_focused()
    view.page.keyboard.press("ArrowRight")
    expect(view.frame.locator('[data-row="0"][data-column="2"]')).to_be_focused()


def test_a_cancel_button_is_shown_while_the_kernel_responds(page: Page, shell: Any) -> None:
    cancelled: list[bool] = []
    button = CancelButton(lambda: cancelled.append(True))
    view = Mounted(page, HOSTS["VS Code dark"], button._widget, "<b>card</b>")
    shown = view.frame.get_by_role("button", name="Cancel")
    expect(shown).to_be_hidden()
    view.exchange(view.is_live)
    assert faint(view.frame.locator(".odps-x")) == []
    shown.click()
    view.exchange(lambda: bool(cancelled))
    view.frame.evaluate("() => window.kernel.disposed.emit()")
    expect(view.frame.get_by_role("button")).to_be_hidden()
    expect(view.frame.locator(".host-static")).to_be_visible()
    button.remove()
