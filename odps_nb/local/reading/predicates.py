"""Parses ``FilterPredicate`` as MaxCompute SQL and evaluates it in a sandboxed DuckDB.

DuckDB computes a boolean mask from the columns that the predicate names. The rows themselves do
not pass through DuckDB, so their types cannot change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from odps_nb import sql_parser
from odps_nb.errors import InvalidRequestError
from odps_nb.local import errors
from odps_nb.local.duck import Duck, looks_outside
from odps_nb.local.duck_text import compare_chars, spell
from odps_nb.local.store.arrow_types import arrow_type, constant
from odps_nb.schema import TableSchema
from odps_nb.terms import PartitionSpec

MAX_LENGTH = 64 * 1024
# DuckDB functions, unknown to the parser, that wait or return several rows or columns.
_NOT_OF_A_ROW = frozenset({"unnest", "columns", "sleep_ms", "pg_sleep", "write_log"})
# Functions that build huge values from short ones. DuckDB cannot limit or interrupt them.
_GROWING = frozenset(
    {
        *("repeat", "lpad", "rpad", "format", "printf", "bar", "range", "generate_series"),
        *("list_resize", "array_resize", "reduce", "list_reduce", "array_reduce"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicate:
    """A validated predicate: the columns it uses, and its conjuncts as DuckDB SQL."""

    columns: tuple[str, ...]
    conjuncts: tuple[tuple[frozenset[str], str], ...]
    duck: Duck = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str, schema: TableSchema, duck: Duck) -> Predicate:
        """Parse a predicate; raise 400 if it is not a boolean expression over the columns."""
        if len(text) > MAX_LENGTH:
            raise _refused(
                f"the filter predicate has {len(text)} characters; the maximum is {MAX_LENGTH}"
            )
        parsed = _parse(text)
        compare_chars(parsed, {c.name.casefold(): {c.type.code} for c in schema})
        conjuncts = tuple(
            (_resolve(part, schema, text), _spelled(part)) for part in _flatten(parsed)
        )
        used_columns = frozenset[str]().union(*(names for names, _ in conjuncts))
        columns = tuple(name for name in schema.names if name in used_columns)
        predicate = cls(columns=columns, conjuncts=conjuncts, duck=duck)
        predicate._try_on(schema)
        return predicate

    @property
    def sql(self) -> str:
        """The whole predicate as DuckDB SQL."""
        return " AND ".join(f"({text})" for _, text in self.conjuncts)

    def partition_part(self, keys: tuple[str, ...]) -> Predicate | None:
        """The conjuncts that use only partition keys, or ``None`` if there are none."""
        # AND casts its operands to BOOLEAN; a conjunct alone may have another type
        own = tuple(
            (names, f"CAST(({text}) AS BOOLEAN)")
            for names, text in self.conjuncts
            if names and names <= frozenset(keys)
        )
        if not own:
            return None
        used_columns = frozenset[str]().union(*(names for names, _ in own))
        return replace(self, columns=tuple(k for k in keys if k in used_columns), conjuncts=own)

    def keeps(self, specs: list[PartitionSpec], schema: TableSchema) -> list[bool]:
        """Return, for each partition, whether the predicate (a `partition_part`) is true."""
        if not specs:
            return []
        types = {c.name: c.type for c in schema.partition_columns}
        columns = {
            name: pa.array(
                [constant(dict(s.items)[name], types[name], name) for s in specs],
                arrow_type(types[name]),
            )
            for name in self.columns
        }
        with self.evaluator() as evaluator:
            mask: list[bool] = evaluator.mask(columns, len(specs)).to_pylist()
        return mask

    @contextmanager
    def evaluator(self) -> Iterator[Evaluator]:
        """Open an evaluator of this predicate for a ``with`` block."""
        with self.duck.connection() as connection:
            yield Evaluator(connection, self.sql)

    def _try_on(self, schema: TableSchema) -> None:
        """Evaluate the predicate on two null rows, so that errors are raised at session creation.

        DuckDB reports unknown functions and types even without rows. It reports aggregates and
        invalid comparisons of constants (the text "id" in ``"id" = 1``) only if there are rows.
        """
        types = {c.name: arrow_type(c.type) for c in schema.all_columns}
        nulls = {name: pa.nulls(2, types[name]) for name in self.columns}
        with self.evaluator() as evaluator:
            if not pa.types.is_boolean(evaluator.values(nulls, 2).type):
                raise _refused("the filter predicate must be a boolean expression")


class Evaluator:
    """Evaluates one predicate on successive batches."""

    def __init__(self, connection: Any, sql: str) -> None:
        self._connection, self._sql = connection, sql

    def mask(self, columns: Mapping[str, pa.Array], rows: int) -> pa.BooleanArray:
        """Return a mask of the rows that satisfy the predicate; null is treated as false."""
        return self.values(columns, rows).combine_chunks().fill_null(False)

    def values(self, columns: Mapping[str, pa.Array], rows: int) -> pa.ChunkedArray:
        """Evaluate the predicate; return one value per row."""
        import duckdb

        # the unnamed column provides the row count if the predicate names no column
        batch = pa.table({**columns, "": pa.nulls(rows, pa.bool_())})
        try:
            self._connection.register("batch", batch)
            query = f"SELECT ({self._sql}) AS keep FROM batch"
            column = self._connection.sql(query).to_arrow_table().column(0)
        except duckdb.Error as error:
            first = str(error).strip().splitlines()[0]
            raise _refused(f"the filter predicate cannot be applied: {first}") from None
        finally:
            with suppress(duckdb.FatalException):  # a later call raises this error again
                self._connection.unregister("batch")
        if len(column) != rows:
            raise _refused("the filter predicate must return one value per row")
        return column


def _refused(message: str, before: str = "") -> InvalidRequestError:
    """Return the error with the line and column at which the text ``before`` ends."""
    lines = before.split("\n")
    return errors.invalid(f"[{len(lines)},{len(lines[-1]) + 1}] {message}")


def _before(error: Any) -> str:
    """Return blank text that ends at the position of the parser's error, for `_refused`."""
    for fault in getattr(error, "errors", ()):
        before: int = fault["col"] - len(fault["highlight"] or "")
        return "\n" * (int(fault["line"]) - 1) + " " * max(0, before)
    return ""


