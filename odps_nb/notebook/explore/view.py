"""`RowView`: the pages, conditions and profile behind an explorer, without a widget.

Pages, filters, profiles, charts and exports all depend on what is shown, so they are in one class;
each is computed in another module.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from odps_nb.access.checks import check_count, iterator_of
from odps_nb.access.paging.browsing import Rows
from odps_nb.access.paging.ordering import MAX_SORTED, MORE_SORTED, Order, check_order
from odps_nb.access.paging.selected import SelectedRows
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Progress
from odps_nb.errors import ArgumentError, PositionError, SessionExpiredError, shown, visible
from odps_nb.explained import explained
from odps_nb.notebook.explore.charts.chart import Chart, chart_cost, chart_of
from odps_nb.notebook.explore.charts.choice import ChartChoice
from odps_nb.notebook.explore.choosing.choice import Choice
from odps_nb.notebook.explore.choosing.conditions import (
    bar_condition,
    given_condition,
    make_condition,
    value_condition,
)
from odps_nb.notebook.explore.choosing.search import (
    KnownRows,
    TextSearch,
    all_in_order,
    first_in_order,
)
from odps_nb.notebook.explore.exports import ExportsRows, named, sort_code
from odps_nb.notebook.explore.pages import Cell, Mark, Page, RangePager, StreamPager, TellTested
from odps_nb.notebook.explore.profiles.known import KnownProfiles
from odps_nb.notebook.explore.profiles.profile import TableProfile
from odps_nb.notebook.explore.profiles.sampling import bounded
from odps_nb.notebook.explore.values.cells import cell_texts, nested_text, nested_values
from odps_nb.schema import Column, TypeCode

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection
    from odps_nb.access.row_forms import RowForms

_Pagers = RangePager | StreamPager
_T = TypeVar("_T")

MAX_COLUMNS = 100
PAGE_ROWS, MAX_PAGE_ROWS = 100, 1000
MAX_CELL, MAX_COPY = 100_000, 4_000_000
"""Maximum characters of one displayed or copied cell, and of all cells copied at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """A choice, its rows and pages, and the number of rows seen so far.

    ``most`` is the maximum number of rows that a sort by SQL returned.
    """

    choice: Choice
    rows: Rows | KnownRows
    pager: _Pagers
    most: int = MAX_SORTED
    seen: int = 0


