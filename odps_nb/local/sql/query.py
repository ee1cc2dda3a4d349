"""Translates a MaxCompute query to a DuckDB query over named tables; views become subqueries.

sqlglot parses the Hive dialect, the nearest that it supports, and writes DuckDB's. Table names are
replaced by generated ones, so that a query can only refer to registered tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from odps_nb import sql_parser
from odps_nb.errors import NotFoundError
from odps_nb.local import faults
from odps_nb.local.duck import compare_bytes, compare_chars, looks_outside, spell
from odps_nb.local.sql.conversions import convert
from odps_nb.local.sql.functions import (
    join_lateral_views,
    maxcompute_dialect,
    translate_functions,
)
from odps_nb.local.sql.into_columns import convert_rows, fit_constants, has_star
from odps_nb.local.sql.refusals import Names, names_of, place_of, unreadable
from odps_nb.local.sql.session_times import place_times, unite
from odps_nb.local.sql.times import Clock, constants_in_utc, spell_intervals
from odps_nb.local.sql.types_of_query import types_of
from odps_nb.local.store.tables import Table, View
from odps_nb.schema import TypeCode

FindTable = Callable[[tuple[str, ...], Table | None], Table]
"""Finds a table or view by its name as written, in a query or in the text of a view."""
Latest = Callable[[Table], str | None]
"""Finds the greatest value of the first partition column that has rows."""


_OTHERWISE = ("hash", "from_json")  # DuckDB's functions of these names give something else


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedQuery:
    """DuckDB text, the table that each generated name stands for, and what the query names.

    ``names`` are those of the text, for errors; ``kinds`` are the types of its columns as far as
    they are known.
    """

    sql: str
    names: Names
    tables: dict[str, Table]
    named: tuple[Table, ...]
    plain_columns: tuple[str | None, ...] | None
    kinds: tuple[str, ...]
    has_star: bool

    def kind(self, index: int, count: int) -> str:
        """Return the type of a column of ``count``, such as ``DATETIME``; empty if unknown."""
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
) -> TranslatedQuery:
    """Translate a query to DuckDB.

    Parameters
    ----------
    find
        Returns a table or view; raises when there is none of that name.
    latest
        Returns what ``max_pt`` means of a table.
    timezone
        Where times without a zone are read and shown.
    far
        Read text as TIMESTAMP in microseconds: nanoseconds have no years such as 9999.
    inside
        Ids of views that the query is to define: it may not read them.
    into
        The types of the columns that the rows go into. Numbers of VALUES are kept as written.
    exact
        Also keep constants of a SELECT as written where they go into a DECIMAL.
    """
    from sqlglot import exp

    query = parse_query(text)
    if not isinstance(query, (exp.Query, exp.Values)):
        raise faults.parse_failed("this is not a query")
    if isinstance(query, exp.Values):
        query = exp.select("*").from_(
            exp.alias_(query, "v", table=True) if not query.alias else query
        )
    tables: dict[str, Table] = {}
    names = names_of(query)
    named = _replace_tables(query, tables, find, latest, None, inside)
    fit_constants(query, into, exact=exact)
    types, stored = types_of(query, tables), _column_types(named)
    if unite(query, types):
        types = types_of(query, tables)
    constants_in_utc(query, timezone, stored)
    compare_bytes(query, stored)
    compare_chars(query, stored)
    clock = Clock(timezone, fine=not far)
    place_times(query, types, clock)
    convert(query, types, exact_values=bool(into))
    convert_rows(query, into, types, clock)
    translate_functions(query)
    join_lateral_views(query)
    spell_intervals(query)
    _plain_grouping(query)
    _name_columns(query)
    columns = (column.name for table in named for column in table.schema)
    return TranslatedQuery(
        sql=_spell(query, names),
        names=replace(names, known_columns=(*columns, *names.known_columns)),
        tables=tables,
        named=named,
        plain_columns=_plain_columns(query),
        kinds=types.results,
        has_star=has_star(query),
    )


def _column_types(tables: tuple[Table, ...]) -> dict[str, set[TypeCode]]:
    """Return the types of all columns by name; several where tables share a name."""
    found: dict[str, set[TypeCode]] = {}
    for table in tables:
        for column in table.schema.all_columns:
            found.setdefault(column.name.casefold(), set()).add(column.type.code)
    return found


def _spell(query: Any, names: Names) -> str:
    from sqlglot.errors import SqlglotError

    try:
        text, called = spell(query)
    except SqlglotError as error:
        said = str(error).splitlines()[0].replace("in DuckDB", "in the embedded service")
        raise faults.parse_failed(
            said, advice="write it in another way, or run it in MaxCompute"
        ) from None
    except RecursionError:
        raise faults.parse_failed("the query is nested too deeply") from None
    for name in called:
        if looks_outside(name) or name in _OTHERWISE:
            line, column = names.functions.get(name, (1, 1))
            is_sure = name in _OTHERWISE
            raise faults.lacks(f"function {name}", is_sure=is_sure, line=line, column=column)
    return text


def parse_query(text: str) -> Any:
    """Return the tree of one query."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        parsed = sql_parser.parse(text, maxcompute_dialect())
    except SqlglotError as error:
        raise unreadable(error, text) from None
    except RecursionError:
        raise faults.parse_failed("the query is nested too deeply") from None
    if len(parsed) != 1 or parsed[0] is None:
        raise faults.parse_failed("expected one query")
    found = parsed[0]
    _check_signs(found, text)
    for table in found.find_all(exp.Table):
        _check_quotes(table, text)
    return found.unnest() if isinstance(found, (exp.Paren, exp.Subquery)) else found


