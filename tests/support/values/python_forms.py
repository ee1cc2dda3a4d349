"""Offered values as Python and NumPy objects, in the forms that users have."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.support.values.families import alternatives, family_of, in_family
from tests.support.values.rules import (
    DAY,
    FIRST,
    LAST,
    NEAR,
    NESTED,
    SECOND,
    TIMES,
    Day,
    Kind,
    Moment,
    Pairs,
    Single,
    Span,
)

UNITS = {"D": DAY, "h": 3600 * SECOND, "m": 60 * SECOND, "s": SECOND, "ms": 10**6, "us": 10**3,
         "ns": 1}  # fmt: skip
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
_EPOCH = dt.datetime(1970, 1, 1)


def units_of(counts: list[int], units: Any = UNITS) -> list[str]:
    """Return the units that can hold all these numbers of nanoseconds."""
    return [
        unit
        for unit in units
        if not any(count % UNITS[unit] for count in counts)
        and (all(count // UNITS[unit] in NEAR for count in counts))
    ]


def integers_of(numbers: list[int]) -> list[str]:
    """Return the NumPy types that can hold all these numbers."""
    least, most = min(numbers, default=0), max(numbers, default=0)
    limits = {name: np.iinfo(name) for name in INTEGERS}
    return [n for n, limit in limits.items() if limit.min <= least and most <= limit.max]


def moment_forms(moment: Moment) -> list[Any]:
    """Return a time as an instance of each class that can hold it."""
    zone = None if moment.ahead is None else dt.timezone(dt.timedelta(seconds=moment.ahead))
    found: list[Any] = []
    if not moment.shown % 1000 and FIRST + DAY <= moment.shown <= LAST - DAY:
        shown = _EPOCH + dt.timedelta(microseconds=moment.shown // 1000)
        found.append(shown.replace(tzinfo=zone))
    for unit in units_of([moment.shown]):
        if zone is None:
            found.append(np.datetime64(moment.shown // UNITS[unit], unit))
        if unit in ("s", "ms", "us", "ns") and FIRST + DAY <= moment.shown <= LAST - DAY:
            clock = pd.Timestamp(np.datetime64(moment.shown // UNITS[unit], unit))
            found.append(clock if zone is None else clock.tz_localize(zone))
    return found


def _span_forms(span: Span) -> list[Any]:
    found: list[Any] = []
    if not span.nanos % 1000 and abs(span.nanos) < 10**9 * DAY:
        found.append(dt.timedelta(microseconds=span.nanos // 1000))
    for unit in units_of([span.nanos]):
        found.append(np.timedelta64(span.nanos // UNITS[unit], unit))
        if unit in ("s", "ms", "us", "ns"):
            found.append(pd.Timedelta(found[-1]))
    return found


def scalar_forms(value: Any) -> list[Any]:
    """Return a value as an instance of each class that can hold it, the simplest first."""
    if isinstance(value, bool):
        return [value, np.bool_(value)]
    if isinstance(value, int):
        return [value, *(np.dtype(name).type(value) for name in integers_of([value]))]
    if isinstance(value, float):
        return [value, np.float64(value)]
    if isinstance(value, Single):
        return [np.float32(value.value)]
    if isinstance(value, str):
        return [value, np.str_(value)] if value.isprintable() else [value]
    if isinstance(value, Day):
        found: list[Any] = [np.datetime64(value.days, "D")]
        if FIRST <= value.days * DAY <= LAST:
            found.insert(0, _EPOCH.date() + dt.timedelta(days=value.days))
        return found
    if isinstance(value, Moment):
        return moment_forms(value)
    return _span_forms(value) if isinstance(value, Span) else [value]


NULLS = [None, None, float("nan"), pd.NA]


def _null(draw: DrawFn, kind: Kind, top: bool) -> Any:
    marks: list[Any] = [None, None, None]
    if top:
        marks += NULLS[2:]
    if kind.name in TIMES or kind.name == "date":
        marks += [pd.NaT, np.datetime64("NaT", "s"), np.datetime64("NaT", "ns")]
    if kind.name == "interval_day_time":
        marks += [pd.NaT, np.timedelta64("NaT", "s"), np.timedelta64("NaT", "us")]
    return draw(st.sampled_from(marks))


def typed_array(draw: DrawFn, values: list[Any]) -> Any:
    """Return a typed NumPy array with the values of one family; ``None`` if there is none."""
    present = [one for one in values if one is not None]
    families = {family_of(one) for one in present if not isinstance(one, (list, dict))}
    if len(families) != 1 or any(isinstance(one, (list, dict)) for one in present):
        return None
    (family,) = families
    whole = len(present) == len(values)
    if family in ("day", "clock", "span"):
        counts = [_nanos(one) for one in present]
        units = units_of(counts)
        if not units:
            return None
        unit = draw(st.sampled_from(units))
        letter = "m8" if family == "span" else "M8"
        numbers = [NEAR[0] - 1 if one is None else _nanos(one) // UNITS[unit] for one in values]
        return np.array(numbers, "int64").view(f"{letter}[{unit}]")
    filled = [present[0] if one is None else one for one in values]
    if family == "int":
        dtypes = integers_of(present)
        made = np.array(filled, draw(st.sampled_from(dtypes))) if dtypes else None
    elif family == "single":
        made = np.array([one.value for one in filled], "float32")
    elif family == "text":
        made = np.array(filled, "U") if all(one.isprintable() for one in filled) else None
    else:
        made = np.array(filled) if family in ("float", "bool") else None
    if made is not None and made.dtype.kind in "if" and draw(st.integers(0, 4)) == 0:
        made = made.astype(made.dtype.newbyteorder())
    if whole or made is None:
        return made
    return np.ma.masked_array(made, [one is None for one in values])


def _nanos(value: Day | Moment | Span) -> int:
    if isinstance(value, Day):
        return value.days * DAY
    return value.shown if isinstance(value, Moment) else value.nanos


def objects(values: list[Any]) -> Any:
    """Return an array of Python objects that are stored unchanged."""
    made = np.empty(len(values), object)
    for place, value in enumerate(values):
        made[place] = value
    return made


def python_cell(draw: DrawFn, kind: Kind | None, value: Any, *, top: bool = True) -> Any:
    """Draw an object that represents a value.

    Parameters
    ----------
    kind
        Also draw other kinds of values that are equal for this type; ``None``: do not.
    top
        Whether it is the cell of a column, where NaN is a null.
    """
    if value is None:
        return None if kind is None else _null(draw, kind, top)
    if isinstance(value, Pairs):
        return _python_map(draw, kind, value)
    if isinstance(value, list):
        element = kind.part("element") if kind is not None and kind.name == "array" else None
        return _python_list(draw, element, value)
    if isinstance(value, dict):
        return _python_struct(draw, kind, value)
    same = [value] if kind is None else alternatives(kind, value)
    forms = [found for one in same if (found := scalar_forms(one))]
    return draw(st.sampled_from(draw(st.sampled_from(forms))))


def _python_list(draw: DrawFn, element: Kind | None, values: list[Any]) -> Any:
    form = draw(st.sampled_from(["list", "tuple", "array", "array", "objects"]))
    if form == "array" and values:
        if element is not None and element.name not in NESTED and draw(st.booleans()):
            first = next((one for one in values if one is not None), None)
            if first is not None:
                family = family_of(draw(st.sampled_from(alternatives(element, first))))
                others = [in_family(element, one, family) for one in values]
                values = values if _lost(values, others) else others
        if (found := typed_array(draw, values)) is not None:
            return found
    cells = [python_cell(draw, element, one, top=False) for one in values]
    return {"list": list, "tuple": tuple}.get(form, objects)(cells)


def _lost(values: list[Any], others: list[Any]) -> bool:
    return any(b is None and a is not None for a, b in zip(values, others, strict=True))


def _python_map(draw: DrawFn, kind: Kind | None, value: Pairs) -> Any:
    key, item = (None, None)
    if kind is not None and kind.name == "map":
        key, item = kind.part("key"), kind.part("value")
    pairs = [
        (python_cell(draw, key, k, top=False), python_cell(draw, item, v, top=False))
        for k, v in value
    ]
    as_dict = draw(st.booleans()) and len({k for k, _ in pairs}) == len(pairs)
    return dict(pairs) if as_dict else pairs


def _python_struct(draw: DrawFn, kind: Kind | None, value: dict[str, Any]) -> dict[str, Any]:
    parts = {} if kind is None or kind.name != "struct" else dict(kind.parts)
    case = draw(st.sampled_from([str, str, str.upper]))
    made = {}
    for name, inner in value.items():
        if inner is None and len(value) > 1 and kind is not None and draw(st.booleans()):
            continue  # a missing member is null
        made[case(name)] = python_cell(draw, parts.get(name), inner, top=False)
    return made


def shown_texts(value: Any) -> list[str]:
    """Return texts, one of which a message about the value must contain; empty: any will do."""
    if isinstance(value, Single):
        return [value.text]
    if isinstance(value, bool) or value is None:
        return [str(value), str(value).lower(), "null"]
    if isinstance(value, float):
        return [repr(value), f"{value:g}", str(int(value)) if value.is_integer() else ""]
    if isinstance(value, int):
        return [str(value)[:12]]
    if isinstance(value, Decimal):
        return [f"{value.copy_abs():f}".strip("0").strip(".")[:12], str(value), "E+", "E-"]
    if isinstance(value, str):
        return [value[:8], repr(value)[1:8], "bytes>"]
    if isinstance(value, (Day, Moment)):
        nanos = _nanos(value)
        if FIRST <= nanos <= LAST:
            return [f"{(_EPOCH + dt.timedelta(microseconds=nanos // 1000)).year}"]
    return []
