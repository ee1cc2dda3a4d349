"""Uses sqlglot's annotator to infer the MaxCompute types of the expressions in a query.

sqlglot annotates a qualified copy of the query. `Types` returns the type of a node of the original
query. Expressions whose type cannot be inferred have no type and are not converted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, partial
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from odps_nb import sql_parser
from odps_nb.local.sql.function_table import FUNCTIONS
from odps_nb.local.sql.functions import maxcompute_dialect
from odps_nb.local.sql.trees import MARK, choices, members_of, type_name
from odps_nb.local.store.tables import StoredTable
from odps_nb.schema import DecimalType, OdpsType, PrimitiveType, TypeCode
from odps_nb.wire.type_text import format_type

Digits = tuple[int, int]
"""Precision and scale of a DECIMAL."""
_DIGITS, _SCALE = 38, 18
# Types whose names the parser cannot read or reads as a different type.
_AS_TEXT = {TypeCode.JSON, TypeCode.CHAR, TypeCode.VARCHAR}
_UNREAD = {TypeCode.INTERVAL_DAY_TIME, TypeCode.INTERVAL_YEAR_MONTH, TypeCode.BLOB}
_OF_MAPS = ("MAP_KEYS", "MAP_VALUES")
KEEPING = ("DATEADD", "DATETRUNC")
"""Functions whose result has the type of the first argument (vendor's pages of these functions)."""
TIMES = ("DATE", "DATETIME", "TIMESTAMP", "TIMESTAMPNTZ")
_WHOLE = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}
_KINDS = exp.DataType.Type


class Types:
    """The types of a query's nodes; ``results`` contains the types of the result columns.

    ``columns`` are the numbers of the nodes that are columns of FROM, if they are known.
    """

    def __init__(
        self,
        found: Mapping[int, Any],
        results: Iterable[Any] = (),
        columns: Collection[int] | None = None,
    ) -> None:
        self._found, self._columns = found, columns
        self.results = tuple(type_name(expression.type) for expression in results)

    def name(self, node: Any) -> str:
        """Return the name of a node's type, such as ``DATETIME``; ``""`` if unknown."""
        return type_name(self._of(node))

    def element(self, node: Any) -> str:
        """Return the name of an array's element type; ``""`` if the node is not an array."""
        kind = self._of(node)
        return type_name(kind.expressions[0]) if type_name(kind) in ("ARRAY", "LIST") else ""

    def is_alias(self, column: Any) -> bool:
        """Return whether sqlglot replaced a column name with the expression of its alias."""
        return self._columns is not None and column.meta.get(MARK, -1) not in self._columns

    def members(self, node: Any) -> frozenset[str]:
        """Return the lower-case members of a node's STRUCTs (`members_of`)."""
        return members_of(self._of(node))

    def holds_instant(self, node: Any) -> bool:
        """Return whether a node's type is or contains DATETIME or TIMESTAMP."""
        kind = self._of(node)
        inner = kind.find_all(exp.DataType) if isinstance(kind, exp.DataType) else ()
        return any(part.is_type("datetime", "timestamp") for part in inner)

    def decimal(self, node: Any) -> Digits | None:
        """Return precision and scale of a DECIMAL, or of the DECIMAL that holds an integer type."""
        if isinstance(node, (exp.Paren, exp.Neg)):
            return self.decimal(node.this)
        return _decimal(node, self._of(node))

    def _of(self, node: Any) -> Any:
        meta = getattr(node, "meta", {})  # the node may be ``None`` or a string
        return self._found.get(meta.get(MARK, -1))


def types_of(query: Any, tables: Mapping[str, StoredTable]) -> Types:
    """Infer the types in a query; ``tables`` maps each table name in the query to its table."""
    # sqlglot parses the struct member st.a as column a; this maps a's node number to st.a's
    members = {}
    for number, node in enumerate(query.walk()):
        node.meta[MARK] = number
        if node.arg_key == "this" and isinstance(node.parent, exp.Column):
            members[number] = node.parent.meta[MARK]
    columns = {
        ours: {column.name: _sqlglot_type(column.type) for column in table.schema}
        for ours, table in tables.items()
    }
    try:
        typed = sql_parser.annotate(query, columns, _annotating())
    except (SqlglotError, RecursionError):
        return Types({})  # the translation or DuckDB will report the error
    types = {n.meta[MARK]: n.type for n in typed.walk() if MARK in n.meta and n.type}
    for dot in typed.find_all(exp.Dot):
        if dot.type and MARK not in dot.meta:
            types[members.get(dot.expression.meta.get(MARK), -1)] = dot.type
    types |= _variables(typed)
    types.pop(-1, None)
    return Types(types, typed.selects, {n.meta.get(MARK) for n in typed.find_all(exp.Column)})


