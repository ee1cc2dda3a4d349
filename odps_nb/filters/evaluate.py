"""Evaluates a condition on Arrow batches, column by column, with SQL's three-valued logic.

A text column with invalid UTF-8 arrives as bytes. Comparisons use the bytes; ``like``, functions
and casts replace each invalid sequence with U+FFFD. A value that cannot be converted, such as
text that is not a number, raises an error, as documented by MaxCompute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_FLOOR, Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.filters.literals import EXACT, refuse, regex_of
from odps_nb.filters.tree import (
    AllOf,
    AnyOf,
    Arithmetic,
    Cast,
    ColumnValue,
    Compare,
    Constant,
    FunctionCall,
    IsIn,
    IsNull,
    Like,
    Node,
    Not,
    ValueKind,
)
from odps_nb.schema import TypeCode

Values = Any  # a pyarrow Array or Scalar
Columns = Mapping[str, pa.Array]

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_LONG = 2**63
_DAY = 86_400 * 10**9
_KERNELS: dict[str, Callable[[Values, Values], Values]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def mask_of(condition: Node, columns: Columns, rows: int) -> pa.BooleanArray:
    """Return the mask of rows that satisfy a condition; null where the condition is null.

    ``columns`` must include the columns in the condition, with the same spelling.
    """
    try:
        mask = _value(condition, columns)
    except pa.ArrowInvalid as error:
        raise refuse(
            f"a value cannot be converted: {error}",
            "write text in quotes, exclude such rows, or use odps.sql(…)",
        ) from error
    if isinstance(mask, pa.Scalar):
        return pa.array([mask.as_py()], pa.bool_()).take(pa.array([0] * rows, pa.int64()))
    return mask


def _value(node: Node, columns: Columns) -> Values:
    return _EVALUATORS[type(node)](node, columns)


def _column(node: ColumnValue, columns: Columns) -> Values:
    values = columns[node.name]
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    return _without_padding(values) if node.kind is ValueKind.CHAR else values


def _without_padding(values: Values) -> Values:
    if pt.is_string(values.type) or pt.is_large_string(values.type):
        return pc.ascii_rtrim(values, " ")  # ASCII, because null slots may hold invalid UTF-8
    return pc.replace_substring_regex(values, pattern=" +$", replacement="")


def _as_text(values: Values) -> Values:
    """Convert text that arrived as bytes to text; leave other values unchanged."""
    if not (pt.is_binary(values.type) or pt.is_large_binary(values.type)):
        return values
    shown = [
        None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()
    ]
    return pa.array(shown, pa.string())


def _constant(node: Constant, columns: Columns) -> Values:
    if node.kind is ValueKind.DOUBLE:
        return pa.scalar(float(node.number), pa.float64())
    if node.kind is ValueKind.INTEGER:
        small = -(2**31) <= int(node.number) < 2**31
        return pa.scalar(node.value, pa.int32() if small else pa.int64())
    types = {
        ValueKind.BOOLEAN: pa.bool_(),
        ValueKind.TEXT: pa.string(),
        ValueKind.DATE: pa.date32(),
    }
    return pa.scalar(node.value, types.get(node.kind, pa.null()))


# -- comparisons --------------------------------------------------------------------------------


def _compare(node: Compare, columns: Columns) -> Values:
    left = _value(node.left, columns)
    if isinstance(node.right, Constant):
        return _against(node.operator, left, node.right)
    right = _value(node.right, columns)
    if node.left.kind in (ValueKind.INSTANT, ValueKind.CLOCK):
        left, right = _in_one_unit(left, right)
    elif ValueKind.DECIMAL in (node.left.kind, node.right.kind):
        left, right = _in_one_scale(left, right)
    return _KERNELS[node.operator](left, right)


def _against(sign: str, values: Values, constant: Constant) -> Values:
    """Compare values with a constant, which may lie between two values of the column's type."""
    if constant.kind is ValueKind.DOUBLE:
        return _KERNELS[sign](values, float(constant.number))
    if constant.kind is ValueKind.BYTES and not pt.is_binary(values.type):
        values = values.cast(pa.binary())
    steps = _steps_of(values, constant)
    if steps is None:
        stored = pa.bool_() if constant.kind is ValueKind.BOOLEAN else values.type
        return _KERNELS[sign](values, pa.scalar(constant.value, stored))
    below = int(steps.to_integral_value(ROUND_FLOOR, context=EXACT))
    if below != steps:
        if sign in ("=", "<>"):
            return _all(values, held=sign == "<>")
        sign = {"<": "<=", ">=": ">"}.get(sign, sign)
    return _compare_steps(sign, values, below)


