"""Pages of rows, encoded as messages to the browser, and a bounded cache of them."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from odps_nb.access.paging.browsing import READ_AHEAD, Rows
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.read.splits import START, Placed, RowPlace
from odps_nb.errors import SessionExpiredError, visible
from odps_nb.notebook.explore.values.cells import Cut, cell_texts
from odps_nb.schema import Column

if TYPE_CHECKING:
    from odps_nb.notebook.explore.choosing.search import KnownRows, TextSearch

CACHE_BYTES = 1024 * 1024
PAGE_BYTES = CACHE_BYTES // 4
"""Maximum bytes of one page; strings are truncated until the page fits."""
LIMITS = (2000, 300, 80, 20, 0)

SEARCH_AHEAD = 8 * 1024 * 1024
"""Bytes that a search buffers, because a search of large batches needs less CPU time per row."""
MOST_MARKS = 512

REPLACED = "\ufffd replaces bytes that are not UTF-8"

_MARKS = "\u061c\u200e\u200f"  # direction marks of right-to-left text
Cell = str | None | list[str] | int

TellTested = Callable[[str, int, int | None], None]
"""Called with ``filtering`` or ``searching``, the rows received so far, and all rows if known."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Rows as JSON: one list of cells for each column.

    A cell is a string, null, a BLOB reference, or a list with one truncated string.
    """

    start: int
    count: int
    data: bytes = field(repr=False)

    @property
    def columns(self) -> list[list[Cell]]:
        """The cells, column by column."""
        cells: list[list[Cell]] = json.loads(self.data)
        return cells

    @property
    def note(self) -> str:
        """A remark that applies to the whole page, or ``""``."""
        return REPLACED if "\ufffd".encode() in self.data else ""


def drawn_page(start: int, batches: Sequence[pa.RecordBatch], columns: Sequence[Column]) -> Page:
    """Return rows as a page of at most `PAGE_BYTES`, not counting BLOB references."""
    count = sum(batch.num_rows for batch in batches)
    data = b""
    for limit in LIMITS:
        cells = [
            [
                _cell(text)
                for batch in batches
                for text in cell_texts(batch.column(n), column, limit)
            ]
            for n, column in enumerate(columns)
        ]
        data = json.dumps(cells, ensure_ascii=False, separators=(",", ":")).encode(
            "utf-8", "replace"
        )
        if len(data) <= PAGE_BYTES:
            break
    return Page(start=start, count=count, data=data)


def _cell(text: str | None) -> Cell:
    if text is None:
        return None
    shown = text if text.isprintable() else visible(text, keep=_MARKS)
    return [shown] if isinstance(text, Cut) else shown


class _Pager(ABC):
    """A reader of row pages that caches the most recently used ones, up to ``kept`` bytes."""

    total: int | None
    """The number of rows; ``None`` if unknown."""

    _rows: Rows | KnownRows

    @property
    def source(self) -> Rows | KnownRows:
        """The rows; replaced by another object when the session is renewed."""
        return self._rows

    def __init__(self, columns: Sequence[Column], size: int, kept: int) -> None:
        self._columns, self._size = tuple(columns), size
        self._pages, self._kept = OrderedDict[int, Page](), kept
        self.renewals: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes in the cache."""
        return sum(len(page.data) for page in self._pages.values())

    def page(self, start: int, cancel: CancelToken) -> Page:
        """Return the page that begins at row ``start``, or the last page if no row is there."""
        if start in self._pages:
            self._pages.move_to_end(start)
            return self._pages[start]
        return self.renewing(lambda: self._found(start, cancel))

    @abstractmethod
    def _found(self, start: int, cancel: CancelToken) -> Page:
        """Read and cache the page that begins at row ``start``, or the last page."""

    def _keep(self, page: Page) -> Page:
        self._pages[page.start] = page
        while sum(len(cached.data) for cached in self._pages.values()) > self._kept:
            self._pages.popitem(last=False)
        return page

    def renewing(self, read: Callable[[], _T]) -> _T:
        """Call ``read``; if the session has expired, call it again with a new session."""
        try:
            return read()
        except SessionExpiredError:
            self.close()
            self._rows = self._rows.renewed()
            self.renewals += 1
            return read()

    def rows(self, start: int, count: int, cancel: CancelToken) -> list[pa.RecordBatch]:
        """Read rows again, with untruncated values."""
        return self.renewing(lambda: self._again(start, count, cancel))

    @abstractmethod
    def _again(self, start: int, count: int, cancel: CancelToken) -> list[pa.RecordBatch]:
        """Read rows again in the current session."""

    def stop(self) -> None:
        """Cancel the current read; may be called from any thread."""
        self._rows.stop()

    def close(self) -> None:
        """Clear the cache."""
        self._pages.clear()


