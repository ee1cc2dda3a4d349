"""Validates a batch from the network before its values are used (knows pyarrow and the wire).

Arrow's own full validation checks offsets, text, indices and decimals, but not the offset of a list
without values; flattening such a list, as pandas and a concatenation do, crashes the process. Nor
does it refuse structs with two members of one name, which no type of MaxCompute has and no
Python value can hold.

Of all this, looking whether each text is UTF-8 takes longest, by far. Text that is ASCII from its
first byte to its last is, however it is cut: that is seen in one pass over the buffer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

__all__ = ["validate"]

_ASCII = 128  # bytes below are characters of their own


def validate(batch: pa.RecordBatch) -> None:
    """Raise unless every value of a batch lies inside of its buffers.

    Raises
    ------
    pyarrow.ArrowInvalid
        One does not.
    """
    batch.validate()  # of lengths and the ends of buffers, which is quick
    parts = []
    for column in batch.columns:
        text = _TEXTS.get(column.type)
        is_ascii = text is not None and _is_ascii(column, text.offset)
        parts.append(column.view(text.as_bytes) if text is not None and is_ascii else column)
    # one call for all: each lets another thread take the interpreter
    pa.RecordBatch.from_arrays(parts, names=[""] * len(parts)).validate(full=True)
    for column in batch.columns:
        if not _is_flat(column.type):
            _check_empty_lists(column)


class _Text(NamedTuple):
    offset: np.dtype[Any]
    as_bytes: pa.DataType


_TEXTS = {
    pa.string(): _Text(np.dtype(np.int32), pa.binary()),
    pa.large_string(): _Text(np.dtype(np.int64), pa.large_binary()),
}


def _is_ascii(column: pa.Array, offset: np.dtype[Any]) -> bool:
    """Whether all bytes between the first and the last text of a column are ASCII."""
    _, offsets, data = column.buffers()
    if not len(column) or offsets is None or data is None or not data.size:
        return False
    ends = np.frombuffer(offsets, offset, len(column) + 1, column.offset * offset.itemsize)
    text = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]
    return bool(text.size and text.max() < _ASCII)


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
