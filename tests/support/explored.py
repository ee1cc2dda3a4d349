"""Browser tests of a displayed explorer, for JupyterLab and Notebook 7.

These tests use an explorer of ``orders``, from the first row, without a filter.
"""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import expect

from tests.support.contrast import faint


def explorer(page: Any, number: int) -> Any:
    """Return an explorer in the notebook, counted from 0."""
    return page.locator(".odps-x").nth(number)


def cell(view: Any, row: int, column: int) -> Any:
    """Return a cell: row 0 is the first of the page, -1 the profiles, -2 the headers."""
    return view.locator(f'[data-row="{row}"][data-column="{column}"]')


def column_of(view: Any, name: str) -> int:
    """Return the number of a column."""
    names: list[str] = view.locator("th bdi").all_inner_texts()
    return names.index(name)


def status(view: Any) -> Any:
    """Return the line that states which rows are displayed."""
    return view.locator('[role="status"]')


def active(page: Any) -> list[str]:
    """Return the row and column of the focused cell."""
    found: list[str] = page.evaluate(
        "() => [document.activeElement.dataset.row, document.activeElement.dataset.column]"
    )
    return found


def change_theme(page: Any, theme: str) -> None:
    """Change the theme of JupyterLab or Notebook 7, and wait until it is applied."""
    page.evaluate(
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
    )
    page.wait_for_function("(theme) => document.body.dataset.jpThemeName === theme", arg=theme)


# -- tests of both applications -------------------------------------------------------------------


def await_profiles(page: Any, count: int) -> None:
    """Wait until this number of explorers on a page have their profile."""
    label = re.compile("profile: (all|sample|the)")
    expect(page.locator(".odps-x-described", has_text=label)).to_have_count(count)


def cancel_a_profile(view: Any) -> None:
    """Start a profile of all rows, which a stalled service never ends, and cancel it."""
    top = _top_of_the_grid(view)
    view.get_by_role("button", name="Profile all rows").click()
    busy = view.locator(".odps-x-busy")
    expect(busy).to_contain_text("profile: reading")
    assert _top_of_the_grid(view) == top, "the top of the grid has moved in its explorer"
    busy.get_by_role("button", name="Cancel").click()
    expect(busy).to_be_hidden()
    assert "sample of" in view.locator(".odps-x-described").inner_text(), "not stalled"
    expect(view.locator(".odps-x-problem")).to_have_text("cancelled")


def _top_of_the_grid(view: Any) -> float:
    """Return the top of the grid in its explorer, in pixels; scrolling does not change it."""
    top: float = view.evaluate(
        "(view) => view.querySelector('.odps-x-box').getBoundingClientRect().top"
        " - view.getBoundingClientRect().top"
    )
    return round(top, 1)


def use_the_keyboard(page: Any, view: Any) -> None:
    """Move, turn pages, open a panel and filter with the keyboard; no key reaches the notebook."""
    cells = page.locator(".jp-CodeCell").count()
    page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.mode = 'command'; }")
    cell(view, 0, 0).focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
    assert active(page) == ["0", "1"]
    page.keyboard.press("Control+End")
    assert active(page) == ["99", "21"]
    page.keyboard.press("PageDown")
    expect(status(view)).to_have_text("rows 101–200 of 2,048,000")
    assert active(page) == ["0", "21"]
    page.keyboard.press("PageUp")
    expect(status(view)).to_have_text("rows 1–100 of 2,048,000")
    assert active(page) == ["99", "21"]
    page.keyboard.press("Control+Home")
    assert active(page) == ["-2", "0"]
    for _ in range(column_of(view, "gift")):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(view.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(view.locator(".odps-x-chip bdi")).to_have_text("gift is true")
    view.get_by_label("remove the filter gift is true").press("Enter")
    expect(view.locator(".odps-x-chip")).to_have_count(0)
    expect(status(view)).to_have_text("rows 1–100 of 2,048,000")
    assert page.locator(".jp-CodeCell").count() == cells


def look_at_a_theme(page: Any, view: Any, theme: str) -> None:
    """Change the theme, and check that all text has enough contrast."""
    change_theme(page, theme)
    assert faint(view) == []


def draw_chart(view: Any, **choices: str) -> None:
    """Open an explorer's chart panel, choose options, and draw."""
    panel = view.locator(".odps-x-charts")
    if panel.is_hidden():
        view.get_by_role("button", name="Chart", exact=True).click()
    for name, value in choices.items():
        panel.get_by_label(name, exact=True).select_option(value)
    panel.get_by_role("button", name="Draw").click()


def chart_tips(view: Any) -> list[str]:
    """Return the values that the bars of a chart show on hover."""
    return view.locator(".odps-x-chart rect > title").all_text_contents()
