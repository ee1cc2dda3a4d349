"""Checks whether each date, time or duration fits a type, and converts it.

All arithmetic uses integers: days or time units since the epoch. Each product is checked for 64-bit
overflow before it is computed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from odps_nb.arrow.types import SECONDS_AND_NANOS
from odps_nb.convert.fitting.fixed_width import Mask, Numbers, array_from, numbers_of, validity_of
from odps_nb.convert.fitting.misfit import refuse
from odps_nb.convert.fitting.zones import PER_SECOND, UnitTooFine, from_clock, to_clock
from odps_nb.schema import OdpsType

# DATE, DATETIME and TIMESTAMP cover the years 1 to 9999; Arrow's own types have a wider range.
_FIRST_DAY, _LAST_DAY = -719162, 2932896
_NAMES = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
_INT64 = 2**63
OUT_OF_YEARS = (
    "its year is not between 1 and 9999",
    "replace it, e.g. by None, or correct its year",
)
TOO_LONG = "it is longer than 106751 days", "replace it, e.g. by None"


def fit_date(array: pa.Array, target: OdpsType) -> pa.Array:
    """Convert dates, and timestamps at midnight (naive or in their own time zone), to dates."""
    days, valid = _integers(array)
    if not pt.is_date32(array.type):
        unit = "ms" if pt.is_date64(array.type) else array.type.unit
        if getattr(array.type, "tz", None) is not None:
            days = to_clock(days, unit, array.type.tz)
        per_day = 86_400 * PER_SECOND[unit]
        refuse(
            array,
            valid & (days % per_day != 0),
            target,
            "its time of day is not midnight",
            "drop the time of day, e.g. with .dt.normalize()",
        )
        days = days // per_day
    refuse(array, valid & ((days < _FIRST_DAY) | (days > _LAST_DAY)), target, *OUT_OF_YEARS)
    return array_from(days.astype(np.int32), pa.date32(), valid)


def fit_time(
    array: pa.Array, target: OdpsType, unit: str, timezone: str | None, *, rounds: bool = False
) -> pa.Array:
    """Convert dates and timestamps to time zone-naive timestamps of one unit.

    ``timezone``: time zone for converting naive values to instants; ``None`` means UTC.
    ``rounds``: round half to even to the unit; otherwise raise for values that are more precise.
    """
    zone = timezone if getattr(array.type, "tz", None) is None else None
    if array.type.equals(pa.timestamp("ns")) and unit == "ns" and zone is None:
        return array  # all nanosecond timestamps are within the allowed years
    numbers, valid = _integers(array)
    if pt.is_date32(array.type):
        numbers, source_unit = numbers * 86_400, "s"
    else:
        source_unit = "ms" if pt.is_date64(array.type) else array.type.unit
    _check_years(array, numbers, valid, source_unit, target)
    if rounds and PER_SECOND[unit] < PER_SECOND[source_unit]:
        numbers, source_unit = _rounded(numbers, PER_SECOND[source_unit] // PER_SECOND[unit]), unit
        _check_years(array, numbers, valid, unit, target)
    numbers = _in_unit(array, numbers, valid, source_unit, unit, target)
    if zone is not None:
        numbers, missing = from_clock(numbers, valid, unit, zone)
        refuse(
            array,
            missing,
            target,
            f"this time does not exist in {zone}: clocks were set forward",
            "correct the time, or add its UTC offset",
        )
        _check_years(array, numbers, valid, unit, target)
    return array_from(numbers, pa.timestamp(unit), valid)


def _check_years(
    array: pa.Array, numbers: Numbers, valid: Mask, unit: str, target: OdpsType
) -> None:
    per_day = 86_400 * PER_SECOND[unit]
    low, high = _FIRST_DAY * per_day, (_LAST_DAY + 1) * per_day
    if low > -_INT64 and high < _INT64:
        refuse(array, valid & ((numbers < low) | (numbers >= high)), target, *OUT_OF_YEARS)


def _in_unit(
    array: pa.Array,
    numbers: Numbers,
    valid: Mask,
    source_unit: str,
    unit: str,
    target: OdpsType,
) -> Numbers:
    have, want = PER_SECOND[source_unit], PER_SECOND[unit]
    if want >= have:
        factor = want // have
        if (np.abs(numbers) > (_INT64 - 1) // factor).any():
            raise UnitTooFine
        return numbers * factor
    factor = have // want
    refuse(
        array,
        valid & (numbers % factor != 0),
        target,
        f"it is more precise than a {_NAMES[unit]}"
        + (", and another value is outside the years 1677 to 2262" if unit == "us" else ""),
        f'round it, in pandas with .dt.floor("{unit}") or value.floor("{unit}"), or pass '
        'times="round"',
    )
    return numbers // factor


def _rounded(numbers: Numbers, factor: int) -> Numbers:
    """Divide by the factor, rounding half to even like ``Series.dt.round`` of pandas."""
    below, rest = numbers // factor, numbers % factor
    up = (2 * rest > factor) | ((2 * rest == factor) & (below % 2 == 1))
    rounded: Numbers = below + up
    return rounded


def fit_day_time(array: pa.Array, target: OdpsType) -> pa.Array:
    """Convert durations to the struct of seconds and nanoseconds used in writes."""
    if pt.is_struct(array.type):
        return _checked_struct(array, target)
    numbers, valid = _integers(array)
    per = PER_SECOND[array.type.unit]
    _check_length(array, numbers // per, valid, target)
    # Floor the seconds, so that 0 <= nano < 10**9 holds even for negative durations.
    seconds, rest = numbers // per, (numbers % per) * (10**9 // per)
    return pa.StructArray.from_arrays(
        [array_from(seconds, pa.int64()), array_from(rest.astype(np.int32), pa.int32())],
        fields=list(SECONDS_AND_NANOS),
        mask=array.is_null() if array.null_count else None,
    )


def _check_length(array: pa.Array, seconds: Numbers, valid: Mask, target: OdpsType) -> None:
    """Raise for durations outside the nanosecond range, because reads return nanoseconds."""
    most = _INT64 // 10**9 - 1
    long = valid & ((seconds > most) | (seconds < -most))
    refuse(array, long, target, *TOO_LONG)


def _checked_struct(array: pa.Array, target: OdpsType) -> pa.Array:
    valid = validity_of(array)
    seconds, nanos = array.flatten()
    _check_length(array, seconds.fill_null(0).to_numpy(zero_copy_only=False), valid, target)
    inside = nanos.fill_null(-1).to_numpy(zero_copy_only=False)
    missing = seconds.is_null().to_numpy(zero_copy_only=False)
    refuse(
        array,
        valid & (missing | (inside < 0) | (inside >= 10**9)),
        target,
        "its seconds are missing, or its nanoseconds are not between 0 and 999999999",
        "pass a duration",
    )
    return array


def _integers(array: pa.Array) -> tuple[Numbers, Mask]:
    """Return time values as integers (0 for nulls) and the validity mask."""
    numbers, valid = numbers_of(array.cast(pa.int32() if pt.is_date32(array.type) else pa.int64()))
    return numbers.astype(np.int64, copy=False), valid
