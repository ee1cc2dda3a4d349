"""Groups Python objects by kind, and stores each kind in a lossless Arrow array."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from odps_nb.convert.fitting.fixed_width import Part, parts_from
from odps_nb.convert.fitting.numbers import MAX_DIGITS
from odps_nb.convert.foreign import is_from, is_table, plain_scalar, polars_column
from odps_nb.convert.loaded import loaded

_Places = list[int]


def is_missing(value: Any) -> bool:
    """Whether pandas treats an object as null: ``None``, NaN, NaT, ``pandas.NA``."""
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, pa.Scalar):
        return not value.is_valid
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, (float, np.floating, np.datetime64, np.timedelta64, datetime.datetime)):
        return bool(value != value)
    pandas = loaded("pandas")
    return pandas is not None and (value is pandas.NA or value is pandas.NaT)


def unwrapped(value: Any) -> Any:
    """Return the value of an Arrow scalar of a dictionary, run-end encoded or extension type."""
    while isinstance(value, (pa.DictionaryScalar, pa.ExtensionScalar, pa.RunEndEncodedScalar)):
        value = plain_scalar(value) if isinstance(value, pa.ExtensionScalar) else value.value
    return value


def items_of(value: Any) -> Any:
    """Return the items of a list, set, array or Series; ``None`` for any other value."""
    if isinstance(value, np.ndarray):
        return value if value.ndim else None
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, (pa.Array, pa.ChunkedArray, set, frozenset, range)):
        return list(value)
    if isinstance(value := unwrapped(value), pa.Scalar):
        inner = getattr(value, "values", None) if pa.types.is_nested(value.type) else None
        if inner is None or callable(inner) or pa.types.is_map(value.type):
            return None
        return list(inner)
    if is_from(value, "polars") and hasattr(value, "dtype"):  # its items lack nanoseconds
        return value.to_list() if str(value.dtype) == "Object" else list(polars_column(value))
    is_array = hasattr(value, "__array__") and isinstance(value, Iterable)
    is_array = is_array and not isinstance(value, (str, bytes, np.generic))
    if is_array and getattr(value, "ndim", None) != 0 and not is_table(value):
        return list(value)  # the value is a Series, an Index, or a pandas array
    return None


def is_plain_number(dtype: np.dtype[Any]) -> bool:
    """Whether values of a NumPy dtype are numbers or booleans that Arrow can store."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def parts_of(values: Sequence[Any], *, keeps_nan: bool = False) -> tuple[list[Part], _Places]:
    """Return the objects in lossless arrays, and the positions of objects of unknown kinds."""
    by_type: dict[type, _Places] = {}
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) == 1:  # the usual case
        kind = next(iter(kinds))
        by_type[kind] = [position for position, value in enumerate(values) if value is not None]
    else:
        for position, value in enumerate(values):
            if value is not None:
                by_type.setdefault(type(value), []).append(position)
    parts: list[Part] = []
    unknown: _Places = []
    for kind, positions in by_type.items():
        if (
            array := _at_once(kind, [values[position] for position in positions], keeps_nan)
        ) is not None:
            parts.append((np.array(positions), array))
            continue
        sort = _sorter(kind)
        known: list[tuple[int, tuple[str, Any]]] = []
        for position in positions:
            value = values[position]
            if is_missing(value) and not (keeps_nan and isinstance(value, (float, np.floating))):
                continue
            classified = sort(value) if sort is not None else None
            if classified is None:
                unknown.append(position)
            else:
                known.append((position, classified))
        parts += parts_from(known)
    return parts, sorted(unknown)


def _at_once(kind: type, values: list[Any], keeps_nan: bool) -> pa.Array | None:  # noqa: FBT001
    """Return objects of one type as an array; ``None`` if any of them needs special handling."""
    if kind is datetime.datetime:
        if any(value.tzinfo is not None for value in values):
            return None
    elif kind not in _AT_ONCE:
        return None
    try:
        array = pa.array(values, _AT_ONCE[kind], from_pandas=kind is float and not keeps_nan)
    except (OverflowError, ValueError):  # an integer over 64 bits, or text with surrogates
        return None
    if isinstance(array, pa.ChunkedArray):
        raise pa.ArrowCapacityError("the values have more than 2 GiB")
    return array


_AT_ONCE: Mapping[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    datetime.date: pa.date32(),
    datetime.datetime: pa.timestamp("us"),
}


_Sorted = tuple[str, Any] | None
_Sorter = Callable[[Any], _Sorted]


def _sorter(kind: type) -> _Sorter | None:
    return next((sort for base, sort in _SORTERS if issubclass(kind, base)), None)


def _integer(value: Any) -> _Sorted:
    number = int(value)
    if -(2**63) <= number < 2**63:
        return "int64", number
    return decimal_item(Decimal(number)) if abs(number) < 10**MAX_DIGITS else None


