"""Extracts the conditions of a query that may be applied when one table is read.

Spark always runs the whole query over what was read, so a condition may be sent to the service
when every row that it drops is dropped by the query anyway. Such are conjuncts of WHERE, and of
ON where the join lets them; on the nullable side of an outer join only those that no null
satisfies. Conditions on a subquery or ``with`` entry concern the tables inside where these let
them through (`outer_predicates`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from odps_nb.access.reading.conditions import (
    AllOf,
    AnyOf,
    Compare,
    CompareDigits,
    Condition,
    IsIn,
    IsNull,
    Like,
    Negation,
    Value,
    may_be_null_tested,
    takes_pattern,
    takes_value,
)
from odps_nb.schema import Column, TableSchema, TypeCode
from odps_nb.spark.pushdown.literals import value_of
from odps_nb.spark.pushdown.outer_predicates import outer_relations
from odps_nb.spark.pushdown.parse import ParsedQuery, Reference, fold
from odps_nb.spark.pushdown.scopes import FromClause, from_clause_of, kind_of

__all__ = ["conditions_of", "where_is_covered"]

# What the nodes of a condition may have; anything else would give it another meaning.
_KNOWN_ARGS = frozenset(
    {"this", "expression", "expressions", "low", "high", "table", "db", "catalog"}
)
_MIRRORED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def conditions_of(
    query: ParsedQuery, reference: Reference, schemas: Mapping[Reference, TableSchema]
) -> tuple[Condition, ...]:
    """Return the conditions to send when reading one table reference."""
    if not (query.is_regular and query.is_repeatable):
        return ()
    known = {id(one.node): schema for one, schema in schemas.items()}
    return tuple(dict.fromkeys(_conditions(query, reference.node, known)))


def _conditions(
    query: ParsedQuery, node: Any, schemas: Mapping[int, TableSchema]
) -> Iterator[Condition]:
    """Yield the conditions on a relation, from its own select and outer ones."""
    clause = from_clause_of(query, node, schemas)
    if clause is None:
        return
    reader = _Extractor(query, clause)
    yield from reader.conditions()
    outers = outer_relations(query.tree, clause, reader.column)
    found = [
        [
            one.renamed(outer.names)
            for one in _conditions(query, outer.node, {**schemas, id(outer.node): outer.schema})
        ]
        for outer in outers
    ]
    nullable = clause.nullable(len(clause.all))
    for one in _wanted_by_all(found):
        if one.rejects_nulls() or not nullable:
            yield one


def _wanted_by_all(found: Sequence[Sequence[Condition]]) -> Iterator[Condition]:
    """Yield conditions that keep every row that any of several outer relations needs.

    Those over the same columns are put together, so that partitions are still chosen by them.
    """
    if len(found) == 1:
        yield from found[0]
        return
    for columns in dict.fromkeys(one.columns() for one in (found[0] if found else ())):
        parts = [tuple(one for one in some if one.columns() == columns) for some in found]
        if all(parts):
            yield AnyOf(tuple(AllOf(part) if len(part) > 1 else part[0] for part in parts))


def where_is_covered(
    query: ParsedQuery, reference: Reference, schemas: Mapping[Reference, TableSchema]
) -> bool:
    """Whether the conditions that may be sent are equivalent to the select's whole WHERE."""
    known = {id(one.node): schema for one, schema in schemas.items()}
    clause = from_clause_of(query, reference.node, known)
    if clause is None:
        return False
    reader = _Extractor(query, clause)
    where = clause.select.args.get("where")
    return where is None or all(reader.read(part) for part in _conjuncts(where.this))


def _conjuncts(tree: Any) -> list[Any]:
    from sqlglot import exp

    tree = tree.unnest()
    if not isinstance(tree, exp.And):
        return [tree]
    found: list[Any] = []
    for part in tree.flatten():  # as a loop: a list of conditions may be long
        found += _conjuncts(part) if isinstance(part, exp.Paren) else [part]
    return found