class RangePager(_Pager):
    """A pager that reads pages by row number, in any order, with one request per page."""

    def __init__(self, rows: Rows | KnownRows, columns: Sequence[Column], size: int) -> None:
        super().__init__(columns, size, CACHE_BYTES)
        self._rows = rows

    @property
    def total(self) -> int:  # type: ignore[override]  # may change when the session is renewed
        """The number of rows."""
        return self._rows.row_count or 0

    def _found(self, start: int, cancel: CancelToken) -> Page:
        batches = list(self._rows.page(start, self._size, cancel))
        return self._keep(drawn_page(start, batches, self._columns))

    def _again(self, start: int, count: int, cancel: CancelToken) -> list[pa.RecordBatch]:
        return list(self._rows.page(start, count, cancel))


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Rows not yet on a page, starting ``since`` rows after the stream position ``place``."""

    place: RowPlace
    since: int
    batch: pa.RecordBatch
    searched: int


@dataclass(frozen=True, slots=True)
class _Position:
    """The last stream position, and the numbers of rows found after it and searched before it."""

    place: RowPlace = START
    since: int = 0
    searched: int = 0


@dataclass(frozen=True, slots=True)
class Mark:
    """A stream position from which page ``start`` can be read again by skipping ``skip`` rows.

    ``searched`` is the number of rows before the position that a search has tested.
    """

    start: int = 0
    place: RowPlace = START
    skip: int = 0
    searched: int = 0


class PageMarks:
    """Marks of the pages read. Beyond `MOST_MARKS`, only every 2nd, 4th, … page keeps its mark."""

    def __init__(self, size: int) -> None:
        self._step, self._marks = size, dict[int, Mark]()

    def put(self, mark: Mark) -> None:
        """Store a mark, or do nothing for a page that is skipped to limit the number of marks."""
        if mark.start % self._step:
            return
        self._marks[mark.start] = mark
        if len(self._marks) > MOST_MARKS:
            self._step *= 2
            self._marks = {
                start: stored for start, stored in self._marks.items() if not start % self._step
            }

    def before(self, start: int) -> Mark:
        """Return the last mark at or before a row; if there is none, a mark at the first row."""
        nearest = max((row for row in self._marks if row <= start), default=None)
        return Mark() if nearest is None else self._marks[nearest]

    def clear(self) -> None:
        """Remove all marks, because they are invalid for another snapshot."""
        self._marks.clear()


class StreamPager(_Pager):
    """A pager that reads pages sequentially from a stream, as a filter or a search requires.

    The stream stays open between pages. A page that is no longer cached is read again from its own
    mark or from an earlier one.
    """

    _rows: Rows

    def __init__(
        self,
        rows: Rows,
        where: str | None,
        columns: Sequence[Column],
        size: int,
        *,
        search: TextSearch | None = None,
        tell: TellTested | None = None,
    ) -> None:
        super().__init__(columns, size, CACHE_BYTES // 2)
        self._rows, self._where, self._marks = rows, where, PageMarks(size)
        self._search, self._tell = search, tell
        self._lock, self._tested, self._is_waiting = threading.Lock(), 0, False
        self._all_rows: int | None = None
        self._stream: Generator[Placed, None, None] | None = None
        self._rest: list[_Waiting] = []
        self._position = _Position()
        self._at = 0
        self._is_stopped = False
        self._cancel = CancelToken()
        self.total = None
        self.searched: int = 0
        """Number of rows that the search has tested."""

    def matches(self, begin: Mark, cancel: CancelToken) -> Generator[Placed, None, None]:
        """Iterate over the rows that match the condition and contain the search text."""
        self._cancel, self.searched = cancel, begin.searched
        # With a filter, a mark does not record how many rows were received before it.
        knows_all = self._where is None or begin.place == START
        self._tested = begin.searched if self._where is None else 0
        self._all_rows = self._rows.row_count if knows_all else None
        ahead = READ_AHEAD if self._search is None else SEARCH_AHEAD
        stream = self._rows.found(self._where, begin.place, cancel, self._count_tested, ahead=ahead)
        with closing(stream):
            try:
                self._wait(True)
                for place, batch in stream:
                    if place != self._position.place:
                        self._position = _Position(place, 0, self.searched)
                    self.searched += batch.num_rows
                    self._cancel.check()
                    matched = batch if self._search is None else self._search.apply(batch)
                    if matched.num_rows:
                        self._wait(False)
                        yield place, matched
                        self._wait(True)
            finally:
                self._wait(False)

    def _wait(self, is_waiting: bool) -> None:  # noqa: FBT001
        with self._lock:
            self._is_waiting = is_waiting

    def _count_tested(self, rows: int) -> None:
        with self._lock:  # report no progress for rows that are read in advance
            self._tested += rows
            if self._tell is not None and self._is_waiting:
                what = "filtering" if self._search is None else "searching"
                self._tell(what, self._tested, self._all_rows)

    def _found(self, start: int, cancel: CancelToken) -> Page:
        if self._is_stopped:
            self._is_stopped = False
            self._end()
        self._cancel = cancel
        cancel.watch(self._rows)  # an earlier call with another token may have opened the stream
        try:
            return self._read_to(start, cancel)
        except BaseException:
            self._end()
            raise

    def stop(self) -> None:
        """Cancel the current read; the next one opens a new stream."""
        self._is_stopped = True
        super().stop()

    def _read_to(self, start: int, cancel: CancelToken) -> Page:
        mark = self._marks.before(start)
        if start < self._at or mark.start > self._at:
            self._end()
        if self._stream is None:
            self._stream = self.matches(mark, cancel)
            self._position = _Position(mark.place, 0, mark.searched)
            self._at = mark.start
            self._gather(mark.skip, cancel)
            self._take(mark.skip)
        while True:
            cancel.check()
            page = self._keep(self._next(cancel))
            if page.start >= start or page.count < self._size:
                return page

    def _again(self, start: int, count: int, cancel: CancelToken) -> list[pa.RecordBatch]:
        """Read rows again in a second stream, which starts at the nearest mark."""
        mark = self._marks.before(start)
        skip, parts = mark.skip + start - mark.start, []
        with closing(self._rows.found(self._where, mark.place, cancel)) as stream:
            for _, batch in stream:
                cancel.check()
                matched = batch if self._search is None else self._search.apply(batch)
                part = matched.slice(skip, count)
                skip = max(0, skip - matched.num_rows)
                count -= part.num_rows
                parts.append(part)
                if not count:
                    break
        return parts

    def _next(self, cancel: CancelToken) -> Page:
        self._gather(self._size, cancel)
        if self._rest:
            first = self._rest[0]
            self._marks.put(Mark(self._at, first.place, first.since, first.searched))
        page = drawn_page(self._at, self._take(self._size), self._columns)
        self._at += page.count
        if page.count < self._size:
            self.total = self._at
        return page

    def _gather(self, rows: int, cancel: CancelToken) -> None:
        """Wait until ``rows`` rows are buffered, or until the end of the stream."""
        assert self._stream is not None
        have = sum(waiting.batch.num_rows for waiting in self._rest)
        while have < rows and (placed := next(self._stream, None)) is not None:
            place, batch = placed
            position = self._position
            self._rest.append(_Waiting(place, position.since, batch, position.searched))
            self._position = replace(position, since=position.since + batch.num_rows)
            have += batch.num_rows

    def _take(self, rows: int) -> list[pa.RecordBatch]:
        """Remove and return the first ``rows`` rows that are not yet on a page."""
        parts = []
        while rows and self._rest:
            first = self._rest.pop(0)
            part = first.batch.slice(0, rows)
            parts.append(part)
            rows -= part.num_rows
            if left := first.batch.num_rows - part.num_rows:
                rest = first.batch.slice(part.num_rows, left)
                since = first.since + part.num_rows
                self._rest.insert(0, replace(first, since=since, batch=rest))
        return parts

    def close(self) -> None:
        """Close the stream and clear the cache."""
        super().close()
        self._end()
        self._marks.clear()

    def _end(self) -> None:
        stream, self._stream = self._stream, None
        self._rest, self._at = [], 0
        if stream is not None:
            self._rows.stop()
            stream.close()
