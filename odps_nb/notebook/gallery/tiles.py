"""Tiles of a gallery as messages to the browser: texts, and pictures that we encoded.

Those of the last blobs that were looked at are kept, up to a bound of bytes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import OdpsNbError, visible
from odps_nb.notebook.display.html import BACKDROP
from odps_nb.notebook.gallery.facts import Facts
from odps_nb.notebook.gallery.page import BlobColumnLike, glances
from odps_nb.notebook.preview.peek import BlobLike
from odps_nb.notebook.preview.registry import differs
from odps_nb.notebook.preview.shared import Size, markup_text
from odps_nb.notebook.preview.tile import UNREAD, Tile, null_tile, tile
from odps_nb.terms import shorten

#: Bytes of messages that are kept.
KEPT: Final = 16 * 1024 * 1024
TILE: Final = Size(layout="tile", width=200, height=150, rows=7, columns=4, lines=14)
_BUDGET: Final = 192 * 1024
_TEXT: Final = 700
_LARGE: Final = Size(layout="single", width=960, height=720, rows=100, columns=20, lines=400)
_LARGE_BUDGET: Final = 2 * 1024 * 1024
_LARGE_TEXT: Final = 40_000
_AROUND: Final = 1_000  # names and numbers of a message

Message = dict[str, Any]


class Tiles:
    """Draws tiles of a column as messages; may be used by several threads."""

    def __init__(self, column: BlobColumnLike, facts: Facts) -> None:
        self._column, self._facts = column, facts
        self._kept: OrderedDict[int, Message] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def kept_bytes(self) -> int:
        """How much is kept."""
        return self._bytes

    def learn(self, index: int, made: Tile) -> None:
        """Take a tile that was drawn elsewhere."""
        self._facts.learn(index, made)
        if len(made.drawing.html) <= _BUDGET:
            self._keep(index, self._message(index, made, _TEXT))

    def kept(self, index: int) -> Message | None:
        """Return the message of a tile if it is kept."""
        with self._lock:
            if index in self._kept:
                self._kept.move_to_end(index)
            return self._kept.get(index)

    def read(self, places: Sequence[int], cancel: CancelToken | None = None) -> Iterator[Message]:
        """Iterate over the messages of tiles, whose blobs are read one after the other.

        What is wrong with a blob, or with the way to it, is told in the message.
        """
        with closing(glances(self._column, places, cancel)) as blobs:
            for index, blob in zip(places, blobs, strict=True):
                made = self._drawn(index, blob, TILE, _BUDGET)
                if isinstance(made, OdpsNbError):
                    yield self._failed(index, made)
                else:
                    self._facts.learn(index, made)
                    yield self._keep(index, self._message(index, made, _TEXT))

    def large(self, index: int, cancel: CancelToken) -> Message:
        """Return the message of a blob that is looked at alone; it is not kept."""
        with closing(glances(self._column, [index], cancel)) as blobs:
            made = self._drawn(index, next(blobs), _LARGE, _LARGE_BUDGET)
        if isinstance(made, OdpsNbError):
            return self._failed(index, made)
        self._facts.learn(index, made)
        return {**self._message(index, made, _LARGE_TEXT), "player": made.drawing.player}

    # -- inside -------------------------------------------------------------------------------

    def _drawn(
        self, index: int, blob: BlobLike | None, size: Size, budget: int
    ) -> Tile | OdpsNbError:
        name = f"blob {index}"
        if blob is None:
            return null_tile(size=size, name=name)
        try:
            return tile(blob, size=size, fallback_name=name, budget=budget)
        except OdpsNbError as error:
            return error

    def _keep(self, index: int, made: Message) -> Message:
        with self._lock:
            if (old := self._kept.pop(index, None)) is not None:
                self._bytes -= _size(old)
            self._kept[index] = made
            self._bytes += _size(made)
            while self._bytes > KEPT:
                self._bytes -= _size(self._kept.popitem(last=False)[1])
        return made

    def _message(self, index: int, made: Tile, limit: int) -> Message:
        row = self._column.caption(index)
        declared = made.declared if differs(made.declared, made.format) else ""
        src = made.drawing.picture
        return {
            "index": index,
            "name": shorten(made.name, 200),
            "words": made.words,
            "row": "" if row == made.name else shorten(visible(row), 400),
            "kind": made.format.kind,
            "verified": made.verified,
            "declared": shorten(visible(declared), 200),
            "notes": [shorten(visible(note), 240) for note in made.notes],
            "failed": made.format is UNREAD,
            "src": src,
            "checked": BACKDROP in made.drawing.html,
            "text": "" if src else visible(markup_text(made.drawing.html)[:limit]),
            "rows": "<table" in made.drawing.html,
        }

    def _failed(self, index: int, error: OdpsNbError) -> Message:
        return {
            "index": index,
            "name": f"blob {index}",
            "words": "not read",
            "row": shorten(visible(self._column.caption(index)), 400),
            "kind": "",
            "verified": False,
            "declared": "",
            "notes": [shorten(visible(error), 240)],
            "failed": True,
            "src": "",
            "checked": False,
            "text": "",
            "rows": False,
        }


def _size(message: Message) -> int:
    return len(message["src"]) + len(message["text"]) + _AROUND
