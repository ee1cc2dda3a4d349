"""Inspects and changes sqlglot trees: operands, branches, positions, calls and node marks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp

MARK = "odps_nb"
"""Key in a node's ``meta``; the value is a number that identifies the node's type (-1: unknown)."""
CALLED = "called"
"""Key in a node's ``meta``; the value is the lower-case name of the function that it calls."""
COMPARISONS: Any = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
)
ARITHMETIC: Any = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
# names of types, as `type_name` returns them
TEXTS = ("TEXT", "VARCHAR", "CHAR")
BYTES = ("BINARY", "VARBINARY")
WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
REALS = ("DOUBLE", "FLOAT", "DECIMAL")


def call(name: str, *arguments: Any) -> Any:
    """Return a call to a DuckDB function or macro."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def cast(value: Any, name: str, kind: Any = exp.Cast) -> Any:
    """Return a cast to a type without parameters, such as ``TIMESTAMP_MS``."""
    return kind(this=value, to=exp.DataType(this=exp.DataType.Type[name]))


def type_name(kind: Any) -> str:
    """Return the name of a sqlglot type, such as ``DATETIME``; ``""`` if there is none."""
    return str(getattr(getattr(kind, "this", None), "name", ""))


def members_of(kind: Any) -> frozenset[str]:
    """Return the lower-case members of a STRUCT type, or of the STRUCTs in an ARRAY or MAP."""
    while type_name(kind) in ("ARRAY", "LIST", "MAP") and kind.expressions:
        kind = kind.expressions[-1]
    members = kind.expressions if type_name(kind) == "STRUCT" else ()
    return frozenset(member.name.casefold() for member in members)


def forget(node: Any) -> None:
    """Mark the type of a node as unknown, because the node was changed."""
    node.meta[MARK] = -1


def wrap(node: Any, make: Callable[[Any], Any], *, mark_of: Any = None, typed: bool = True) -> None:
    """Replace a node with an expression built from it; with ``typed``, keep the node's type."""
    placeholder = exp.Placeholder()
    node.replace(placeholder)
    replacement = make(node)
    replacement.meta[MARK] = (mark_of or node).meta.get(MARK, -1) if typed else -1
    placeholder.replace(replacement)


def place_of(node: Any) -> tuple[int, int]:
    """Return the line and column of a node's first character; (1, 1) if unknown."""
    meta = node.meta
    if "col" not in meta:
        return 1, 1
    return meta["line"], max(1, meta["col"] - (meta["end"] - meta["start"]))


def operands(node: Any, *, computed: bool = False) -> Iterator[list[Any]]:
    """Yield lists of operands that share a type; ``computed`` adds arithmetic and `choices`."""
    if isinstance(node, COMPARISONS) or (computed and isinstance(node, ARITHMETIC)):
        yield [node.left, node.right]
    elif isinstance(node, exp.Between):
        yield [node.this, node.args["low"], node.args["high"]]
    elif isinstance(node, (exp.In, exp.Greatest, exp.Least)):
        yield [node.this, *node.expressions]
    elif isinstance(node, exp.Array):
        yield list(node.expressions)
    elif isinstance(node, exp.Nullif):
        yield [node.this, node.expression]
    elif isinstance(node, (exp.Lag, exp.Lead)) and node.args.get("default") is not None:
        yield [node.this, node.args["default"]]
    elif isinstance(node, exp.DecodeCase):
        yield [*node.expressions[:1], *node.expressions[1:-1:2]]
    elif isinstance(node, exp.Case) and node.args.get("this") is not None:
        yield [node.this, *(branch.this for branch in node.args["ifs"])]
    if computed:
        yield choices(node)


def choices(node: Any) -> list[Any]:
    """Return the possible results of a CASE, IF, NVL2, DECODE or COALESCE."""
    if isinstance(node, exp.Coalesce):
        return [node.this, *node.expressions]
    if isinstance(node, (exp.If, exp.Nvl2)) and not isinstance(node.parent, exp.Case):
        return [branch for key in ("true", "false") if (branch := node.args.get(key)) is not None]
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        return [
            *(branch.args["true"] for branch in node.args["ifs"]),
            *([default] if default else []),
        ]
    if isinstance(node, exp.DecodeCase):
        arguments = node.expressions
        return [*arguments[2::2], *(arguments[-1:] if len(arguments) % 2 == 0 else [])]
    return []


def looked_up(node: Any) -> Iterator[list[Any]]:
    """For ``IN (SELECT …)``, yield each left value with the column that it is compared with."""
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        left = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        rows = [left, *branches(node.args["query"])]
        if len({len(row) for row in rows}) == 1:
            yield from (list(column) for column in zip(*rows, strict=True))


def leaves(query: Any) -> Iterator[Any]:
    """Yield the queries that a set operation combines, without parentheses."""
    if isinstance(query, exp.SetOperation):
        yield from leaves(query.left)
        yield from leaves(query.right)
    elif isinstance(query, (exp.Subquery, exp.Paren)):
        yield from leaves(query.this)
    else:
        yield query


def branches(query: Any) -> Iterator[list[Any]]:
    """Yield the output expressions of each SELECT of a query; ``[]`` for a SELECT with a star."""
    for leaf in leaves(query):
        if isinstance(leaf, exp.Select):
            yield [] if leaf.is_star else [shown.unalias() for shown in leaf.expressions]


def united(query: Any) -> Iterator[tuple[Any, list[tuple[Any, ...]]]]:
    """Yield set operations and VALUES, each with the lists of values that form a column."""
    for node in query.find_all(exp.SetOperation, exp.Values):
        if isinstance(node, exp.Values):
            rows = [
                list(row.expressions) if isinstance(row, exp.Tuple) else [row.unnest()]
                for row in node.expressions
            ]
        else:
            rows = [] if isinstance(node.parent, exp.SetOperation) else list(branches(node))
        if len({len(row) for row in rows}) == 1:
            yield node, list(zip(*rows, strict=True))
