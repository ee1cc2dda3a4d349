"""Parses ``where=`` text into a condition tree, using the column types of a table.

Raises an error for syntax outside the documented grammar, even if sqlglot accepts it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from odps_nb import sql_parser
from odps_nb.errors import ArgumentError
from odps_nb.filters.compare import as_double, compare, is_among
from odps_nb.filters.functions import call, cast
from odps_nb.filters.literals import (
    EXACT,
    bare_date,
    check_escapes,
    duration_of,
    number_of,
    refuse,
    regex_of,
    zone_of,
)
from odps_nb.filters.tree import (
    AllOf,
    AnyOf,
    Arithmetic,
    ColumnValue,
    Constant,
    FunctionCall,
    IsNull,
    Like,
    Node,
    Not,
    ValueKind,
)
from odps_nb.schema import Column, OdpsType, TableSchema, UnknownType
from odps_nb.terms import did_you_mean, listed_columns, shorten
from odps_nb.type_facts import TYPE_FACTS

MAX_LENGTH = 256 * 1024
_LONG = 2**63


def kind_of(odps: OdpsType) -> ValueKind:
    """Return the `ValueKind` by which a type's values are compared."""
    return ValueKind[TYPE_FACTS[odps.code].kind]


def column_value(column: Column) -> ColumnValue:
    """Return the tree node for a column."""
    odps = column.type
    text = odps.text if isinstance(odps, UnknownType) else odps.code.name
    return ColumnValue(column.name, kind_of(odps), odps.code, text)


def parse_condition(text: str, schema: TableSchema, *, timezone: str = "UTC") -> Node:
    """Parse a condition on a table's columns; quoted times are in ``timezone``.

    Raises `ArgumentError` if the text cannot be parsed, or if MaxCompute does not document its
    meaning.
    """
    text, lists = _without_lists(text)
    if len(text) > MAX_LENGTH:
        raise refuse(f"the condition is longer than {MAX_LENGTH:,} characters")
    check_escapes(text)
    reader = _Reader(schema, zone_of(timezone), lists)
    try:
        return reader.condition(_parsed(text))
    except RecursionError:
        raise refuse("the condition is nested too deeply") from None


