"""Casts Arrow arrays to the exact type that a write sends, by safe casts only.

A value either keeps its meaning or is refused: no text becomes a number, nothing is truncated,
nothing overflows. What is allowed, by target:

- integers: integers in range, floats and decimals without a fraction;
- FLOAT, DOUBLE: floats in range (rounded to the nearest), integers that it holds exactly;
- DECIMAL: decimals and integers that fit, floats whose shortest decimal text fits;
- STRING, CHAR, VARCHAR, JSON: text, bytes that are UTF-8; not longer than the limit;
- BINARY, BLOB: bytes, text; DATE: dates, timestamps at midnight;
- DATETIME, TIMESTAMP: dates and timestamps without finer parts (a time zone becomes UTC, and
  what has none is local time in the zone that the caller names, else in UTC);
  a TIMESTAMP is sent in nanoseconds, and outside of their range (1677…2262) in microseconds;
- TIMESTAMP_NTZ: the same without a time zone; INTERVAL_DAY_TIME: durations;
- ARRAY, MAP, STRUCT: by parts; a missing member of a STRUCT is null, an unknown one refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.convert.arrow_types import (
    DAY_TIME_STRUCT,
    arrow_type,
    is_bytes,
    is_list,
    is_text,
    length_of,
)
from odps_nb.convert.times import INSTANTS, NoSuchTime, from_clock
from odps_nb.schema import (
    ArrayType,
    DecimalType,
    MapType,
    OdpsType,
    StructType,
    TypeCode,
    has_timestamp,
)

__all__ = ["KindError", "ValueMisfit", "check_kind", "fit_array", "misfits"]

_INTEGERS = (TypeCode.TINYINT, TypeCode.SMALLINT, TypeCode.INT, TypeCode.BIGINT)
_TEXTS = (TypeCode.STRING, TypeCode.CHAR, TypeCode.VARCHAR, TypeCode.JSON)
_TIMES = (*INSTANTS, TypeCode.TIMESTAMP_NTZ)
# DATE and DATETIME range from year 1 to year 9999; Arrow's own types further.
_FIRST_DAY, _LAST_DAY = -719162, 2932896
_DAY_MS = 86_400_000


class KindError(Exception):
    """No value of this Arrow type can fit; the message says why, ``path`` where inside."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.path = path


class ValueMisfit(Exception):
    """Some value of the array does not fit; the message says why."""


def check_kind(source: pa.DataType, target: OdpsType, path: str = "") -> None:
    """Raise `KindError` when the Arrow type as such cannot become the target."""
    source = _stored(source)
    if pt.is_null(source):
        return
    if isinstance(target, ArrayType):
        _require(is_list(source), path)
        check_kind(source.value_type, target.element, f"{path}.element")
    elif isinstance(target, MapType):
        _require(pt.is_map(source), path)
        check_kind(source.key_type, target.key, f"{path}.key")
        check_kind(source.item_type, target.value, f"{path}.value")
    elif isinstance(target, StructType):
        _require(pt.is_struct(source), path)
        places = _members(source, target, path)
        for member in target.fields:
            if (place := places.get(member.name.casefold())) is not None:
                check_kind(source.field(place).type, member.type, f"{path}.{member.name}")
    else:
        _require(_scalar_fits(source, target.code), path)
        if target.code is TypeCode.TIMESTAMP_NTZ and getattr(source, "tz", None) is not None:
            raise KindError("a time zone does not fit a type without one: drop it first", path)


def _require(fits: bool, path: str) -> None:  # noqa: FBT001 - a predicate, not a switch
    if not fits:
        raise KindError("", path)


def _scalar_fits(source: pa.DataType, code: TypeCode) -> bool:
    number = pt.is_integer(source) or pt.is_floating(source)
    if code in _INTEGERS or code is TypeCode.DECIMAL:
        return bool(number or pt.is_decimal(source))
    if code in (TypeCode.FLOAT, TypeCode.DOUBLE):
        return bool(number)
    if code is TypeCode.BOOLEAN:
        return bool(pt.is_boolean(source))
    if code in _TEXTS:  # bytes of a fixed width are keys, UUIDs or hashes, not text
        return is_text(source) or (is_bytes(source) and not pt.is_fixed_size_binary(source))
    if code in (TypeCode.BINARY, TypeCode.BLOB):
        return is_text(source) or is_bytes(source)
    if code is TypeCode.DATE or code in _TIMES:
        return bool(pt.is_date(source) or pt.is_timestamp(source))
    if code is TypeCode.INTERVAL_DAY_TIME:
        return bool(pt.is_duration(source) or source.equals(DAY_TIME_STRUCT))
    return code is TypeCode.INTERVAL_YEAR_MONTH and bool(pt.is_integer(source))


def _members(source: pa.DataType, target: StructType, path: str) -> dict[str, int]:
    places = {source.field(i).name.casefold(): i for i in range(source.num_fields)}
    known = {member.name.casefold() for member in target.fields}
    for name in places.keys() - known:
        raise KindError(f"the STRUCT has no member {name!r}", path)
    return places


