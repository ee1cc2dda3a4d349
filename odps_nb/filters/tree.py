"""A condition as a tree of typed, picklable values.

`odps_nb.filters.parse` builds it from text; the engines and Spark build it from their own trees.
`odps_nb.filters.evaluate` applies it to batches, and `odps_nb.filters.row_filter` translates the
part that is pushed down.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from typing import Any, cast

from odps_nb.schema import TypeCode


class ValueKind(Enum):
    """The kind used to compare values; several MaxCompute types may share a kind."""

    BOOLEAN = "BOOLEAN"
    INTEGER = "a whole number"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    TEXT = "text"
    CHAR = "CHAR"  # compared without trailing blanks
    DATE = "DATE"
    INSTANT = "a DATETIME or TIMESTAMP"  # epoch nanoseconds, UTC
    CLOCK = "a TIMESTAMP_NTZ"  # epoch nanoseconds, as if the local time were UTC
    DURATION = "an INTERVAL_DAY_TIME"  # nanoseconds
    BYTES = "bytes"
    NULL = "null"
    OTHER = "a value that can only be tested for null"

    @property
    def is_number(self) -> bool:
        """Whether values can be added and compared as numbers."""
        return self in (ValueKind.INTEGER, ValueKind.FLOAT, ValueKind.DOUBLE, ValueKind.DECIMAL)

    @property
    def is_text(self) -> bool:
        """Whether values are text (STRING, VARCHAR or CHAR)."""
        return self in (ValueKind.TEXT, ValueKind.CHAR)


_EPOCH = datetime.datetime(1970, 1, 1)
PyValue = bool | int | float | Decimal | str | bytes | datetime.date | None


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """A column's value; ``name`` is spelled as in the table, ``type_text`` is for messages."""

    name: str
    kind: ValueKind
    code: TypeCode
    type_text: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal in the condition. Times are in nanoseconds; a DOUBLE keeps its exact digits."""

    kind: ValueKind
    value: PyValue

    @property
    def number(self) -> Decimal:
        """The exact value; 0 if the value is not a number."""
        return Decimal(self.value) if isinstance(self.value, (int, float, Decimal)) else Decimal(0)


@dataclass(frozen=True, slots=True)
class Compare:
    """``left operator right``; the operator is one of ``= <> < <= > >=``."""

    operator: str
    left: Node
    right: Node
    kind: ValueKind = ValueKind.BOOLEAN


@dataclass(frozen=True, slots=True)
class IsIn:
    """Whether a value equals one of several constants of its kind; null may be among them."""

    value: Node
    among: tuple[PyValue, ...]
    with_null: bool = False
    kind: ValueKind = ValueKind.BOOLEAN
    sets: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The constants prepared for each Arrow type; see ``odps_nb.filters.evaluate``."""


@dataclass(frozen=True, slots=True)
class Like:
    """Whether text matches a LIKE pattern with ``%``, ``_``, and backslash as the escape."""

    value: Node
    pattern: str
    kind: ValueKind = ValueKind.BOOLEAN


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a value is null."""

    value: Node
    kind: ValueKind = ValueKind.BOOLEAN


@dataclass(frozen=True, slots=True)
class Not:
    """SQL ``not``: null stays null."""

    value: Node
    kind: ValueKind = ValueKind.BOOLEAN


@dataclass(frozen=True, slots=True)
class AllOf:
    """SQL ``and``: false if any operand is false, else null if any is null."""

    parts: tuple[Node, ...]
    kind: ValueKind = ValueKind.BOOLEAN


@dataclass(frozen=True, slots=True)
class AnyOf:
    """SQL ``or``: true if any operand is true, else null if any is null."""

    parts: tuple[Node, ...]
    kind: ValueKind = ValueKind.BOOLEAN


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left operator right`` for numbers; the operator is one of ``+ - * / %``."""

    operator: str
    left: Node
    right: Node
    kind: ValueKind


