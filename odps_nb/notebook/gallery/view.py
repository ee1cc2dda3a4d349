"""Shows a column of blobs as a gallery: static HTML, with buttons for pages, filter and saving.

`mimebundle` is the whole gallery as ``text/html`` without scripts and a short ``text/plain``; it
looks the same live, reopened, untrusted and exported.

`Gallery` adds paging, a filter and saving with ipywidgets. Its pictures stay that same static
HTML in an output of their own, which the buttons replace through a display id; the widgets hold
nothing that came from the service. Two other ways were rejected:

- one bundle with the widget view and the HTML: JupyterLab prefers the widget, and a trusted
  notebook that is reopened without its kernel then shows "model not found" in its place;
- ``widgets.HTML`` around the tiles: the data would be kept in widget state and saved a second
  time, and the safety rules allow no such widget around data of the service.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odps_nb.errors import ArgumentError, MissingDependencyError, OdpsNbError
from odps_nb.notebook.gallery.page import (
    MAX_TILES,
    OUTPUT_BUDGET,
    BlobColumnLike,
    Page,
    View,
    draw_page,
)
from odps_nb.notebook.preview.drawing import count_of
from odps_nb.notebook.preview.peek import sniff_blob
from odps_nb.notebook.preview.registry import kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["MAX_TILES", "OUTPUT_BUDGET", "BlobColumnLike", "Gallery", "View", "mimebundle"]

_ALL: Final = "all kinds"
_NO_BUTTONS: Final = "run the cell again to turn pages, filter or save"


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

    Costs one request per blob that is looked at; shows the first `MAX_TILES` at most.

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
    if view not in ("grid", "list"):
        raise ArgumentError(f"unknown view {view!r}", argument="view", hint="use 'grid' or 'list'")
    page = draw_page(
        column,
        range(len(column)),
        view=view,
        render=render,
        budget=max_output_bytes,
        keep=None if mime is None else lambda made: made.format.mime.startswith(mime.lower()),
    )
    return replace(page, summary=summary).bundle()


class Gallery:
    """A gallery with pages, a filter by kind, and saving; displays itself in a notebook.

    Parameters
    ----------
    column
        The blobs; see `BlobColumnLike`.
    view, render, summary
        As for `mimebundle`.
    page_size
        Tiles of one page, at most `MAX_TILES`.

    Examples
    --------
    ::

        Gallery(odps.table("media").blobs("content", limit=200))
    """

    def __init__(
        self,
        column: BlobColumnLike,
        *,
        view: View = "grid",
        render: bool = False,
        page_size: int = 12,
        summary: str = "",
    ) -> None:
        self._column, self._summary = column, summary
        self._view: View = view
        self._render = render
        self._page_size = max(1, min(page_size, MAX_TILES))
        self._number = 0
        self._kind = _ALL
        self._kinds: list[str] | None = None
        self._note = ""
        self._handle: Any = None

    def __repr__(self) -> str:
        return f"<Gallery of {self._column.title}, page {self._number + 1} of {self.pages}>"

    @property
    def pages(self) -> int:
        """Number of pages with the present filter."""
        return max(1, -(-len(self._indices()) // self._page_size))

    def bundle(self) -> dict[str, str]:
        """Draw the current page as ``text/html`` and ``text/plain``; reads its blobs."""
        page = draw_page(self._column, self._shown(), view=self._view, render=self._render)
        where = f"page {self._number + 1} of {self.pages}"
        note = " · ".join(part for part in (where, self._note, page.note) if part)
        return replace(page, note=note, summary=self._summary).bundle()

    def turn(self, step: int) -> None:
        """Turn ``step`` pages forward (back if negative) and redraw."""
        self._number = max(0, min(self._number + step, self.pages - 1))
        self._redraw()

    def show_only(self, kind: str) -> None:
        """Show only one kind (``image``, ``audio``, …), or ``"all kinds"``, and redraw."""
        self._kind, self._number = kind, 0
        self._redraw()

    def save_page(self, folder: str | Path) -> list[Path]:
        """Save the blobs of the current page into ``folder`` and return the paths.

        Names are made safe, existing files stay as they are.

        Raises
        ------
        ProtocolError
            When the bytes of a blob do not agree with their checksums; it leaves no file.
        """
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        saved = []
        for index in self._shown():
            blob = self._column[index]
            if blob is not None:
                saved.append(blob.save(target))
        self._note = f"{count_of(len(saved), 'file')} saved into {target}"
        return saved

    def _shown(self) -> Sequence[int]:
        start = self._number * self._page_size
        return self._indices()[start : start + self._page_size]

    def _indices(self) -> Sequence[int]:
        everything = range(len(self._column))
        if self._kind == _ALL:
            return everything
        if self._kinds is None:
            # one request per blob, for its head only, and only when somebody filters
            blobs = (self._column[index] for index in everything)
            self._kinds = ["" if b is None else sniff_blob(b).kind for b in blobs]
        return [number for number in everything if self._kinds[number] == self._kind]

    # -- in a notebook --------------------------------------------------------------------------

    def _ipython_display_(self) -> None:
        from IPython.display import display

        show: Any = display  # IPython ships no types
        self._handle = show(self.bundle(), raw=True, display_id=True)
        # the text is what an untrusted or exported notebook shows in place of the buttons
        buttons = self.controls()._repr_mimebundle_()
        show({**buttons, "text/plain": _NO_BUTTONS}, raw=True)

    def _redraw(self) -> None:
        if self._handle is not None:
            self._handle.update(self.bundle(), raw=True)

    def controls(self) -> Any:
        """Return the row of buttons; it holds nothing that came from the service.

        Raises
        ------
        MissingDependencyError
            Without ipywidgets.
        """
        try:
            import ipywidgets as widgets
        except ImportError:
            raise MissingDependencyError(
                "paging needs ipywidgets", extra="notebook", hint="pip install 'odps-nb[notebook]'"
            ) from None
        back = widgets.Button(description="‹ Back", tooltip="the page before")
        on = widgets.Button(description="Next ›", tooltip="the next page")
        names = [_ALL, *sorted(kind.name for kind in kinds())]
        kind = widgets.Dropdown(options=names, description="Show", tooltip="one kind only")
        folder = widgets.Text(value="blobs", description="Folder", tooltip="where to save")
        save = widgets.Button(description="Save page", tooltip="save the blobs of this page")
        back.on_click(lambda _: self._try(lambda: self.turn(-1)))
        on.on_click(lambda _: self._try(lambda: self.turn(1)))
        kind.observe(lambda change: self._try(lambda: self.show_only(change["new"])), "value")
        save.on_click(lambda _: self._try(lambda: self._save_and_say(folder.value)))
        return widgets.HBox(
            [back, on, kind, folder, save], layout=widgets.Layout(flex_flow="row wrap")
        )

    def _save_and_say(self, folder: str) -> None:
        self.save_page(folder)
        self._redraw()

    def _try(self, action: Callable[[], None]) -> None:
        """Run the action of a button; an error is shown as the last line of the page."""
        self._note = ""
        try:
            action()
        except (OdpsNbError, OSError) as error:
            self._note = f"{type(error).__name__}: {error}"
            if self._handle is not None:
                title, total = self._column.title, len(self._column)
                empty = Page(title=title, total=total, tiles=(), note=self._note)
                self._handle.update(empty.bundle(), raw=True)