def _parse(text: str) -> Any:
    try:
        statements = sql_parser.parse(text, sql_parser.hive())
    except SqlglotError as error:
        first = str(error).splitlines()[0]
        raise _refused(f"the filter predicate is invalid: {first}", _before(error)) from None
    except RecursionError:
        raise _refused("the filter predicate is nested too deeply") from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Condition):
        raise _refused("the filter predicate must be one boolean expression")
    predicate = statements[0]
    fenced = (exp.Query, exp.Subquery, exp.Table, exp.Command, exp.Placeholder, exp.Parameter)
    if predicate.find(*fenced) is not None:
        raise _refused("a filter predicate cannot contain subqueries, tables or parameters")
    # the results of these functions would depend on how the rows are split into batches
    beyond = (exp.AggFunc, exp.Window, exp.UDTF, exp.Explode)
    if predicate.find(*beyond) is not None or any(
        call.name.casefold() in _NOT_OF_A_ROW for call in predicate.find_all(exp.Anonymous)
    ):
        raise _refused("a filter predicate cannot use aggregates, windows or explode")
    return predicate


def _spelled(tree: Any) -> str:
    """Render a tree as DuckDB SQL; raise 400 for functions that could harm the service."""
    try:
        spelled, names = spell(tree)
    except SqlglotError as error:
        raise _refused(f"the filter predicate is invalid: {error}") from None
    except RecursionError:
        raise _refused("the filter predicate is nested too deeply") from None
    for name in names:
        if name in _GROWING:
            raise _refused(
                f"a filter predicate cannot call {name!r}, which can build very long values"
            )
        if looks_outside(name):
            raise _refused(f"a filter predicate cannot call {name!r}")
    return spelled


def _flatten(parsed: Any) -> list[Any]:
    parsed = parsed.unnest()
    if isinstance(parsed, exp.And):
        return [*_flatten(parsed.left), *_flatten(parsed.right)]
    return [parsed]


def _resolve(parsed: Any, schema: TableSchema, text: str) -> frozenset[str]:
    """Return the columns that an expression uses, and quote their names in place."""
    used_columns = set()
    for node in parsed.find_all(exp.Column):
        parts = node.parts
        column = schema.find(parts[0].name)
        if column is None:
            raise _refused(
                f"the filter predicate uses {parts[0].name!r}, which is not a column of the table",
                text[: parts[0].meta.get("start", 0)],
            )
        parts[0].set("this", column.name)
        for part in parts:
            part.set("quoted", True)
        used_columns.add(column.name)
    return frozenset(used_columns)
