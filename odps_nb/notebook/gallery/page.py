"""Draws one page of a gallery as static HTML and as text, within a budget of bytes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Final, Literal, Protocol, runtime_checkable

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import OdpsNbError, ServiceError, TransportError
from odps_nb.notebook.display.html import MUTED, SMALL, Html, bundle, element
from odps_nb.notebook.preview.peek import BlobLike
from odps_nb.notebook.preview.shared import GRID, LIST, Size
from odps_nb.notebook.preview.tile import TILE_BUDGET, Tile, null_tile, tile, unread_tile
from odps_nb.terms import count_of, shorten

View = Literal["grid", "list"]

#: Tiles that one output may have.
MAX_TILES: Final = 64
#: Bytes of markup that one output may have.
OUTPUT_BUDGET: Final = 2 * 1024 * 1024
# what is kept free for each tile to come, so that the last ones still have a head and a caption
_RESERVE: Final = 6 * 1024
# heading, frame and last line
_AROUND: Final = 2 * 1024
_TEXT_LINES: Final = 12
# requests at a time for the tiles of a page, each for a few of them
_LANES: Final = 3
# blobs that one request names at most: they come one after the other
_RUN: Final = 8


class BlobColumnLike(Protocol):
    """What a gallery needs of a column of blobs; a null cell is ``None``."""

    @property
    def title(self) -> str:
        """Name of table and column, for a person."""

    def caption(self, index: int, /) -> str:
        """Return which row the cell is of, for a person, and what else that says."""

    def __len__(self) -> int:
        """Return the number of cells."""

    def __getitem__(self, index: int, /) -> BlobLike | None:
        """Return the blob of one cell."""


@runtime_checkable
class _Glancing(Protocol):
    """A column of which several blobs can be looked at by one request."""

    def glances(
        self, places: Sequence[int], cancel: CancelToken | None = None
    ) -> Generator[BlobLike, None, None]:
        """Iterate over the blobs; taking the next one leaves the one before."""


def glances(
    column: BlobColumnLike, places: Sequence[int], cancel: CancelToken | None = None
) -> Generator[BlobLike | None, None, None]:
    """Iterate over blobs to look at, in few requests; taking the next one leaves the one before."""
    if isinstance(column, _Glancing):
        with closing(column.glances(places, cancel)) as found:
            yield from found
    else:
        yield from (column[place] for place in places)


def runs(places: Sequence[int], lanes: int) -> list[Sequence[int]]:
    """Cut places into runs for so many lanes, each of which is looked at by one request or so.

    No run has one place unless there is only one: alone, a blob would be asked for twice.
    """
    total = len(places)
    number = min(max(lanes, -(-total // _RUN)), max(1, total // 2))
    edges = [total * n // number for n in range(number + 1)]
    return [places[low:high] for low, high in pairwise(edges) if low < high]


@dataclass(slots=True)
class _Ledger:
    """Counts the bytes that an output has used, and says how many its next tile may use."""

    budget: int
    expected: int
    spent: int = 0
    tiles: list[Tile] = field(default_factory=list)

    def allowance(self, together: int) -> int:
        """Return the bytes for each next tile that leave room for a caption of each later one."""
        after = _RESERVE * max(0, self.expected - len(self.tiles) - together)
        return min(TILE_BUDGET, max(_RESERVE, (self.budget - self.spent - after) // together))

    def take(self, made: Tile) -> bool:
        """Add a tile; return whether it fits."""
        size = len(made.html.encode())
        if self.spent + size > self.budget:
            return False
        self.spent += size
        self.tiles.append(made)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The drawn tiles of a column, with heading and note."""

    title: str
    total: int
    tiles: tuple[Tile, ...]
    view: View = "grid"
    note: str = ""
    summary: str = ""

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
            element(
                "div",
                *(made.html for made in self.tiles),
                attributes={"role": "group", "aria-label": f"blobs of {title}"},
                style=row if self.view == "grid" else column,
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
        lines += [f"  {made.text}" for made in self.tiles[:_TEXT_LINES]]
        if len(self.tiles) > _TEXT_LINES:
            lines.append(f"  … {len(self.tiles) - _TEXT_LINES} more")
        return "\n".join(lines)


def draw_page(
    column: BlobColumnLike,
    indices: Iterable[int],
    *,
    view: View = "grid",
    render: bool = False,
    budget: int = OUTPUT_BUDGET,
    keep: Callable[[Tile], bool] | None = None,
) -> Page:
    """Read and draw the blobs at ``indices``, in order, up to `MAX_TILES` and the budget.

    Costs a request per blob at most: small ones come together. When the service stops answering
    midway, the blobs after that are not asked for: their tiles say so.

    Parameters
    ----------
    budget
        Bytes that the markup may have in all. Near its end tiles shrink to a head and a caption;
        what does not fit at all is left out, and the note says so.
    keep
        Which tiles to show; all by default.
    """
    pages = drawn_pages(column, indices, view=view, render=render, budget=budget, keep=keep)
    page = next(pages)
    for page in pages:  # noqa: B007  # the last one is wanted
        pass
    return page


def drawn_pages(
    column: BlobColumnLike,
    indices: Iterable[int],
    *,
    view: View = "grid",
    render: bool = False,
    budget: int = OUTPUT_BUDGET,
    keep: Callable[[Tile], bool] | None = None,
    together: int = 1,
    seen: Callable[[int, Tile], None] | None = None,
) -> Iterator[Page]:
    """Iterate over the page as it grows; the last one is what `draw_page` returns.

    Parameters
    ----------
    together
        How many blobs are read at a time; after these it gives a page.
    seen
        Told each index with its tile, by several threads, except where the service was silent.
    """
    size = GRID if view == "grid" else LIST
    todo = list(indices)
    ledger = _Ledger(budget=budget - _AROUND, expected=min(len(todo), MAX_TILES))
    silent = note = ""

    def page() -> Page:
        tiles = tuple(ledger.tiles)
        return Page(title=column.title, total=len(column), tiles=tiles, view=view, note=note)

    at = 0
    while at < len(todo) and not note:
        if len(ledger.tiles) == MAX_TILES:
            note = f"{MAX_TILES} tiles are the most that one output shows"
            break
        group = todo[at : at + min(together, MAX_TILES - len(ledger.tiles))]
        drawn: Sequence[Tile | OdpsNbError] = [OdpsNbError(silent)] * len(group)
        if not silent:
            allowance = ledger.allowance(len(group))
            drawn = _group(column, group, size, allowance=allowance, render=render, seen=seen)
        for index, made in zip(group, drawn, strict=True):
            if isinstance(made, OdpsNbError):
                if at == 0:
                    raise made
                silent = silent or f"not read: {made}"
                row = column.caption(index)
                made = unread_tile(silent, size=size, name=f"blob {index}", row=row)
            if (keep is None or keep(made)) and not ledger.take(made):
                left = len(todo) - at
                note = f"{left:,} more do not fit into one output; look at fewer at a time"
                break
            at += 1
        if at < len(todo) and not note:
            yield page()
    yield page()


def _group(
    column: BlobColumnLike,
    group: Sequence[int],
    size: Size,
    *,
    allowance: int,
    render: bool,
    seen: Callable[[int, Tile], None] | None,
) -> list[Tile | OdpsNbError]:
    """Draw some tiles at a time; an error of the service stands in place of a tile."""

    def draw(index: int, blob: BlobLike | None) -> Tile | OdpsNbError:
        name = f"blob {index}"
        if blob is None:
            return null_tile(size=size, name=name)
        row = column.caption(index)
        try:
            return tile(
                blob, size=size, fallback_name=name, row=row, render=render, budget=allowance
            )
        except (TransportError, ServiceError) as error:
            return error

    def draw_run(run: Sequence[int]) -> list[Tile | OdpsNbError]:
        drawn: list[Tile | OdpsNbError] = []
        with closing(glances(column, run)) as blobs:
            for index, blob in zip(run, blobs, strict=True):
                made = draw(index, blob)
                if isinstance(made, OdpsNbError):  # the service is not asked again
                    return drawn + [made] * (len(run) - len(drawn))
                drawn.append(made)
                if seen is not None:
                    seen(index, made)
        return drawn

    cut = runs(group, _LANES)
    if len(cut) == 1:
        return draw_run(group)
    pool = ThreadPoolExecutor(len(cut), thread_name_prefix="odps-nb-gallery")
    try:
        return list(chain.from_iterable(pool.map(draw_run, cut)))
    finally:  # an interrupt does not wait for a service that is silent
        pool.shutdown(wait=False, cancel_futures=True)
