"""A gallery in Chromium whose kernel responds late: the test acts as the kernel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import Browser, Page, expect

from odps_nb.notebook.gallery.view import Gallery

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

pytestmark = pytest.mark.browser

RENDER = """async (script) => {
  const module = await import("data:text/javascript;base64," + script);
  window.sent = [];
  const kernel = window.kernel = {status: "idle", disposed: {connect: () => {}}, statusChanged: {
    connect: (tell) => (kernel.change = (status) => tell(kernel, kernel.status = status)),
  }};
  const send = (message) => {
    if (window.isDisposed) throw Error("Cannot send"); // as ipywidgets does after a restart
    window.sent.push(message);
  };
  const model = {get: () => "", on: (_, tell) => (window.tell = tell), off: () => {},
                 widget_manager: {kernel}, send};
  module.default.render({model, el: document.body});
}"""


@pytest.fixture
def page(browser: Browser, odps: Connection) -> Any:
    import base64

    script = Gallery(odps.table("media").blobs("content")).widget()._esm
    page = browser.new_page()
    page.clock.install()  # only the tests advance the clock
    page.clock.pause_at(2_000_000_000)
    page.evaluate(RENDER, base64.b64encode(script.encode()).decode())
    yield page
    page.close()


@pytest.fixture
def shown(page: Page) -> Page:
    send_state(page, order="row")
    return page


def last_sent(page: Page) -> dict[str, Any]:
    return page.evaluate("() => window.sent.at(-1)")


def send_state(page: Page, question: dict[str, Any] | None = None, **shown: Any) -> None:
    """Send the view its state, as a response to a request or without one."""
    plain = {
        "kind": "gallery", "fresh": True, "title": "t", "summary": "3 blobs", "view": "grid",
        "total": 3, "count": 3, "note": "", "menu": [["all kinds", "all kinds (3)"]],
        "chosen": "all kinds", "search": "", "order": "row", "descending": False,
    }  # fmt: skip
    ids = {key: question[key] for key in ("by", "number")} if question else {}
    message = {**plain, **shown, **ids}
    page.evaluate("(message) => window.tell(message, [])", message)
    page.evaluate("(asked) => window.tell({kind: 'idle', task: 'choose', ...asked}, [])", ids)


def test_a_view_shows_that_it_is_waiting_for_the_kernel(page: Page) -> None:
    def ready_messages() -> int:
        return page.evaluate("() => window.sent.filter((one) => one.do === 'ready').length")

    assert ready_messages() == 1
    page.clock.run_for(3000)
    assert ready_messages() == 4  # the view asks once per second
    send_state(page, order="row")
    page.clock.run_for(100_000)
    assert ready_messages() == 4


def test_a_view_shows_whether_the_kernel_is_busy_or_has_ended(page: Page) -> None:
    alert = page.get_by_role("alert")
    send_state(page, order="row")
    page.get_by_label("descending", exact=True).click()
    page.clock.run_for(5000)
    expect(alert).to_have_text("")  # the kernel is idle, so the service is slow
    page.evaluate("() => (window.kernel.status = 'busy')")
    page.clock.run_for(1000)
    expect(alert).to_have_text(re.compile("^the kernel is busy"))
    send_state(page, order="row")
    expect(alert).to_have_text("")
    page.evaluate("() => { window.isDisposed = true; window.kernel.change('restarting'); }")
    page.evaluate("() => window.kernel.change('idle')")
    expect(page.locator(".odps-x-note")).to_have_text(re.compile("^the kernel has stopped"))
    expect(page.locator(".odps-g")).to_contain_class("odps-x-waiting")


def test_a_response_to_an_older_request_changes_no_control(shown: Page) -> None:
    order, way = (
        shown.get_by_label("order", exact=True),
        shown.get_by_label("descending", exact=True),
    )
    order.select_option("name")
    first = last_sent(shown)
    order.select_option("size")
    second = last_sent(shown)
    send_state(shown, first, order="name")
    expect(order).to_have_value("size")
    expect(shown.locator(".odps-g-box")).to_have_attribute("aria-busy", "true")
    way.click()
    third = last_sent(shown)
    assert (third["order"], third["descending"]) == ("size", True)
    send_state(shown, second, order="size")
    expect(way).to_have_attribute("aria-pressed", "true")
    send_state(shown, third, order="size", descending=True)
    expect(shown.locator(".odps-g-box")).not_to_have_attribute("aria-busy", "true")
    expect(order).to_have_value("size")


def test_a_changing_progress_text_does_not_move_a_pressed_button(shown: Page) -> None:
    def progress(text: str) -> None:
        message = {"kind": "busy", "task": "choose", "text": text, "share": 0.5}
        shown.evaluate("(message) => window.tell(message, [])", message)

    progress("reading")
    cancel = shown.get_by_role("button", name="Cancel")
    cancel.hover()
    shown.mouse.down()
    progress("reading, 12 % · 255,000 of 2,048,000 rows · 53.8 MB · no progress for 28 s")
    shown.mouse.up()
    assert last_sent(shown) == {"do": "cancel", "task": "choose"}


def test_a_view_shows_choices_made_in_other_views_or_by_the_kernel(shown: Page) -> None:
    order = shown.get_by_label("order", exact=True)
    send_state(shown, {"by": "another view", "number": 9}, order="name")
    expect(order).to_have_value("name")
    send_state(shown, order="size")
    expect(order).to_have_value("size")
