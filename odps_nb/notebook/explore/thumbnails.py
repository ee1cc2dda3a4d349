"""Small pictures of the blobs in cells, drawn by the previews of the gallery, with their limits."""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odps_nb.errors import OdpsNbError
from odps_nb.notebook.preview.shared import Size
from odps_nb.notebook.preview.tile import tile
from odps_nb.schema import TypeCode

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.client.calls.cancel import CancelToken
    from odps_nb.notebook.explore.pages import Page
    from odps_nb.notebook.explore.view import RowView

__all__ = ["BUDGET", "LARGE", "SMALL", "Thumbnail", "thumbnail", "thumbnails"]

BUDGET = 24 * 1024
SIDE_BY_SIDE = 4
SMALL = Size(layout="tile", width=96, height=64, rows=2, columns=2, lines=2)
LARGE = Size(layout="single", width=480, height=320, rows=8, columns=8, lines=20)
LARGE_BUDGET = 256 * 1024

# In markup that `odps_nb.notebook.display.html` made: a picture that was encoded in the parser.
_PICTURE = re.compile(r'(?:<img src| poster)="(data:image/[a-z+]+;base64,[A-Za-z0-9+/=]*)"')


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A ``data:`` URL of a picture, empty for what is none, and one line about the blob."""

    src: str
    text: str

    def __repr__(self) -> str:
        return f"Thumbnail({self.text!r}, <{len(self.src)} characters>)"


def thumbnail(
    connection: Connection, reference: str, *, size: Size = SMALL, budget: int = BUDGET
) -> Thumbnail:
    """Read a blob and draw it small; what is wrong with it is told in its line."""
    try:
        made = tile(connection.blob(reference), size=size, budget=budget)
    except OdpsNbError as error:
        return Thumbnail("", f"not read: {error}"[:200])
    found = _PICTURE.search(made.html)
    name, _, facts = made.text.partition("  ")
    facts, verified, _ = facts.partition("  verified")
    mark = "✓ verified · " if verified else ""
    return Thumbnail(found[1] if found else "", f"{mark}{facts}" if facts else name)


def thumbnails(
    view: RowView,
    page: Page,
    *,
    cells: Iterable[tuple[int, int]] | None = None,
    most: int = 24,
    cancel: CancelToken | None = None,
) -> dict[tuple[int, int], Thumbnail]:
    """Return thumbnails by ``(row of the page, column)``, several read at a time.

    Parameters
    ----------
    cells
        Which cells; by default all of BLOB columns, row after row.
    most
        Blobs read at most.
    """
    blobs = [n for n, one in enumerate(view.columns) if one.type.code is TypeCode.BLOB]
    if not blobs:
        return {}
    texts = page.columns
    asked = cells or ((row, column) for row in range(page.count) for column in blobs)
    wanted: list[tuple[int, int, str]] = []
    for row, column in asked:
        reference = texts[column][row] if column in blobs and 0 <= row < page.count else None
        if isinstance(reference, str) and len(wanted) < most:
            wanted.append((row, column, reference))

    def draw(one: tuple[int, int, str]) -> Thumbnail | None:
        if cancel is not None and cancel.cancelled:
            return None
        return thumbnail(view.connection, one[2])

    with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="odps-nb-thumbnails") as pool:
        drawn = list(pool.map(draw, wanted))
    return {
        (row, column): made
        for (row, column, _), made in zip(wanted, drawn, strict=True)
        if made is not None
    }
