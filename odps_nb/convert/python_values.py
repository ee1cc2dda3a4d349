"""Converts columns of Python objects to the Arrow type that a write sends (without pandas).

Python objects are sorted by kind (integers, decimals of a scale, times with a zone, …), and each
kind becomes an Arrow array that holds it without loss. `odps_nb.convert.fit_leaf` then decides what
fits, as for any Arrow data, at the top of a column and inside ARRAY, MAP and STRUCT. Types that
Arrow infers are never used: it ignores the unit of nested NumPy arrays and cuts nested fractions.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from odps_nb.convert.conversions import AS_THEY_ARE, Conversions
from odps_nb.convert.fit import (
    list_offsets,
    members_of,
    no_member,
    null_offsets,
    of_lists,
    part_problem,
    refuse_null_keys,
    with_unit,
)
from odps_nb.convert.fit_leaf import Context, Part, fit_parts, kind_problem
from odps_nb.convert.fit_numbers import MAX_DIGITS
from odps_nb.convert.misfit import Misfit, ValueMisfit, shorten
from odps_nb.schema import ArrayType, MapType, OdpsType, StructType, TypeCode
from odps_nb.wire.type_text import format_type

__all__ = ["fit_objects", "is_missing", "parts_of"]

_Objects = Sequence[Any]
_Places = list[int]


def fit_objects(
    values: _Objects,
    target: OdpsType,
    *,
    conversions: Conversions = AS_THEY_ARE,
    for_write: bool = True,
) -> pa.Array:
    """Return Python objects in the exact type that a write sends.

    Parameters
    ----------
    values
        ``None``, NaN, NaT and ``pandas.NA`` are nulls; a NaN inside of ARRAY, MAP or STRUCT stays
        NaN where a FLOAT or DOUBLE is wanted. NumPy arrays are lists of their own unit and type.
    for_write
        Return the form of a write; otherwise that of a read, with intervals as durations.

    Raises
    ------
    ValueMisfit
        Objects do not fit.
    """
    return with_unit(
        lambda context: _fit(values, target, context, inside=False),
        None,
        conversions,
        for_write=for_write,
    )


def _fit(values: _Objects, target: OdpsType, context: Context, *, inside: bool) -> pa.Array:
    if isinstance(target, ArrayType):
        return _fit_lists(values, target, context)
    if isinstance(target, MapType):
        return _fit_maps(values, target, context)
    if isinstance(target, StructType):
        return _fit_structs(values, target, context)
    keeps_nan = inside and target.code in (TypeCode.FLOAT, TypeCode.DOUBLE)
    try:
        return fit_parts(
            _parts(values, target, context, keeps_nan=keeps_nan), len(values), target, context
        )
    except ValueMisfit as error:
        raise _named(error, values) from None


def _named(error: ValueMisfit, values: _Objects) -> ValueMisfit:
    """Return the error with the objects as they were given."""
    return ValueMisfit(
        [
            one
            if one.path
            else replace(
                one,
                value=shorten(values[one.position]),
                source=type(values[one.position]).__name__,
            )
            for one in error.found
        ]
    )


# -- values without parts -----------------------------------------------------------------------


def _parts(values: _Objects, target: OdpsType, context: Context, *, keeps_nan: bool) -> list[Part]:
    """Sort the objects by kind; refuse those of no kind, and times with and without a zone."""
    parts, strangers = parts_of(values, keeps_nan=keeps_nan)
    if strangers:
        raise ValueMisfit([_stranger(values, place, target) for place in strangers])
    if context.conversions.timezone is not None:
        zones = {
            part[1].type.tz is not None for part in parts if pa.types.is_timestamp(part[1].type)
        }
        if len(zones) == 2 and target.code is not TypeCode.TIMESTAMP_NTZ:
            first = [int(p[0][0]) for p in parts if pa.types.is_timestamp(p[1].type)]
            raise ValueMisfit([_misfit(values, max(first), target, *_BOTH)])
    return parts


_BOTH = (
    "times with and without a time zone are in one column",
    "give all of them a time zone, or none",
)


def _stranger(values: _Objects, place: int, target: OdpsType) -> Misfit:
    value = values[place]
    kinds = {dict: "struct", list: "list", tuple: "list", np.ndarray: "list"}
    if (word := kinds.get(type(value))) is not None:
        _, cure = kind_problem(word, target, AS_THEY_ARE) or ("", "")
        reason = f"a {type(value).__name__} does not fit {target.code.name}"
    elif isinstance(value, int):
        reason, cure = f"it has more than {MAX_DIGITS} digits", "write it as text"
    elif isinstance(value, Decimal):
        reason, cure = (
            f"no DECIMAL of {MAX_DIGITS} digits holds it",
            "round it, or write it as text",
        )
    elif isinstance(value, str):
        reason = "it is no valid Unicode"
        cure = "remove its surrogates, e.g. with errors='replace'"
    else:
        reason = f"a value of type {type(value).__name__} does not fit {target.code.name}"
        cure = "convert it to a number, a text, a date or another plain value"
    return _misfit(values, place, target, reason, cure)


def _misfit(values: _Objects, place: int, target: OdpsType, reason: str, cure: str) -> Misfit:
    return Misfit(
        position=place,
        value=shorten(values[place]),
        source=type(values[place]).__name__,
        target=format_type(target),
        reason=reason,
        cure=cure,
    )


def is_missing(value: Any) -> bool:
    """Whether an object means null in pandas: ``None``, NaN, NaT, ``pandas.NA``."""
    if value is None:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, (float, np.floating, np.datetime64, np.timedelta64, datetime.datetime)):
        return bool(value != value)
    pandas = sys.modules.get("pandas")
    return pandas is not None and (value is pandas.NA or value is pandas.NaT)


def parts_of(values: _Objects, *, keeps_nan: bool = False) -> tuple[list[Part], _Places]:
    """Return the objects as arrays that hold them without loss, and the places of unknown ones."""
    by_type: dict[type, _Places] = {}
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) == 1:  # the usual column
        kind = next(iter(kinds))
        by_type[kind] = [place for place, value in enumerate(values) if value is not None]
    else:
        for place, value in enumerate(values):
            if value is not None:
                by_type.setdefault(type(value), []).append(place)
    parts: list[Part] = []
    strangers: _Places = []
    for kind, places in by_type.items():
        if (array := _at_once(kind, [values[place] for place in places], keeps_nan)) is not None:
            parts.append((np.array(places), array))
            continue
        sort = _sorter(kind)
        groups: dict[str, tuple[_Places, list[Any]]] = {}
        for place in places:
            value = values[place]
            if is_missing(value) and not (keeps_nan and isinstance(value, (float, np.floating))):
                continue
            found = sort(value) if sort is not None else None
            if found is None:
                strangers.append(place)
                continue
            into = groups.setdefault(found[0], ([], []))
            into[0].append(place)
            into[1].append(found[1])
        parts += [(np.array(places), _array(key, found)) for key, (places, found) in groups.items()]
    return parts, sorted(strangers)


def _at_once(kind: type, values: list[Any], keeps_nan: bool) -> pa.Array | None:  # noqa: FBT001
    """Return objects of one plain type as an array; ``None`` if one needs to be looked at."""
    if kind is datetime.datetime:
        if any(value.tzinfo is not None for value in values):
            return None
    elif kind not in _AT_ONCE:
        return None
    try:
        return pa.array(values, _AT_ONCE[kind], from_pandas=kind is float and not keeps_nan)
    except (OverflowError, ValueError):  # an integer of more than 64 bits, text with surrogates
        return None


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
    for base, sort in _SORTERS:
        if issubclass(kind, base):
            return sort
    return None


def _integer(value: Any) -> _Sorted:
    number = int(value)
    if -(2**63) <= number < 2**63:
        return "int64", number
    return _decimal(Decimal(number)) if abs(number) < 10**MAX_DIGITS else None


def _float(value: Any) -> _Sorted:
    if isinstance(value, (np.float32, np.float16)):
        return type(value).__name__, value
    number = float(value)
    return ("float64", number) if number == value or value != value else None


def _decimal(value: Decimal) -> _Sorted:
    if not value.is_finite():
        return None
    if not value:
        return "decimal 0", Decimal(0)
    exponent = int(value.as_tuple().exponent)
    if exponent < -MAX_DIGITS:  # trailing zeros need no place
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
    return "text", str.__str__(value)


def _moment(value: datetime.datetime) -> _Sorted:
    seconds = (value.toordinal() - 719_163) * 86_400
    seconds += value.hour * 3600 + value.minute * 60 + value.second
    micros = seconds * 10**6 + value.microsecond
    ahead = value.utcoffset()
    zone = ""
    if ahead is not None:
        micros -= ahead // datetime.timedelta(microseconds=1)
        zone = "UTC"
    nanos = getattr(value, "nanosecond", 0)  # of pandas
    if nanos:
        return f"timestamp ns {zone}", micros * 1000 + nanos
    return f"timestamp us {zone}", micros


def _span(value: datetime.timedelta) -> _Sorted:
    micros = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
    nanos = getattr(value, "nanoseconds", 0)  # of pandas
    return ("duration ns", micros * 1000 + nanos) if nanos else ("duration us", micros)


_ARROW_UNITS = ("s", "ms", "us", "ns")


def _numpy_time(value: np.datetime64) -> _Sorted:
    unit, count = np.datetime_data(value.dtype)
    if count == 1 and unit in _ARROW_UNITS:
        return f"timestamp {unit} ", int(value.astype(np.int64))
    if unit in ("Y", "M", "W", "D"):
        days = value.astype("datetime64[D]")
        return ("date", int(days.astype(np.int64))) if _same(days, value) else None
    for finer in _ARROW_UNITS:
        if _same(fitted := value.astype(f"datetime64[{finer}]"), value):
            return f"timestamp {finer} ", int(fitted.astype(np.int64))
    return None


def _numpy_span(value: np.timedelta64) -> _Sorted:
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M", "generic"):
        return None
    if count == 1 and unit in _ARROW_UNITS:
        return f"duration {unit}", int(value.astype(np.int64))
    for finer in _ARROW_UNITS:
        if _same(fitted := value.astype(f"timedelta64[{finer}]"), value):
            return f"duration {finer}", int(fitted.astype(np.int64))
    return None


def _same(converted: Any, value: Any) -> bool:
    """Whether a NumPy time or duration kept its value in another unit (overflow changes it)."""
    sign = converted.astype(np.int64) > 0, value.astype(np.int64) > 0
    return bool(converted.astype(value.dtype) == value) and sign[0] == sign[1]


def _scalar(value: pa.Scalar) -> _Sorted:
    return (f"arrow {value.type}", value) if value.is_valid else None


# A subclass comes before its base: bool is an int, datetime a date, np.float64 a float.
_SORTERS: tuple[tuple[type | tuple[type, ...], _Sorter], ...] = (
    ((bool, np.bool_), lambda value: ("bool", bool(value))),
    (np.timedelta64, _numpy_span),  # NumPy says that it is an integer
    ((int, np.integer), _integer),
    ((float, np.floating), _float),
    (Decimal, _decimal),
    (str, _text),
    ((bytes, bytearray, memoryview), lambda value: ("bytes", bytes(value))),
    (datetime.datetime, _moment),
    (datetime.date, lambda value: ("date", value.toordinal() - 719_163)),
    (datetime.timedelta, _span),
    (np.datetime64, _numpy_time),
    (pa.Scalar, _scalar),
)

_ARRAYS: Mapping[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int64": pa.int64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "text": pa.string(),
    "bytes": pa.binary(),
}


def _array(key: str, values: list[Any]) -> pa.Array:
    name, _, detail = key.partition(" ")
    if name == "decimal":
        return pa.array(values, pa.decimal256(MAX_DIGITS, int(detail)))
    if name == "date":
        return pa.array(values, pa.int32()).cast(pa.date32())
    if name == "timestamp":
        unit, _, zone = detail.partition(" ")
        return pa.array(values, pa.int64()).cast(pa.timestamp(unit, zone or None))
    if name == "duration":
        return pa.array(values, pa.int64()).cast(pa.duration(detail))
    if name == "arrow":
        return pa.array(values, values[0].type)
    return pa.array(values, _ARRAYS[name])


# -- values with parts --------------------------------------------------------------------------


def _fit_lists(values: _Objects, target: ArrayType, context: Context) -> pa.Array:
    wanted = context.arrow_type(target)
    lists = [_as_list(value, target, values, place) for place, value in enumerate(values)]
    lengths = pa.array([None if one is None else len(one) for one in lists], pa.int64())
    offsets = list_offsets(lengths)
    given = [one for one in lists if one is not None and len(one)]
    try:
        inner = _fit_packed(given, target.element, context)
    except ValueMisfit as error:
        raise of_lists(error, offsets, "[{}]") from None
    return pa.ListArray.from_arrays(null_offsets(offsets, lengths), inner, type=wanted)


def _fit_packed(given: list[Any], element: OdpsType, context: Context) -> pa.Array:
    """Fit the elements of all lists; NumPy arrays of one type are joined, not taken apart."""
    if given and all(isinstance(one, np.ndarray) and one.ndim == 1 for one in given):
        dtypes = {one.dtype for one in given}
        plain = dtypes.pop() if len(dtypes) == 1 else None
        if (
            plain is not None
            and plain.kind in "biuf"
            and not isinstance(element, (ArrayType, MapType, StructType))
        ):
            packed = np.concatenate(given)
            if plain.kind != "f" or element.code in (TypeCode.FLOAT, TypeCode.DOUBLE):
                part = (np.arange(len(packed)), pa.array(packed))
                return fit_parts([part], len(packed), element, context)
    return _fit([value for one in given for value in one], element, context, inside=True)


def _as_list(value: Any, target: OdpsType, values: _Objects, place: int) -> Any:
    """Return a list, set, array or Series as something to iterate over; ``None`` for null."""
    if isinstance(value, (list, tuple, np.ndarray)):
        if not isinstance(value, np.ndarray) or value.ndim:
            return value
    elif isinstance(value, pa.Scalar):
        inner = getattr(value, "values", None)
        if not value.is_valid:
            return None
        if inner is not None:
            return list(inner)
    elif isinstance(value, (pa.Array, pa.ChunkedArray, set, frozenset, range)):
        return list(value)
    elif is_missing(value):
        return None
    elif hasattr(value, "__array__") and not isinstance(value, (str, bytes, np.generic)):
        return list(value)  # a Series, an index, an array of pandas
    raise ValueMisfit([_part_misfit(values, place, target)])


def _part_misfit(values: _Objects, place: int, target: OdpsType) -> Misfit:
    return _misfit(values, place, target, *part_problem(type(values[place]).__name__, target))


def _fit_maps(values: _Objects, target: MapType, context: Context) -> pa.Array:
    wanted = context.arrow_type(target)
    pairs = [_as_pairs(value, target, values, place) for place, value in enumerate(values)]
    lengths = pa.array([None if one is None else len(one) for one in pairs], pa.int64())
    offsets = list_offsets(lengths)
    flat = [pair for one in pairs if one is not None for pair in one]
    try:
        keys = _fit([key for key, _ in flat], target.key, context, inside=True)
        refuse_null_keys(keys, target)
    except ValueMisfit as error:
        raise of_lists(error, offsets, ".key[{}]") from None
    try:
        items = _fit([item for _, item in flat], target.value, context, inside=True)
    except ValueMisfit as error:
        raise of_lists(error, offsets, ".value[{}]") from None
    return pa.MapArray.from_arrays(null_offsets(offsets, lengths), keys, items).cast(wanted)


def _as_pairs(
    value: Any, target: OdpsType, values: _Objects, place: int
) -> list[tuple[Any, Any]] | None:
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, (list, tuple, np.ndarray)):
        pairs = []
        for one in value:
            if isinstance(one, Mapping) and set(one) == {"key", "value"}:
                pairs.append((one["key"], one["value"]))
            elif isinstance(one, (list, tuple)) and len(one) == 2:
                pairs.append((one[0], one[1]))
            else:
                break
        else:
            return pairs
    elif is_missing(value):
        return None
    raise ValueMisfit([_part_misfit(values, place, target)])


def _fit_structs(values: _Objects, target: StructType, context: Context) -> pa.Array:
    wanted = context.arrow_type(target)
    columns: list[list[Any]] = [[None] * len(values) for _ in target.fields]
    valid = np.zeros(len(values), bool)
    known = {member.name.casefold(): index for index, member in enumerate(target.fields)}
    found: list[Misfit] = []
    for place, value in enumerate(values):
        members = _as_members(value, target, values, place)
        if members is None:
            continue
        valid[place] = True
        _, stranger = members_of([str(name) for name in members], target)
        if stranger is not None:
            found.append(_misfit(values, place, target, *no_member(stranger, target)))
            continue
        for name, inner in members.items():
            columns[known[name.casefold()]][place] = inner
    if found:
        raise ValueMisfit(found)
    parts = []
    for member, column in zip(target.fields, columns, strict=True):
        try:
            parts.append(_fit(column, member.type, context, inside=True))
        except ValueMisfit as error:
            found += [replace(one, path=f".{member.name}{one.path}") for one in error.found]
    if found:
        raise ValueMisfit(found)
    return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=pa.array(~valid))


def _as_members(
    value: Any, target: OdpsType, values: _Objects, place: int
) -> Mapping[str, Any] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, pa.StructScalar):
        return dict(value.items()) if value.is_valid else None
    if hasattr(value, "_asdict"):  # a named tuple
        return dict(value._asdict())
    if isinstance(value, (list, tuple)) and all(
        isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) for one in value
    ):
        return dict(value)
    if is_missing(value):
        return None
    raise ValueMisfit([_part_misfit(values, place, target)])