def _check_signs(query: Any, text: str) -> None:
    """Refuse what the parser reads and MaxCompute lacks: braces, placeholders, an empty STRUCT."""
    from sqlglot import TokenType, exp

    kinds = [TokenType.L_BRACE, TokenType.R_BRACE, TokenType.PARAMETER, TokenType.PLACEHOLDER]
    if query.find(exp.Placeholder) is not None:
        kinds.append(TokenType.COLON)
    if any(sign in text for sign in "{}$@?:"):
        for token in maxcompute_dialect()().tokenize(text):
            if token.token_type in kinds:
                raise faults.parse_failed(
                    f"{token.text!r} is not expected here",
                    line=token.line,
                    column=token.col,
                    advice="write the value or name itself, or bind it with params=; "
                    "a STRUCT is written named_struct('a', 1)",
                )
    for struct in query.find_all(exp.Struct):
        if not struct.expressions:
            line, column = place_of(struct)
            raise faults.parse_failed(
                "a STRUCT has at least one member",
                line=line,
                column=column,
                advice="write named_struct('name', value)",
            )


def _check_quotes(table: Any, text: str) -> None:
    """Refuse a text where the name of a table should be."""
    start = table.this.meta.get("start", -1)
    if 0 <= start < len(text) and text[start] in "'\"":
        line, column = place_of(table.this)
        raise faults.parse_failed(
            f"{table.name!r} is text, not the name of a table",
            line=line,
            column=column,
            advice=f"write `{table.name}`, or leave the quotes out",
        )


def _replace_tables(
    query: Any,
    tables: dict[str, Table],
    find: FindTable,
    latest: Latest,
    view: Table | None,
    inside: tuple[int, ...],
) -> tuple[Table, ...]:
    """Replace the names in a query, or in the text of a view, and return what they stand for.

    ``inside`` are the ids of the views around it.
    """
    from sqlglot import exp

    _replace_latest(query, find, latest, view)
    ctes = {cte.alias.casefold() for cte in query.find_all(exp.CTE)}
    named = []
    for table in list(query.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier):
            raise faults.parse_failed(f"{table.sql(dialect='hive')[:60]!r} is not a table")
        name = tuple(part.name for part in table.parts)
        if len(name) == 1 and name[0].casefold() in ctes:
            continue
        found = _find(table, name, find, view)
        if found.table_id in inside:
            raise faults.parse_failed(f"the view {found.name} reads itself")
        named.append(found)
        _unqualify(table, name)
        if found.view is None:
            _replace_table(table, found, tables)
        else:
            ids = (*inside, found.table_id)
            query_of_view = _expanded(found, found.view, tables, find, latest, ids)
            _replace_view(table, query_of_view)
    return tuple(named)


def _replace_latest(query: Any, find: FindTable, latest: Latest, view: Table | None) -> None:
    """Replace each ``max_pt('t')`` by the partition value that it stands for now."""
    from sqlglot import exp

    for call in list(query.find_all(exp.Anonymous)):
        if call.name.lower() != "max_pt":
            continue
        line, column = place_of(call)
        given = call.expressions
        if len(given) != 1 or not (isinstance(given[0], exp.Literal) and given[0].is_string):
            raise faults.parse_failed(
                "MAX_PT takes one name in quotes",
                line=line,
                column=column,
                advice="write max_pt('table') or max_pt('project.table')",
            )
        name = tuple(part.strip().strip("`") for part in given[0].this.split("."))
        value = latest(find(name, view))
        call.replace(exp.null() if value is None else exp.Literal.string(value))