_NUMBER = r"-?\d{1,400}(?:\.\d{1,400})?(?:e[-+]?\d{1,3})?"
_CALL = r"[a-z]++\((?:'[^'\\]*+'|[\w\s,]|\([\d,]*+\))*+\)"
_SPAN = r"interval\s+'[^'\\]*+'\s+day\s+to\s+second"
_ITEM = rf"(?:{_NUMBER}|\({_NUMBER}\)|'[^'\\]*+'|{_SPAN}|null|{_CALL})"
_ITEMS = re.compile(_ITEM, re.IGNORECASE)
_LIST = re.compile(
    rf"""'(?:[^'\\]|\\.)*+' | "(?:[^"\\]|\\.)*+" | `[^`]*+` | --[^\n]*+ | /\*.*?\*/
    | \bin\s*\(\s*(?P<items>{_ITEM}(?:\s*,\s*{_ITEM})*+)\s*\)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_LONG_LIST = 4096
"""Number of characters above which a list of literals is not parsed with the condition."""
_PIECE = 2000
# The forms in which `bind` writes values.
_CAST = re.compile(r"CAST\('([^'\\]*)' AS (\w+(?:\(\d+,\d+\))?)\)")
_UNHEX = re.compile(r"UNHEX\('((?:[0-9a-f]{2})*)'\)")
_INTERVAL = re.compile(r"INTERVAL '([^'\\]*)' DAY TO SECOND")
_PART = r"'([^'\\]*)'|CHR\((\d{1,3})\)"
_TEXT = re.compile(rf"CHR\(\d{{1,3}}\)|CONCAT\((?:{_PART})(?:, (?:{_PART}))++\)")
_PARTS = re.compile(_PART)


def _without_lists(text: str) -> tuple[str, dict[str, list[str]]]:
    """Replace long lists of literals by placeholders; return the literals of each placeholder."""
    lists: dict[str, list[str]] = {}

    def shortened(match: re.Match[str]) -> str:
        if len(match["items"] or "") < _LONG_LIST:
            return match[0]
        name = f"odps_nb_list_{len(lists)}"
        lists[name] = _ITEMS.findall(match["items"])
        return f"in (:{name})"

    return (_LIST.sub(shortened, text) if len(text) > _LONG_LIST else text), lists


def _parsed(text: str) -> Any:
    from sqlglot.errors import SqlglotError

    try:
        trees = sql_parser.parse(text, sql_parser.hive())
    except SqlglotError as error:
        date = bare_date(text)
        raise refuse(
            f"the text cannot be parsed as SQL{_place(error)}",
            f"write dates and times in quotes: '{date}…'"
            if date
            else "write it as in SQL after WHERE",
        ) from None
    if len(trees) != 1 or trees[0] is None:
        raise refuse("the text is not a single condition", "write it as in SQL after WHERE")
    return trees[0]


def _place(error: Any) -> str:
    """Describe where parsing stopped, without the parser's terminology."""
    for problem in getattr(error, "errors", ()):
        word, column = str(problem.get("highlight") or "").strip(), problem.get("col")
        if word and column:
            return f": unexpected {word[:40]!r} at character {column}"
    return "" if getattr(error, "errors", True) else f": {error}"


class _Reader:
    """Converter of sqlglot trees for one table's columns."""

    def __init__(
        self, schema: TableSchema, zone: ZoneInfo, lists: Mapping[str, Sequence[str]]
    ) -> None:
        self.schema, self.zone, self.lists = schema, zone, lists
        self._readers: dict[str, Callable[[Any], Node]] = {
            "column": self._column,
            "literal": self._literal,
            "placeholder": self._placeholder,
            "boolean": lambda tree: Constant(ValueKind.BOOLEAN, bool(tree.this)),
            "null": lambda tree: Constant(ValueKind.NULL, None),
            "paren": lambda tree: self.read(tree.this),
            "and": lambda tree: AllOf(self._flat(tree)),
            "or": lambda tree: AnyOf(self._flat(tree)),
            "not": lambda tree: Not(self.condition(tree.this)),
            "is": self._is,
            "in": self._in,
            "between": self._between,
            "like": self._like,
            "neg": self._negative,
            "interval": self._interval,
            "cast": lambda tree: cast(self.read(tree.this), tree.to),
            "trycast": lambda tree: cast(self.read(tree.this), tree.to),
        }

    def condition(self, tree: Any) -> Node:
        """Convert an expression whose value is true, false or null."""
        node = self.read(tree)
        if node.kind is ValueKind.NULL:
            return Constant(ValueKind.BOOLEAN, None)
        if node.kind is not ValueKind.BOOLEAN:
            raise refuse(f"{_text(tree)} is not a condition", "compare it with a value")
        return node

    def read(self, tree: Any) -> Node:
        """Convert any expression."""
        if tree is None:
            raise refuse("a function call lacks an argument", "write year(column)")
        name = type(tree).__name__.casefold()
        reader = self._readers.get(name)
        if reader is not None or name in _COMPARISONS or name in _ARITHMETIC:
            _only(tree, _ARGUMENTS.get(name, ("this", "expression")))
        if reader is not None:
            return reader(tree)
        if name in _COMPARISONS:
            return compare(_COMPARISONS[name], *self._sides(tree), self.zone)
        if name in _ARITHMETIC:
            if name == "sub" and (date := bare_date(_text(tree).replace(" ", ""))):
                raise refuse(f"{date} without quotes is a subtraction", f"write '{date}'")
            return arithmetic(_ARITHMETIC[name], *self._sides(tree))
        node = call(tree, self.read)
        if name == "lower":
            raise refuse(f"{_text(tree)} is supported only before like", "write lower(s) like 'a'")
        if node is None:
            raise refuse(f"{_text(tree)} is not supported in where=")
        return node

    def _sides(self, tree: Any) -> tuple[Node, Node]:
        return self.read(tree.this), self.read(tree.expression)

    def _flat(self, tree: Any) -> tuple[Node, ...]:
        """Convert the operands of ``and`` or ``or`` in a loop, because the chain may be long."""
        return tuple(self.condition(part) for part in tree.flatten(unnest=False))

    def _column(self, tree: Any) -> Node:
        parts = [part.name for part in tree.parts]
        if len(parts) > 1:
            raise refuse(
                f"{'.'.join(parts)} is not a simple column name",
                f"write only the column name; if the name has a dot: `{'.'.join(parts)}`",
            )
        column = self.schema.find(parts[0])
        if column is None:
            hint = did_you_mean(parts[0], self.schema.names, "{}")
            if not hint and type(tree.parent).__name__.casefold() in _TAKE_VALUES:
                hint = f"write text in quotes: '{parts[0]}'; "
            raise ArgumentError(
                f"where= contains {parts[0]!r}, which is not a column of the table",
                code="NoSuchColumn",
                hint=f"{hint}its columns are: {listed_columns(self.schema.names)}",
            )
        return column_value(column)

    def _literal(self, tree: Any) -> Node:
        if tree.is_string:
            return Constant(ValueKind.TEXT, tree.this)
        return _number(str(tree.this))

    def _placeholder(self, tree: Any) -> Node:
        raise refuse(f":{tree.this} has no value", f"pass params={{{tree.this!r}: …}}")

    def _is(self, tree: Any) -> Node:
        value = self.read(tree.this)
        other = self.read(tree.expression)
        if other.kind is not ValueKind.NULL:
            raise refuse(f"{_text(tree)} is not supported in where=", "write 'is null', or use =")
        return IsNull(value)

    def _items(self, tree: Any) -> Iterator[Node]:
        """Convert the items of a list; see `_without_lists`."""
        name = str(tree.expressions[0].this) if len(tree.expressions) == 1 else ""
        if name not in self.lists:
            yield from map(self.read, tree.expressions)
            return
        unbound: list[str] = []
        kinds: dict[str, Any] = {}
        for item in self.lists[name]:
            if (node := _bound(item, kinds)) is None:
                unbound.append(item)
            else:
                yield node
        for start in range(0, len(unbound), _PIECE):
            piece = ", ".join(unbound[start : start + _PIECE])
            yield from map(self.read, _parsed(f"x in ({piece})").expressions)

    def _in(self, tree: Any) -> Node:
        among = tuple(self._items(tree))
        if not among:
            raise refuse(f"{_text(tree)} has no list of values", "list them: column in (1, 2)")
        value = self.read(tree.this)
        if value.kind is ValueKind.NULL:
            return Constant(ValueKind.BOOLEAN, None)
        return is_among(value, among, self.zone)

    def _between(self, tree: Any) -> Node:
        value, low, high = (self.read(tree.args[part]) for part in ("this", "low", "high"))
        return AllOf((compare(">=", value, low, self.zone), compare("<=", value, high, self.zone)))

    def _like(self, tree: Any) -> Node:
        is_folded = type(tree.this).__name__ == "Lower"
        value = self.read(tree.this.this if is_folded else tree.this)
        pattern = self.read(tree.expression)
        if ValueKind.NULL in (value.kind, pattern.kind):
            return Constant(ValueKind.BOOLEAN, None)
        if value.kind is not ValueKind.TEXT or not isinstance(pattern, Constant):
            raise refuse(f"{_text(tree)}: like requires a STRING column and a pattern in quotes")
        if isinstance(value, Constant):
            raise refuse(f"{_text(tree)} has no column")
        regex_of(str(pattern.value))  # reject an invalid pattern before rows arrive
        if is_folded:
            value = FunctionCall("lower", (value,), ValueKind.TEXT)
            if any(
                character.lower() != character.upper()
                for character in str(pattern.value)
                if not character.isascii()
            ):
                raise refuse(
                    f"{_text(tree)}: lower changes only the letters A to Z",
                    "write one like without lower for each spelling, joined by or",
                )
        like = Like(value, str(pattern.value))
        return Not(like) if tree.args.get("negate") else like

    def _negative(self, tree: Any) -> Node:
        value = self.read(tree.this)
        if isinstance(value, Constant) and value.kind.is_number:
            negative = EXACT.minus(value.number)
            return Constant(
                value.kind, int(negative) if value.kind is ValueKind.INTEGER else negative
            )
        return arithmetic("-", Constant(ValueKind.INTEGER, 0), value)

    def _interval(self, tree: Any) -> Node:
        from sqlglot import exp

        unit = tree.args.get("unit")
        span = isinstance(unit, exp.IntervalSpan) and (unit.this.name, unit.expression.name)
        if span != ("DAY", "SECOND") or not isinstance(tree.this, exp.Literal):
            raise refuse(
                f"{_text(tree)} is not supported in where=",
                "write interval '1 02:03:04' day to second",
            )
        return Constant(ValueKind.DURATION, duration_of(tree.this.name))


def _bound(item: str, kinds: dict[str, Any]) -> Node | None:
    """Convert a literal in a form of `bind`, else return ``None``; ``kinds`` caches types."""
    if item[0] == "'":
        return Constant(ValueKind.TEXT, item[1:-1])
    if item[0] in "(-0123456789":
        return _number(item.strip("()"))
    if item.casefold() == "null":
        return Constant(ValueKind.NULL, None)
    if match := _CAST.fullmatch(item):
        if (kind := match[2]) not in kinds:
            kinds[kind] = _parsed(f"CAST('' AS {kind})").to
        return cast(Constant(ValueKind.TEXT, match[1]), kinds[kind])
    if _TEXT.fullmatch(item):
        parts = (chr(int(code)) if code else text for text, code in _PARTS.findall(item))
        return Constant(ValueKind.TEXT, "".join(parts))
    if match := _UNHEX.fullmatch(item):
        return Constant(ValueKind.BYTES, bytes.fromhex(match[1]))
    if match := _INTERVAL.fullmatch(item):
        return Constant(ValueKind.DURATION, duration_of(match[1]))
    return None


def _number(text: str) -> Constant:
    number = number_of(text)
    if "." in text or "e" in text.casefold():
        return Constant(ValueKind.DOUBLE, number)
    if not -_LONG <= number < _LONG:
        raise refuse(f"{text} exceeds BIGINT", f"write {text}BD for a DECIMAL")
    return Constant(ValueKind.INTEGER, int(number))


_COMPARISONS = {"eq": "=", "neq": "<>", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_TAKE_VALUES = {*_COMPARISONS, "in", "between", "like"}
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}
# Allowed arguments of sqlglot nodes; other arguments would change the meaning.
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "column": ("this", "table", "db", "catalog"),
    "literal": ("this", "is_string"),
    "in": ("this", "expressions"),
    "between": ("this", "low", "high"),
    "like": ("this", "expression", "negate"),
    "div": ("this", "expression", "typed", "safe"),
    "interval": ("this", "unit"),
    "cast": ("this", "to"),
    "trycast": ("this", "to"),
}


