"""Small pictures of the blobs in cells, drawn by the previews of the gallery, with their limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odps_nb.access.blob import iter_glances
from odps_nb.client.blob.many import plan_batches
from odps_nb.errors import OdpsNbError
from odps_nb.notebook.preview.shared import Size
from odps_nb.notebook.preview.tile import tile
from odps_nb.schema import TypeCode

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.client.calls.cancel import CancelToken
    from odps_nb.notebook.explore.pages import Page
    from odps_nb.notebook.explore.view import RowView
    from odps_nb.notebook.preview.peek import BlobLike

BUDGET = 24 * 1024
SIDE_BY_SIDE = 4
SMALL = Size(layout="tile", width=96, height=64, rows=2, columns=2, lines=2)
LARGE = Size(layout="single", width=480, height=320, rows=8, columns=8, lines=20)
LARGE_BUDGET = 256 * 1024


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A ``data:`` URL of a picture, empty for what is none, and one line about the blob."""

    src: str
    text: str

    def __repr__(self) -> str:
        return f"Thumbnail({self.text!r}, <{len(self.src)} characters>)"


def large_thumbnail(connection: Connection, reference: str, cancel: CancelToken) -> Thumbnail:
    """Read one blob and draw it; what is wrong with it is told in its line."""
    with closing(iter_glances([connection.blob(reference)], cancel)) as blobs:
        return thumbnail(next(blobs), size=LARGE, budget=LARGE_BUDGET)


def thumbnail(blob: BlobLike, *, size: Size = SMALL, budget: int = BUDGET) -> Thumbnail:
    """Read a blob and draw it small; what is wrong with it is told in its line."""
    try:
        made = tile(blob, size=size, budget=budget)
    except OdpsNbError as error:
        return Thumbnail("", f"not read: {error}"[:200])
    mark = "✓ verified · " if made.verified else ""
    return Thumbnail(made.drawing.picture, f"{mark}{made.words}")


def thumbnails(
    view: RowView,
    page: Page,
    *,
    cells: Iterable[tuple[int, int]] | None = None,
    most: int = 24,
    cancel: CancelToken | None = None,
) -> dict[tuple[int, int], Thumbnail]:
    """Return thumbnails by ``(row of the page, column)``; few requests, several at a time.

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

    found: dict[tuple[int, int], Thumbnail] = {}

    def draw(run: Sequence[tuple[int, int, str]]) -> None:
        handles = [view.connection.blob(reference) for _, _, reference in run]
        with closing(iter_glances(handles, cancel)) as blobs:
            for (row, column, _), blob in zip(run, blobs, strict=True):
                if cancel is not None and cancel.cancelled:
                    return
                found[row, column] = thumbnail(blob)

    bounds = plan_batches(len(wanted), count=most, at_least=SIDE_BY_SIDE)
    with ThreadPoolExecutor(SIDE_BY_SIDE, thread_name_prefix="odps-nb-thumbnails") as pool:
        list(pool.map(draw, (wanted[low:high] for low, high in bounds)))
    return found
