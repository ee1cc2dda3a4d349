"""Checks the lengths of buffers in uploaded Arrow batches.

Arrow rejects buffers that are too short, but accepts longer ones. If a client writes wider values
than the service reads (such as decimal256 instead of decimal128), every second value would be wrong
without an error. The batches of the tunnel contain no schema that would reveal this.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from odps_nb.local import errors

PADDING = 64
"""Writers may pad a buffer of a slice to a multiple of this number of bytes."""


def check_buffers(batch: pa.RecordBatch) -> None:
    """Raise 400 if a buffer is longer than the type and row count of its column allow."""
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        _check(array, name)


def _check(array: pa.Array, path: str) -> None:
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        array, kind = array.storage, array.storage.type
    if _is_unchecked(kind):
        return
    rows, (nulls, *others) = len(array), array.buffers()
    _fits(nulls, -(-rows // 8), array, path)
    if width := _offset_width(kind):
        _fits(others[0], (rows + 1) * width, array, path)
    elif not pt.is_nested(kind):
        width = (kind.index_type if pt.is_dictionary(kind) else kind).bit_width
        size = -(-rows * width // 8)
        # within the padding: a few decimal256 that are read as decimal128
        is_doubled = pt.is_decimal128(kind) and others[0] is not None and others[0].size == 2 * size
        _fits(others[0], size, array, path, is_doubled=is_doubled)
    for part in _children(array):
        _check(part, path)


def _children(array: pa.Array) -> list[pa.Array]:
    kind = array.type
    if pt.is_struct(kind):
        return [array.field(place) for place in range(kind.num_fields)]
    if pt.is_map(kind):
        return [array.keys, array.items]
    return [array.values] if pt.is_nested(kind) else []


def _is_unchecked(kind: pa.DataType) -> bool:
    """Return whether a type has no buffers, or a layout that no column of the service has."""
    is_view = pt.is_string_view(kind) or pt.is_binary_view(kind) or pt.is_list_view(kind)
    is_odd = pt.is_null(kind) or pt.is_union(kind) or pt.is_run_end_encoded(kind)
    return bool(is_view or is_odd or pt.is_large_list_view(kind))


def _offset_width(kind: pa.DataType) -> int:
    """Return the bytes of one offset; 0 for types without offsets."""
    if pt.is_large_string(kind) or pt.is_large_binary(kind) or pt.is_large_list(kind):
        return 8
    short = pt.is_string(kind) or pt.is_binary(kind) or pt.is_list(kind) or pt.is_map(kind)
    return 4 if short else 0


def _fits(
    buffer: pa.Buffer | None, size: int, array: pa.Array, path: str, *, is_doubled: bool = False
) -> None:
    if buffer is None or buffer.size <= size:
        return
    if is_doubled or buffer.size > -(-size // PADDING) * PADDING:
        raise errors.malformed(
            f"a buffer of the column {path!r} has {buffer.size} bytes, but {len(array)} values of"
            f" {array.type} need {size}; send the types that the session describes"
        )
