"""Converts columns of a read to the form in which a user gets them: BLOBs, VECTORs and times.

A read sends a top-level BLOB as the base64 text of its reference; a nested one may be the raw
reference (``docs/protocol.md`` section 6.5). Both become base64 text here. A VECTOR may come as a
list; it becomes a fixed-size list.
"""

from __future__ import annotations

import base64
import binascii

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from odps_nb.convert.arrow_types import arrow_type, is_list
from odps_nb.convert.times import in_zone
from odps_nb.errors import ConversionError
from odps_nb.schema import (
    ArrayType,
    Column,
    MapType,
    OdpsType,
    StructType,
    TableSchema,
    VectorType,
    has_blob,
)
from odps_nb.wire.type_text import format_type


def present_batch(
    batch: pa.RecordBatch, schema: TableSchema, *, timezone: str | None = None
) -> pa.RecordBatch:
    """Return the batch with references as text, vectors of a fixed size, and instants in a zone.

    Without BLOB and VECTOR columns and without a zone this is the batch itself.

    Raises
    ------
    ConversionError
        A VECTOR is of another length than its type says.
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
    """Return lists of numbers as lists of a fixed size, and any other form as it came."""
    wanted = arrow_type(vector)
    if array.type.equals(wanted) or not is_list(array.type):
        return array
    if not pt.is_floating(array.type.value_type):
        return array
    if not pc.all(pc.equal(pc.list_value_length(array), vector.length), min_count=0).as_py():
        raise ConversionError(
            f"column {column.name!r}: a value has another length than {format_type(vector)}",
            column=column.name,
            source_type=str(array.type),
            target_type=format_type(vector),
            hint="leave the column out with columns=[…]",
        )
    values = array.flatten().cast(wanted.value_type)
    if not array.null_count:
        return pa.FixedSizeListArray.from_arrays(values, type=wanted)
    # Arrow's own cast crashes for nulls alone (pyarrow 26)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    places = np.full((len(array), vector.length), -1, np.int64)
    places[valid] = np.arange(len(values)).reshape(-1, vector.length)
    spread = values.take(pa.array(places.ravel(), mask=places.ravel() < 0))
    return pa.FixedSizeListArray.from_arrays(spread, type=wanted, mask=array.is_null())


def references_as_text(array: pa.Array, target: OdpsType, *, nested: bool = False) -> pa.Array:
    """Return the array with every BLOB leaf as base64 text; nulls and nesting stay.

    ``nested`` leaves may hold raw references: those that are not base64 text are encoded.
    """
    if not has_blob(target):
        return array
    if isinstance(target, ArrayType):
        values = references_as_text(array.values, target.element, nested=True)
        field = array.type.value_field.with_type(values.type)
        made = pa.large_list if pt.is_large_list(array.type) else pa.list_
        # Its own offsets and nulls stay; only the child changes.
        return pa.Array.from_buffers(
            made(field),
            len(array),
            array.buffers()[:2],
            array.null_count,
            array.offset,
            children=[values],
        )
    if isinstance(target, MapType):
        return _map(array, target)
    if isinstance(target, StructType):
        return _struct(array, target)
    return _text(array, nested=nested)


def _map(array: pa.Array, target: MapType) -> pa.Array:
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    keys = references_as_text(array.keys.slice(first, last - first), target.key, nested=True)
    items = references_as_text(array.items.slice(first, last - first), target.value, nested=True)
    offsets = pc.subtract(array.offsets, pa.scalar(first, pa.int32()))
    if array.null_count:  # a null offset marks a null map
        missing = pa.concat_arrays([array.is_null(), pa.array([False])])
        offsets = pc.if_else(missing, pa.scalar(None, pa.int32()), offsets)
    return pa.MapArray.from_arrays(offsets, keys, items)


def _struct(array: pa.Array, target: StructType) -> pa.Array:
    types = {member.name.casefold(): member.type for member in target.fields}
    members, fields = [], []
    for index, part in enumerate(array.flatten()):
        field = array.type.field(index)
        known = types.get(field.name.casefold())
        part = part if known is None else references_as_text(part, known, nested=True)
        members.append(part)
        fields.append(field.with_type(part.type))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(members, fields=fields, mask=mask)


def _text(array: pa.Array, *, nested: bool) -> pa.Array:
    if pt.is_string(array.type) or pt.is_large_string(array.type):
        return array
    try:
        text = array.cast(pa.string())  # no copy: the same bytes, seen as text
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
