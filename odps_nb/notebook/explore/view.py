"""`RowView`: the pages, conditions and profile behind an explorer, without a widget."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.access.looking.browsing import MAX_SORTED, Order, Rows, check_order, name_in_sql
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Progress
from odps_nb.client.parallel.fan_out import Job, fan_out
from odps_nb.errors import ArgumentError, CancelledError
from odps_nb.notebook.explore.cells import cell_texts, nested_text
from odps_nb.notebook.explore.chart import Chart, chart_of
from odps_nb.notebook.explore.chart_choice import ChartChoice
from odps_nb.notebook.explore.conditions import all_of, bar_condition, null_condition
from odps_nb.notebook.explore.pages import Cell, Mark, Page, RangePager, StreamPager
from odps_nb.notebook.explore.profile import Profiler, TableProfile, sample_label
from odps_nb.notebook.explore.search import KnownRows, TextSearch, first_in_order
from odps_nb.schema import Column, TypeCode

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

_Pagers = RangePager | StreamPager

MAX_COLUMNS = 100
PAGE_ROWS, MAX_PAGE_ROWS = 100, 1000
SAMPLE_RANGES = 64
SAMPLE_BYTES = 16 * 2**20
SAMPLE_SECONDS = 5.0
"""Maximum seconds to search for matching rows to profile."""
SAMPLERS = 8
MAX_CELL = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The rows to show: conditions (combined with AND), a search text and an order.

    The text is searched in what the cells show, ignoring case (`TextSearch`). In the order, a null
    sorts below every value.
    """

    conditions: tuple[str, ...] = ()
    search: str = ""
    order: Order = ()


