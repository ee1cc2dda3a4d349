"""Encodes gallery tiles as messages to the browser, with a bounded cache."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import OdpsNbError, visible
from odps_nb.formats.registry import differs
from odps_nb.formats.shared import Size, markup_text
from odps_nb.html import BACKDROP
from odps_nb.notebook.gallery.chosen import Chosen
from odps_nb.notebook.preview.tile import (
    UNREAD,
    Tile,
    caption_of_row,
    tile,
    unread_tile,
    why_unread,
)
from odps_nb.terms import shorten

#: Maximum bytes of cached messages.
KEPT: Final = 16 * 1024 * 1024
TILE: Final = Size(layout="tile", width=200, height=150, rows=7, columns=4, lines=14)
_BUDGET: Final = 192 * 1024
_TEXT: Final = 700
_LARGE: Final = Size(layout="single", width=960, height=720, rows=100, columns=20, lines=400)
_LARGE_BUDGET: Final = 2 * 1024 * 1024
_LARGE_TEXT: Final = 40_000
_AROUND: Final = 1_000  # bytes assumed for a message's names and numbers

#: Kinds whose long lines are wrapped.
_WRAPPED: Final = frozenset({"document", "json", "message", "notebook", "text"})

Message = dict[str, Any]


class Tiles:
    """A thread-safe source of a column's tiles as messages."""

    def __init__(self, chosen: Chosen) -> None:
        self._column, self._chosen = chosen.column, chosen
        self._kept: OrderedDict[int, Message] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def learn(self, index: int, made: Tile) -> None:
        """Add a tile that was drawn elsewhere to the cache."""
        self._chosen.learn(index, made)
        if len(made.drawing.html) <= _BUDGET:
            self._keep(index, self._message(index, made, _TEXT))

    def kept(self, index: int) -> Message | None:
        """Return the cached message of a tile, or ``None``."""
        with self._lock:
            if index in self._kept:
                self._kept.move_to_end(index)
            return self._kept.get(index)

    def read(self, places: Sequence[int], cancel: CancelToken | None = None) -> Iterator[Message]:
        """Iterate over the messages of tiles; the message of a failed blob contains the reason."""
        with closing(self._column._inspected(places, cancel)) as blobs:
            for index, blob in zip(places, blobs, strict=True):
                name = f"blob {index}"
                try:
                    drawn_tile = tile(blob, size=TILE, fallback_name=name, budget=_BUDGET)
                    message = self._message(index, drawn_tile, _TEXT)
                except Exception as error:  # noqa: BLE001  # a defect of one blob
                    yield self._failed(index, error)
                    continue
                self._chosen.learn(index, drawn_tile)
                yield self._keep(index, message)

    def large(self, index: int, cancel: CancelToken) -> Message:
        """Return the message that shows an enlarged blob; it is never cached."""
        name = f"blob {index}"
        with closing(self._column._inspected([index], cancel)) as blobs:
            try:
                drawn_tile = tile(
                    next(blobs), size=_LARGE, fallback_name=name, budget=_LARGE_BUDGET
                )
                message = self._message(index, drawn_tile, _LARGE_TEXT)
            except Exception as error:  # noqa: BLE001  # a defect of one blob
                return self._failed(index, error)
        self._chosen.learn(index, drawn_tile)
        return {**message, "player": drawn_tile.drawing.player}

    # -- caching ------------------------------------------------------------------------------

    def _keep(self, index: int, message: Message) -> Message:
        with self._lock:
            if (old := self._kept.pop(index, None)) is not None:
                self._bytes -= _size(old)
            self._kept[index] = message
            self._bytes += _size(message)
            while self._bytes > KEPT:
                self._bytes -= _size(self._kept.popitem(last=False)[1])
        return message

    def _message(self, index: int, drawn_tile: Tile, limit: int) -> Message:
        row = caption_of_row(self._column.caption(index), drawn_tile.name, drawn_tile.size)
        declared = drawn_tile.declared if differs(drawn_tile.declared, drawn_tile.format) else ""
        src = drawn_tile.drawing.picture
        return {
            "index": index,
            "name": shorten(drawn_tile.name, 200),
            "words": drawn_tile.words,
            "row": shorten(visible(row), 400),
            "kind": drawn_tile.format.kind,
            "verified": drawn_tile.verified,
            "declared": shorten(visible(declared), 200),
            "notes": [shorten(visible(note), 240) for note in drawn_tile.lines],
            "failed": drawn_tile.format is UNREAD,
            "src": src,
            "checked": BACKDROP in drawn_tile.drawing.html,
            "text": "" if src else visible(markup_text(drawn_tile.drawing.html)[:limit]),
            "rows": "<table" in drawn_tile.drawing.html,
            "wraps": drawn_tile.drawing.refused or drawn_tile.format.kind in _WRAPPED,
        }

    def _failed(self, index: int, error: Exception) -> Message:
        reason = str(error) if isinstance(error, OdpsNbError) else why_unread(error)
        unread = unread_tile(reason, size=TILE, name=f"blob {index}")
        return self._message(index, unread, _TEXT)


def _size(message: Message) -> int:
    return len(message["src"]) + len(message["text"]) + _AROUND