def _steps_of(values: Values, constant: Constant) -> Decimal | None:
    """Return the constant in the column's smallest unit; ``None`` if the column has no unit."""
    if constant.kind in (ValueKind.INSTANT, ValueKind.CLOCK, ValueKind.DURATION):
        is_date = pt.is_date(values.type)
        unit = _DAY if is_date else _NANOSECONDS[values.type.unit]
        return EXACT.divide(constant.number, Decimal(unit))
    if constant.kind in (ValueKind.INTEGER, ValueKind.DECIMAL):
        scale = values.type.scale if pt.is_decimal(values.type) else 0
        return EXACT.scaleb(constant.number, scale)
    return None


def _compare_steps(sign: str, values: Values, steps: int) -> Values:
    if pt.is_decimal(values.type):
        if abs(steps) >= 10**values.type.precision:
            return _beyond(sign, values, steps)
        number = EXACT.scaleb(Decimal(steps), -values.type.scale)
        return _KERNELS[sign](values, pa.scalar(number, values.type))
    values = _bare(values)
    if not -_LONG <= steps < _LONG:
        return _beyond(sign, values, steps)
    return _KERNELS[sign](values, pa.scalar(steps, pa.int64()))


def _beyond(sign: str, values: Values, steps: int) -> Values:
    """Compare values with a constant outside the column's range."""
    held = {"=": False, "<>": True}.get(sign, (sign in ("<", "<=")) == (steps > 0))
    return _all(values, held=held)


def _all(values: Values, *, held: bool) -> Values:
    """Return ``held`` for each non-null value, and null for the others."""
    return pc.if_else(pc.is_valid(values), held, pa.scalar(None, pa.bool_()))


def _in_one_unit(left: Values, right: Values) -> tuple[Values, Values]:
    finer = min(left.type.unit, right.type.unit, key=lambda unit: _NANOSECONDS[unit])
    return left.cast(pa.timestamp(finer)), right.cast(pa.timestamp(finer))


def _in_one_scale(left: Values, right: Values) -> tuple[Values, Values]:
    scales = [operand.type.scale if pt.is_decimal(operand.type) else 0 for operand in (left, right)]
    wide = pa.decimal256(76, max(scales))
    return _as_decimal(left, wide), _as_decimal(right, wide)


def _as_decimal(values: Values, wide: pa.DataType) -> Values:
    if not pt.is_decimal(values.type):
        values = values.cast(pa.decimal128(19, 0))
    return values.cast(wide)


def _is_in(node: IsIn, columns: Columns) -> Values:
    values = _value(node.value, columns)
    if values.type not in node.sets:
        among = _storable(node, values.type)
        node.sets[values.type] = among, frozenset(among.to_pylist() if len(among) > 1000 else ())
    among, chosen = node.sets[values.type]
    bare = _bare(values) if _is_time(values.type) else values
    if isinstance(bare, pa.Array) and len(chosen) > len(bare):
        # Arrow would build a hash table of all constants for each batch
        matches = pa.array([value in chosen for value in bare.to_pylist()], pa.bool_())
    else:
        matches = pc.is_in(bare, value_set=among)
    if not node.with_null:
        return pc.if_else(pc.is_valid(values), matches, pa.scalar(None, pa.bool_()))
    return pc.if_else(matches, True, pa.scalar(None, pa.bool_()))


def _bare(values: Values) -> Values:
    """Return times, dates and durations as integers."""
    if pt.is_date32(values.type):
        return values.cast(pa.int32()).cast(pa.int64())
    return values.cast(pa.int64()) if _is_time(values.type) else values


def _is_time(stored: pa.DataType) -> bool:
    return bool(pt.is_timestamp(stored) or pt.is_duration(stored))


def _storable(node: IsIn, stored: pa.DataType) -> pa.Array:
    """Return the constants that the column's type can represent."""
    if node.value.kind is ValueKind.DOUBLE:
        numbers = {float(constant) for constant in node.among}  # type: ignore[arg-type]
        return pa.array([*numbers, -0.0] if 0 in numbers else [*numbers], stored)
    if not node.value.kind.is_number and not _is_time(stored):
        return pa.array(node.among, stored)
    storable: list[Decimal | int] = []
    sample = pa.nulls(0, stored)
    for constant in node.among:
        steps = _steps_of(sample, Constant(node.value.kind, constant))
        if steps is None or steps != steps.to_integral_value():
            continue
        if pt.is_decimal(stored):
            if steps.copy_abs() < 10**stored.precision:  # `abs` would round to 28 digits
                storable.append(EXACT.scaleb(steps, -stored.scale))
        elif _fits(int(steps), stored):
            storable.append(int(steps))
    return pa.array(storable, pa.int64() if _is_time(stored) else stored)


