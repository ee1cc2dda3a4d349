"""A closed view is removed from the kernel's list of widgets."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ipywidgets.widgets import widget as registry

from odps_nb import lifetime
from odps_nb.access.connection import Connection
from odps_nb.errors import ArgumentError, StateError
from odps_nb.notebook.gallery.view import Gallery
from odps_nb.notebook.progress.cards import CancelButton
from tests.support.previews import Column


@pytest.fixture
def kernel(shell: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(shell, "kernel", object(), raising=False)
    yield shell
    gc.collect()


VIEWS: dict[str, Callable[[Connection], Any]] = {
    "gallery": lambda odps: odps.table("media").blobs("content", limit=2),
    "explorer": lambda odps: odps.table("orders").explore(rows=3),
}
LIVE = {
    "explorer": VIEWS["explorer"],
    "chart": lambda odps: odps.table("orders").chart("status"),
}


@pytest.mark.storage_api("blobs")
@pytest.mark.parametrize("name", VIEWS)
def test_a_closed_view_is_removed_from_memory(name: str, kernel: Any, odps: Connection) -> None:
    before = set(registry._instances)
    view = VIEWS[name](odps)
    view._ipython_display_()
    assert len(set(registry._instances) - before) == 2  # the kernel lists the widget and its layout
    view.close()
    view.close()
    assert set(registry._instances) == before
    kept = weakref.ref(view)
    del view
    gc.collect()
    assert kept() is None


@pytest.mark.storage_api("blobs")
def test_a_column_of_blobs_is_displayed_again_after_it_was_closed(
    kernel: Any, shown: list[Any], odps: Connection
) -> None:
    before = set(registry._instances)
    column = VIEWS["gallery"](odps)
    for _ in range(2):
        shown.clear()
        column._ipython_display_()
        assert any("widget-view" in kind for one in shown for kind in one["data"])
        column.close()
    assert set(registry._instances) == before


@pytest.mark.parametrize("name", LIVE)
def test_a_closed_view_shows_only_its_static_page(
    name: str, kernel: Any, shown: list[Any], odps: Connection
) -> None:
    before = set(registry._instances)
    view = LIVE[name](odps)
    view.close()
    view._ipython_display_()
    (only,) = shown
    assert "<img" in only["data"]["text/html"] or "<table" in only["data"]["text/html"]
    assert view._widget_parts(str) == ()
    assert set(registry._instances) == before


@pytest.mark.parametrize("name", LIVE)
def test_a_view_is_copied_as_itself_and_cannot_be_pickled(name: str, odps: Connection) -> None:
    view = LIVE[name](odps)
    assert copy.copy(view) is copy.deepcopy([view])[0] is view
    with pytest.raises(StateError, match="cannot be pickled") as caught:
        pickle.dumps(view)
    assert "to_pandas()" in str(caught.value.hint)
    view.close()


def test_a_view_whose_creation_failed_is_not_closed_at_exit() -> None:
    """The traceback of an error may keep the view alive."""
    before = lifetime._ENDING.all()
    with pytest.raises(ArgumentError) as refused:
        Gallery(Column(), view="rows")  # type: ignore[arg-type]
    assert lifetime._ENDING.all() == before, refused


def test_closing_a_button_also_closes_its_layout(kernel: Any) -> None:
    before = set(registry._instances)
    button = CancelButton(lambda: None)
    assert len(set(registry._instances) - before) == 2
    button.remove()
    assert set(registry._instances) == before
