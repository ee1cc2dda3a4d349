"""Makes implicit conversions explicit where MaxCompute's rules differ from DuckDB's.

Number literals with a decimal point are DOUBLE, a cast to an integer truncates, and averages and
quotients of DECIMAL are DECIMAL. Sources: the vendor's manual, *Data type conversion*, *DECIMAL
data type* and *AVG*. `session_times` converts times, except inserted times.

Inserted constants are parsed as the type of their column. Other inserted times are converted in
the session's time zone. For a TIMESTAMP_NTZ, DATE or text column, an instant becomes a local time.
For a DATETIME or TIMESTAMP column, a local time becomes an instant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from sqlglot import exp

from odps_nb.local import errors
from odps_nb.local.sql.duck_types import CLOCKS
from odps_nb.local.sql.times import SessionClock
from odps_nb.local.sql.trees import (
    ARITHMETIC,
    BYTES,
    CALLED,
    COMPARISONS,
    REALS,
    TEXTS,
    WHOLE,
    call,
    cast,
    choices,
    leaves,
    looked_up,
    operands,
    place_of,
    type_name,
    wrap,
)
from odps_nb.local.sql.type_checks import is_unixtime
from odps_nb.local.sql.types_of_query import (
    TIMES,
    Digits,
    Types,
    average_type,
    product_type,
    quotient_type,
)
from odps_nb.local.sql.windows import check_default
from odps_nb.schema import TypeCode

_NUMBERS = (*WHOLE, *REALS, *TEXTS)
_DAYS = ("DATE", *WHOLE)
_EMPTY = exp.Literal.string("")
_LARGEST = 2**63 - 1
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?")
_BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_OF_TEXT = """
concat concat_ws length lengthb lower upper tolower toupper initcap substr substring trim ltrim hex
rtrim lpad rpad repeat replace reverse instr locate md5 sha sha1 sha2 split_part ascii to_char
substring_index translate find_in_set char_matchcount keyvalue wm_concat url_encode regexp_count
regexp_extract regexp_instr regexp_replace regexp_substr
"""
_CONVERTING = frozenset(_OF_TEXT.split())
"""Functions that convert numbers to text."""
_OF_ARRAYS = {"concat", "concat_ws", "reverse"}
_NESTED = ("ARRAY", "MAP", "STRUCT")
_OF_NUMBERS = """
abs acos asin atan atan2 avg cbrt cos cosh cot degrees exp ln log log10 log2 median pow power
radians sign sin sinh sqrt stddev stddev_pop stddev_samp sum tan tanh
"""
_COMPUTING = frozenset(_OF_NUMBERS.split())
"""Functions that convert text to DOUBLE (vendor's pages of these functions)."""
_COMPARED = (
    *(*COMPARISONS, exp.Between, exp.In, exp.Case, exp.DecodeCase),
    *(exp.Greatest, exp.Least),
)


def convert(query: Any, types: Types, *, exact_values: bool = False) -> None:
    """Add explicit conversions in place. ``exact_values`` keeps numbers in VALUES as written."""
    for node in reversed(list(query.walk(bfs=False))):  # inner nodes first
        _read_numbers(node, types)
        if isinstance(node, (*ARITHMETIC, exp.IntDiv)):
            _compute(node, types)
        elif isinstance(node, (exp.Avg, exp.Sum)):
            _aggregate(node, types)
        elif isinstance(node, exp.Cast):
            _cast(node, types)
        elif isinstance(node, (exp.Ceil, exp.Floor)):
            _round(node)
        elif isinstance(node, exp.Round):
            _round_double(node, types)
        elif isinstance(node, exp.Literal):
            _number(node, types, exact_values=exact_values)
        elif isinstance(node, _COMPARED):
            _compare(node, types)
        if isinstance(node, (exp.Lag, exp.Lead)):
            check_default(node, types)
        _keep_signs(node)
        _keep_texts(node, types)
        _show_texts(node, types)


def _keep_signs(node: Any) -> None:
    """Make the escape sign of LIKE explicit, and cast the result of ``&``, ``|`` and ``^``.

    The latter is a BIGINT, or NULL for its smallest value (vendor's pages on the data types).
    """
    if isinstance(node, exp.Like) and not isinstance(node.parent, exp.Escape):
        wrap(node, lambda like: exp.Escape(this=like, expression=exp.Literal.string("\\")))
    if not isinstance(node, _BITS):
        return
    lowest = exp.Neg(this=exp.Literal.number(2**63))
    wrap(node, lambda bits: exp.Nullif(this=cast(bits, "BIGINT"), expression=lowest))


def _show_texts(node: Any, types: Types) -> None:
    """Convert DECIMALs and times to text as MaxCompute does, where text is required."""
    values: list[Any] = []
    if isinstance(node, exp.Cast) and type_name(node.to) in TEXTS:
        values = [node.this]
    elif isinstance(node, exp.DPipe) or node.meta.get(CALLED) in _CONVERTING:
        values = list(node.iter_expressions())
    elif any(types.name(value) in TEXTS for value in choices(node)):
        values = choices(node)
    for value in values:
        name = types.name(value)
        if (
            name == "BOOLEAN"
            and not isinstance(node, exp.Cast)
            and node.meta.get(CALLED) != "to_char"
        ):
            raise errors.semantic(
                "BOOLEAN is not converted to text",
                at=place_of(value),
                advice="write to_char(b) or cast(b as string)",
            )
        if name in _NESTED and node.meta.get(CALLED) in _CONVERTING - _OF_ARRAYS:
            raise errors.semantic(
                f"{name} is not converted to text", at=place_of(value), advice="write to_json(…)"
            )
        if name == "DECIMAL":
            wrap(value, lambda decimal: call("mc_decimal_text", decimal), typed=False)
        elif name in TIMES and not isinstance(value, exp.Literal):
            wrap(value, lambda time: call("mc_dated", time))


def _keep_texts(node: Any, types: Types) -> None:
    """Cast text beside numbers in arrays, CASE or VALUES to STRING; DuckDB would round it."""
    columns: list[Any] = [node.expressions] if isinstance(node, exp.Array) else [choices(node)]
    if isinstance(node, exp.Values):
        columns = list(zip(*(row.expressions for row in node.expressions), strict=False))
    for values in columns:
        names = {types.name(value) for value in values}
        if names & set(TEXTS) and names & {*WHOLE, *REALS}:
            for value in values:
                if value.is_string:
                    wrap(value, lambda text: cast(text, "TEXT"))


def _compute(node: Any, types: Types) -> None:
    """Cast text operands of arithmetic to DOUBLE, and rewrite DECIMAL quotients and products."""
    if isinstance(node, exp.IntDiv):
        if {types.name(node.left), types.name(node.right)} & {*REALS, *TEXTS}:
            raise errors.lacks("DIV of numbers that are not integers", is_sure=False)
        return
    _check_dates(node, types)
    for operand, other in ((node.left, node.right), (node.right, node.left)):
        if types.name(operand) in TEXTS and types.name(other) in _NUMBERS:
            wrap(operand, partial(_read_number, kind="DOUBLE"))
    if not isinstance(node, (exp.Div, exp.Mul)):
        return
    left, right = types.decimal(node.left), types.decimal(node.right)
    if left is None or right is None or "DECIMAL" not in map(types.name, (node.left, node.right)):
        return
    if isinstance(node, exp.Div):
        replacement = _quotient(node.left, node.right, quotient_type(left, right))
    elif left[1] + right[1] > product_type(left, right)[1]:  # otherwise, DuckDB's scale is correct
        replacement = _product(
            (node.left, left[1]), (node.right, right[1]), product_type(left, right)
        )
    else:
        return
    wrap(node, lambda _: replacement)


def _check_dates(node: Any, types: Types) -> None:
    """Raise 400 for DATE - DATE, which is an INTERVAL in MaxCompute, and for DATE + 1."""
    names = types.name(node.left), types.name(node.right)
    if isinstance(node, (exp.Add, exp.Sub)) and names[0] == "DATE" and names[1] in _DAYS:
        raise errors.lacks(
            f"a sum or difference of DATE and {names[1]}",
            is_sure=names[1] == "DATE",
            at=place_of(node.right),
            advice="write datediff(a, b), date_add(d, n) or date_sub(d, n)",
        )


def _read_numbers(node: Any, types: Types) -> None:
    if node.meta.get(CALLED) not in _COMPUTING and not isinstance(node, (exp.Ceil, exp.Floor)):
        return
    for argument in list(node.iter_expressions()):
        values = argument.expressions if isinstance(argument, exp.Distinct) else [argument]
        for value in values:
            if types.name(value) in TEXTS:
                wrap(value, partial(_read_number, kind="DOUBLE"), typed=False)


def _read_number(text: Any, kind: str) -> Any:
    return exp.cast(call("mc_read_number", text), kind)


def _compare(node: Any, types: Types) -> None:
    """Cast text compared with numbers to DOUBLE, or to DECIMAL if one of the numbers is DECIMAL."""
    for values in (*operands(node), *looked_up(node)):
        met = {types.name(value): value for value in reversed(values)}
        if met.keys() & set(TEXTS):
            _refuse_bare_dates(values)
        if "DECIMAL" in met:
            precision, scale = types.decimal(met["DECIMAL"]) or (38, 18)
            kind = f"DECIMAL(38, {max(scale, min(18, 38 - (precision - scale)))})"
        elif met.keys() & {*WHOLE, *REALS}:
            kind = "DOUBLE"
        else:
            continue
        for value in values:
            if types.name(value) in TEXTS:
                wrap(value, partial(_read_number, kind=kind))


def _refuse_bare_dates(values: Sequence[Any]) -> None:
    """Raise 400 for ``2024-01-01`` without quotes, which is a subtraction and never equals text."""
    for value in values:
        if isinstance(value, exp.Sub) and _DATE.fullmatch(date := value.sql().replace(" ", "")):
            raise errors.semantic(
                f"{date} without quotes is a subtraction",
                advice=f"write dates and times in quotes: '{date}'",
            )


def _round(node: Any) -> None:
    """Cast the result of CEIL and FLOOR to BIGINT."""
    if node.args.get("decimals") is None:
        wrap(node, lambda rounding: cast(rounding, "BIGINT"))


def _round_double(node: Any, types: Types) -> None:
    """Round the digits of a DOUBLE as they are written: 1.005 to two places is 1.01."""
    decimals = node.args.get("decimals") or exp.Literal.number(0)
    if types.name(node.this) in (*WHOLE, "DOUBLE", "FLOAT", *TEXTS):
        wrap(node, lambda rounding: call("mc_round", rounding.this, decimals))


def _aggregate(node: Any, types: Types) -> None:
    if types.name(node.this) in ("BOOLEAN", *TIMES):  # DuckDB returns a count or a time
        name = type(node).__name__.upper()
        raise errors.semantic(f"{name} requires numbers", advice="write count_if or max instead")
    if isinstance(node, exp.Avg):
        _average(node, types)


def _average(node: Any, types: Types) -> None:
    """Rewrite AVG of a DECIMAL as SUM / COUNT, both with the window and filter of the AVG."""
    digits = types.decimal(node.this)
    if digits is None or types.name(node.this) != "DECIMAL":
        return
    whole = node
    while isinstance(whole.parent, (exp.Window, exp.Filter)) and whole.arg_key == "this":
        whole = whole.parent
    parts: list[Any] = []
    for kind in (exp.Sum, exp.Count):
        part = whole.copy()
        inner = next(child for child in part.walk() if isinstance(child, exp.Avg))
        aggregate = kind(this=inner.this.copy())
        parts.append(aggregate if inner is part else part)
        if inner is not part:
            inner.replace(aggregate)
    wrap(whole, lambda _: _quotient(parts[0], parts[1], average_type(digits)), mark_of=node)


def _cast(node: Any, types: Types) -> None:
    """Rewrite a cast by MaxCompute's rules; for example, truncate where DuckDB would round."""
    target, source = node.to, types.name(node.this)
    function = ""
    if target.is_type("decimal") and not target.expressions:
        node.set("to", exp.DataType.build("DECIMAL(38, 18)"))
    elif target.is_type("datetime"):
        node.set("to", exp.DataType(this=exp.DataType.Type.TIMESTAMP_MS))
    elif is_unixtime(source, type_name(target)):
        function = "mc_from_unixtime"
    elif type_name(target) in WHOLE and source in (*REALS, *TEXTS):
        function = "mc_cut" if source in REALS else "mc_whole"
    elif source in TEXTS and type_name(target) == "BOOLEAN":
        wrap(node, lambda cast_node: exp.NEQ(this=cast_node.this, expression=_EMPTY.copy()))
    elif source in TEXTS and type_name(target) in (*REALS, "DATE"):
        function = "mc_only_date" if type_name(target) == "DATE" else "mc_number"
    elif type_name(target) in TEXTS and source in BYTES:
        function = "decode"
    elif type_name(target) in BYTES and source in TEXTS:
        function = "encode"
    if function:
        wrap(node.this, lambda argument: call(function, argument))


def _number(node: Any, types: Types, *, exact_values: bool) -> None:
    """Cast a number literal with a decimal point to DOUBLE, unless an operand is a DECIMAL.

    Also cast an integer that is too large for a BIGINT.
    """
    largest = _LARGEST + isinstance(node.parent, exp.Neg)
    is_large = node.this.isdigit() and int(node.this) > largest
    if node.is_string or not ("." in node.this or is_large) or "e" in node.this.lower():
        return
    around = node.find_ancestor(exp.Values, exp.Select, exp.TableSample, exp.DataTypeParam)
    if isinstance(around, (exp.TableSample, exp.DataTypeParam)):
        return
    if exact_values and isinstance(around, exp.Values):
        return
    value = node
    while isinstance(value.parent, (exp.Neg, exp.Paren)):
        value = value.parent
    around = value.parent
    if isinstance(around, exp.Cast) and around.to.is_type("decimal"):
        return
    if isinstance(around, exp.AggFunc) and value.arg_key != "this":
        return  # the argument is a fraction, as in PERCENTILE
    others = [
        types.name(operand)
        for group in operands(value.parent, computed=True)
        if any(operand is value for operand in group)
        for operand in group
        if operand is not value
    ]
    if not any(name in ("DECIMAL", "") for name in others):
        node.set("this", f"{node.this}e0")


def _quotient(left: Any, right: Any, digits: Digits) -> Any:
    return exp.cast(call("mc_quotient", left, right), f"DECIMAL({digits[0]}, {digits[1]})")


def _product(left: tuple[Any, int], right: tuple[Any, int], digits: Digits) -> Any:
    """Return the product of two (value, scale) pairs, rounded to a smaller scale."""
    whole = [
        call("mc_unscaled", exp.cast(value, f"DECIMAL(38, {scale})"))
        for value, scale in (left, right)
    ]
    total, scale = left[1] + right[1], digits[1]
    powers = [left[1], right[1], scale, scale - left[1], scale - right[1], total - scale]
    product = call("mc_product", *whole, *(exp.Literal.number(10**power) for power in powers))
    unit = exp.cast(exp.Literal.string(f"1e-{scale}"), f"DECIMAL({scale + 1}, {scale})")
    scaled = exp.paren(exp.Mul(this=exp.cast(product, "DECIMAL(38, 0)"), expression=unit))
    return exp.cast(scaled, f"DECIMAL({digits[0]}, {scale})")


# -- inserted values ------------------------------------------------------------------------------

_INSTANT_CODES = {TypeCode.DATETIME: "DATETIME", TypeCode.TIMESTAMP: "TIMESTAMP"}
_CLOCK_TIME = "TIMESTAMPNTZ"
_DIGITS = 38


def fit_constants(query: Any, into: Sequence[TypeCode], *, exact: bool = False) -> None:
    """Cast inserted time constants to the column types and, with ``exact``, numbers to DECIMAL."""
    kinds = exp.DataType.Type
    for row in _rows(query):
        for value, code in zip(row, into, strict=False):
            for choice in _choices(value):
                if exact and code is TypeCode.DECIMAL:
                    _keep_digits(choice)
                if not (isinstance(choice, exp.Cast) and isinstance(choice.this, exp.Literal)):
                    continue
                if code is TypeCode.TIMESTAMP_NTZ and choice.to.is_type(*_INSTANT_CODES.values()):
                    choice.set("to", exp.DataType(this=kinds[_CLOCK_TIME]))
                elif code in _INSTANT_CODES and choice.to.is_type(_CLOCK_TIME):
                    choice.set("to", exp.DataType(this=kinds[_INSTANT_CODES[code]]))


def _keep_digits(value: Any) -> None:
    """Cast a number literal with a decimal point to DECIMAL, unless it has too many digits."""
    number = value.this if isinstance(value, exp.Neg) else value
    if isinstance(number, exp.Literal) and not number.is_string:
        whole, _, fraction = number.this.partition(".")
        digits = len(whole) + len(fraction)
        if whole.isdigit() and fraction.isdigit() and digits <= _DIGITS:
            kind = exp.DataType.build(f"DECIMAL({digits}, {len(fraction)})")
            value.replace(exp.Cast(this=value.copy(), to=kind))


def convert_rows(query: Any, into: Sequence[TypeCode], types: Types, clock: SessionClock) -> None:
    """Convert inserted values that are not constants, in place. Skips columns from a ``*``."""
    if clock.is_utc:
        return
    for row in _rows(query):
        for value, code in zip(row, into, strict=False):
            kind = types.name(value)
            if code in CLOCKS and kind in _INSTANT_CODES.values():
                clock.show(value)
            elif code in _INSTANT_CODES and kind == _CLOCK_TIME:
                clock.read(value, _INSTANT_CODES[code])


def has_star(query: Any) -> bool:
    """Return whether a query has a ``*`` whose columns `convert_rows` cannot convert."""
    return isinstance(query, exp.Select) and query.is_star and _passed_through(query) is None


def _rows(query: Any) -> Iterator[list[Any]]:
    """Yield the column expressions of each SELECT or row of VALUES that produces rows."""
    for leaf in leaves(query):
        if isinstance(leaf, exp.Values):
            for row in leaf.expressions:
                yield list(row.expressions) if isinstance(row, exp.Tuple) else [row.unnest()]
        elif isinstance(leaf, exp.Select):
            if (inner := _passed_through(leaf)) is not None:
                yield from _rows(inner)
            elif not any(shown.is_star for shown in leaf.expressions):
                yield [shown.unalias() for shown in leaf.expressions]


def _passed_through(select: Any) -> Any | None:
    """Return the subquery whose columns a SELECT returns unchanged, or ``None``."""
    clauses = {key for key, value in select.args.items() if value}
    if "from_" not in clauses or not clauses <= {"expressions", "from_", "where"}:
        return None
    source, where = select.args["from_"].this, select.args.get("where")
    if isinstance(source, exp.Values) and len(select.expressions) == 1:
        return source if select.expressions[0].is_star and where is None else None
    alias = source.args.get("alias")
    if not isinstance(source, exp.Subquery) or alias is None or not alias.columns:
        return None
    names = [column.name for column in alias.columns]
    shown = [
        expression.name if isinstance(expression, exp.Column) else ""
        for expression in select.expressions
    ]
    looked = {column.name for column in where.find_all(exp.Column)} if where is not None else set()
    return source if names[: len(shown)] == shown and not looked & set(shown) else None


def _choices(value: Any) -> Iterator[Any]:
    """Yield the expressions that may supply the value: the branches of CASE, IF and COALESCE."""
    if isinstance(value, exp.Paren):
        yield from _choices(value.this)
    elif isinstance(value, (exp.Case, exp.If, exp.Coalesce)):
        for choice in choices(value):
            yield from _choices(choice)
    else:
        yield value
