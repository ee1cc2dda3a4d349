"""Rewrites functions whose translation to DuckDB depends on the types of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from odps_nb.local import errors
from odps_nb.local.sql.trees import call, cast, place_of, wrap

if TYPE_CHECKING:  # `types_of_query` uses the dialect
    from odps_nb.local.sql.types_of_query import Types

_PLACES = 18


def _matched(node: Any, _types: Types, *, all_of: bool) -> Any:
    """Rewrite ALL_MATCH (true for an empty array) and ANY_MATCH (false); NULL for a NULL array."""
    if len(node.expressions) != 2 or not isinstance(node.expressions[1], exp.Lambda):
        raise errors.semantic(f"{node.name.upper()} requires an ARRAY and a function")
    array, function = node.expressions
    known = exp.Not(this=exp.Is(this=array.copy(), expression=exp.null()))
    folded = call(
        "list_bool_and" if all_of else "list_bool_or",
        call(
            "list_prepend",
            exp.convert(all_of),
            exp.Transform(this=array, expression=function),
        ),
    )
    node.replace(case := exp.Case().when(known, folded))
    return case


def _sampled(node: Any, _types: Types) -> Any:
    """Rewrite STDDEV_SAMP, which is 0 for one value."""
    whole = node
    while isinstance(whole.parent, (exp.Window, exp.Filter)) and whole.arg_key == "this":
        whole = whole.parent
    counted = whole.copy()
    inner = next(child for child in counted.walk() if isinstance(child, exp.StddevSamp))
    count = exp.Count(this=inner.this.copy())
    if inner is counted:
        counted = count
    else:
        inner.replace(count)
    zero = exp.Mul(
        this=exp.Nullif(this=counted, expression=exp.Literal.number(0)),
        expression=exp.cast(exp.Literal.number(0), "double"),
    )
    wrap(whole, lambda aggregate: exp.Coalesce(this=aggregate, expressions=[zero]))
    return node


def _reversed(node: Any, types: Types) -> Any:
    if types.name(node.this) in ("ARRAY", "LIST"):
        node.replace(reversed_ := call("list_reverse", node.this))
        return reversed_
    return node


def _sized(node: Any, types: Types) -> Any:
    if types.name(node.this) == "MAP":
        node.replace(size := call("cardinality", node.this))
        return size
    return node


def _truncated(node: Any, types: Types) -> Any:
    """Rewrite TRUNC of a number, or of a date with a unit (the Hive-compatible form)."""
    value, *rest = node.expressions or [None]
    decimals = rest[0] if rest else exp.Literal.number(0)
    number = decimals.this if isinstance(decimals, exp.Neg) else decimals
    if value is None or len(rest) > 1 or not isinstance(number, exp.Literal):
        raise errors.semantic(
            "TRUNC requires a number and a constant number of decimal places",
            at=place_of(node),
        )
    if number.is_string:
        node.set("this", "mc_trunc_date")
        return node
    digits = max(-_PLACES, min(_PLACES, int(number.this) * (-1 if number is not decimals else 1)))
    unit: Any = exp.Literal.number(10**-digits)
    if digits > 0:
        spelled = exp.Literal.string(f"1e-{digits}")
        unit = exp.cast(spelled, f"DECIMAL({digits + 1}, {digits})")
    if types.name(value) == "DECIMAL":
        rest_of = exp.Mod(this=value.copy(), expression=unit)
        truncated: Any = exp.paren(exp.Sub(this=value, expression=rest_of))
    else:
        truncated = call("mc_trunc", value, unit)
    node.replace(truncated)
    return truncated


def _lengthb(node: Any, types: Types) -> Any:
    is_binary = len(node.expressions) == 1 and types.name(node.expressions[0]) == "BINARY"
    node.set("this", "octet_length" if is_binary else "mc_lengthb")
    return node


def _extracted(node: Any, _types: Types) -> Any:
    pattern, group = node.expression, node.args.get("group")
    is_whole = isinstance(group, exp.Literal) and group.this == "0"
    if isinstance(pattern, exp.Literal) and "(" not in pattern.this and not is_whole:
        raise errors.semantic(
            "the pattern of REGEXP_EXTRACT has no group",
            at=place_of(pattern),
            advice="put parentheses around the part to extract, or pass 0 for the whole match",
        )
    return node


def _replaced(node: Any, _types: Types) -> Any:
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        raise errors.lacks("REGEXP_REPLACE of one occurrence", is_sure=True)
    return node


def _narrowed(node: Any, types: Types, *, argument: str) -> Any:
    """Cast a BIGINT to INT, because DuckDB's function does not accept BIGINT."""
    value = node.args[argument]
    value = value[0] if isinstance(value, list) else value
    if types.name(value) != "INT":
        wrap(value, partial(cast, name="INT"))
    return node


def _factorial(node: Any, types: Types) -> Any:
    """Rewrite FACTORIAL, which is NULL for arguments outside 0 to 20."""
    fits = exp.Between(this=node.this.copy(), low=exp.convert(0), high=exp.convert(20))
    _narrowed(node, types, argument="this")
    wrap(node, lambda product: exp.Case().when(fits, product))
    return node


def _least(node: Any, _types: Types) -> Any:
    """Rewrite LEAST: NULL is less than any value (and never the result of GREATEST)."""
    values = [node.this, *node.expressions]
    known = exp.and_(*(exp.Is(this=one.copy(), expression=exp.null()).not_() for one in values))
    wrap(node, lambda least: exp.Case().when(known, least))
    return node


def _split(node: Any, _types: Types) -> Any:
    if not node.expression.is_string:  # DuckDB returns the whole text for a NULL pattern
        node.replace(split := call("mc_split", node.this, node.expression))
        return split
    return node


def check_fraction(node: Any, _types: Types | None) -> Any:
    """Raise 400 for a negative fraction, which DuckDB counts from the largest value."""
    if node.args["quantile"].find(exp.Neg) is not None:
        raise errors.semantic("the fraction of a percentile must be 0 to 1", at=place_of(node))
    return node


REWRITES: dict[str, Callable[[Any, Any], Any]] = {
    "all_match": partial(_matched, all_of=True),
    "any_match": partial(_matched, all_of=False),
    "chr": partial(_narrowed, argument="expressions"),
    "factorial": _factorial,
    "least": _least,
    "lpad": partial(_narrowed, argument="expression"),
    "percentile_approx": check_fraction,
    "rpad": partial(_narrowed, argument="expression"),
    "lengthb": _lengthb,
    "regexp_extract": _extracted,
    "regexp_replace": _replaced,
    "reverse": _reversed,
    "size": _sized,
    "split": _split,
    "stddev_samp": _sampled,
    "trunc": _truncated,
}
