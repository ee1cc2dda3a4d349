"""Converts Python, NumPy, pandas, Arrow and polars values to the few types that have SQL literals.

Times keep their nanoseconds. An instance of a subclass of ``str``, ``int`` or ``date`` is converted
to the base type without calling its ``__str__``. Libraries that are not loaded are not imported.
"""

from __future__ import annotations

import datetime
import math
from collections import deque
from collections.abc import KeysView, ValuesView
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

from odps_nb.convert.loaded import loaded
from odps_nb.errors import ArgumentError, ConversionError, a_type

_DAY = 86_400 * 10**9
_EPOCH = datetime.datetime(1970, 1, 1)
_TICK = datetime.timedelta(microseconds=1)
# Nanoseconds per time unit of NumPy and Arrow; in `_PARTS`, units per nanosecond.
_LENGTHS = {"W": 7 * _DAY, "D": _DAY, "h": 3600 * 10**9, "m": 60 * 10**9, "s": 10**9}
_LENGTHS |= {"ms": 10**6, "us": 1000, "ns": 1}
_PARTS = {"ps": 10**3, "fs": 10**6, "as": 10**9}


@dataclass(frozen=True, slots=True)
class Time:
    """A time in nanoseconds since 1970: an instant in UTC, or a local time."""

    nanoseconds: int
    is_instant: bool


@dataclass(frozen=True, slots=True)
class Duration:
    """A duration in nanoseconds."""

    nanoseconds: int


PlainValue = (
    bool | int | float | Decimal | str | bytes | datetime.date | Time | Duration | list[Any] | None
)


def plain(value: object) -> PlainValue:
    """Convert a value to a `PlainValue`; an array, index, Series or list becomes a list.

    ``None``, NaT, ``pandas.NA`` and Arrow nulls become ``None``, as do missing values in a Series
    of any dtype but float. A float NaN stays a float.
    """
    if type(value) in _PLAIN:
        return value  # type: ignore[return-value]
    for convert in (_of_pandas, _of_numpy, _of_arrow, _of_polars, _of_python, _of_others):
        try:
            converted = convert(value)
        except (OverflowError, UnicodeError) as error:  # from Arrow, which checks no values
            raise ArgumentError(
                f"{a_type(type(value))} cannot be bound: {error}",
                hint="bind dates within the years 1 to 9999, and text that is UTF-8",
            ) from error
        if converted is not _UNKNOWN:
            return converted  # type: ignore[return-value]
    raise ArgumentError(f"{a_type(type(value))} cannot be bound", hint=_hint(value))


_PLAIN = {bool, int, float, str, bytes, type(None)}
_UNKNOWN = object()
WRITE_FIRST = (
    "to query its rows, write them to a table, e.g. odps.table('new').write(rows, create=True)"
)


def _hint(value: object) -> str:
    name = type(value).__name__
    if name in ("UUID", "time", "Time32Scalar", "Time64Scalar", "Period", "PosixPath"):
        return "bind it as text: str(value)"
    if name == "LazyFrame" or hasattr(value, "columns"):
        return f"bind a single value, or a single column after IN; {WRITE_FIRST}"
    if name == "PartitionSpec":
        return "bind one of its values, e.g. spec['ds']"
    return (
        "bind None, bool, int, float, Decimal, str, bytes, date, datetime, timedelta, or a list of "
        "these"
    )


MAX_VALUES = 10_000_000
"""Maximum length of a list; a longer one is refused before it is converted."""


def _counted(values: Any) -> Any:
    if len(values) > MAX_VALUES:
        raise ArgumentError(
            f"{len(values):,} values cannot be bound; the maximum is {MAX_VALUES:,}",
            hint="write the values to a table, and join that table",
        )
    return values


def _listed(values: Any) -> list[PlainValue]:
    items: list[PlainValue] = []
    for item in _counted(values):
        value = plain(item)
        if isinstance(value, list):
            raise ArgumentError("a nested list cannot be bound", hint="bind a flat list")
        items.append(value)
    return items


def _of_pandas(value: object) -> object:
    pandas = loaded("pandas")
    if pandas is None:
        return _UNKNOWN
    if value is pandas.NaT or value is pandas.NA:
        return None
    if isinstance(value, pandas.Timestamp):
        converted = _of_numpy_time(value.to_datetime64())
        if isinstance(converted, Time):
            return Time(converted.nanoseconds, is_instant=value.tz is not None)
        return converted
    if isinstance(value, pandas.Timedelta):
        return _of_numpy_time(value.to_timedelta64())
    if isinstance(value, (pandas.Series, pandas.Index, pandas.api.extensions.ExtensionArray)):
        converted = _listed(value)
        if getattr(value.dtype, "kind", "O") == "f":
            return converted
        return [
            None if isinstance(item, float) and math.isnan(item) else item for item in converted
        ]
    return _UNKNOWN


def _of_numpy(value: object) -> object:
    numpy = loaded("numpy")
    if numpy is None:
        return _UNKNOWN
    if isinstance(value, numpy.ma.MaskedArray) and value.ndim == 0:
        return None if value.mask else plain(value.data[()])
    if isinstance(value, numpy.ndarray):
        if value.ndim == 1 and value.dtype.kind in "iub" and type(value) is numpy.ndarray:
            return _counted(value).tolist()
        return _listed(value) if value.ndim else plain(value[()])
    if isinstance(value, (numpy.datetime64, numpy.timedelta64)):
        return _of_numpy_time(value)
    if isinstance(value, numpy.generic):
        item = value.item()
        if not isinstance(item, (numpy.generic, tuple)):
            return plain(item)
    return _UNKNOWN


