"""A condition as a tree of typed, picklable values.

`odps_nb.filters.parse` makes the tree, `odps_nb.filters.evaluate` applies it to batches, and
`odps_nb.filters.sent` translates the part that is sent to the service. Every node has the kind of
its values, so types are checked before rows arrive.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from odps_nb.schema import TypeCode


class Kind(Enum):
    """How values are compared; several MaxCompute types may share a kind."""

    BOOLEAN = "BOOLEAN"
    INTEGER = "a whole number"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    TEXT = "text"
    CHAR = "CHAR"  # trailing blanks are ignored
    DATE = "DATE"
    INSTANT = "a DATETIME or TIMESTAMP"  # nanoseconds of the epoch, UTC
    CLOCK = "a TIMESTAMP_NTZ"  # nanoseconds of the epoch as if it were UTC
    DURATION = "an INTERVAL_DAY_TIME"  # nanoseconds
    BYTES = "bytes"
    NULL = "null"
    OTHER = "a value that can only be tested for null"

    @property
    def is_number(self) -> bool:
        """Whether values can be added and compared as numbers."""
        return self in (Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)

    @property
    def is_text(self) -> bool:
        """Whether values are text (STRING, VARCHAR or CHAR)."""
        return self in (Kind.TEXT, Kind.CHAR)


PyValue = bool | int | float | Decimal | str | bytes | datetime.date | None


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """The value of a column, named in the table's spelling; ``type_text`` is for messages."""

    name: str
    kind: Kind
    code: TypeCode
    type_text: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal of the condition. Times are nanoseconds; ``DOUBLE`` keeps its exact digits."""

    kind: Kind
    value: PyValue

    @property
    def number(self) -> Decimal:
        """The value with all its digits; 0 for a value that is not a number."""
        return Decimal(self.value) if isinstance(self.value, (int, float, Decimal)) else Decimal(0)


@dataclass(frozen=True, slots=True)
class Compare:
    """``left operator right``; the operator is one of ``= <> < <= > >=``."""

    operator: str
    left: Node
    right: Node
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True, slots=True)
class IsIn:
    """Whether a value is one of some constants of its own kind, which may include null."""

    value: Node
    among: tuple[PyValue, ...]
    with_null: bool = False
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True, slots=True)
class Like:
    """Whether text matches a pattern, given as a regular expression over the whole text."""

    value: Node
    pattern: str
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether the value is null."""

    value: Node
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True, slots=True)
class Not:
    """Negation; null stays null."""

    value: Node
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True, slots=True)
class AllOf:
    """``and`` of SQL: false if one is false, else null if one is null."""

    parts: tuple[Node, ...]
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True, slots=True)
class AnyOf:
    """``or`` of SQL: true if one is true, else null if one is null."""

    parts: tuple[Node, ...]
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left operator right`` of numbers; the operator is one of ``+ - * / %``."""

    operator: str
    left: Node
    right: Node
    kind: Kind


@dataclass(frozen=True, slots=True)
class Cast:
    """A value cast to another kind; one that does not fit is an error during evaluation."""

    value: Node
    kind: Kind
    code: TypeCode
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A function that MaxCompute and Arrow define alike, e.g. ``length``."""

    name: str
    arguments: tuple[Node, ...]
    kind: Kind


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
    | Call
)


def nodes_of(node: Node) -> Iterator[Node]:
    """Yield all nodes of a tree."""
    waiting: list[Node] = [node]
    while waiting:
        one = waiting.pop()
        yield one
        if isinstance(one, (Compare, Arithmetic)):
            waiting += [one.left, one.right]
        elif isinstance(one, (AllOf, AnyOf)):
            waiting += one.parts
        elif isinstance(one, Call):
            waiting += one.arguments
        elif not isinstance(one, (Constant, ColumnValue)):
            waiting.append(one.value)


def columns_of(node: Node) -> Iterator[str]:
    """Yield the names of the columns in a tree, with repetitions."""
    return (one.name for one in nodes_of(node) if isinstance(one, ColumnValue))
