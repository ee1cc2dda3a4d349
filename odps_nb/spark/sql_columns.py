"""Which columns of a table a query can see (floor 5, pure).

A column whose name is no word of the query is used only through something that means all
columns: a star, a natural join, a pivot, or columns taken by their place. Everything that is not
known here counts as such.
"""

from __future__ import annotations

from typing import Any

from odps_nb.schema import Column, TableSchema, TypeCode
from odps_nb.spark.sql_text import WORD, ParsedQuery, Reference, fold, source_of

__all__ = ["used_columns"]

# What a value costs on the wire, roughly; what is not here costs more.
_CHEAP = (
    *(TypeCode.BOOLEAN, TypeCode.TINYINT, TypeCode.SMALLINT, TypeCode.INT, TypeCode.DATE),
    *(TypeCode.FLOAT, TypeCode.BIGINT, TypeCode.DOUBLE, TypeCode.DATETIME, TypeCode.TIMESTAMP),
    *(TypeCode.TIMESTAMP_NTZ, TypeCode.DECIMAL, TypeCode.CHAR, TypeCode.VARCHAR),
)


def used_columns(query: ParsedQuery, reference: Reference, schema: TableSchema) -> tuple[str, ...]:
    """Return the columns that must be read, in the table's order; at least one data column."""
    if not query.is_regular or _all_seen(query.tree, reference.node):
        return schema.names
    named = [column for column in schema if _is_named(query, fold(column.name))]
    if not any(column in schema.columns for column in named):
        named.append(_cheapest(schema))  # rows without any data column cannot be asked for
    return tuple(column.name for column in schema if column in named)


def _is_named(query: ParsedQuery, name: str) -> bool:
    # A name that is no single word is not looked for: it cannot be among them.
    return name in query.words or not WORD.fullmatch(name)


def _cheapest(schema: TableSchema) -> Column:
    def cost(column: Column) -> int:
        code = column.type.code
        return _CHEAP.index(code) if code in _CHEAP else len(_CHEAP)

    return min(schema.columns, key=cost)


def _all_seen(tree: Any, source: Any) -> bool:
    """Whether all columns of a source of rows reach somebody who does not name them."""
    from sqlglot import exp

    place, select = source, source.parent
    # from (a join b …): the names inside are those of the select around it
    while isinstance(select, (exp.Paren, exp.Join, exp.From, exp.Table, exp.Subquery)):
        if isinstance(select, exp.Join) and _by_common_names(select):
            return True
        if isinstance(select, exp.Subquery) and select.args.get("alias") is not None:
            return True
        place, select = select, select.parent
    if not isinstance(select, exp.Select) or place.arg_key not in ("from", "from_", "joins"):
        return True
    if _by_place(source) or any(_by_common_names(join) for join in select.args.get("joins") or ()):
        return True
    if any(one.args.get("pivots") for one in select.find_all(exp.Table, exp.Subquery)):
        return True
    stars = [star for star in map(_star_of, select.expressions) if star is not None]
    if _hidden_star(select, stars):
        return True
    mine = {"", fold(source.alias_or_name)}
    return any(fold(qualifier) in mine for qualifier, _ in stars) and _output_seen(tree, select)


def _by_common_names(join: Any) -> bool:
    return bool(join.args.get("method"))  # natural


def _by_place(source: Any) -> bool:
    alias = source.args.get("alias")
    return alias is not None and bool(alias.args.get("columns"))


def _star_of(projection: Any) -> tuple[str, Any] | None:
    """Return the qualifier of ``*`` or ``t.*`` (also of a struct) with its node."""
    from sqlglot import exp

    if isinstance(projection, exp.Star):
        return "", projection
    if isinstance(projection, exp.Column) and isinstance(projection.this, exp.Star):
        return projection.table, projection.this
    return None


def _hidden_star(select: Any, known: list[tuple[str, Any]]) -> bool:
    """Whether there is a star inside an expression, other than that of ``count(*)``."""
    from sqlglot import exp

    shown = {id(node) for _, node in known}
    for star in select.find_all(exp.Star):
        if star.parent_select is not select or id(star) in shown:
            continue
        if not (isinstance(star.parent, exp.Count) and star.arg_key == "this"):
            return True
    return False


def _output_seen(tree: Any, select: Any) -> bool:
    """Whether somebody sees the columns that a select gives, without naming them."""
    from sqlglot import exp

    if select.args.get("distinct") is not None:
        return True
    place: Any = select
    while isinstance(place.parent, exp.Subquery) and not _is_source(place.parent):
        place = place.parent
    parent = place.parent
    if isinstance(parent, exp.Exists):
        return False
    if isinstance(parent, exp.Subquery):
        return _by_place(parent) or _all_seen(tree, parent)
    if isinstance(parent, exp.CTE):
        if _by_place(parent):
            return True
        users = (table for table in tree.find_all(exp.Table) if source_of(table) is parent)
        return any(_all_seen(tree, user) for user in users)
    return True  # the result itself, or unions, which go by place


def _is_source(subquery: Any) -> bool:
    from sqlglot import exp

    return isinstance(subquery.parent, (exp.From, exp.Join))
