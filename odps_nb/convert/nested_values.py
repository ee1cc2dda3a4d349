"""Arrow lists, maps and structs as Python objects (without pandas)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.convert.arrow_types import is_list

__all__ = ["python_values"]


def python_values(array: pa.Array) -> list[Any]:
    """Return the values of an array as Python objects, nulls as ``None``.

    An ARRAY is a list and a STRUCT a dict. A MAP is a dict, and a list of pairs where a key
    is repeated.
    """
    values, kind = array.to_pylist(), array.type
    return [_with_dicts(one, kind) for one in values] if _has_map(kind) else list(values)


def _has_map(kind: pa.DataType) -> bool:
    return pt.is_map(kind) or any(_has_map(kind.field(i).type) for i in range(kind.num_fields))


def _with_dicts(value: Any, kind: pa.DataType) -> Any:
    """Return a value whose maps, which are lists of pairs, are dicts."""
    if value is None or not _has_map(kind):
        return value
    if is_list(kind):
        return [_with_dicts(one, kind.value_type) for one in value]
    if pt.is_struct(kind):
        return {field.name: _with_dicts(value[field.name], field.type) for field in kind}
    pairs = [(key, _with_dicts(one, kind.item_type)) for key, one in value]
    found = dict(pairs)
    return found if len(found) == len(pairs) else pairs
