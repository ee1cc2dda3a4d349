"""Shows a column of blobs as a gallery: static HTML, and in Jupyter a view to work in.

`mimebundle` is the whole gallery as ``text/html`` without scripts and a short ``text/plain``; it
looks the same live, reopened, untrusted and exported. `Gallery` shows it, and beside it a widget
(``gallery.js``) that stands in its place while the kernel answers.

Nothing that came from the service is widget state: tiles go to the browser as messages, and the
saved notebook has the static page alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import (
    ArgumentError,
    MissingDependencyError,
    OdpsNbError,
    explain,
    visible,
)
from odps_nb.lifetime import end_at_exit
from odps_nb.notebook.display.html import bundle, element
from odps_nb.notebook.gallery.chosen import AT_A_TIME, Chosen, WorkColumn
from odps_nb.notebook.gallery.facts import ALL, Choice, Order
from odps_nb.notebook.gallery.page import (
    MAX_TILES,
    OUTPUT_BUDGET,
    BlobColumnLike,
    Page,
    View,
    draw_page,
    drawn_pages,
)
from odps_nb.notebook.gallery.requests import Requests
from odps_nb.notebook.gallery.tiles import Tiles
from odps_nb.notebook.live.twin import LiveView, in_kernel
from odps_nb.terms import count_of

if TYPE_CHECKING:
    import pandas as pd

    from odps_nb.client.calls.progress import Progress

_FIRST: Final = 6  # tiles of the static page that are shown before the others are there
_NO_WIDGET: Final = "run the cell again to scroll, filter, sort, search, select or save"


def _view(view: View) -> View:
    if view not in ("grid", "list"):
        raise ArgumentError(f"unknown view {view!r}", argument="view", hint="use 'grid' or 'list'")
    return view


def mimebundle(
    column: BlobColumnLike,
    *,
    view: View = "grid",
    render: bool = False,
    mime: str | None = None,
    max_output_bytes: int = OUTPUT_BUDGET,
    summary: str = "",
) -> dict[str, str]:
    """Return the gallery as ``text/html`` without scripts and ``text/plain``.

    Costs a request per blob that is looked at, at most: small ones come together. Shows the first
    `MAX_TILES` at most.

    Parameters
    ----------
    column
        The blobs; see `BlobColumnLike`.
    view
        ``grid``: pictures side by side; ``list``: one row each.
    render
        Draw HTML pages in a sandbox rather than show their source.
    mime
        Only blobs whose media type begins like this (``image/``): the type that the bytes have,
        whatever was declared.
    max_output_bytes
        How large the markup may become; what does not fit is counted, not drawn.
    summary
        How many these are, in words; by default their number.

    Raises
    ------
    ArgumentError
        For an unknown ``view``.
    TransportError, ServiceError
        When the service does not answer for the first blob. A blob that is corrupt or gone raises
        nothing: its tile says so.
    """
    page = draw_page(
        column,
        range(len(column)),
        view=_view(view),
        render=render,
        budget=max_output_bytes,
        keep=None if mime is None else lambda made: made.format.mime.startswith(mime.lower()),
    )
    return replace(page, summary=summary).bundle()


class Gallery(LiveView):
    """A gallery in which one scrolls, filters, sorts, searches, selects, enlarges and saves.

    It displays itself in a notebook; without one, or without anywidget, it is the static page.

    Parameters
    ----------
    column
        The blobs.
    view, summary, max_output_bytes
        As for `mimebundle`; the bytes are those of the static page.

    Examples
    --------
    >>> gallery = Gallery(odps.table("media").blobs("content"))
    >>> gallery.show_only("audio")
    >>> gallery
    <Gallery of local.media.content, 3 of 47 blobs, kind audio>
    >>> gallery.selected.tolist()
    []
    """

    _script = Path(__file__).with_name("gallery.js")

    def __init__(
        self,
        column: WorkColumn,
        *,
        view: View = "grid",
        summary: str = "",
        max_output_bytes: int = OUTPUT_BUDGET,
    ) -> None:
        super().__init__()
        self._column, self._view, self._summary = column, _view(view), summary
        self._max_bytes = max_output_bytes
        self._chosen = Chosen(column)
        self._tiles = Tiles(column, self._chosen.facts)
        self._requests = Requests(
            self._chosen, self._tiles, view=view, summary=summary, send=self._send
        )
        end_at_exit(self)

    def __repr__(self) -> str:
        choice, total = self._chosen.choice, count_of(len(self._column), "blob")
        shown = len(self._chosen.indices)
        parts = [f"Gallery of {self._column.title}"]
        parts.append(total if shown == len(self._column) else f"{shown:,} of {total}")
        parts += [f"kind {choice.kind}"] if choice.kind != ALL else []
        parts += [f"search {choice.search!r}"] if choice.search else []
        parts += [f"by {choice.order}"] if choice.order != "row" else []
        parts += [f"{len(self.selection):,} selected"] if self.selection else []
        return f"<{', '.join(parts)}>"[:300]

    @property
    def selection(self) -> Sequence[int]:
        """The places of what is selected in the column, in order."""
        return sorted(self._chosen.selected)

    @property
    def selected(self) -> pd.Series[Any]:
        """The references of what is selected, by the index of their rows."""
        return self._column.pick(self.selection).references()

    def show_only(self, kind: str) -> None:
        """Show only a kind (``image``), a media type (``image/png``) or ``"all kinds"``.

        It means what the bytes are. Costs a small request for each blob, once.

        Raises
        ------
        TransportError, ServiceError
            The service does not answer.
        """
        self._choose(replace(self._chosen.choice, kind=kind))

    def search(self, text: str) -> None:
        """Show only blobs with a text in their name, their row or their content.

        Of contents, the first 64 KiB of texts are searched, as they are decoded. Costs a small
        request for each blob; texts beyond 32 million characters are read again by each search.
        """
        self._choose(replace(self._chosen.choice, search=text.strip()))

    def sort_by(self, order: Order, *, descending: bool = False) -> None:
        """Sort by ``name`` or ``size``, or not (``row``); a small request for each blob, once."""
        self._choose(replace(self._chosen.choice, order=order, descending=descending))

    def _choose(self, choice: Choice) -> None:
        self._chosen.choose(choice, CancelToken())
        self._requests.send_gallery(fresh=True)

    def save_selected(self, folder: str | Path, *, progress: Progress = None) -> list[Path]:
        """Save what is selected into ``folder``, which is made if it is not there.

        Names are made safe, existing files stay as they are; see `Connection.save_blobs`.

        Raises
        ------
        ProtocolError
            When the bytes of a blob do not agree with their checksums; it leaves no file.
        """
        return self._chosen.save(self.selection, folder, token=CancelToken(), progress=progress)

    def end(self) -> None:
        """Stop, called when the interpreter exits."""
        self._requests.close()

    # -- in a notebook --------------------------------------------------------------------------

    def bundle(self) -> dict[str, str]:
        """Return the static page of what is shown; see `mimebundle`."""
        return self._dressed(list(self._pages())[-1])

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        try:
            return self.bundle()
        except OdpsNbError as error:
            return _failed(self, error)

    def _ipython_display_(self) -> None:
        if not in_kernel():
            raise NotImplementedError  # IPython then asks for the MIME bundle
        try:
            widget = self.widget()
        except MissingDependencyError:
            raise NotImplementedError from None
        self._twin.begin()
        goal = _FIRST
        try:
            for page in self._pages():
                if len(page.tiles) >= goal:
                    self._twin.show(self._dressed(page))
                    if goal == _FIRST:
                        self._twin.show_widget(widget, _NO_WIDGET)
                    goal = 2 * len(page.tiles)
            made = self._dressed(page)
        except OdpsNbError as error:
            made = _failed(self, error)
        self._twin.show(made)
        if goal == _FIRST:
            self._twin.show_widget(widget, _NO_WIDGET)

    def _pages(self) -> Iterator[Page]:
        return drawn_pages(
            self._column,
            self._chosen.indices[: MAX_TILES + 1],
            view=self._view,
            budget=self._max_bytes,
            together=AT_A_TIME,
            seen=self._tiles.learn,
        )

    def _dressed(self, page: Page) -> dict[str, str]:
        return replace(page, summary=self._summary).bundle()

    def receive(self, content: object, buffers: Sequence[Any] = ()) -> None:
        """Do what a message of the browser asks for; returns at once, never raises."""
        self._requests.receive(content, buffers)


def _failed(gallery: Gallery, error: OdpsNbError) -> dict[str, str]:
    text = "\n".join([repr(gallery), *explain(error)])
    return bundle(element("pre", visible(text)), text)
