"""The tests of test_explore.py that use a live explorer, in Notebook 7."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page

from tests.notebook.browser import test_explore
from tests.notebook.browser.test_explore import CELLS, hostile  # noqa: F401  # a fixture
from tests.support.explored import await_profiles
from tests.support.lab import Jupyter, open_in_notebook7

pytestmark = [pytest.mark.browser, pytest.mark.nightly]

_OF_LAB = {
    "saved",
    "reopened",
    "browser",
}  # fixtures of tests that need a notebook saved by JupyterLab


@pytest.fixture(scope="module")
def page(
    new_page: Callable[[], Page],
    jupyter: Jupyter,
    hostile: str,  # noqa: F811
) -> Iterator[Page]:
    """A notebook in Notebook 7 whose cells have run."""
    page = new_page()
    cells = [cell.replace("TABLE", hostile) for cell in CELLS]
    open_in_notebook7(page, jupyter, "all_seven.ipynb", cells)
    await_profiles(page, 3)
    yield page
    page.close()


def _uses(test: Callable[..., None]) -> set[str]:
    marks = getattr(test, "pytestmark", ())
    used = {name for mark in marks if mark.name == "usefixtures" for name in mark.args}
    return used | {*test.__code__.co_varnames[: test.__code__.co_argcount]}


globals().update(
    {
        name: test
        for name, test in vars(test_explore).items()
        if name.startswith("test_") and not _uses(test) & _OF_LAB
    }
)