def _variables(query: Any) -> dict[int, Any]:
    """Return the types of lambda variables for array elements, by node number (`MARK`)."""
    types = {}
    for function in query.find_all(exp.Lambda):
        kind: Any = getattr(function.parent.this, "type", None)
        if type_name(kind) in ("ARRAY", "LIST") and kind.expressions and function.expressions:
            name = function.expressions[0].name
            for node in function.this.find_all(exp.Identifier):
                if node.name == name and MARK in node.meta:
                    types[node.meta[MARK]] = kind.expressions[0]
    return types


def quotient_type(left: Digits, right: Digits) -> Digits:
    """Return the precision and scale of a quotient, by Hive's rule and MaxCompute's limits."""
    scale = min(_SCALE, max(6, left[1] + right[0] + 1))
    return min(_DIGITS, left[0] - left[1] + right[1] + scale), scale


def average_type(of: Digits) -> Digits:
    """Return the precision and scale of an average, each 4 more than the operand's, as in Hive."""
    return min(_DIGITS, of[0] + 4), min(_SCALE, of[1] + 4)


def product_type(left: Digits, right: Digits) -> Digits:
    """Return the type of a product. Its maximum scale is 18, or a factor's scale if larger."""
    scale = min(left[1] + right[1], max(_SCALE, left[1], right[1]))
    return min(_DIGITS, left[0] - left[1] + right[0] - right[1] + scale), scale


def _sum_type(left: Digits, right: Digits) -> Digits:
    scale = max(left[1], right[1])
    return min(_DIGITS, max(left[0] - left[1], right[0] - right[1]) + scale + 1), scale


@cache
def _annotating() -> Any:
    """Return the dialect, with MaxCompute's function types and DECIMAL arithmetic added."""
    base = maxcompute_dialect()
    rules: dict[Any, Callable[[Any], Any]] = {
        exp.Abs: _of_text,
        exp.Anonymous: _called,
        exp.ArrayUniqueAgg: lambda node: _array_of(node.this.type),
        exp.Avg: partial(_aggregated, average_type, _KINDS.DOUBLE),
        exp.Bracket: _item,
        exp.Concat: _joined,
        **dict.fromkeys((exp.Explode, exp.Posexplode), _exploded),
        exp.Mul: partial(_computed, product_type),
        exp.Round: lambda node: None if _is_decimal(node.this) else _KINDS.DOUBLE,
        exp.Div: partial(_computed, quotient_type),
        exp.Sum: partial(_aggregated, lambda of: (_DIGITS, of[1]), None),
        **dict.fromkeys((exp.Add, exp.Sub, exp.Mod), partial(_computed, _sum_type)),
        **dict.fromkeys((exp.ArgMax, exp.ArgMin, exp.ArrayFilter), lambda node: node.this.type),
        **dict.fromkeys((exp.ArrayMax, exp.ArrayMin), _element),
        **dict.fromkeys((exp.Ceil, exp.Floor), _rounded),
        **dict.fromkeys((exp.Coalesce, exp.If, exp.Case, exp.DecodeCase, exp.Nvl2), _chosen),
        **dict.fromkeys((exp.Greatest, exp.Least, exp.Nullif), _compared),
    }

    def annotator(kind: Any, rule: Callable[[Any], Any]) -> dict[str, Any]:
        plain = base.EXPRESSION_METADATA.get(kind, {}).get("annotator")

        def annotate(annotating: Any, node: Any) -> Any:
            if (inferred := rule(node)) is not None:
                return annotating._set_type(node, inferred)
            return node if plain is None else plain(annotating, node)

        return {"annotator": annotate}

    annotators = {kind: annotator(kind, rule) for kind, rule in rules.items()}
    return type(
        "Annotating", (base,), {"EXPRESSION_METADATA": base.EXPRESSION_METADATA | annotators}
    )


# Each rule returns the type of a node, or ``None`` for sqlglot's default.


def _computed(rule: Callable[[Digits, Digits], Digits], node: Any) -> Any:
    left, right = (_decimal(operand, operand.type) for operand in (node.left, node.right))
    if left is None or right is None or not (_is_decimal(node.left) or _is_decimal(node.right)):
        return None
    return _decimal_type(rule(left, right))


def _of_text(node: Any) -> Any:
    texts = exp.DataType.TEXT_TYPES
    return _KINDS.DOUBLE if node.this.type is not None and node.this.type.is_type(*texts) else None


def _aggregated(rule: Callable[[Digits], Digits], other: Any, node: Any) -> Any:
    digits = _decimal(node.this, node.this.type) if _is_decimal(node.this) else None
    return (other or _of_text(node)) if digits is None else _decimal_type(rule(digits))