class _Extractor:
    """Extracts the conditions on one relation from the tree of its select."""

    def __init__(self, query: ParsedQuery, clause: FromClause) -> None:
        from sqlglot import exp

        self._texts, self._clause = query.plain_texts, clause
        self._own = clause.own
        assert self._own.schema is not None  # it is ours
        self._schema = self._own.schema
        self._qualifiers = [[self._own.alias]]
        node = self._own.node
        if isinstance(node, exp.Table) and node.args.get("alias") is None:
            self._qualifiers.append([fold(part.name) for part in node.parts])

    def conditions(self) -> Iterator[Condition]:
        """Yield the conditions that may be sent."""
        clause = self._clause
        where = clause.select.args.get("where")
        if where is not None and kind_of(self._own.join) not in ("semi", "anti"):
            yield from self._safe(where.this, nullable=clause.nullable(len(clause.all)))
        for place, one in enumerate(clause.all):
            on = one.join.args.get("on") if one.join is not None else None
            if on is not None and self._may_use(place, kind_of(one.join)):
                yield from self._safe(on, nullable=clause.nullable(place))

    def _may_use(self, place: int, kind: str) -> bool:
        """Whether the ON of the join at ``place`` filters the rows of the relation."""
        own = self._clause.place
        if own > place or self._behind_a_comma(own, place):
            return False
        if own == place:
            return kind in ("inner", "left", "semi", "anti")
        return kind in ("inner", "right", "semi")

    def _behind_a_comma(self, own: int, place: int) -> bool:
        """Whether the ON cannot refer to the relation, since a comma binds less than a join."""
        between = self._clause.all[own + 1 : place + 1]
        return any(kind_of(one.join) == "cross" for one in between)

    def _safe(self, tree: Any, *, nullable: bool) -> Iterator[Condition]:
        for part in _conjuncts(tree):
            condition = self.read(part)
            if condition is not None and (condition.rejects_nulls() or not nullable):
                yield condition

    # -- one condition ------------------------------------------------------------------------

    def read(self, tree: Any) -> Condition | None:
        """Return an expression as a condition; ``None`` if any part has an unknown form."""
        from sqlglot import exp

        tree = tree.unnest()
        if tree.args.get("negate"):  # how sqlglot may spell NOT inside of another node
            tree = tree.copy()
            tree.set("negate", None)
            inner = self.read(tree)
            return None if inner is None else Negation(inner)
        if {key for key, value in tree.args.items() if value} - _KNOWN_ARGS:
            return None
        if isinstance(tree, (exp.And, exp.Or)):
            parts = [self.read(part) for part in tree.flatten()]
            known = tuple(part for part in parts if part is not None)
            kind = AllOf if isinstance(tree, exp.And) else AnyOf
            return kind(known) if len(known) == len(parts) else None
        if isinstance(tree, exp.Not):
            inner = self.read(tree.this)
            return None if inner is None else Negation(inner)
        if isinstance(tree, exp.Column):
            return self._compare(tree, "=", True)
        if isinstance(tree, exp.Is):
            return self._is_null(tree)
        if isinstance(tree, exp.In):
            return self._is_in(tree)
        if isinstance(tree, exp.Between):
            return self._between(tree)
        if isinstance(tree, exp.Like):
            return self._is_like(tree)
        return self._comparison(tree)

    def _comparison(self, tree: Any) -> Condition | None:
        from sqlglot import exp

        signs = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
        sign = signs.get(type(tree))
        if sign is None:
            return None
        left, right = tree.left.unnest(), tree.right.unnest()
        if isinstance(left, exp.Column):
            return self._compare(left, sign, value_of(right, self._texts))
        return self._compare(right, _MIRRORED[sign], value_of(left, self._texts))

    def _is_null(self, tree: Any) -> Condition | None:
        from sqlglot import exp

        column = self.column(tree.this.unnest())
        if column is None or not isinstance(tree.expression, exp.Null):
            return None
        return IsNull(column.name) if may_be_null_tested(column) else None

    def _is_in(self, tree: Any) -> Condition | None:
        column = self.column(tree.this.unnest())
        values = [value_of(one.unnest(), self._texts) for one in tree.expressions]
        if column is None or not values:
            return None
        known = tuple(v for v in values if v is not None and takes_value(column, v))
        if len(known) == len(values):
            return IsIn(column.name, known)
        digits = [self._digits(column, "=", value) for value in values]
        parts = tuple(part for part in digits if part is not None)
        return AnyOf(parts) if len(parts) == len(values) else None

    def _is_like(self, tree: Any) -> Condition | None:
        from sqlglot import exp

        column, pattern = self.column(tree.this.unnest()), tree.expression.unnest()
        if column is None or not isinstance(pattern, exp.Literal):
            return None
        text = value_of(pattern, self._texts)
        known = isinstance(text, str) and takes_pattern(column, text)
        return Like(column.name, str(text)) if known else None

    def _between(self, tree: Any) -> Condition | None:
        column = tree.this.unnest()
        low = self._compare(column, ">=", value_of(tree.args["low"].unnest(), self._texts))
        high = self._compare(column, "<=", value_of(tree.args["high"].unnest(), self._texts))
        return None if low is None or high is None else AllOf((low, high))

    def _compare(self, tree: Any, sign: str, value: Value | None) -> Condition | None:
        column = self.column(tree)
        if column is None or value is None:
            return None
        if takes_value(column, value, sign):
            return Compare(column.name, sign, value)
        return self._digits(column, sign, value)

    def _digits(self, column: Column, sign: str, value: Value | None) -> Condition | None:
        text = column.type.code is TypeCode.STRING and column in self._schema.partition_columns
        if text and type(value) is int and abs(value) < 1 << 31:
            return CompareDigits(column.name, sign, value)
        return None

    def column(self, tree: Any) -> Column | None:
        """Return the column of the relation that a name certainly refers to."""
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
        # A relation that is not known may have it, too: then Spark refuses the query.
        having = [one for one in self._clause.all if one.schema and one.schema.find(name)]
        return column if having == [self._own] else None
