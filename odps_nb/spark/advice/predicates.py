"""Translates filters of a Spark plan into conditions that ``where=`` takes.

Only those of which Spark and this package must agree: the same rules as for the filters of
`odps_nb.spark.sql` (`odps_nb.spark.pushdown.conditions`).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from odps_nb.access.engines.comparable import Value, may_be_null_tested, takes_pattern, takes_value
from odps_nb.schema import Column, TableSchema
from odps_nb.spark.pushdown.conditions import (
    AllOf,
    AnyOf,
    Compare,
    Condition,
    IsIn,
    IsNull,
    Like,
    Negation,
)

if TYPE_CHECKING:
    from odps_nb.spark.advice.optimized import Node

__all__ = ["condition_of", "conjuncts"]

_SIGNS = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_TURNED = {"=": "=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}
_PATTERNS = {"Contains": "%{}%", "EndsWith": "%{}", "StartsWith": "{}%"}
_WHOLE = frozenset({"byte", "integer", "long", "short"})


def conjuncts(expression: Node) -> Iterator[Node]:
    """Yield the parts of a filter that all have to hold.

    Without the ``is not null`` that Catalyst adds for the columns of other parts.
    """
    parts: list[Node] = []
    waiting = [expression]
    while waiting:
        one = waiting.pop()
        if one.kind == "And":
            waiting += reversed(one.children)
        else:
            parts.append(one)
    told = {name for one in parts if one.kind != "IsNotNull" for name in _names(one)}
    for one in parts:
        if one.kind != "IsNotNull" or not told.issuperset(_names(one)):
            yield one


def condition_of(expression: Node, schema: TableSchema) -> Condition | None:
    """Return the condition, or ``None`` where the two sides may not agree."""
    kind, children = expression.kind, expression.children
    if kind in ("And", "Or"):
        parts = tuple(condition_of(one, schema) for one in children)
        known = tuple(one for one in parts if one is not None)
        if len(known) < len(parts):
            return None
        return AllOf(known) if kind == "And" else AnyOf(known)
    if kind == "Not":
        inner = condition_of(children[0], schema)
        return None if inner is None else Negation(inner)
    if kind == "AttributeReference":
        column = _column(expression, schema)
        fits = column is not None and takes_value(column, True)
        return Compare(column.name, "=", True) if column is not None and fits else None
    return _of_column(expression, schema)


def _of_column(expression: Node, schema: TableSchema) -> Condition | None:
    kind, children = expression.kind, expression.children
    if kind in _SIGNS and children[0].kind == "Literal":
        return _compared(children[1], _TURNED[_SIGNS[kind]], children[0], schema)
    if kind in _SIGNS:
        return _compared(children[0], _SIGNS[kind], children[1], schema)
    column = _column(children[0], schema) if children else None
    if column is None:
        return None
    if kind in ("IsNull", "IsNotNull"):
        if not may_be_null_tested(column):
            return None
        null = IsNull(column.name)
        return null if kind == "IsNull" else Negation(null)
    if kind == "In":
        values = tuple(_value(one) for one in children[1:])
        known = tuple(one for one in values if one is not None and takes_value(column, one))
        return IsIn(column.name, known) if len(known) == len(values) else None
    if kind in _PATTERNS:
        text = _value(children[1])
        if isinstance(text, str) and "%" not in text and takes_pattern(column, text):
            return Like(column.name, _PATTERNS[kind].format(text))
    return None


def _compared(left: Node, sign: str, right: Node, schema: TableSchema) -> Condition | None:
    column, value = _column(left, schema), _value(right)
    if column is None or value is None or not takes_value(column, value, sign):
        return None
    return Compare(column.name, sign, value)


def _column(node: Node, schema: TableSchema) -> Column | None:
    return schema.find(str(node.fields["name"])) if node.kind == "AttributeReference" else None


def _names(node: Node) -> set[str]:
    names = {str(node.fields["name"])} if node.kind == "AttributeReference" else set()
    return names.union(*map(_names, node.children))


def _value(node: Node) -> Value | None:
    """Return what a literal says; ``None`` for null, and for what Spark writes in its own way."""
    text, kind = node.fields.get("value"), node.fields.get("dataType")
    if node.kind != "Literal" or not isinstance(text, str) or not isinstance(kind, str):
        return None
    if kind in _WHOLE:
        return int(text)
    if kind == "string":
        return text
    if kind == "boolean":
        return text == "true"
    if kind == "date":
        return datetime.date.fromisoformat(text)
    return Decimal(text) if kind.startswith("decimal(") else None
