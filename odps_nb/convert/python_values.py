"""Converts columns of Python objects to Arrow (without pandas).

Columns of Python objects have no type of their own, and the type that Arrow infers may lose
something (nanoseconds, unknown STRUCT members, times in a DATE). Here the target type decides how
they are converted; `odps_nb.convert.fit` then decides what fits.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from odps_nb.convert.arrow_schema import shorten
from odps_nb.convert.arrow_types import decimal_size
from odps_nb.convert.fit import ValueMisfit
from odps_nb.convert.times import INSTANTS
from odps_nb.errors import ConversionError
from odps_nb.schema import ArrayType, DecimalType, MapType, OdpsType, StructType, TypeCode, has_any
from odps_nb.wire.type_text import format_type

__all__ = ["array_of"]

_TEMPORAL = (TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ)
_TIMES = (*INSTANTS, TypeCode.TIMESTAMP_NTZ)
_WALL_CLOCK = "a time zone does not fit a type without one: drop it first"
_BOTH = "times with and without a time zone in one column: give all of them one, or none"
_FAILURES = (pa.ArrowException, TypeError, ValueError, OverflowError, ValueMisfit)


def array_of(
    values: Sequence[Any],
    name: str,
    target: OdpsType,
    *,
    first_row: int = 0,
    timezone: str | None = None,
) -> pa.Array:
    """Return an array with the objects, nothing lost; it may still have to be cast by `fit`.

    Parameters
    ----------
    values
        Anything that Arrow knows; ``None``, NaN and pandas' own marks are nulls.
    name, first_row
        Where the values are from, for the error.
    timezone
        Whose clocks showed the times without a zone that become instants. Where it is known, or
        the target is a wall clock, times with and without a zone are not taken together.

    Raises
    ------
    ConversionError
        An object of another kind than the target; row and value are named.
    """
    values = list(values)
    zone = _zone_of_values(values, name, target, first_row, timezone)
    for convert in _conversions(target, values, zone):
        try:
            return convert(values)
        except _FAILURES:
            continue
    final = list(_conversions(target, values, zone))[-1]
    place, reason = _first_failure(values, final)
    raise _misfit(values[place], name, target, first_row + place, reason)


def _misfit(value: Any, name: str, target: OdpsType, row: int, reason: str) -> ConversionError:
    return ConversionError(
        f"the data does not fit the table: {name}[{row}] = {shorten(value)} "
        f"({type(value).__name__} → {format_type(target)}): {reason}",
        column=name,
        source_type=type(value).__name__,
        target_type=format_type(target),
        row=row,
        hint="cast the column before writing; nothing was written",
    )


def _zone_of_values(
    values: list[Any], name: str, target: OdpsType, first_row: int, timezone: str | None
) -> str | None:
    """Return ``UTC`` if times inside have zones of their own, which Arrow then keeps."""
    if not has_any(target, _TIMES):
        return None
    aware: bool | None = None
    for row, value in enumerate(values):
        for code, has_zone in _times_in(value, target):
            if code is TypeCode.TIMESTAMP_NTZ:
                if has_zone:
                    raise _misfit(value, name, target, first_row + row, _WALL_CLOCK)
            elif timezone is not None:
                if aware is not None and has_zone is not aware:
                    raise _misfit(value, name, target, first_row + row, _BOTH)
                aware = has_zone
    return "UTC" if aware else None


def _times_in(value: Any, target: OdpsType) -> Iterator[tuple[TypeCode, bool]]:
    """Find the times inside a value: their target type, and whether they have a zone."""
    if isinstance(target, StructType) and isinstance(value, dict):
        for member in target.fields:
            yield from _times_in(value.get(member.name), member.type)
    elif isinstance(target, ArrayType) and isinstance(value, (list, tuple, np.ndarray)):
        for inner in value:
            yield from _times_in(inner, target.element)
    elif isinstance(target, MapType) and isinstance(value, (dict, list, tuple)):
        for pair in value.items() if isinstance(value, dict) else value:
            if isinstance(pair, (list, tuple)) and len(pair) == 2:  # otherwise it is refused later
                yield from _times_in(pair[0], target.key)
                yield from _times_in(pair[1], target.value)
    elif target.code in _TIMES and _is_time(value):
        yield target.code, getattr(value, "tzinfo", None) is not None


def _is_time(value: Any) -> bool:
    return isinstance(value, (datetime.date, np.datetime64)) and bool(value == value)  # no NaT


def _conversions(
    target: OdpsType, values: list[Any], zone: str | None
) -> Iterator[Callable[[list[Any]], pa.Array]]:
    """Yield ways to make the array, best first; the last one finds the row that fails."""
    if isinstance(target, (ArrayType, MapType, StructType)):
        yield _typed(target, "ns", zone)
        yield _typed(target, "us", zone)
    elif target.code not in _TEMPORAL:
        yield _guessed
        yield _typed(target, "ns", zone)
    elif any(getattr(value, "tzinfo", None) is not None for value in values):
        yield _guessed  # only an inferred type keeps the zone
    else:
        # Arrow infers microseconds for pandas' nanoseconds, and dates where dates come first.
        yield lambda rows: pa.array(_moments(rows), pa.timestamp("ns"), from_pandas=True)
        yield lambda rows: pa.array(_coarse(_moments(rows)), pa.timestamp("us"), from_pandas=True)


def _guessed(values: list[Any]) -> pa.Array:
    return pa.array(values, from_pandas=True)


def _moments(values: list[Any]) -> list[Any]:
    midnight = datetime.time()
    return [
        datetime.datetime.combine(value, midnight) if type(value) is datetime.date else value
        for value in values
    ]


def _coarse(values: list[Any]) -> list[Any]:
    """Return the values if none has digits below a microsecond, which Arrow would drop."""
    for value in values:
        if _has_nanoseconds(value):
            raise ValueMisfit(
                "nanoseconds, and years outside of their range (1677…2262), in one column: "
                "round it to microseconds, or write these rows separately"
            )
    return values


def _has_nanoseconds(value: Any) -> bool:
    if isinstance(value, np.datetime64):
        return bool(value != value.astype("datetime64[us]"))
    return bool(getattr(value, "nanosecond", 0))


def _typed(target: OdpsType, unit: str, zone: str | None) -> Callable[[list[Any]], pa.Array]:
    wide = _wide(target, unit, zone)

    def convert(values: list[Any]) -> pa.Array:
        for value in values:
            _check_inside(value, target, unit)
        return pa.array(values, wide, from_pandas=True)

    return convert


def _first_failure(values: list[Any], convert: Callable[[list[Any]], pa.Array]) -> tuple[int, str]:
    for row, value in enumerate(values):
        try:
            convert([value])
        except _FAILURES as error:
            return row, str(error).splitlines()[0]
    return 0, "the values have different kinds"


_WIDE: Mapping[TypeCode, pa.DataType] = {
    TypeCode.TINYINT: pa.int64(),
    TypeCode.SMALLINT: pa.int64(),
    TypeCode.INT: pa.int64(),
    TypeCode.BIGINT: pa.int64(),
    TypeCode.INTERVAL_YEAR_MONTH: pa.int64(),
    TypeCode.INTERVAL_DAY_TIME: pa.duration("ns"),
    TypeCode.FLOAT: pa.float64(),
    TypeCode.DOUBLE: pa.float64(),
    TypeCode.BOOLEAN: pa.bool_(),
    TypeCode.DATE: pa.date32(),
    TypeCode.BINARY: pa.binary(),
    TypeCode.BLOB: pa.binary(),
}


def _wide(target: OdpsType, unit: str, zone: str | None) -> pa.DataType:
    """Return a type that holds Python objects without loss; `fit` casts it afterwards."""
    if isinstance(target, ArrayType):
        return pa.list_(_wide(target.element, unit, zone))
    if isinstance(target, MapType):
        return pa.map_(_wide(target.key, unit, zone), _wide(target.value, unit, zone))
    if isinstance(target, StructType):
        return pa.struct([(m.name, _wide(m.type, unit, zone)) for m in target.fields])
    if isinstance(target, DecimalType):
        return pa.decimal256(76, max(38, decimal_size(target)[1]))
    if target.code in _TEMPORAL and target.code is not TypeCode.DATE:
        return pa.timestamp(unit, zone if target.code in INSTANTS else None)
    return _WIDE.get(target.code, pa.string())


def _check_inside(value: Any, target: OdpsType, unit: str) -> None:
    """Refuse what Arrow would drop silently: STRUCT members, times in a DATE, nanoseconds."""
    if value is None:
        return
    if isinstance(target, StructType) and isinstance(value, dict):
        known = {member.name: member.type for member in target.fields}
        for key, inner in value.items():
            if key not in known:
                raise ValueMisfit(f"the STRUCT has no member {key!r}")
            _check_inside(inner, known[key], unit)
    elif isinstance(target, ArrayType) and isinstance(value, (list, tuple, np.ndarray)):
        for inner in value:
            _check_inside(inner, target.element, unit)
    elif isinstance(target, MapType):
        pairs = value.items() if isinstance(value, dict) else value
        for key, inner in pairs:
            _check_inside(key, target.key, unit)
            _check_inside(inner, target.value, unit)
    elif target.code in _TEMPORAL:
        _check_time(value, target.code, unit)


def _check_time(value: Any, code: TypeCode, unit: str) -> None:
    if code is TypeCode.DATE:
        if isinstance(value, datetime.datetime) and value.time() != datetime.time():
            raise ValueMisfit("the time of day is not midnight")
    elif unit == "us":
        _coarse([value])
