"""Unexpected messages from a browser are reported as text and never raise an error."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from odps_nb.access.connection import Connection
from odps_nb.notebook.gallery.view import Gallery

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 10**400, math.inf, -math.inf, math.nan, "", "x", "9" * 6000, "\ud800"),
    *([], [[]], [1], [[1, 2]], [[math.inf, 0]], [None], {}, {"a": 1}, "<img src=x onerror=x>"),
)
# the messages that each view accepts, with valid values
VIEWS: dict[str, tuple[Callable[[Connection], Any], dict[str, dict[str, Any]]]] = {
    "explorer": (
        lambda odps: odps.table("media").explore(rows=3),
        {
            "page": {"start": 0},
            "bar": {"column": 0, "bar": 0},
            "unfilter": {"index": 0, "where": ""},
            "search": {"text": "a"},
            "sort": {"column": None},
            "cancel": {"task": "page"},
            "value": {"row": 0, "column": 0, "not": False},
            "cell": {"row": 0, "column": 0},
            "copy": {"start": 0, "count": 1, "columns": [0]},
            "blobs": {"start": 0, "cells": [[0, 0]]},
        },
    ),
    "gallery": (
        lambda odps: Gallery(odps.table("media").blobs("content", limit=2)),
        {
            "tiles": {"indices": [0]},
            "large": {"index": 0},
            "choose": {
                "chosen": "all kinds",
                "search": "",
                "order": "row",
                "descending": False,
                "by": "",
                "number": 1,
            },
            "copy": {"index": 0},
            "cancel": {"task": "choose"},
            "select": {"by": ""},
        },
    ),
}


class Widget:
    """Collects the messages that a view sends."""

    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.problems: set[str] = set()

    def send(self, message: Mapping[str, Any], buffers: Sequence[bytes] = ()) -> None:
        self.kinds.add(message["kind"])
        if message["kind"] == "problem":
            self.problems.add(message["text"])

    def close(self) -> None:
        """Do nothing; views call this method."""


def odd_messages(shapes: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Return the messages that each view accepts, with one member missing or invalid."""
    found: list[Any] = [*VALUES, *({"do": value} for value in VALUES)]
    for do, members in shapes.items():
        for name in members:
            found.append({"do": do, **{key: members[key] for key in members if key != name}})
            found += [{"do": do, **members, name: value} for value in VALUES]
    return found


@pytest.mark.storage_api("blobs")
@pytest.mark.parametrize("name", VIEWS)
def test_invalid_messages_are_reported_and_never_raise(name: str, odps: Connection) -> None:
    make, shapes = VIEWS[name]
    view, widget = make(odps), Widget()
    view._widget = widget
    take = view.receive if name != "explorer" else lambda content, _: view.receive(content)
    for content in odd_messages(shapes):
        for buffers in ([], [b"abc"], [b"\xff" * 8]):
            take(content, buffers)
    view.close()
    assert "problem" in widget.kinds
    known = re.compile(r"cancelled|[A-Z]\w+Error: ")
    assert [text for text in widget.problems if not known.match(text)] == []
