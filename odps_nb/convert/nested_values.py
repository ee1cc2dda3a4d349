"""Converts nested Arrow values to Python objects, and vectors to NumPy arrays (without pandas)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from odps_nb.convert.arrow_types import is_list
from odps_nb.errors import ConversionError


def python_values(array: pa.Array) -> list[Any]:
    """Return an array's values as Python objects, with nulls as ``None``.

    An ARRAY becomes a list, and a STRUCT becomes a dict. A MAP becomes a dict, or a list of pairs
    if a key is repeated.
    """
    try:
        values, change = list(array.to_pylist()), _with_dicts(array.type)
    except OverflowError:
        raise ConversionError(
            "a time in an ARRAY, MAP or STRUCT is a local time outside the years 1 to 9999, which "
            "Python cannot hold",
            hint="pass dtype_backend='pyarrow', call to_arrow(), or connect with timezone='UTC'",
        ) from None
    return values if change is None else _each(change, values)


def is_vector(kind: pa.DataType) -> bool:
    """Whether the type is a fixed-size list of floats."""
    return bool(pt.is_fixed_size_list(kind) and pt.is_floating(kind.value_type))


def vector_values(array: pa.Array) -> list[np.ndarray[Any, Any] | None]:
    """Return a copy of each vector as a NumPy array, and ``None`` for nulls."""
    numbers = np.array(array.flatten().to_numpy(zero_copy_only=False))  # skips null slots
    rows = iter(numbers.reshape(-1, array.type.list_size))
    return [next(rows) if valid else None for valid in array.is_valid().to_pylist()]


_Change: TypeAlias = "Callable[[Any], Any]"


def _each(change: _Change, values: list[Any]) -> list[Any]:
    return [None if value is None else change(value) for value in values]


def _with_dicts(kind: pa.DataType) -> _Change | None:
    """Return a function that converts the maps in values of a type; ``None`` if there are none."""
    if pt.is_map(kind):
        return partial(_as_dict, inner=_with_dicts(kind.item_type))
    if is_list(kind):
        inner = _with_dicts(kind.value_type)
        return None if inner is None else partial(_each, inner)
    if pt.is_struct(kind):
        changes = [(field.name, _with_dicts(field.type)) for field in kind]
        known = {name: change for name, change in changes if change is not None}
        return partial(_members, changes=known) if known else None
    return None


def _as_dict(pairs: list[tuple[Any, Any]], inner: _Change | None) -> Any:
    if inner is not None:
        pairs = [(key, None if value is None else inner(value)) for key, value in pairs]
    mapping = dict(pairs)
    return mapping if len(mapping) == len(pairs) else pairs


def _members(value: dict[str, Any], changes: dict[str, _Change]) -> dict[str, Any]:
    return value | {
        name: change(value[name]) for name, change in changes.items() if value[name] is not None
    }
