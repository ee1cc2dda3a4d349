"""Checks whether each number fits a numeric type, and converts it.

pyarrow's decimal casts wrap around modulo 2^128 without an error. Therefore, this module detects
overflow and lost fractions by comparing values and by converting them back.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.arrow.types import decimal_size
from odps_nb.convert.fitting.fixed_width import Mask, Numbers, array_from, numbers_of
from odps_nb.convert.fitting.misfit import refuse
from odps_nb.schema import DecimalType, OdpsType

MAX_DIGITS = 76
"""Maximum digits of Arrow's widest decimal."""
_EXACT = Context(prec=2 * MAX_DIGITS + 400)


# -- integers -----------------------------------------------------------------------------------


def fit_integer(array: pa.Array, target: OdpsType, wanted: pa.DataType) -> pa.Array:
    """Convert integers, floats or decimals to an integer type; raise for fractions."""
    if array.type.equals(wanted):
        return array
    limit = 1 << (wanted.bit_width - 1)
    range_text = f"it is not between {-limit} and {limit - 1}"
    wider = "use a column of a wider type"
    if pt.is_floating(array.type):
        values, valid = _floats(array)
        finite = np.isfinite(values)
        refuse(array, valid & ~finite, target, "it is not an integer", "replace it, e.g. by None")
        refuse(
            array, valid & (values != np.trunc(values)), target, "it has a fraction", _ROUND_WHOLE
        )
        refuse(array, valid & ((values < -limit) | (values >= limit)), target, range_text, wider)
        whole = np.where(valid, values, 0).astype(np.int64)
        return array_from(whole, pa.int64(), valid).cast(wanted)
    if pt.is_decimal(array.type):
        array = _rescaled(array, target, MAX_DIGITS, 0, hint=_ROUND_WHOLE)
    refuse(array, _outside(array, -limit, limit - 1), target, range_text, wider)
    return array.cast(wanted)


_ROUND_WHOLE = "round it to a whole number"


def _outside(array: pa.Array, low: int, high: int) -> pa.Array | Mask:
    if pt.is_decimal(array.type):
        least, most = (_decimal_scalar(limit, array.type) for limit in (low, high))
        return pc.or_(pc.less(array, least), pc.greater(array, most))
    numbers, valid = numbers_of(array)
    return valid & ((numbers < low) | (numbers > high))


def _decimal_scalar(unscaled: int, kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(unscaled).scaleb(-kind.scale, _EXACT), kind)


# -- floats -------------------------------------------------------------------------------------


def fit_float(array: pa.Array, target: OdpsType, wanted: pa.DataType) -> pa.Array:
    """Convert floats to the nearest value, and integers only if the type stores them exactly."""
    if array.type.equals(wanted):
        return array
    if pt.is_floating(array.type):
        values, valid = _floats(array)
        with np.errstate(over="ignore"):
            fitted = values.astype(wanted.to_pandas_dtype())
        overflowed = valid & np.isinf(fitted) & ~np.isinf(values)
        refuse(array, overflowed, target, f"it is out of range for {wanted}", "use a DOUBLE column")
        return array_from(fitted, wanted, valid)
    numbers, valid = numbers_of(array)
    fitted = numbers.astype(wanted.to_pandas_dtype())
    edge = float(np.iinfo(numbers.dtype).max) + 1.0  # the maximum plus 1, a power of two
    inside = fitted < edge
    back = np.where(inside, fitted, 0).astype(numbers.dtype)
    refuse(
        array,
        valid & ~(inside & (back == numbers)),
        target,
        f"{wanted} cannot represent this integer exactly",
        'use a BIGINT or DECIMAL column, or convert it with astype("float64") to round it',
    )
    return array_from(fitted, wanted, valid)


def _floats(array: pa.Array) -> tuple[Numbers, Mask]:
    values, valid = numbers_of(array)
    return values.astype(np.float64), valid


# -- decimals -----------------------------------------------------------------------------------


