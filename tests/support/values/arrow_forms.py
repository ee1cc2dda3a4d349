"""Offered values as Arrow arrays of all types that can hold them, built from bytes and integers.

Arrow's casts and its conversion of Python objects are not used, because both are under test.
"""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.support.values.families import NoFormError, family_of, one_family
from tests.support.values.python_forms import integers_of, units_of
from tests.support.values.rules import (
    BITS,
    DAY,
    INSTANTS,
    NESTED,
    SECOND,
    TEXTS,
    Kind,
    Pairs,
)

_UNITS = {"s": SECOND, "ms": 10**6, "us": 10**3, "ns": 1}
_ZONES = ["UTC", "Asia/Shanghai", "America/New_York", "+05:30"]
_SHAPES = {Pairs: "map", list: "array", dict: "struct"}


def arrow_array(
    draw: DrawFn, kind: Kind, values: list[Any], *, plain: bool = False
) -> tuple[pa.Array, list[Any]]:
    """Draw an array that holds values of a column.

    Parameters
    ----------
    plain
        Only use types that every engine supports.

    Returns ------- tuple The array and its values. One family of values is chosen for each leaf;
    values that it cannot hold are null.
    """
    before = draw(st.sampled_from([0, 0, 1, 2]))
    padded = values[:1] * before + values + values[:1] * before
    made, kept = _array(_Draw(draw, plain), kind, padded, top=True)
    skipped = min(before, len(padded))
    return made.slice(skipped, len(values)), kept[skipped : skipped + len(values)]


class _Draw:
    def __init__(self, draw: DrawFn, plain: bool) -> None:
        self._draw, self.plain = draw, plain

    def one(self, options: list[Any], plain: int | None = None) -> Any:
        """Draw an option; if types must be plain, one of the first ``plain`` options."""
        if not options:
            raise NoFormError
        return self._draw(st.sampled_from(options[:plain] if self.plain else options))

    def family(self, options: list[str]) -> str:
        """Draw a family; zones of plain types have names."""
        named = [one for one in options if not self.plain or one != "instant19800"]
        return str(self.one(named))


def _array(
    draw: _Draw, kind: Kind | None, values: list[Any], *, key: bool = False, top: bool = False
) -> tuple[pa.Array, list[Any]]:
    shapes = {_SHAPES.get(type(one), "leaf") for one in values if one is not None}
    expected = kind.name if kind is not None and kind.name in NESTED else "leaf"
    shape = next(iter(shapes - {expected}), expected) if kind is not None else min(shapes)
    if shape != expected:  # one value has a wrong shape, but a column has only one shape
        kind = None
    values = [one if _SHAPES.get(type(one), "leaf") == shape else None for one in values]
    if shape == "leaf":
        return _leaf(draw, kind, values, key=key, top=top)
    return {"array": _list, "map": _map, "struct": _struct}[shape](draw, kind, values)


def _part(kind: Kind | None, name: str) -> Kind | None:
    return None if kind is None else dict(kind.parts).get(name)


def _filled(values: list[Any]) -> list[Any]:
    """Replace nulls by the first value, which a null of the array must hide."""
    first = next((one for one in values if one is not None), None)
    return [first if one is None else one for one in values]


def _list(draw: _Draw, kind: Kind | None, values: list[Any]) -> tuple[pa.Array, list[Any]]:
    below = draw.one([[one or [] for one in values], _filled(values)])
    sizes = [len(one or []) for one in below]
    items = [item for one in below for item in (one or [])]
    child, kept = _array(draw, _part(kind, "element") or _any(items), items)
    ends = list(itertools.accumulate(sizes, initial=0))
    result = [
        None if one is None else kept[start : start + size]
        for one, start, size in zip(values, ends, sizes, strict=False)
    ]
    mask = pa.array([one is None for one in values], pa.bool_())
    form = draw.one(["list", "large", "view", "large view", "fixed"], 2)
    if form == "fixed" and len(set(sizes)) == 1 and sizes[0]:
        return pa.FixedSizeListArray.from_arrays(child, sizes[0], mask=mask), result
    if form.endswith("view"):
        made, number = (
            (pa.ListViewArray, pa.int32())
            if form == "view"
            else (pa.LargeListViewArray, pa.int64())
        )
        starts = pa.array(ends[:-1], number)
        return made.from_arrays(starts, pa.array(sizes, number), child, mask=mask), result
    made, number = (
        (pa.LargeListArray, pa.int64()) if form == "large" else (pa.ListArray, pa.int32())
    )
    return made.from_arrays(pa.array(ends, number), child, mask=mask), result


def _any(values: list[Any]) -> Kind | None:
    return None if any(one is not None for one in values) else Kind("string")


