"""Row sources for the explorer: pages by row number, filtered rows, and rows sorted by SQL.

The classes for scans and results share this module because they have the same methods, which are
documented only once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.access.binding.literals import literal
from odps_nb.access.paging.ordering import MAX_SORTED, Order, name_in_sql, order_by
from odps_nb.access.paging.selected import SelectedRows
from odps_nb.access.paging.sql_job import JOB_SETTINGS, SqlJob
from odps_nb.access.paging.zones import converted
from odps_nb.access.row_forms import RowForms
from odps_nb.access.scan import Scan
from odps_nb.access.sql import Result
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Progress
from odps_nb.client.read.increments import CHANGE
from odps_nb.client.read.plan import ReadPlan
from odps_nb.client.read.splits import START, Placed, RowPlace, iter_placed, iter_split
from odps_nb.client.sql.definitions import quoted
from odps_nb.client.sql.result import iter_result_rows
from odps_nb.client.sql.settings import schema_settings, without_end
from odps_nb.convert.references import present_batch
from odps_nb.errors import ArgumentError
from odps_nb.filters.parse import parse_condition
from odps_nb.filters.row_filter import RowFilter
from odps_nb.filters.tree import ValueKind, nodes_of
from odps_nb.schema import Column, TableSchema
from odps_nb.terms import PartitionSpec, RowRangeSplit, TextMode, TextOptions, TimeUnit
from odps_nb.wire.calls import MIN_BATCH_BYTES
from odps_nb.wire.control import SQL_ZONE

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

    Batches = Generator[pa.RecordBatch, None, None]

ReadRange = Callable[[int, int, CancelToken], Iterator[pa.RecordBatch]]
"""Reads a range of rows: its start row and row count, both counted before filtering."""

READ_AHEAD = 512 * 1024
"""Maximum bytes to buffer ahead of the visible page."""
READERS = 4
STEP_ROWS = 4_000
"""Number of result rows to read per request when filtering."""


def rows_of(source: RowForms, *, opens: bool = True) -> Rows:
    """Return the row source of a scan or result; invalid UTF-8 is replaced.

    Unless ``opens``, no read session is opened, because only SQL jobs will read the rows.
    """
    shown = source._replacing(opens=opens) if isinstance(source, Scan) else source._replacing()
    if isinstance(source, Scan) and isinstance(shown, Scan):
        return _ScanRows(shown, text=source._plan.text)
    if not (isinstance(source, Result) and isinstance(shown, Result)):
        raise ArgumentError(
            "rows selected in one explorer cannot be shown in another explorer or chart",
            hint="use the same explorer, or export the rows as code",
        )
    return _ResultRows(shown, text=source._text)


class _ScanRows:
    """The rows of a `Scan`; `_ResultRows` has the same methods."""

    def __init__(
        self,
        scan: Scan,
        columns: tuple[Column, ...] | None = None,
        *,
        text: TextOptions | None = None,
        whole: ReadPlan | None = None,
    ) -> None:
        self._scan, self._columns = scan, columns
        # for exports, which contain all columns, and where invalid UTF-8 is never replaced
        self.text: TextOptions = text or scan._plan.text
        self._whole = whole
        self._chosen: tuple[str | None, Scan] | None = None
        self._token, self._job = CancelToken(), SqlJob()

    @property
    def title(self) -> str:
        """The title shown above the grid."""
        return str(self._scan._plan.table)

    @property
    def connection(self) -> Connection:
        return self._scan.connection

    @property
    def columns(self) -> tuple[Column, ...]:
        if self._columns is None:
            scan, known = self._scan, self._scan._all_columns()  # sessions have no comments
            plan = scan._plan
            named = list(map(known.find, plan.columns or known.names))
            as_they_are = plan.text.mode is not TextMode.BINARY and plan.increment is None
            # Without a session, the names of partitions and columns would not be checked.
            if scan._session is None and as_they_are and not plan.partitions and None not in named:
                self._columns = tuple(column for column in named if column is not None)
                return self._columns
            originals = [known.find(column.name) for column in scan._shown_columns()]
            self._columns = tuple(
                column if original is None else replace(column, comment=original.comment)
                for column, original in zip(scan._shown_columns(), originals, strict=True)
            )
        return self._columns

    @property
    def row_count(self) -> int | None:
        """Number of rows; ``None`` if rows have no numbers, so that only `found` can read them."""
        return self._scan.row_count

    @property
    def is_result(self) -> bool:
        """Whether the rows are a query result. If so, a SQL job over them runs the query again."""
        return False

    @property
    def is_cut(self) -> bool:
        """Whether there may be more rows that the access key has no permission to read."""
        return False

    def page(self, start: int, rows: int, cancel: CancelToken) -> Batches:
        """Fetch rows by number in one request; return no rows beyond the end."""
        token = self.connection._storage.operation(cancel)
        return self._scan._in_reach(lambda: self._numbered(start, rows, token), None, token)

    def _numbered(self, start: int, rows: int, token: CancelToken) -> Batches:
        scan, session = self._scan, self._scan._opened()
        total = scan.row_count if scan.row_count is not None else session.stored_rows or 0
        part = RowRangeSplit(start, max(0, min(rows, total - start)))
        if not part.count:
            return
        storage = self.connection._storage
        batches = iter_split(storage, session, part, max_batch_bytes=MIN_BATCH_BYTES, cancel=token)
        with closing(batches):
            for batch in batches:
                yield scan._shown(batch, session)

    def ranges(self, where: str | None) -> tuple[int, ReadRange] | None:
        """Return the number of stored rows, and a function that reads the matching rows in a range.

        Return ``None`` if rows cannot be read by number: if there is both a filter and a limit, or
        if the table has no row numbers.
        """
        if where is None and (count := self.row_count) is not None:
            return count, self.page
        plan = self._scan._plan if where is None else self._filtered(where)
        if plan.limit is not None:
            return None
        scan = Scan(self.connection, replace(plan, row_ranges=True))
        stored = scan._opened().stored_rows
        return None if stored is None else (stored, _ScanRows(scan, self._columns).page)

    def every(
        self,
        where: str | None = None,
        cancel: CancelToken | None = None,
        *,
        ahead: int = READ_AHEAD,
        progress: Progress = False,
    ) -> Batches:
        """Read all matching rows, buffering at most ``ahead`` bytes; `stop` does not cancel it."""
        rows = SelectedRows(self._matching(where), None, cancel or CancelToken())
        return rows.batches(workers=READERS, read_ahead=ahead, progress=progress)

    def _matching(self, where: str | None) -> Scan:
        """Return a scan of the rows that match a condition, which can be cancelled separately."""
        if where is None:
            return self._scan._copy(self._scan._plan, self._scan._session)
        return Scan(self.connection, self._filtered(where))

    def found(
        self,
        where: str | None,
        begin: RowPlace = START,
        cancel: CancelToken | None = None,
        tested: Callable[[int], None] | None = None,
        *,
        ahead: int = READ_AHEAD,
    ) -> Generator[Placed, None, None]:
        """Read the rows that match a condition, filtering on the client; `stop` cancels the read.

        At most ``ahead`` bytes are buffered; with a larger ``ahead``, batches are larger.

        Each batch is yielded with its position, which a later call on this source may pass as
        ``begin``. Consecutive batches may share one position, which is that of the first of these
        batches. With a limit, each batch has the position of the first row. ``tested`` is called
        with the numbers of rows received, before they are filtered; several threads call it.
        """
        if self._chosen is None or self._chosen[0] != where:
            self._chosen = where, self._matching(where or None)
        self._token = CancelToken(cancel)
        return self._placed(self._chosen[1], begin, self._token, tested, ahead)

    def _placed(
        self,
        scan: Scan,
        begin: RowPlace,
        cancel: CancelToken,
        tested: Callable[[int], None] | None,
        ahead: int,
    ) -> Generator[Placed, None, None]:
        if scan._plan.limit is not None:
            rows = SelectedRows(scan, None, cancel)
            batches = rows.batches(workers=READERS, read_ahead=ahead, progress=False)
            with closing(batches):
                for batch in batches:
                    if tested is not None:
                        tested(batch.num_rows)
                    yield START, batch
            return
        storage = self.connection._storage
        token = storage.operation(cancel)

        def placed() -> Generator[Placed, None, None]:
            session = scan._opened(token=token)
            batches = iter_placed(
                storage,
                session,
                begin,
                workers=READERS,
                read_ahead=ahead,
                cancel=token,
                tested=tested,
            )
            with closing(batches):
                for place, batch in batches:
                    yield place, scan._shown(batch, session)

        yield from scan._in_reach(placed, None, token)

    def selected(self, where: str | None, text: TextOptions) -> RowForms:
        """Return a new read of the rows that match a condition; `stop` cancels the read."""
        scan = self._scan
        if where is None:
            selection = scan._copy(self._exported(scan._plan, text), None)
        else:
            plan = self._exported(self._filtered(where), text)
            selection = self._again(plan)
        self._token = CancelToken()
        return SelectedRows(selection, None, self._token)

    def _exported(self, plan: ReadPlan, text: TextOptions) -> ReadPlan:
        of = self._whole or plan
        names = of.partition_columns
        return replace(plan, text=text, columns=of.columns, partition_columns=names)

    def check(self, where: str) -> None:
        """Raise `ArgumentError` for a condition that `found` would reject."""
        self._filtered(where)

    def _filtered(self, where: str) -> ReadPlan:
        plan = self._scan._plan
        if plan.limit is not None:
            raise ArgumentError(
                "the rows of a read with limit= cannot be filtered",
                hint="explore the table, or a read without limit=",
            )
        both = f"({plan.where}) and ({where})" if plan.where else where
        schema = self._scan._all_columns()
        RowFilter.parse(both, schema, timezone=plan.timezone)  # raises if the condition is invalid
        return replace(plan, where=both, schema=schema)

    def ordered(self, order: Order, where: str | None, most: int = MAX_SORTED) -> Rows:
        """Run the query that `sorting` returns as a SQL job; return at most ``most`` rows.

        As in SQL, a null sorts below every value: first if ascending, last if descending.
        """
        text = self.sorting(order, where, most)
        result = self._run(text)
        return _ResultRows(
            result,
            title=self.title,
            like=self.columns,
            first_columns=len(self.columns),
            text=self.text,
        )

    def sorting(self, order: Order, where: str | None, most: int = MAX_SORTED) -> str:
        """Return the query that `ordered` runs."""
        named = map(name_in_sql, (self._whole or self._scan._plan).columns)
        text = f"select {', '.join(named) or '*'} "
        return text + self.relation(where) + order_by(self.columns, order, most)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The names of the partition columns, whose values charts show in their natural order."""
        return tuple(column.name for column in self._scan._all_columns().partition_columns)

    def relation(self, where: str | None) -> str:
        """Return the FROM and WHERE clauses that select these rows in SQL."""
        plan = self._scan._plan
        if plan.limit is not None or plan.increment is not None:
            raise ArgumentError(
                "only whole tables and partitions can be sorted or drawn as a chart",
                hint="explore a read without limit=, since= and changes=",
            )
        conditions = [
            f"({condition})"
            for condition in (plan.where, where, _inside(plan.partitions))
            if condition
        ]
        text = f"from {quoted(plan.table)}"
        return text + (f" where {' and '.join(conditions)}" if conditions else "")

    @property
    def job_settings(self) -> dict[str, str]:
        """The settings for SQL jobs over a `relation`."""
        plan = self._scan._plan
        # the time zone of the conditions; that of the project may be another one
        return JOB_SETTINGS | schema_settings(plan.table.schema) | {SQL_ZONE: plan.timezone}

    @property
    def required_settings(self) -> dict[str, str]:
        """The settings without which SQL over a `relation` fails or returns other rows."""
        plan, profile = self._scan._plan, self.connection.profile
        schema, is_own = plan.table.schema, plan.table.schema == profile.schema
        zone = {} if profile.timezone else {SQL_ZONE: plan.timezone}
        return ({} if is_own else schema_settings(schema)) | zone

    def check_zone(self) -> None:
        """Raise if SQL jobs run in another time zone than that of the displayed times."""

    def query(self, text: str) -> pa.Table:
        """Run a SQL job that selects few rows from a `relation`; `stop` cancels the job."""
        return self._run(text).to_arrow(progress=False)

    def _run(self, text: str) -> Result:
        return self._job.run(
            self.connection, text, shown=self._scan._plan.text, settings=self.job_settings
        )

    def code(self, where: str | None) -> str:
        """Return Python code that reads the same rows."""
        plan = self._scan._plan
        both = [part for part in (plan.where, where) if part]
        condition = " and ".join(f"({part})" for part in both) if len(both) > 1 else "".join(both)
        columns = list((self._whole or plan).columns)
        since, unit = plan.increment, plan.timestamp_unit
        if since is not None:
            columns = [name for name in columns if name != CHANGE.name]
        arguments = [
            ("columns", columns or None),
            ("where", condition or None),
            ("partitions", [str(spec) for spec in plan.partitions] or None),
            ("limit", plan.limit),
            ("timestamp_unit", unit and {TimeUnit.MICRO: "us", TimeUnit.NANO: "ns"}[unit]),
            ("text", None if self.text.mode is TextMode.STRICT else self.text.mode.value),
            ("char_padding", plan.text.char_padding or None),
            ("max_bytes", self._scan._max_bytes),
            ("since", since and since.start),
            ("until", since and since.end),
            ("changes", (since and since.changes) or None),
        ]
        options = ", ".join(f"{key}={value!r}" for key, value in arguments if value is not None)
        name = self.connection.profile._short_name(plan.table)
        return f"odps.table({name!r}).read({options})"

    def narrowed(self, columns: int) -> Rows:
        """Return a row source with only the first ``columns`` columns."""
        plan, first_columns = self._scan._plan, self.columns[:columns]
        schema = self._scan._all_columns()
        narrow_plan = replace(
            plan,
            columns=tuple(column.name for column in first_columns),
            partition_columns=tuple(column.name for column in schema.partition_columns),
            schema=schema,
        )
        return self._with(self._again(narrow_plan), first_columns, self._whole or plan)

    def copy(self) -> Rows:
        """Return a row source of the same rows that is read and stopped independently."""
        return self._with(self._scan, self._columns, self._whole)

    def renewed(self) -> Rows:
        """Return a source of the current rows, for use after the session has expired."""
        return self._with(self._again(self._scan._plan), self._columns, self._whole)

    def _again(self, plan: ReadPlan) -> Scan:
        scan = self._scan
        return Scan(self.connection, plan, max_bytes=scan._max_bytes, progress=scan._progress)

    def _with(self, scan: Scan, columns: tuple[Column, ...] | None, whole: ReadPlan | None) -> Rows:
        return _ScanRows(scan, columns, text=self.text, whole=whole)

    def stop(self) -> None:
        """Cancel a SQL job, and the last read by `found` or `selected`. Any thread may call it."""
        self._job.stop()
        self._token.cancel()


