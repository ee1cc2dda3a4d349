"""Converts casts and calls that MaxCompute and Arrow define identically; rejects all others.

For example, ``upper`` is rejected because MaxCompute and Arrow treat non-ASCII letters differently;
``lower`` is allowed only before ``like`` (see ``parse``). Regular expressions are also rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from odps_nb.filters.literals import EXACT, bytes_of, clock_of, date_of, number_of, refuse
from odps_nb.filters.tree import Cast, Constant, FunctionCall, Node, ValueKind
from odps_nb.schema import TypeCode


def call(tree: Any, read: Callable[[Any], Node]) -> Node | None:
    """Convert a function call parsed by sqlglot; return ``None`` for an unknown function."""
    make, known = _KNOWN.get(type(tree).__name__.casefold(), (None, ()))
    arguments = {key for key, value in tree.args.items() if value not in (None, False, [])}
    return make(tree, read) if make is not None and arguments <= {*known} else None


def _length(tree: Any, read: Callable[[Any], Node]) -> Node:
    return FunctionCall("length", (_text(read(tree.this), "length"),), ValueKind.INTEGER)


def _abs(tree: Any, read: Callable[[Any], Node]) -> Node:
    value = read(tree.this)
    if value.kind not in (ValueKind.INTEGER, ValueKind.DOUBLE, ValueKind.DECIMAL) or isinstance(
        value, Constant
    ):
        raise refuse("abs requires a BIGINT, DOUBLE or DECIMAL column")
    return FunctionCall("abs", (value,), value.kind)


def _trim(tree: Any, read: Callable[[Any], Node]) -> Node:
    side = str(tree.args.get("position") or "BOTH").upper()
    names = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
    return FunctionCall(names[side], (_text(read(tree.this), names[side]),), ValueKind.TEXT)


def _substring(tree: Any, read: Callable[[Any], Node]) -> Node:
    value = _text(read(tree.this), "substr")
    start, length = read(tree.args["start"]), tree.args.get("length")
    count = None if length is None else read(length)
    if not _is_count(start, 1) or (count is not None and not _is_count(count, 0)):
        raise refuse("substr requires integer constants: a start of at least 1, and a length")
    return FunctionCall(
        "substr", (value, start, *([] if count is None else [count])), ValueKind.TEXT
    )


def _is_count(node: Node, least: int) -> bool:
    return isinstance(node, Constant) and isinstance(node.value, int) and node.value >= least


def _concat(tree: Any, read: Callable[[Any], Node]) -> Node:
    parts = [read(expression) for expression in tree.expressions]
    if not tree.args.get("safe"):  # sqlglot does not set "safe" for adjacent literals
        raise refuse(
            "adjacent string literals are not supported",
            "write a comma between them, or concat('a', s)",
        )
    if any(part.kind is ValueKind.NULL for part in parts):
        return Constant(ValueKind.NULL, None)
    if all(isinstance(part, Constant) and part.kind is ValueKind.TEXT for part in parts):
        return Constant(ValueKind.TEXT, "".join(str(part.value) for part in parts))  # type: ignore[union-attr]
    if any(part.kind is not ValueKind.TEXT for part in parts):
        raise refuse("concat requires STRING values", "cast numbers: cast(id as string)")
    return FunctionCall("concat", tuple(parts), ValueKind.TEXT)


def _character(tree: Any, read: Callable[[Any], Node]) -> Node:
    parts = [read(expression) for expression in tree.expressions]
    if (
        len(parts) != 1
        or not isinstance(parts[0], Constant)
        or parts[0].kind is not ValueKind.INTEGER
    ):
        raise refuse("chr requires one integer constant")
    code = int(parts[0].number)
    if not 0 <= code < 0x110000 or 0xD800 <= code < 0xE000:
        raise refuse(f"chr({code}) is not a character")
    return Constant(ValueKind.TEXT, chr(code))


def _unhex(tree: Any, read: Callable[[Any], Node]) -> Node:
    value = read(tree.this)
    if not isinstance(value, Constant) or value.kind is not ValueKind.TEXT:
        raise refuse("unhex requires hexadecimal digits in quotes")
    return Constant(ValueKind.BYTES, bytes_of(str(value.value)))


def _coalesce(tree: Any, read: Callable[[Any], Node]) -> Node:
    # null arguments have no effect on the result
    arguments = [read(expression) for expression in (tree.this, *tree.expressions)]
    parts = [argument for argument in arguments if argument.kind is not ValueKind.NULL]
    kinds = {part.kind for part in parts}
    allowed = (ValueKind.INTEGER, ValueKind.TEXT, ValueKind.BOOLEAN, ValueKind.DATE)
    if len(kinds) != 1 or not kinds <= set(allowed):
        raise refuse("coalesce requires values of one type: BIGINT, STRING, BOOLEAN or DATE")
    return FunctionCall("coalesce", tuple(parts), kinds.pop())


def _part_of_date(name: str) -> Callable[[Any, Callable[[Any], Node]], Node]:
    def make(tree: Any, read: Callable[[Any], Node]) -> Node:
        inner = tree.this.this if type(tree.this).__name__ == "TsOrDsToDate" else tree.this
        value = read(inner)
        if value.kind is not ValueKind.DATE or isinstance(value, Constant):
            raise refuse(
                f"{name} requires a DATE column: the {name} of a DATETIME or TIMESTAMP depends on "
                "the time zone"
            )
        return FunctionCall(name, (value,), ValueKind.INTEGER)

    return make


def _text(node: Node, name: str) -> Node:
    if node.kind is not ValueKind.TEXT or isinstance(node, Constant):
        raise refuse(f"{name} requires a STRING column")
    return node


# The converter and the allowed arguments for each sqlglot node name.
_KNOWN: dict[str, tuple[Callable[[Any, Callable[[Any], Node]], Node], tuple[str, ...]]] = {
    "length": (_length, ("this",)),
    "abs": (_abs, ("this",)),
    "trim": (_trim, ("this", "position")),
    "substring": (_substring, ("this", "start", "length")),
    "concat": (_concat, ("expressions", "safe")),
    "chr": (_character, ("expressions",)),
    "unhex": (_unhex, ("this",)),
    "coalesce": (_coalesce, ("this", "expressions")),
    **{name: (_part_of_date(name), ("this",)) for name in ("year", "month", "day")},
}


MAX_DIGITS = 76
"""Maximum precision of a DECIMAL if the required SQL settings are sent."""

_WHOLE = {
    "TINYINT": (TypeCode.TINYINT, 8),
    "SMALLINT": (TypeCode.SMALLINT, 16),
    "INT": (TypeCode.INT, 32),
    "BIGINT": (TypeCode.BIGINT, 64),
}
_TIMES = ("DATETIME", "TIMESTAMP", "TIMESTAMPNTZ", "TIMESTAMPLTZ")
_FROM: dict[ValueKind, tuple[ValueKind, ...]] = {
    ValueKind.DOUBLE: (ValueKind.INTEGER, ValueKind.FLOAT, ValueKind.DOUBLE, ValueKind.TEXT),
    ValueKind.INTEGER: (ValueKind.INTEGER, ValueKind.TEXT),
    ValueKind.TEXT: (ValueKind.INTEGER, ValueKind.TEXT, ValueKind.CHAR, ValueKind.DATE),
    ValueKind.DATE: (ValueKind.DATE, ValueKind.TEXT),
    ValueKind.DECIMAL: (ValueKind.INTEGER,),
}


def cast(value: Node, to: Any) -> Node:
    """Cast a value to the type that a sqlglot node describes."""
    name = to.this.name if hasattr(to.this, "name") else str(to.this)
    if value.kind is ValueKind.NULL:
        return value
    if name == "DECIMAL":
        return _decimal(value, _size(to))
    if to.expressions or to.args.get("collate"):
        problem = "a cast to a type with parameters, such as CHAR(n), is not supported"
        raise refuse(problem, "cast it to STRING, and use substr")
    if name in _WHOLE:
        return _whole(value, name)
    if name in _TIMES:
        return _time(value, name)
    if isinstance(value, Constant):
        return _cast_constant(value, name)
    kind, code = _OTHERS.get(name, (ValueKind.OTHER, TypeCode.VARIANT))
    if value.kind not in _FROM.get(kind, ()):
        raise refuse(f"a cast of {value.kind.value} to {name} is not supported")
    return value if value.kind is kind else Cast(value, kind, code)


_OTHERS = {
    "DOUBLE": (ValueKind.DOUBLE, TypeCode.DOUBLE),
    "TEXT": (ValueKind.TEXT, TypeCode.STRING),
    "DATE": (ValueKind.DATE, TypeCode.DATE),
}


def _cast_constant(value: Constant, name: str) -> Constant:
    text = value.kind is ValueKind.TEXT
    if name == "DATE" and text:
        return Constant(ValueKind.DATE, date_of(str(value.value)))
    if name == "DOUBLE" and (text or value.kind.is_number):
        return Constant(ValueKind.DOUBLE, number_of(str(value.value)))
    if name == "TEXT" and text:
        return value
    problem = f"a cast of {value.value!r} to {name} is not supported"
    raise refuse(problem, "write the constant as a value of the target type")


def _size(to: Any) -> tuple[int, int]:
    """Return a DECIMAL's precision and scale; raise if a column cannot have them."""
    numbers = [str(part.this.name) for part in to.expressions]
    if not numbers:
        return 38, 18
    if len(numbers) > 2 or not all(re.fullmatch("[0-9]{1,2}", number) for number in numbers):
        raise refuse("the precision or scale of a DECIMAL is invalid", "write it as decimal(10,2)")
    precision, scale = (*map(int, numbers), 0)[:2]
    if not 1 <= precision <= MAX_DIGITS or scale > precision:
        raise refuse(
            f"DECIMAL({precision},{scale}) is invalid",
            f"use a precision from 1 to {MAX_DIGITS}, and a scale up to the precision",
        )
    return precision, scale