def _only(tree: Any, known: Sequence[str]) -> None:
    unknown = {name for name, value in tree.args.items() if value} - set(known)
    if unknown:
        raise refuse(f"{_text(tree)} is not supported in where=")


def _text(tree: Any) -> str:
    from sqlglot import exp
    from sqlglot.errors import ErrorLevel, SqlglotError

    try:
        spelled = sql_parser.spell(tree, "hive", unsupported_level=ErrorLevel.IGNORE)
    except SqlglotError:
        function = tree.find(exp.Func)
        spelled = f"{function.sql_name()}(…)" if function is not None else "a part of it"
    return shorten(" ".join(spelled.split()), 60)


def arithmetic(operator: str, left: Node, right: Node) -> Node:
    """Return ``left operator right``; raise if rounding may make MaxCompute's result differ."""
    if ValueKind.NULL in (left.kind, right.kind):
        return Constant(ValueKind.NULL, None)
    kinds = {left.kind, right.kind}
    if not (left.kind.is_number and right.kind.is_number):
        raise refuse(f"{operator} requires numbers", "cast text to bigint or double first")
    if operator in "/%" and not (isinstance(right, Constant) and right.value):
        raise refuse(
            f"the divisor after {operator} may be 0", f"write a nonzero number after {operator}"
        )
    if operator == "%":
        if kinds != {ValueKind.INTEGER}:
            raise refuse("% requires integers")
        return Arithmetic(operator, left, right, ValueKind.INTEGER)
    if ValueKind.DECIMAL in kinds:
        raise refuse(
            f"how {operator} rounds DECIMALs is not documented", "cast to bigint or double"
        )
    if operator == "/" or kinds != {ValueKind.INTEGER}:
        return Arithmetic(operator, as_double(left), as_double(right), ValueKind.DOUBLE)
    return Arithmetic(operator, left, right, ValueKind.INTEGER)
