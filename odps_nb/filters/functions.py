"""Checks calls in a condition: the functions that MaxCompute and Arrow define alike.

``upper`` and ``lower`` are excluded: they differ for letters beyond ASCII; regular expressions,
too, since their dialects differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odps_nb.filters.literals import bytes_of, refuse
from odps_nb.filters.tree import Call, Constant, Kind, Node


def call(tree: Any, read: Callable[[Any], Node]) -> Node | None:
    """Return a call that sqlglot parsed, or ``None`` for an unknown function.

    Raises `ArgumentError`: arguments of kinds, or in a number, that are not taken.
    """
    name = type(tree).__name__.casefold()
    make = _KNOWN.get(name)
    given = {key for key, value in tree.args.items() if value not in (None, False, [])}
    if make is None or not given <= _ARGUMENTS[name]:
        return None
    return make(tree, read)


def _length(tree: Any, read: Callable[[Any], Node]) -> Node:
    return Call("length", (_text(read(tree.this), "length"),), Kind.INTEGER)


def _abs(tree: Any, read: Callable[[Any], Node]) -> Node:
    value = read(tree.this)
    if value.kind not in (Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL) or isinstance(value, Constant):
        raise refuse("abs takes a BIGINT, DOUBLE or DECIMAL column")
    return Call("abs", (value,), value.kind)


def _trim(tree: Any, read: Callable[[Any], Node]) -> Node:
    side = str(tree.args.get("position") or "BOTH").upper()
    names = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
    return Call(names[side], (_text(read(tree.this), names[side]),), Kind.TEXT)


def _substring(tree: Any, read: Callable[[Any], Node]) -> Node:
    value = _text(read(tree.this), "substr")
    start, length = read(tree.args["start"]), tree.args.get("length")
    count = None if length is None else read(length)
    if not _is_count(start, 1) or (count is not None and not _is_count(count, 0)):
        raise refuse("substr takes a start position from 1 on, and a length, both as numbers")
    return Call("substr", (value, start, *([] if count is None else [count])), Kind.TEXT)


def _is_count(node: Node, least: int) -> bool:
    return isinstance(node, Constant) and isinstance(node.value, int) and node.value >= least


def _concat(tree: Any, read: Callable[[Any], Node]) -> Node:
    parts = [read(one) for one in tree.expressions]
    if not tree.args.get("safe"):  # sqlglot's mark of a call; without it two texts met
        raise refuse(
            "two texts stand side by side", "write a comma between them, or concat('a', s)"
        )
    if any(one.kind is Kind.NULL for one in parts):
        return Constant(Kind.NULL, None)
    if all(isinstance(one, Constant) and one.kind is Kind.TEXT for one in parts):
        return Constant(Kind.TEXT, "".join(str(one.value) for one in parts))  # type: ignore[union-attr]
    if any(one.kind is not Kind.TEXT for one in parts):
        raise refuse("concat takes STRING columns and text", "cast numbers: cast(id as string)")
    return Call("concat", tuple(parts), Kind.TEXT)


def _character(tree: Any, read: Callable[[Any], Node]) -> Node:
    parts = [read(one) for one in tree.expressions]
    if len(parts) != 1 or not isinstance(parts[0], Constant) or parts[0].kind is not Kind.INTEGER:
        raise refuse("chr takes one number")
    code = int(parts[0].number)
    if not 0 <= code < 0x110000 or 0xD800 <= code < 0xE000:
        raise refuse(f"chr({code}) is not a character")
    return Constant(Kind.TEXT, chr(code))


def _unhex(tree: Any, read: Callable[[Any], Node]) -> Node:
    value = read(tree.this)
    if not isinstance(value, Constant) or value.kind is not Kind.TEXT:
        raise refuse("unhex takes hexadecimal digits in quotes")
    return Constant(Kind.BYTES, bytes_of(str(value.value)))


def _coalesce(tree: Any, read: Callable[[Any], Node]) -> Node:
    # a null among them changes nothing
    given = [read(one) for one in (tree.this, *tree.expressions)]
    parts = [one for one in given if one.kind is not Kind.NULL]
    kinds = {one.kind for one in parts}
    taken = (Kind.INTEGER, Kind.TEXT, Kind.BOOLEAN, Kind.DATE)
    if len(kinds) != 1 or not kinds <= set(taken):
        raise refuse("coalesce takes values of one type: BIGINT, STRING, BOOLEAN or DATE")
    return Call("coalesce", tuple(parts), kinds.pop())


def _part_of_date(name: str) -> Callable[[Any, Callable[[Any], Node]], Node]:
    def make(tree: Any, read: Callable[[Any], Node]) -> Node:
        inner = tree.this.this if type(tree.this).__name__ == "TsOrDsToDate" else tree.this
        value = read(inner)
        if value.kind is not Kind.DATE or isinstance(value, Constant):
            raise refuse(f"{name} takes a DATE column: for times the result depends on a time zone")
        return Call(name, (value,), Kind.INTEGER)

    return make


def _text(node: Node, name: str) -> Node:
    if node.kind is not Kind.TEXT or isinstance(node, Constant):
        raise refuse(f"{name} takes a STRING column")
    return node


_KNOWN: dict[str, Callable[[Any, Callable[[Any], Node]], Node]] = {
    "length": _length,
    "abs": _abs,
    "trim": _trim,
    "substring": _substring,
    "concat": _concat,
    "chr": _character,
    "unhex": _unhex,
    "coalesce": _coalesce,
    "year": _part_of_date("year"),
    "month": _part_of_date("month"),
    "day": _part_of_date("day"),
}
_ARGUMENTS: dict[str, set[str]] = {
    **{name: {"this"} for name in ("length", "abs", "year", "month", "day", "unhex")},
    "trim": {"this", "position"},
    "substring": {"this", "start", "length"},
    "concat": {"expressions", "safe"},
    "chr": {"expressions"},
    "coalesce": {"this", "expressions"},
}