@explained
class RowView(ExportsRows):
    """Pages and profiles of remote rows with a changeable filter and order.

    Each call may block on the service; `stop` cancels it from another thread. ``sample`` is the
    number of rows to profile; ``seed`` makes their random choice repeatable.
    """

    all_columns: int
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
            raise ArgumentError(
                f"rows is {page_rows}; it must be between 1 and {MAX_PAGE_ROWS}",
                hint="pass the rows of one page, e.g. rows=100",
            )
        if sample < 0:
            raise ArgumentError(
                f"sample is {sample}; it must not be negative",
                hint="pass a number of rows, e.g. sample=64_000",
            )
        self.all_columns = len(rows.columns)
        if not self.all_columns:
            raise ArgumentError(f"{rows.title} returned no rows to show")
        wide = self.all_columns > MAX_COLUMNS
        self._rows = rows.narrowed(MAX_COLUMNS) if wide else rows
        self.columns: tuple[Column, ...] = self._rows.columns
        self.page_rows = page_rows
        self._profiles = KnownProfiles(self.columns, sample, seed)
        self._lock = threading.Lock()
        self._describing = CancelToken()  # cancels `describe_all`
        self._sorting: Rows | None = None
        self._exported: Rows | None = None  # the rows that `selected` reads
        self._text = rows.text
        self.tell_tested: TellTested | None = None
        """Called while a filter or a search reads rows; several threads call it."""
        self.title, self.connection = self._rows.title, self._rows.connection
        self.timezone = rows.connection.profile.timezone  # for times in cells and conditions
        # the shown rows and, until a page of a new choice is read, those shown before
        self._shown = self._unsorted(Choice())
        self._before: _Shown | None = None

    def __repr__(self) -> str:
        return f"<RowView of {self.about}>"

    @property
    def about(self) -> str:
        """The title and the filter, at most 280 characters."""
        where = f", where {self.where}" if self.where else ""
        return visible(f"{self.title}{where}")[:280]

    # -- rows -----------------------------------------------------------------------------------

    @property
    def choice(self) -> Choice:
        """The filter, the search text and the order of the displayed rows."""
        return self._shown.choice

    @property
    def total(self) -> int | None:
        """Number of rows to page through; ``None`` if not yet known."""
        shown, counted = self._shown, self._profiles.counted(self.where)
        if self._has_more_sorted:
            return min(self._known or MAX_SORTED, MORE_SORTED)
        total = shown.pager.total
        if total is None and not self.choice.search and (counted or 0) >= shown.seen:
            return counted
        return total

    @property
    def _known(self) -> int | None:
        """Number of rows that match the filter but not necessarily the search."""
        return self.all_rows if self.where is None else self._profiles.counted(self.where)

    @property
    def matching(self) -> int | None:
        """Number of rows that match the filter, even if fewer are shown; ``None`` if unknown."""
        if not self.is_sorted_part and not self.choice.search:
            return self.total
        return self._known

    @property
    def is_sorted_part(self) -> bool:
        """Whether there may be more rows than those that a sort returned."""
        shown = self._shown
        if not shown.choice.order or (shown.pager.total or 0) < MAX_SORTED:
            return False
        return bool(shown.choice.search) or self._known != shown.pager.total

    @property
    def _has_more_sorted(self) -> bool:
        """Whether a second SQL job may sort more rows."""
        shown = self._shown
        is_first = shown.most == MAX_SORTED and not isinstance(shown.rows, KnownRows)
        return is_first and self.is_sorted_part and not shown.rows.is_cut

    def sorts_again(self, start: int) -> bool:
        """Return whether `page` runs another SQL job to sort rows as far as ``start``."""
        return start >= MAX_SORTED and self._has_more_sorted

    @property
    def at_least(self) -> int:
        """Number of matching rows found so far."""
        described = self.profile.rows if self.profile is not None and self.is_profiled else 0
        return max(self._shown.seen, described)

    @property
    def all_rows(self) -> int | None:
        """Number of rows without the filter of this view; ``None`` if not yet known."""
        whole = self._profiles.whole
        if (known := self._rows.row_count) is None and whole is not None:
            return whole.total
        return known

    @property
    def nbytes(self) -> int:
        """Bytes of cached rows; at most 1 MiB."""
        return self._shown.pager.nbytes

    def page(self, start: int, cancel: CancelToken | None = None) -> Page:
        """Return the page that contains row ``start``, or the last page if there is no such row."""
        token = cancel or CancelToken()
        start = max(0, start) // self.page_rows * self.page_rows
        with self._lock:
            token.check()
            if self.total is not None:
                start = min(start, max(0, self.total - 1) // self.page_rows * self.page_rows)
            if self.sorts_again(start):
                self._shown = self._sorted(self.choice, token, MORE_SORTED)
            page = self._shown.pager.page(start, token)
            if not page.count and page.start:  # the rows ended with the previous page
                page = self._shown.pager.page(page.start - self.page_rows, token)
            self._before = None
            seen = max(self._shown.seen, page.start + page.count)
            self._adopt(self._shown.pager.source, seen)
            return page

    def _adopt(self, renewed: Rows | KnownRows, seen: int) -> None:
        """Store the number of rows seen, and the rows of a renewed session."""
        is_unsorted = self._shown.rows is self._rows
        if is_unsorted and not isinstance(renewed, KnownRows):
            self._rows = renewed
        self._shown = replace(self._shown, rows=renewed, seen=seen)

    def _renewing(self, read: Callable[[], _T]) -> _T:
        """Call ``read``; if the session has expired, call it again with a new session."""
        rows = self._rows
        try:
            return read()
        except SessionExpiredError:
            with self._lock:
                if self._rows is rows:
                    self._rows = rows.renewed()
                if self._shown.rows is rows:
                    self._shown = replace(self._shown, rows=self._rows)
            return read()

    def first_rows(
        self, count: int, *, seconds: float, cancel: CancelToken | None = None
    ) -> list[pa.RecordBatch]:
        """Return the first ``count`` rows of the read, or as many as arrive within ``seconds``."""
        token = cancel or CancelToken()
        return self._renewing(lambda: list(self._first_rows(count, seconds, token)))

    def _first_rows(
        self, count: int, seconds: float, token: CancelToken
    ) -> Iterator[pa.RecordBatch]:
        rows = self._rows.copy()
        # finding rows may take a long time
        with bounded(seconds, token) as within, closing(rows.every(None, within)) as batches:
            for batch in batches:
                yield batch.slice(0, count)
                count -= batch.num_rows
                if count <= 0:
                    return

    def cell(self, row: int, column: int, cancel: CancelToken | None = None) -> tuple[str, bool]:
        """Return a cell's text and whether it is truncated. Nested values span several lines."""
        of = self.column_at(column)
        array = self._again(row, 1, cancel)[0].column(column)
        if pa.types.is_nested(array.type):
            text = nested_text(next(nested_values(array)), of, indent=2)
        else:
            text = str(cell_texts(array, of, MAX_CELL + 1)[0])
        return text[:MAX_CELL], len(text) > MAX_CELL

    def texts(
        self, start: int, count: int, columns: Sequence[int], cancel: CancelToken | None = None
    ) -> tuple[list[list[str | None]], int]:
        """Return the cell texts of some columns in consecutive rows, and how many were truncated.

        The result has one list per column. Each text and the total length are limited.
        """
        check_count("count", count)
        of = [self.column_at(n) for n in columns]
        batches = self._again(start, min(count, MAX_PAGE_ROWS), cancel)
        texts: list[list[str | None]] = []
        left, cut = MAX_COPY, 0
        for n, column in zip(columns, of, strict=True):
            texts.append([])
            for batch in batches:
                for text in cell_texts(batch.column(n), column, MAX_CELL + 1):
                    shortened = text if text is None else text[: min(MAX_CELL, left)]
                    left -= len(shortened or "")
                    cut += shortened != text
                    texts[-1].append(shortened)
        return texts, cut

    def column_at(self, position: int) -> Column:
        """Return the column at a position; raise `PositionError` if there is none."""
        if not 0 <= position < len(self.columns):
            raise PositionError(
                f"there is no column {position:,}",
                hint=f"pass a position from 0 to {len(self.columns) - 1}",
            )
        return self.columns[position]

    def _again(self, start: int, count: int, cancel: CancelToken | None) -> list[pa.RecordBatch]:
        if start < 0:
            raise PositionError(f"there is no row {start:,}")
        with self._lock:
            batches = self._shown.pager.rows(start, count, cancel or CancelToken())
            self._adopt(self._shown.pager.source, self._shown.seen)
        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            raise PositionError(f"there is no row {start:,}")
        return filled

    def reference(self, row: int, column: int, cancel: CancelToken | None = None) -> str | None:
        """Return the blob reference in a cell of the current page."""
        is_blob = self.column_at(column).type.code is TypeCode.BLOB
        cell = self._on_page(row, column, cancel)
        return cell if is_blob and isinstance(cell, str) else None

    def _on_page(self, row: int, column: int, cancel: CancelToken | None) -> Cell:
        page = self.page(row, cancel)
        if not 0 <= row - page.start < page.count:
            raise PositionError(f"there is no row {row:,}")
        return page.columns[column][row - page.start]

    # -- the choice -----------------------------------------------------------------------------

    @property
    def where(self) -> str | None:
        """The filter of the displayed rows, without the search text; ``None`` if there is none."""
        return self.choice.where

    @property
    def code(self) -> str:
        """Python code that reads all selected rows; a comment names an omitted search or order."""
        return "  # ".join(filter(None, self.code_parts))

    @property
    def code_parts(self) -> tuple[str, str]:
        """Python code that reads all selected rows, and a note of what it omits (or ``""``)."""
        search, order = self.choice.search, self.choice.order
        if order and not search and not self.is_sorted_part:
            code = self._shown.rows.code(None)  # type: ignore[union-attr]  # no search
            return named(code, self.connection), ""
        omitted = [
            f"the {setting}" for setting, is_set in (("search", search), ("order", order)) if is_set
        ]
        note = f"without {' and '.join(omitted)}" if omitted else ""
        return named(self._rows.code(self.where), self.connection), note

    @property
    def frame_code(self) -> str:
        """Python code for a sorted data frame of all selected rows.

        If a search text is set, the code omits it, and a comment states this.
        """
        rows = named(self._rows.code(self.where), self.connection)
        read = f"{rows}.to_pandas(){sort_code(self.choice.order)}"
        return f"{read}  # without the search" if self.choice.search else read

    def choose(self, choice: Choice, cancel: CancelToken | None = None) -> None:
        """Show the rows that a choice selects, starting with the first page.

        Sorting runs a SQL job or, with a search text, reads all rows that match the conditions.
        """
        where, token = choice.where, cancel or CancelToken()
        check_order(self.columns, choice.order)
        if where is not None:
            self._rows.check(where)
        with self._lock:
            token.check()
            shown = self._sorted(choice, token) if choice.order else self._unsorted(choice)
            token.check()
            self._shown.pager.close()
            self._shown, self._before = shown, self._shown

    def _unsorted(self, choice: Choice) -> _Shown:
        return _Shown(choice=choice, rows=self._rows, pager=self._pager_of(self._rows, choice))

    def _sorted(self, choice: Choice, token: CancelToken, most: int = MAX_SORTED) -> _Shown:
        self._sorting = rows = self._rows.copy()
        shown: Rows | KnownRows
        try:
            if choice.search:  # SQL cannot express the search
                pager = self._pager_of(rows, choice)
                assert isinstance(pager, StreamPager)  # a search always uses this pager
                shown = pager.renewing(lambda: _first_matches(pager, choice.order, token))
                if pager.renewals:
                    self._rows = self._rows.renewed()
            else:
                shown = rows.ordered(choice.order, choice.where, most)
        finally:
            self._sorting = None
        pages = RangePager(shown, self.columns, self.page_rows)
        return _Shown(choice=choice, rows=shown, pager=pages, most=most)

    def undo(self, choice: Choice) -> None:
        """Return to the previous choice, because no page of the new one could be read."""
        with self._lock:
            if self.choice is choice and self._before is not None:
                self._shown, self._before = self._before, None

    def filter(
        self,
        column: str,
        *,
        low: object = None,
        high: object = None,
        values: Iterable[object] = (),
        contains: str | None = None,
        starts: str | None = None,
        null: bool = False,
        exclude: bool = False,
        ignore_case: bool = False,
        cancel: CancelToken | None = None,
    ) -> None:
        """Show only the rows that also match a condition on one column.

        Pass a range (``low`` and ``high`` are included), ``values``, text to find, or ``null``.
        ``ignore_case`` ignores the case of the letters A to Z in the text.
        ``exclude`` shows the rows that do not match, including those with a null. For any other
        condition, call ``choose(Choice(conditions=("quantity > 9 or gift",)))``. To show all rows
        again, call ``choose(Choice())``.

        Examples
        --------
        >>> view = odps.table("orders").read(partitions="ds=2024-01-01").explore().view
        >>> view.filter("quantity", low=9)
        >>> view.filter("status", values=["new", "paid"], exclude=True)
        >>> view.where
        "quantity >= 9 and (status not in ('new', 'paid') or status is null)"
        """
        target = next((candidate for candidate in self.columns if candidate.name == column), None)
        if target is None:
            raise ArgumentError(f"there is no column {column!r} to filter by")
        items = None if isinstance(values, (str, bytes)) else iterator_of(values)
        if items is None:
            raise ArgumentError("values is not a list", hint=f"pass values=[{shown(values)}]")
        condition = given_condition(
            target,
            {
                "range": (low, high),
                "values": [*items],
                f"{'i' * ignore_case}contains": contains,
                f"{'i' * ignore_case}starts": starts,
            },
            null=null,
            exclude=exclude,
            timezone=self.timezone,
        )
        self.choose(replace(self.choice, conditions=(*self.choice.conditions, condition)), cancel)

    def prepare(self) -> None:
        """Load the condition parser in advance, because loading takes most of a second."""
        with suppress(ArgumentError):  # raised for a read with a limit, which allows no conditions
            self._rows.check(make_condition(self.columns[0], "null").where)

    def bar(
        self, column: int, bar: int, *, label: str | None = None, exclude: bool = False
    ) -> Choice:
        """Return the choice with this bar as the column's only condition; bar -1 selects nulls.

        ``exclude`` selects the other rows instead; values that were already excluded stay excluded.
        ``label`` is the bar's label in the caller's profile, which may be out of date.
        """
        of = self.column_at(column)
        if bar < 0:
            condition = make_condition(of, "null", exclude=exclude)
        else:
            bars = () if self.profile is None else self.profile.columns[column].bars
            if bar >= len(bars) or (label is not None and label != visible(bars[bar].label)):
                raise ArgumentError("the profile has changed; click a bar of the new profile")
            condition = bar_condition(of, bars[bar], self.timezone, exclude=exclude)
        return self.choice.with_only(of, condition, self.timezone)

    def value(
        self, row: int, column: int, cancel: CancelToken | None = None, *, exclude: bool
    ) -> Choice:
        """Return the choice with a cell's value as the column's only condition, like `bar`."""
        of = self.column_at(column)
        value = self._again(row, 1, cancel)[0].column(column)[0]
        condition = value_condition(of, value, self.timezone, exclude=exclude)
        return self.choice.with_only(of, condition, self.timezone)

    def _pager_of(self, rows: Rows, choice: Choice) -> _Pagers:
        where = choice.where
        if where is None and not choice.search and rows.row_count is not None:
            return RangePager(rows, self.columns, self.page_rows)
        search = TextSearch(self.columns, choice.search) if choice.search else None
        return StreamPager(
            rows, where, self.columns, self.page_rows, search=search, tell=self.tell_tested
        )

    @property
    def searched(self) -> int | None:
        """Number of rows that the search has tested; ``None`` without a search."""
        shown = self._shown
        if isinstance(shown.rows, KnownRows):
            return shown.rows.searched
        if isinstance(shown.pager, StreamPager) and shown.choice.search:
            return shown.pager.searched
        return None

    @property
    def note(self) -> str:
        """Notes about the displayed rows, or ``""``."""
        notes, shown = [], self._shown
        job = "" if isinstance(shown.rows, KnownRows) else " by a SQL job"
        if shown.most > MAX_SORTED:
            job = " by a second SQL job, in which rows with equal keys may be in another order"
        if self.is_sorted_part and self.total != self.matching:
            notes.append(f"the first {self.total:,} rows in this order, sorted{job}")
        elif self.choice.order:
            notes.append(f"sorted{job}")
        elif self._rows.is_cut:
            notes.append(f"first {self.all_rows:,} rows; the access key has no permission for more")
        if self.all_columns > len(self.columns):
            notes.append(f"first {len(self.columns)} of {self.all_columns:,} columns")
        if shown.pager.renewals:
            notes.append("the session expired; these rows are from a newer snapshot")
        return " · ".join(notes)

    # -- profiles -------------------------------------------------------------------------------

    @property
    def profile(self) -> TableProfile | None:
        """The profile of the rows that match the filter; until it is ready, the previous one."""
        return self._profiles.profile(self.where)

    @property
    def is_profiled(self) -> bool:
        """Whether ``profile`` covers the rows that match the current filter."""
        return self._profiles.has(self.where)

    @property
    def unprofiled(self) -> str:
        """Text to append to profile labels: ``""``, or a remark that the search is ignored."""
        return ", without the search" if self.choice.search else ""

    def describe(self, cancel: CancelToken | None = None) -> TableProfile:
        """Profile the columns from a random sample of all rows that match the filter."""
        token, where = cancel or CancelToken(), self.where

        def describe() -> TableProfile:
            rows, every = self._rows.copy(), self.all_rows
            return self._profiles.by_sample(
                rows, where, token, total=every, matching=lambda: self.matching
            )

        return self._renewing(describe)

    def describe_all(
        self, progress: Progress = None, cancel: CancelToken | None = None
    ) -> TableProfile:
        """Profile the columns from all rows that match the filter, in bounded memory.

        `stop_profile` cancels it.
        """
        token, where = cancel or CancelToken(), self.where
        if not self.is_profiled:
            self.describe(token)
        self._describing = token = CancelToken(token)
        return self._renewing(
            lambda: self._profiles.by_all(self._rows.copy(), where, progress, token)
        )

    def count(self, most_bytes: int, cancel: CancelToken | None = None) -> int | None:
        """Count the matching rows with a SQL job, unless the count is already known.

        Returns ``None`` if the service estimates that the job would read more than ``most_bytes``,
        or if SQL cannot select the rows (a read with ``limit`` or ``since``).
        """
        if self.matching is not None or self._rows.is_cut:
            return self.matching
        token, where = cancel or CancelToken(), self.where
        self._profiles.count(self._rows.copy(), where, most_bytes, token)
        return self.matching

    def chart(
        self, choice: ChartChoice, cancel: CancelToken | None = None, *, by_query: bool = True
    ) -> Chart:
        """Return a chart of the selected rows, computed by SQL jobs.

        If ``by_query`` is false, the chart is computed from the stored rows of a result instead.
        """
        token, rows = cancel or CancelToken(), self._rows.copy()
        return chart_of(rows, choice, self.where, token, by_query=by_query)

    def chart_cost(
        self, choice: ChartChoice, cancel: CancelToken | None = None
    ) -> tuple[int | None, str]:
        """Return a chart's estimated input bytes per SQL job, and why it must run a query again.

        The byte count is ``None`` if a chart can be computed from the stored rows of a result.
        """
        return chart_cost(self._rows, choice, self.where, cancel or CancelToken())

    def sort_bytes(self, choice: Choice) -> int:
        """Return the service's estimate of the bytes that the SQL job of a sort reads."""
        text = self._rows.sorting(choice.order, choice.where)
        return self.connection.sql_cost(text, settings=self._rows.job_settings).input_bytes or 0

    # -- all rows -------------------------------------------------------------------------------

    def selected(self) -> RowForms:
        """Return a new read of all selected rows, in order; `stop_export` cancels it.

        If there are more rows than the SQL job of a sort returned, the read sorts them in memory.
        """
        choice = self.choice
        if not choice.search and not self.is_sorted_part:
            assert not isinstance(self._shown.rows, KnownRows)  # only a search creates `KnownRows`
            self._exported = read = self._shown.rows.copy()
            return read.selected(None if choice.order else self.where, self._text)
        if self._rows.is_cut and choice.order:
            raise ArgumentError(
                "not all rows can be exported in this order: the access key may read only the "
                "first rows of a result",
                hint="remove the order, or add ORDER BY and LIMIT to the query",
            )
        self._exported = read = self._rows.copy()
        search = TextSearch(self.columns, choice.search) if choice.search else None

        def matching(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            matched = batches if search is None else map(search.apply, batches)
            return all_in_order(matched, choice.order) if choice.order else matched

        return SelectedRows(read.selected(self.where, self._text), matching, CancelToken())

    def stop_export(self) -> None:
        """Cancel the last `selected` read; may be called from any thread."""
        if (read := self._exported) is not None:
            read.stop()

    # -- closing --------------------------------------------------------------------------------

    def stop_profile(self) -> None:
        """Cancel `describe_all`; may be called from any thread."""
        self._describing.cancel()

    def stop(self) -> None:
        """Cancel the read of a page or a sort; may be called from any thread."""
        self._shown.pager.stop()
        if (sorting := self._sorting) is not None:
            sorting.stop()

    def close(self) -> None:
        """Cancel everything and clear the page cache. Idempotent."""
        self.stop()
        self.stop_profile()
        self.stop_export()
        with self._lock:
            self._shown.pager.close()


def _first_matches(pager: StreamPager, order: Order, token: CancelToken) -> KnownRows:
    with closing(pager.matches(Mark(), token)) as placed:
        rows = first_in_order((batch for _, batch in placed), order)
    rows.searched = pager.searched
    return rows
