"""Pushes outer predicates through subqueries, CTEs and set operations.

``select … from (select * from orders) where ds = '…'`` drops rows of ``orders``, though not where
they are read. A select lets such a predicate through when it returns the column unchanged, and
its result for the other rows does not depend on the dropped ones: no limit, no window, and of a
grouping only the keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from odps_nb.schema import Column, TableSchema
from odps_nb.spark.pushdown.parse import cte_of, fold, tables_of
from odps_nb.spark.pushdown.scopes import (
    FromClause,
    Outputs,
    kind_of,
    names_in_result,
    whole_operation,
)

_KNOWN_PARTS = frozenset(
    {
        *("expressions", "from", "from_", "joins", "laterals", "where", "group", "having"),
        *("order", "sort", "cluster", "distribute", "distinct", "hint", "with", "with_"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterRelation:
    """A relation of an outer select that has columns of an inner one.

    ``schema`` has only those; ``names`` says what each is called inside.
    """

    node: Any = field(repr=False)
    schema: TableSchema
    names: Mapping[str, str]


def outer_relations(
    tree: Any,
    clause: FromClause,
    column: Callable[[Any], Column | None],
    outputs: Callable[[Any], Outputs | None],
) -> list[OuterRelation]:
    """Return the outer relations that read a select; empty unless all of them are known.

    Parameters
    ----------
    column
        Tells which column of the relation an expression is.
    outputs
        Tells what the other selects of a set operation give.
    """
    if {key for key, value in clause.select.args.items() if value} - _KNOWN_PARTS:
        return []
    if _has_windows(clause.select):
        return []
    given, whole = _unchanged(clause, column), whole_operation(clause.select)
    if given and whole is not None and whole is not clause.select:
        in_result = names_in_result(whole, clause.select, outputs)
        given = {name: one for name, one in in_result.items() if one in given.values()}
    if not given or whole is None:
        return []
    names = {shown: found.name for shown, found in given.items()}
    inside = clause.own.schema
    assert inside is not None  # it is ours, or derived from what is
    schema = TableSchema(
        columns=_as_shown(given, inside.columns),
        partition_columns=_as_shown(given, inside.partition_columns),
    )
    return [
        OuterRelation(node=node, schema=schema, names=names) for node in _referring(tree, whole)
    ]


def _as_shown(given: Mapping[str, Column], columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(replace(one, name=shown) for shown, one in given.items() if one in columns)


def _has_windows(select: Any) -> bool:
    from sqlglot import exp

    return any(one.find(exp.Window) is not None for one in select.expressions)


# -- columns that are output unchanged ------------------------------------------------------------


def _unchanged(clause: FromClause, column: Callable[[Any], Column | None]) -> dict[str, Column]:
    """Return the columns of the relation that are output unchanged, by output name."""
    if kind_of(clause.own.join) in ("semi", "anti") or clause.natural:
        return {}
    shown = list(_outputs(clause, column))
    count = Counter(fold(name) for name, _ in shown)
    found = {name: one for name, one in shown if one is not None and count[fold(name)] == 1}
    group = clause.select.args.get("group")
    if group is None:
        return {} if clause.select.args.get("having") is not None else found
    if {key for key, value in group.args.items() if value} - {"expressions"}:
        return {}  # cubes and the like put nulls in the place of values
    keys = [column(one) for one in group.expressions]
    return {name: one for name, one in found.items() if one in keys}


def _outputs(
    clause: FromClause, column: Callable[[Any], Column | None]
) -> Iterator[tuple[str, Column | None]]:
    """Yield each output of a select with its column; ``None`` if it is not one of the relation."""
    from sqlglot import exp

    inside = clause.own.schema
    assert inside is not None
    for one in clause.select.expressions:
        star = one if isinstance(one, exp.Star) else getattr(one, "this", None)
        if isinstance(one, (exp.Star, exp.Column)) and isinstance(star, exp.Star):
            changed = any(value for value in star.args.values())
            qualifier = fold(one.table) if isinstance(one, exp.Column) else clause.own.alias
            if not changed and qualifier == clause.own.alias:
                yield from ((c.name, c) for c in inside if fold(c.name) not in clause.shared)
        elif isinstance(one, (exp.Column, exp.Alias)):
            yield one.alias_or_name, column(one.unalias())
        elif isinstance(one, exp.Aliases):
            for name in one.aliases:
                yield str(name), None


# -- who reads ------------------------------------------------------------------------------------


def _referring(tree: Any, select: Any) -> list[Any]:
    """Return the relations that refer to a query; empty if anything else uses it."""
    from sqlglot import exp

    parent = select.parent
    while isinstance(parent, exp.Subquery) and isinstance(parent.parent, exp.Subquery):
        if {key for key, value in parent.args.items() if value} - {"this"}:
            return []
        parent = parent.parent
    if isinstance(parent, exp.Subquery):
        return [parent]
    clause = parent.parent if isinstance(parent, exp.CTE) else None
    if clause is None or clause.args.get("recursive"):
        return []
    alias = parent.args.get("alias")
    if alias is None or alias.args.get("columns"):
        return []
    return [table for table in tables_of(tree) if cte_of(table) is parent]
