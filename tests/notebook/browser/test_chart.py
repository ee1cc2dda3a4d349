"""Charts work in a real JupyterLab: from the panel of an explorer, from code, and saved."""

import json
import os
import re
import signal

import pytest
from playwright.sync_api import expect

from tests.support.contrast import faint
from tests.support.explored import (
    await_profiles,
    cell,
    change_theme,
    chart_tips,
    column_of,
    draw_chart,
    explorer,
    status,
)
from tests.support.lab import (
    await_kernel,
    close_notebook,
    load,
    notebook,
    open_notebook,
    run_all,
    save,
)

pytestmark = pytest.mark.browser

CELLS = [
    "import odps_nb, os\nodps = odps_nb.connect()\nprint('process', os.getpid())",
    "odps.table('orders').read(partitions='ds=2024-01-02').explore()",
    "odps.table('orders').read(partitions='ds=2024-01-02').chart('status', 'amount')",
]
EXPLORER, CHART = 0, 1


@pytest.fixture(scope="module")
def page(lab_page, jupyter):
    jupyter.write("chart.ipynb", notebook(*CELLS))
    open_notebook(lab_page, jupyter, "chart.ipynb")
    run_all(lab_page)
    expect(lab_page.locator(".odps-x-chart svg")).to_have_count(1)
    await_profiles(lab_page, 1)
    draw_chart(explorer(lab_page, EXPLORER), x="status")
    return lab_page


def test_the_chart_panel_shows_the_counts_of_the_service(page, odps):
    view = explorer(page, EXPLORER)
    draw_chart(view, x="status")
    note = view.locator(".odps-x-charts > .odps-x-muted")
    expect(note).to_have_text("local.orders: rows by status · all rows")
    query = "select status, count(*) n from orders where ds = '2024-01-02' group by status"
    wanted = odps.sql(query).to_pandas()
    assert sorted(chart_tips(view)) == sorted(
        f"status: {row.status}\nrows: {row.n:,}" for row in wanted.itertuples()
    )


def test_a_filter_of_the_explorer_applies_to_its_chart(page):
    view = explorer(page, EXPLORER)
    cell(view, -1, column_of(view, "status")).locator("g").nth(0).click()
    expect(view.locator(".odps-x-chip")).to_have_count(1)
    draw_chart(view, x="status")
    expect(view.locator(".odps-x-charts > .odps-x-muted")).to_contain_text("that match the filter")
    expect(view.locator(".odps-x-chart rect")).to_have_count(1)
    again = view.get_by_role("button", name="Draw again: the filter has changed")
    expect(again).to_have_count(0)
    for _ in range(3):  # ascending, descending and unsorted orders have the same rows
        cell(view, -2, column_of(view, "quantity")).click()
        expect(status(view)).to_contain_text("rows 1–")
        expect(view.locator(".odps-x-box")).not_to_have_attribute("aria-busy", "true")
        expect(again).to_have_count(0)
    view.get_by_label("remove the filter").click()
    expect(view.locator(".odps-x-chip")).to_have_count(0)
    again.click()
    expect(again).to_have_count(0)
    expect(view.locator(".odps-x-charts > .odps-x-muted")).not_to_contain_text("filter")


def test_options_that_do_not_apply_are_hidden(page):
    panel = explorer(page, EXPLORER).locator(".odps-x-charts")
    expect(panel.get_by_label("aggregate")).to_be_hidden()
    expect(panel.get_by_label("step")).to_be_hidden()
    panel.get_by_label("x", exact=True).select_option("created")
    expect(panel.get_by_label("step")).to_be_visible()
    panel.get_by_label("y", exact=True).select_option("amount")
    expect(panel.get_by_label("aggregate")).to_be_visible()
    assert "photo" not in panel.get_by_label("x", exact=True).inner_text()
    panel.get_by_label("y", exact=True).select_option("")


def test_a_chart_can_be_drawn_by_keyboard(page):
    view = explorer(page, EXPLORER)
    panel = view.locator(".odps-x-charts")
    button = view.get_by_role("button", name="Chart", exact=True)
    button.press("Enter")
    expect(panel).to_be_hidden()
    button.press("Enter")
    expect(panel.get_by_label("x", exact=True)).to_be_focused()
    page.keyboard.type("gift")
    panel.get_by_role("button", name="Draw").press("Enter")
    expect(view.locator(".odps-x-charts > .odps-x-muted")).to_contain_text("rows by gift")


def test_an_error_in_the_options_of_a_chart_keeps_the_previous_chart(page):
    view = explorer(page, EXPLORER)
    draw_chart(view, x="status", kind="scatter")
    expect(view.locator(".odps-x-problem")).to_contain_text("needs a column of numbers")
    expect(view.locator(".odps-x-chart svg")).to_have_count(1)
    draw_chart(view, x="status", kind="automatic")
    expect(view.locator(".odps-x-charts > .odps-x-muted")).to_contain_text("rows by status")