def _find(table: Any, name: tuple[str, ...], find: FindTable, view: Table | None) -> Table:
    """Find a table; an error names its place in the query."""
    try:
        return find(name, view)
    except NotFoundError as error:
        if view is None and "[1,1]" in error.message:
            line, column = place_of(table.this)
            message = error.message.replace("[1,1]", f"[{line},{column}]", 1)
            raise NotFoundError(message, status=error.status, code=error.code) from None
        raise


def _replace_table(table: Any, found: Table, tables: dict[str, Table]) -> None:
    from sqlglot import exp

    ours = next((key for key, one in tables.items() if one.table_id == found.table_id), None)
    if ours is None:
        ours = f"__table_{len(tables)}"
        tables[ours] = found
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    table.set("this", exp.to_identifier(ours, quoted=True))
    table.set("db", None)
    table.set("catalog", None)


def _expanded(
    table: Table,
    view: View,
    tables: dict[str, Table],
    find: FindTable,
    latest: Latest,
    inside: tuple[int, ...],
) -> Any:
    """Return the query of a view with the columns, and their names, of when it was made.

    A ``*`` in it does not bring columns that its table got since, unless two columns have one name:
    then they are told apart by their places.
    """
    from sqlglot import exp

    query = parse_query(view.text)
    _replace_tables(query, tables, find, latest, table, inside)
    _name_columns(query)
    shown = [exp.to_identifier(column.name, quoted=True) for column in table.schema.columns]
    alias = exp.TableAlias(this=exp.to_identifier("__view", quoted=True))
    if len({name.casefold() for name in view.names}) < len(view.names):
        alias.set("columns", shown)
        chosen: list[Any] = [exp.column(name.copy()) for name in shown]
    else:
        own = [exp.column(exp.to_identifier(name, quoted=True)) for name in view.names]
        chosen = [exp.alias_(one, name) for one, name in zip(own, shown, strict=True)]
    return exp.select(*chosen).from_(exp.Subquery(this=query, alias=alias))


def _replace_view(table: Any, query: Any) -> None:
    from sqlglot import exp

    shown = table.args.get("alias") or exp.TableAlias(
        this=exp.to_identifier(table.name, quoted=True)
    )
    kept = {key: table.args.get(key) for key in ("joins", "laterals", "pivots", "sample")}
    table.replace(exp.Subquery(this=query, alias=shown, **kept))


def _unqualify(table: Any, name: tuple[str, ...]) -> None:
    """Replace ``p.t.column`` by ``t.column``, the alias of the table."""
    from sqlglot import exp

    if len(name) == 1:
        return
    scope = table.find_ancestor(exp.Select)
    around = getattr(scope, "parent", None)
    if isinstance(around, exp.Subquery) and around.alias.casefold() == name[-1].casefold():
        scope = around.find_ancestor(exp.Select)  # which reads the rows by the table's name
    for column in scope.find_all(exp.Column) if scope is not None else ():
        if column.args.get("db") is not None and column.table.casefold() == name[-1].casefold():
            column.set("db", None)
            column.set("catalog", None)


def _plain_grouping(query: Any) -> None:
    """Write ``GROUP BY a WITH ROLLUP`` as ``GROUP BY ROLLUP (a)``, and drop hints."""
    from sqlglot import exp

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
    """Name output columns without a name as the service does: ``_c0``, ``_c1``, … by position."""
    from sqlglot import exp

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
    """Return which output columns have values of a stored column; ``None`` (a star): all may.

    So do its largest and its least value.
    """
    from sqlglot import exp

    if not isinstance(query, exp.Select) or any(shown.is_star for shown in query.expressions):
        return None
    found: list[str | None] = []
    for shown in query.expressions:
        if isinstance(shown, exp.Aliases):
            return None  # one expression, several columns
        inner = shown.this if isinstance(shown, exp.Alias) else shown
        if isinstance(inner, (exp.Max, exp.Min)):
            inner = inner.this
        found.append(inner.name if isinstance(inner, exp.Column) else None)
    return tuple(found)
