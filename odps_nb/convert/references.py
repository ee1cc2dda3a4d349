"""Converts a read's BLOB, VECTOR and time columns to their user-facing types.

The service sends a top-level BLOB as the base64 text of its reference; a nested BLOB may be the raw
reference (``docs/protocol.md`` section 6.5). Both become base64 text. A VECTOR that arrives as a
list becomes a fixed-size list.
"""

from __future__ import annotations

import base64
import binascii

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.arrow.leaves import with_leaf_types, with_leaves
from odps_nb.arrow.types import arrow_type
from odps_nb.convert.arrow_types import is_list
from odps_nb.convert.times import in_zone
from odps_nb.errors import ConversionError
from odps_nb.schema import Column, OdpsType, TableSchema, TypeCode, VectorType, has_blob
from odps_nb.wire.type_text import format_type


def present_batch(
    batch: pa.RecordBatch, schema: TableSchema, *, timezone: str | None = None
) -> pa.RecordBatch:
    """Return the batch with BLOBs as text, VECTORs as fixed-size lists, and instants in a zone.

    Returns the batch itself if it has no BLOB or VECTOR columns and ``timezone`` is ``None``.
    """
    batch = in_zone(batch, schema, timezone)
    if not any(isinstance(column.type, VectorType) or has_blob(column.type) for column in schema):
        return batch
    arrays, fields = [], []
    for field, array in zip(batch.schema, batch.columns, strict=True):
        column = schema.find(field.name)
        if column is not None and isinstance(column.type, VectorType):
            array = _fixed_size(array, column, column.type)
        elif column is not None and has_blob(column.type):
            array = references_as_text(array, column.type)
        arrays.append(array)
        fields.append(pa.field(field.name, array.type, field.nullable))
    return pa.record_batch(arrays, schema=pa.schema(fields))


def _fixed_size(array: pa.Array, column: Column, vector: VectorType) -> pa.Array:
    """Convert lists of numbers to fixed-size lists; return other types unchanged."""
    target = arrow_type(vector)
    is_floats = is_list(array.type) and pt.is_floating(array.type.value_type)
    if array.type.equals(target) or not is_floats:
        return array
    if not pc.all(pc.equal(pc.list_value_length(array), vector.length), min_count=0).as_py():
        raise ConversionError(
            f"column {column.name!r} has a value of the wrong length for {format_type(vector)}",
            column=column.name,
            source_type=str(array.type),
            target_type=format_type(vector),
            hint="exclude the column with columns=[…]",
        )
    values = array.flatten().cast(target.value_type)
    if not array.null_count:
        return pa.FixedSizeListArray.from_arrays(values, type=target)
    # do not use Arrow's cast, which crashes if all values are null (pyarrow 26)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    positions = np.full((len(array), vector.length), -1, np.int64)
    positions[valid] = np.arange(len(values)).reshape(-1, vector.length)
    spread = values.take(pa.array(positions.ravel(), mask=positions.ravel() < 0))
    return pa.FixedSizeListArray.from_arrays(spread, type=target, mask=array.is_null())


def references_as_text(array: pa.Array, target: OdpsType) -> pa.Array:
    """Convert the references in a BLOB or nested column to base64 text; preserve nulls and nesting.

    Nested values may be raw references. If any of them is not base64 text, all are encoded.
    """
    nested = target.code is not TypeCode.BLOB
    if nested:  # drop values outside the slice, which must not affect the detected encoding
        array = array.take(pa.array(range(len(array)), pa.int64()))
    kind = with_leaf_types(array.type, target, _leaf_as_text)
    return with_leaves(array, kind, lambda leaf, _: _text(leaf, nested=nested))


def _leaf_as_text(received: pa.DataType, odps: OdpsType | None) -> pa.DataType:
    is_blob = odps is not None and odps.code is TypeCode.BLOB
    return pa.string() if is_blob and not pt.is_large_string(received) else received


def _text(array: pa.Array, *, nested: bool) -> pa.Array:
    try:
        text = array.cast(pa.string())  # the cast does not copy the bytes
    except pa.ArrowInvalid:
        return _encoded(array)
    if nested and not all(map(_is_base64, text.drop_null().to_pylist())):
        return _encoded(array)
    return text


def _is_base64(value: str) -> bool:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _encoded(array: pa.Array) -> pa.Array:
    values = [None if raw is None else base64.b64encode(raw).decode() for raw in array.to_pylist()]
    return pa.array(values, pa.string())
