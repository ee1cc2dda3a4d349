"""Casts Arrow batches of a read session to the exact schema that Spark expects.

Spark matches the columns of a worker's batches by position and does not check their types.
"""

from __future__ import annotations

import functools

import pyarrow as pa
import pyarrow.compute as pc

from odps_nb.errors import ConversionError

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def select(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Select the columns of `schema` by case-insensitive name, cast to its exact types.

    Times are truncated to the target's unit; any other loss of information raises
    `ConversionError`.
    """
    if batch.schema.equals(schema):
        return batch
    where = {name.casefold(): index for index, name in enumerate(batch.schema.names)}
    columns = []
    for field in schema:
        index = where.get(field.name.casefold())
        if index is None:
            raise ConversionError(
                f"the stream has no column {field.name!r}",
                column=field.name,
                target_type=str(field.type),
                hint="read the table again; it has changed since the DataFrame was created",
            )
        array = cast_array(batch.column(index), field.type, column=field.name)
        if array.null_count and not field.nullable:
            raise ConversionError(
                f"column {field.name!r} is declared NOT NULL but contains nulls",
                column=field.name,
                target_type=str(field.type),
            )
        columns.append(array)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def cast_array(array: pa.Array, target: pa.DataType, *, column: str) -> pa.Array:
    """Cast values to another type; raises the same errors as `select`."""
    source = array.type
    if source.equals(target):
        return array
    try:
        for is_time in (pa.types.is_timestamp, pa.types.is_duration):
            if is_time(source) and is_time(target):
                return _rescaled(array, source.unit, target)
        if pa.types.is_nested(source) and pa.types.is_nested(target):
            return _nested(array, target, column)
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError) as error:
        raise ConversionError(
            f"column {column!r}: {error}",
            column=column,
            source_type=str(source),
            target_type=str(target),
        ) from None


def in_zone(table: pa.Table, timezone: str | None) -> pa.Table:
    """Convert instants to a time zone; with ``None``, to naive UTC."""
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz is not None:
            unit = field.type.unit
            column = table.column(index).cast(pa.timestamp(unit, timezone or "UTC"))
            if timezone is None:
                column = column.cast(pa.timestamp(unit))
            table = table.set_column(index, field.name, column)
    return table


def _rescaled(array: pa.Array, source: str, target: pa.DataType) -> pa.Array:
    """Change the unit of times or durations, rounding down."""
    try:
        times = array.view(pa.timestamp(source)).cast(pa.timestamp(target.unit))
    except pa.ArrowInvalid:
        step = _PER_SECOND[source] // _PER_SECOND[target.unit]
        if not step:
            raise
        # Arrow's integer division truncates towards zero, which would round up before 1970.
        counts = array.view(pa.int64())
        quotient = pc.divide(counts, step)
        is_over = pc.less(counts, pc.multiply(quotient, step))
        times = pc.subtract(quotient, pc.cast(is_over, pa.int64()))
    return times.view(target)


def _nested(array: pa.Array, target: pa.DataType, column: str) -> pa.Array:
    if array.offset:  # copy a slice, because the code below reads its buffers from the beginning
        array = array.take(pa.array(range(len(array)), pa.int64()))
    validity = array.buffers()[0] if array.null_count else None
    inner = functools.partial(cast_array, column=column)
    if pa.types.is_struct(target):
        children = [inner(_child(array, field.name), field.type) for field in target]
        return pa.Array.from_buffers(target, len(array), [validity], children=children)
    if pa.types.is_map(target):
        pairs = [inner(array.keys, target.key_type), inner(array.items, target.item_type)]
        entries = pa.StructArray.from_arrays(pairs, fields=[target.key_field, target.item_field])
        children, offsets = [entries], array.offsets
    else:
        if pa.types.is_fixed_size_list(array.type):
            return inner(array.cast(pa.list_(array.type.value_type)), target)
        children, offsets = [inner(array.values, target.value_type)], array.offsets
    starts = offsets.cast(pa.int32()).buffers()[1]
    return pa.Array.from_buffers(target, len(array), [validity, starts], children=children)


def _child(array: pa.StructArray, name: str) -> pa.Array:
    # `StructArray.field` ignores the struct's nulls. This is safe, because the caller keeps the
    # struct's validity buffer.
    for index, field in enumerate(array.type):
        if field.name.casefold() == name.casefold():
            return array.field(index)
    raise KeyError(f"no field {name!r} in {array.type}")
