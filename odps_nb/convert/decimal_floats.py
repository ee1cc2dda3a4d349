"""Converts Arrow decimals to the nearest floats and back (without pandas)."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_DIGITS = 15  # a decimal with at most 15 digits is the shortest text of its nearest float64


def as_floats(values: Any) -> Any:
    """Convert decimals to the nearest float64. Arrow's own cast may be off by one bit."""
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([as_floats(one) for one in values.chunks], pa.float64())
    found = _short_floats(values)
    return values.cast(pa.string()).cast(pa.float64()) if found is None else found


def from_floats(values: Any, kind: pa.DataType) -> Any:
    """Convert floats to a decimal type via their shortest text."""
    return values.cast(pa.string()).cast(kind)


def rounded(value: Decimal, kind: pa.DataType) -> Decimal:
    """Round a decimal to a type's scale, half away from zero."""
    try:
        places = Decimal((0, (1,), -kind.scale))
        return value.quantize(places, ROUND_HALF_UP, Context(kind.precision))
    except InvalidOperation:
        raise pa.ArrowInvalid(f"{value} has too many digits, or is not finite") from None


def surviving_floats(values: pa.Array) -> pa.Array | None:
    """Return decimals as float64 if `from_floats` can restore all of them, else ``None``."""
    found = _short_floats(values)
    if found is None:
        found = values.cast(pa.string()).cast(pa.float64())
        try:
            if not from_floats(found, values.type).equals(values):
                return None
        except pa.ArrowInvalid:
            return None
    return found


def whole_digits(values: Any) -> int:
    """Return the maximum number of digits before the decimal point."""
    if isinstance(values, pa.Scalar):
        ends = [values.as_py()]
    else:
        ends = list(pc.min_max(values).as_py().values())
    return max((one.adjusted() + 1 for one in ends if one), default=0)


def _short_floats(values: pa.Array) -> pa.Array | None:
    """Convert decimals to floats by one division; ``None`` if a value has more than 15 digits."""
    scale = min(values.type.scale, _DIGITS - max(whole_digits(values), 0))
    if scale < 0:
        return None
    try:
        short = values.cast(pa.decimal128(_DIGITS, scale))
    except pa.ArrowInvalid:
        return None
    whole = short.view(pa.decimal128(_DIGITS, 0)).cast(pa.int64())
    return pc.divide(whole.cast(pa.float64()), 10.0**scale)
