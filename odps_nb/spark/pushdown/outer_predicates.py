"""What a select gives on, and to whom: the way of a condition from outside to a table inside.

``select … from (select * from orders) where ds = '…'`` drops rows of ``orders``, though not where
they are read. A select lets such a condition through when it gives the column on as it is, and
when what it makes of the other rows is the same with and without those that the condition drops:
no limit, no window, and of groups only the columns that they are made by. Floor 5, pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from odps_nb.schema import Column, TableSchema
from odps_nb.spark.pushdown.parse import fold, source_of, tables_of
from odps_nb.spark.pushdown.scopes import Sources, kind_of

__all__ = ["Use", "uses_of"]

_KNOWN_PARTS = frozenset(
    {
        *("expressions", "from", "from_", "joins", "laterals", "where", "group", "having"),
        *("order", "sort", "cluster", "distribute", "distinct", "hint", "with", "with_"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A source of an outer select that has columns of an inner one.

    ``schema`` has only those; ``names`` says what each is called inside.
    """

    node: Any = field(repr=False)
    schema: TableSchema
    names: Mapping[str, str]


def uses_of(tree: Any, sources: Sources, column: Callable[[Any], Column | None]) -> list[Use]:
    """Return who reads what the select gives on of one source; empty unless that is all of them.

    Parameters
    ----------
    column
        Tells which column of the source an expression is.
    """
    if {key for key, value in sources.select.args.items() if value} - _KNOWN_PARTS:
        return []
    if _has_windows(sources.select):
        return []
    given = _given_on(sources, column)
    if not given:
        return []
    names = {shown: found.name for shown, found in given.items()}
    inside = sources.own.schema
    assert inside is not None  # it is ours, or derived from what is
    schema = TableSchema(
        columns=_as_shown(given, inside.columns),
        partition_columns=_as_shown(given, inside.partition_columns),
    )
    return [Use(node=node, schema=schema, names=names) for node in _readers(tree, sources.select)]


def _as_shown(given: Mapping[str, Column], columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(replace(one, name=shown) for shown, one in given.items() if one in columns)


def _has_windows(select: Any) -> bool:
    from sqlglot import exp

    return any(one.find(exp.Window) is not None for one in select.expressions)


# -- columns that are given on --------------------------------------------------------------------


def _given_on(sources: Sources, column: Callable[[Any], Column | None]) -> dict[str, Column]:
    """Return the columns of the source that come out as they are, by their names outside."""
    if kind_of(sources.own.join) in ("semi", "anti") or sources.natural:
        return {}
    shown = list(_shown(sources, column))
    count = Counter(fold(name) for name, _ in shown)
    found = {name: one for name, one in shown if one is not None and count[fold(name)] == 1}
    group = sources.select.args.get("group")
    if group is None:
        return {} if sources.select.args.get("having") is not None else found
    if {key for key, value in group.args.items() if value} - {"expressions"}:
        return {}  # cubes and the like put nulls in the place of values
    keys = [column(one) for one in group.expressions]
    return {name: one for name, one in found.items() if one in keys}


def _shown(
    sources: Sources, column: Callable[[Any], Column | None]
) -> Iterator[tuple[str, Column | None]]:
    """Yield name and column of what a select shows; ``None`` for what is not one of the source."""
    from sqlglot import exp

    inside = sources.own.schema
    assert inside is not None
    for one in sources.select.expressions:
        star = one if isinstance(one, exp.Star) else getattr(one, "this", None)
        if isinstance(one, (exp.Star, exp.Column)) and isinstance(star, exp.Star):
            changed = any(value for value in star.args.values())
            qualifier = fold(one.table) if isinstance(one, exp.Column) else sources.own.alias
            if not changed and qualifier == sources.own.alias:
                yield from ((c.name, c) for c in inside if fold(c.name) not in sources.shared)
        elif isinstance(one, (exp.Column, exp.Alias)):
            yield one.alias_or_name, column(one.unalias())
        elif isinstance(one, exp.Aliases):
            for name in one.aliases:
                yield str(name), None


# -- who reads ------------------------------------------------------------------------------------


def _readers(tree: Any, select: Any) -> list[Any]:
    """Return the sources that stand for a select in other ones; empty if anything else sees it."""
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
    return [table for table in tables_of(tree) if source_of(table) is parent]
