"""Translates a MaxCompute query to a DuckDB query. Views become subqueries.

sqlglot parses Hive SQL, the closest dialect that it supports, and generates DuckDB SQL. Table names
are replaced with generated names, so that a query can only read registered tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from odps_nb import sql_parser
from odps_nb.errors import NotFoundError
from odps_nb.local import errors
from odps_nb.local.duck_text import compare_bytes, compare_chars, spell
from odps_nb.local.sql.conversions import (
    convert,
    convert_rows,
    fit_constants,
    has_star,
)
from odps_nb.local.sql.functions import (
    check_functions,
    join_lateral_views,
    maxcompute_dialect,
    translate_functions,
)
from odps_nb.local.sql.modes import check_modes
from odps_nb.local.sql.moments import PastVersion, check_no_range, moment_of
from odps_nb.local.sql.refusals import QueryNames, unreadable
from odps_nb.local.sql.session_times import place_times, unite
from odps_nb.local.sql.times import SessionClock, constants_in_utc, spell_intervals
from odps_nb.local.sql.trees import CALLED, place_of
from odps_nb.local.sql.type_checks import check_aliases, check_casts, check_conditions
from odps_nb.local.sql.types_of_query import types_of
from odps_nb.local.sql.windows import frame_windows
from odps_nb.local.store.tables import StoredTable, View
from odps_nb.schema import TypeCode

FindTable = Callable[[tuple[str, ...], StoredTable | None], StoredTable]
"""Finds a table or view by its name as written in a query or in the text of a view."""
Latest = Callable[[StoredTable], str | None]
"""Finds the greatest value of the first partition column among partitions with rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedQuery:
    """A query translated to DuckDB SQL; ``tables`` maps each generated name to its table.

    ``moments`` maps the generated names of tables with AS OF to the past versions to read.
    ``names`` are the names in the original text, for errors. ``kinds`` are the types of the result
    columns, if they are known.
    """

    sql: str
    names: QueryNames
    tables: dict[str, StoredTable]
    moments: dict[str, PastVersion]
    named: tuple[StoredTable, ...]
    plain_columns: tuple[str | None, ...] | None
    kinds: tuple[str, ...]
    has_star: bool

    def kind(self, index: int, count: int) -> str:
        """Return a column's type, such as ``DATETIME``; ``""`` unless ``count`` types are known."""
        return self.kinds[index] if len(self.kinds) == count else ""


