"""Parses a pyarrow expression into a tree, and builds expressions from trees.

pyarrow does not expose the parts of an `Expression`, but its pickle is an Arrow file. The file's
metadata lists calls, fields and literals in order, and its single row holds their values. The
format is undocumented, so a tree is used only if the expression built from it equals the original.
Other expressions are not pushed down, so their queries read more rows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.errors import FramingError
from odps_nb.wire import _flatbuffer as flat

_MAGIC = 8  # size of an Arrow file's padded magic number
_PREFIX = 8  # total size of the marker and the length field before a message
_HEADER, _METADATA = 2, 2  # Flatbuffers field numbers in Message and Schema
_MAX_NODES = 10_000


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field of a struct column: ``("address", "city")``."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal value."""

    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class ArrowCall:
    """A call to an Arrow function, with arguments and options."""

    name: str
    arguments: tuple[Tree, ...]
    options: pa.StructScalar | None = None

    def option(self, name: str) -> Any:
        """Return the value of an option; ``None`` if it is not set."""
        return None if self.options is None else self.options.as_py().get(name)

    @property
    def among(self) -> pa.Array:
        """The value set of an ``is_in`` call."""
        assert self.options is not None
        return self.options["value_set"].values


Tree = Field | Literal | ArrowCall


_NULL_TESTS = ("is_null", "is_valid", "is_nan")
_OPERATORS: dict[str, Callable[..., Any]] = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "and_kleene": operator.and_,
    "or_kleene": operator.or_,
    "invert": operator.invert,
}


def read(expression: pc.Expression) -> Tree | None:
    """Parse an expression into a tree; ``None`` if it cannot be parsed."""
    try:
        tree = _Reader(expression).tree()
        again = build(tree)
        # NaN != NaN, but equal expressions have equal pickles
        same = again.equals(expression) or _pickled(again).equals(_pickled(expression))
        return tree if same else None
    except (pa.ArrowException, FramingError, LookupError, ValueError, TypeError, AttributeError):
        return None
    except (StopIteration, RecursionError):
        return None


def fields_of(expression: pc.Expression) -> frozenset[str] | None:
    """Return the columns that an expression uses; ``None`` if it cannot be parsed."""
    tree = read(expression)
    return None if tree is None else frozenset(_names(tree))


def parts_of(tree: Tree) -> Iterator[Tree]:
    """Yield the operands of a conjunction; ``a and (b and c)`` has three."""
    if isinstance(tree, ArrowCall) and tree.name == "and_kleene":
        for argument in tree.arguments:
            yield from parts_of(argument)
    else:
        yield tree


def build(tree: Tree) -> pc.Expression:
    """Build an Arrow expression from a tree."""
    if isinstance(tree, Field):
        return pc.field(*tree.path)
    if isinstance(tree, Literal):
        return pc.scalar(tree.value)
    arguments = [build(argument) for argument in tree.arguments]
    if tree.name == "is_in":
        if tree.option("null_matching_behavior") != 0:
            raise LookupError(tree.name)
        return arguments[0].isin(tree.among)
    if tree.name == "if_else":
        return pc.if_else(*arguments)
    if tree.name in _NULL_TESTS:
        if tree.option("nan_is_null"):
            raise LookupError("nan_is_null")
        return getattr(arguments[0], tree.name)()
    return _OPERATORS[tree.name](*arguments)


def _names(tree: Tree) -> Iterator[str]:
    if isinstance(tree, Field):
        yield tree.path[0]
    elif isinstance(tree, ArrowCall):
        for argument in tree.arguments:
            yield from _names(argument)


def _pickled(expression: pc.Expression) -> pa.Buffer:
    return pa.py_buffer(expression.__reduce__()[1][0])


class _Reader:
    """Reads the key-value pairs of a pickled expression in order."""

    def __init__(self, expression: pc.Expression) -> None:
        pickled = _pickled(expression)
        self._values = pa.ipc.open_file(pickled).get_batch(0)
        data = pickled.to_pybytes()[_MAGIC + _PREFIX :]
        schema = flat.table_at(data, flat.root(data), _HEADER)
        positions = flat.tables(data, schema, _METADATA)
        if len(positions) > _MAX_NODES:
            raise FramingError("the expression is too long to parse")
        self._pairs = iter(
            [(flat.text(data, at, 0).decode(), flat.text(data, at, 1).decode()) for at in positions]
        )

    def tree(self) -> Tree:
        root = self._node(*next(self._pairs))
        if next(self._pairs, None) is not None:
            raise FramingError("the expression has trailing data")
        return root

    def _node(self, kind: str, value: str) -> Tree:
        if kind == "field_ref":
            return Field((value,))
        if kind == "nested_field_ref":
            return Field(tuple(next(self._pairs)[1] for _ in range(int(value))))
        if kind == "literal":
            return Literal(self._value(value))
        if kind != "call":
            raise LookupError(kind)
        arguments: list[Tree] = []
        options = None
        for inner, text in self._pairs:
            if inner == "end":
                break
            if inner == "options":
                options = self._value(text)
            else:
                arguments.append(self._node(inner, text))
        return ArrowCall(value, tuple(arguments), options)

    def _value(self, index: str) -> Any:
        return self._values.column(int(index))[0]