def test_a_chart_from_code_has_tooltips_and_code_to_copy(page):
    view = explorer(page, CHART)
    assert any(
        re.match(r"status: shipped\nsum of amount: [\d,.]+\nrows: ", one)
        for one in chart_tips(view)
    )
    view.get_by_role("button", name="Copy code").click()
    expect(view.get_by_role("button", name="Copied")).to_be_visible()


def test_a_chart_is_as_wide_as_its_page(page):
    fits = """(one) => {
        const width = Number(one.querySelector('svg').getAttribute('width'));
        return Math.abs(width - one.clientWidth) < 24;
    }"""
    for width in (700, 1700, 1280):
        page.set_viewport_size({"width": width, "height": 1400})
        for number in (EXPLORER, CHART):
            chart = explorer(page, number).locator(".odps-x-chart")
            page.wait_for_function(fits, arg=chart.element_handle())
            assert chart.evaluate("(one) => one.scrollWidth <= one.clientWidth")


@pytest.mark.gate(1)
@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_labels_are_readable_in_dark_and_light(page, theme):
    change_theme(page, theme)
    assert faint(explorer(page, CHART)) == []


def test_a_killed_kernel_is_detected(page):
    text = page.locator(".jp-OutputArea-output", has_text="process ").first.inner_text()
    os.kill(int(text.removeprefix("process ")), signal.SIGKILL)
    said = page.get_by_text("the kernel has stopped or was restarted; run the cell again")
    expect(said).to_have_count(2)
    page.get_by_role("dialog").get_by_role("button", name="Ok").click()  # JupyterLab's dialog


def test_the_saved_notebook_keeps_the_pictures(page, jupyter):
    save(page)
    saved = json.loads((jupyter.folder / "chart.ipynb").read_text())
    for number in (1, 2):
        outputs = json.dumps(saved["cells"][number]["outputs"])
        assert "data:image/svg+xml" in outputs
        assert len(outputs) < 400_000
    close_notebook(page, kernel=True)
    load(page, jupyter, "chart.ipynb")
    pictures = page.locator(".jp-OutputArea-child img[alt^='rows by'], img[alt^='sum of amount']")
    expect(pictures).to_have_count(2)
    for n in range(2):
        expect(pictures.nth(n)).to_be_visible()
        assert pictures.nth(n).evaluate("(one) => one.naturalWidth") > 0
    close_notebook(page, kernel=True)


LOSING = """
from odps_nb.notebook.live.live_view import LiveView

receive, lost = LiveView.receive, [1, 2, 3, 4]
LiveView.receive = lambda *given: lost.pop() if lost else receive(*given)
"""


def test_the_static_picture_stays_until_the_live_picture_is_drawn(page, jupyter):
    jupyter.write("late.ipynb", notebook(CELLS[0], LOSING, CELLS[CHART + 1]))
    open_notebook(page, jupyter, "late.ipynb")
    run_all(page)
    static = page.locator(".jp-OutputArea-child img[alt^='sum of amount']")
    expect(page.locator(".odps-x-waiting")).to_have_count(1)
    expect(static).to_be_visible()
    # increasing waits between requests once delayed the drawing by 50 s
    expect(page.locator(".odps-x-chart svg")).to_be_visible(timeout=30_000)
    expect(page.locator(".odps-x-waiting")).to_have_count(0)
    expect(static).to_be_hidden()


SAVE_STATE = (
    "window.jupyterapp.commands.execute('@jupyter-widgets/jupyterlab-manager:saveWidgetState')"
)


def test_a_notebook_reopened_with_widget_state_shows_the_static_picture(page, jupyter):
    page.evaluate(SAVE_STATE)
    save(page)
    assert "widgets" in json.loads((jupyter.folder / "late.ipynb").read_text())["metadata"]
    page.evaluate(SAVE_STATE)
    close_notebook(page, kernel=True)
    load(page, jupyter, "late.ipynb")
    # JupyterLab sometimes displays the output before it has read the saved state: it first queries
    # the new kernel, and only an output displayed before the reply is displayed again afterwards
    not_restored = page.get_by_text("Error displaying widget: model not found")
    expect(page.locator(".odps-x-waiting").or_(not_restored)).to_have_count(1)
    static = page.locator(".jp-OutputArea-child img[alt^='sum of amount']")
    expect(static).to_be_visible()
    expect(page.get_by_role("button", name="Copy code")).to_be_hidden()
    await_kernel(page, "late.ipynb")
    close_notebook(page, kernel=True)
