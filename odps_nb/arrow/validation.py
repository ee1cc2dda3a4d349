"""Checks that the values of Arrow batches lie within their buffers, and finds invalid UTF-8.

Arrow's full validation checks offsets, text, indices and decimals, but it has two gaps. It ignores
the offset of an empty list array; flattening such an array, as pandas and concatenation do, crashes
the process. It also accepts structs with duplicate member names, which no MaxCompute type has and
no Python value can represent.

Invalid UTF-8 is accepted, because a MaxCompute STRING may contain any bytes. Such a column is
returned as Arrow binary, because an Arrow string with such bytes is not safe to use.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.arrow.text import as_bytes, is_utf8


def validate(batch: pa.RecordBatch) -> None:
    """Raise unless all values of a batch are within its buffers and all text is UTF-8."""
    validated = Validator(batch.schema).validate(batch)
    if validated is not batch:
        batch.validate(full=True)  # raises an error that shows the invalid value


class Validator:
    """Validator for the batches of one stream; analyses the schema only once."""

    def __init__(self, schema: pa.Schema) -> None:
        types = schema.types
        kinds = {position: as_bytes(kind) for position, kind in enumerate(types)}
        self._bytes = {n: kind for n, kind in kinds.items() if not kind.equals(types[n])}
        self._nested = [position for position, kind in enumerate(types) if not _is_flat(kind)]

    def validate(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Raise if a value of a batch with this schema lies outside the batch's buffers.

        Returns
        -------
        pyarrow.RecordBatch
            The batch, with columns that contain invalid UTF-8 converted to binary.
        """
        batch.validate()  # fast check of lengths and buffer sizes
        checked = batch
        if self._bytes:
            parts = batch.columns
            for position, kind in self._bytes.items():
                parts[position] = parts[position].view(kind)
            checked = pa.RecordBatch.from_arrays(parts, names=[""] * len(parts))
        checked.validate(full=True)  # all columns in one call, since each call releases the GIL
        for position in self._nested:
            _check_empty_lists(batch.column(position))
        odd = [position for position in self._bytes if not is_utf8(batch.column(position))]
        if not odd:
            return batch
        arrays, schema = batch.columns, batch.schema
        for position in odd:
            arrays[position] = checked.column(position)
            schema = schema.set(position, schema.field(position).with_type(self._bytes[position]))
        return pa.record_batch(arrays, schema=schema)


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
        parts = [array.field(position) for position in range(kind.num_fields)]
    elif pt.is_map(kind):
        parts = [array.keys, array.items]
    else:  # this covers all list layouts and run-end encoding
        parts = [array.values]
    if not len(array) and (pt.is_list(kind) or pt.is_large_list(kind) or pt.is_map(kind)):
        _check_first_offset(array, len(parts[0]))
    for part in parts:
        _check_empty_lists(part)


def _check_names(kind: pa.StructType) -> None:
    names = [kind.field(position).name for position in range(kind.num_fields)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise pa.ArrowInvalid(f"a struct has two members named {twice!r}")


def _check_first_offset(array: pa.Array, values: int) -> None:
    offsets = array.buffers()[1]
    width = 8 if pt.is_large_list(array.type) else 4
    at = array.offset * width
    if offsets is None or offsets.size < at + width:
        return
    first = int.from_bytes(offsets.slice(at, width).to_pybytes(), "little", signed=True)
    if not 0 <= first <= values:
        raise pa.ArrowInvalid(
            f"the offset {first} of an empty list array is not between 0 and {values}"
        )
