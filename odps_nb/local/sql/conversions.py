"""Writes out what MaxCompute converts by its own rules, where DuckDB has others.

Numbers with a point are DOUBLE, a cast to an integer cuts the fraction, an average and a quotient
of DECIMAL are DECIMAL. Sources: the vendor's manual, *Data type conversion*, *DECIMAL data type*
and *AVG*. Times are converted by `session_times`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from odps_nb.local.sql.session_times import looked_up
from odps_nb.local.sql.types_of_query import (
    Types,
    average_type,
    duck_time,
    operands,
    product_type,
    quotient_type,
    type_name,
    wrap,
)

_TEXTS = ("TEXT", "VARCHAR", "CHAR")
_BYTES = ("BINARY", "VARBINARY")
_REALS = ("DOUBLE", "FLOAT", "DECIMAL")
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_NUMBERS = (*_WHOLE, *_REALS, *_TEXTS)


def convert(query: Any, types: Types, *, exact_values: bool = False) -> None:
    """Write out the conversions of a query, in place.

    Parameters
    ----------
    exact_values
        Keep numbers of VALUES as they are written: they go into columns that have a type.
    """
    _Conversions(types).run(query, exact_values=exact_values)


class _Conversions:
    def __init__(self, types: Types) -> None:
        self._types = types

    def run(self, query: Any, *, exact_values: bool) -> None:
        for node in reversed(list(query.walk(bfs=False))):  # inner ones first
            self._convert(node, exact_values=exact_values)

    def _convert(self, node: Any, *, exact_values: bool) -> None:
        from sqlglot import exp

        if isinstance(node, (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)):
            self._compute(node)
        elif isinstance(node, exp.Avg):
            self._average(node)
        elif isinstance(node, exp.Cast):
            self._cast(node)
        elif isinstance(node, (exp.Ceil, exp.Floor)):
            self._round(node)
        elif isinstance(node, exp.Literal):
            self._number(node, exact_values=exact_values)
        elif isinstance(node, _comparing()):
            self._compare(node)
        elif isinstance(node, exp.Like) and not isinstance(node.parent, exp.Escape):
            wrap(node, _escaped)

    # -- numbers ------------------------------------------------------------------------------

    def _compute(self, node: Any) -> None:
        """Make text that is computed with DOUBLE."""
        from sqlglot import exp

        for one, other in ((node.left, node.right), (node.right, node.left)):
            if self._types.name(one) in _TEXTS and self._types.name(other) in _NUMBERS:
                wrap(one, lambda text: exp.Cast(this=text, to=exp.DataType.build("DOUBLE")))
        if isinstance(node, (exp.Div, exp.Mul)):
            self._compute_decimal(node)

    def _compare(self, node: Any) -> None:
        """Make text that is compared with numbers DOUBLE, or a DECIMAL if it meets one."""
        for values in (*operands(node), *looked_up(node)):
            met = {self._types.name(one) for one in values}
            decimals = [one for one in values if self._types.name(one) == "DECIMAL"]
            if decimals:
                precision, scale = self._types.decimal(decimals[0]) or (38, 18)
                scale = max(scale, min(18, 38 - (precision - scale)))
                self._read_numbers(values, f"DECIMAL(38, {scale})")
            elif met & {*_WHOLE, *_REALS}:
                self._read_numbers(values, "DOUBLE")

    def _read_numbers(self, values: list[Any], kind: str) -> None:
        from sqlglot import exp

        for one in values:
            if self._types.name(one) in _TEXTS:
                wrap(one, lambda text: exp.cast(text, kind))

    def _compute_decimal(self, node: Any) -> None:
        """Write a quotient or product of DECIMAL, unless DuckDB gives a product its scale."""
        from sqlglot import exp

        left, right = self._types.decimal(node.left), self._types.decimal(node.right)
        names = [self._types.name(one) for one in (node.left, node.right)]
        if left is None or right is None or "DECIMAL" not in names:
            return
        if isinstance(node, exp.Div):
            made = _quotient(node.left, node.right, quotient_type(left, right))
        elif left[1] + right[1] > product_type(left, right)[1]:
            made = _product((node.left, left[1]), (node.right, right[1]), product_type(left, right))
        else:
            return
        wrap(node, lambda _: made)

    def _round(self, node: Any) -> None:
        """Make the result of CEIL and FLOOR a BIGINT, of which text is a DOUBLE."""
        from sqlglot import exp

        if self._types.name(node.this) in _TEXTS:
            wrap(node.this, lambda text: exp.cast(text, "DOUBLE"))
        if node.args.get("decimals") is None:
            wrap(node, lambda one: exp.cast(one, "BIGINT"))

    def _average(self, node: Any) -> None:
        """Write AVG of a DECIMAL as a sum and a count, both with the window and filter around."""
        from sqlglot import exp

        found = self._types.decimal(node.this)
        if found is None or self._types.name(node.this) != "DECIMAL":
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
        total, count = parts
        wrap(whole, lambda _: _quotient(total, count, average_type(found)), mark_of=node)

    def _cast(self, node: Any) -> None:
        """Cut a fraction where DuckDB rounds, and give DATETIME and DECIMAL their own types."""
        from sqlglot import exp

        wanted, given = node.to, self._types.name(node.this)
        if wanted.is_type("decimal") and not wanted.expressions:
            node.set("to", exp.DataType.build("DECIMAL(38, 18)"))
        elif wanted.is_type("datetime"):
            node.set("to", duck_time("TIMESTAMP_MS"))
        elif type_name(wanted) in _WHOLE and given in (*_REALS, *_TEXTS):
            name = "mc_cut" if given in _REALS else "mc_whole"
            wrap(node.this, lambda one: exp.Anonymous(this=name, expressions=[one]))
        elif type_name(wanted) in _TEXTS and given in _BYTES:
            wrap(node.this, lambda one: exp.Anonymous(this="decode", expressions=[one]))
        elif type_name(wanted) in _BYTES and given in _TEXTS:
            wrap(node.this, lambda one: exp.Anonymous(this="encode", expressions=[one]))

    def _number(self, node: Any, *, exact_values: bool) -> None:
        """Make a number with a point DOUBLE, unless it meets a DECIMAL: that is the larger type."""
        from sqlglot import exp

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
            self._types.name(one)
            for group in operands(value.parent, computed=True)
            if any(one is value for one in group)
            for one in group
            if one is not value
        ]
        if not any(name in ("DECIMAL", "") for name in beside):
            node.set("this", f"{node.this}e0")


@cache
def _comparing() -> tuple[Any, ...]:
    from sqlglot import exp

    signs = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
    return (*signs, exp.Between, exp.In, exp.Case, exp.DecodeCase)


def _escaped(like: Any) -> Any:
    from sqlglot import exp

    return exp.Escape(this=like, expression=exp.Literal.string("\\"))


def _quotient(left: Any, right: Any, found: tuple[int, int]) -> Any:
    from sqlglot import exp

    call = exp.Anonymous(this="mc_quotient", expressions=[left, right])
    return exp.Cast(this=call, to=exp.DataType.build(f"DECIMAL({found[0]}, {found[1]})"))


def _product(left: tuple[Any, int], right: tuple[Any, int], found: tuple[int, int]) -> Any:
    """Return the product of two values with their scales, rounded to a scale that is smaller."""
    from sqlglot import exp

    whole = [
        exp.Anonymous(this="mc_unscaled", expressions=[exp.cast(one, f"DECIMAL(38, {scale})")])
        for one, scale in (left, right)
    ]
    total, scale = left[1] + right[1], found[1]
    powers = [left[1], right[1], scale, scale - left[1], scale - right[1], total - scale]
    numbers = [exp.Literal.number(10**power) for power in powers]
    call = exp.Anonymous(this="mc_product", expressions=[*whole, *numbers])
    unit = exp.cast(exp.Literal.string(f"1e-{scale}"), f"DECIMAL({scale + 1}, {scale})")
    scaled = exp.paren(exp.Mul(this=exp.cast(call, "DECIMAL(38, 0)"), expression=unit))
    return exp.cast(scaled, f"DECIMAL({found[0]}, {scale})")