@dataclass(frozen=True, slots=True)
class _Times:
    """How timestamps are sent: their unit, and the zone of those that have none."""

    unit: str
    timezone: str | None


def fit_array(
    array: pa.Array, target: OdpsType, *, unit: str | None = None, timezone: str | None = None
) -> pa.Array:
    """Return the array in the exact type that a write sends.

    Parameters
    ----------
    unit
        That of timestamps, ``ns`` or ``us``; by default nanoseconds where all values fit.
    timezone
        Whose clocks showed the times without a zone that become instants; ``None``: UTC.

    Raises
    ------
    KindError
        The Arrow type cannot become the target.
    ValueMisfit
        A value does not fit; `misfits` says which.
    """
    check_kind(array.type, target)
    try:
        return _fit(array, target, _Times(unit or "ns", timezone))
    except NoSuchTime as error:
        raise ValueMisfit(str(error)) from None
    except pa.ArrowException as error:
        if unit is not None or not has_timestamp(target):
            raise ValueMisfit(str(error).splitlines()[0]) from None
    return fit_array(array, target, unit="us", timezone=timezone)


def misfits(
    array: pa.Array, target: OdpsType, *, timezone: str | None = None, limit: int = 3
) -> Iterator[tuple[int, str]]:
    """Find the rows that do not fit, by bisection: at most ``limit`` rows and their reasons."""
    start = 0
    for _ in range(limit):
        rest = array.slice(start)
        if not len(rest) or _problem(rest, target, timezone) is None:
            return
        low, high = 0, len(rest)  # rest[:low] fits, rest[:high] does not
        while high - low > 1:
            middle = (low + high) // 2
            if _problem(rest.slice(low, middle - low), target, timezone) is None:
                low = middle
            else:
                high = middle
        yield start + low, _problem(rest.slice(low, 1), target, timezone) or ""
        start += low + 1


def _problem(array: pa.Array, target: OdpsType, timezone: str | None) -> str | None:
    try:
        fit_array(array, target, timezone=timezone)
    except (ValueMisfit, KindError) as error:
        return str(error)
    return None


def _stored(source: pa.DataType) -> pa.DataType:
    if isinstance(source, pa.BaseExtensionType):
        return _stored(source.storage_type)
    if pt.is_dictionary(source) or pt.is_run_end_encoded(source):
        return _stored(source.value_type)
    return source


def _plain(array: pa.Array) -> pa.Array:
    """Undo extension types, dictionaries and run ends."""
    if isinstance(array.type, pa.BaseExtensionType):
        return _plain(array.storage)
    if pt.is_dictionary(array.type):
        # Arrow has no ``take`` for views, which polars makes.
        return _plain(array.dictionary).take(array.indices)
    if _is_view(array.type):
        return array.cast(pa.string() if pt.is_string_view(array.type) else pa.binary())
    if pt.is_run_end_encoded(array.type):
        return _plain(pc.run_end_decode(array))
    return array


def _is_view(kind: pa.DataType) -> bool:
    return bool(pt.is_string_view(kind) or pt.is_binary_view(kind))


def _fit(array: pa.Array, target: OdpsType, times: _Times) -> pa.Array:
    array = _plain(array)
    wanted = arrow_type(target, timestamp_unit=times.unit, for_write=True)
    if pt.is_null(array.type):
        return pa.nulls(len(array), wanted)
    if isinstance(target, ArrayType):
        return _fit_list(array, target, wanted, times)
    if isinstance(target, MapType):
        return _fit_map(array, target, wanted, times)
    if isinstance(target, StructType):
        return _fit_struct(array, target, wanted, times)
    return _fit_scalar(array, target, wanted, times)


def _fit_list(array: pa.Array, target: ArrayType, wanted: pa.DataType, times: _Times) -> pa.Array:
    if not (pt.is_list(array.type) or pt.is_large_list(array.type)):
        array = array.cast(pa.list_(array.type.value_type))
    values = _fit(array.flatten(), target.element, times)
    starts = _starts(pc.list_value_length(array), array)
    return pa.ListArray.from_arrays(starts, values, type=wanted)


def _starts(lengths: pa.Array, array: pa.Array) -> pa.Array:
    """Return offsets into packed values; a null offset marks a null list or map, as in Arrow."""
    ends = pc.cumulative_sum(pc.fill_null(lengths, 0).cast(pa.int64())).cast(pa.int32())
    starts = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    if not array.null_count:
        return starts
    missing = pa.concat_arrays([array.is_null(), pa.array([False])])
    return pc.if_else(missing, pa.scalar(None, pa.int32()), starts)


def _fit_map(array: pa.Array, target: MapType, wanted: pa.DataType, times: _Times) -> pa.Array:
    present = array.drop_null() if array.null_count else array
    offsets = present.offsets
    first = offsets[0].as_py() if len(offsets) else 0
    count = (offsets[-1].as_py() - first) if len(offsets) else 0
    keys = _fit(present.keys.slice(first, count), target.key, times)
    items = _fit(present.items.slice(first, count), target.value, times)
    if keys.null_count:
        raise ValueMisfit("a key of a MAP is null")
    starts = _starts(_map_lengths(array), array)
    return pa.MapArray.from_arrays(starts, keys, items).cast(wanted)


