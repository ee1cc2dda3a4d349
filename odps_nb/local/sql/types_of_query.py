"""Finds the MaxCompute types of the expressions of a query, with sqlglot's own inference.

A copy of the query is qualified and annotated; what was found is looked up by node of the
original. An expression whose type cannot be found has none: it is left as it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any

from odps_nb import sql_parser
from odps_nb.local.sql.functions import maxcompute_dialect
from odps_nb.local.store.tables import Table
from odps_nb.schema import DecimalType, OdpsType, PrimitiveType, TypeCode
from odps_nb.wire.type_text import format_type

DECIMAL_DIGITS, DECIMAL_SCALE = 38, 18
_MARK = "odps_nb"
# Types whose names the parser does not read, or reads as another type.
_AS_TEXT = {TypeCode.JSON, TypeCode.CHAR, TypeCode.VARCHAR}
_UNREAD = {TypeCode.INTERVAL_DAY_TIME, TypeCode.INTERVAL_YEAR_MONTH, TypeCode.BLOB}
_OF_MAPS = ("MAP_KEYS", "MAP_VALUES")
_RESULTS = ("this", "expressions")
_WHOLE = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
# What functions of MaxCompute return whose names are only names to the parser.
_RETURNS = {
    **dict.fromkeys(("GETDATE", "NOW", "FROM_UNIXTIME"), "DATETIME"),
    **dict.fromkeys(("DATEADD", "DATETRUNC", "LASTDAY", "TO_DATE"), "DATETIME"),
    **dict.fromkeys(("DATE_ADD", "DATE_SUB", "ADD_MONTHS", "TRUNC"), "DATE"),
    **dict.fromkeys(
        (
            "DATEDIFF",
            "DATEPART",
            "WEEKDAY",
            "UNIX_TIMESTAMP",
            "TO_MILLIS",
            "LENGTHB",
            "CHAR_MATCHCOUNT",
        ),
        "BIGINT",
    ),
    **dict.fromkeys(("TO_CHAR", "TOLOWER", "TOUPPER", "WM_CONCAT", "KEYVALUE", "MAX_PT"), "TEXT"),
}


class Types:
    """The types of the nodes of one query."""

    def __init__(self, found: Mapping[int, Any], results: Iterable[Any] = ()) -> None:
        self._found = found
        self.results = tuple(type_name(one.type) for one in results)
        """The names of the types of the columns of the query."""

    def name(self, node: Any) -> str:
        """Return the name of a type, such as ``DATETIME``; empty if it is unknown."""
        return type_name(self._of(node))

    def element(self, node: Any) -> str:
        """Return the name of the type of the elements of an array; empty if it is none."""
        found = self._of(node)
        return type_name(found.expressions[0]) if type_name(found) in ("ARRAY", "LIST") else ""

    def decimal(self, node: Any) -> tuple[int, int] | None:
        """Return precision and scale of a DECIMAL, or of one that an integer fits."""
        from sqlglot import exp

        if isinstance(node, (exp.Paren, exp.Neg)):
            return self.decimal(node.this)
        return _decimal(node, self._of(node))

    def _of(self, node: Any) -> Any:
        meta = getattr(node, "meta", {})  # an argument may be missing, or be a name
        return self._found.get(meta.get(_MARK, -1))


def type_name(kind: Any) -> str:
    """Return the name of sqlglot's type, such as ``DATETIME``; empty if it has none."""
    return str(getattr(getattr(kind, "this", None), "name", ""))