@dataclass(frozen=True, slots=True)
class Cast:
    """A value cast to another kind; evaluation raises an error if the value does not fit."""

    value: Node
    kind: ValueKind
    code: TypeCode
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call to a function that MaxCompute and Arrow define identically, e.g. ``length``."""

    name: str
    arguments: tuple[Node, ...]
    kind: ValueKind


Node = (
    ColumnValue
    | Constant
    | Compare
    | IsIn
    | Like
    | IsNull
    | Not
    | AllOf
    | AnyOf
    | Arithmetic
    | Cast
    | FunctionCall
)


def nodes_of(node: Node) -> Iterator[Node]:
    """Yield all nodes in a tree."""
    waiting: list[Node] = [node]
    while waiting:
        current = waiting.pop()
        yield current
        if isinstance(current, (Compare, Arithmetic)):
            waiting += [current.left, current.right]
        elif isinstance(current, (AllOf, AnyOf)):
            waiting += current.parts
        elif isinstance(current, FunctionCall):
            waiting += current.arguments
        elif not isinstance(current, (Constant, ColumnValue)):
            waiting.append(current.value)


def columns_of(node: Node) -> Iterator[str]:
    """Yield the names of a tree's columns, with repetitions."""
    return (column.name for column in nodes_of(node) if isinstance(column, ColumnValue))


def with_columns(node: Node, change: Callable[[ColumnValue], Node]) -> Node:
    """Return the tree with each column replaced by the result of ``change``."""

    def changed(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(with_columns(child, change) for child in nodes)

    if isinstance(node, ColumnValue):
        return change(node)
    if isinstance(node, (Compare, Arithmetic)):
        left, right = changed((node.left, node.right))
        return replace(node, left=left, right=right)
    if isinstance(node, (AllOf, AnyOf)):
        return replace(node, parts=changed(node.parts))
    if isinstance(node, FunctionCall):
        return replace(node, arguments=changed(node.arguments))
    if isinstance(node, Constant):
        return node
    untyped: Any = node
    return cast(Node, replace(untyped, value=with_columns(node.value, change)))


def text_of(node: Node) -> str:
    """Format a node as readable text, similar to SQL."""
    if isinstance(node, ColumnValue):
        return node.name
    if isinstance(node, Constant):
        return _constant_text(node)
    if isinstance(node, (Compare, Arithmetic)):
        return f"{text_of(node.left)} {node.operator} {text_of(node.right)}"
    if isinstance(node, (AllOf, AnyOf)):
        inner = ((part, text_of(part)) for part in node.parts)
        parts = (f"({text})" if isinstance(part, (AllOf, AnyOf)) else text for part, text in inner)
        return (" and " if isinstance(node, AllOf) else " or ").join(parts)
    if isinstance(node, FunctionCall):
        return f"{node.name}({', '.join(map(text_of, node.arguments))})"
    return _test_text(node)


def _test_text(node: IsIn | Like | IsNull | Not | Cast) -> str:
    value = text_of(node.value)
    if isinstance(node, IsIn):
        among = [_constant_text(Constant(node.value.kind, constant)) for constant in node.among]
        return f"{value} in ({', '.join(among + ['null'] * node.with_null)})"
    if isinstance(node, Like):
        return f"{value} like {node.pattern!r}"
    if isinstance(node, IsNull):
        return f"{value} is null"
    if isinstance(node, Not) and isinstance(node.value, IsNull):
        return f"{text_of(node.value.value)} is not null"
    return f"not ({value})" if isinstance(node, Not) else value


def _constant_text(node: Constant) -> str:
    value = node.value
    if node.kind in (ValueKind.INSTANT, ValueKind.CLOCK) and isinstance(value, int):
        shown = _EPOCH + datetime.timedelta(microseconds=value // 1000)
        return f"'{shown.isoformat(sep=' ')}'"
    if isinstance(value, datetime.date):
        return f"'{value.isoformat()}'"
    if isinstance(value, (str, bytes)):
        return repr(value)
    return "null" if value is None else str(value).lower()
