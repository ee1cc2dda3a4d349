"""A gallery in Chromium whose kernel answers late: the test is the kernel, and says when."""

from __future__ import annotations

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
  const model = {get: () => "", on: (_, tell) => (window.tell = tell), off: () => {},
                 send: (message) => window.sent.push(message)};
  module.default.render({model, el: document.body});
}"""


@pytest.fixture
def page(browser: Browser, odps: Connection) -> Any:
    import base64

    script = Gallery(odps.table("media").blobs("content")).widget()._esm
    page = browser.new_page()
    page.evaluate(RENDER, base64.b64encode(script.encode()).decode())
    assert sent(page)["do"] == "ready"
    tell(page, order="row")
    yield page
    page.close()


def sent(page: Page) -> dict[str, Any]:
    return page.evaluate("() => window.sent.at(-1)")


def tell(page: Page, question: dict[str, Any] | None = None, **shown: Any) -> None:
    """Tell the view what is shown, as the answer to a question or for another reason."""
    plain = {
        "kind": "gallery", "fresh": True, "title": "t", "summary": "3 blobs", "view": "grid",
        "total": 3, "count": 3, "note": "", "menu": [["all kinds", "all kinds (3)"]],
        "chosen": "all kinds", "search": "", "order": "row", "descending": False,
    }  # fmt: skip
    asked = {key: question[key] for key in ("by", "number")} if question else {}
    message = {**plain, **shown, **asked}
    page.evaluate("(message) => window.tell(message, [])", message)
    page.evaluate("(asked) => window.tell({kind: 'idle', lane: 'choose', ...asked}, [])", asked)


def test_an_answer_to_an_older_question_changes_no_control(page: Page) -> None:
    order, way = page.get_by_label("order", exact=True), page.get_by_label("descending", exact=True)
    order.select_option("name")
    first = sent(page)
    order.select_option("size")
    second = sent(page)
    tell(page, first, order="name")
    expect(order).to_have_value("size")
    expect(page.locator(".odps-g-box")).to_have_attribute("aria-busy", "true")
    way.click()
    third = sent(page)
    assert (third["order"], third["descending"]) == ("size", True)
    tell(page, second, order="size")
    expect(way).to_have_attribute("aria-pressed", "true")
    tell(page, third, order="size", descending=True)
    expect(page.locator(".odps-g-box")).not_to_have_attribute("aria-busy", "true")
    expect(order).to_have_value("size")


def test_what_another_view_or_the_kernel_chose_is_shown(page: Page) -> None:
    order = page.get_by_label("order", exact=True)
    tell(page, {"by": "another view", "number": 9}, order="name")
    expect(order).to_have_value("name")
    tell(page, order="size")
    expect(order).to_have_value("size")
