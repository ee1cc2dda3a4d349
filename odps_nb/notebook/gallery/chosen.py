"""The state of a gallery: which blobs are shown, in which order, and which are selected.

The name, size and format of a blob are read together with its first bytes, in at most one small
request. A search also needs the first bytes of text blobs, and caches some of them for the next
search.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from odps_nb.access.saving import made_folder
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import ArgumentError, visible
from odps_nb.formats.kind import Format
from odps_nb.formats.registry import kinds
from odps_nb.notebook.live.heads import side_by_side
from odps_nb.notebook.preview.peek import recognise_head
from odps_nb.notebook.preview.tile import UNREAD, Tile, why_unread
from odps_nb.terms import did_you_mean

if TYPE_CHECKING:
    from odps_nb.access.blobs.column import BlobColumn
    from odps_nb.client.blob.response import BlobHead
    from odps_nb.client.blob.streamed import StreamedBlob
    from odps_nb.client.calls.progress import Progress

#: Maximum concurrent requests, each for a few blobs.
AT_A_TIME: Final = 6
ALL: Final = "all kinds"
MAX_SEARCH: Final = 200
_KEPT: Final = 32 << 20  # maximum total characters of cached text
_UNREAD: Final = "not read"
_DELAY, _PAUSE = 0.3, 0.2  # seconds until the first progress report, and between reports
Order = Literal["row", "name", "size"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GalleryChoice:
    """The blobs to show, and their order.

    ``kind`` is a preview kind or media type (as detected from the bytes), ``"not read"`` or `ALL`.
    ``search`` is a string to find, ignoring case, in names, in row labels and in the first
    64 KiB of text blobs.
    """

    kind: str = ALL
    search: str = ""
    order: Order = "row"
    descending: bool = False

    def __post_init__(self) -> None:
        if self.order not in ("row", "name", "size"):
            hint = "use 'row', 'name' or 'size'"
            raise ArgumentError(f"unknown order {self.order!r}", argument="order", hint=hint)
        if self.kind not in (ALL, _UNREAD) and "/" not in self.kind:
            names = sorted(kind.name for kind in kinds())
            if self.kind not in names:
                hint = f"{did_you_mean(self.kind, names)}pass a media type or one of: "
                raise ArgumentError(
                    f"there is no kind {self.kind!r}",
                    argument="kind",
                    hint=hint + ", ".join((ALL, _UNREAD, *names)),
                )
        if len(self.search) > MAX_SEARCH:
            raise ArgumentError(f"the search text is longer than {MAX_SEARCH} characters")

    @property
    def by_format(self) -> bool:
        """Whether the choice depends on the first bytes of the blobs."""
        return self.kind != ALL or bool(self.search)


class Chosen:
    """The blobs of a column: cached metadata, the shown blobs and the selected blobs.

    ``indices`` lists the shown blobs in order. ``selected`` lists the selected blobs, even if they
    are not shown. ``note`` states how many blobs were examined if some were not.
    """

    def __init__(self, column: BlobColumn) -> None:
        self.column = column
        self._heads: dict[int, tuple[str, int | None]] = {}  # name and size by blob
        self._formats: dict[int, Format] = {}
        self._texts: dict[int, str] = {}
        self._kept = 0
        #: The last search text, and for each blob searched so far, whether it contains the text.
        self._found: tuple[str, dict[int, bool]] = ("", {})
        self.choice = GalleryChoice()
        self.indices: Sequence[int] = range(len(column))
        self.selected: set[int] = set()
        self.note = ""
        self._enough = threading.Event()

    def enough(self) -> None:
        """Make `choose` finish with the blobs read so far."""
        self._enough.set()

    def choose(
        self,
        choice: GalleryChoice,
        token: CancelToken,
        report: Callable[[int, int], None] = lambda number, total: None,
    ) -> None:
        """Apply a choice; regularly call ``report`` with the number of blobs read and the total."""
        missing = self.missing(choice)
        self._enough.clear()
        after, look = time.monotonic() + _DELAY, partial(self.look, choice)
        with closing(side_by_side(look, missing, token, workers=AT_A_TIME)) as looked:
            for number, _ in enumerate(looked, 1):
                now = time.monotonic()
                if now > after:
                    after = now + _PAUSE
                    report(number, len(missing))
                if self._enough.is_set():
                    break
        token.check()
        left = len(self.missing(choice)) if self._enough.is_set() else 0
        seen = len(self.column) - left
        self.note = f"{seen:,} blobs examined" if left else ""
        self.indices = self.ordered(choice)
        self.choice = choice

    def save(
        self,
        places: Sequence[int],
        folder: str | Path,
        *,
        token: CancelToken,
        progress: Progress = None,
    ) -> list[Path]:
        """Save blobs to a folder, creating it if needed; return the file paths."""
        target = made_folder(folder)

        def own_name(place: int, head: BlobHead) -> str | None:
            token.check()
            return None

        saved = self.column.pick(places).save(target, file_name=own_name, progress=progress)
        return [path for path in dict.fromkeys(saved) if path is not None]

    # -- metadata of each blob --------------------------------------------------------------------

    def learn(self, index: int, made: Tile) -> None:
        """Cache the metadata found while drawing a tile."""
        self._formats[index] = made.format
        self._heads[index] = (made.name, made.size)

    def missing(self, choice: GalleryChoice) -> list[int]:
        """Return the blobs that must be read to apply a choice."""
        by_head = bool(choice.search) or choice.order != "row"
        if choice.search and choice.search != self._found[0]:
            # make a copy, because other threads add entries
            sought, texts = choice.search.casefold(), dict(self._texts)
            self._found = (choice.search, {at: sought in text for at, text in texts.items()})
        return [
            index
            for index in range(len(self.column))
            if (by_head and index not in self._heads)
            or (choice.by_format and index not in self._formats)
            or (choice.search and index not in self._found[1] and self._formats[index].encoding)
        ]

    def look(
        self, choice: GalleryChoice, places: Sequence[int], cancel: CancelToken
    ) -> Iterator[int]:
        """Read the metadata for a choice; yield each index in ``places`` after its blob is read."""
        with closing(self.column._inspected(places, cancel)) as blobs:
            for index, blob in zip(places, blobs, strict=True):
                self._look(index, blob, choice)
                yield index

    def _look(self, index: int, blob: StreamedBlob, choice: GalleryChoice) -> None:
        try:
            if choice.by_format:
                self._formats[index], text = recognise_head(blob, blob.file_name)
                self._read(index, text.casefold(), choice)
            if index not in self._heads:  # name and size arrive with the first bytes
                name = " ".join(visible(blob.file_name or "").split())
                self._heads[index] = (name or f"blob {index}", blob.size)
        except Exception as error:  # noqa: BLE001  # a defect of one blob must not end a search
            why_unread(error)
            self._heads.setdefault(index, (f"blob {index}", None))
            self._formats[index] = UNREAD

    def _read(self, index: int, text: str, choice: GalleryChoice) -> None:
        if index not in self._texts and text and self._kept + len(text) <= _KEPT:
            self._texts[index] = text
            self._kept += len(text)
        searched, inside = self._found
        if choice.search == searched:  # skip if another search has begun
            inside[index] = bool(text) and searched.casefold() in text

    def ordered(self, choice: GalleryChoice) -> list[int]:
        """Return the blobs found to match a choice, in the chosen order."""
        indices = [index for index in range(len(self.column)) if self._fits(index, choice)]
        if choice.order == "row":
            return indices[::-1] if choice.descending else indices
        known = [index for index in indices if index in self._heads]
        if choice.order == "name":
            return sorted(
                known, key=lambda at: self._heads[at][0].casefold(), reverse=choice.descending
            )
        sizes = {at: size for at in known if (size := self._heads[at][1]) is not None}
        unsized = [at for at in known if at not in sizes]
        return sorted(sizes, key=sizes.__getitem__, reverse=choice.descending) + unsized

    def _fits(self, index: int, choice: GalleryChoice) -> bool:
        if choice.kind != ALL:
            format = self._formats.get(index)
            if format is None:
                return False
            named = (_UNREAD,) if format is UNREAD else (format.kind, format.mime)
            if choice.kind not in named:
                return False
        if not choice.search:
            return True
        name = self._heads.get(index, ("", None))[0]
        text = f"{name}\n{self.column.caption(index)}".casefold()
        return choice.search.casefold() in text or self._found[1].get(index, False)

    def menu(self) -> list[tuple[str, str]]:
        """Return the selectable kinds and their labels, with counts once all blobs are examined."""
        total = len(self.column)
        if len(self._formats) < total or not total:
            return [(ALL, ALL), *((kind, kind) for kind in sorted(kind.name for kind in kinds()))]
        known = list(self._formats.values())  # make a copy, because other threads add formats
        read = [format for format in known if format is not UNREAD]
        items = [(ALL, f"{ALL} ({total:,})")]
        of_kind = Counter(format.kind for format in read)
        of_mime = Counter((format.kind, format.mime) for format in read)
        for kind, number in sorted(of_kind.items()):
            items.append((kind, f"{kind} ({number:,})"))
            inside = sorted(mime for of, mime in of_mime if of == kind)
            if len(inside) > 1:
                items += [(mime, f"\u2003{mime} ({of_mime[kind, mime]:,})") for mime in inside]
        if len(read) < total:
            items.append((_UNREAD, f"{_UNREAD} ({total - len(read):,})"))
        return items
