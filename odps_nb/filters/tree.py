"""A condition as a tree of typed, picklable values.

`odps_nb.filters.parse` makes the tree, `odps_nb.filters.evaluate` applies it to batches, and
`odps_nb.filters.sent` writes the part of it that the service is asked to apply. Every node knows
the kind of its values, so nothing is decided about types when rows arrive.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from odps_nb.schema import TypeCode

__all__ = [
    "AllOf",
    "AnyOf",
    "Arithmetic",
    "Call",
    "Cast",
    "ColumnValue",
    "Compare",
    "Constant",
    "IsIn",
    "IsNull",
    "Kind",
    "Like",
    "Node",
    "Not",
    "PyValue",
    "columns_of",
]


class Kind(Enum):
    """What values are compared as; several MaxCompute types may share a kind."""

    BOOLEAN = "BOOLEAN"
    INTEGER = "a whole number"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    TEXT = "text"
    CHAR = "CHAR"  # blanks at the end do not count
    DATE = "DATE"
    INSTANT = "a DATETIME or TIMESTAMP"  # nanoseconds of the epoch, UTC
    CLOCK = "a TIMESTAMP_NTZ"  # nanoseconds of the epoch as if the clock showed UTC
    NULL = "null"
    OTHER = "a value that only null tests take"

    @property
    def is_number(self) -> bool:
        """Whether it can be added and compared as a number."""
        return self in (Kind.INTEGER, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL)

    @property
    def is_text(self) -> bool:
        """Whether it is text of any length rule."""
        return self in (Kind.TEXT, Kind.CHAR)


PyValue = bool | int | float | Decimal | str | datetime.date | None


@dataclass(frozen=True, slots=True)
class ColumnValue:
    """The value of a column, by the table's spelling of its name."""

    name: str
    kind: Kind
    code: TypeCode


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that the text names. Times are nanoseconds; ``DOUBLE`` keeps its exact digits."""

    kind: Kind
    value: PyValue

    @property
    def number(self) -> Decimal:
        """The value with all its digits; 0 for what is no number."""
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
    """Whether a value is one of some constants of its own kind, among them perhaps null."""

    value: Node
    among: tuple[PyValue, ...]
    with_null: bool = False
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True, slots=True)
class Like:
    """Whether text matches a pattern, which is here a regular expression over all of it."""

    value: Node
    pattern: str
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether there is no value."""

    value: Node
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite; null stays null."""

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
    """A value as another kind; one that does not fit is an error when it is met."""

    value: Node
    kind: Kind
    code: TypeCode
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One of the few functions that are alike on both sides, e.g. ``length``."""

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


def columns_of(node: Node) -> Iterator[str]:
    """Yield the names of the columns that a tree needs, each as often as it stands there."""
    waiting: list[Node] = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ColumnValue):
            yield one.name
        elif isinstance(one, (Compare, Arithmetic)):
            waiting += [one.left, one.right]
        elif isinstance(one, (AllOf, AnyOf)):
            waiting += one.parts
        elif isinstance(one, Call):
            waiting += one.arguments
        elif not isinstance(one, Constant):
            waiting.append(one.value)
