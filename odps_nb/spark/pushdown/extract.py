"""Extracts the conditions of a query that may be applied when one table is read.

Spark runs the whole query over the rows read, so a condition may be applied early if the query
drops the same rows anyway. This applies to conjuncts of WHERE, and of ON if the join type allows
it. On the nullable side of an outer join, it applies only to conditions that nulls do not satisfy.
Conditions on a subquery or CTE are not applied to the tables inside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from odps_nb.access.engines.comparable import Value, may_be_null_tested
from odps_nb.filters.parse import column_value
from odps_nb.filters.tree import AllOf, AnyOf, IsNull, Node, Not
from odps_nb.schema import Column, TableSchema
from odps_nb.spark.pushdown.comparisons import Moment, compare, is_in, like, value_of
from odps_nb.spark.pushdown.conditions import Computed, computed_of, rejects_nulls
from odps_nb.spark.pushdown.parse import ParsedQuery, Reference, fold
from odps_nb.spark.pushdown.scopes import FromClause, from_clause_of, kind_of, parts_of

# Arguments allowed in a condition's nodes; any other argument may change the meaning.
_KNOWN_ARGS = frozenset(
    {"this", "expression", "expressions", "low", "high", "table", "db", "catalog"}
)
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def conditions_of(
    query: ParsedQuery, reference: Reference, schemas: Mapping[Reference, TableSchema]
) -> tuple[Node, ...]:
    """Return the conditions to push down when reading one table reference."""
    if not (query.is_regular and query.is_repeatable):
        return ()
    known = {id(key.node): schema for key, schema in schemas.items()}
    clause = from_clause_of(reference.node, known)
    return () if clause is None else tuple(dict.fromkeys(_Extractor(query, clause).conditions()))


def where_is_covered(
    query: ParsedQuery, reference: Reference, schemas: Mapping[Reference, TableSchema]
) -> bool:
    """Whether every conjunct of the select's WHERE can be pushed down."""
    known = {id(key.node): schema for key, schema in schemas.items()}
    clause = from_clause_of(reference.node, known)
    if clause is None:
        return False
    reader = _Extractor(query, clause)
    where = clause.select.args.get("where")
    if where is None:
        return True
    return all(reader.read(part) or reader.computed(part) for part in _conjuncts(where.this))


def _conjuncts(tree: Any) -> list[Any]:
    from sqlglot import exp

    tree = tree.unnest()
    if not isinstance(tree, exp.And):
        return [tree]
    conjuncts: list[Any] = []
    for part in tree.flatten():  # a loop, because a long list would exceed the recursion limit
        conjuncts += _conjuncts(part) if isinstance(part, exp.Paren) else [part]
    return conjuncts