def _map(draw: _Draw, kind: Kind | None, values: list[Any]) -> tuple[pa.Array, list[Any]]:
    sizes = [len(one or []) for one in values]
    pairs = [pair for one in values for pair in (one or [])]
    keys, names = [k for k, _ in pairs], [v for _, v in pairs]
    if None in keys:
        raise NoFormError
    made_keys, kept_keys = _array(draw, _part(kind, "key") or _any(keys), keys, key=True)
    made_items, kept_items = _array(draw, _part(kind, "value") or _any(names), names)
    ends = list(itertools.accumulate(sizes, initial=0))
    kept = list(zip(kept_keys, kept_items, strict=True))
    result = [
        None if one is None else Pairs(kept[start : start + size])
        for one, start, size in zip(values, ends, sizes, strict=False)
    ]
    marked = [None if one is None else start for one, start in zip(values, ends, strict=False)]
    offsets = pa.array([*marked, ends[-1]], pa.int32())
    return pa.MapArray.from_arrays(offsets, made_keys, made_items), result


def _struct(draw: _Draw, kind: Kind | None, values: list[Any]) -> tuple[pa.Array, list[Any]]:
    names = list(dict.fromkeys(name for one in values if one for name in one))
    if kind is not None:
        names += [name for name, _ in kind.parts if name not in names and not names]
    below = draw.one([values, _filled(values)])
    arrays, kept = [], []
    for name in names:
        inner = [None if one is None else one.get(name) for one in below]
        made, found = _array(draw, _part(kind, name) or _any(inner), inner)
        arrays.append(made)
        kept.append(found)
    shown = [draw.one([str, str, str.upper], 1)(name) for name in names]
    mask = pa.array([one is None for one in values], pa.bool_())
    rows = list(zip(*kept, strict=True)) if kept else [()] * len(values)
    result = [
        None if one is None else dict(zip(names, row, strict=True))
        for one, row in zip(values, rows, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, shown, mask=mask), result


# -- leaves ---------------------------------------------------------------------------------------


def _leaf(
    draw: _Draw, kind: Kind | None, values: list[Any], *, key: bool = False, top: bool = False
) -> tuple[pa.Array, list[Any]]:
    present = [one for one in values if one is not None]
    if not present:
        return pa.nulls(len(values), draw.one(_null_types(kind)[::-1], 1)), values
    family, kept = one_family(draw.family, kind, values)
    if key and any(one is None for one in kept):  # no key may be null
        if len({family_of(one) for one in present}) > 1:
            raise NoFormError
        family, kept = family_of(present[0]), values
    made = _LEAVES[family.rstrip("-0123456789")](draw, kind, kept)
    return _wrapped(draw, made, top), kept


def _null_types(kind: Kind | None) -> list[pa.DataType]:
    """Return types for columns without values, including nested ones."""
    found = {
        "boolean": pa.bool_(), "date": pa.date32(), "binary": pa.binary(), "double": pa.float64(),
        "float": pa.float32(), "decimal": pa.decimal128(9, 2), "datetime": pa.timestamp("us"),
        "timestamp": pa.timestamp("ns"), "timestamp_ntz": pa.timestamp("ns"),
        "interval_day_time": pa.duration("ns"),
        **dict.fromkeys(TEXTS, pa.string()), **dict.fromkeys([*BITS, "interval_year_month"],
                                                             pa.int16()),
    }  # fmt: skip
    name = "" if kind is None else kind.name
    return [pa.null(), found.get(name, pa.null())]


def _integers(draw: _Draw, kind: Kind | None, values: list[Any]) -> pa.Array:
    names = integers_of([one for one in values if one is not None])
    return pa.array(values, pa.type_for_alias(draw.one(names)))


def _floats(draw: _Draw, kind: Kind | None, values: list[Any]) -> pa.Array:
    return pa.array(values, pa.float64())


def _singles(draw: _Draw, kind: Kind | None, values: list[Any]) -> pa.Array:
    numbers = [None if one is None else one.value for one in values]
    whole = all(abs(n) <= 2048 and n == int(n) for n in numbers if n is not None)
    if whole and draw.one([False, True], 1):
        return pa.array([None if n is None else np.float16(n) for n in numbers], pa.float16())
    return pa.array(numbers, pa.float32())


def unscaled_of(number: Decimal, scale: int) -> int:
    """Return ``number * 10**scale``."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    shift = exponent + scale
    whole = int("".join(map(str, digits))) * 10 ** max(shift, 0)
    assert shift >= 0 or whole % 10**-shift == 0
    return (whole // 10 ** max(-shift, 0)) * (-1 if sign else 1)


def _decimals(draw: _Draw, kind: Kind | None, values: list[Any]) -> pa.Array:
    present = [one for one in values if one is not None]
    exponents = [one.as_tuple().exponent for one in present if one]
    least = max([-e for e in exponents], default=0)
    low = max(least, 0) if draw.plain else least
    widths = [(9, 4, "decimal32"), (18, 8, "decimal64"), (38, 16, "decimal128"),
              (76, 32, "decimal256")]  # fmt: skip
    found = []
    for scale in sorted({low, low + 1, low + 7, 18, 38}):
        if scale < low:
            continue
        digits = max([1, scale, *(len(str(abs(unscaled_of(d, scale)))) for d in present)])
        for top, size, name in widths[2:3] if draw.plain else widths:
            if digits <= top and abs(scale) <= top and hasattr(pa, name):
                found += [(name, size, p, scale) for p in sorted({digits, top})]
    name, size, precision, scale = draw.one(found)
    numbers = [0 if one is None else unscaled_of(one, scale) for one in values]
    data = b"".join(number.to_bytes(size, "little", signed=True) for number in numbers)
    valid = pa.array([None if one is None else 0 for one in values], pa.int8()).buffers()[0]
    kinds = getattr(pa, name)(precision, scale)
    return pa.Array.from_buffers(kinds, len(values), [valid, pa.py_buffer(data)])


def _texts(draw: _Draw, kind: Kind | None, values: list[Any]) -> pa.Array:
    if any(one is not None and not one.isascii() and _has_surrogate(one) for one in values):
        raise NoFormError
    return pa.array(values, draw.one([pa.string(), pa.large_string(), pa.string_view()], 2))


def _has_surrogate(text: str) -> bool:
    return any("\ud800" <= one <= "\udfff" for one in text)


def _bytes(draw: _Draw, kind: Kind | None, values: list[Any]) -> pa.Array:
    types = [pa.binary(), pa.large_binary(), pa.binary_view()]
    sizes = {len(one) for one in values if one is not None}
    if kind is not None and kind.name == "binary" and len(sizes) == 1 and sizes != {8}:
        types.append(pa.binary(sizes.pop()))
    return pa.array(values, draw.one(types, 2))


def _bools(draw: _Draw, kind: Kind | None, values: list[Any]) -> pa.Array:
    if draw.one([False, True], 1):
        numbers = [None if one is None else 5 * one for one in values]
        return pa.ExtensionArray.from_storage(pa.bool8(), pa.array(numbers, pa.int8()))
    return pa.array(values, pa.bool_())


def _days(draw: _Draw, kind: Kind | None, values: list[Any]) -> pa.Array:
    days = [None if one is None else one.days for one in values]
    if draw.one([False, True], 1):
        return pa.array([d and d * (DAY // 10**6) for d in days], pa.int64()).view(pa.date64())
    return pa.array(days, pa.int32()).view(pa.date32())


def _counted(draw: _Draw, nanos: list[int | None], make: Any) -> pa.Array:
    units = units_of([n for n in nanos if n is not None], ["us", "ns", "ms", "s"])
    unit = draw.one(units)
    counts = [None if n is None else n // _UNITS[unit] for n in nanos]
    return pa.array(counts, pa.int64()).view(make(unit))


def _clocks(draw: _Draw, kind: Kind | None, values: list[Any]) -> pa.Array:
    return _counted(draw, [None if v is None else v.shown for v in values], pa.timestamp)


def _instants(draw: _Draw, kind: Kind | None, values: list[Any]) -> pa.Array:
    ahead = next(v.ahead for v in values if v is not None)
    named = {0: "UTC", 28_800: "Etc/GMT-8", -18_000: "Etc/GMT+5"}
    zone = f"{'-' if ahead < 0 else '+'}{abs(ahead) // 3600:02}:{abs(ahead) // 60 % 60:02}"
    if kind is not None and kind.name in INSTANTS:
        zone = draw.one(_ZONES, 3)
    elif draw.plain:
        zone = named[ahead]
    nanos = [None if v is None else v.shown - ahead * SECOND for v in values]
    return _counted(draw, nanos, lambda unit: pa.timestamp(unit, zone))


def _spans(draw: _Draw, kind: Kind | None, values: list[Any]) -> pa.Array:
    return _counted(draw, [None if v is None else v.nanos for v in values], pa.duration)


_LEAVES = {
    "int": _integers, "float": _floats, "single": _singles, "decimal": _decimals,
    "text": _texts, "bytes": _bytes, "bool": _bools, "day": _days, "clock": _clocks,
    "instant": _instants, "span": _spans,
}  # fmt: skip


def _wrapped(draw: _Draw, values: pa.Array, top: bool) -> pa.Array:
    form = draw.one(["plain", "plain", "plain", "dictionary", "runs"], 1)
    if form == "dictionary" and len(values):
        places = pa.array(range(len(values)), draw.one([pa.int16(), pa.int32(), pa.uint16()]))
        return pa.DictionaryArray.from_arrays(places, values)
    if form == "runs" and len(values) and top:
        ends = pa.array(range(1, len(values) + 1), draw.one([pa.int16(), pa.int32()]))
        return pa.RunEndEncodedArray.from_arrays(ends, values)
    return values
