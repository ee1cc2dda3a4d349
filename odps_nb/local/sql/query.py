"""Translates a MaxCompute query to a DuckDB query over named tables.

sqlglot parses the Hive dialect, the nearest that it supports, and writes DuckDB's. Table names are
replaced by generated ones, so that a query can only refer to registered tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odps_nb.local import faults
from odps_nb.local.sql.calls import called, looks_outside
from odps_nb.local.sql.functions import maxcompute_dialect, translate_functions
from odps_nb.local.sql.times import constants_in_utc

__all__ = ["TranslatedQuery", "parse_query", "translate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedQuery:
    """DuckDB text, and the table (as written) that each generated name stands for."""

    sql: str
    tables: dict[str, tuple[str, ...]]
    plain_columns: tuple[str | None, ...] | None


def translate(
    text: str, *, exists: Callable[[tuple[str, ...]], object], timezone: str = "UTC"
) -> TranslatedQuery:
    """Translate a query to DuckDB.

    Parameters
    ----------
    exists
        Called with each table name as written; raises when there is no such table.
    timezone
        Where constant times are read.
    """
    from sqlglot import exp

    query = parse_query(text)
    if not isinstance(query, (exp.Query, exp.Values)):
        raise faults.parse_failed("this is not a query")
    if isinstance(query, exp.Values):
        query = exp.select("*").from_(
            exp.alias_(query, "v", table=True) if not query.alias else query
        )
    ctes = {cte.alias.casefold() for cte in query.find_all(exp.CTE)}
    tables: dict[str, tuple[str, ...]] = {}
    for table in list(query.find_all(exp.Table)):
        _replace_table(table, ctes, tables, exists)
    translate_functions(query)
    constants_in_utc(query, timezone)
    _plain_grouping(query)
    _name_columns(query)
    return TranslatedQuery(
        sql=_spell(query),
        tables=tables,
        plain_columns=_plain_columns(query),
    )


def _spell(query: Any) -> str:
    import sqlglot

    try:
        # what DuckDB cannot say must not be said differently in silence
        text: str = query.sql(dialect="duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE)
    except sqlglot.errors.SqlglotError as error:
        raise faults.parse_failed(str(error).splitlines()[0]) from None
    except RecursionError:
        raise faults.parse_failed("the query is nested too deeply") from None
    for name in called(text):
        if looks_outside(name):
            raise faults.parse_failed(f"there is no function {name!r}")
    return text


def parse_query(text: str) -> Any:
    """Return the tree of one query."""
    import sqlglot
    from sqlglot import exp

    try:
        parsed = sqlglot.parse(text, dialect=maxcompute_dialect())
    except sqlglot.errors.ParseError as error:
        first = error.errors[0] if error.errors else {}
        raise faults.parse_failed(
            str(first.get("description", error)).splitlines()[0],
            line=first.get("line") or 1,
            # sqlglot names the end of the word, the service its beginning
            column=max(1, (first.get("col") or 1) - len(first.get("highlight") or " ") + 1),
        ) from None
    except sqlglot.errors.SqlglotError as error:
        raise faults.parse_failed(str(error).splitlines()[0]) from None
    except RecursionError:
        raise faults.parse_failed("the query is nested too deeply") from None
    if len(parsed) != 1 or parsed[0] is None:
        raise faults.parse_failed("expected one query")
    found = parsed[0]
    return found.unnest() if isinstance(found, (exp.Paren, exp.Subquery)) else found


def _replace_table(
    table: Any,
    ctes: set[str],
    tables: dict[str, tuple[str, ...]],
    exists: Callable[[tuple[str, ...]], object],
) -> None:
    from sqlglot import exp

    if not isinstance(table.this, exp.Identifier):
        raise faults.parse_failed(f"{table.sql(dialect='hive')[:60]!r} is not a table")
    name = tuple(part.name for part in table.parts)
    if len(name) == 1 and name[0].casefold() in ctes:
        return
    exists(name)
    ours = next((key for key, known in tables.items() if known == name), None)
    if ours is None:
        ours = f"__table_{len(tables)}"
        tables[ours] = name
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(name[-1], quoted=True)))
    table.set("this", exp.to_identifier(ours, quoted=True))
    table.set("db", None)
    table.set("catalog", None)
    _unqualify(table, name)


def _unqualify(table: Any, name: tuple[str, ...]) -> None:
    """Replace ``p.t.column`` by ``t.column``, the alias of the table."""
    from sqlglot import exp

    if len(name) == 1:
        return
    scope = table.find_ancestor(exp.Select)
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
    """Return which output columns are plain stored columns; ``None`` (a star): all may be."""
    from sqlglot import exp

    if not isinstance(query, exp.Select) or any(shown.is_star for shown in query.expressions):
        return None
    found: list[str | None] = []
    for shown in query.expressions:
        if isinstance(shown, exp.Aliases):
            return None  # one expression, several columns
        inner = shown.this if isinstance(shown, exp.Alias) else shown
        found.append(inner.name if isinstance(inner, exp.Column) else None)
    return tuple(found)