def fit_decimal(
    array: pa.Array, target: DecimalType, wanted: pa.DataType, *, rounds: bool = False
) -> pa.Array:
    """Convert decimals, integers and floats (via their shortest text) to a decimal type.

    ``rounds``: round half away from zero to the type's scale; otherwise raise for values with
    more decimal places.
    """
    precision, scale = decimal_size(target)
    if pt.is_floating(array.type):
        return _decimals_of_floats(array, target, wanted, rounds=rounds)
    if pt.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))
    hint = f'round it to {_places(scale)}, or pass decimals="round"'
    if rounds:
        array = _rounded(array, scale)
    return _resized(_rescaled(array, target, precision, scale, hint=hint), wanted)


def _places(scale: int) -> str:
    return f"{scale} decimal place{'' if scale == 1 else 's'}"


def _rescaled(
    array: pa.Array, target: OdpsType, precision: int, scale: int, *, hint: str
) -> pa.Array:
    """Change the scale of decimals in a sufficiently wide type; raise if any does not fit.

    The number of digits is checked before each step, so Arrow never overflows. A lost fraction is
    detected by scaling back.
    """
    original = array
    if array.type.scale < 0:  # Arrow cannot rescale decimals with a negative scale
        array = pa.array(array.to_pylist(), pa.decimal256(MAX_DIGITS, 0))
    wide = array.type.bit_width > 128 or precision > 38
    most = MAX_DIGITS if wide else 38
    array = _resized(array, (pa.decimal256 if wide else pa.decimal128)(most, array.type.scale))
    up = scale - array.type.scale
    digits = precision - up  # maximum digits of the unscaled values
    if digits <= most:  # an Arrow decimal may even have more digits than its own type permits
        high = 10 ** max(digits, 0) - 1
        large = pc.or_(
            pc.greater(array, _decimal_scalar(high, array.type)),
            pc.less(array, _decimal_scalar(-high, array.type)),
        )
        room = max(precision - scale, 0)
        reason = f"it has more than {room} digit{'' if room == 1 else 's'} before the decimal point"
        refuse(original, large, target, reason, "use a larger DECIMAL type for the column")
    scaled = array.cast((pa.decimal256 if wide else pa.decimal128)(most, scale), safe=False)
    if up < 0:
        back = scaled.cast(array.type, safe=False)
        lost = pc.not_equal(back, array)
        reason = f"it has more than {_places(scale)}" if scale else "it has a fraction"
        refuse(original, lost, target, reason, hint)
    return scaled


def _resized(array: pa.Array, target_type: pa.DataType) -> pa.Array:
    """Convert decimals to ``target_type``, a sufficiently wide type of the same scale."""
    return array if array.type.equals(target_type) else array.cast(target_type, safe=False)


def _rounded(array: pa.Array, scale: int) -> pa.Array:
    """Round decimals half away from zero to ``scale`` decimal places."""
    if array.type.scale <= scale:
        return array
    if array.type.bit_width > 128:  # Arrow rounds long runs of nines incorrectly
        values = (value if value is None else rounded(value, scale) for value in array.to_pylist())
        return pa.array(list(values), pa.decimal256(MAX_DIGITS, scale))
    wide = _resized(array, pa.decimal256(MAX_DIGITS, array.type.scale))
    return pc.round(wide, scale, "half_towards_infinity")


def rounded(value: Decimal, scale: int) -> Decimal:
    """Round a decimal half away from zero, unless it is too long for any DECIMAL."""
    if not value.is_finite() or value.adjusted() >= MAX_DIGITS:
        return value
    return value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _EXACT)


# -- decimals of floats -------------------------------------------------------------------------


