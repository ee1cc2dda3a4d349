"""Conditions of a Spark query that may be sent to the service: values, SQL text, evaluation.

Only conditions whose answer is the same for Spark and for the service
(`odps_nb.access.engines.comparable`). `Condition.holds` tells the answer here as well, by which
partitions are chosen.
"""

from __future__ import annotations

import operator
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from odps_nb.access.binding.literals import literal
from odps_nb.access.engines.comparable import Value

_MAX_WHERE = 16_000  # characters; the engine applies what is longer

Row = Mapping[str, Value | None]

_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_DIGITS = re.compile(r"0|[1-9][0-9]{0,8}")


class Condition(ABC):
    """A condition over columns of one table; ``str`` writes it for the service.

    One that is not ``is_sent`` chooses partitions only.
    """

    __slots__ = ()
    is_sent: ClassVar[bool] = True

    @abstractmethod
    def columns(self) -> frozenset[str]:
        """Return the names of its columns."""

    @abstractmethod
    def holds(self, row: Row) -> bool | None:
        """Return its truth for some values; ``None`` is SQL's unknown."""

    @abstractmethod
    def rejects_nulls(self) -> bool:
        """Whether it never holds where all of its columns are null."""

    @abstractmethod
    def renamed(self, names: Mapping[str, str]) -> Condition:
        """Return the same condition over columns with other names."""


@dataclass(frozen=True, slots=True)
class _OnColumn(Condition):
    """A condition over one column, which is unknown or false for a null."""

    column: str

    def columns(self) -> frozenset[str]:
        return frozenset({self.column})

    def rejects_nulls(self) -> bool:
        return True

    def renamed(self, names: Mapping[str, str]) -> Condition:
        return replace(self, column=names[self.column])


@dataclass(frozen=True, slots=True)
class _Parts(Condition):
    parts: tuple[Condition, ...]

    def columns(self) -> frozenset[str]:
        return frozenset[str]().union(*(part.columns() for part in self.parts))

    def renamed(self, names: Mapping[str, str]) -> Condition:
        return type(self)(tuple(part.renamed(names) for part in self.parts))


@dataclass(frozen=True, slots=True)
class Compare(_OnColumn):
    """``column sign value``."""

    sign: str
    value: Value

    def holds(self, row: Row) -> bool | None:
        """Compare; unknown for a null."""
        value = row[self.column]
        return None if value is None else _ORDER[self.sign](value, self.value)

    def __str__(self) -> str:
        return f"`{self.column}` {self.sign} {literal(self.value)}"


@dataclass(frozen=True, slots=True)
class CompareDigits(_OnColumn):
    """``column sign number`` for partitions whose values are text: ``ds >= 20240101``.

    Spark casts the text; how depends on its settings. Of plain digits all casts make the same
    number, and of anything else nothing is said here. Never sent: the service may cast otherwise.
    """

    is_sent: ClassVar[bool] = False

    sign: str
    number: int

    def holds(self, row: Row) -> bool | None:
        """Compare plain digits; unknown for everything else."""
        text = row[self.column]
        if not isinstance(text, str) or not _DIGITS.fullmatch(text):
            return None
        return _ORDER[self.sign](int(text), self.number)

    def __str__(self) -> str:
        return f"`{self.column}` {self.sign} {self.number}"


@dataclass(frozen=True, slots=True)
class IsIn(_OnColumn):
    """``column in (values)``."""

    values: tuple[Value, ...]

    def holds(self, row: Row) -> bool | None:
        """Look for the value; unknown for a null."""
        value = row[self.column]
        return None if value is None else value in self.values

    def __str__(self) -> str:
        return f"`{self.column}` in ({', '.join(literal(value) for value in self.values)})"


@dataclass(frozen=True, slots=True)
class Like(_OnColumn):
    """``column like pattern``; see `takes_pattern` for the patterns."""

    pattern: str

    def holds(self, row: Row) -> bool | None:
        """Match the whole text; unknown for a null."""
        text = row[self.column]
        if not isinstance(text, str):
            return None
        pattern = "".join({"%": ".*", "_": "."}.get(one) or re.escape(one) for one in self.pattern)
        return re.fullmatch(pattern, text, re.DOTALL) is not None

    def __str__(self) -> str:
        return f"`{self.column}` like {literal(self.pattern)}"


@dataclass(frozen=True, slots=True)
class IsNull(_OnColumn):
    """``column is null``."""

    def holds(self, row: Row) -> bool | None:
        """Tell; never unknown."""
        return row[self.column] is None

    def rejects_nulls(self) -> bool:
        """Return false: it looks for them."""
        return False

    def __str__(self) -> str:
        return f"`{self.column}` is null"


@dataclass(frozen=True, slots=True)
class Negation(Condition):
    """``not (inner)``."""

    inner: Condition

    def columns(self) -> frozenset[str]:
        """Return the columns of what is negated."""
        return self.inner.columns()

    def holds(self, row: Row) -> bool | None:
        """Turn the answer round; unknown stays unknown."""
        found = self.inner.holds(row)
        return None if found is None else not found

    def rejects_nulls(self) -> bool:
        """Tell; ``not (x = 1)`` is unknown for a null, as ``x = 1`` is."""
        return isinstance(self.inner, (Compare, IsIn, IsNull, Like))

    def renamed(self, names: Mapping[str, str]) -> Negation:
        """Name other columns inside."""
        return Negation(self.inner.renamed(names))

    def __str__(self) -> str:
        if isinstance(self.inner, IsNull):
            return f"`{self.inner.column}` is not null"
        return f"not ({self.inner})"


@dataclass(frozen=True, slots=True)
class AllOf(_Parts):
    """``a and b and …``."""

    def holds(self, row: Row) -> bool | None:
        """Answer as SQL does: one false part decides."""
        found = [part.holds(row) for part in self.parts]
        return False if False in found else None if None in found else True

    def rejects_nulls(self) -> bool:
        """One part is enough."""
        return any(part.rejects_nulls() for part in self.parts)

    def __str__(self) -> str:
        return " and ".join(_fenced(part) for part in self.parts)


@dataclass(frozen=True, slots=True)
class AnyOf(_Parts):
    """``a or b or …``."""

    def holds(self, row: Row) -> bool | None:
        """Answer as SQL does: one true part decides."""
        found = [part.holds(row) for part in self.parts]
        return True if True in found else None if None in found else False

    def rejects_nulls(self) -> bool:
        """All parts have to."""
        return all(part.rejects_nulls() for part in self.parts)

    def __str__(self) -> str:
        return " or ".join(_fenced(part) for part in self.parts)


def may_be_sent(condition: Condition) -> bool:
    """Whether the service may be asked to apply a condition."""
    if isinstance(condition, (AllOf, AnyOf)):
        return all(may_be_sent(part) for part in condition.parts)
    if isinstance(condition, Negation):
        return may_be_sent(condition.inner)
    return condition.is_sent


def within_length(conditions: Sequence[Condition]) -> tuple[Condition, ...]:
    """Keep the filter within the length of a request; the engine applies the rest."""
    kept, size = [], 0
    for one in conditions:
        length = len(str(one))
        if size + length <= _MAX_WHERE:
            kept.append(one)
            size += length
    return tuple(kept)


def _fenced(part: Condition) -> str:
    return f"({part})" if isinstance(part, (AllOf, AnyOf)) else str(part)
