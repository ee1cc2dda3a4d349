"""Draws one page of a gallery as static HTML and text, within a byte budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import ArgumentError, OdpsNbError, ServiceError, TransportError
from odps_nb.formats.shared import GRID, LIST, Size
from odps_nb.html import MUTED, SMALL, Html, bundle, element, scroller
from odps_nb.notebook.live.heads import side_by_side
from odps_nb.notebook.preview.tile import TILE_BUDGET, Tile, tile, unread_tile
from odps_nb.terms import count_of, shorten

if TYPE_CHECKING:
    from odps_nb.access.blobs.column import BlobColumn

View = Literal["grid", "list"]

#: Maximum tiles in one output.
MAX_TILES: Final = 64
#: Maximum bytes of markup in one output.
OUTPUT_BUDGET: Final = 2 * 1024 * 1024
# bytes reserved for each remaining tile: enough for a hex dump and a caption
_RESERVE: Final = 6 * 1024
# bytes reserved for the heading, the frame and the last line
_AROUND: Final = 2 * 1024
_TEXT_LINES: Final = 12
HEIGHT: Final = 694
"""Maximum height in pixels of the box that contains the tiles, as in gallery.js."""
# maximum concurrent requests for the tiles of a page, each for a few tiles
_WORKERS: Final = 3


def checked_view(view: View) -> View:
    """Return the view, or raise `ArgumentError` if it is unknown."""
    if view not in ("grid", "list"):
        raise ArgumentError(f"unknown view {view!r}", argument="view", hint="use 'grid' or 'list'")
    return view


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryPage:
    """A column's drawn tiles, with a heading and a note."""

    title: str
    total: int
    tiles: tuple[Tile, ...]
    view: View
    note: str
    summary: str

    def bundle(self) -> dict[str, str]:
        """Return ``text/html`` and ``text/plain``."""
        return bundle(self._html(), self._text())

    def _html(self) -> Html:
        title = shorten(self.title, 200)
        row = "display:grid;grid-template-columns:repeat(auto-fill,minmax(230px,1fr));gap:12px"
        column = "display:flex;flex-direction:column;gap:8px"
        parts = [
            element(
                "div",
                element("b", title),
                element("span", f" · {self._count()}", style=MUTED),
                style="margin:0 0 10px 0",
            ),
            scroller(
                "div",
                element(
                    "div",
                    *(drawn_tile.html for drawn_tile in self.tiles),
                    style=row if self.view == "grid" else column,
                ),
                label=f"blobs of {title}",
                style=f"max-height:{HEIGHT}px",
            ),
        ]
        if self.note:
            last = shorten(self.note, 400)
            parts.append(element("div", last, style=f"{SMALL};{MUTED};margin:10px 0 0 0"))
        return element("div", *parts, style="padding:4px 0")

    def _count(self) -> str:
        blobs = count_of(self.total, "blob")
        if len(self.tiles) == self.total:
            return self.summary or blobs
        return f"{len(self.tiles):,} of {f'the {self.summary}' if self.summary else blobs}"

    def _text(self) -> str:
        lines = [f"{shorten(self.title, 200)} · {self._count()}"]
        lines += [f"  {drawn_tile.text}" for drawn_tile in self.tiles[:_TEXT_LINES]]
        if len(self.tiles) > _TEXT_LINES:
            lines.append(f"  … {len(self.tiles) - _TEXT_LINES} more")
        return "\n".join(lines)


def mimebundle(
    column: BlobColumn,
    *,
    view: View = "grid",
    render: bool = False,
    max_output_bytes: int = OUTPUT_BUDGET,
    summary: str = "",
) -> dict[str, str]:
    """Draw the first `MAX_TILES` blobs as script-free ``text/html``, and as ``text/plain``.

    ``render`` draws HTML pages in a sandbox instead of as source. Tiles beyond ``max_output_bytes``
    are counted, not drawn. Raises if the first request gets no response; the tile of a corrupt or
    deleted blob shows the error.
    """
    *_, page = drawn_pages(
        column,
        range(len(column)),
        view=checked_view(view),
        render=render,
        budget=max_output_bytes,
        summary=summary,
    )
    return page.bundle()


def drawn_pages(
    column: BlobColumn,
    indices: Iterable[int],
    *,
    view: View = "grid",
    render: bool = False,
    budget: int = OUTPUT_BUDGET,
    summary: str = "",
    together: int = 1,
    seen: Callable[[int, Tile], None] | None = None,
) -> Iterator[GalleryPage]:
    """Yield the growing page of the blobs at ``indices`` repeatedly; the last page is complete.

    If the service stops responding, the remaining tiles say so, and no more requests are sent. Near
    the end of the budget, tiles show only a hex dump and a caption. Up to ``together`` blobs are
    read concurrently; the reading threads call ``seen`` with each index and its tile.
    """
    size = GRID if view == "grid" else LIST
    todo, tiles = list(indices), list[Tile]()
    expected, left = min(len(todo), MAX_TILES), budget - _AROUND
    silent = note = ""

    def page() -> GalleryPage:
        return GalleryPage(
            title=column.title,
            total=len(column),
            tiles=tuple(tiles),
            view=view,
            note=note,
            summary=summary,
        )

    while len(tiles) < len(todo) and not note:
        if tiles:
            yield page()
        at = len(tiles)
        if at == MAX_TILES:
            note = f"one output shows at most {MAX_TILES} tiles"
            break
        group = todo[at : at + min(together, MAX_TILES - at)]
        drawn: Sequence[Tile | OdpsNbError] = [OdpsNbError(silent)] * len(group)
        if not silent:
            later = _RESERVE * max(0, expected - at - len(group))
            room = min(TILE_BUDGET, max(_RESERVE, (left - later) // len(group)))
            drawn = _group(column, group, size, budget=room, render=render, seen=seen)
        for index, result in zip(group, drawn, strict=True):
            if isinstance(result, OdpsNbError):
                if not tiles:
                    raise result
                silent = silent or f"not read: {result}"
                row = column.caption(index)
                result = unread_tile(silent, size=size, name=f"blob {index}", row=row)
            if (length := len(result.html.encode())) > left:
                more = len(todo) - len(tiles)
                note = f"{more:,} more blobs do not fit into one output; show fewer at a time"
                break
            left -= length
            tiles.append(result)
    yield page()


def _group(
    column: BlobColumn,
    group: Sequence[int],
    size: Size,
    *,
    budget: int,
    render: bool,
    seen: Callable[[int, Tile], None] | None,
) -> list[Tile | OdpsNbError]:
    """Draw several tiles concurrently; return a service error in place of a failed tile."""

    def draw(run: Sequence[int], token: CancelToken) -> Iterator[Tile | OdpsNbError]:
        left = iter(run)
        with closing(column._inspected(run, token)) as blobs:
            for index, blob in zip(left, blobs, strict=False):
                name, row = f"blob {index}", column.caption(index)
                try:
                    drawn_tile = tile(
                        blob, size=size, fallback_name=name, row=row, render=render, budget=budget
                    )
                except (TransportError, ServiceError) as error:  # send no more requests
                    yield from (error for _ in (index, *left))
                    return
                if seen is not None:
                    seen(index, drawn_tile)
                yield drawn_tile

    return list(side_by_side(draw, group, workers=_WORKERS, ordered=True))
