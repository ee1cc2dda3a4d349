"""Shows a column of blobs as a gallery: static HTML, and an interactive widget in Jupyter.

`Gallery` shows the static page (`page.mimebundle`) and a widget (``gallery.js``) that replaces it
as long as a kernel runs. The saved notebook contains only the static page.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import OdpsNbError, visible
from odps_nb.explained import explained
from odps_nb.html import failed_page
from odps_nb.notebook.gallery.chosen import (
    ALL,
    AT_A_TIME,
    Chosen,
    GalleryChoice,
    Order,
)
from odps_nb.notebook.gallery.page import (
    MAX_TILES,
    OUTPUT_BUDGET,
    GalleryPage,
    View,
    checked_view,
    drawn_pages,
)
from odps_nb.notebook.gallery.tiles import Tiles
from odps_nb.notebook.live.heads import side_by_side
from odps_nb.notebook.live.live_view import LiveView
from odps_nb.notebook.progress.browser import BrowserProgress
from odps_nb.terms import count_of, shorten

if TYPE_CHECKING:
    import pandas as pd

    from odps_nb.access.blobs.column import BlobColumn
    from odps_nb.client.calls.progress import Progress

ASK: Final = 1_000
"""Maximum blobs to read without confirmation for a filter or an order."""
MAX_SHOWN: Final = 100_000
"""Maximum tiles that can be scrolled to."""
_BATCH: Final = 200  # maximum tiles requested by one message
_COPIED: Final = 10_000
_FIRST: Final = 6  # minimum tiles in the first version of the static page


@explained
class Gallery(LiveView):
    """A gallery of blobs with scrolling, filters, sorting, search, selection, zoom and saving.

    It displays itself in a notebook; without a kernel or anywidget it shows only the static page.

    Parameters
    ----------
    column
        The column of blobs.
    view, summary, max_output_bytes
        See `odps_nb.notebook.gallery.page.mimebundle`.

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
    _task = "choose"
    _no_widget = "run the cell again to scroll, filter, sort, search, select or save"
    _cancelled: ClassVar = {"save": "cancelled; files already saved are kept"}

    def __init__(
        self,
        column: BlobColumn,
        *,
        view: View = "grid",
        summary: str = "",
        max_output_bytes: int = OUTPUT_BUDGET,
    ) -> None:
        self._column, self._view, self._summary = column, checked_view(view), summary
        self._max_bytes = max_output_bytes
        self._chosen = Chosen(column)
        self._tiles = Tiles(self._chosen)
        #: The view that last requested a new choice, and the view's number for that request.
        self._question: dict[str, Any] = {}
        super().__init__()

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
        """The positions of the selected blobs in the column, in ascending order."""
        return sorted(self._chosen.selected)

    @property
    def selected(self) -> pd.Series[Any]:
        """The references of the selected blobs, as a Series with the index of their rows."""
        return self._column.pick(self.selection).references()

    def show_only(self, kind: str) -> None:
        """Show only one kind (``image``), one media type (``image/png``) or ``"all kinds"``."""
        self._show(replace(self._chosen.choice, kind=kind))

    def search(self, text: str) -> None:
        """Show only blobs with this text in their name, row label or first 64 KiB of content.

        Sends one small request per blob. Text that does not fit into the cache (32 Mi characters)
        is read again by the next search.
        """
        self._show(replace(self._chosen.choice, search=text.strip()))

    def sort_by(self, order: Order, *, descending: bool = False) -> None:
        """Sort by ``row``, ``name`` or ``size``; the latter two first send one request per blob."""
        self._show(replace(self._chosen.choice, order=order, descending=descending))

    def _show(self, choice: GalleryChoice) -> None:
        self._chosen.choose(choice, CancelToken())
        self._send_gallery(fresh=True)

    def save_selected(self, folder: str | Path, *, progress: Progress = None) -> list[Path]:
        """Save the selected blobs to ``folder``, creating it if needed; see `BlobColumn.save`."""
        return self._chosen.save(self.selection, folder, token=CancelToken(), progress=progress)

    def end(self) -> None:
        """Cancel all work; also called when the interpreter exits."""
        self._chosen.enough()
        super().end()

    # -- in a notebook --------------------------------------------------------------------------

    def _static_page(self) -> dict[str, str]:
        *_, page = self._pages()
        return page.bundle()

    def show(self) -> None:
        """Display the static page and the widget as soon as there are some tiles."""
        self._is_displayed = False  # display a new output, perhaps in another cell
        goal = _FIRST
        try:
            for page in self._pages():
                if len(page.tiles) >= goal:
                    self._show_static(page.bundle())
                    if goal == _FIRST:
                        self._show_widget()
                    goal = 2 * len(page.tiles)
            mime_bundle = page.bundle()
        except OdpsNbError as error:
            mime_bundle = failed_page(self, error)
        self._show_static(mime_bundle)
        if goal == _FIRST:
            self._show_widget()

    def _pages(self) -> Iterator[GalleryPage]:
        return drawn_pages(
            self._column,
            self._chosen.indices[: MAX_TILES + 1],
            view=self._view,
            budget=self._max_bytes,
            summary=self._summary,
            together=AT_A_TIME,
            seen=self._tiles.learn,
        )

    # -- requests from the browser --------------------------------------------------------------

    def _on_ready(self, _: Mapping[str, Any], buffers: object) -> None:
        self._send_gallery(fresh=False)
        self._send_selection("")

    def _send_gallery(self, *, fresh: bool, **question: Any) -> None:
        """Send the shown blobs; ``fresh``: they have changed; ``question``: a view's request."""
        chosen, choice, column = self._chosen, self._chosen.choice, self._column
        shown = chosen.indices[:MAX_SHOWN]
        notes = [chosen.note] if chosen.note else []
        if len(shown) < len(chosen.indices):
            notes.append(f"only the first {MAX_SHOWN:,} blobs can be shown")
        message = {
            "kind": "gallery",
            "fresh": fresh,
            "title": shorten(visible(column.title), 200),
            "summary": shorten(visible(self._summary or count_of(len(column), "blob")), 200),
            "view": self._view,
            "total": len(column),
            "count": len(shown),
            "note": " · ".join(notes),
            "menu": chosen.menu(),
            "chosen": choice.kind,
            "search": choice.search,
            "order": choice.order,
            "descending": choice.descending,
            **question,
        }
        self._send(message, *([] if isinstance(shown, range) else [_packed(shown)]))

    def _on_tiles(self, content: Mapping[str, Any], _: object) -> None:
        indices = [self._index(value) for value in content["indices"][:_BATCH]]

        def work(token: CancelToken) -> None:
            cached = {index: message for index in indices if (message := self._tiles.kept(index))}
            if cached:
                self._send({"kind": "tiles", "tiles": list(cached.values())})
            missing = [index for index in indices if index not in cached]
            with closing(
                side_by_side(self._tiles.read, missing, token, workers=AT_A_TIME)
            ) as drawn:
                for message in drawn:
                    self._send({"kind": "tiles", "tiles": [message]})

        self._run("tiles", work)

    def _on_large(self, content: Mapping[str, Any], _: object) -> None:
        index = self._index(content["index"])

        def work(token: CancelToken) -> None:
            message = self._tiles.large(index, token)
            token.check()
            self._send({"kind": "large", "tile": message})

        self._run("large", work)

    def _on_choose(self, content: Mapping[str, Any], _: object) -> None:
        self._question = question = {
            "by": str(content["by"])[:40],
            "number": int(content["number"]),
        }
        choice = GalleryChoice(
            kind=str(content["chosen"]),
            search=str(content["search"]).strip(),
            order=content["order"],
            descending=bool(content["descending"]),
        )
        missing = len(self._chosen.missing(choice))
        if missing > ASK and not content.get("sure"):
            text = f"this sends {missing:,} small requests, one for each blob not read yet"
            self._send({"kind": "ask", "text": text})
            return

        def report(number: int, total: int) -> None:
            text = f"read {number:,} of {total:,} blobs"
            busy = {"kind": "busy", "task": "choose", "text": text, "share": number / total}
            self._send({**busy, "stop": "Enough"})

        def work(token: CancelToken) -> None:
            self._chosen.choose(choice, token, report)
            self._send_gallery(fresh=True, **question)

        self._run("choose", work)

    def _on_select(self, content: Mapping[str, Any], buffers: Sequence[Any]) -> None:
        numbers = array("i")
        numbers.frombytes(bytes(buffers[0]))
        by = str(content["by"])[:40]
        self._chosen.selected = {self._index(number) for number in numbers}
        self._send_selection(by)

    def _on_save(self, content: Mapping[str, Any], _: object) -> None:
        places = self._places(content)
        folder = str(content["folder"]).strip() or "blobs"

        def work(token: CancelToken) -> None:
            progress = BrowserProgress(self._send, token.cancel, task="save")
            saved = self._chosen.save(places, folder, token=token, progress=progress)
            where = saved[0] if len(saved) == 1 else folder
            text = f"{count_of(len(saved), 'file')} saved: {where}"
            self._send({"kind": "said", "text": visible(text)})

        self._run("save", work)

    def _on_copy(self, content: Mapping[str, Any], _: object) -> None:
        places = self._places(content)[:_COPIED]

        def work(token: CancelToken) -> None:
            texts = self._column.pick(places).references().tolist()
            summary = f"{count_of(len(texts), 'reference')} copied"
            self._send({"kind": "copied", "text": "\n".join(texts), "said": summary})

        self._run("copy", work)

    def _on_cancel(self, content: Mapping[str, Any], _: object) -> None:
        if content["task"] == "choose":
            self._chosen.enough()
        else:
            self._stop(str(content["task"]))

    def _about(self, task: str) -> Mapping[str, Any]:
        return self._question if task == "choose" else {}

    def _send_selection(self, by: str) -> None:
        """Send the selection to all views except ``by``, which changed it."""
        self._send({"kind": "selected", "by": by}, _packed(self.selection))

    def _places(self, content: Mapping[str, Any]) -> Sequence[int]:
        """Return the position of the blob that a message names, or those of the selected blobs."""
        index = content.get("index")
        return self.selection if index is None else [self._index(index)]

    def _index(self, value: Any) -> int:
        index = int(value)
        if not 0 <= index < len(self._column):
            raise IndexError(f"there is no blob {index}")
        return index


def _packed(numbers: Sequence[int]) -> bytes:
    """Return numbers as 32-bit integers in native byte order, as browsers expect."""
    return array("i", numbers).tobytes()