class _ResultRows:
    """The rows of a `Result`; every row has a number."""

    def __init__(
        self,
        result: Result,
        *,
        title: str = "",
        like: Sequence[Column] = (),
        first_columns: int | None = None,
        text: TextOptions | None = None,
    ) -> None:
        self._result, self._title, self._like = result, title, like
        self._first_columns = first_columns
        self.text: TextOptions = text or result._text
        self._token, self._job = CancelToken(), SqlJob()

    @property
    def title(self) -> str:
        return self._title or self._result._instance.title

    @property
    def connection(self) -> Connection:
        return self._result.connection

    @property
    def columns(self) -> tuple[Column, ...]:
        known = TableSchema(columns=tuple(self._like))
        columns = tuple(known.find(column.name) or column for column in self._result.schema)
        return columns[: self._first_columns]

    @property
    def row_count(self) -> int:
        return self._readable.row_count

    @property
    def is_result(self) -> bool:
        return True

    @property
    def is_cut(self) -> bool:
        return self._result.is_cut

    @property
    def _readable(self) -> Result:
        limit = self._result._opened(None).row_limit
        return self._result.first(limit) if limit is not None and self.is_cut else self._result

    def page(self, start: int, rows: int, cancel: CancelToken) -> Iterator[pa.RecordBatch]:
        for batch in self._numbered(start, rows, cancel):
            yield self._shown(batch)

    def _numbered(self, start: int, rows: int, cancel: CancelToken) -> Batches:
        result, connection = self._readable, self.connection
        schema = result._open(None).schema
        part = RowRangeSplit(start, max(0, min(rows, result.row_count - start)))
        if not part.count:
            return

        def begin() -> Batches:
            text, unit = result._text, result._time_unit
            return result._in_session(
                lambda session: iter_result_rows(
                    connection._storage, session, part, text=text, unit=unit, cancel=cancel
                )
            )

        with closing(result._in_reach(begin, None, None)) as batches:
            for batch in batches:
                yield present_batch(batch, schema, timezone=connection.profile.timezone)

    def ranges(self, where: str | None) -> tuple[int, ReadRange] | None:
        row_filter = None if where is None else self._filter(where)

        def read(start: int, rows: int, cancel: CancelToken) -> Iterator[pa.RecordBatch]:
            for batch in self._numbered(start, rows, cancel):
                yield self._shown(batch if row_filter is None else row_filter.apply(batch))

        return self.row_count, read

    def every(
        self,
        where: str | None = None,
        cancel: CancelToken | None = None,
        *,
        ahead: int = READ_AHEAD,
        progress: Progress = False,
    ) -> Batches:
        rows = self._matching(self._readable, where, cancel or CancelToken())
        with closing(rows.batches(read_ahead=ahead, progress=progress)) as batches:
            for batch in batches:
                yield self._shown(batch)

    def _matching(self, result: Result, where: str | None, cancel: CancelToken) -> SelectedRows:
        change = None if where is None else partial(map, self._filter(where).apply)
        return SelectedRows(result, change, cancel)

    def found(
        self,
        where: str | None,
        begin: RowPlace = START,
        cancel: CancelToken | None = None,
        tested: Callable[[int], None] | None = None,
        *,
        ahead: int = READ_AHEAD,
    ) -> Generator[Placed, None, None]:
        del ahead  # pages of a result are read one by one
        self._token = token = CancelToken(cancel)
        row_filter = None if where is None else self._filter(where)
        for start in range(begin.row, self._readable.row_count, STEP_ROWS):
            row = start
            for batch in self._numbered(start, STEP_ROWS, token):
                if tested is not None:
                    tested(batch.num_rows)
                matches = batch if row_filter is None else row_filter.apply(batch)
                if matches.num_rows:
                    yield RowPlace(0, row), self._shown(matches)
                row += batch.num_rows

    def selected(self, where: str | None, text: TextOptions) -> RowForms:
        self._token = CancelToken()
        return self._matching(self._readable._derived(text), where, self._token)

    def check(self, where: str) -> None:
        self._filter(where)

    def _filter(self, where: str) -> RowFilter:
        self._require_all_rows()
        zone = self.connection.profile.timezone or "UTC"
        return RowFilter.parse(where, self._result.schema, timezone=zone)

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._first_columns is None or self._first_columns >= batch.num_columns:
            return batch
        return batch.select(range(self._first_columns))

    def ordered(self, order: Order, where: str | None, most: int = MAX_SORTED) -> Rows:
        text, result = self.sorting(order, where, most), self._result
        sorted_result = self._job.run(
            self.connection, text, shown=result._text, settings=result.settings
        )
        return _ResultRows(sorted_result, title=self.title, like=self.columns, text=self.text)

    def sorting(self, order: Order, where: str | None, most: int = MAX_SORTED) -> str:
        return f"select * {self.relation(where)}{order_by(self.columns, order, most)}"

    partitions: tuple[str, ...] = ()

    def _require_all_rows(self) -> None:
        if self._result._limit is not None:
            raise ArgumentError(
                "the first rows of a result cannot be filtered, sorted or drawn as a chart",
                hint="explore the whole result, or write the limit into the query",
            )

    def relation(self, where: str | None) -> str:
        self._require_all_rows()
        inner = without_end(self._result.sql)
        return f"from (\n{inner}\n) t" + (f" where {self._in_sql(where)}" if where else "")

    def _in_sql(self, where: str) -> str:
        """Return a condition with its times in the time zone of the query."""
        condition = self._filter(where).condition
        if not any(
            getattr(node, "kind", None) is ValueKind.INSTANT for node in nodes_of(condition)
        ):
            return where
        zone, there = self._zones
        if there == zone:
            return where
        moved = converted(where, self._result.schema, zone, there)
        if parse_condition(moved, self._result.schema, timezone=there) != condition:
            raise self._in_two_zones("the condition")
        return moved

    @property
    def _zones(self) -> tuple[str, str]:
        """The time zones of conditions and of the query; may send one request."""
        zone = self.connection.profile.timezone or "UTC"
        return zone, self._result.settings.get(SQL_ZONE) or self.connection._sql_zone or zone

    def check_zone(self) -> None:
        zone, there = self._zones
        if zone != there:
            raise self._in_two_zones("the chart")

    def _in_two_zones(self, what: str) -> ArgumentError:
        zone, there = self._zones
        return ArgumentError(
            f"the query runs in the time zone {there}, but the times of {what} are in {zone}",
            hint=f"connect with timezone={there!r}, and run the query again",
        )

    @property
    def job_settings(self) -> dict[str, str]:
        return {**self._result.settings, **JOB_SETTINGS}

    @property
    def required_settings(self) -> dict[str, str]:
        return dict(self._result.settings)

    def query(self, text: str) -> pa.Table:
        result = self._result
        job = self._job.run(self.connection, text, shown=result._text, settings=result.settings)
        return job.to_arrow(progress=False)

    def code(self, where: str | None) -> str:
        query = without_end(self._result.sql)
        text = f"select * {self.relation(where)}" if where else query
        settings = f", settings={self._result.settings!r}" if self._result.settings else ""
        mode = self.text.mode
        options = "" if mode is TextMode.STRICT else f", text={mode.value!r}"
        options += ", char_padding=True" if self.text.char_padding else ""
        first = "" if self._result._limit is None else f".first({self._result._limit})"
        return f"odps.sql({text!r}{settings}{options}){first}"

    def narrowed(self, columns: int) -> Rows:
        return self._with(self._result, columns)

    def copy(self) -> Rows:
        return self._with(self._result, self._first_columns)

    def renewed(self) -> Rows:
        return self.copy()  # `Result` opens a new session itself

    def _with(self, result: Result, columns: int | None) -> Rows:
        return _ResultRows(
            result,
            title=self._title,
            like=self._like,
            first_columns=columns,
            text=self.text,
        )

    def stop(self) -> None:
        self._job.stop()
        self._token.cancel()


Rows = _ScanRows | _ResultRows


def _inside(partitions: Sequence[PartitionSpec]) -> str:
    conditions = []
    for spec in partitions:
        parts = [f"{name_in_sql(key)} = {literal(value)}" for key, value in spec]
        conditions.append(f"({' and '.join(parts)})")
    return " or ".join(conditions)
