"""Describes the FROM clause of a select as seen from one of its relations.

A *relation* is a node of the tree that gives rows: a table, the name of a CTE, a subquery.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odps_nb.schema import Column, TableSchema
from odps_nb.spark.pushdown.parse import ParsedQuery, fold

# Parts of a select that leave the meaning of its WHERE alone.
_KNOWN_PARTS = frozenset(
    {
        *("expressions", "from", "from_", "joins", "laterals", "where", "group", "having"),
        *("order", "sort", "cluster", "distribute", "limit", "offset", "distinct", "windows"),
        *("hint", "with", "with_", "qualify"),
    }
)
_KNOWN_TABLE_PARTS = frozenset({"this", "db", "catalog", "alias"})

#: What a select gives, by place: names, and the columns that are given unchanged.
Outputs = Sequence[tuple[str, Column | None]]
_SET_PARTS = frozenset({"this", "expression", "distinct", "order", "with", "with_"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One relation; ``schema`` is known for our own tables, and for what derives from one."""

    alias: str
    join: Any
    node: Any
    schema: TableSchema | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FromClause:
    """All relations of a FROM clause; ``place`` is that of the one in question."""

    select: Any
    all: tuple[Relation, ...]
    place: int
    shared: frozenset[str]  # columns of USING, and names that lateral views give
    natural: bool

    @property
    def own(self) -> Relation:
        """The relation in question."""
        return self.all[self.place]

    def nullable(self, before: int) -> bool:
        """Whether joins at places below ``before`` may replace the relation by nulls."""
        for place, one in enumerate(self.all[:before]):
            kind = kind_of(one.join)
            if kind == "full" and place >= self.place:
                return True
            if kind == "right" and place > self.place:
                return True
            if kind in ("left", "full") and place == self.place:
                return True
        return False


def kind_of(join: Any) -> str:
    """Return the kind of a join; the first relation has none."""
    if join is None:
        return "first"
    kind, side = fold(join.args.get("kind") or ""), fold(join.args.get("side") or "")
    if join.args.get("method") or kind not in ("", "inner", "outer", "cross", "semi", "anti"):
        return "unknown"
    if kind in ("semi", "anti"):
        return kind if side in ("", "left") else "unknown"
    if side in ("left", "right", "full"):
        return side
    return "cross" if kind == "cross" else "inner" if side == "" and kind != "outer" else "unknown"


def from_clause_of(
    query: ParsedQuery, node: Any, schemas: Mapping[int, TableSchema]
) -> FromClause | None:
    """Return the FROM clause around a relation; ``None`` where its form is not known.

    Parameters
    ----------
    schemas
        Known schemas of relations, by the id of their nodes.
    """
    from sqlglot import exp

    select = node.parent.parent if isinstance(node.parent, (exp.From, exp.Join)) else None
    if not isinstance(select, exp.Select):
        return None
    if {key for key, value in select.args.items() if value} - _KNOWN_PARTS:
        return None
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return None
    first: Any = select.args.get("from_") or select.args.get("from")
    joins = select.args.get("joins") or []
    items = [(first.this, None), *((join.this, join) for join in joins)]
    if any(kind_of(join) == "unknown" for _, join in items):
        return None
    if any(_has_more_than_a_name(item) for item, _ in items):
        return None
    found = tuple(
        Relation(alias=fold(item.alias_or_name), join=join, node=item, schema=schemas.get(id(item)))
        for item, join in items
    )
    if [one.alias for one in found].count(fold(node.alias_or_name)) != 1:
        return None
    return FromClause(
        select=select,
        all=found,
        place=next(i for i, one in enumerate(found) if one.node is node),
        shared=frozenset(_shared_names(select)),
        natural=any(join.args.get("method") for join in joins),
    )


def _has_more_than_a_name(item: Any) -> bool:
    """Whether filtering a relation, or one beside it, may change its other rows.

    A pivot is that of all relations before it, a join in brackets has names of its own.
    """
    from sqlglot import exp

    parts = {key for key, value in item.args.items() if value}
    return isinstance(item, (exp.Table, exp.Subquery)) and bool(parts - _KNOWN_TABLE_PARTS)


def _shared_names(select: Any) -> Iterator[str]:
    for join in select.args.get("joins") or ():
        for name in join.args.get("using") or ():
            yield fold(name.name)
    for lateral in select.args.get("laterals") or ():
        alias = lateral.args.get("alias")
        yield fold(alias.name if alias is not None else "")
        for name in (alias.args.get("columns") or ()) if alias is not None else ():
            yield fold(name.name)


def whole_operation(select: Any) -> Any | None:
    """Return the set operation around a select, or the select; ``None`` if it has a limit."""
    from sqlglot import exp

    top = select
    while True:
        parent = top.parent
        while _only_brackets(parent):
            parent = parent.parent
        if not isinstance(parent, exp.SetOperation):
            return top
        if {key for key, value in parent.args.items() if value} - _SET_PARTS:
            return None
        top = parent


def names_in_result(
    operation: Any, select: Any, outputs: Callable[[Any], Outputs | None]
) -> dict[str, Column]:
    """Return the columns of a select by their names in the result of the operation around it.

    Parameters
    ----------
    outputs
        Tells what a select gives; ``None`` where that is not sure.
    """
    selects = list(_selects(operation))
    found = [outputs(one) for one in selects]
    known = [one for one in found if one is not None]
    if len(known) < len(found) or len({len(one) for one in known}) != 1:
        return {}
    own = known[next(place for place, one in enumerate(selects) if one is select)]
    count = Counter(fold(name) for name, _ in known[0])
    names = {}
    for (name, _), (_, mine), *outputs_there in zip(known[0], own, *known, strict=True):
        given = [column for _, column in outputs_there]
        same = all(one is not None and mine is not None and one.type == mine.type for one in given)
        if mine is not None and same and count[fold(name)] == 1:
            names[name] = mine
    return names


def _selects(tree: Any) -> Iterator[Any]:
    """Yield the selects of a set operation, from left to right."""
    from sqlglot import exp

    while _only_brackets(tree):
        tree = tree.this
    if isinstance(tree, exp.SetOperation):
        yield from _selects(tree.this)
        yield from _selects(tree.expression)
    else:
        yield tree


def _only_brackets(node: Any) -> bool:
    from sqlglot import exp

    if not isinstance(node, exp.Subquery):
        return False
    return not {key for key, value in node.args.items() if value} - {"this"}
