"""Replaces the leaves of nested Arrow types and arrays: the scalars inside ARRAY, MAP and STRUCT.

Lists, maps and structs keep their nulls, offsets, names and metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.schema import ArrayType, Column, MapType, OdpsType, StructType

LeafType = Callable[[pa.DataType, OdpsType | None], pa.DataType]
Leaf = Callable[[pa.Array, pa.DataType], pa.Array]


def columns_of(received: Sequence[str], columns: Sequence[Column]) -> list[Column | None]:
    """Return the column for each name; ``None`` for a name without a column.

    If both lists of names are equal, columns are matched by position, as a query may repeat names.
    """
    names = [name.casefold() for name in received]
    if names == [column.name.casefold() for column in columns]:
        return list(columns)
    known = {column.name.casefold(): column for column in columns}
    return [known.get(name) for name in names]


def with_leaf_types(received: pa.DataType, odps: OdpsType | None, leaf: LeafType) -> pa.DataType:
    """Return an Arrow type with its leaves replaced.

    ``odps``: the values' MaxCompute type; ``None`` if unknown. ``leaf``: maps the Arrow type and
    the MaxCompute type of a leaf to the new Arrow type. Dictionaries are treated as leaves, as are
    types that are nested only in Arrow, such as ``struct<sec, nano>`` for a TIMESTAMP.
    """

    def inner(field: pa.Field, known: OdpsType | None) -> pa.Field:
        return field.with_type(with_leaf_types(field.type, known, leaf))

    new_type = received
    if pt.is_map(received) and isinstance(odps, MapType | None):
        key, value = (odps.key, odps.value) if odps else (None, None)
        pair = inner(received.key_field, key), inner(received.item_field, value)
        new_type = pa.map_(*pair, keys_sorted=received.keys_sorted)
    elif pt.is_struct(received) and isinstance(odps, StructType | None):
        types = {member.name.casefold(): member.type for member in odps.fields} if odps else {}
        new_type = pa.struct([inner(field, types.get(field.name.casefold())) for field in received])
    elif _is_list(received) and isinstance(odps, ArrayType | None):
        value = inner(received.value_field, odps.element if odps else None)
        if pt.is_fixed_size_list(received):
            new_type = pa.list_(value, received.list_size)
        else:
            new_type = (pa.large_list if pt.is_large_list(received) else pa.list_)(value)
    else:
        return leaf(received, odps)
    return received if new_type.equals(received) else new_type


def with_leaves(array: pa.Array, kind: pa.DataType, leaf: Leaf) -> pa.Array:
    """Convert an array to another type of the same structure; ``leaf`` converts the leaves."""
    received = array.type
    if received.equals(kind):
        return array
    if pt.is_struct(received) and pt.is_struct(kind):
        members = [  # flatten() makes members null where the struct is null
            with_leaves(member, field.type, leaf)
            for member, field in zip(array.flatten(), kind, strict=True)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    if pt.is_map(received) and pt.is_map(kind):
        keys = with_leaves(array.keys, kind.key_type, leaf)
        items = with_leaves(array.items, kind.item_type, leaf)
        pairs = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        return with_child(array, kind, pairs)
    if _is_list(received) and _is_list(kind):
        return with_child(array, kind, with_leaves(array.values, kind.value_type, leaf))
    return leaf(array, kind)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind))


def with_child(array: pa.Array, kind: pa.DataType, child: pa.Array) -> pa.Array:
    """Return a list or map array with another type and child, but the same offsets and nulls."""
    own = array.buffers()[: 1 if pt.is_fixed_size_list(kind) else 2]
    return pa.Array.from_buffers(
        kind, len(array), own, array.null_count, array.offset, children=[child]
    )
