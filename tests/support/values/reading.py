"""The values of Arrow arrays that were read, in the stored forms of `rules`."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa

from tests.support.values.rules import TIMES, Kind

_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def read_values(kind: Kind, array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values, with times as integers, without using Python's own classes."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in read_values(kind, chunk)]
    valid = array.is_valid().to_pylist()
    if kind.name == "array":
        items, offsets = read_values(kind.part("element"), array.values), array.offsets.to_pylist()
        found: list[Any] = [items[a:b] for a, b in itertools.pairwise(offsets)]
    elif kind.name == "map":
        keys = read_values(kind.part("key"), array.keys)
        items = read_values(kind.part("value"), array.items)
        offsets, pairs = array.offsets.to_pylist(), list(zip(keys, items, strict=True))
        found = [pairs[a:b] for a, b in itertools.pairwise(offsets)]
    elif kind.name == "struct":
        parts = array.flatten()  # respects offsets
        members = [
            read_values(part, parts[array.type.get_field_index(name)]) for name, part in kind.parts
        ]
        names = [name for name, _ in kind.parts]
        found = [dict(zip(names, row, strict=True)) for row in zip(*members, strict=True)]
    else:
        found = _leaves(kind, array)
    return [value if is_valid else None for value, is_valid in zip(found, valid, strict=True)]


def _leaves(kind: Kind, array: pa.Array) -> list[Any]:
    if kind.name in ("float", "double"):
        return [None if one is None else repr(one) for one in array.to_pylist()]
    if kind.name == "date":
        return list(array.view(pa.int32()).to_pylist())
    if kind.name in TIMES or kind.name == "interval_day_time":
        unit = _UNITS[array.type.unit]
        counts = array.view(pa.int64()).to_pylist()
        return [None if one is None else one * unit for one in counts]
    return list(array.to_pylist())
