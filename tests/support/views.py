"""The rows of an explorer's view whose first column is a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odps_nb.notebook.explore.pages import Page
    from odps_nb.notebook.explore.view import RowView


def ids(page: Page) -> list[int]:
    """Return the numbers on a page."""
    return [int(text) for text in page.columns[0]]


def all_ids(view: RowView) -> list[int]:
    """Return the numbers of all selected rows, read page by page."""
    found: list[int] = []
    while (page := view.page(len(found))).count and page.start == len(found):
        found += ids(page)
    return found
