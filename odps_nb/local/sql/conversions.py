"""Writes out what MaxCompute converts by its own rules, where DuckDB has others.

Numbers with a point are DOUBLE, a cast to an integer cuts the fraction, an average and a quotient
of DECIMAL are DECIMAL. Sources: the vendor's manual, *Data type conversion*, *DECIMAL data type*
and *AVG*. Times are converted by `session_times`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sqlglot import exp

from odps_nb.local.sql.trees import (
    ARITHMETIC,
    COMPARISONS,
    call,
    cast,
    looked_up,
    operands,
    type_name,
    wrap,
)
from odps_nb.local.sql.types_of_query import (
    Digits,
    Types,
    average_type,
    product_type,
    quotient_type,
)

_TEXTS = ("TEXT", "VARCHAR", "CHAR")
_BYTES = ("BINARY", "VARBINARY")
_REALS = ("DOUBLE", "FLOAT", "DECIMAL")
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_NUMBERS = (*_WHOLE, *_REALS, *_TEXTS)
_COMPARED = (*COMPARISONS, exp.Between, exp.In, exp.Case, exp.DecodeCase)


def convert(query: Any, types: Types, *, exact_values: bool = False) -> None:
    """Write out the conversions of a query, in place.

    With ``exact_values`` numbers of VALUES stay as written: they go into columns that have a type.
    """
    for node in reversed(list(query.walk(bfs=False))):  # inner ones first
        if isinstance(node, ARITHMETIC):
            _compute(node, types)
        elif isinstance(node, exp.Avg):
            _average(node, types)
        elif isinstance(node, exp.Cast):
            _cast(node, types)
        elif isinstance(node, (exp.Ceil, exp.Floor)):
            _round(node, types)
        elif isinstance(node, exp.Literal):
            _number(node, types, exact_values=exact_values)
        elif isinstance(node, _COMPARED):
            _compare(node, types)
        elif isinstance(node, exp.Like) and not isinstance(node.parent, exp.Escape):
            wrap(node, lambda like: exp.Escape(this=like, expression=exp.Literal.string("\\")))


def _compute(node: Any, types: Types) -> None:
    """Make text that is computed with DOUBLE, and write quotients and products of DECIMAL."""
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if types.name(one) in _TEXTS and types.name(other) in _NUMBERS:
            wrap(one, lambda text: cast(text, "DOUBLE"))
    if not isinstance(node, (exp.Div, exp.Mul)):
        return
    left, right = types.decimal(node.left), types.decimal(node.right)
    if left is None or right is None or "DECIMAL" not in map(types.name, (node.left, node.right)):
        return
    if isinstance(node, exp.Div):
        made = _quotient(node.left, node.right, quotient_type(left, right))
    elif left[1] + right[1] > product_type(left, right)[1]:  # else DuckDB gives it its scale
        made = _product((node.left, left[1]), (node.right, right[1]), product_type(left, right))
    else:
        return
    wrap(node, lambda _: made)


def _compare(node: Any, types: Types) -> None:
    """Make text that is compared with numbers DOUBLE, or a DECIMAL if it meets one."""
    for values in (*operands(node), *looked_up(node)):
        met = {types.name(one): one for one in reversed(values)}
        if "DECIMAL" in met:
            precision, scale = types.decimal(met["DECIMAL"]) or (38, 18)
            kind = f"DECIMAL(38, {max(scale, min(18, 38 - (precision - scale)))})"
        elif met.keys() & {*_WHOLE, *_REALS}:
            kind = "DOUBLE"
        else:
            continue
        for one in values:
            if types.name(one) in _TEXTS:
                wrap(one, partial(exp.cast, to=kind))


def _round(node: Any, types: Types) -> None:
    """Make the result of CEIL and FLOOR a BIGINT, of which text is a DOUBLE."""
    if types.name(node.this) in _TEXTS:
        wrap(node.this, lambda text: cast(text, "DOUBLE"))
    if node.args.get("decimals") is None:
        wrap(node, lambda one: cast(one, "BIGINT"))


def _average(node: Any, types: Types) -> None:
    """Write AVG of a DECIMAL as a sum and a count, both with the window and filter around."""
    found = types.decimal(node.this)
    if found is None or types.name(node.this) != "DECIMAL":
        return
    whole = node
    while isinstance(whole.parent, (exp.Window, exp.Filter)) and whole.arg_key == "this":
        whole = whole.parent
    parts: list[Any] = []
    for kind in (exp.Sum, exp.Count):
        part = whole.copy()
        inner = next(one for one in part.walk() if isinstance(one, exp.Avg))
        made = kind(this=inner.this.copy())
        parts.append(made if inner is part else part)
        if inner is not part:
            inner.replace(made)
    wrap(whole, lambda _: _quotient(parts[0], parts[1], average_type(found)), mark_of=node)


def _cast(node: Any, types: Types) -> None:
    """Cut a fraction where DuckDB rounds, and give DATETIME and DECIMAL their own types."""
    wanted, given = node.to, types.name(node.this)
    function = ""
    if wanted.is_type("decimal") and not wanted.expressions:
        node.set("to", exp.DataType.build("DECIMAL(38, 18)"))
    elif wanted.is_type("datetime"):
        node.set("to", exp.DataType(this=exp.DataType.Type.TIMESTAMP_MS))
    elif type_name(wanted) in _WHOLE and given in (*_REALS, *_TEXTS):
        function = "mc_cut" if given in _REALS else "mc_whole"
    elif type_name(wanted) in _TEXTS and given in _BYTES:
        function = "decode"
    elif type_name(wanted) in _BYTES and given in _TEXTS:
        function = "encode"
    if function:
        wrap(node.this, lambda one: call(function, one))


def _number(node: Any, types: Types, *, exact_values: bool) -> None:
    """Make a number with a point DOUBLE, unless it meets a DECIMAL: that is the larger type."""
    if node.is_string or "." not in node.this or "e" in node.this.lower():
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
        return  # a fraction such as that of PERCENTILE
    beside = [
        types.name(one)
        for group in operands(value.parent, computed=True)
        if any(one is value for one in group)
        for one in group
        if one is not value
    ]
    if not any(name in ("DECIMAL", "") for name in beside):
        node.set("this", f"{node.this}e0")


def _quotient(left: Any, right: Any, found: Digits) -> Any:
    return exp.cast(call("mc_quotient", left, right), f"DECIMAL({found[0]}, {found[1]})")


def _product(left: tuple[Any, int], right: tuple[Any, int], found: Digits) -> Any:
    """Return the product of two values with their scales, rounded to a scale that is smaller."""
    whole = [
        call("mc_unscaled", exp.cast(one, f"DECIMAL(38, {scale})")) for one, scale in (left, right)
    ]
    total, scale = left[1] + right[1], found[1]
    powers = [left[1], right[1], scale, scale - left[1], scale - right[1], total - scale]
    product = call("mc_product", *whole, *(exp.Literal.number(10**power) for power in powers))
    unit = exp.cast(exp.Literal.string(f"1e-{scale}"), f"DECIMAL({scale + 1}, {scale})")
    scaled = exp.paren(exp.Mul(this=exp.cast(product, "DECIMAL(38, 0)"), expression=unit))
    return exp.cast(scaled, f"DECIMAL({found[0]}, {scale})")
