"""Rows to look at: pages by row number, rows by a condition, an order by SQL.

`rows_of` gives an explorer what it needs of a `Scan` and of a `Result`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from odps_nb.access.binding.literals import literal
from odps_nb.access.looking.paging import (
    MAX_SORTED,
    READ_AHEAD,
    START,
    Placed,
    RowPlace,
    Rows,
    iter_found_rows,
    iter_result_rows,
    iter_scan_rows,
)
from odps_nb.access.row_forms import RowForms
from odps_nb.access.scan import Scan
from odps_nb.access.sql import Result
from odps_nb.client.calls.cancel import CancelToken
from odps_nb.client.calls.progress import Progress
from odps_nb.client.read.plan import ReadPlan
from odps_nb.client.sql.definitions import quoted
from odps_nb.errors import ArgumentError
from odps_nb.filters.row_filter import RowFilter
from odps_nb.schema import Column, TableSchema, TypeCode
from odps_nb.terms import PartitionSpec, TextMode, TextOptions
from odps_nb.wire.calls import LIMITED_RESULT_ROWS

if TYPE_CHECKING:
    from odps_nb.access.connection import Connection

__all__ = ["MAX_SORTED", "Rows", "name_in_sql", "rows_of"]

READERS = 4
STEP_ROWS = 4_000
"""Rows of a result that are read at a time for a condition."""

# Whoever asks for all rows in an order means a full scan, and the query inside may have an order.
_SORT_SETTINGS = {
    "odps.sql.allow.fullscan": "true",
    "odps.sql.validate.orderby.limit": "false",
}
_NO_ORDER = (
    *(TypeCode.ARRAY, TypeCode.MAP, TypeCode.STRUCT),
    *(TypeCode.BLOB, TypeCode.BINARY, TypeCode.JSON, TypeCode.VARIANT),
    *(TypeCode.GEOGRAPHY, TypeCode.VECTOR, TypeCode.UNKNOWN),
)
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")
_WORDS = frozenset({"all", "and", "as", "asc", "between", "by", "case", "cast", "date", "desc"})
_WORDS |= {"distinct", "else", "end", "exists", "false", "from", "group", "having", "if", "in"}
_WORDS |= {"interval", "is", "join", "left", "like", "limit", "not", "null", "on", "or", "order"}
_WORDS |= {"right", "select", "table", "then", "timestamp", "true", "union", "using", "values"}
_WORDS |= {"when", "where", "with"}


def name_in_sql(name: str) -> str:
    """Return the name of a column as SQL and ``where=`` take it, in back-quotes if it must be."""
    plain = _PLAIN_NAME.fullmatch(name) and name.casefold() not in _WORDS
    return name if plain else f"`{name.replace('`', '``')}`"


def rows_of(source: RowForms) -> Rows:
    """Return what an explorer needs of a read or of the result of a query.

    Text that is not UTF-8 is replaced, unless it comes as bytes: a page must show.
    """
    shown = source._replacing()
    if isinstance(shown, Scan):
        return _ScanRows(shown)
    assert isinstance(shown, Result)
    return _ResultRows(shown)


class _ScanRows(Rows):
    """The rows of a `Scan`; those without a condition have numbers."""

    def __init__(self, scan: Scan, columns: tuple[Column, ...] | None = None) -> None:
        self._scan, self._columns = scan, columns
        self._running: Scan | None = None
        self._chosen: tuple[str, Scan] | None = None
        self._job = _Job()

    @property
    def title(self) -> str:
        return str(self._scan.plan.table)

    @property
    def connection(self) -> Connection:
        return self._scan.connection

    @property
    def columns(self) -> tuple[Column, ...]:
        if self._columns is None:
            schema, names = self._scan.schema, self._scan.plan.columns
            found = [schema.find(name) for name in names] if names else list(schema)
            # a session's columns have no comments
            commented = (
                self._scan.plan.schema or self.connection.table(self._scan.plan.table).schema
            )
            self._columns = tuple(
                _commented(column, commented) for column in found if column is not None
            )
        return self._columns

    @property
    def row_count(self) -> int | None:
        return self._scan.row_count

    @property
    def is_cut(self) -> bool:
        return False

    def page(self, start: int, rows: int, cancel: CancelToken) -> Iterator[pa.RecordBatch]:
        return iter_scan_rows(self._scan, start, rows, cancel=cancel)

    def every(
        self, *, ahead: int = READ_AHEAD, progress: Progress = False
    ) -> Generator[pa.RecordBatch, None, None]:
        self._running = self._scan._apart()  # `stop` ends no read of a twin
        return self._running.batches(workers=READERS, read_ahead=ahead, progress=progress)

    def found(self, where: str | None, begin: RowPlace = START) -> Generator[Placed, None, None]:
        if where is None:
            self._running = self._scan
        elif self._chosen is None or self._chosen[0] != where:
            self._running = Scan(self.connection, self._filtered(where))
            self._chosen = where, self._running
        else:
            self._running = self._chosen[1]
        return iter_found_rows(self._running, begin, workers=READERS, read_ahead=READ_AHEAD)

    def check(self, where: str) -> None:
        self._filtered(where)

    def _filtered(self, where: str) -> ReadPlan:
        plan = self._scan.plan
        if plan.limit is not None:
            raise ArgumentError(
                "rows of a read with a limit cannot be filtered further",
                hint="explore the table, or a read without limit=",
            )
        both = f"({plan.where}) and ({where})" if plan.where else where
        schema = self._scan.table_schema
        RowFilter.parse(both, schema, timezone=plan.timezone)  # refused before anything is sent
        return replace(plan, where=both, schema=schema)

    def ordered(self, column: str, *, descending: bool, where: str | None) -> Rows:
        plan = self._scan.plan
        if plan.limit is not None or plan.increment is not None:
            raise ArgumentError(
                "only whole tables and partitions can be sorted",
                hint="explore a read without limit=, since= and changes=",
            )
        named = [name_in_sql(one.name) for one in self.columns]
        conditions = [f"({one})" for one in (plan.where, where, _inside(plan.partitions)) if one]
        text = f"select {', '.join(named) if plan.columns else '*'} from {quoted(plan.table)}"
        text += f" where {' and '.join(conditions)}" if conditions else ""
        shown = self._scan.plan.text
        return self._job.sort(self, text, column, descending=descending, shown=shown)

    def code(self, where: str | None) -> str:
        plan = self._scan.plan
        both = [one for one in (plan.where, where) if one]
        condition = " and ".join(f"({one})" for one in both) if len(both) > 1 else "".join(both)
        said = [
            ("columns", list(plan.columns) or None),
            ("where", condition or None),
            ("partitions", [str(one) for one in plan.partitions] or None),
            ("limit", plan.limit),
            ("text", "binary" if plan.text.mode is TextMode.BINARY else None),
            ("char_padding", plan.text.char_padding or None),
        ]
        options = ", ".join(f"{key}={value!r}" for key, value in said if value is not None)
        return f"odps.table({_short_name(self)!r}).read({options})"

    def narrowed(self, columns: int) -> Rows:
        plan, kept = self._scan.plan, self.columns[:columns]
        schema = self._scan.table_schema
        made = replace(
            plan,
            columns=tuple(column.name for column in kept),
            partition_columns=tuple(column.name for column in schema.partition_columns),
            schema=schema,
        )
        return _ScanRows(Scan(self.connection, made), kept)

    def twin(self) -> Rows:
        return _ScanRows(self._scan, self._columns)

    def renewed(self) -> Rows:
        return _ScanRows(Scan(self.connection, self._scan.plan), self._columns)

    def stop(self) -> None:
        self._job.stop()
        if self._running is not None:
            self._running.cancel()


class _ResultRows(Rows):
    """The rows of a `Result`; all of them have numbers."""

    def __init__(
        self,
        result: Result,
        *,
        title: str = "",
        like: Sequence[Column] = (),
        first_columns: int | None = None,
    ) -> None:
        self._result, self._title, self._like = result, title, like
        self._first_columns = first_columns
        self._token, self._job = CancelToken(), _Job()

    @property
    def title(self) -> str:
        return self._title or " ".join(self._result.sql.split())[:80]

    @property
    def connection(self) -> Connection:
        return self._result.connection

    @property
    def columns(self) -> tuple[Column, ...]:
        known = TableSchema(columns=tuple(self._like))
        found = tuple(known.find(column.name) or column for column in self._result.schema)
        return found[: self._first_columns]

    @property
    def row_count(self) -> int | None:
        return self._readable.row_count

    @property
    def is_cut(self) -> bool:
        return self._result.is_cut

    @property
    def _readable(self) -> Result:
        return self._result.first(LIMITED_RESULT_ROWS) if self.is_cut else self._result

    def page(self, start: int, rows: int, cancel: CancelToken) -> Iterator[pa.RecordBatch]:
        for batch in iter_result_rows(self._readable, start, rows, cancel=cancel):
            yield self._shown(batch)

    def every(
        self, *, ahead: int = READ_AHEAD, progress: Progress = False
    ) -> Generator[pa.RecordBatch, None, None]:
        self._token = token = CancelToken()
        with closing(self._readable.batches(read_ahead=ahead, progress=progress)) as batches:
            for batch in batches:
                token.check()
                yield self._shown(batch)

    def found(self, where: str | None, begin: RowPlace = START) -> Generator[Placed, None, None]:
        self._token = token = CancelToken()
        row_filter = None if where is None else self._filter(where)
        readable = self._readable
        for start in range(begin.row, readable.row_count, STEP_ROWS):
            row = start
            for batch in iter_result_rows(readable, start, STEP_ROWS, cancel=token):
                kept = batch if row_filter is None else row_filter.apply(batch)
                if kept.num_rows:
                    yield RowPlace(0, row), self._shown(kept)
                row += batch.num_rows

    def check(self, where: str) -> None:
        self._filter(where)

    def _filter(self, where: str) -> RowFilter:
        zone = self.connection.profile.timezone or "UTC"
        return RowFilter.parse(where, self._result.schema, timezone=zone)

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._first_columns is None or self._first_columns >= batch.num_columns:
            return batch
        return batch.select(range(self._first_columns))

    def ordered(self, column: str, *, descending: bool, where: str | None) -> Rows:
        inner = self._result.sql.strip().rstrip(";")
        text = f"select * from (\n{inner}\n) t" + (f" where {where}" if where else "")
        return self._job.sort(
            self,
            text,
            column,
            descending=descending,
            shown=self._result._text,
            settings=self._result.settings,
        )

    def code(self, where: str | None) -> str:
        query = self._result.sql.strip().rstrip(";")
        text = f"select * from (\n{query}\n) t where {where}" if where else query
        settings = f", settings={self._result.settings!r}" if self._result.settings else ""
        shown = self._result._text
        options = ', text="binary"' if shown.mode is TextMode.BINARY else ""
        options += ", char_padding=True" if shown.char_padding else ""
        return f"odps.sql({text!r}{settings}{options})"

    def narrowed(self, columns: int) -> Rows:
        return self._with(self._result, columns)

    def twin(self) -> Rows:
        return self._with(self._result, self._first_columns)

    def renewed(self) -> Rows:
        return self._with(self._result._reopened(), self._first_columns)

    def _with(self, result: Result, columns: int | None) -> Rows:
        return _ResultRows(result, title=self._title, like=self._like, first_columns=columns)

    def stop(self) -> None:
        self._job.stop()
        self._token.cancel()


def _commented(column: Column, schema: TableSchema | None) -> Column:
    known = None if schema is None else schema.find(column.name)
    return column if known is None else replace(column, comment=known.comment)


def _short_name(rows: Rows) -> str:
    project, _, rest = rows.title.partition(".")
    return rest if project == rows.connection.profile.project else rows.title


def _inside(partitions: Sequence[PartitionSpec]) -> str:
    said = []
    for spec in partitions:
        parts = [f"{name_in_sql(key)} = {literal(value)}" for key, value in spec]
        said.append(f"({' and '.join(parts)})")
    return " or ".join(said)


class _Job:
    """The SQL job that sorts rows, so that it can be stopped."""

    def __init__(self) -> None:
        self._result: Result | None = None

    def sort(
        self,
        rows: Rows,
        query: str,
        column: str,
        *,
        descending: bool,
        shown: TextOptions,
        settings: Mapping[str, str] | None = None,
    ) -> Rows:
        known = next((one for one in rows.columns if one.name == column), None)
        if known is None or known.type.code in _NO_ORDER:
            raise ArgumentError(f"rows cannot be sorted by {column!r}")
        way = " desc" if descending else ""
        text = f"{query} order by {name_in_sql(column)}{way} limit {MAX_SORTED}"
        chosen = {**(settings or {}), **_SORT_SETTINGS}
        self._result = result = rows.connection.sql(
            text,
            settings=chosen,
            text=shown.mode,
            char_padding=shown.char_padding,
            wait=False,
        )
        try:
            result.wait()
        finally:
            self._result = None
        return _ResultRows(result, title=rows.title, like=rows.columns)

    def stop(self) -> None:
        if self._result is not None:
            self._result.cancel()
