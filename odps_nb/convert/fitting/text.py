"""Reads text as numbers, times and booleans, for a write that asks for it."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from odps_nb.schema import OdpsType, TypeCode

__all__ = ["PARSED", "parse_text"]

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:nan|inf|infinity)", re.ASCII | re.IGNORECASE)
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?\s?(Z|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)
_TRUTH = {"true": True, "false": False}
_EPOCH = datetime.datetime(1970, 1, 1)
_TIME_CODES = (TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIMESTAMP, TypeCode.TIMESTAMP_NTZ)
PARSED = (
    *_TIME_CODES,
    TypeCode.TINYINT,
    TypeCode.SMALLINT,
    TypeCode.INT,
    TypeCode.BIGINT,
    TypeCode.DECIMAL,
    TypeCode.FLOAT,
    TypeCode.DOUBLE,
    TypeCode.BOOLEAN,
)
"""Types whose values text can stand for."""


def parse_text(
    array: pa.Array, target: OdpsType
) -> tuple[list[tuple[np.ndarray[Any, Any], pa.Array]], np.ndarray[Any, Any]]:
    """Return the values that texts stand for, and which texts stand for none.

    The values come as parts, for `odps_nb.convert.fitting.leaf.fit_parts`. Blanks around a text
    are ignored.
    """
    code = target.code
    bad = np.zeros(len(array), bool)
    places: dict[str, list[int]] = {}
    values: dict[str, list[Any]] = {}
    for position, text in enumerate(array.to_pylist()):
        if text is None:
            continue
        found = _value(text.strip(), code)
        if found is None:
            bad[position] = True
            continue
        kind, value = found
        places.setdefault(kind, []).append(position)
        values.setdefault(kind, []).append(value)
    parts = [(np.array(places[kind]), _array(kind, values[kind])) for kind in places]
    return parts, bad


def _value(text: str, code: TypeCode) -> tuple[str, Any] | None:
    if code is TypeCode.BOOLEAN:
        truth = _TRUTH.get(text.casefold())
        return None if truth is None else ("bool", truth)
    if code in (TypeCode.FLOAT, TypeCode.DOUBLE):
        if _FLOAT.fullmatch(text):
            return "float", float(text)
        number = float(text) if _NUMBER.fullmatch(text) else math.inf
        lost = number == 0 and Decimal(text) != 0
        return ("float", number) if math.isfinite(number) and not lost else None
    if code in _TIME_CODES:
        return _time(text, by_its_clock=code is TypeCode.DATE)
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return _decimal(Decimal(text))
    except InvalidOperation:
        return None


def _decimal(value: Decimal) -> tuple[str, Any] | None:
    exponent = min(int(value.as_tuple().exponent), 0)
    digits = value.adjusted() + 1 - exponent
    if exponent < -76 or digits > 76:
        return None
    return f"decimal {-exponent}", value


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
    return f"{unit} {'UTC' if zone else ''}", count


def _array(kind: str, values: list[Any]) -> pa.Array:
    name, _, detail = kind.partition(" ")
    if name == "decimal":
        return pa.array(values, pa.decimal256(76, int(detail)))
    if name in ("ns", "us"):
        return pa.array(values, pa.int64()).cast(pa.timestamp(name, detail or None))
    return pa.array(values, pa.bool_() if name == "bool" else pa.float64())