def _float(value: Any) -> _Sorted:
    if isinstance(value, (np.float32, np.float16)):
        return type(value).__name__, value
    number = float(value)
    return ("float64", number) if number == value or value != value else None


def decimal_item(value: Decimal) -> tuple[str, Any] | None:
    """Return a decimal and its kind; ``None`` if Arrow cannot store it."""
    if not value.is_finite():
        return None
    if not value:
        return "decimal 0", Decimal(0)
    exponent = int(value.as_tuple().exponent)
    if exponent < 0 and max(0, value.adjusted() + 1) - exponent > MAX_DIGITS:  # drop trailing zeros
        digits = value.as_tuple().digits
        while digits and digits[-1] == 0:
            digits, exponent = digits[:-1], exponent + 1
        value = Decimal((value.as_tuple().sign, digits, exponent))
    scale = max(-exponent, 0)
    if scale > MAX_DIGITS or value.adjusted() + 1 + scale > MAX_DIGITS:
        return None
    return f"decimal {scale}", value


def _text(value: str) -> _Sorted:
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return "string", str.__str__(value)


def _moment(value: datetime.datetime) -> _Sorted:
    if not datetime.MINYEAR <= value.year <= datetime.MAXYEAR:  # pandas only
        return None
    seconds = (value.toordinal() - 719_163) * 86_400
    seconds += value.hour * 3600 + value.minute * 60 + value.second
    micros = seconds * 10**6 + value.microsecond
    ahead = value.utcoffset()
    zone = ""
    if ahead is not None:
        micros -= ahead // datetime.timedelta(microseconds=1)
        zone = "UTC"
    nanos = getattr(value, "nanosecond", 0)  # pandas only
    if nanos:
        return f"timestamp ns {zone}", micros * 1000 + nanos
    return f"timestamp us {zone}", micros


def _span(value: datetime.timedelta) -> _Sorted:
    micros = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
    nanos = getattr(value, "nanoseconds", 0)  # pandas only
    kind, number = ("ns", micros * 1000 + nanos) if nanos else ("us", micros)
    return (f"duration {kind}", number) if -(2**63) <= number < 2**63 else None


_ARROW_UNITS = ("s", "ms", "us", "ns")


def _numpy_time(value: np.datetime64) -> _Sorted:
    if np.datetime_data(value.dtype)[0] in ("Y", "M", "W", "D"):
        days = value.astype("datetime64[D]")
        number = int(days.astype(np.int64))
        return ("date", number) if _same(days, value) and abs(number) < 2**31 else None
    return _in_arrow_unit("timestamp", "datetime64", value)


def _numpy_span(value: np.timedelta64) -> _Sorted:
    if np.datetime_data(value.dtype)[0] in ("Y", "M", "generic"):
        return None
    return _in_arrow_unit("duration", "timedelta64", value)


def _in_arrow_unit(name: str, kind: str, value: Any) -> _Sorted:
    """Return a time or duration in its own unit, or in the coarsest Arrow unit that is exact."""
    unit, count = np.datetime_data(value.dtype)
    own = count == 1 and unit in _ARROW_UNITS
    for arrow_unit in (unit,) if own else _ARROW_UNITS:
        with suppress(OverflowError):  # a conversion factor of more than 64 bits
            if _same(fitted := value.astype(f"{kind}[{arrow_unit}]"), value):
                return f"{name} {arrow_unit}", int(fitted.astype(np.int64))
    return None


def _same(converted: Any, value: Any) -> bool:
    """Whether a NumPy time or duration was converted to another unit without loss or overflow."""
    sign = converted.astype(np.int64) > 0, value.astype(np.int64) > 0
    return bool(converted.astype(value.dtype) == value) and sign[0] == sign[1]


def _scalar(value: pa.Scalar) -> _Sorted:
    if isinstance(value := unwrapped(value), pa.Scalar):
        return None if pa.types.is_union(value.type) else (f"arrow {value.type}", value)
    return None if (sort := _sorter(type(value))) is None else sort(value)


# Subclasses precede their base classes: bool is an int, datetime a date, np.float64 a float.
_SORTERS: tuple[tuple[type | tuple[type, ...], _Sorter], ...] = (
    ((bool, np.bool_), lambda value: ("bool", bool(value))),
    (np.timedelta64, _numpy_span),  # a subclass of NumPy's integers
    ((int, np.integer), _integer),
    ((float, np.floating), _float),
    (Decimal, decimal_item),
    (str, _text),
    ((bytes, bytearray, memoryview), lambda value: ("binary", bytes(value))),
    (datetime.datetime, _moment),
    (datetime.date, lambda value: ("date", value.toordinal() - 719_163)),
    (datetime.timedelta, _span),
    (np.datetime64, _numpy_time),
    (pa.Scalar, _scalar),
)
