"""What a Spark query uses of a read: columns and filters, found in its optimized plan.

Spark pushes nothing into a read of ours, but Catalyst works out what could be: it prunes columns
right above the read and moves filters down to it. `use_of` looks there. It reads the JSON that
Spark writes of a plan, knows the operators that it may conclude from by name, and says nothing
about any other. Knows neither Spark's objects nor a notebook.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from odps_nb.schema import TableSchema
from odps_nb.spark.advice.predicates import condition_of, conjuncts
from odps_nb.spark.pushdown.conditions import Condition

__all__ = ["Node", "PlanUse", "use_of"]

#: Operators that name the columns that they give: what is below them ends there.
_NAMES_COLUMNS = frozenset({"Aggregate", "MapInArrow", "MapInPandas", "Project"})
#: Operators that give on all columns from below, and use those that their expressions name.
_PASSES_COLUMNS = frozenset(
    {
        "ArrowEvalPython",
        "BatchEvalPython",
        "Filter",
        "Generate",
        "GlobalLimit",
        "Join",
        "LocalLimit",
        "Repartition",
        "RepartitionByExpression",
        "Sample",
        "Sort",
        "Window",
    }
)
#: With one of these in the query, other rows to begin with may give other values.
_BY_PLACE = frozenset(
    {
        *("MonotonicallyIncreasingID", "Rand", "RandStr", "Randn", "Sample", "Shuffle"),
        *("SparkPartitionID", "Uniform", "Uuid"),
    }
)


@dataclass(slots=True)
class Node:
    """An operator or expression: the name of its class, its fields, its children."""

    kind: str
    fields: Mapping[str, Any]
    children: list[Node] = field(default_factory=list)

    @classmethod
    def of(cls, found: Sequence[Mapping[str, Any]]) -> Node:
        """Build the tree of a list in which each node stands before its children."""
        ready: list[Node] = []
        for fields in reversed(found):
            children = [ready.pop() for _ in range(int(fields["num-children"]))]
            ready.append(cls(str(fields["class"]).rpartition(".")[2], fields, children))
        (root,) = ready
        return root


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanUse:
    """What a query uses of one read.

    ``columns`` is ``None`` where all are used, or nothing is known. ``conditions`` are those that
    Spark applies to the rows as they come, that choose the same rows wherever they are applied.
    """

    columns: frozenset[str] | None = None
    conditions: tuple[Condition, ...] = ()


def use_of(plan: str, name: str, schema: TableSchema) -> PlanUse:
    """Return what a query uses of the read with that name.

    Parameters
    ----------
    plan
        The optimized plan, as ``toJSON`` of Spark writes it.
    name
        The name of the read's function in the plan.
    schema
        The columns that are read.

    Raises
    ------
    ValueError, KeyError, TypeError
        The text is not what Spark is known to write.
    """
    root = Node.of(json.loads(plan))
    paths = [path for path in _paths(root) if _is_read(path[-1], name)]
    used = [_columns(path, schema) for path in paths]
    known = [columns for columns in used if columns is not None]
    whole = not paths or len(known) < len(used)
    conditions: tuple[Condition, ...] = ()
    if len(paths) == 1 and not _depends_on_place(root):
        conditions = _conditions(paths[0], schema)
    return PlanUse(
        columns=None if whole else frozenset().union(*known),
        conditions=conditions,
    )


def _paths(root: Node) -> Iterator[list[Node]]:
    """Yield each node behind all that are above it."""
    waiting = [[root]]
    while waiting:
        path = waiting.pop()
        yield path
        waiting += [[*path, child] for child in path[-1].children]


def _is_read(node: Node, name: str) -> bool:
    if node.kind != "MapInArrow":
        return False
    function: Any = node.fields.get("functionExpr")
    return bool(function) and function[0].get("name") == name


def _columns(path: Sequence[Node], schema: TableSchema) -> frozenset[str] | None:
    *above, read = path
    names = {
        _id(attribute): str(attribute["name"])
        for attribute in _attributes(read.fields["output"])
        if schema.find(str(attribute["name"])) is not None
    }
    used: set[str] = set()
    for node in reversed(above):
        ends = node.kind in _NAMES_COLUMNS
        if not ends and node.kind not in _PASSES_COLUMNS:
            return None
        used |= {names[key] for key in map(_id, _attributes(node.fields)) if key in names}
        if ends:
            return frozenset(used)
    return None  # the query gives on what it read


def _conditions(path: Sequence[Node], schema: TableSchema) -> tuple[Condition, ...]:
    found: list[Condition] = []
    for node in reversed(path[:-1]):
        if node.kind != "Filter":
            break
        parts = [condition_of(one, schema) for one in conjuncts(Node.of(node.fields["condition"]))]
        found += [one for one in parts if one is not None and one not in found]
    return tuple(found)


def _depends_on_place(root: Node) -> bool:
    return any(
        str(one.get("class", "")).rpartition(".")[2] in _BY_PLACE
        or one.get("udfDeterministic") is False
        for path in _paths(root)
        for one in _mappings(path[-1].fields)
    )


def _attributes(value: Any) -> Iterator[Mapping[str, Any]]:
    for one in _mappings(value):
        if str(one.get("class", "")).endswith(".AttributeReference"):
            yield one


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all objects inside of a JSON value."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


def _id(attribute: Mapping[str, Any]) -> int:
    return int(attribute["exprId"]["id"])
