"""Describes the FROM clause of a select.

A *relation* is a tree node that produces rows: a table, a CTE name or a subquery.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from odps_nb.schema import TableSchema
from odps_nb.spark.pushdown.parse import fold

# Clauses that do not prevent pushing down conditions of the SELECT's own WHERE.
_KNOWN_PARTS = frozenset(
    {
        *("expressions", "from_", "joins", "laterals", "where", "group", "having", "order"),
        *("sort", "cluster", "distribute", "distinct", "hint", "with_"),
        *("limit", "offset", "windows", "qualify"),
    }
)
_KNOWN_TABLE_PARTS = frozenset({"this", "db", "catalog", "alias"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One relation; ``schema`` is known for ODPS tables."""

    alias: str
    join: Any
    node: Any
    schema: TableSchema | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FromClause:
    """All relations in a FROM clause; ``place`` is the index of the analysed relation."""

    select: Any
    all: tuple[Relation, ...]
    place: int
    shared: frozenset[str]  # columns in USING, and output names of lateral views
    natural: bool

    @property
    def own(self) -> Relation:
        """The analysed relation."""
        return self.all[self.place]

    def nullable(self, before: int) -> bool:
        """Whether a join before index ``before`` may replace the relation's rows with nulls."""
        for index, relation in enumerate(self.all[:before]):
            kind = kind_of(relation.join)
            if kind == "full" and index >= self.place:
                return True
            if kind == "right" and index > self.place:
                return True
            if kind in ("left", "full") and index == self.place:
                return True
        return False


def kind_of(join: Any) -> str:
    """Return the kind of a join; the first relation has no join."""
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


def parts_of(node: Any) -> set[str]:
    """Return the names of the arguments that are set in a node."""
    return {key for key, value in node.args.items() if value}


def from_clause_of(node: Any, schemas: Mapping[int, TableSchema]) -> FromClause | None:
    """Return the FROM clause that contains a relation; ``None`` if its form is unsupported.

    ``schemas`` maps the node ids of known relations to their schemas.
    """
    from sqlglot import exp

    select = node.parent.parent if isinstance(node.parent, (exp.From, exp.Join)) else None
    if not isinstance(select, exp.Select) or parts_of(select) - _KNOWN_PARTS:
        return None
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return None
    joins = select.args.get("joins") or []
    items = [(select.args["from_"].this, None), *((join.this, join) for join in joins)]
    if any(kind_of(join) == "unknown" for _, join in items):
        return None
    named = (item for item, _ in items if isinstance(item, (exp.Table, exp.Subquery)))
    if any(parts_of(item) - _KNOWN_TABLE_PARTS for item in named):
        return None  # filtering may change the result of a sample, a pivot, …
    relations = tuple(
        Relation(alias=fold(item.alias_or_name), join=join, node=item, schema=schemas.get(id(item)))
        for item, join in items
    )
    if [relation.alias for relation in relations].count(fold(node.alias_or_name)) != 1:
        return None
    return FromClause(
        select=select,
        all=relations,
        place=next(i for i, relation in enumerate(relations) if relation.node is node),
        shared=frozenset(_shared_names(select)),
        natural=any(join.args.get("method") for join in joins),
    )


def _shared_names(select: Any) -> Iterator[str]:
    for join in select.args.get("joins") or ():
        for name in join.args.get("using") or ():
            yield fold(name.name)
    for lateral in select.args.get("laterals") or ():
        alias = lateral.args.get("alias")
        yield fold(alias.name if alias is not None else "")
        for name in (alias.args.get("columns") or ()) if alias is not None else ():
            yield fold(name.name)
