"""Describes the FROM clause of a select, and finds the outer relations that read the select.

A *relation* is a tree node that produces rows: a table, a CTE name or a subquery. A condition can
be pushed into a select if its columns are output unchanged and dropping rows does not change the
result for other rows. So the select must not have a limit or window; if it groups rows, the
condition may use only the grouping keys.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from odps_nb.schema import Column, TableSchema
from odps_nb.spark.pushdown.parse import cte_of, fold, tables_of

# Clauses of an outer SELECT through which a condition can be pushed down.
_OPEN_PARTS = frozenset(
    {
        *("expressions", "from_", "joins", "laterals", "where", "group", "having", "order"),
        *("sort", "cluster", "distribute", "distinct", "hint", "with_"),
    }
)
# Clauses that do not prevent pushing down conditions of the SELECT's own WHERE.
_KNOWN_PARTS = _OPEN_PARTS | {"limit", "offset", "windows", "qualify"}
_KNOWN_TABLE_PARTS = frozenset({"this", "db", "catalog", "alias"})
_SET_PARTS = frozenset({"this", "expression", "distinct", "order", "with_"})

#: Output columns of a select by position: name, and the source column if it is unchanged.
Outputs = Sequence[tuple[str, Column | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """One relation; ``schema`` is known for ODPS tables and for relations derived from them."""

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


def _shared_names(select: Any) -> Iterator[str]:
    for join in select.args.get("joins") or ():
        for name in join.args.get("using") or ():
            yield fold(name.name)
    for lateral in select.args.get("laterals") or ():
        alias = lateral.args.get("alias")
        yield fold(alias.name if alias is not None else "")
        for name in (alias.args.get("columns") or ()) if alias is not None else ():
            yield fold(name.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterRelation:
    """A relation of an outer select; ``names`` maps its columns to those of the inner relation."""

    node: Any = field(repr=False)
    schema: TableSchema
    names: Mapping[str, str]


def outer_relations(
    tree: Any,
    clause: FromClause,
    column: Callable[[Any], Column | None],
    outputs: Callable[[Any], Outputs | None],
) -> list[OuterRelation]:
    """Return the outer relations that read a select; empty if any of them is unknown.

    ``column`` resolves an expression to a column of the relation; ``outputs`` returns the output
    columns of another select in the set operation.
    """
    from sqlglot import exp

    select, inside = clause.select, clause.own.schema
    windows = any(one.find(exp.Window) is not None for one in select.expressions)
    if windows or inside is None or parts_of(select) - _OPEN_PARTS:
        return []
    given, whole = _unchanged(clause, column), _whole_operation(select)
    if given and whole is not None and whole is not select:
        in_result = _names_in_result(whole, select, outputs)
        given = {name: one for name, one in in_result.items() if one in given.values()}
    if not given or whole is None:
        return []
    shown = [(replace(one, name=name), one) for name, one in given.items()]
    schema = TableSchema(
        columns=tuple(out for out, one in shown if one in inside.columns),
        partition_columns=tuple(out for out, one in shown if one in inside.partition_columns),
    )
    names = {name: one.name for name, one in given.items()}
    return [
        OuterRelation(node=node, schema=schema, names=names) for node in _referring(tree, whole)
    ]


def _unchanged(clause: FromClause, column: Callable[[Any], Column | None]) -> dict[str, Column]:
    """Return the columns of the relation that are output unchanged, by output name."""
    if kind_of(clause.own.join) in ("semi", "anti") or clause.natural:
        return {}
    shown, _ = outputs_of(clause, column)
    count = Counter(fold(name) for name, _ in shown)
    found = {name: one for name, one in shown if one is not None and count[fold(name)] == 1}
    group = clause.select.args.get("group")
    if group is None:
        return {} if clause.select.args.get("having") is not None else found
    if parts_of(group) - {"expressions"}:
        return {}  # CUBE, ROLLUP etc. replace values with nulls
    keys = [column(one) for one in group.expressions]
    return {name: one for name, one in found.items() if one in keys}


def outputs_of(clause: FromClause, column: Callable[[Any], Column | None]) -> tuple[Outputs, bool]:
    """Return the output columns of a select, and whether the list is complete."""
    from sqlglot import exp

    inside, is_all = clause.own.schema, len(clause.all) == 1 and not clause.shared
    found: list[tuple[str, Column | None]] = []
    for one in clause.select.expressions:
        star = one if isinstance(one, exp.Star) else getattr(one, "this", None)
        if isinstance(one, (exp.Star, exp.Column)) and isinstance(star, exp.Star):
            qualifier = fold(one.table) if isinstance(one, exp.Column) else clause.own.alias
            if inside is None or parts_of(star) or qualifier != clause.own.alias:
                is_all = False
            else:
                found += [(c.name, c) for c in inside if fold(c.name) not in clause.shared]
        elif isinstance(one, (exp.Column, exp.Alias)):
            found.append((one.alias_or_name, column(one.unalias())))
            is_all = is_all and one.find(exp.Star) is None
        else:  # the expression may expand to several columns
            found += [(str(name), None) for name in getattr(one, "aliases", ())]
            is_all = False
    return found, is_all


def _whole_operation(select: Any) -> Any | None:
    """Return the outermost set operation that contains a select, or the select itself.

    Return ``None`` if a set operation has a clause such as LIMIT.
    """
    from sqlglot import exp

    top = select
    while True:
        parent = top.parent
        while _only_brackets(parent):
            parent = parent.parent
        if not isinstance(parent, exp.SetOperation):
            return top
        if parts_of(parent) - _SET_PARTS:
            return None
        top = parent


def _names_in_result(
    operation: Any, select: Any, outputs: Callable[[Any], Outputs | None]
) -> dict[str, Column]:
    """Return the columns of a select, keyed by their names in the result of the set operation."""
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

    return isinstance(node, exp.Subquery) and parts_of(node) <= {"this"}


def _referring(tree: Any, select: Any) -> list[Any]:
    """Return the relations that refer to a query; empty if anything else uses the query."""
    from sqlglot import exp

    parent = select.parent
    while isinstance(parent, exp.Subquery) and isinstance(parent.parent, exp.Subquery):
        if not _only_brackets(parent):
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