def _called(node: Any) -> Any:
    name = node.name.upper()
    of: Any = node.expressions[0].type if node.expressions else None
    if name in _OF_MAPS and type_name(of) == "MAP" and len(of.expressions) == 2:
        return _array_of(of.expressions[_OF_MAPS.index(name)])
    if name in KEEPING:
        return _KINDS[kind if (kind := type_name(of)) in TIMES else "DATETIME"]
    if name == "DATEDIFF" and len(node.expressions) == 2:
        return _KINDS.INT
    if name == "TRUNC" and node.expressions:
        if _is_decimal(node.expressions[0]):
            return of
        return _KINDS.DATE if any(one.is_string for one in node.expressions[1:]) else _KINDS.DOUBLE
    function = FUNCTIONS.get(name.lower())
    if function is None or not function.returns:
        return _KINDS.UNKNOWN
    return of if function.returns == "1" else _KINDS[function.returns]


def _item(node: Any) -> Any:
    of = node.this.type
    return of.expressions[1] if type_name(of) == "MAP" and len(of.expressions) == 2 else None


def _joined(node: Any) -> Any:
    """Return the type of arrays that CONCAT joins (vendor's page of CONCAT), or of text."""
    kind = node.expressions[0].type if node.expressions else None
    return kind if type_name(kind) in ("ARRAY", "LIST") else _KINDS.VARCHAR


def _exploded(node: Any) -> Any:
    """Return a STRUCT with the columns of a LATERAL VIEW; sqlglot's default is the array's type."""
    kinds = list(node.this.type.expressions) if node.this.type else []
    if not isinstance(node.parent, exp.Lateral) or not kinds:
        return None
    if isinstance(node, exp.Posexplode):
        kinds.insert(0, exp.DataType.build("BIGINT"))
    names = map(exp.to_identifier, node.parent.alias_column_names)
    pairs = zip(names, kinds, strict=False)
    columns = [exp.ColumnDef(this=name, kind=kind.copy()) for name, kind in pairs]
    return exp.DataType(this=_KINDS.STRUCT, expressions=columns, nested=True)


def _rounded(node: Any) -> Any:
    return _KINDS.DOUBLE if node.args.get("decimals") else _KINDS.BIGINT


def _element(node: Any) -> Any:
    inner = node.this.type.expressions if node.this.type else []
    return inner[0] if len(inner) == 1 else _KINDS.UNKNOWN


def _array_of(kind: Any) -> Any:
    inner = [kind.copy()] if kind else []
    return exp.DataType(this=_KINDS.ARRAY, expressions=inner, nested=True)


def _chosen(node: Any) -> Any:
    """Return the text type if any choice is text, otherwise the type of the instants."""
    kinds = [choice.type for choice in choices(node) if choice.type is not None]
    texts = [kind for kind in kinds if kind.is_type(*exp.DataType.TEXT_TYPES)]
    times = [kind for kind in kinds if kind.is_type("datetime", "timestamp")]
    return next(iter((*texts, *times)), None)


def _compared(node: Any) -> Any:
    """Return the type of the first instant among the operands; DOUBLE for text and numbers."""
    kinds = [operand.type for operand in (node.this, *node.expressions) if operand.type is not None]
    texts = [kind for kind in kinds if kind.is_type(*exp.DataType.TEXT_TYPES)]
    numbers = [kind for kind in kinds if kind.is_type(*exp.DataType.NUMERIC_TYPES)]
    times = (kind for kind in kinds if kind.is_type("datetime", "timestamp"))
    return _KINDS.DOUBLE if texts and numbers else next(times, None)


def _is_decimal(node: Any) -> bool:
    return node.type is not None and bool(node.type.is_type("decimal"))


def _decimal(node: Any, kind: Any) -> Digits | None:
    if isinstance(node, exp.Literal) and not node.is_string:
        whole, _, fraction = node.this.partition(".")
        if fraction.isdigit() and (not whole or whole.isdigit()):
            return len(whole) + len(fraction), len(fraction)
        return (_WHOLE["INT" if len(whole) < 10 else "BIGINT"], 0) if whole.isdigit() else None
    name = type_name(kind)
    if name == "DECIMAL":
        parameters = [int(parameter.name) for parameter in kind.expressions]
        return (
            (parameters[0], parameters[1] if len(parameters) > 1 else 0)
            if parameters
            else (_DIGITS, _SCALE)
        )
    return (_WHOLE[name], 0) if name in _WHOLE else None


def _decimal_type(digits: Digits) -> Any:
    return exp.DataType.build("DECIMAL({}, {})".format(*digits))


@cache
def _sqlglot_type(odps: OdpsType) -> Any:
    text = format_type(odps)
    if isinstance(odps, PrimitiveType) and odps.code in _UNREAD:
        text = "unknown"
    elif odps.code in _AS_TEXT:
        text = "string"
    elif isinstance(odps, DecimalType) and odps.precision is None:
        text = f"decimal({_DIGITS},{_SCALE})"
    try:
        return exp.DataType.build(text, dialect=maxcompute_dialect())
    except SqlglotError:
        return exp.DataType.build("unknown")  # the parser cannot read a part of the type
