"""Checks whether values of one Arrow type fit a scalar type, and converts them."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.arrow.text import as_bytes, is_utf8
from odps_nb.arrow.types import SECONDS_AND_NANOS, arrow_type, decimal_size
from odps_nb.convert.arrow_types import is_bytes, is_list, is_text
from odps_nb.convert.fitting.clocks import fit_date, fit_day_time, fit_time
from odps_nb.convert.fitting.conversions import Conversions
from odps_nb.convert.fitting.fixed_width import Part, array_from, parts_from
from odps_nb.convert.fitting.kinds import decimal_item
from odps_nb.convert.fitting.misfit import Misfit, ValueMisfit, refuse
from odps_nb.convert.fitting.numbers import fit_decimal, fit_float, fit_integer, rounded
from odps_nb.convert.times import INSTANTS
from odps_nb.errors import a_type
from odps_nb.schema import DecimalType, LengthType, OdpsType, TypeCode, is_readable


@dataclass(frozen=True, slots=True)
class FitContext:
    """Timestamp unit (``ns`` or ``us``), allowed conversions, and whether this is for a write.

    See ``odps_nb.arrow.types.arrow_type`` for the meaning of ``for_write``.
    """

    unit: str
    conversions: Conversions
    for_write: bool = True

    def arrow_type(self, target: OdpsType) -> pa.DataType:
        """Return the Arrow type of the result."""
        return arrow_type(target, timestamp_unit=self.unit, for_write=self.for_write)


_NUMBERS = ("integer", "float", "decimal")
_TIMES = ("date", "timestamp")
_FITS: dict[TypeCode, tuple[str, ...]] = {
    **dict.fromkeys((TypeCode.TINYINT, TypeCode.SMALLINT, TypeCode.INT), _NUMBERS),
    **dict.fromkeys((TypeCode.BIGINT, TypeCode.DECIMAL), _NUMBERS),
    **dict.fromkeys((TypeCode.FLOAT, TypeCode.DOUBLE), ("integer", "float")),
    TypeCode.BOOLEAN: ("boolean",),
    **dict.fromkeys((TypeCode.STRING, TypeCode.CHAR, TypeCode.VARCHAR), ("text", "bytes")),
    TypeCode.JSON: ("text", "bytes"),
    # fixed-width bytes may be keys, UUIDs or hashes, but not text
    **dict.fromkeys((TypeCode.BINARY, TypeCode.BLOB), ("text", "bytes", "fixed-size bytes")),
    TypeCode.GEOGRAPHY: ("bytes", "fixed-size bytes"),
    **dict.fromkeys((TypeCode.DATE, TypeCode.DATETIME), _TIMES),
    **dict.fromkeys((TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ), _TIMES),
    TypeCode.INTERVAL_DAY_TIME: ("duration",),
    TypeCode.INTERVAL_YEAR_MONTH: _NUMBERS,
}
_HINTS: tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...] = (
    # (kinds of the values, kinds of the target, hint)
    (("text",), ("duration",), "convert it with pd.to_timedelta"),
    (
        ("text",),
        ("integer", "float", "boolean", *_TIMES),
        'convert it first, e.g. with pd.to_numeric or pd.to_datetime, or pass text="parse"',
    ),
    (("decimal",), ("float",), 'convert it with astype("float64"), which rounds it'),
    (("integer", "float"), _TIMES, "convert it with pd.to_datetime, specifying its unit"),
    (("integer", "float"), ("duration",), "convert it with pd.to_timedelta, specifying its unit"),
    (
        ("month_day_nano_interval",),
        ("duration",),
        "convert it to microseconds, in DuckDB with epoch_us(column), and then with "
        'pd.to_timedelta(…, unit="us")',
    ),
    (_NUMBERS, ("boolean",), "compare it, e.g. with column != 0"),
    (("boolean",), _NUMBERS, 'convert it with astype("int64")'),
    (("struct", "map", "list"), ("text",), "convert it to JSON text with json.dumps"),
    (("bytes", "fixed-size bytes"), ("text",), "decode it, or use a BINARY column"),
    (("duration",), ("integer",), "convert it to a number of units, e.g. with .dt.total_seconds()"),
    (
        ("date", "timestamp"),
        ("text",),
        'format it like the other values, e.g. with .dt.strftime("%Y%m%d") or '
        'value.strftime("%Y-%m-%d")',
    ),
    ((), ("text",), 'convert it with astype("str")'),
)


_DROP_ZONE = "drop the zone, with .dt.tz_localize(None) or value.replace(tzinfo=None)"


def kind_of(arrow: pa.DataType) -> str:
    """Return the name of an Arrow type's kind, regardless of its layout."""
    if is_text(arrow):
        return "text"
    if is_bytes(arrow):
        return "fixed-size bytes" if pt.is_fixed_size_binary(arrow) else "bytes"
    if is_list(arrow):
        return "list"
    if arrow.equals(SECONDS_AND_NANOS):
        return "duration"
    return next((word for matches, word in _KINDS if matches(arrow)), str(arrow))


