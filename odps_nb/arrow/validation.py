"""Validates a batch from the network before its values are used (knows pyarrow and the wire).

Arrow's own full validation checks offsets, text, indices and decimals, but not the offset of a list
without values; flattening such a list, as pandas and a concatenation do, crashes the process. Nor
does it refuse structs with two members of one name, which no type of MaxCompute has and no
Python value can hold.

Of all this, looking whether each text is UTF-8 takes longest, by far. A column whose bytes are
UTF-8 from the first to the last, and which is cut where characters begin, has only such texts: that
takes a third of the time, and a tenth where all is ASCII.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

__all__ = ["Validator", "validate"]

_ASCII = 128  # bytes below are characters of their own
_MARK, _CONTINUES = 0b1100_0000, 0b1000_0000  # of a byte that is not the first of its character


def validate(batch: pa.RecordBatch) -> None:
    """Raise unless every value of a batch lies inside of its buffers.

    Raises
    ------
    pyarrow.ArrowInvalid
        One does not.
    """
    Validator(batch.schema).validate(batch)


class Validator:
    """Validates the batches of one stream: what follows from their schema is found out once."""

    def __init__(self, schema: pa.Schema) -> None:
        texts = {place: _TEXTS.get(kind) for place, kind in enumerate(schema.types)}
        self._texts = {place: text for place, text in texts.items() if text is not None}
        self._nested = [place for place, kind in enumerate(schema.types) if not _is_flat(kind)]

    def validate(self, batch: pa.RecordBatch) -> None:
        """Raise unless every value of a batch of the schema lies inside of its buffers.

        Raises
        ------
        pyarrow.ArrowInvalid
            One does not.
        """
        batch.validate()  # of lengths and the ends of buffers, which is quick
        columns = batch.columns
        parts = columns.copy()
        for place, text in self._texts.items():
            parts[place] = columns[place].view(text.as_bytes)
        # one call for all: each lets another thread take the interpreter
        pa.RecordBatch.from_arrays(parts, names=[""] * len(parts)).validate(full=True)
        for place, text in self._texts.items():
            if not _is_utf8(columns[place], text):
                columns[place].validate(full=True)  # value by value: a null may hide anything
        for place in self._nested:
            _check_empty_lists(columns[place])


class _Text(NamedTuple):
    offset: np.dtype[Any]
    as_bytes: pa.DataType


_TEXTS = {
    pa.string(): _Text(np.dtype(np.int32), pa.binary()),
    pa.large_string(): _Text(np.dtype(np.int64), pa.large_binary()),
}


def _is_utf8(column: pa.Array, text: _Text) -> bool:
    """Whether the bytes of a column are UTF-8 and its texts begin with characters.

    The offsets have been validated. ``False`` may also mean that it is not known.
    """
    _, offsets, data = column.buffers()
    if not len(column) or offsets is None or data is None or not data.size:
        return False
    ends = np.frombuffer(
        offsets, text.offset, len(column) + 1, column.offset * text.offset.itemsize
    )
    octets = np.frombuffer(data, np.uint8)
    if ends[0] == ends[-1] or octets[ends[0] : ends[-1]].max() < _ASCII:
        return True
    # an empty text at the end of the buffer begins behind it
    first = octets.take(ends[:-1], mode="clip")
    if ((first & _MARK) == _CONTINUES).any():
        return False
    whole = pa.py_buffer(np.array([ends[0], ends[-1]], text.offset))
    try:
        pa.Array.from_buffers(column.type, 1, [None, whole, data]).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


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
