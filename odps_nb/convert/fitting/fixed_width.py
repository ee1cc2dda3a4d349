"""Converts fixed-width Arrow arrays to NumPy and back, without importing pandas.

``pa.array`` would import pandas, which takes a third of a second in each Spark worker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

Numbers = np.ndarray[Any, Any]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
Part = tuple[Numbers, pa.Array]
"""Positions in a column and the values at them, which share one Arrow type and are never null."""


def validity_of(array: pa.Array) -> Mask:
    """Return the mask of the non-null values."""
    if not array.null_count:
        return np.ones(len(array), bool)
    valid: Mask = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def numbers_of(array: pa.Array) -> tuple[Numbers, Mask]:
    """Return an array's numbers (0 for nulls) and the validity mask."""
    valid = validity_of(array)
    if array.null_count:
        array = array.fill_null(pa.scalar(0, pa.int8()).cast(array.type))
    return array.to_numpy(zero_copy_only=False), valid


def array_from(values: Numbers, kind: pa.DataType, valid: Mask | None = None) -> pa.Array:
    """Return fixed-width values (numbers or rows of bytes) as an array of an Arrow type."""
    mask = None
    if valid is not None and not valid.all():
        mask = pa.py_buffer(np.packbits(valid, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [mask, data], -1 if mask else 0)


def parts_from(found: Iterable[tuple[int, tuple[str, Any]]]) -> list[Part]:
    """Group a column's (position, (kind, value)) items into one part per kind."""
    groups: dict[str, tuple[list[int], list[Any]]] = {}
    for position, (key, value) in found:
        positions, values = groups.setdefault(key, ([], []))
        positions.append(position)
        values.append(value)
    return [
        (np.array(indexes), _array_of_kind(key, many)) for key, (indexes, many) in groups.items()
    ]


def _array_of_kind(key: str, values: list[Any]) -> pa.Array:
    """Return values of one kind, such as ``decimal 2`` or ``timestamp us UTC``, as an array."""
    name, _, detail = key.partition(" ")
    if name == "decimal":
        return pa.array(values, pa.decimal256(76, int(detail)))
    if name == "date":
        return pa.array(values, pa.int32()).cast(pa.date32())
    if name == "timestamp":
        unit, _, zone = detail.partition(" ")
        return pa.array(values, pa.int64()).cast(pa.timestamp(unit, zone or None))
    if name == "duration":
        return pa.array(values, pa.int64()).cast(pa.duration(detail))
    array = pa.array(values, values[0].type if name == "arrow" else pa.type_for_alias(name))
    if isinstance(array, pa.ChunkedArray):
        raise pa.ArrowCapacityError("the values have more than 2 GiB")
    return array