_KINDS = (
    (pt.is_boolean, "boolean"),
    (pt.is_integer, "integer"),
    (pt.is_floating, "float"),
    (pt.is_decimal, "decimal"),
    (pt.is_date, "date"),
    (pt.is_timestamp, "timestamp"),
    (pt.is_duration, "duration"),
    (pt.is_map, "map"),
    (pt.is_struct, "struct"),
)


def kind_problem(
    source: pa.DataType | str, target: OdpsType, conversions: Conversions
) -> tuple[str, str] | None:
    """Return the reason why no value of an Arrow type or kind can fit, and a hint.

    ``None`` if some value may fit.
    """
    kind = source if isinstance(source, str) else kind_of(source)
    accepted = _FITS.get(target.code, ())
    if kind in accepted:
        if target.code is TypeCode.TIMESTAMP_NTZ and getattr(source, "tz", None) is not None:
            return "a time with a time zone does not fit a type without one", _DROP_ZONE
        return None
    if _is_parsed(kind, target, conversions):
        return None
    hints = (
        hint
        for kinds, for_what, hint in _HINTS
        if (not kinds or kind in kinds) and any(word in accepted for word in for_what)
    )
    reason = f"{given_text(kind)} fit {target.code.name}"
    if target.code is TypeCode.INTERVAL_YEAR_MONTH:
        return reason, "convert it to a number of months"
    if not is_readable(target):
        return "values of this type cannot be written", "omit the column; it becomes null"
    if target.code is TypeCode.GEOGRAPHY:
        return reason, "pass WKB as bytes, e.g. from shapely.to_wkb"
    return reason, next(hints, f"convert it to values of {target.code.name}")


def given_text(kind: str) -> str:
    """Return the beginning of the error message for a kind that does not fit."""
    if kind.endswith("bytes"):
        return f"{kind} do not"
    return f"{kind if kind == 'text' else a_type(kind)} does not"


def _is_parsed(kind: str, target: OdpsType, conversions: Conversions) -> bool:
    return kind == "text" and conversions.text == "parse" and target.code in _PARSED


def fit_leaf(array: pa.Array, target: OdpsType, context: FitContext) -> pa.Array:
    """Convert scalar values to the type that a write sends."""
    target_type = context.arrow_type(target)
    if array.null_count == len(array):  # all values are null, so any type fits
        return pa.nulls(len(array), target_type)
    conversions = context.conversions
    if problem := kind_problem(array.type, target, conversions):
        refuse(array, array.is_valid(), target, *problem)
    if is_text(array.type) and _is_parsed("text", target, conversions):
        return _parsed(array, target, context)
    if target.code is TypeCode.DATE:
        return fit_date(array, target)
    if pt.is_timestamp(target_type):
        zone = conversions.timezone if target.code in INSTANTS else None
        rounds = conversions.times == "round"
        return fit_time(array, target, target_type.unit, zone, rounds=rounds)
    if target.code is TypeCode.INTERVAL_DAY_TIME:
        fitted = fit_day_time(array, target)
        return fitted if context.for_write else array.cast(target_type)
    if isinstance(target, DecimalType):
        return fit_decimal(array, target, target_type, rounds=conversions.decimals == "round")
    if pt.is_floating(target_type):
        return fit_float(array, target, target_type)
    if pt.is_integer(target_type):
        return fit_integer(array, target, target_type)
    return _fit_text(array, target, target_type)


def _parsed(array: pa.Array, target: OdpsType, context: FitContext) -> pa.Array:
    """Parse text values, ignoring surrounding blanks."""
    texts = enumerate(array.to_pylist())
    rounds = context.conversions.decimals == "round"
    parsed = [
        (at, _value(text.strip(), target, rounds=rounds)) for at, text in texts if text is not None
    ]
    bad = np.zeros(len(array), bool)
    bad[[at for at, value in parsed if value is None]] = True
    refuse(array, bad, target, f"the text is not a valid {target.code.name}", "correct the text")
    parts = parts_from((at, value) for at, value in parsed if value is not None)
    try:
        return fit_parts(parts, len(array), target, context)
    except ValueMisfit as error:
        raise error.shown_as(array) from None