class RowView:
    """Pages and profiles of remote rows with a changeable filter and order.

    Each call may block on the service; `stop` cancels it from another thread. ``sample`` is the
    number of rows to profile; ``seed`` makes their random choice repeatable.
    """

    all_columns: int
    choice: Choice
    connection: Connection
    page_rows: int
    timezone: str | None
    title: str

    def __init__(
        self,
        rows: Rows,
        *,
        page_rows: int = PAGE_ROWS,
        sample: int = 64_000,
        seed: int | None = None,
    ) -> None:
        if not 1 <= page_rows <= MAX_PAGE_ROWS:
            raise ArgumentError(f"rows is {page_rows}; it must be between 1 and {MAX_PAGE_ROWS}")
        if sample < 0:
            raise ArgumentError(f"sample is {sample}; it must not be negative")
        self.all_columns = len(rows.columns)
        if not self.all_columns:
            raise ArgumentError(f"{rows.title} returned no rows to show")
        wide = self.all_columns > MAX_COLUMNS
        self._rows = rows.narrowed(MAX_COLUMNS) if wide else rows
        self.columns: tuple[Column, ...] = self._rows.columns
        self.page_rows, self._sample, self._seed = page_rows, sample, seed
        self.choice = Choice()
        self.profile: TableProfile | None = None
        self._clicked: dict[str, int] = {}  # column of the clicked bar, by condition
        self._lock = threading.Lock()
        self._read: Rows | None = None  # the rows being read by `describe_all`
        self._sorting: Rows | None = None
        self.tell_searched: Callable[[int, int | None], None] | None = None
        """Called during a search with the number of rows searched, and of all rows if known."""
        self.title, self.connection = self._rows.title, self._rows.connection
        self.timezone = rows.connection.profile.timezone  # of times in cells and conditions
        self._shown: Rows | KnownRows = self._rows
        self._pager = self._pager_of(self._rows, Choice())
        # the previous choice, until a page of the present one is read
        self._before: tuple[_Pagers, Rows | KnownRows, Choice] | None = None

    # -- rows -----------------------------------------------------------------------------------

    @property
    def total(self) -> int | None:
        """Number of selected rows; ``None`` if not yet known."""
        return self._pager.total

    @property
    def all_rows(self) -> int | None:
        """Number of rows without the filter; ``None`` if unknown."""
        return self._rows.row_count

    @property
    def nbytes(self) -> int:
        """Bytes of cached rows; at most 1 MiB."""
        return self._pager.nbytes

    def page(self, start: int, cancel: CancelToken | None = None) -> Page:
        """Return the page that contains row ``start``, or the last page if there is no such row."""
        token = cancel or CancelToken()
        start = max(0, start) // self.page_rows * self.page_rows
        with self._lock:
            token.check()
            if self.total is not None:
                start = min(start, max(0, self.total - 1) // self.page_rows * self.page_rows)
            page = self._pager.page(start, token)
            if not page.count and page.start:  # the rows ended with the previous page
                page = self._pager.page(page.start - self.page_rows, token)
            self._before = None
            return page

    def first_rows(
        self, count: int, *, seconds: float, cancel: CancelToken | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the first rows of the read that arrive within ``seconds``."""
        token, rows = cancel or CancelToken(), self._rows.twin()
        timer = threading.Timer(seconds, rows.stop)  # finding rows may take a long time
        timer.daemon = True
        timer.start()
        try:
            with closing(rows.every()) as batches:
                for batch in batches:
                    token.check()
                    yield batch.slice(0, count)
                    count -= batch.num_rows
                    if count <= 0:
                        return
        except CancelledError:
            token.check()  # raises if the caller cancelled; otherwise the time is up
        finally:
            timer.cancel()

    def cell(self, row: int, column: int, cancel: CancelToken | None = None) -> tuple[str, bool]:
        """Return a cell's text and whether it is truncated. Nested values span several lines."""
        token, of = cancel or CancelToken(), self.columns[column]
        if not isinstance(self._pager, RangePager):
            found = self._on_page(row, column, token)
            cut = isinstance(found, list)
            return str(found[0] if isinstance(found, list) else found), cut
        with self._lock:
            batches = self._pager.row(row, token)
        if not batches:
            raise ArgumentError(f"there is no row {row:,}")
        array = batches[0].column(column)
        if pa.types.is_nested(array.type):
            text = nested_text(array[0].as_py(), of, indent=2)
        else:
            text = str(cell_texts(array, of, MAX_CELL + 1)[0])
        return text[:MAX_CELL], len(text) > MAX_CELL

    def reference(self, row: int, column: int, cancel: CancelToken | None = None) -> str | None:
        """Return the blob reference in a cell of the current page."""
        found = self._on_page(row, column, cancel)
        is_blob = self.columns[column].type.code is TypeCode.BLOB
        return found if is_blob and isinstance(found, str) else None

    def _on_page(self, row: int, column: int, cancel: CancelToken | None) -> Cell:
        page = self.page(row, cancel)
        if not 0 <= row - page.start < page.count:
            raise ArgumentError(f"there is no row {row:,}")
        return page.columns[column][row - page.start]

    # -- the choice -----------------------------------------------------------------------------

    @property
    def where(self) -> str | None:
        """The filter of the shown rows; ``None`` if there is none. A search is not part of it."""
        return all_of(self.choice.conditions)

    @property
    def code(self) -> str:
        """Python code that reads the shown rows; a comment names what it leaves out."""
        if not isinstance(self._shown, KnownRows) and not self.choice.search:
            return self._shown.code(None if self.choice.order else self.where)
        order = " and the order" if self.choice.order else ""
        return f"{self._rows.code(self.where)}  # without the search{order}"

    def choose(self, choice: Choice, cancel: CancelToken | None = None) -> None:
        """Show other rows. Sorting them runs a SQL job, or reads all rows if they are searched."""
        token, where = cancel or CancelToken(), all_of(choice.conditions)
        check_order(self.columns, choice.order)
        if where is not None:
            self._rows.check(where)
        with self._lock:
            token.check()
            shown, pager = self._sorted(choice, token)
            token.check()
            self._pager.close()
            self._before = self._pager, self._shown, self.choice
            self._pager, self._shown, self.choice = pager, shown, choice

    def _sorted(self, choice: Choice, token: CancelToken) -> tuple[Rows | KnownRows, _Pagers]:
        """Return the chosen rows, sorted if they have an order, and their pager."""
        if not choice.order:
            return self._rows, self._pager_of(self._rows, choice)
        self._sorting = rows = self._rows.twin()
        shown: Rows | KnownRows
        try:
            if choice.search:  # which SQL cannot express
                found = self._pager_of(rows, choice)
                assert isinstance(found, StreamPager)  # because of the search
                with closing(found.matches(Mark(), token)) as placed:
                    shown = first_in_order((batch for _, batch in placed), choice.order)
            else:
                shown = rows.ordered(choice.order, all_of(choice.conditions))
        finally:
            self._sorting = None
        return shown, RangePager(shown, self.columns, self.page_rows)

    def undo(self, choice: Choice) -> None:
        """Return to the choice before this one, of which no page could be read."""
        with self._lock:
            if self.choice is choice and self._before is not None:
                self._pager, self._shown, self.choice = self._before
                self._before = None

    def prepare(self) -> None:
        """Load the condition parser in advance, because loading takes most of a second."""
        with suppress(ArgumentError):  # a read with a limit accepts no condition
            self._rows.check(null_condition(self.columns[0]))

    def bar(self, column: int, bar: int) -> Choice:
        """Return the choice with this bar as the column's only condition; -1 selects its nulls."""
        of = self.columns[column]
        if bar < 0:
            text = null_condition(of)
        elif self.profile is None or bar >= len(self.profile.columns[column].bars):
            raise ArgumentError("the profile has changed; click a bar of the new profile")
        else:
            text = bar_condition(of, self.profile.columns[column].bars[bar], self.timezone)
        kept = [one for one in self.choice.conditions if self._clicked.get(one) != column]
        self._clicked[text] = column
        return replace(self.choice, conditions=(*kept, text))

    def _pager_of(self, rows: Rows, choice: Choice) -> _Pagers:
        where = all_of(choice.conditions)
        if where is None and not choice.search and rows.row_count is not None:
            return RangePager(rows, self.columns, self.page_rows)
        search = TextSearch(self.columns, choice.search) if choice.search else None
        return StreamPager(
            rows, where, self.columns, self.page_rows, search=search, tell=self.tell_searched
        )

    @property
    def searched(self) -> int | None:
        """Number of rows that the search has tested; ``None`` without a search."""
        if isinstance(self._pager, StreamPager) and self.choice.search:
            return self._pager.searched
        return None

    @property
    def note(self) -> str:
        """Remarks about the shown rows, or ``""``."""
        notes = []
        job = "" if isinstance(self._shown, KnownRows) else " by a SQL job"
        if self.choice.order and (self.total or 0) >= MAX_SORTED:
            notes.append(f"the first {MAX_SORTED:,} rows in this order, sorted{job}")
        elif self.choice.order:
            notes.append(f"sorted{job}")
        elif self._rows.is_cut:
            notes.append(f"first {self.all_rows:,} rows; the access key has no permission for more")
        if self.all_columns > len(self.columns):
            notes.append(f"first {len(self.columns)} of {self.all_columns:,} columns")
        if self._pager.renewals:
            notes.append("the session expired; these rows are from a newer snapshot")
        return " · ".join(notes)

    # -- profiles -------------------------------------------------------------------------------

    def describe(self, cancel: CancelToken | None = None) -> TableProfile:
        """Profile the columns from a sample of a few thousand random rows."""
        token, rows = cancel or CancelToken(), self._rows.twin()
        total, profiler = self.all_rows, Profiler(self.columns)
        parts, size = [], 0
        for batch in self._sampled(rows, total, token):
            token.check()
            parts.append(batch)
            size += int(batch.nbytes)
            if size > SAMPLE_BYTES:
                break
        if any(not batch.schema.equals(parts[0].schema) for batch in parts):
            return self.describe(token)  # a range needed microseconds: read all ranges in them
        count = sum(batch.num_rows for batch in parts)
        if parts:
            profiler.add(pa.Table.from_batches(parts))
        label = sample_label(count, total, random=total is not None)
        self.profile = TableProfile(columns=profiler.result(), rows=count, total=total, label=label)
        return self.profile

    def _sampled(
        self, rows: Rows, total: int | None, token: CancelToken
    ) -> Iterator[pa.RecordBatch]:
        if total is None:
            return self.first_rows(self._sample, seconds=SAMPLE_SECONDS, cancel=token)
        ranges = sample_ranges(total, self._sample, self._seed)
        jobs: Iterator[Job[pa.RecordBatch]] = (
            partial(rows.page, start, count) for start, count in ranges
        )
        return fan_out(
            jobs,
            size=lambda batch: int(batch.nbytes),
            workers=SAMPLERS,
            max_bytes=SAMPLE_BYTES,
            cancel=token,
        )

    def describe_all(
        self, progress: Progress = None, cancel: CancelToken | None = None
    ) -> TableProfile:
        """Profile the columns from all rows, in bounded memory; `stop_profile` cancels it."""
        token = cancel or CancelToken()
        before = self.profile or self.describe(token)
        profiler, count = Profiler(self.columns, before=before), 0
        self._read = rows = self._rows.twin()
        token.watch(rows)
        try:
            token.check()
            for batch in rows.every(ahead=SAMPLE_BYTES, progress=progress):
                token.check()
                profiler.add(batch)
                count += batch.num_rows
        finally:
            if self._read is rows:  # unless a newer call replaced it
                self._read = None
        label = f"all {count:,} rows"
        self.profile = TableProfile(columns=profiler.result(), rows=count, total=count, label=label)
        return self.profile

    def chart(self, choice: ChartChoice, cancel: CancelToken | None = None) -> Chart:
        """Return a chart of the selected rows, computed by SQL jobs."""
        token, rows = cancel or CancelToken(), self._rows.twin()
        token.watch(rows)
        token.check()
        return chart_of(rows, choice, self.where)

    def chart_bytes(self, choice: ChartChoice) -> int:
        """Return the service's estimate of the bytes that one job of a chart reads."""
        names = [one.name for one in (choice.x, choice.y, choice.color) if one is not None]
        return self._bytes_read(
            f"select {', '.join(map(name_in_sql, names))} {self._rows.relation(self.where)}"
        )

    def sort_bytes(self, choice: Choice) -> int:
        """Return the service's estimate of the bytes that the SQL job of a sort reads."""
        return self._bytes_read(self._rows.sorting(choice.order, all_of(choice.conditions)))

    def _bytes_read(self, text: str) -> int:
        cost = self.connection.sql_cost(text, settings=self._rows.job_settings)
        return cost.input_bytes or 0

    # -- closing --------------------------------------------------------------------------------

    def stop_profile(self) -> None:
        """Cancel `describe_all`; may be called from any thread."""
        if (rows := self._read) is not None:
            rows.stop()

    def stop(self) -> None:
        """Cancel the read of a page or a sort; may be called from any thread."""
        self._pager.stop()
        if (sorting := self._sorting) is not None:
            sorting.stop()

    def close(self) -> None:
        """Cancel everything and clear the page cache. Idempotent."""
        self.stop()
        self.stop_profile()
        with self._lock:
            self._pager.close()


def sample_ranges(total: int, sample: int, seed: int | None) -> list[tuple[int, int]]:
    """Return ``(start, rows)`` of random disjoint ranges, in random order."""
    if total <= sample:
        step = max(1, -(-total // SAMPLE_RANGES))
        return [(start, min(step, total - start)) for start in range(0, total, step)]
    draw = random.Random(seed)
    count = min(SAMPLE_RANGES, max(1, sample // 500))
    bounds = [total * n // count for n in range(count + 1)]
    rows = sample // count
    found = [
        (draw.randrange(low, max(low, high - rows) + 1), rows)
        for low, high in itertools.pairwise(bounds)
    ]
    draw.shuffle(found)
    return found