def _decimal(value: Node, size: tuple[int, int]) -> Node:
    precision, scale = size
    if isinstance(value, Constant) and (value.kind.is_number or value.kind is ValueKind.TEXT):
        number = number_of(str(value.value))
        steps = EXACT.scaleb(number, scale)
        if steps != EXACT.to_integral_value(steps) or EXACT.abs(steps) >= 10**precision:
            raise refuse(f"{number} does not fit DECIMAL({precision},{scale})")
        return Constant(ValueKind.DECIMAL, number)
    if value.kind not in _FROM[ValueKind.DECIMAL]:
        raise refuse(f"a cast of {value.kind.value} to DECIMAL is not supported")
    return Cast(value, ValueKind.DECIMAL, TypeCode.DECIMAL, precision, scale)


def _whole(value: Node, name: str) -> Node:
    code, bits = _WHOLE[name]
    if isinstance(value, Constant) and value.kind is ValueKind.INTEGER:
        if not -(2 ** (bits - 1)) <= value.number < 2 ** (bits - 1):
            raise refuse(f"{value.number} does not fit {name}")
        return value
    if value.kind not in _FROM[ValueKind.INTEGER] or isinstance(value, Constant):
        raise refuse(f"a cast of {value.kind.value} to {name} may round")
    return Cast(value, ValueKind.INTEGER, code)


def _time(value: Node, name: str) -> Node:
    if isinstance(value, Constant) and value.kind is ValueKind.TEXT:
        text = str(value.value)
        if text.endswith("Z") and name != "TIMESTAMPNTZ":  # bind() writes instants in this form
            return Constant(ValueKind.INSTANT, clock_of(text[:-1]))
        return Constant(ValueKind.CLOCK, clock_of(text))
    if isinstance(value, Constant) and value.kind is ValueKind.CLOCK:
        return value
    raise refuse(
        f"a cast of {value.kind.value} to {name} depends on a time zone",
        "compare the column with a time in quotes",
    )