def types_of(query: Any, tables: Mapping[str, Table]) -> Types:
    """Return the types of a query over tables that are named by the keys of ``tables``."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    members = {}  # by the mark of a name: st.a is a column to the parser, and a member later
    for number, node in enumerate(query.walk()):
        node.meta[_MARK] = number
        if node.arg_key == "this" and isinstance(node.parent, exp.Column):
            members[number] = node.parent.meta[_MARK]
    columns = {
        ours: {column.name: _sqlglot_type(column.type) for column in table.schema}
        for ours, table in tables.items()
    }
    try:
        typed = sql_parser.annotate(query, columns, _annotating())
    except (SqlglotError, RecursionError):
        return Types({})  # DuckDB, or who writes the query for it, says what is wrong
    elements = _exploded(typed)
    found = {
        n.meta[_MARK]: elements.get((getattr(n, "table", ""), n.name.casefold()), n.type)
        for n in typed.walk()
        if _MARK in n.meta and n.type
    }
    for dot in typed.find_all(exp.Dot):
        if dot.type and _MARK not in dot.meta:
            found[members.get(dot.expression.meta.get(_MARK), -1)] = dot.type
    found |= _variables(typed)
    found.pop(-1, None)
    return Types(found, typed.selects)


def _exploded(query: Any) -> dict[tuple[str, str], Any]:
    """Return the types of the columns of LATERAL VIEW by alias and name; sqlglot errs on them."""
    from sqlglot import exp

    found: dict[tuple[str, str], Any] = {}
    for view in query.find_all(exp.Lateral):
        if type(view.this) not in (exp.Explode, exp.Posexplode) or not view.this.this.type:
            continue
        kinds = list(view.this.this.type.expressions)
        if type(view.this) is exp.Posexplode:
            kinds.insert(0, exp.DataType.build("BIGINT"))
        names = [name.casefold() for name in view.alias_column_names]
        found |= {(view.alias, name): kind for name, kind in zip(names, kinds, strict=False)}
    return found


def _variables(query: Any) -> dict[int, Any]:
    """Return the types of the variables of functions over the elements of an array, by mark."""
    from sqlglot import exp

    found = {}
    for function in query.find_all(exp.Lambda):
        kind: Any = getattr(function.parent.this, "type", None)
        if type_name(kind) in ("ARRAY", "LIST") and kind.expressions and function.expressions:
            name = function.expressions[0].name
            for node in function.this.find_all(exp.Identifier):
                if node.name == name and _MARK in node.meta:
                    found[node.meta[_MARK]] = kind.expressions[0]
    return found


def forget(node: Any) -> None:
    """Make the type of a node unknown: what was found for it holds no longer."""
    node.meta[_MARK] = -1


def duck_time(name: str) -> Any:
    """Return DuckDB's type of that name, such as ``TIMESTAMP_MS``, for a cast."""
    from sqlglot import exp

    return exp.DataType(this=exp.DataType.Type[name])


def wrap(node: Any, make: Callable[[Any], Any], *, mark_of: Any = None, typed: bool = True) -> None:
    """Put an expression in the place of a node, which it may hold.

    It has the type of the node, or of ``mark_of``; with ``typed=False`` its type is unknown.
    """
    from sqlglot import exp

    place = exp.Placeholder()
    node.replace(place)
    made = make(node)
    made.meta[_MARK] = (mark_of or node).meta.get(_MARK, -1) if typed else -1
    place.replace(made)


def operands(node: Any, *, computed: bool = False) -> Iterator[list[Any]]:
    """Yield the operands of a node that are brought to one type.

    Parameters
    ----------
    computed
        Also those of arithmetic, and of CASE, IF and COALESCE.
    """
    from sqlglot import exp

    compared: Any = (
        *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
        *((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod) if computed else ()),
    )
    if isinstance(node, compared):
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
        yield [node.this, *(one.this for one in node.args["ifs"])]
    if computed:
        yield from choices(node)


def choices(node: Any) -> Iterator[list[Any]]:
    """Yield the values of which a CASE, IF, NVL2, DECODE or COALESCE returns one."""
    from sqlglot import exp

    if isinstance(node, exp.Coalesce):
        yield [node.this, *node.expressions]
    elif isinstance(node, (exp.If, exp.Nvl2)) and not isinstance(node.parent, exp.Case):
        yield [one for key in ("true", "false") if (one := node.args.get(key)) is not None]
    elif isinstance(node, exp.Case):
        default = node.args.get("default")
        yield [*(one.args["true"] for one in node.args["ifs"]), *([default] if default else [])]
    elif isinstance(node, exp.DecodeCase):
        given = node.expressions
        yield [*given[2::2], *(given[-1:] if len(given) % 2 == 0 else [])]


