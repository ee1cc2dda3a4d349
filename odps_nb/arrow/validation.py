"""Validates a batch from the network before its values are used (knows pyarrow and the wire).

Arrow's own full validation checks offsets, text, indices and decimals, but not the offset of a list
without values; flattening such a list, as pandas and a concatenation do, crashes the process. Nor
does it refuse structs with two members of one name, which no type of MaxCompute has and no
Python value can hold.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

__all__ = ["validate"]


def validate(batch: pa.RecordBatch) -> None:
    """Raise unless every value of a batch lies inside of its buffers.

    Raises
    ------
    pyarrow.ArrowInvalid
        One does not.
    """
    batch.validate(full=True)
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if not _is_flat(field.type):
            _check_empty_lists(column)


def _is_flat(kind: pa.DataType) -> bool:
    return not (
        pt.is_nested(kind) or pt.is_dictionary(kind) or isinstance(kind, pa.BaseExtensionType)
    )


def _check_empty_lists(array: pa.Array) -> None:
    kind = array.type
    if _is_flat(kind):
        return
    if pt.is_struct(kind):
        _check_names(kind)
    parts: list[pa.Array]
    if isinstance(kind, pa.BaseExtensionType):
        parts = [array.storage]
    elif pt.is_dictionary(kind):
        parts = [array.dictionary]
    elif pt.is_struct(kind) or pt.is_union(kind):
        parts = [array.field(place) for place in range(kind.num_fields)]
    elif pt.is_map(kind):
        parts = [array.keys, array.items]
    else:  # lists of all layouts, runs
        parts = [array.values]
    if not len(array) and (pt.is_list(kind) or pt.is_large_list(kind) or pt.is_map(kind)):
        _check_first_offset(array, len(parts[0]))
    for part in parts:
        _check_empty_lists(part)


def _check_names(kind: pa.StructType) -> None:
    names = [kind.field(place).name for place in range(kind.num_fields)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise pa.ArrowInvalid(f"a struct has two members {twice!r}")


def _check_first_offset(array: pa.Array, values: int) -> None:
    offsets = array.buffers()[1]
    width = 8 if pt.is_large_list(array.type) else 4
    at = array.offset * width
    if offsets is None or offsets.size < at + width:
        return
    first = int.from_bytes(offsets.slice(at, width).to_pybytes(), "little", signed=True)
    if not 0 <= first <= values:
        raise pa.ArrowInvalid(f"an empty list of {values} values begins at {first}")