def _fit_text(array: pa.Array, target: OdpsType, target_type: pa.DataType) -> pa.Array:
    """Convert the layout of booleans, text or bytes without changing values."""
    if pt.is_large_string(array.type) or pt.is_large_binary(array.type):
        ends = np.frombuffer(array.buffers()[1], np.int64)
        if ends[array.offset + len(array)] >= 2**31:  # Arrow casts only if all offsets fit
            array = array.take(array_from(np.arange(len(array)), pa.int64()))
            if array.nbytes >= 2**31:
                raise pa.ArrowCapacityError("the values have more than 2 GiB")
    try:
        fitted = array if array.type.equals(target_type) else array.cast(target_type)
    except pa.ArrowInvalid:
        _refuse_other_text(array, target)
        raise
    if is_text(array.type) and not is_utf8(array):
        _refuse_other_text(array, target)
    if isinstance(target, LengthType):
        limit = target.length
        long = pc.greater(pc.utf8_length(fitted), limit)
        reason = f"it has more than {limit} character{'' if limit == 1 else 's'}"
        refuse(array, long, target, reason, "shorten it, or use a STRING column")
    if target.code is TypeCode.JSON:
        bad = np.array([not _is_json(text) for text in fitted.to_pylist()], bool)
        refuse(array, bad, target, "it is not JSON", "convert it with json.dumps")
    return fitted


def _is_json(text: str | None) -> bool:
    try:
        json.loads("null" if text is None else text, parse_int=str, parse_constant=_no_json)
    except (ValueError, RecursionError):
        return False
    return True


def _no_json(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _refuse_other_text(array: pa.Array, target: OdpsType) -> None:
    octets = array.view(as_bytes(array.type))
    bad = np.array([not _is_utf8(value.as_py()) for value in octets])
    refuse(octets, bad, target, "its bytes are not UTF-8", "decode it, or use a BINARY column")


def _is_utf8(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def fit_parts(parts: Sequence[Part], count: int, target: OdpsType, context: FitContext) -> pa.Array:
    """Convert the parts of a column with ``count`` values; all other positions become nulls."""
    order = np.full(count, -1, np.int64)
    fitted: list[pa.Array] = []
    misfits: list[Misfit] = []
    length = 0
    for positions, values in parts:
        try:
            piece = fit_leaf(values, target, context)
        except ValueMisfit as error:
            misfits += [
                replace(misfit, position=int(positions[misfit.position])) for misfit in error.found
            ]
            continue
        order[positions] = np.arange(length, length + len(piece))
        length += len(piece)
        fitted.append(piece)
    if misfits:
        raise ValueMisfit(misfits)
    if not fitted:
        return pa.nulls(count, context.arrow_type(target))
    if len(fitted) == 1 and length == count:
        return fitted[0]
    return pa.concat_arrays(fitted).take(pa.array(order, mask=order < 0))


_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:nan|inf|infinity)", re.ASCII | re.IGNORECASE)
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?\s?(Z|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)
_TRUTH = {"true": True, "false": False}
_EPOCH = datetime.datetime(1970, 1, 1)
_TIME_CODES = (TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ)
_PARSED = {code for code, kinds in _FITS.items() if {"integer", "date", "boolean"} & {*kinds}}
_PARSED.remove(TypeCode.INTERVAL_YEAR_MONTH)


def _value(text: str, target: OdpsType, *, rounds: bool) -> tuple[str, Any] | None:
    code = target.code
    if code is TypeCode.BOOLEAN:
        truth = _TRUTH.get(text.casefold())
        return None if truth is None else ("bool", truth)
    if code in (TypeCode.FLOAT, TypeCode.DOUBLE):
        if _FLOAT.fullmatch(text):
            return "float64", float(text)
        number = float(text) if _NUMBER.fullmatch(text) else math.inf
        lost = number == 0 and Decimal(text) != 0
        return ("float64", number) if math.isfinite(number) and not lost else None
    if code in _TIME_CODES:
        return _time(text, by_its_clock=code is TypeCode.DATE)
    if not _NUMBER.fullmatch(text):
        return None
    exact = Decimal(text)
    if rounds and isinstance(target, DecimalType):
        exact = rounded(exact, decimal_size(target)[1])
    return decimal_item(exact)


def _time(text: str, *, by_its_clock: bool) -> tuple[str, Any] | None:
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.datetime.fromisoformat(f"{day} {clock}" if clock else day)
        zone = None if by_its_clock else "+00:00" if zone == "Z" else zone
        ahead = datetime.datetime.strptime(zone, "%z").utcoffset() if zone else None
    except ValueError:
        return None
    seconds = (moment - _EPOCH - (ahead or datetime.timedelta())) // datetime.timedelta(seconds=1)
    digits = (fraction or "").rstrip("0")
    unit = "ns" if len(digits) > 6 else "us"
    places = 9 if unit == "ns" else 6
    count = seconds * 10**places + int(digits.ljust(places, "0") or 0)
    if not -(2**63) <= count < 2**63:
        return None
    return f"timestamp {unit} {'UTC' if zone else ''}", count