def quotient_type(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """Return precision and scale of a quotient: Hive's rule, within the limits of MaxCompute."""
    scale = min(DECIMAL_SCALE, max(6, left[1] + right[0] + 1))
    return min(DECIMAL_DIGITS, left[0] - left[1] + right[1] + scale), scale


@cache
def _annotating() -> Any:
    """Return the dialect with the types of MaxCompute's functions and of DECIMAL arithmetic."""
    from sqlglot import exp

    base = maxcompute_dialect()
    plain = {
        kind: rule["annotator"]
        for kind, rule in base.EXPRESSION_METADATA.items()
        if "annotator" in rule
    }
    rules: dict[Any, Any] = {
        exp.Avg: _annotate_average,
        exp.Sum: partial(_annotate_sum, plain[exp.Sum]),
        exp.Anonymous: _annotate_call,
    }
    arithmetic = ((exp.Add, _sum_type), (exp.Sub, _sum_type), (exp.Mod, _sum_type))
    for kind, rule in (*arithmetic, (exp.Mul, product_type), (exp.Div, quotient_type)):
        rules[kind] = partial(_annotate_arithmetic, plain[kind], rule)
    for choice in (exp.Coalesce, exp.If, exp.Case):
        rules[choice] = partial(_annotate_choice, plain[choice])
    for compared in (exp.Greatest, exp.Least, exp.Nullif):
        rules[compared] = partial(_annotate_choice, plain[compared], text=False)
    rules[exp.CurrentTimestamp] = _annotate_now
    rules[exp.Bracket] = partial(_annotate_item, plain[exp.Bracket])
    for kept in (exp.ArgMax, exp.ArgMin, exp.ArrayFilter):
        rules[kept] = _annotate_kept
    rules[exp.ArrayUniqueAgg] = _annotate_set
    for rounded in (exp.Ceil, exp.Floor):
        rules[rounded] = _annotate_rounded
    for largest in (exp.ArrayMax, exp.ArrayMin):
        rules[largest] = _annotate_element
    for unknown in (exp.DecodeCase, exp.Nvl2):
        rules[unknown] = partial(_annotate_choice, None)
    made = {kind: {"annotator": rule} for kind, rule in rules.items()}
    known = {**base.EXPRESSION_METADATA, **made}
    return type("Annotating", (base,), {"EXPRESSION_METADATA": known})


def _annotate_arithmetic(plain: Any, rule: Any, annotator: Any, node: Any) -> Any:
    left, right = (_decimal(one, one.type) for one in (node.left, node.right))
    if left is None or right is None or not (_is_decimal(node.left) or _is_decimal(node.right)):
        return plain(annotator, node)
    return annotator._set_type(node, _decimal_type(*rule(left, right)))


def _annotate_average(annotator: Any, node: Any) -> Any:
    from sqlglot import exp

    found = _decimal(node.this, node.this.type) if _is_decimal(node.this) else None
    made = exp.DataType.Type.DOUBLE if found is None else _decimal_type(*average_type(found))
    return annotator._set_type(node, made)


def _annotate_sum(plain: Any, annotator: Any, node: Any) -> Any:
    found = _decimal(node.this, node.this.type) if _is_decimal(node.this) else None
    if found is None:
        return plain(annotator, node)
    return annotator._set_type(node, _decimal_type(DECIMAL_DIGITS, found[1]))


def _annotate_call(annotator: Any, node: Any) -> Any:
    from sqlglot import exp

    of: Any = node.expressions[0].type if node.expressions else None
    if node.name.upper() in _OF_MAPS and type_name(of) == "MAP" and len(of.expressions) == 2:
        kind = of.expressions[_OF_MAPS.index(node.name.upper())]
        return annotator._set_type(node, _array_of(kind))
    return annotator._set_type(node, exp.DataType.Type[_RETURNS.get(node.name.upper(), "UNKNOWN")])


def _annotate_item(plain: Any, annotator: Any, node: Any) -> Any:
    if type_name(node.this.type) == "MAP" and len(node.this.type.expressions) == 2:
        return annotator._set_type(node, node.this.type.expressions[1])
    return plain(annotator, node)


def _annotate_kept(annotator: Any, node: Any) -> Any:
    return annotator._set_type(node, node.this.type)


def _annotate_rounded(annotator: Any, node: Any) -> Any:
    from sqlglot import exp

    kinds = exp.DataType.Type
    return annotator._set_type(node, kinds.DOUBLE if node.args.get("decimals") else kinds.BIGINT)


def _annotate_set(annotator: Any, node: Any) -> Any:
    return annotator._set_type(node, _array_of(node.this.type))


def _annotate_element(annotator: Any, node: Any) -> Any:
    inner = node.this.type.expressions if node.this.type else []
    return annotator._set_type(node, inner[0] if len(inner) == 1 else node.type)


def _array_of(kind: Any) -> Any:
    from sqlglot import exp

    inner = [kind.copy()] if kind else []
    return exp.DataType(this=exp.DataType.Type.ARRAY, expressions=inner, nested=True)


def _annotate_now(annotator: Any, node: Any) -> Any:
    from sqlglot import exp

    return annotator._set_type(node, exp.DataType.Type.TIMESTAMP)


def _annotate_choice(plain: Any, annotator: Any, node: Any, *, text: bool = True) -> Any:
    """Find the type of what is one of several values: an instant if one of them is.

    With ``text`` it is text if one of them is.
    """
    if plain is not None:
        plain(annotator, node)
    values = next(choices(node), None) or [
        one for key in _RESULTS for one in _listed(node.args.get(key))
    ]
    kinds = [one.type for one in values if one.type is not None]
    times = [kind for kind in kinds if kind.is_type("datetime", "timestamp")]
    if times:
        texts = [kind for kind in kinds if kind.is_type("text", "varchar", "char")]
        return annotator._set_type(node, texts[0] if text and texts else times[0])
    return node


def _is_decimal(node: Any) -> bool:
    return node.type is not None and bool(node.type.is_type("decimal"))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def average_type(of: tuple[int, int]) -> tuple[int, int]:
    """Return precision and scale of an average: four digits more on both sides, as in Hive."""
    scale = min(DECIMAL_SCALE, of[1] + 4)
    return min(DECIMAL_DIGITS, of[0] + 4), scale


def product_type(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """Return precision and scale of a product: at most 18 digits are after the point.

    A factor of a project with the extended scale keeps its own.
    """
    scale = min(left[1] + right[1], max(DECIMAL_SCALE, left[1], right[1]))
    return min(DECIMAL_DIGITS, left[0] - left[1] + right[0] - right[1] + scale), scale


def _sum_type(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    scale = max(left[1], right[1])
    return min(DECIMAL_DIGITS, max(left[0] - left[1], right[0] - right[1]) + scale + 1), scale


def _decimal(node: Any, found: Any) -> tuple[int, int] | None:
    from sqlglot import exp

    if isinstance(node, exp.Literal) and not node.is_string:
        whole, _, fraction = node.this.partition(".")
        if fraction.isdigit() and (not whole or whole.isdigit()):
            return len(whole) + len(fraction), len(fraction)
        return (_WHOLE["INT" if len(whole) < 10 else "BIGINT"], 0) if whole.isdigit() else None
    name = type_name(found)
    if name == "DECIMAL":
        given = [int(one.name) for one in found.expressions]
        return (given[0], given[1] if len(given) > 1 else 0) if given else (38, 18)
    return (_WHOLE[name], 0) if name in _WHOLE else None


def _decimal_type(precision: int, scale: int) -> Any:
    from sqlglot import exp

    return exp.DataType.build(f"DECIMAL({precision}, {scale})")


@cache
def _sqlglot_type(odps: OdpsType) -> Any:
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if isinstance(odps, PrimitiveType) and odps.code in _UNREAD:
        return exp.DataType.build("unknown")
    if odps.code in _AS_TEXT:
        return exp.DataType.build("text")
    text = format_type(odps)
    if isinstance(odps, DecimalType) and odps.precision is None:
        text = "decimal(38,18)"
    try:
        return exp.DataType.build(text, dialect=maxcompute_dialect())
    except SqlglotError:
        return exp.DataType.build("unknown")  # nested, with one of those inside