def _of_numpy_time(value: Any) -> PlainValue:
    """Convert a NumPy value to a duration, a date (for units of a day or longer) or a time."""
    import numpy

    if numpy.isnat(value):
        return None
    unit, step = numpy.datetime_data(value.dtype)
    is_time = isinstance(value, numpy.datetime64)
    if is_time and unit in ("Y", "M", "W", "D"):
        day: object = value.astype("datetime64[D]").item()
        if not isinstance(day, datetime.date):  # NumPy returns an int if the year is out of range
            raise ArgumentError(
                f"{value!r} is outside the years 1 to 9999",
                hint="bind a time within these years",
            )
        return day
    if unit in ("Y", "M"):
        raise ArgumentError(
            f"{value!r} has no fixed length",
            hint="bind days or seconds: numpy.timedelta64(30, 'D')",
        )
    length, parts = _LENGTHS.get(unit, 1), _PARTS.get(unit, 1)
    if unit == "generic":
        raise ArgumentError(f"{value!r} has no unit", hint="set one, e.g. 'datetime64[s]'")
    nanoseconds, rest = divmod(int(value.view("int64")) * step * length, parts)
    if rest:
        raise ArgumentError(
            f"{value!r} is more precise than a nanosecond",
            hint="round it: value.astype('datetime64[ns]'), or 'timedelta64[ns]'",
        )
    return Time(nanoseconds, is_instant=False) if is_time else Duration(nanoseconds)


def _of_arrow(value: object) -> object:
    arrow = loaded("pyarrow")
    if arrow is None:
        return _UNKNOWN
    if isinstance(value, (arrow.Array, arrow.ChunkedArray)):
        return _listed(value)
    if not isinstance(value, arrow.Scalar):
        return _UNKNOWN
    return _of_scalar(value, arrow) if value.is_valid else None


def _of_scalar(value: Any, arrow: Any) -> object:
    if isinstance(value, arrow.TimestampScalar):
        nanoseconds = value.value * _LENGTHS[value.type.unit]
        return Time(nanoseconds, is_instant=value.type.tz is not None)
    if isinstance(value, arrow.DurationScalar):
        return Duration(value.value * _LENGTHS[value.type.unit])
    if isinstance(value, arrow.DictionaryScalar):
        return plain(value.value)
    if isinstance(value, arrow.ListScalar):
        return _listed(value.values)
    if isinstance(value, arrow.ExtensionScalar):
        from odps_nb.convert.foreign import plain_scalar

        return _UNKNOWN if plain_scalar(value) is None else plain(value.as_py())
    times = (arrow.Time32Scalar, arrow.Time64Scalar, arrow.MonthDayNanoIntervalScalar)
    return _UNKNOWN if isinstance(value, times) else plain(value.as_py())


def _of_polars(value: object) -> object:
    polars = loaded("polars")
    if polars is None or not isinstance(value, polars.Series):
        return _UNKNOWN
    # Only the Arrow conversion keeps nanoseconds, but it does not support Object columns.
    return _listed(value.to_arrow() if value.dtype.is_temporal() else value)


def _of_others(value: object) -> object:
    """Convert other libraries' columns through the Arrow C stream, and tensors with ``tolist``."""
    if any(hasattr(type(value), name) for name in ("__arrow_c_stream__", "__arrow_c_array__")):
        import pyarrow as pa

        from odps_nb.convert.foreign import check_field

        if hasattr(value, "columns") or hasattr(value, "schema"):
            return _UNKNOWN  # a table, which may have several columns
        try:
            column = pa.chunked_array(value)
            check_field(pa.field("values", column.type))
            return _listed(column)
        except (pa.ArrowException, ConversionError, TypeError, ValueError) as error:
            raise ArgumentError(
                f"{a_type(type(value))} cannot be bound: {error}", hint="bind a list of values"
            ) from error
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        converted = tolist()
        if type(converted) is not type(value) and not isinstance(converted, tuple):  # a record
            return plain(converted)
    return _UNKNOWN


def _of_python(value: object) -> object:
    """Convert a value to its base type, calling only methods of the base type."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    for kind, base in _BASES:
        if isinstance(value, kind):
            return base(value)
    return _UNKNOWN


def _datetime(value: datetime.datetime) -> Time:
    base = datetime.datetime
    moment = base.combine(base.date(value), base.timetz(value))
    offset = moment.utcoffset()
    since = moment.replace(tzinfo=None) - _EPOCH - (offset or datetime.timedelta())
    return Time(since // _TICK * 1000, is_instant=offset is not None)


# datetime must come before date, its base class.
_BASES: tuple[tuple[Any, Any], ...] = (
    (int, lambda value: int.__pos__(value)),
    (float, lambda value: float.__pos__(value)),
    (str, lambda value: str.__str__(value)),
    (Decimal, Decimal),
    (datetime.datetime, _datetime),
    (datetime.date, lambda value: datetime.date.fromisoformat(datetime.date.isoformat(value))),
    (datetime.timedelta, lambda v: Duration(datetime.timedelta.__floordiv__(v, _TICK) * 1000)),
    ((bytes, bytearray, memoryview), lambda value: memoryview(value).tobytes()),
    ((list, tuple, set, frozenset, range, deque, KeysView, ValuesView), _listed),
)
