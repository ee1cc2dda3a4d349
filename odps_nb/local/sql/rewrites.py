"""Rewrites functions whose translation to DuckDB depends on the types of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from odps_nb.local import errors
from odps_nb.local.sql.trees import CALLED, REALS, call, cast, place_of, wrap

if TYPE_CHECKING:  # `types_of_query` uses the dialect
    from odps_nb.local.sql.types_of_query import Types

_PLACES = 18


def _matched(node: Any, _types: Types, *, all_of: bool) -> Any:
    """Rewrite ALL_MATCH and ANY_MATCH, which are NULL if NULLs among the results decide."""
    if len(node.expressions) != 2 or not isinstance(node.expressions[1], exp.Lambda):
        raise errors.semantic(f"{node.name.upper()} requires an ARRAY and a function")
    array, function = node.expressions
    results = exp.Transform(this=array, expression=function)
    node.replace(matched := call("mc_all_match" if all_of else "mc_any_match", results))
    return matched


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
    """Rewrite REGEXP_REPLACE; without a match, the text remains even if the replacement is NULL."""
    occurrence = node.args.get("position")  # sqlglot's name of the fourth argument
    is_all = occurrence is None or (isinstance(occurrence, exp.Literal) and occurrence.name == "0")
    if not is_all or node.args.get("occurrence") is not None:
        raise errors.lacks("REGEXP_REPLACE of one occurrence", is_sure=True)
    node.set("position", None)
    if node.args.get("replacement") is None:
        raise errors.semantic("REGEXP_REPLACE requires a replacement", at=place_of(node))
    if not node.args["replacement"].is_string:
        known = exp.Is(this=node.args["replacement"].copy(), expression=exp.null()).not_()
        found = call("regexp_matches", node.this.copy(), node.expression.copy())
        source = node.this.copy()
        wrap(
            node,
            lambda replaced: exp.Case().when(known, replaced).when(exp.not_(found), source),
        )
    return node


def _factorial(node: Any) -> Any:
    """Rewrite FACTORIAL, which is NULL for arguments outside 0 to 20."""
    fits = exp.Between(this=node.this.copy(), low=exp.convert(0), high=exp.convert(20))
    wrap(node.this, partial(cast, name="INT"))  # DuckDB's function does not accept BIGINT
    wrap(node, lambda product: exp.Case().when(fits, product))
    return node


def _least(node: Any, _types: Types) -> Any:
    """Rewrite LEAST: NULL is less than any value (and never the result of GREATEST)."""
    values = [node.this, *node.expressions]
    known = exp.and_(*(exp.Is(this=one.copy(), expression=exp.null()).not_() for one in values))
    wrap(node, lambda least: exp.Case().when(known, least))
    return node


def _split(node: Any, _types: Types) -> Any:
    trims = node.args.get("limit") or exp.true()
    node.replace(split := call("mc_split", node.this, node.expression, trims))
    return split


def _called(node: Any, _types: Types, *, name: str, keys: str = "this") -> Any:
    """Replace a node with a macro, whose arguments are the parts of the node with these keys."""
    arguments = [node.args[key] for key in keys.split() if node.args.get(key) is not None]
    node.replace(macro := call(f"mc_{name}", *arguments))
    return macro


def _chr(node: Any, _types: Types) -> Any:
    node.replace(macro := call("mc_chr", *node.expressions))
    return macro


def _joined(node: Any, types: Types) -> Any:
    """Rewrite CONCAT_WS, which is NULL if an argument is NULL."""
    known = exp.and_(
        *(exp.Is(this=one.copy(), expression=exp.null()).not_() for one in node.expressions)
    )
    for value in node.expressions[1:]:
        if types.name(value) in ("ARRAY", "LIST"):
            wrap(value, lambda array: call("mc_joinable", array))
    wrap(node, lambda joined: exp.Case().when(known, joined))
    return node


def _hex(node: Any, types: Types) -> Any:
    if types.name(node.this) in ("DOUBLE", "FLOAT"):
        wrap(node.this, lambda value: cast(value, "TEXT"))
    return node


def _whole(node: Any, types: Types) -> Any:
    """Rewrite BIN and FACTORIAL, whose argument must be an integer."""
    name = node.meta[CALLED]
    value = node.this if name == "factorial" else node.expressions[0]
    if types.name(value) in REALS:
        raise errors.semantic(f"{name.upper()} requires an integer", at=place_of(value))
    if name == "factorial":
        return _factorial(node)
    node.set("this", f"mc_{name}")
    return node


def _clock_part(node: Any, types: Types) -> Any:
    """Rewrite HOUR, MINUTE and SECOND, which are NULL for a DATE."""
    if len(node.expressions) == 1 and types.name(node.expressions[0]) == "DATE":
        node.replace(part := cast(exp.null(), "INT"))
        return part
    node.set("this", f"mc_{node.meta[CALLED]}")
    return node


def _median(node: Any, types: Types) -> Any:
    if types.name(node.this) == "DECIMAL":
        exact = exp.DataType.build(f"DECIMAL(38, {_PLACES})")  # keeps the mean of two values
        wrap(node.this, lambda decimal: exp.Cast(this=decimal, to=exact))
    return node


def _counted(node: Any, _types: Types) -> Any:
    """Rewrite COUNT_IF, which is 0 without rows."""
    node.replace(count := exp.Count(this=exp.Case().when(node.this, exp.true())))
    return count


def _as_json(node: Any, types: Types) -> Any:
    """Rewrite TO_JSON, which omits NULL members and writes their names in lower case."""
    if node.this is None:
        raise errors.semantic("TO_JSON requires a value", at=place_of(node))
    for member in node.this.find_all(exp.PropertyEQ):
        member.this.set("this", member.this.name.lower())
    wrap(node, lambda text: call("mc_members", exp.cast(text, "TEXT"), text.this.copy()))
    return node


def check_fraction(node: Any, _types: Types | None) -> Any:
    """Raise 400 for a negative fraction, which DuckDB counts from the largest value."""
    if node.args["quantile"].find(exp.Neg) is not None:
        raise errors.semantic("the fraction of a percentile must be 0 to 1", at=place_of(node))
    return node


REWRITES: dict[str, Callable[[Any, Any], Any]] = {
    "acos": partial(_called, name="acos"),
    "all_match": partial(_matched, all_of=True),
    "any_match": partial(_matched, all_of=False),
    "ascii": partial(_called, name="ascii"),
    "asin": partial(_called, name="asin"),
    "bin": _whole,
    "chr": _chr,
    "concat_ws": _joined,
    "count_if": _counted,
    "exp": partial(_called, name="exp"),
    "factorial": _whole,
    **dict.fromkeys(("hour", "minute", "second"), _clock_part),
    "hex": _hex,
    "isnan": partial(_called, name="isnan"),
    "least": _least,
    "lengthb": _lengthb,
    "locate": partial(_called, name="locate", keys="substr this position"),
    "lower": partial(_called, name="tolower"),
    "lpad": partial(_called, name="lpad", keys="this expression fill_pattern"),
    "median": _median,
    "percentile_approx": check_fraction,
    **dict.fromkeys(("pow", "power"), partial(_called, name="pow", keys="this expression")),
    "regexp_extract": _extracted,
    "regexp_replace": _replaced,
    "reverse": _reversed,
    "rpad": partial(_called, name="rpad", keys="this expression fill_pattern"),
    "size": _sized,
    "split": _split,
    "stddev_samp": _sampled,
    "to_json": _as_json,
    "trunc": _truncated,
    "upper": partial(_called, name="toupper"),
}
