"""What is known of each blob of a gallery, and in which order a choice shows which of them.

Name and size stand at the head of a blob, what it is in its first bytes: both come with a small
request for each blob at most, once. Drawn tiles tell them, too. Texts are read to be searched; as
many as fit are kept for the next search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Literal

from odps_nb.client.calls.cancel import CancelToken
from odps_nb.errors import ArgumentError, NotFoundError, ProtocolError, visible
from odps_nb.notebook.gallery.page import BlobColumnLike, glances
from odps_nb.notebook.preview.kind import Format
from odps_nb.notebook.preview.peek import BlobLike, glance
from odps_nb.notebook.preview.registry import kinds
from odps_nb.notebook.preview.tile import NULL, UNREAD, Tile

ALL: Final = "all kinds"
MAX_SEARCH: Final = 200
_KEPT: Final = 32 << 20  # characters of texts
_UNREAD: Final = "not read"
Order = Literal["row", "name", "size"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which blobs are shown, in which order.

    ``kind`` is a kind of preview, a media type, ``"not read"`` or `ALL`; it means what the bytes
    are. ``search`` is found in names, in what is said of the row, and in the first 64 KiB of texts
    as they are decoded, whatever the case.

    Raises
    ------
    ArgumentError
        For an unknown order, or a text to search that is too long.
    """

    kind: str = ALL
    search: str = ""
    order: Order = "row"
    descending: bool = False

    def __post_init__(self) -> None:
        if self.order not in ("row", "name", "size"):
            hint = "use 'row', 'name' or 'size'"
            raise ArgumentError(f"unknown order {self.order!r}", argument="order", hint=hint)
        if len(self.search) > MAX_SEARCH:
            raise ArgumentError(f"a text to search has at most {MAX_SEARCH} characters")

    @property
    def by_head(self) -> bool:
        """Whether names and sizes have to be known."""
        return bool(self.search) or self.order != "row"

    @property
    def by_format(self) -> bool:
        """Whether the first bytes have to be known."""
        return self.kind != ALL or bool(self.search)


class Facts:
    """Names, sizes and formats of the blobs of a column, as far as they are known."""

    def __init__(self, column: BlobColumnLike) -> None:
        self._column = column
        self._heads: dict[int, tuple[str, int | None]] = {}
        self._formats: dict[int, Format] = {}
        self._texts: dict[int, str] = {}
        self._kept = 0
        #: The text that was searched last, and the blobs whose text was searched for it.
        self._found: tuple[str, dict[int, bool]] = ("", {})

    def learn(self, index: int, made: Tile) -> None:
        """Take what a drawn tile tells."""
        self._formats[index] = made.format
        self._heads[index] = (made.name, made.size)

    def missing(self, choice: Choice) -> list[int]:
        """Return the blobs that have to be looked at for a choice."""
        self._search(choice.search)
        return [
            index
            for index in range(len(self._column))
            if (choice.by_head and index not in self._heads)
            or (choice.by_format and index not in self._formats)
            or (choice.search and not self._is_searched(index))
        ]

    def _search(self, search: str) -> None:
        """Search in the texts that are kept."""
        if search and search != self._found[0]:
            sought, kept = search.casefold(), dict(self._texts)  # others may learn meanwhile
            self._found = (search, {index: sought in text for index, text in kept.items()})

    def _is_searched(self, index: int) -> bool:
        return index in self._found[1] or not self._formats[index].encoding

    def look(self, choice: Choice, places: Sequence[int], cancel: CancelToken) -> Iterator[int]:
        """Ask for what a choice has to know of some blobs; iterate over those that are known."""
        with closing(glances(self._column, places, cancel)) as blobs:
            for index, blob in zip(places, blobs, strict=True):
                self._look(index, blob, choice)
                yield index

    def _look(self, index: int, blob: BlobLike | None, choice: Choice) -> None:
        if blob is None:
            self._heads[index], self._formats[index] = (f"blob {index}", None), NULL
            return
        try:
            if choice.by_format:
                self._formats[index], text = glance(blob)
                self._read(index, text.casefold(), choice)
            if index not in self._heads:  # it came with the bytes
                name = " ".join(visible(blob.file_name or "").split())
                self._heads[index] = (name or f"blob {index}", blob.size)
        except (ProtocolError, NotFoundError):
            self._heads.setdefault(index, (f"blob {index}", None))
            self._formats[index] = UNREAD

    def _read(self, index: int, text: str, choice: Choice) -> None:
        if index not in self._texts and text and self._kept + len(text) <= _KEPT:
            self._texts[index] = text
            self._kept += len(text)
        searched, inside = self._found
        if choice.search == searched:  # else another search has begun
            inside[index] = bool(text) and searched.casefold() in text

    def indices(self, choice: Choice) -> list[int]:
        """Return the blobs of a choice, in its order, of those that are known well enough."""
        found = [index for index in range(len(self._column)) if self._fits(index, choice)]
        if choice.order == "row":
            return found[::-1] if choice.descending else found
        known = [index for index in found if index in self._heads]
        if choice.order == "name":
            known.sort(
                key=lambda index: self._heads[index][0].casefold(), reverse=choice.descending
            )
            return known
        sized = [index for index in known if self._heads[index][1] is not None]
        sized.sort(key=lambda index: self._heads[index][1] or 0, reverse=choice.descending)
        return sized + [index for index in known if self._heads[index][1] is None]

    def _fits(self, index: int, choice: Choice) -> bool:
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
        said = f"{name}\n{self._column.caption(index)}".casefold()
        return choice.search.casefold() in said or self._found[1].get(index, False)

    def menu(self) -> list[tuple[str, str]]:
        """Return the kinds to choose from, each with a text; once all are known, with numbers."""
        total = len(self._column)
        if len(self._formats) < total or not total:
            return [(ALL, ALL), *((kind, kind) for kind in sorted(kind.name for kind in kinds()))]
        known = list(self._formats.values())  # others may learn meanwhile
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