class _Extractor:
    """Extracts the conditions on one relation from the tree of the SELECT that reads it."""

    def __init__(self, query: ParsedQuery, clause: FromClause) -> None:
        from sqlglot import exp

        self._query, self._texts, self._clause = query, query.plain_texts, clause
        self._own = clause.own
        assert self._own.schema is not None  # the relation is an ODPS table
        self._schema = self._own.schema
        self._qualifiers = [[self._own.alias]]
        node = self._own.node
        if isinstance(node, exp.Table) and node.args.get("alias") is None:
            self._qualifiers.append([fold(part.name) for part in node.parts])

    def conditions(self) -> Iterator[Node]:
        """Yield the conditions that can be pushed down."""
        clause = self._clause
        where = clause.select.args.get("where")
        if where is not None and kind_of(self._own.join) not in ("semi", "anti"):
            yield from self._safe(where.this, nullable=clause.nullable(len(clause.all)))
        for index, relation in enumerate(clause.all):
            on = relation.join.args.get("on") if relation.join is not None else None
            if on is not None and self._may_use(index, kind_of(relation.join)):
                yield from self._safe(on, nullable=clause.nullable(index))

    def _may_use(self, index: int, kind: str) -> bool:
        """Whether the ON clause of the join at ``index`` filters the rows of the relation."""
        own = self._clause.place
        between = self._clause.all[own + 1 : index + 1]
        # ON cannot refer to a relation before a comma, which binds less tightly than a join
        if own > index or any(kind_of(relation.join) == "cross" for relation in between):
            return False
        if own == index:
            return kind in ("inner", "left", "semi", "anti")
        return kind in ("inner", "right", "semi")

    def _safe(self, tree: Any, *, nullable: bool) -> Iterator[Node]:
        for part in _conjuncts(tree):
            condition = self.read(part) or self.computed(part)
            if condition is not None and (rejects_nulls(condition) or not nullable):
                yield condition

    def computed(self, tree: Any) -> Computed | None:
        """Return an expression over partition columns as a condition that Spark evaluates."""
        from sqlglot import exp

        nodes = ((node, self.column(node)) for node in tree.find_all(exp.Column))
        keys = self._schema.partition_columns
        columns = {
            id(node): column for node, column in nodes if column is not None and column in keys
        }
        return computed_of(self._query, tree, self._own.alias, columns) if columns else None

    def read(self, tree: Any, *, negated: bool = False) -> Node | None:
        """Return an expression as a condition; ``None`` if any part has an unsupported form.

        The condition keeps each row that the expression keeps; if ``negated``, it keeps no other
        rows.
        """
        from sqlglot import exp

        tree = tree.unnest()
        if tree.args.get("negate"):  # sqlglot may store NOT as an argument of another node
            tree = tree.copy()
            tree.set("negate", None)
            inner = self.read(tree, negated=True)
            return None if inner is None else Not(inner)
        if parts_of(tree) - _KNOWN_ARGS:
            return None
        if isinstance(tree, (exp.And, exp.Or)):
            parts = [self.read(part, negated=negated) for part in tree.flatten()]
            known = tuple(part for part in parts if part is not None)
            kind = AllOf if isinstance(tree, exp.And) else AnyOf
            return kind(known) if len(known) == len(parts) else None
        if isinstance(tree, exp.Not):
            inner = self.read(tree.this, negated=True)
            return None if inner is None else Not(inner)
        if isinstance(tree, exp.Column):
            return self._compare(tree, "=", True, negated=negated)
        if isinstance(tree, exp.Is):
            return self._is_null(tree)
        if isinstance(tree, exp.In):
            return self._is_in(tree, negated=negated)
        if isinstance(tree, exp.Between):
            return self._between(tree, negated=negated)
        if isinstance(tree, exp.Like):
            return self._is_like(tree)
        return self._comparison(tree, negated=negated)

    def _comparison(self, tree: Any, *, negated: bool) -> Node | None:
        from sqlglot import exp

        signs = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
        sign = signs.get(type(tree))
        if sign is None:
            return None
        left, right = tree.left.unnest(), tree.right.unnest()
        if isinstance(left, exp.Column):
            return self._compare(left, sign, value_of(right, self._texts), negated=negated)
        return self._compare(right, _MIRRORED[sign], value_of(left, self._texts), negated=negated)

    def _is_null(self, tree: Any) -> Node | None:
        from sqlglot import exp

        column = self.column(tree.this.unnest())
        if column is None or not isinstance(tree.expression, exp.Null):
            return None
        return IsNull(column_value(column)) if may_be_null_tested(column) else None

    def _is_in(self, tree: Any, *, negated: bool) -> Node | None:
        column = self.column(tree.this.unnest())
        values = [value_of(item.unnest(), self._texts) for item in tree.expressions]
        known = [value for value in values if value is not None]
        if column is None or not values or len(known) < len(values):
            return None
        return is_in(column, known, self._query.zone, negated=negated)

    def _is_like(self, tree: Any) -> Node | None:
        from sqlglot import exp

        column, pattern = self.column(tree.this.unnest()), tree.expression.unnest()
        if column is None or not isinstance(pattern, exp.Literal):
            return None
        text = value_of(pattern, self._texts)
        return like(column, text) if isinstance(text, str) else None

    def _between(self, tree: Any, *, negated: bool) -> Node | None:
        column = tree.this.unnest()
        low, high = (value_of(tree.args[bound].unnest(), self._texts) for bound in ("low", "high"))
        first = self._compare(column, ">=", low, negated=negated)
        last = self._compare(column, "<=", high, negated=negated)
        return None if first is None or last is None else AllOf((first, last))

    def _compare(
        self, tree: Any, sign: str, value: Value | Moment | None, *, negated: bool
    ) -> Node | None:
        column = self.column(tree)
        if column is None or value is None:
            return None
        return compare(column, sign, value, self._query.zone, negated=negated)

    def column(self, tree: Any) -> Column | None:
        """Return the relation's column that a name refers to; ``None`` if ambiguous or unknown."""
        from sqlglot import exp

        if not isinstance(tree, exp.Column) or not isinstance(tree.this, exp.Identifier):
            return None
        column = self._schema.find(tree.name)
        qualifier = [fold(part.name) for part in tree.parts[:-1]]
        if column is None:
            return None
        if qualifier:
            return column if qualifier in self._qualifiers else None
        name = fold(tree.name)
        if self._clause.natural or name in self._clause.shared:
            return None
        # If an unknown relation also has the column, Spark rejects the query as ambiguous.
        having = [
            relation
            for relation in self._clause.all
            if relation.schema and relation.schema.find(name)
        ]
        return column if having == [self._own] else None
