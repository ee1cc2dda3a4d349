"""What browser tests ask of an explorer that is shown: its cells, its status, its colours."""

from __future__ import annotations

from typing import Any

_CONTRAST = """(one) => {
    const light = (text) => {
        const [r, g, b] = text.match(/[\\d.]+/g).map(Number)
            .map((v) => v / 255)
            .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const head = one.closest('.odps-x').querySelector('thead');
    const [a, b] = [getComputedStyle(one).color, getComputedStyle(head).backgroundColor]
        .map(light);
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}"""


def explorer(page: Any, number: int) -> Any:
    """Return an explorer of the notebook, counted from 0."""
    return page.locator(".odps-x").nth(number)


def cell(view: Any, row: int, column: int) -> Any:
    """Return a cell: row 0 is the first of the page, -1 the profiles, -2 the headers."""
    return view.locator(f'[data-row="{row}"][data-column="{column}"]')


def column_of(view: Any, name: str) -> int:
    """Return the number of a column."""
    names: list[str] = view.locator("th bdi").all_inner_texts()
    return names.index(name)


def status(view: Any) -> Any:
    """Return the line that says which rows are shown."""
    return view.locator('[role="status"]')


def active(page: Any) -> list[str]:
    """Return row and column of the cell that has the focus."""
    found: list[str] = page.evaluate(
        "() => [document.activeElement.dataset.row, document.activeElement.dataset.column]"
    )
    return found


def change_theme(page: Any, theme: str) -> None:
    """Change the theme of JupyterLab or Notebook 7, and wait until it is shown."""
    page.evaluate(
        "(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
    )
    page.wait_for_function("(theme) => document.body.dataset.jpThemeName === theme", arg=theme)


def contrast(text: Any) -> float:
    """Return the contrast of a text to the head of its explorer, as WCAG counts it (1 to 21)."""
    return float(text.evaluate(_CONTRAST))
