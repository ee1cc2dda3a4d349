"""Which columns of a select are columns of the UNION (EXCEPT, INTERSECT) that it is part of.

A condition on the result of a set operation may be applied to each of its selects: a row that it
drops there could only have become a row that it drops. The columns of the result go by place, are
named by the first select, and have a type that all selects have in common; so a place counts
where every select gives a column of one and the same type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from odps_nb.schema import Column
from odps_nb.spark.pushdown.parse import fold

__all__ = ["Outputs", "names_in_result", "whole_operation"]

#: What a select gives, by place: names, and the columns that are given unchanged.
Outputs = Sequence[tuple[str, Column | None]]

_KNOWN_PARTS = frozenset({"this", "expression", "distinct", "order", "with", "with_"})


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
        if {key for key, value in parent.args.items() if value} - _KNOWN_PARTS:
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