def _fits(steps: int, stored: pa.DataType) -> bool:
    bits = 64 if _is_time(stored) else stored.bit_width
    return bool(-(2 ** (bits - 1)) <= steps < 2 ** (bits - 1))


def _like(node: Like, columns: Columns) -> Values:
    return pc.match_substring_regex(
        _as_text(_value(node.value, columns)), pattern=regex_of(node.pattern)
    )


# -- logic --------------------------------------------------------------------------------------


def _logic(node: AllOf | AnyOf, columns: Columns) -> Values:
    kernel = pc.and_kleene if isinstance(node, AllOf) else pc.or_kleene
    return reduce(kernel, (_value(part, columns) for part in node.parts))


# -- numbers and functions ----------------------------------------------------------------------


def _arithmetic(node: Arithmetic, columns: Columns) -> Values:
    left, right = _value(node.left, columns), _value(node.right, columns)
    if node.operator == "%":
        whole = pc.multiply_checked(pc.divide_checked(left, right), right)
        return pc.subtract_checked(left, whole)  # the result has the sign of the left operand
    return _ARITHMETIC[node.operator](left, right)


_ARITHMETIC: dict[str, Callable[[Values, Values], Values]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": pc.divide_checked,
}


def _cast(node: Cast, columns: Columns) -> Values:
    values = _as_text(_value(node.value, columns))
    if node.kind is ValueKind.DECIMAL:
        # Arrow's cast to a larger scale can overflow 128 bits, but not 256 bits.
        exact = values.cast(pa.decimal128(19, 0)).cast(pa.decimal256(76, node.scale))
        decimal_type = pa.decimal128 if node.precision <= 38 else pa.decimal256
        return exact.cast(decimal_type(node.precision, node.scale))
    if node.kind is ValueKind.DOUBLE:
        # Integers beyond 2^53 are rounded, as in MaxCompute.
        return pc.cast(values, pa.float64(), safe=not pt.is_integer(values.type))
    return values.cast(_CASTS[node.code])


_CASTS = {
    TypeCode.TINYINT: pa.int8(),
    TypeCode.SMALLINT: pa.int16(),
    TypeCode.INT: pa.int32(),
    TypeCode.BIGINT: pa.int64(),
    TypeCode.STRING: pa.string(),
    TypeCode.DATE: pa.date32(),
}


def _call(node: FunctionCall, columns: Columns) -> Values:
    return _CALLS[node.name](*(_as_text(_value(argument, columns)) for argument in node.arguments))


def _substring(values: Values, start: Values, length: Values | None = None) -> Values:
    first = start.as_py() - 1
    stop = None if length is None else first + length.as_py()
    return pc.utf8_slice_codeunits(values, first, stop)


def _concat(*parts: Values) -> Values:
    return pc.binary_join_element_wise(*parts, "")


def _coalesce(*parts: Values) -> Values:
    if any(pt.is_integer(part.type) for part in parts):
        parts = tuple(part.cast(pa.int64()) for part in parts)
    return pc.coalesce(*parts)


_CALLS: dict[str, Callable[..., Values]] = {
    "length": pc.utf8_length,
    "lower": pc.ascii_lower,
    "abs": lambda values: pc.abs_checked(values) if pt.is_integer(values.type) else pc.abs(values),
    "trim": lambda values: pc.utf8_trim(values, " "),
    "ltrim": lambda values: pc.utf8_ltrim(values, " "),
    "rtrim": lambda values: pc.utf8_rtrim(values, " "),
    "substr": _substring,
    "concat": _concat,
    "coalesce": _coalesce,
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
}
_EVALUATORS: dict[type, Callable[[Any, Columns], Values]] = {
    ColumnValue: _column,
    Constant: _constant,
    Compare: _compare,
    IsIn: _is_in,
    Like: _like,
    IsNull: lambda node, columns: pc.is_null(_value(node.value, columns)),
    Not: lambda node, columns: pc.invert(_value(node.value, columns)),
    AllOf: _logic,
    AnyOf: _logic,
    Arithmetic: _arithmetic,
    Cast: _cast,
    FunctionCall: _call,
}