def translate(
    text: str,
    *,
    find: FindTable,
    latest: Latest,
    timezone: str = "UTC",
    far: bool = False,
    inside: tuple[int, ...] = (),
    into: tuple[TypeCode, ...] = (),
    exact: bool = False,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> TranslatedQuery:
    """Translate a query to DuckDB.

    With ``far``, text is read as TIMESTAMP in microseconds, because nanoseconds cannot represent
    years such as 9999. ``inside`` lists ids of the enclosing views, which the query must not read.
    ``into`` lists the types of the columns to insert into. Numbers in VALUES for these columns
    remain as written. With ``exact``, constants in a SELECT for a DECIMAL column also remain as
    written. ``settings`` are those of the job.
    """
    query = parse_query(text)
    check_modes(query, settings)
    if not isinstance(query, (exp.Query, exp.Values)):
        raise errors.parse_failed("the text is not a query")
    if isinstance(query, exp.Values):
        query = exp.select("*").from_(
            exp.alias_(query, "v", table=True) if not query.alias else query
        )
    names, replacing = _names_of(query), _Replacing(find, latest, timezone)
    named, tables = replacing.run(query, None, inside), replacing.tables
    fit_constants(query, into, exact=exact)
    types, stored = types_of(query, tables), _column_types(named)
    if unite(query, types, into):
        types = types_of(query, tables)
    check_aliases(query, types)
    check_casts(query, types)
    check_conditions(query, types)
    constants_in_utc(query, timezone, stored)
    compare_bytes(query, stored)
    compare_chars(query, stored)
    clock = SessionClock(timezone, fine=not far)
    place_times(query, types, clock)
    convert(query, types, exact_values=bool(into))
    convert_rows(query, into, types, clock)
    blobs = {name for name, codes in stored.items() if TypeCode.BLOB in codes}
    translate_functions(query, types, blobs)
    join_lateral_views(query)
    spell_intervals(query)
    _plain_grouping(query)
    _name_columns(query)
    return TranslatedQuery(
        sql=_spell(query),
        names=names,
        tables=tables,
        moments=replacing.moments,
        named=named,
        plain_columns=_plain_columns(query),
        kinds=types.results,
        has_star=has_star(query),
    )


def _names_of(query: Any) -> QueryNames:
    """Return the names in a parsed query and their positions."""
    columns: dict[str, tuple[int, int]] = {}
    functions: dict[str, tuple[int, int]] = {}
    for node in query.walk():
        if isinstance(node, exp.Identifier):
            columns.setdefault(node.name.casefold(), place_of(node))
        elif isinstance(node, exp.Anonymous):
            functions.setdefault(node.name.casefold(), place_of(node))
        elif isinstance(node, exp.Func):
            for name in (node.sql_name(), node.meta.get(CALLED, "")):
                functions.setdefault(name.casefold(), place_of(node))
    tables = (source.alias_or_name for source in query.find_all(exp.Table, exp.Subquery, exp.CTE))
    return QueryNames(columns, functions, known_tables=tuple(filter(None, tables)))


def _column_types(tables: tuple[StoredTable, ...]) -> dict[str, set[TypeCode]]:
    """Return the types of all columns by name. Several tables may have columns of the same name."""
    types: dict[str, set[TypeCode]] = {}
    for table in tables:
        for column in table.schema.all_columns:
            types.setdefault(column.name.casefold(), set()).add(column.type.code)
    return types


def _spell(query: Any) -> str:
    try:
        return spell(query)[0]
    except SqlglotError as error:
        message = str(error).splitlines()[0].replace("DuckDB", "the embedded service")
        advice = "rewrite the query, or run it in MaxCompute"
        raise errors.parse_failed(message, advice=advice) from None
    except RecursionError:
        raise errors.parse_failed("the query is nested too deeply") from None


def parse_query(text: str) -> Any:
    """Return the tree of one query."""
    try:
        parsed = sql_parser.parse(text, maxcompute_dialect())
    except SqlglotError as error:
        check_no_range(text)
        raise unreadable(error, text) from None
    except RecursionError:
        raise errors.parse_failed("the query is nested too deeply") from None
    if len(parsed) != 1 or parsed[0] is None:
        raise errors.parse_failed("expected one query")
    query = parsed[0]
    _check_signs(query, text)
    check_functions(query)
    frame_windows(query)
    if distinct := next((one for one in query.find_all(exp.Distinct) if one.args.get("on")), None):
        raise errors.parse_failed(
            "DISTINCT ON is not SQL of MaxCompute",
            at=place_of(distinct.args["on"].expressions[0]),
            advice="number the rows of each group with row_number() OVER (…), and filter them",
        )
    for table in query.find_all(exp.Table):
        if text[table.this.meta.get("start", len(text)) :][:1] in ("'", '"'):
            raise errors.parse_failed(
                f"{table.name!r} is text, not the name of a table",
                at=place_of(table.this),
                advice=f"write `{table.name}`, or omit the quotes",
            )
    return query.unnest() if isinstance(query, (exp.Paren, exp.Subquery)) else query


def _check_signs(query: Any, text: str) -> None:
    """Raise 400 for sqlglot's own syntax: braces, placeholders, empty STRUCTs, final commas."""
    kinds = [TokenType.L_BRACE, TokenType.R_BRACE, TokenType.PARAMETER, TokenType.PLACEHOLDER]
    if query.find(exp.Placeholder) is not None:
        kinds.append(TokenType.COLON)
    if any(sign in text for sign in "{}$@?:"):
        for token in maxcompute_dialect()().tokenize(text):
            if token.token_type in kinds:
                raise errors.parse_failed(
                    f"{token.text!r} is not expected here",
                    at=(token.line, token.col),
                    advice="write the value or name itself, or bind it with params=; "
                    "write a STRUCT as named_struct('a', 1)",
                )
    _check_numbers(text)
    if _FINAL_COMMA.search(text):
        for token, after in pairwise(maxcompute_dialect()().tokenize(text)):
            if token.token_type is TokenType.COMMA and after.text.lower() in _AFTER_ITEMS:
                raise errors.parse_failed(
                    f"an expression is missing before {after.text!r}",
                    at=(token.line, token.col),
                    advice="remove the comma",
                )
    for struct in query.find_all(exp.Struct):
        if not struct.expressions:
            raise errors.parse_failed(
                "a STRUCT needs at least one member, each with a constant name",
                at=place_of(struct),
                advice="write named_struct('name', value)",
            )


def _check_numbers(text: str) -> None:
    """Raise 400 for ``0x1F``, which sqlglot reads as BINARY."""
    if not _HEX.search(text):
        return
    for token in maxcompute_dialect()().tokenize(text):
        if token.token_type is TokenType.HEX_STRING and text[token.start] == "0":
            raise errors.parse_failed(
                f"0x{token.text} is not a number",
                at=(token.line, token.col),
                advice="write a decimal number",
            )


_AFTER_ITEMS = (")", "from", "where", "group by", "having", "order by", "limit", "union")
_HEX = re.compile(r"\b0[xX][0-9A-Fa-f]+")
_FINAL_COMMA = re.compile(
    r",\s*(?:\)|(?:from|where|group|having|order|limit|union)\b)", re.IGNORECASE
)


def tables_of(query: Any) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield the nodes and names of the tables in a query, excluding CTEs."""
    ctes = {cte.alias.casefold() for cte in query.find_all(exp.CTE)}
    for table in list(query.find_all(exp.Table)):
        name = tuple(part.name for part in table.parts)
        if len(name) != 1 or name[0].casefold() not in ctes:
            yield table, name


class _Replacing:
    """Replaces table names with generated names, and views with their queries."""

    def __init__(self, find: FindTable, latest: Latest, timezone: str) -> None:
        self._find, self._latest, self._timezone = find, latest, timezone
        self.tables: dict[str, StoredTable] = {}
        self.moments: dict[str, PastVersion] = {}

    def run(
        self, query: Any, view: StoredTable | None, inside: tuple[int, ...]
    ) -> tuple[StoredTable, ...]:
        """Replace the names in a query; return its tables. ``inside`` lists the enclosing views."""
        self._replace_latest(query, view)
        named = []
        for node, name in tables_of(query):
            if not isinstance(node.this, exp.Identifier):
                raise errors.semantic(f"{node.sql(dialect='hive')[:60]!r} is not a table")
            table = self._found(node, name, view)
            if table.table_id in inside:
                raise errors.semantic(f"the view {table.name} refers to itself")
            named.append(table)
            _unqualify(node, name)
            alias = node.args.get("alias") or _alias(node.name)
            moment = moment_of(node, self._timezone)
            if table.view is None:
                node.set("alias", alias)
                node.set("this", exp.to_identifier(self._own_name(table, moment), quoted=True))
                node.set("version", None)
                node.set("db", None)
                node.set("catalog", None)
            elif moment is not None:
                raise errors.lacks("AS OF a view", is_sure=False, at=place_of(node.this))
            else:
                expanded = self._expanded(table, table.view, inside)
                clauses = {
                    key: node.args.get(key) for key in ("joins", "laterals", "pivots", "sample")
                }
                node.replace(exp.Subquery(this=expanded, alias=alias, **clauses))
        return tuple(named)

    def _replace_latest(self, query: Any, view: StoredTable | None) -> None:
        """Replace each ``max_pt('t')`` with the greatest partition value of ``t``."""
        for node in list(query.find_all(exp.Anonymous)):
            if node.name.lower() != "max_pt":
                continue
            arguments = node.expressions
            if len(arguments) != 1 or not (
                isinstance(arguments[0], exp.Literal) and arguments[0].is_string
            ):
                raise errors.semantic(
                    "MAX_PT requires one table name in quotes",
                    at=place_of(node),
                    advice="write max_pt('table') or max_pt('project.table')",
                )
            name = tuple(part.strip().strip("`") for part in arguments[0].this.split("."))
            value = self._latest(self._find(name, view))
            node.replace(exp.null() if value is None else exp.Literal.string(value))

    def _found(self, node: Any, name: tuple[str, ...], view: StoredTable | None) -> StoredTable:
        """Return a table by name. Errors include the position in the query."""
        try:
            return self._find(name, view)
        except NotFoundError as error:
            if view is not None:
                raise
            position = "[{},{}]".format(*place_of(node.this))
            message = error.message.replace("[1,1]", position, 1)
            raise NotFoundError(message, status=error.status, code=error.code) from None

    def _own_name(self, table: StoredTable, moment: PastVersion | None) -> str:
        for name, known in self.tables.items():
            if known.table_id == table.table_id and self.moments.get(name) == moment:
                return name
        name = f"__table_{len(self.tables)}"
        self.tables[name] = table
        if moment is not None:
            self.moments[name] = moment
        return name

    def _expanded(self, table: StoredTable, view: View, inside: tuple[int, ...]) -> Any:
        """Return the query of a view with the columns that the view had when it was created.

        A ``*`` does not include columns that were added to the underlying table later. If column
        names are not unique, columns are matched by position instead.
        """
        query = parse_query(view.text)
        self.run(query, table, (*inside, table.table_id))
        _name_columns(query)
        shown = [exp.to_identifier(column.name, quoted=True) for column in table.schema.columns]
        alias = _alias("__view")
        if len({name.casefold() for name in view.names}) < len(view.names):
            alias.set("columns", shown)
            chosen: list[Any] = [exp.column(name.copy()) for name in shown]
        else:
            own = [exp.column(exp.to_identifier(name, quoted=True)) for name in view.names]
            chosen = [exp.alias_(column, name) for column, name in zip(own, shown, strict=True)]
        return exp.select(*chosen).from_(exp.Subquery(this=query, alias=alias))


def _alias(name: str) -> Any:
    return exp.TableAlias(this=exp.to_identifier(name, quoted=True))


def _unqualify(table: Any, name: tuple[str, ...]) -> None:
    """Replace ``p.t.column`` with ``t.column``, where ``t`` is the alias of the table."""
    if len(name) == 1:
        return
    scope = table.find_ancestor(exp.Select)
    around = getattr(scope, "parent", None)
    if isinstance(around, exp.Subquery) and around.alias.casefold() == name[-1].casefold():
        scope = around.find_ancestor(exp.Select)  # the SELECT that reads the table
    for column in scope.find_all(exp.Column) if scope is not None else ():
        if column.args.get("db") is not None and column.table.casefold() == name[-1].casefold():
            column.set("db", None)
            column.set("catalog", None)


def _plain_grouping(query: Any) -> None:
    """Rewrite ``GROUP BY a WITH ROLLUP`` as ``GROUP BY ROLLUP (a)``, and drop hints."""
    for select in query.find_all(exp.Select):
        select.set("hint", None)
    for group in query.find_all(exp.Group):
        for key, kind in (("rollup", exp.Rollup), ("cube", exp.Cube)):
            if group.args.get(key) and not group.args[key][0].expressions:
                group.set(key, [kind(expressions=group.expressions)])
                group.set("expressions", None)
        if group.args.get("grouping_sets"):
            group.set("expressions", None)


def _name_columns(query: Any) -> None:
    """Name unnamed output columns by position as the service does: ``_c0``, ``_c1``, …"""
    select = query
    while isinstance(select, exp.SetOperation):
        select = select.left
    if not isinstance(select, exp.Select):
        return
    for index, shown in enumerate(list(select.expressions)):
        if not isinstance(shown, (exp.Alias, exp.Aliases, exp.Column)) and not shown.is_star:
            select.expressions[index] = exp.alias_(shown.copy(), f"_c{index}", quoted=True)
            select.set("expressions", select.expressions)


def _plain_columns(query: Any) -> tuple[str | None, ...] | None:
    """Return the source column of each output that is a column, or the MIN or MAX of a column."""
    if not isinstance(query, exp.Select) or any(shown.is_star for shown in query.expressions):
        return None
    columns: list[str | None] = []
    for shown in query.expressions:
        if isinstance(shown, exp.Aliases):
            return None  # one expression yields several columns
        inner = shown.this if isinstance(shown, exp.Alias) else shown
        if isinstance(inner, (exp.Max, exp.Min)):
            inner = inner.this
        columns.append(inner.name if isinstance(inner, exp.Column) else None)
    return tuple(columns)