def _decimals_of_floats(
    array: pa.Array, target: DecimalType, target_type: pa.DataType, *, rounds: bool
) -> pa.Array:
    """Convert floats to decimals via their shortest text: 0.1, not 0.1000000000000000055…"""
    precision, scale = decimal_size(target)
    values, valid = numbers_of(array)
    refuse(
        array,
        valid & ~np.isfinite(values),
        target,
        "it is not a finite number",
        "replace it, e.g. by None",
    )
    unscaled, done = _short(values, scale)
    width = target_type.bit_width // 8
    raw = np.zeros((len(values), width), np.uint8)
    raw[:, :8] = np.ascontiguousarray(unscaled).view(np.uint8).reshape(-1, 8)
    raw[:, 8:] = np.where(unscaled < 0, np.uint8(255), np.uint8(0))[:, None]
    limit = 10**precision
    lossy, large = np.zeros(len(values), bool), np.zeros(len(values), bool)
    if limit <= _SHORT:
        large |= valid & done & (np.abs(unscaled) >= limit)
    done |= _plain_texts(array, valid & ~done, target, raw)
    for position in np.flatnonzero(valid & ~done):
        number = Decimal(str(values[position])).scaleb(scale, _EXACT)
        whole = number.to_integral_value(ROUND_HALF_UP, _EXACT)
        lossy[position] = not rounds and whole != number
        large[position] = abs(whole) >= limit
        if not large[position]:
            raw[position] = np.frombuffer(
                int(whole).to_bytes(width, "little", signed=True), np.uint8
            )
    room = precision - scale
    reason = f"it has more than {room} digit{'' if room == 1 else 's'} before the decimal point"
    refuse(array, large, target, reason, "use a larger DECIMAL type for the column")
    hint = f'round it to {_places(scale)}, or pass decimals="round"'
    refuse(array, lossy, target, f"it has more than {_places(scale)}", hint)
    return array_from(raw, target_type, valid)


def _plain_texts(array: pa.Array, mask: Mask, target: DecimalType, into: Numbers) -> Mask:
    """Convert the floats that fit and whose shortest text has no exponent; return their mask."""
    done = np.zeros(len(array), bool)
    if pt.is_float16(array.type) or not mask.any():  # Arrow's float16 text is not the shortest
        return done
    precision, scale = decimal_size(target)
    positions = np.flatnonzero(mask)
    selected = array.take(array_from(positions, pa.int64()))
    values, texts = selected.to_numpy(), selected.cast(pa.string())
    dot = pc.find_substring(texts, ".").to_numpy()
    after = np.where(dot < 0, 0, pc.utf8_length(texts).to_numpy() - dot - 1)
    # A float's shortest text is below a power of ten if and only if the float itself is.
    with np.errstate(over="ignore"):
        small = np.abs(values) < values.dtype.type(10.0 ** (precision - scale))
    fits = small & (after <= scale) & (pc.find_substring(texts, "e").to_numpy() < 0)
    decimals = texts.take(array_from(np.flatnonzero(fits), pa.int64())).cast(
        pa.decimal256(MAX_DIGITS, scale)
    )
    raw = np.frombuffer(decimals.buffers()[1] or b"", np.uint8).reshape(-1, 32)[: len(decimals)]
    into[positions[fits]] = raw[:, : into.shape[1]]
    done[positions[fits]] = True
    return done


_SHORT = 10**15


def _short(values: Numbers, scale: int) -> tuple[Numbers, Mask]:
    """Return floats with few digits as unscaled integers, and the mask of these floats.

    A decimal of at most 15 digits (6 for 32-bit floats, 3 for 16-bit floats) is the shortest text
    of its nearest float. Powers of ten up to 10^22 are exact, so dividing back verifies the digits.
    """
    digits = {2: 3, 4: 6, 8: 15}[values.dtype.itemsize]
    if scale > 22:
        return np.zeros(len(values), np.int64), values == 0
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.rint(values.astype(np.float64) * 10.0**scale)
        few = np.abs(scaled) < 10**digits
        scaled = np.where(few, scaled, 0)
        same = (scaled / 10.0**scale).astype(values.dtype) == values
    done = few & same
    return np.where(done, scaled, 0).astype(np.int64), done
