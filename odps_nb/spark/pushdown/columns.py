"""Finds the columns of a table that a query may use.

A column that the query does not name is used only if a construct covers all columns: a star, a
natural join, a pivot, or access by position. Unknown constructs are assumed to cover all columns.
"""

from __future__ import annotations

from typing import Any

from odps_nb.schema import TableSchema
from odps_nb.spark.pushdown.parse import WORD, ParsedQuery, Reference, cte_of, fold, tables_of
from odps_nb.spark.pushdown.scopes import parts_of
from odps_nb.type_facts import TYPE_FACTS


def used_columns(query: ParsedQuery, reference: Reference, schema: TableSchema) -> tuple[str, ...]:
    """Return the columns to read, in the table's order, with at least one data column."""
    if not query.is_regular or _all_used(query.tree, reference.node):
        return schema.names
    named = []
    for column in schema:
        name = fold(column.name)
        # `words` contains only single words, so any other name is always treated as used.
        if name in query.words or not WORD.fullmatch(name):
            named.append(column)
    if not any(column in schema.columns for column in named):
        # the service requires at least one data column
        named.append(
            min(schema.columns, key=lambda column: TYPE_FACTS[column.type.code].width or 64)
        )
    return tuple(column.name for column in schema if column in named)


def _all_used(tree: Any, relation: Any) -> bool:
    """Whether all columns of a relation may be used without being named."""
    from sqlglot import exp

    child, select = relation, relation.parent
    # In `from (a join b …)`, the names inside belong to the enclosing select.
    while isinstance(select, (exp.Paren, exp.Join, exp.From, exp.Table, exp.Subquery)):
        if isinstance(select, exp.Join) and select.args.get("method"):
            return True
        if isinstance(select, exp.Subquery) and select.args.get("alias") is not None:
            return True
        child, select = select, select.parent
    if not isinstance(select, exp.Select) or child.arg_key not in ("from_", "joins"):
        return True
    natural = any(join.args.get("method") for join in select.args.get("joins") or ())
    if natural or _by_place(relation):
        return True
    if any(table.args.get("pivots") for table in select.find_all(exp.Table, exp.Subquery)):
        return True
    stars = [star for star in map(_star_of, select.expressions) if star is not None]
    if _hidden_star(select, stars):
        return True
    mine = {"", fold(relation.alias_or_name)}
    shown = [star for qualifier, star in stars if fold(qualifier) in mine]
    # If fewer columns were read, `* except (…)` could exclude all of them.
    if any(any(star.args.values()) for star in shown):
        return True
    return bool(shown) and (_by_output(select) or _output_used(tree, select))


def _by_place(relation: Any) -> bool:
    alias = relation.args.get("alias")
    return alias is not None and bool(alias.args.get("columns"))


def _star_of(projection: Any) -> tuple[str, Any] | None:
    """Return the qualifier and node of ``*`` or ``t.*`` (``t`` may be a struct)."""
    from sqlglot import exp

    if isinstance(projection, exp.Star):
        return "", projection
    if isinstance(projection, exp.Column) and isinstance(projection.this, exp.Star):
        return projection.table, projection.this
    return None


def _hidden_star(select: Any, known: list[tuple[str, Any]]) -> bool:
    """Whether a ``*`` in an expression or a nested SELECT expands to columns of this SELECT.

    The ``*`` of ``count(*)`` is ignored.
    """
    from sqlglot import exp

    shown = {id(node) for _, node in known}
    for star in select.find_all(exp.Star):
        around = star.parent_select
        if id(star) in shown or _is_counted(star):
            continue
        if around is select or not _is_of(around, star):
            return True
    return False


def _is_counted(star: Any) -> bool:
    from sqlglot import exp

    count = star.parent
    return isinstance(count, exp.Count) and parts_of(count) <= {"this", "big_int"}


def _is_of(select: Any, star: Any) -> bool:
    """Whether a star expands to columns of this select."""
    from sqlglot import exp

    first = select.args.get("from_")
    if first is None:
        return False
    named = star.parent.table if isinstance(star.parent, exp.Column) else ""
    joined = (join.this for join in select.args.get("joins") or ())
    return not named or fold(named) in {
        fold(relation.alias_or_name) for relation in (first.this, *joined)
    }


def _by_output(select: Any) -> bool:
    """Whether DISTINCT, GROUP BY or ORDER BY depends on the columns that stars expand to."""
    from sqlglot import exp

    if any(select.args.get(part) is not None for part in ("distinct", "group", "having")):
        return True
    clauses = (select.args.get(part) for part in ("order", "sort", "distribute", "cluster"))
    keys = (key for clause in clauses if clause is not None for key in clause.expressions)
    return any(key.find(exp.Column) is None for key in keys)


def _output_used(tree: Any, select: Any) -> bool:
    """Whether output columns of a select may be used without being named."""
    from sqlglot import exp

    node: Any = select
    while isinstance(node.parent, exp.Subquery) and not isinstance(
        node.parent.parent, (exp.From, exp.Join)
    ):
        node = node.parent
    parent = node.parent
    if isinstance(parent, exp.Exists):
        return False
    if isinstance(parent, exp.Subquery):
        return _by_place(parent) or _all_used(tree, parent)
    if isinstance(parent, exp.CTE):
        if _by_place(parent):
            return True
        users = (table for table in tables_of(tree) if cte_of(table) is parent)
        return any(_all_used(tree, user) for user in users)
    return True  # the query's result, or part of a union, which matches columns by position