def _map_lengths(array: pa.Array) -> pa.Array:
    offsets = array.offsets
    lengths = pc.subtract(offsets.slice(1), offsets.slice(0, len(array)))
    return pc.if_else(array.is_null(), pa.scalar(None, lengths.type), lengths)


def _fit_struct(
    array: pa.Array, target: StructType, wanted: pa.DataType, times: _Times
) -> pa.Array:
    places = _members(array.type, target, "")
    parts = array.flatten()  # respects slices and passes the nulls of the whole on to its parts
    members = []
    for index, member in enumerate(target.fields):
        place = places.get(member.name.casefold())
        if place is None:
            members.append(pa.nulls(len(array), wanted.field(index).type))
        else:
            members.append(_fit(parts[place], member.type, times))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(members, fields=list(wanted), mask=mask)


def _fit_scalar(array: pa.Array, target: OdpsType, wanted: pa.DataType, times: _Times) -> pa.Array:
    code = target.code
    if isinstance(target, DecimalType):
        return _fit_decimal(array, wanted)
    if code is TypeCode.DATE:
        return _fit_date(array, wanted)
    if code in _TIMES:
        return _fit_time(array, wanted, times.timezone if code in INSTANTS else None)
    if code is TypeCode.INTERVAL_DAY_TIME:
        return _fit_day_time(array)
    if code in (TypeCode.FLOAT, TypeCode.DOUBLE):
        return _fit_float(array, wanted)
    if pt.is_decimal(array.type):
        array = _integral(array)
    fitted = array if array.type.equals(wanted) else array.cast(wanted)
    if (limit := length_of(target)) is not None:
        longest = pc.max(pc.utf8_length(fitted)).as_py()
        if longest is not None and longest > limit:
            raise ValueMisfit(f"{longest} characters are more than {limit}")
    return fitted


def _integral(array: pa.Array) -> pa.Array:
    return array.cast(pa.decimal256(76, 0))  # refuses a fraction


def _fit_float(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type.equals(wanted):
        return array
    fitted = array.cast(wanted)
    if pt.is_floating(array.type):
        overflowed = pc.and_(pc.is_inf(fitted), pc.invert(pc.is_inf(array.cast(pa.float64()))))
        if pc.any(overflowed).as_py():
            raise ValueMisfit(f"the value is out of range for {wanted}")
    return fitted


def _fit_decimal(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type.equals(wanted):
        return array
    if pt.is_floating(array.type):
        # 0.1 means 0.1 and not 0.1000000000000000055…: convert through the shortest text.
        return array.cast(pa.string()).cast(wanted)
    if pt.is_integer(array.type):
        array = array.cast(pa.decimal256(76, wanted.scale))
    return array.cast(wanted)


def _fit_date(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pt.is_timestamp(array.type):
        array = _wall_clock(array)
        days = array.cast(pa.timestamp("s")).cast(wanted)
        if pc.any(
            pc.not_equal(days.cast(pa.timestamp("s")), array.cast(pa.timestamp("s")))
        ).as_py():
            raise ValueMisfit("the time of day is not midnight")
        array = days
    fitted = array.cast(wanted)
    _check_range(fitted.cast(pa.int32()), _FIRST_DAY, _LAST_DAY)
    return fitted


def _wall_clock(array: pa.Array) -> pa.Array:
    return pc.local_timestamp(array) if array.type.tz is not None else array


def _fit_time(array: pa.Array, wanted: pa.DataType, timezone: str | None) -> pa.Array:
    fitted = array if array.type.equals(wanted) else array.cast(wanted)
    if timezone is not None and getattr(array.type, "tz", None) is None:
        fitted = from_clock(fitted, timezone)
    if wanted.unit != "ns":  # whose range is smaller
        day = _DAY_MS if wanted.unit == "ms" else _DAY_MS * 1000
        low, high = _FIRST_DAY * day, (_LAST_DAY + 1) * day - 1
        _check_range(fitted.cast(pa.int64()), low, high)
    return fitted


def _check_range(numbers: pa.Array, low: int, high: int) -> None:
    found = pc.min_max(numbers)
    least, most = found["min"].as_py(), found["max"].as_py()
    if least is not None and (least < low or most > high):
        raise ValueMisfit("the year is not in 1…9999")


def _fit_day_time(array: pa.Array) -> pa.Array:
    if pt.is_struct(array.type):
        return array
    nanos = array.cast(pa.duration("ns")).cast(pa.int64())
    billion = pa.scalar(1_000_000_000, pa.int64())
    # Seconds are floored, so that 0 <= nano < 10**9 holds for negative durations too.
    seconds = pc.divide(nanos, billion)
    rest = pc.subtract(nanos, pc.multiply(seconds, billion))
    below = pc.less(rest, 0)
    seconds = pc.if_else(below, pc.subtract(seconds, 1), seconds)
    rest = pc.if_else(below, pc.add(rest, billion), rest)
    return pa.StructArray.from_arrays(
        [seconds, rest.cast(pa.int32())],
        fields=list(DAY_TIME_STRUCT),
        mask=array.is_null() if array.null_count else None,
    )
